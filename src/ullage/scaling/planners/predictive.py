"""A plain predictive rule: the rate one time to ready ahead, from the trend of some minutes and the hour of the week.

    rate ahead = max(rate now, rate now + slope x lead, rate now x season(now + lead) / season(now))
    replicas   = ceil(rate ahead x (1 + margin) / what a replica carries), and no fewer than the last `hold_s` asked for

The slope is the least-squares slope over the trend window. What the season says is taken in proportion, so a busy week
is busy an hour ahead too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.scaling.hpa import ScaleEvent


@dataclass(frozen=True, kw_only=True)
class PredictiveSpec:
    """`each_rps` is what one replica carries within the SLOs, `lead_s` how far ahead is looked.

    `season` holds a factor by hour of week, empty where none is known.
    """

    each_rps: float
    lead_s: float
    trend_s: float = 600.0
    margin_fraction: float = 0.0
    hold_s: float = 600.0
    season: tuple[float, ...] = ()
    least_replicas: int = 1
    most_replicas: int


@dataclass(frozen=True, kw_only=True)
class PredictiveState:
    asked: tuple[ScaleEvent, ...] = ()


def rate_ahead(
    spec: PredictiveSpec, times_s: Sequence[float], rates_rps: Sequence[float], *, now_s: float, week_s: float = 0.0
) -> float:
    """The rate that is prepared for, from samples of the trend window; the last one is the rate now."""
    now_rps = rates_rps[-1]
    found = max(now_rps, now_rps + _slope(times_s, rates_rps) * spec.lead_s)
    if spec.season:
        here, ahead = (
            spec.season[int(at_s // 3600.0) % len(spec.season)]
            for at_s in (week_s + now_s, week_s + now_s + spec.lead_s)
        )
        found = max(found, now_rps * ahead / here if here > 0 else found)
    return found


def predictive_step(
    spec: PredictiveSpec,
    state: PredictiveState,
    times_s: Sequence[float],
    rates_rps: Sequence[float],
    *,
    now_s: float,
    week_s: float = 0.0,
) -> tuple[PredictiveState, int | None]:
    """The replicas wanted now; None where no rate was read."""
    if not rates_rps:
        return state, None
    ahead_rps = rate_ahead(spec, times_s, rates_rps, now_s=now_s, week_s=week_s)
    wanted = math.ceil(ahead_rps * (1.0 + spec.margin_fraction) / spec.each_rps - 1e-9)
    asked = (
        *(each for each in state.asked if each.at_s > now_s - spec.hold_s),
        ScaleEvent(at_s=now_s, replicas=wanted),
    )
    held = max(each.replicas for each in asked)
    return PredictiveState(asked=asked), min(max(held, spec.least_replicas), spec.most_replicas)


def _slope(times_s: Sequence[float], rates_rps: Sequence[float]) -> float:
    count = len(times_s)
    if count < 2:
        return 0.0
    middle_s, middle_rps = sum(times_s) / count, sum(rates_rps) / count
    spread = sum((each - middle_s) ** 2 for each in times_s)
    if spread == 0.0:
        return 0.0
    return sum((t - middle_s) * (r - middle_rps) for t, r in zip(times_s, rates_rps, strict=True)) / spread
