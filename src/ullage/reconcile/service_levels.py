"""SLOs targeted and met, and hours in which they were not: from buckets, so that the answer may be that nobody knows.

Engines count latencies of all classes together. An SLO of one class is surely met where even the strictest limit on
that latency is, and surely violated where even the loosest is not; between the two it cannot be told.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.expectation import Expectation, ExpectedSlo
from ullage.reconcile.observation import Observation, ObservedQuantity

_LATENCIES = {
    "ttft": ObservedQuantity.TTFT,
    "tpot": ObservedQuantity.TPOT,
    "itl": ObservedQuantity.ITL,
    "e2e": ObservedQuantity.E2E,
}
# An hour with fewer requests than this says nothing about a percentile.
_LEAST_REQUESTS = 50.0
HOUR_S = 3600.0


class Attained(enum.StrEnum):
    """Whether an SLO was met."""

    MET = "met"
    VIOLATED = "violated"
    UNDECIDED = "cannot be told"


@dataclass(frozen=True, kw_only=True)
class SloObserved:
    """One SLO of one class over the whole stretch: where its percentile lies, and the share beyond its limit."""

    class_name: str
    slo: str
    limit_s: float
    low_s: float | None
    high_s: float | None
    beyond_low_fraction: float | None
    beyond_high_fraction: float | None
    attained: Attained


@dataclass(frozen=True, kw_only=True)
class ShortfallHours:
    """Hours that were looked at, that surely violated an SLO, and that cannot be told; and those above the plan."""

    hours: float
    violated_hours: float
    undecided_hours: float
    above_plan_hours: float


def slos_observed(expected: Expectation, seen: Observation) -> tuple[SloObserved, ...]:
    """Every SLO of every class over the stretch."""
    found = []
    for each in expected.classes:
        for slo in each.slos:
            quantity, buckets = _LATENCIES[slo.metric], None
            buckets = seen.latency(quantity)
            if buckets is None and quantity is ObservedQuantity.TPOT:
                # The mean gap between tokens stands in for the mean per request where engines have only that.
                buckets = seen.latency(ObservedQuantity.ITL)
            found.append(_observed(each.name, slo, buckets, _rivals(expected, slo)))
    return tuple(found)


def _rivals(expected: Expectation, slo: ExpectedSlo) -> tuple[float, float]:
    """The strictest and the loosest limit that any class has on this percentile or a stricter one."""
    limits = [
        one.limit_s
        for each in expected.classes
        for one in each.slos
        if one.metric == slo.metric and one.percentile_fraction == slo.percentile_fraction
    ]
    return min(limits), max(limits)


def _observed(name: str, slo: ExpectedSlo, buckets: BucketCounts | None, limits: tuple[float, float]) -> SloObserved:
    quantile = None if buckets is None else buckets.quantile_s(slo.percentile_fraction)
    beyond = None if buckets is None else buckets.above_fraction(slo.limit_s)
    return SloObserved(
        class_name=name,
        slo=slo.name,
        limit_s=slo.limit_s,
        low_s=None if quantile is None else quantile.low,
        high_s=None if quantile is None else quantile.high,
        beyond_low_fraction=None if beyond is None else beyond.low,
        beyond_high_fraction=None if beyond is None else beyond.high,
        attained=_attained(buckets, 1.0 - slo.percentile_fraction, limits),
    )


def _attained(buckets: BucketCounts | None, allowed_fraction: float, limits: tuple[float, float]) -> Attained:
    if buckets is None:
        return Attained.UNDECIDED
    strict, loose = (buckets.above_fraction(each) for each in limits)
    if strict is not None and strict.high <= allowed_fraction:
        return Attained.MET
    if loose is not None and loose.low > allowed_fraction:
        return Attained.VIOLATED
    return Attained.UNDECIDED


def shortfall_hours(expected: Expectation, seen: Observation) -> ShortfallHours:
    """Steps by step: an SLO surely violated, or that cannot be told; and demand beyond the planning rate."""
    import numpy as np

    states = [_step_state(expected, seen, at) for at in range(seen.steps)]
    hours = seen.step_s / HOUR_S
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    # Demand is planned by the hour: shorter steps are taken together.
    group = max(1, round(HOUR_S / seen.step_s))
    whole = rate[: rate.size // group * group].reshape(-1, group) if rate.size >= group else rate[None, :]
    with np.errstate(invalid="ignore"):
        means = np.array([np.nan if np.isnan(each).all() else float(np.nanmean(each)) for each in whole])
    return ShortfallHours(
        hours=hours * sum(each is not None for each in states),
        violated_hours=hours * sum(each is Attained.VIOLATED for each in states),
        undecided_hours=hours * sum(each is Attained.UNDECIDED for each in states),
        above_plan_hours=float(np.sum(means > expected.planning_rps)),
    )


def _step_state(expected: Expectation, seen: Observation, at: int) -> Attained | None:
    """The worst that is certain of any SLO in a step; None where too little was counted to ask."""
    found: list[Attained] = []
    for metric in {slo.metric for each in expected.classes for slo in each.slos}:
        parts = seen.latencies.get(_LATENCIES[metric], ())
        buckets = parts[at] if at < len(parts) else None
        if buckets is None or buckets.count < _LEAST_REQUESTS:
            continue
        slos = [slo for each in expected.classes for slo in each.slos if slo.metric == metric]
        found += [_attained(buckets, 1.0 - slo.percentile_fraction, _rivals(expected, slo)) for slo in slos]
    return _worst(found)


def _worst(found: Sequence[Attained]) -> Attained | None:
    return next((each for each in (Attained.VIOLATED, Attained.UNDECIDED, Attained.MET) if each in found), None)
