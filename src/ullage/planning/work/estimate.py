"""How much work a plan is, before it is done: CPU time and memory from counts that the specification has.

    window   requests of the window that is simulated most: rate x its length, at most those of the largest sub-pool
    CPU      for each pool: a constant + so much a class + so much a request of a window; for a verb that takes several
             plans, so many times that; for one that plays days, so much a request of every day
    memory   a constant + so much a class and window that is remembered + so much a request of a window or of a day

The factors are fits to the times in bench/RESULTS.md and err by a third; a ceiling is there to stop hours, not to
schedule minutes. What is over it is refused with the estimate, before anything is simulated.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.planning.spec import PlanSpec
from ullage.planning.work.limit import WorkLimit

_TIMES = Source(
    what="CPU times of plans of 1 to 50 classes, 1 to 20 pools and 3 to 2,000 req/s on two shared cores",
    where="bench/RESULTS.md",
    date=datetime.date(2026, 11, 16),
)


def _factor(name: str, value: float, unit: str) -> Assumption:
    return Assumption(
        name=f"work.{name}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=_TIMES,
        low=value / 2.0,
        high=value * 2.0,
    )


POOL_S = _factor("cpu_of_pool", 4.0, "s")
CLASS_S = _factor("cpu_of_class", 1.9, "s")
REQUEST_S = _factor("cpu_of_window_request", 1.4e-4, "s")
PLAYED_S = _factor("cpu_of_played_request", 1.0e-6, "s")
PLAYED_BYTES = _factor("memory_of_played_request", 200.0, "bytes")
START_BYTES = _factor("memory_of_start", 4e8, "bytes")
WINDOW_BYTES = _factor("memory_of_class_window", 1.5e5, "bytes")
REQUEST_BYTES = _factor("memory_of_window_request", 500.0, "bytes")

_WINDOW_S = 1024.0
# A window of the busiest hour at the planning percentile has about this many times the mean's requests.
_BUSY_RATIO = 2.3
_LARGEST_WINDOW_REQUESTS = 4e5
_DAY_S = 86_400.0
# The busiest day at the planning percentile has about this many times the mean's requests.
_BUSY_DAY_RATIO = 1.5
STUDY_ROUNDS = 0.5
"""A study of the risk around a plan, in plans."""
_REMEMBERED_WINDOWS = 1024
_LEAST_REMEMBERED = 64


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to come."""

    cpu: Figure
    memory: Figure


def estimate_work(spec: PlanSpec, *, rounds: float = 1.0, played_days: float = 0.0) -> Work:
    """The work of planning this; `rounds` is how many times that a command takes, and `played_days` how many days of
    traffic it simulates besides."""
    seconds, most_classes, largest, played = 0.0, 1, 0.0, 0.0
    for pool in spec.pools:
        served = spec.served_by(pool.name)
        rate_rps = sum(number(each.mean_rate) for each in served)
        requests = min(rate_rps * _BUSY_RATIO * _WINDOW_S, _LARGEST_WINDOW_REQUESTS)
        seconds += number(POOL_S) + len(served) * number(CLASS_S) + requests * number(REQUEST_S)
        most_classes, largest = max(most_classes, len(served)), max(largest, requests)
        played = max(played, rate_rps * _BUSY_DAY_RATIO * _DAY_S)
    remembered = max(_REMEMBERED_WINDOWS, _LEAST_REMEMBERED * most_classes)
    rates = tuple(each.mean_rate for each in spec.demands)
    in_all = _BUSY_DAY_RATIO * _DAY_S * sum(number(each) for each in rates)
    days = f" + {played_days:g} days x requests of a day x played request" if played_days else ""
    held_bytes = played * number(PLAYED_BYTES) if played_days else 0.0
    return Work(
        cpu=Figure(
            name="work.cpu_s",
            value=rounds * seconds + played_days * in_all * number(PLAYED_S),
            unit="s",
            formula=f"{rounds:g} x sum over {len(spec.pools)} pools of pool + classes x class + window x request{days}",
            inputs=(POOL_S, CLASS_S, REQUEST_S, *([PLAYED_S] if played_days else []), *rates),
        ),
        memory=Figure(
            name="work.memory_bytes",
            value=number(START_BYTES)
            + remembered * number(WINDOW_BYTES)
            + largest * number(REQUEST_BYTES)
            + held_bytes,
            unit="bytes",
            formula=f"start + {remembered} windows of a class x window + requests of a window x request"
            + (" + requests of a day x played request" if played_days else ""),
            inputs=(START_BYTES, WINDOW_BYTES, REQUEST_BYTES, *([PLAYED_BYTES] if played_days else []), *rates),
        ),
    )


def over_limit(spec: PlanSpec, limit: WorkLimit, *, rounds: float = 1.0, played_days: float = 0.0) -> Rejection | None:
    """The refusal of work that would exceed the limit, with the estimate; None where it fits."""
    work = estimate_work(spec, rounds=rounds, played_days=played_days)
    cpu_s, memory_bytes = number(work.cpu), number(work.memory)
    over = []
    if cpu_s > limit.cpu_s:
        over.append((work.cpu, f"{_time(cpu_s)} of CPU, with {_time(limit.cpu_s)} allowed"))
    if memory_bytes > limit.memory_bytes:
        over.append((work.memory, f"{_gib(memory_bytes)} of memory, with {_gib(limit.memory_bytes)} allowed"))
    if not over:
        return None
    classes = max(len(spec.served_by(each.name)) for each in spec.pools)
    said = f"--limit cpu={max(1.0, 1.5 * cpu_s / 60.0):.0f}min,memory={max(1.0, 1.5 * memory_bytes / 2**30):.0f}GiB"
    return Rejection(
        stage="work to come",
        reason=f"{len(spec.pools)} pool(s) with up to {classes} class(es) are estimated to take "
        f"{' and '.join(sentence for _, sentence in over)}",
        figure=over[0][0],
        remedies=(
            Remedy(change=said, effect="the run is allowed"),
            Remedy(change="classes with the same SLO and shape merged", effect="less time and memory"),
            Remedy(change="a plan file for each group of pools", effect="less time per run"),
        ),
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600.0 else f"{seconds / 60.0:.0f} min"


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.3g} GiB"
