"""What the log readers share: a table of patterns, who is speaking, starts, and memory that ran out.

A pattern's named groups say what they hold: `(?P<weights__gib>...)` is the quantity `weights` in GiB. Two
groups of one quantity (`kv_cache__gib__k`, `kv_cache__gib__v`) are added. Within one start of the engine the
last line of a rank counts, except where a rule says that lines add up (two cache pools, two graph captures).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.engine_report import EngineMemory, OomEvent, OomKind, Rank, Reading, engine_memory, reading

NUMBER = r"[\d,]*\.?\d+"

_SCALES = {
    "bytes": 1.0,
    "mb": 1e6,
    "gb": 1e9,
    "mib": 2.0**20,
    "gib": 2.0**30,
    "n": 1.0,
    "percent": 0.01,
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One kind of line. `hint` is a part of it that a quick search finds; `adds` says that lines add up."""

    hint: str
    pattern: re.Pattern[str]
    adds: bool = False


def rule(hint: str, pattern: str, *, adds: bool = False) -> Rule:
    """A rule; in the pattern, `NUM` inside a named group stands for a number with thousands marks."""
    return Rule(hint=hint, pattern=re.compile(pattern.replace("NUM", NUMBER)), adds=adds)


@dataclass(frozen=True, kw_only=True)
class LogFormat:
    """Everything that tells one engine's log from another's and reads it.

    `signs` recognises the log, `rank` finds a line's tag, `start`, `version` and `ready` their moments;
    `marks` are parts of those three that a quick search finds.
    """

    engine: str
    title: str
    rules: tuple[Rule, ...]
    rank: re.Pattern[str]
    start: re.Pattern[str]
    version: re.Pattern[str]
    ready: re.Pattern[str]
    marks: tuple[str, ...]
    signs: re.Pattern[str]
    fix: str


CAPACITY = ("kv_tokens", "kv_blocks", "kv_cache")
"""A start-up log that states none of these ended before the engine was up, or is no start-up log."""


def recognises(log: LogFormat, text: str) -> bool:
    return log.signs.search(text) is not None


def line_values(log: LogFormat, line: str) -> tuple[dict[str, float], bool]:
    """The quantities that one line states, and whether they add to those of earlier lines."""
    for each in log.rules:
        if each.hint in line:
            found = each.pattern.search(line)
            if found is not None:
                return _values(found), each.adds
    return {}, False


def read_log(log: LogFormat, text: str, *, file: str, date: datetime.date) -> EngineMemory:
    """Read a whole log; an engine that was restarted speaks with its last start that says anything."""
    starts = _Starts(log=log, file=file, date=date)
    hints = (*(each.hint for each in log.rules), *log.marks, *_OOM_HINTS, *_FAILED_HINTS)
    for number, line in enumerate(text.splitlines(), 1):
        # Most of a log is requests; a substring search passes over them many times faster than the patterns.
        if any(hint in line for hint in hints):
            starts.take(number, line)
    return starts.reported()


class _LogStart:
    """Values reported from one start of the engine to the next."""

    def __init__(self) -> None:
        self.readings: dict[tuple[str, Rank], Reading] = {}
        self.is_ready = False
        self.failed = ""


class _Starts:
    """Takes a log line by line; `reported()` is what it states in the end."""

    def __init__(self, *, log: LogFormat, file: str, date: datetime.date) -> None:
        self.log = log
        self.file = file
        self.date = date
        self.version = ""
        self.starts = [_LogStart()]
        self.restarts: list[Source] = []
        self.ooms: dict[str, OomEvent] = {}
        self.seen: set[str] = set()

    def take(self, number: int, line: str) -> None:
        self._mark_start(number, line)
        current = self.starts[-1]
        if not current.failed and (failed := _FAILED.search(line)):
            current.failed = f"line {number}: {failed[1][:_SHOWN_OF_A_FAILURE]}"
        current.is_ready = current.is_ready or self.log.ready.search(line) is not None
        if not self.version and (found := self.log.version.search(line)):
            self.version = found[1]
        event = oom_event(line, self._source(number, Rank()), while_serving=current.is_ready)
        if event is not None:
            # Every rank and every frame of a traceback repeats the message; the message is the event.
            self.ooms.setdefault(f"{len(self.starts)} {_message(line)}", event)
        values, adds = line_values(self.log, line)
        if adds and line in self.seen:
            return  # a collector that kept both streams repeats lines; what adds up must not count twice
        if adds:
            self.seen.add(line)
        if values:
            self._keep(current, values, rank_of(self.log, line), number, adds=adds)

    def _mark_start(self, number: int, line: str) -> None:
        # Several processes may print the banner of one start: a new one begins only after something was reported.
        has_reported = self.starts[-1].readings or len(self.ooms) > 0
        if self.log.start.search(line) and has_reported:
            self.starts.append(_LogStart())
            self.seen.clear()
            self.restarts.append(self._source(number, Rank()))

    def _keep(self, start: _LogStart, values: Mapping[str, float], rank: Rank, number: int, *, adds: bool) -> None:
        for quantity, value in values.items():
            if quantity == "kv_cache" and not value and values.get("kv_tokens"):
                continue  # TensorRT-LLM's AutoDeploy allocates the pool itself, and the executor prints 0.00 GiB of it
            before = start.readings.get((quantity, rank))
            total = value if before is None else _with_earlier(quantity, value, before, adds=adds)
            if not math.isfinite(total):
                raise InputError(
                    field=f"{self.file}:{number}",
                    value=total,
                    problem=f"states a {quantity} that no engine has",
                    fix="The line may be damaged: take the log again, or remove the line.",
                )
            start.readings[quantity, rank] = reading(quantity, total, rank, self._source(number, rank))

    def reported(self) -> EngineMemory:
        last = next((start for start in reversed(self.starts) if start.readings), self.starts[-1])
        stated = {quantity for quantity, _ in last.readings}
        if not stated.intersection(CAPACITY) and not self.ooms:
            problem = f"this {self.log.title} log ends before the engine states its KV cache"
            if last.failed:
                problem += f"; the engine failed at {last.failed}"
            fix = "Give the log of a start that succeeded." if last.failed else self.log.fix
            raise InputError(field=self.file, value=f"{len(stated)} memory figures", problem=problem, fix=fix)
        return engine_memory(
            engine=self.log.engine,
            version=self.version,
            readings=list(last.readings.values()),
            oom_events=self.ooms.values(),
            restarts=self.restarts,
        )

    def _source(self, number: int, rank: Rank) -> Source:
        who = f", rank {rank}" if str(rank) else ""
        name = f"{self.log.title} {self.version}".rstrip()
        return Source(what=f"{name} log{who}", where=f"{self.file}:{number}", date=self.date)


def _with_earlier(quantity: str, value: float, before: Reading, *, adds: bool) -> float:
    """What a rank has reported of a quantity, once a further line of the same start is read."""
    earlier = before.figure.value
    assert not isinstance(earlier, str), quantity
    # What was free before the first of several models was loaded is what the start had.
    if quantity in ("kv_usage", "free_at_start"):
        return max(value, earlier)
    if not adds:
        return value
    # The further pool is that of a draft model or of a window; requests fill the first.
    return earlier if quantity == "kv_tokens" else value + earlier


def rank_of(log: LogFormat, line: str) -> Rank:
    """Who prints this line, from its tag; a line without one is the replica's."""
    found = log.rank.search(line)
    if found is None:
        return Rank()
    tags = dict(re.findall(r"(DP|TP|PP|EP)(\d+)", found[0]))
    within = " ".join(f"{key}{tags[key]}" for key in ("PP", "TP") if key in tags)
    if not tags:
        other = re.search(r"rank=(\d+)|RANK (\d+)|(?:VllmWorkerProcess|RayWorker\w*) pid=(\d+)|\[\d+,(\d+)\]", found[0])
        within = f"rank {next(part for part in other.groups() if part)}" if other else ""
    return Rank(dp=tags.get("DP", ""), within=within)


def _values(found: re.Match[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, text in found.groupdict().items():
        if text is not None:
            quantity, unit = name.split("__")[:2]
            values[quantity] = values.get(quantity, 0.0) + float(text.replace(",", "")) * _SCALES[unit]
    return values


# ---- memory that ran out ------------------------------------------------------------------------------

_OOMS: Sequence[tuple[OomKind, re.Pattern[str]]] = (
    (OomKind.DEVICE, re.compile(r"(?:CUDA|HIP|NPU|XPU) out of memory|OutOfMemoryError|CUDA error: out of memory")),
    (OomKind.KV, re.compile(r"No available memory for the cache blocks")),
    (
        OomKind.KV,
        re.compile(r"larger than the (?:available KV cache memory|maximum number of tokens that can be stored)"),
    ),
    (OomKind.KV, re.compile(r"Not enough memory\. Please try to increase --mem-fraction-static")),
    (OomKind.HOST, re.compile(r"OOMKilled|oom-kill|Out of memory: Killed process|exit(?:ed)? (?:with )?code:? 137\b")),
)
_OOM_HINTS = ("emory", "OOMKilled", "oom-kill", "137", "larger than the")
# The last line of a traceback: the exception by its name, and what it says.
_FAILED = re.compile(r"((?:\w+\.)*\w*(?:Error|Exception): .+)")
_FAILED_HINTS = ("Error: ", "Exception: ")
_SHOWN_OF_A_FAILURE = 120
_TRIED = re.compile(r"Tried to allocate ([\d.]+) (GiB|MiB)")
_FREE = re.compile(r"([\d.]+) (GiB|MiB) (?:is )?free")


def oom_event(line: str, source: Source, *, while_serving: bool) -> OomEvent | None:
    """The event a line reports, if it reports one; the shortfall is what was asked for less what was free."""
    kind = next((kind for kind, pattern in _OOMS if pattern.search(line)), None)
    if kind is None:
        return None
    tried, free = _TRIED.search(line), _FREE.search(line)
    shortfall = None
    if tried and free:
        asked, left = (float(found[1]) * _SCALES[found[2].lower()] for found in (tried, free))
        shortfall = max(0, round(asked - left))
    return OomEvent(kind=kind, while_serving=while_serving, source=source, shortfall_bytes=shortfall)


def _message(line: str) -> str:
    """The part of an error line that repetitions share: from the text of the error on, without process ids."""
    found = re.search(r"(?:torch\.|cuda\.)*OutOfMemoryError.*|out of memory.*|No available memory.*", line)
    return re.sub(r"(GPU|Process) \d+", r"\1", found[0]) if found else line
