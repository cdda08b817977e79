"""Past weeks replayed as if planned then: how often short, how much idle, and what another risk would have cost.

At each origin the demand observed until then is forecast over a period, the busiest hour is taken at the percentile,
and as many replicas as carry it are held until the next origin. Compared with the demand that followed, an hour is
short where it asks for more than they carry. Nothing that was not known at an origin enters the plan of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ullage.errors import InputError
from ullage.reconcile.expectation import Expectation
from ullage.reconcile.inputs import Floats
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.workload.forecast.demand_series import DemandSeries
from ullage.workload.forecast.forecast import forecast

_HOUR_S, _WEEK_S = 3600.0, 604_800.0
_EPOCH_MONDAY_S = 4 * 86_400.0
# What a forecaster needs to see a week's shape once and test itself on it.
_LEAST_WEEKS = 2
PERCENTILES = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class BacktestedRisk:
    """One percentile over all replayed periods. `usd` is what the replicas would have cost, where there is a price."""

    percentile: float
    periods: int
    short_periods: int
    hours: int
    short_hours: int
    mean_replicas: float
    idle_fraction: float
    usd: float | None


@dataclass(frozen=True, kw_only=True)
class PlanBacktest:
    """How plans of the past would have done, by the percentile they were made at; the plan's own is `stated`."""

    stated_percentile: float
    period_s: float
    origins: int
    rows: tuple[BacktestedRisk, ...]


def backtest_plans(
    expected: Expectation,
    seen: Observation,
    *,
    seed: int,
    map: Callable[..., Any] = map,  # noqa: A002
) -> PlanBacktest:
    """Replay what was observed, a reconcile period at a time, after the first two weeks."""
    rate = _hourly_rps(seen)
    period = max(24, round(expected.reconcile_every_s / _HOUR_S))
    first = round(_LEAST_WEEKS * _WEEK_S / _HOUR_S)
    origins = list(range(first, rate.size - period + 1, period))
    if not origins:
        weeks = (first + period) / 168.0
        raise InputError(
            field="--backtest",
            value=f"{rate.size / 168.0:.2g} weeks",
            problem=f"are too few: at least {weeks:.2g} are needed for a period of {period / 24.0:.3g} d",
            fix="Give an earlier --from, or state a shorter policy.reconcile_every.",
        )
    stated = 1.0 - expected.risk_fraction
    percentiles = sorted({*PERCENTILES, round(stated, 6)})
    peaks = list(map(lambda at: _peaks(seen, rate, at, period, percentiles, seed), origins))
    rows = tuple(
        _row(expected, each, [(at, peak[index]) for at, peak in zip(origins, peaks, strict=True)], rate, period)
        for index, each in enumerate(percentiles)
    )
    return PlanBacktest(stated_percentile=stated, period_s=period * _HOUR_S, origins=len(origins), rows=rows)


def _hourly_rps(seen: Observation) -> Floats:
    """Demand by hour; NaN where less than half of one was seen."""
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    group = max(1, round(_HOUR_S / seen.step_s))
    whole = rate[: rate.size // group * group].reshape(-1, group)
    enough = np.isfinite(whole).sum(axis=1) * 2 >= group
    sums = np.nansum(whole, axis=1) / np.maximum(np.isfinite(whole).sum(axis=1), 1)
    return np.where(enough, sums, np.nan)


def _peaks(
    seen: Observation, rate: Floats, origin: int, period: int, percentiles: Sequence[float], seed: int
) -> list[float]:
    """The busiest hour of the next period at every percentile, from what was known at the origin."""
    history = DemandSeries(
        name="arrivals",
        unit="req/s",
        start_s=(seen.start_s - _EPOCH_MONDAY_S) % _WEEK_S,
        step_s=_HOUR_S,
        values=rate[:origin],
    )
    found = forecast(history, horizon_s=period * _HOUR_S, rng=np.random.default_rng(seed))
    return [found.planning(each) for each in percentiles]


def _row(
    expected: Expectation, percentile: float, plans: Sequence[tuple[int, float]], rate: Floats, period: int
) -> BacktestedRisk:
    each_rps = sum(pool.capacity_rps for pool in expected.pools) / sum(pool.steady_replicas for pool in expected.pools)
    hours = short = short_periods = 0
    held = used = 0.0
    for origin, peak in plans:
        replicas = max(1, math.ceil(peak / each_rps - 1e-9))
        came = rate[origin : origin + period]
        came = came[np.isfinite(came)]
        missed = int((came > replicas * each_rps).sum())
        hours, short = hours + came.size, short + missed
        short_periods += missed > 0
        held += replicas * came.size
        used += float(np.minimum(came / each_rps, replicas).sum())
    price = expected.replica_usd_per_hour
    return BacktestedRisk(
        percentile=percentile,
        periods=len(plans),
        short_periods=short_periods,
        hours=hours,
        short_hours=short,
        mean_replicas=held / max(hours, 1),
        idle_fraction=1.0 - used / held if held else 0.0,
        usd=None if price is None else held * price,
    )
