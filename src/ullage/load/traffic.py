"""Traffic from files: request logs, saved profiles, synthetic models."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.bounded import first_bytes
from ullage.errors import InputError
from ullage.evidence import number
from ullage.load.texts import read_json

if TYPE_CHECKING:
    from ullage.files.plan_file import PlanFile, WorkloadSection
    from ullage.planning.spec import ClassDemand
    from ullage.workload.classes import RequestClass
    from ullage.workload.demand.stated import BorrowedLengths
    from ullage.workload.demand.traffic import Traffic
    from ullage.workload.profile.profile import Profile
    from ullage.workload.synthetic.model import SyntheticModel
    from ullage.workload.trace import Trace


def load_traffic(read: PlanFile, folder: Path, as_of: datetime.date, seed: int) -> Traffic | None:
    """The classes of the plan in the traces or the profile it names; nothing where it names none."""
    import numpy as np

    from ullage.load.plan_spec import request_class
    from ullage.load.typed import dated_event
    from ullage.workload.demand.traffic import traffic_of

    workload = read.workload
    if workload.profile is not None:
        found = read_profile(folder / workload.profile)
    elif workload.trace:
        found = profile_traces(
            [folder / each for each in workload.trace],
            columns=workload.columns,
            zone=workload.zone,
            classes=[one for each in workload.classes if (one := request_class(each)).rule is not None],
            as_of=as_of,
        )
    else:
        _refuse_lengths(workload, "stands beside no trace or profile that it could lend lengths to")
        return None
    if not lacks_lengths(found):
        _refuse_lengths(workload, "is not used: the trace has lengths of its own")
    has_calendar = found.coverage.first_time is not None
    borrowed = _borrowed(found, workload, folder, as_of) if lacks_lengths(found) else {}
    traffic = traffic_of(
        found,
        [each.name for each in workload.classes],
        horizon_s=read.policy.value("horizon"),
        percentile_fraction=1.0 - read.policy.value("shortfall"),
        as_of=as_of,
        rng=np.random.default_rng(seed),
        events=[
            dated_event(each.name, each.first, each.until, each.demand, calendar=has_calendar)
            for each in workload.events
        ],
        borrowed=borrowed,
    )
    return traffic.at_rates({each.name: each.rate for each in workload.classes if each.rate is not None})


def grown_traffic(traffic: Traffic | None, demands: Iterable[ClassDemand]) -> Traffic | None:
    """A trace too short to forecast from, at the rates that its classes have grown to since it was written."""
    grown = {each.request_class.name: number(each.mean_rate) for each in demands if each.dated_rate is not None}
    return traffic.at_rates(grown, "what it has grown to since") if traffic is not None and grown else traffic


def _refuse_lengths(workload: WorkloadSection, problem: str) -> None:
    """What is stated is used or refused: an unused log of lengths would be ignored in silence."""
    if workload.lengths:
        fix = "Leave it out, or name it under workload.trace: the rate that a class states then scales it."
        raise InputError(field="workload.lengths", value=workload.lengths[0], problem=problem, fix=fix)


def lacks_lengths(profile: Profile) -> bool:
    """Whether lengths of requests have to come from elsewhere: none are known, or only means of windows."""
    known = profile.whole.lengths
    return known.prompt_tokens is None or known.output_tokens is None or known.are_means


def _borrowed(
    profile: Profile, workload: WorkloadSection, folder: Path, as_of: datetime.date
) -> dict[str, BorrowedLengths]:
    """Lengths of every class from the log that the plan names for them, or from the built-in profile.

    Means that are known, from sums of tokens, are kept: the spread alone is then borrowed.
    """
    from ullage.load.plan_spec import request_class
    from ullage.workload.demand.elsewhere import lengths_of_log, lengths_of_means

    if not workload.lengths:
        return {each.name: lengths_of_means(profile, each.name, each.longest_context) for each in workload.classes}
    log = profile_traces(
        [folder / each for each in workload.lengths],
        classes=[one for each in workload.classes if (one := request_class(each)).rule is not None],
        as_of=as_of,
    )
    if lacks_lengths(log):
        raise InputError(
            field="workload.lengths",
            value=workload.lengths[0],
            problem="has no request lengths",
            fix="Name a request log with prompt and output tokens.",
        )
    return {each.name: lengths_of_log(log, each.name, as_of=as_of) for each in workload.classes}


def profile_traces(
    traces: Sequence[str | Path],
    *,
    columns: Mapping[str, str] | None = None,
    format_name: str | None = None,
    zone: str = "",
    classes: Sequence[RequestClass] = (),
    as_of: datetime.date,
    max_age_s: float | None = None,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> Profile:
    """The profile of the requests in these files, folders or globs; tenants go by their own names."""
    from ullage.readers.traces.open import open_trace
    from ullage.workload.profile.profile import profile_of
    from ullage.workload.profile.quality import MAX_AGE_S
    from ullage.workload.profile.summarise import summarise
    from ullage.workload.profile.windows import summarise_windows
    from ullage.workload.trace import RateTable

    progress(0.0)
    with _counted(traces):
        trace = open_trace([str(each) for each in traces], mapping=columns or None, format_name=format_name, zone=zone)
        progress(0.2)
        summary = summarise_windows(trace) if isinstance(trace, RateTable) else summarise(trace, classes=classes)
        progress(0.9)
        return profile_of(summary, as_of=as_of, max_age_s=MAX_AGE_S if max_age_s is None else max_age_s)


@contextmanager
def _counted(traces: Sequence[str | Path]) -> Iterator[None]:
    """Values that cannot be counted, such as a time of 1e308, are a fault of the log and told with its name."""
    import duckdb

    from ullage.documents import reading

    fix = "Check for impossible numbers, or leave the column out; see docs/reference/trace-formats.md."
    with reading(str(traces[0]) if traces else "trace", fix=fix):
        try:
            yield
        except duckdb.OutOfMemoryException:
            # No fault of the log: whoever runs it says that there is not enough.
            raise MemoryError from None
        except duckdb.Error as error:
            said = str(error).partition("\n")[0][:200]
            problem = f"holds a value that cannot be counted ({said})"
            raise InputError(field="trace", value=str(traces[0]), problem=problem, fix=fix) from None


def open_requests(
    traces: Sequence[str | Path],
    *,
    columns: Mapping[str, str] | None = None,
    zone: str = "",
    field: str,
    problem: str,
    fix: str,
) -> Trace:
    """A trace with one row for each request; one that counts in windows is refused with this problem and fix."""
    from ullage.readers.traces.open import open_trace
    from ullage.workload.trace import RateTable

    trace = open_trace([str(each) for each in traces], mapping=columns or None, zone=zone)
    if isinstance(trace, RateTable):
        raise InputError(field=field, value=str(traces[0]), problem=problem, fix=fix)
    return trace


def read_profile(file: Path) -> Profile:
    """A profile that `ullage profile --save` wrote."""
    from ullage.documents import reading
    from ullage.workload.profile.saved import from_plain

    plain = read_json(file, field="profile", fix="Save it again.")
    if not isinstance(plain, dict):
        raise InputError(field="profile", value=str(file), problem="is not a saved profile", fix="Save it again.")
    with reading(str(file), fix="Save it again."):
        return from_plain(plain, where=file.name)


def is_saved_profile(source: str | Path) -> bool:
    """Whether this is a profile that was saved, and not a trace."""
    from ullage.workload.profile.saved import SCHEMA

    path = Path(source)
    if not path.is_file():
        return False
    return f'"{SCHEMA.partition("/")[0]}/'.encode() in first_bytes(path, 200)


def load_synthetic(file: Path) -> SyntheticModel:
    """What `ullage profile --synthesize` printed, edited or not."""
    from ullage.documents import reading
    from ullage.workload.synthetic.model import from_document

    fix = "Give what ullage profile --synthesize printed."
    document = read_json(file, field="workload.synthetic", fix=fix)
    try:
        if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
            raise InputError(field="workload.synthetic", value=str(file), problem="has no model", fix=fix)
        with reading(str(file), fix=fix):
            return from_document(document["model"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        problem = f"cannot be read: {error}"
        raise InputError(field="workload.synthetic", value=str(file), problem=problem, fix=fix) from None
