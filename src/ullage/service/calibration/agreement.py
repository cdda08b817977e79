"""Several load tests of one configuration: what each says alone, how much it counts, and whether they agree.

A configuration is tested more than once: by two people, with two tools, before and after an update. Each test is
fitted alone and asked for the same two numbers, how long a decode step takes and what a prompt costs, as multiples of
the estimate. Tests whose ranges do not meet disagree: a fit to both would be right about neither, and the reader is
told.

In a common fit a test counts by its age, by its kind and by what is wrong with it, the best of them in full:

- age: half as much for every half-year that a newer test is ahead, because engines, drivers and settings change. A test
  that states no day counts as old as the oldest that does, and at least half a year older than the newest.
- kind: in full where every request was kept with its times; less where only sums are known; least where the engine's
  own clock was read, which sees neither network nor client.
- half where a serious anomaly says that it measured its client or an endless queue.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ullage.evidence import Evidence
from ullage.service.calibration.calibration import Measurement, fit_factors
from ullage.service.calibration.repeats import RepeatTerms, measurement_of
from ullage.service.loadtests.loadtest import LoadTest, Point, SeenBy
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel
from ullage.workload.anomalies import Severity

HALF_LIFE_DAYS = 182.0
# A judgement, not a measurement: sums hide the lengths and arrivals that a trial repeats; an engine's histograms have
# edges instead of numbers, and all of a day's traffic in them.
KIND_WEIGHTS = {"requests": 1.0, "sums": 0.5, "engine": 0.25}
SERIOUS_WEIGHT = 0.5
_SHOWN_SEQUENCES, _SHOWN_KV_TOKENS = 64.0, 64_000.0
_ONE_POINT, _MORE_POINTS = DEFAULT_BANDS[Evidence.PROFILED], DEFAULT_BANDS[Evidence.CALIBRATED]


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """How much one test counts in a common fit, and why."""

    day: datetime.date | None
    kind: str
    weight_fraction: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class LoadTestResult:
    """What one test says alone: decode steps and prompts, as multiples of the estimate, each good to `band_ratio`."""

    file: str
    tool: str
    points: int
    weighing: Weighing
    decode_ratio: float
    prefill_ratio: float
    band_ratio: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Every test that could be repeated, and a sentence for each pair whose ranges do not meet."""

    results: tuple[LoadTestResult, ...]
    disagreements: tuple[str, ...]


def agreement(
    estimate: StepModel, tests: Sequence[LoadTest], terms: RepeatTerms, *, together: Factors | None = None
) -> Agreement:
    """Fit each test alone and compare what they say; a test without a point that can be repeated is left out.

    `together` is a fit to all of them, which for a single test is that test's own.
    """
    alone = together if len(tests) == 1 else None
    results = []
    for test, weighing in zip(tests, weighings(tests), strict=True):
        found = [measurement_of(point, terms) for point in test.points]
        used = [each for each in found if isinstance(each, Measurement)]
        if used:
            results.append(_result(estimate, test, weighing, used, alone))
    return Agreement(results=tuple(results), disagreements=tuple(_disagreements(results)))


def weighings(tests: Sequence[LoadTest]) -> tuple[Weighing, ...]:
    """The weight of each test beside the others; the one that counts most counts in full."""
    days = [day_of(each.run_at) for each in tests]
    known = [each for each in days if each is not None]
    newest, oldest = max(known, default=None), min(known, default=None)
    found = [_weighing(test, day, newest, oldest) for test, day in zip(tests, days, strict=True)]
    most = max((each.weight_fraction for each in found), default=1.0)
    return tuple(replace(each, weight_fraction=each.weight_fraction / most) for each in found)


def _weighing(
    test: LoadTest, day: datetime.date | None, newest: datetime.date | None, oldest: datetime.date | None
) -> Weighing:
    kind = _kind(test.points)
    taken = day or oldest
    behind_days = 0.0 if newest is None or taken is None else float((newest - taken).days)
    if day is None and newest is not None:
        behind_days = max(behind_days, HALF_LIFE_DAYS)
    age_weight = 0.5 ** (behind_days / HALF_LIFE_DAYS)
    serious = sorted(
        {str(each.flag) for point in test.points for each in point.anomalies if each.weight is Severity.SERIOUS}
    )
    reasons = [f"kept {kind}" if kind != "engine" else "the engine's own clock"]
    if behind_days:
        reasons.append(f"{behind_days:.0f} days behind the newest" if day else "states no day")
    reasons += [f"serious: {', '.join(serious)}"] if serious else []
    return Weighing(
        day=day,
        kind=kind,
        weight_fraction=KIND_WEIGHTS[kind] * age_weight * (SERIOUS_WEIGHT if serious else 1.0),
        reason="; ".join(reasons),
    )


def _kind(points: Sequence[Point]) -> str:
    if any(each.seen_by is SeenBy.ENGINE for point in points for each in point.latencies):
        return "engine"
    return "requests" if points and all(point.has_every_request for point in points) else "sums"


def day_of(run_at: str | None) -> datetime.date | None:
    """The day in what a tool writes: 2026-11-15T..., 20261115-..., or seconds since 1970.

    >>> day_of("20251101-120000"), day_of("1746153890"), day_of("yesterday")
    (datetime.date(2025, 11, 1), datetime.date(2025, 5, 2), None)
    """
    if run_at is None:
        return None
    text = run_at.strip()
    found = re.match(r"(\d{4})-?(\d{2})-?(\d{2})(?!\d)", text)
    try:
        if found is not None:
            return datetime.date(*(int(each) for each in found.groups()))
        if re.fullmatch(r"\d{10}(\.\d+)?", text):
            return datetime.datetime.fromtimestamp(float(text), tz=datetime.UTC).date()
    except ValueError:
        return None
    return None


def _result(
    estimate: StepModel, test: LoadTest, weighing: Weighing, used: Sequence[Measurement], known: Factors | None
) -> LoadTestResult:
    factors = known or fit_factors(estimate, estimate.floor, used)
    return LoadTestResult(
        file=test.file,
        tool=test.tool,
        points=len(used),
        weighing=weighing,
        decode_ratio=_decode_ratio(estimate, factors),
        prefill_ratio=factors.prefill_ratio,
        band_ratio=(_ONE_POINT if len(used) == 1 else _MORE_POINTS).slow_ratio,
    )


def _decode_ratio(estimate: StepModel, factors: Factors) -> float:
    sequences, kv = np.array([_SHOWN_SEQUENCES]), np.array([_SHOWN_KV_TOKENS])
    fitted = ScaledStep(times=estimate, factors=factors)
    return float(fitted.decode_s(sequences, kv)[0] / estimate.decode_s(sequences, kv)[0])


def _disagreements(results: Sequence[LoadTestResult]) -> list[str]:
    found = []
    for one, other in combinations(results, 2):
        room = math.log(one.band_ratio) + math.log(other.band_ratio)
        for what, left, right in (
            ("decode steps", one.decode_ratio, other.decode_ratio),
            ("prompts", one.prefill_ratio, other.prefill_ratio),
        ):
            if abs(math.log(left / right)) > room:
                found.append(
                    f"{one.file} and {other.file} disagree: {what} cost {left:.2f} times the estimate by the one and "
                    f"{right:.2f} times by the other, more than their bands of {one.band_ratio:.2f} and "
                    f"{other.band_ratio:.2f} allow. A fit to both fits neither: compare versions, settings and prefix "
                    "hits."
                )
    return found
