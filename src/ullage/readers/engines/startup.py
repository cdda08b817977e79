"""How long an engine took to start: from its log, or from the result of `vllm bench startup`.

    vLLM     Model loading took .. seconds · torch.compile took .. s · Graph capturing finished in .. secs ·
             init engine (..) took .. s; boot is the rest between the first line and the server's
    SGLang   Load weight end. elapsed=.. s · Capture .. graph end. elapsed=.. s; boot is the rest

Ranks work side by side, so a phase takes what its slowest rank says. A log may hold several starts: each that says
how long something took is one; what a start that broke off does not say is left out.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ullage.documents import reading
from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.engine_report import Rank
from ullage.readers.engines import sglang, vllm
from ullage.readers.engines.lines import LogFormat, line_values, rank_of, recognises, rule
from ullage.readers.engines.text import log_text
from ullage.startup.phases import Phase
from ullage.startup.settings import MeasuredStart

# Groups are named as in lines.py; `n` is the unit that is taken as it stands, here seconds.
_VLLM = dataclasses.replace(
    vllm.LOG,
    rules=(
        # The CPU backend prints only the first; where both are printed, the second contains the first.
        rule("Loading weights took", r"Loading weights took (?P<weights__n>NUM) sec"),
        rule("Model loading took", r"Model loading took NUM Gi?B (?:memory )?and (?P<weights__n>NUM) sec"),
        rule("torch.compile t", r"torch\.compile (?:takes|took) (?P<compile__n>NUM) s in total"),
        rule("Graph capturing finished", r"Graph capturing finished in (?P<graphs__n>NUM) sec"),
        rule("init engine (", r"init engine \([^)]*\) took (?P<engine__n>NUM) s"),
    ),
)
_SGLANG = dataclasses.replace(
    sglang.LOG,
    rules=(
        rule("Load weight end", r"Load weight end\. elapsed=(?P<weights__n>NUM) s"),
        # A draft model and prefill are captured one after the other, so their times add up.
        rule("graph end.", r"Capture .*graph end\. (?:Time elapsed: |elapsed=)(?P<graphs__n>NUM) s", adds=True),
    ),
)
_LOGS = (_VLLM, _SGLANG)

_STAMP = re.compile(r"(?<!\d)(?:\d{4}-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?!\d)")
_CACHE_USED = re.compile(r"Directly load (?:the compiled graph|AOT compilation)")
# A start that finds the compiled graph but not the traced function around it saves the latter, and is hardly faster.
_CACHE_MISSED = re.compile(r"Compiling a graph for |saved AOT compiled function")
_EAGER = re.compile(r"Enforce eager set|'enforce_eager': True|\bdisable_cuda_graph=True")
_CAPTURED = re.compile(r"Capture (.*)graph end")
_LOADING = re.compile(r"Load weight (begin|end)\.")


def read_starts(paths: Sequence[Path], *, date: datetime.date) -> tuple[MeasuredStart, ...]:
    """Every start that these files tell of. `date` is the day they are of, since many logs state no year."""
    found: list[MeasuredStart] = []
    for path in paths:
        with reading(path.name, fix="Give the log as the engine wrote it."):
            found += read_start_file(log_text(path), file=path.name, date=date)
    return tuple(found)


def read_start_file(text: str, *, file: str, date: datetime.date) -> tuple[MeasuredStart, ...]:
    """The starts in one file, at least one; a file that tells of none is an InputError."""
    if text.lstrip().startswith("{"):
        return _read_bench(text, file=file, date=date)
    log = next((each for each in _LOGS if recognises(each, text)), None)
    if log is None:
        raise InputError(
            field=file,
            value=text[:60],
            problem="is neither a start-up log of vLLM or SGLang nor a result of vllm bench startup",
            fix="Give a log from the engine's start on, of INFO level, or the file of --output-json.",
        )
    starts = _read_log(log, text, file=file, date=date)
    if not starts:
        raise InputError(
            field=file,
            value=log.title,
            problem="does not say how long any phase of a start took",
            fix=log.fix,
        )
    return starts


# ---- logs ---------------------------------------------------------------------------------------------


class _StartLines:
    """Values reported from one start of the engine until it was ready."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.seconds: dict[str, dict[tuple[Rank, str], float]] = {}
        self.first: datetime.datetime | None = None
        self.last: datetime.datetime | None = None
        self.loading: list[datetime.datetime] = []
        self.is_ready = False
        self.used_cache = False
        self.missed_cache = False
        self.is_eager = False

    def take(self, log: LogFormat, line: str) -> None:
        stamp = _stamp(line)
        if stamp is not None:
            self.first = self.first or stamp
            self.last = stamp
            if _LOADING.search(line):
                self.loading.append(stamp)
        self.used_cache = self.used_cache or _CACHE_USED.search(line) is not None
        self.missed_cache = self.missed_cache or _CACHE_MISSED.search(line) is not None
        self.is_eager = self.is_eager or _EAGER.search(line) is not None
        values, adds = line_values(log, line)
        part = captured[1] if adds and (captured := _CAPTURED.search(line)) else ""
        for quantity, value in values.items():
            self.seconds.setdefault(quantity, {})[rank_of(log, line), part] = value
        self.is_ready = log.ready.search(line) is not None

    def slowest(self, quantity: str) -> float | None:
        """What the slowest rank says, its parts (graphs of a draft model beside the model's) added up."""
        by_rank: dict[Rank, float] = {}
        for (rank, _), value in self.seconds.get(quantity, {}).items():
            by_rank[rank] = by_rank.get(rank, 0.0) + value
        return max(by_rank.values(), default=None)

    @property
    def elapsed_s(self) -> float | None:
        """First line to ready; unknown for a start that broke off, and over New Year, where no line has a year."""
        if not self.is_ready or self.first is None or self.last is None or self.last < self.first:
            return None
        return (self.last - self.first).total_seconds()


def _read_log(log: LogFormat, text: str, *, file: str, date: datetime.date) -> tuple[MeasuredStart, ...]:
    starts, version = [_StartLines(1)], ""
    for number, line in enumerate(text.splitlines(), 1):
        # Several processes print the banner of one start: a new one begins only after something was timed.
        if log.start.search(line) and (starts[-1].seconds or starts[-1].is_ready):
            starts.append(_StartLines(number))
        if not version and (named := log.version.search(line)):
            version = named[1]
        if not starts[-1].is_ready:
            starts[-1].take(log, line)
    title = f"{log.title} {version}".rstrip()
    phases = _vllm_phases if log is _VLLM else _sglang_phases
    return tuple(
        MeasuredStart(
            engine=log.engine,
            version=version,
            phases=found,
            source=Source(what=f"{title} start-up log", where=f"{file}:{start.line}", date=date),
        )
        for start in starts
        if (found := phases(start))
    )


def _vllm_phases(start: _StartLines) -> dict[Phase, float]:
    weights, compiling, graphs = (start.slowest(each) for each in ("weights", "compile", "graphs"))
    engine, elapsed = start.slowest("engine"), start.elapsed_s
    cached = start.used_cache and not start.missed_cache
    found = {
        Phase.WEIGHTS: weights,
        Phase.COMPILE_CACHED if cached else Phase.COMPILE: compiling,
        Phase.GRAPHS: graphs,
        Phase.WARMUP: None if engine is None else max(engine - (compiling or 0.0) - (graphs or 0.0), 0.0),
        Phase.BOOT: _rest(elapsed, weights, engine),
    }
    if start.is_eager and start.seconds:
        found |= {Phase.COMPILE: 0.0, Phase.COMPILE_CACHED: 0.0, Phase.GRAPHS: 0.0}
    return {phase: value for phase, value in found.items() if value is not None}


def _sglang_phases(start: _StartLines) -> dict[Phase, float]:
    weights, graphs = start.slowest("weights"), start.slowest("graphs")
    if weights is None and len(start.loading) > 1:  # versions that do not say how long: last end less first begin
        weights = max((start.loading[-1] - start.loading[0]).total_seconds(), 0.0)
    if start.is_eager:
        graphs = 0.0
    found = {
        Phase.WEIGHTS: weights,
        Phase.GRAPHS: graphs,
        Phase.BOOT: _rest(start.elapsed_s, weights, graphs or 0.0),
    }
    return {phase: value for phase, value in found.items() if value is not None} if weights is not None else {}


def _rest(elapsed_s: float | None, *parts_s: float | None) -> float | None:
    """What is left of a start once its timed parts are taken out; clocks that print whole seconds may leave less."""
    known = [each for each in parts_s if each is not None]
    if elapsed_s is None or len(known) < len(parts_s):
        return None
    return max(elapsed_s - sum(known), 0.0)


def _stamp(line: str) -> datetime.datetime | None:
    found = _STAMP.search(line[:120])
    if found is None:
        return None
    month, day, hour, minute, second = (int(each) for each in found.groups())
    try:
        # A leap year, so that 29 February is a day; only differences are used.
        return datetime.datetime(2000, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return None


# ---- vllm bench startup -------------------------------------------------------------------------------


_LONGEST_S = 1e7  # four months: beyond it a number is no start-up time, nor is infinity or NaN


def _read_bench(text: str, *, file: str, date: datetime.date) -> tuple[MeasuredStart, ...]:
    """Each run of the result is a start: its compilation, and the engine's whole start less that."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            field=file, value=str(error), problem="is not whole JSON", fix="Give the file as it was written."
        ) from None
    source = Source(what="vllm bench startup", where=file, date=date)
    starts = [
        MeasuredStart(
            engine="vllm", version="", phases={phase: compiling, Phase.ENGINE: whole - compiling}, source=source
        )
        for state, phase in (("cold", Phase.COMPILE), ("warm", Phase.COMPILE_CACHED))
        for whole, compiling in _runs(content, state, file)
    ]
    if not starts:
        raise InputError(
            field=file,
            value=sorted(content)[:6],
            problem="is not a result of vllm bench startup",
            fix="Give the file that --output-json named; it holds cold_startup_times.",
        )
    return tuple(starts)


def _runs(content: Mapping[str, Any], state: str, file: str) -> list[tuple[float, float]]:
    whole, compiling = (_times(content, f"{state}_{what}_times", file) for what in ("startup", "compilation"))
    if len(whole) != len(compiling):
        raise InputError(
            field=f"{file}: {state}_compilation_times",
            value=len(compiling),
            problem=f"does not match the {len(whole)} start-up times",
            fix="Give the file as it was written.",
        )
    for each, part in zip(whole, compiling, strict=True):
        if part > each:
            raise InputError(
                field=f"{file}: {state}_compilation_times",
                value=part,
                problem=f"is longer than the start of {each:g} s that it is part of",
                fix="Give the file as it was written.",
            )
    return list(zip(whole, compiling, strict=True))


def _times(content: Mapping[str, Any], key: str, file: str) -> list[float]:
    found = content.get(key, [])
    numbers = isinstance(found, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each < _LONGEST_S for each in found
    )
    if not numbers:
        raise InputError(
            field=f"{file}: {key}", value=found, problem="is not a list of seconds", fix="Give the file as written."
        )
    return [float(each) for each in found]
