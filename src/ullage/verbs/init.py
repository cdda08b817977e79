"""`init`: what a user has in, a commented plan file out."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.execute.run import today

if TYPE_CHECKING:
    from ullage.files.starter import Found, StarterClass
    from ullage.memory.engine_report import EngineMemory
    from ullage.service.loadtests.loadtest import LoadTest, LoadTestSubject
    from ullage.workload.profile.profile import PartProfile, Profile

# Where nothing says how much comes: enough for a first look, and said to be a guess.
_RATE = "10 req/s"
_CONTEXT_TOKENS = 8192
_DEVICE = "h100-sxm"
_CLASS = "requests"
_PARALLEL = (1, 2, 4, 8)
# A replica that holds fewer of its longest requests at once queues on memory alone.
_AT_ONCE = 8


def init(
    *,
    model: str | None = None,
    device: str | None = None,
    traces: Sequence[str | Path] = (),
    profile: str | Path | None = None,
    load_tests: Sequence[str | Path] = (),
    engine_logs: Sequence[str | Path] = (),
    service: str | None = None,
    folder: str | Path = Path(),
    as_of: datetime.date | None = None,
) -> str:
    """The text of a plan file for these traces, load tests, logs and names; paths are written relative to `folder`."""
    from ullage.files.plan_file import read_plan_file
    from ullage.files.starter import Starter, starter_text
    from ullage.load.evidence import load_engine_report
    from ullage.load.evidence import load_tests as load

    day = today(as_of)
    tests = load(list(map(Path, load_tests))) if load_tests else ()
    reports = [load_engine_report([Path(each)], engine="", as_of=day) for each in engine_logs]
    found = _profile(traces, profile, day)
    classes = _classes(found, tests)
    name, chip = _model(model, tests), _device(device, tests)
    parallel = _tensor_parallel(name.value, chip.value, classes, tests)
    starter = Starter(
        service=service or "my service",
        dated=day,
        classes=classes,
        traces=tuple(_relative(each, folder) for each in traces),
        profile=None if profile is None else _relative(profile, folder),
        model=name,
        device=chip,
        tensor_parallel=parallel,
        engine=_engine("engine", tests, reports),
        engine_version=_engine("engine_version", tests, reports),
        load_tests=tuple(_relative(each, folder) for each in load_tests),
        anomalies=_anomalies(load_tests, name.value, chip.value, parallel.value, day),
        engine_logs=tuple(_relative(each, folder) for each in engine_logs),
    )
    text = starter_text(starter)
    # What we write, we can read: a fault here would be ours.
    read_plan_file(text, file="plan.yaml")
    return text


def save_starter(text: str, file: Path, *, force: bool = False) -> None:
    """Write the file whole or not at all, and never over another unless told to."""
    from ullage.files.whole import write_whole

    write_whole(file, text, field="--out", force=force)


# ---- what the files say --------------------------------------------------------------------------------


def _profile(traces: Sequence[str | Path], saved: str | Path | None, day: datetime.date) -> Profile | None:
    from ullage.errors import InputError
    from ullage.load.traffic import profile_traces, read_profile

    if traces and saved is not None:
        fix = "Leave out one of the two."
        raise InputError(field="--profile", value=str(saved), problem="cannot be combined with a trace", fix=fix)
    if saved is not None:
        return read_profile(Path(saved))
    return profile_traces(traces, as_of=day) if traces else None


def _classes(profile: Profile | None, tests: Sequence[LoadTest]) -> tuple[StarterClass, ...]:
    from ullage.files.starter import Found, StarterClass
    from ullage.load.traffic import lacks_lengths

    if profile is not None:
        named = [each for each in profile.groups if each.dimension == "class" and _is_name(each.name)]
        parts = [(each.name, each.profile) for each in named] or [(_CLASS, profile.whole)]
        return tuple(
            StarterClass(
                name=name,
                rate=None,
                longest_context=_longest(part),
                asks_lengths=lacks_lengths(profile),
                asks_cached=profile.reuse is None and part.lengths.cached_prompt_fraction is None,
            )
            for name, part in parts
        )
    points = [point for test in tests for point in test.points]
    tokens = [int((each.mean_prompt_tokens or 0) + (each.mean_output_tokens or 0)) for each in points]
    rates = [each.achieved_rps for each in points if each.achieved_rps]
    where = "decide: not stated; give a trace or a rate"
    rate = Found(value=f"{max(rates):.3g} req/s", where="decide: the highest rate of the load test") if rates else None
    longest = Found(
        value=str(_rounded(max(tokens))) if any(tokens) else str(_CONTEXT_TOKENS),
        where="twice the mean request of the load test" if any(tokens) else "decide: prompt and answer together",
    )
    return (StarterClass(name=_CLASS, rate=rate or Found(value=_RATE, where=where), longest_context=longest),)


def _longest(part: PartProfile) -> Found:
    from ullage.files.starter import Found

    known = [each for each in (part.lengths.prompt_tokens, part.lengths.output_tokens) if each is not None]
    if not known or part.lengths.are_means:
        # The longest mean of a window is no request's length.
        return Found(value=str(_CONTEXT_TOKENS), where="decide: the trace has no lengths of requests")
    tokens = int(sum(each.values[-1] for each in known))
    return Found(value=str(_rounded(tokens, times=1)), where="the longest prompt and the longest answer of the trace")


def _rounded(tokens: int, *, times: int = 2) -> int:
    """The next multiple of 1,024 above so many times the tokens: the load test's mean is not its longest request."""
    return max(1, -(-tokens * times // 1024)) * 1024


def _model(stated: str | None, tests: Sequence[LoadTest]) -> Found:
    from ullage.errors import InputError
    from ullage.facts.model_sheet import find_model
    from ullage.files.starter import Found
    from ullage.load.names import load_catalogue, load_model

    if stated is not None:
        load_model(stated)
        return Found(value=stated, where="")
    for each in (point.subject.model for test in tests for point in test.points):
        if each is not None:
            try:
                # A path in it is one of the machine that was tested.
                known = find_model(each, load_catalogue("models")).name
                return Found(value=known, where=f"the load test says {each}")
            except InputError:
                continue
    fix = "Give --model NAME (ullage facts models), or the path of its config.json."
    raise InputError(field="--model", value=None, problem="is not stated in any of the files", fix=fix)


def _device(stated: str | None, tests: Sequence[LoadTest]) -> Found:
    from ullage.errors import InputError
    from ullage.facts.device import find_device
    from ullage.files.starter import Found

    if stated is not None:
        return Found(value=find_device(stated, field="--device").name, where="")
    for each in (point.subject.hardware for test in tests for point in test.points):
        if each is not None:
            try:
                return Found(value=find_device(each).name, where=f"the load test says {each}")
            except InputError:
                continue
    return Found(value=_DEVICE, where="decide: not stated; ullage facts devices lists them")


def _tensor_parallel(model: str, device: str, classes: Sequence[StarterClass], tests: Sequence[LoadTest]) -> Found:
    """As the load test ran, or the least that holds a few requests of the longest context at once."""
    from ullage.errors import Rejection
    from ullage.evidence import Source
    from ullage.facts.device import find_device
    from ullage.files.starter import Found
    from ullage.load.names import load_model
    from ullage.memory.budget import memory_budget
    from ullage.memory.case import Approved
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding

    for each in (_tested_tp(point.subject) for test in tests for point in test.points):
        if each is not None:
            return Found(value=str(each), where="as the load test ran")
    longest = max(int(each.longest_context.value) for each in classes)
    source = Source(what="a first try", where="ullage init", date=datetime.date(2026, 11, 15))
    chip, what = find_device(device), load_model(model)
    for tp in _PARALLEL:
        settings = RuntimeSettings(source=source, sharding=Sharding(tp=tp), max_context_tokens=longest)
        try:
            budget = memory_budget(what, chip, settings, approved=Approved(context_tokens=longest, sequences=_AT_ONCE))
        except ValueError:
            continue
        if not isinstance(budget, Rejection):
            least = f"the smallest that holds {_AT_ONCE} requests of the longest context"
            return Found(value=str(tp), where=f"decide: the load test does not say; {least}" if tests else least)
    return Found(value=str(_PARALLEL[-1]), where="decide: does not fit eight devices; ullage memory says why")


def _anomalies(files: Sequence[str | Path], model: str, device: str, tp: str, day: datetime.date) -> tuple[str, ...]:
    """What a fit to the load tests would say against them on this replica; a refusal among it."""
    from ullage.errors import InputError
    from ullage.verbs.calibrate_fit import fit_calibration

    if not files:
        return ()
    try:
        fitted = fit_calibration(files, model=model, device=device, tp=int(tp), as_of=day)
    except InputError as error:
        return (str(error),)
    return tuple(each.sentence for each in fitted.anomalies)


def _tested_tp(subject: LoadTestSubject) -> int | None:
    """The tensor parallelism that a file states, or the devices that it states for one replica of one stage."""
    if subject.tp is not None or subject.devices is None:
        return subject.tp
    return max(1, subject.devices // ((subject.replicas or 1) * (subject.pp or 1)))


def _engine(what: str, tests: Sequence[LoadTest], reports: Sequence[EngineMemory | None]) -> Found | None:
    from ullage.files.starter import Found

    said = [
        (getattr(each, "version" if what == "engine_version" else "engine"), "the engine's log")
        for each in reports
        if each
    ]
    said += [(getattr(point.subject, what), "the load test") for test in tests for point in test.points]
    return next((Found(value=value, where=f"{who} says so") for value, who in said if value), None)


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9-]*", name) is not None


def _relative(path: str | Path, folder: str | Path) -> str:
    """The path as seen from the folder that the plan file lies in."""
    return os.path.relpath(path, folder)
