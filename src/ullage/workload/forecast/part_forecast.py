"""The forecast of a service: every class and all of them together, in requests, tokens and active tokens.

A class's history comes from a profile, or from a model where an example is wanted. Tokens follow requests at the mean
of their lengths; active tokens follow them by Little's law, at the ratio that the trace logged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError, check_name
from ullage.workload.anomalies import Anomaly
from ullage.workload.forecast.demand_series import DemandEvent, DemandSeries, from_counts
from ullage.workload.forecast.forecast import Forecast, forecast, peak_minute_rps
from ullage.workload.forecast.point_forecasts import FORECASTERS, Forecaster
from ullage.workload.profile.arrivals import Arrivals
from ullage.workload.profile.profile import PartProfile, Profile
from ullage.workload.synthetic.model import SyntheticModel

ALL = "all"
DIMENSIONS = ("class", "model", "product", "tenant")
HOUR_S, QUARTER_S = 3600.0, 900.0
# Up to this horizon a grid of a quarter of an hour is worth its cost.
_FINE_HORIZON_S = 2 * 86_400.0
# The wandering of the example's level from hour to hour, as deviation and as share kept from one hour to the next.
_WANDER_DEVIATION, _WANDER_KEPT = 0.12, 0.98


@dataclass(frozen=True, kw_only=True)
class PartHistory:
    """What is known of one class: its requests over time, and what a request amounts to; None where it is not known."""

    name: str
    series: DemandSeries
    request_tokens: float | None
    active_tokens_per_rps: float | None
    minute_dispersion_ratio: float | None


@dataclass(frozen=True, kw_only=True)
class PartForecast:
    """One class over the horizon, at the planning percentile: the busiest step, and the busiest minute inside it."""

    history: PartHistory
    forecast: Forecast
    percentile_fraction: float
    planning_rps: float
    peak_minute_rps: float | None
    planning_tokens_per_s: float | None
    planning_active_tokens: float | None


@dataclass(frozen=True, kw_only=True)
class ServiceForecast:
    """What was forecast, from what. `calendar` says whether times are seconds since 1970 or since the trace began."""

    source: str
    calendar: bool
    horizon_s: float
    percentile_fraction: float
    seed: int
    parts: tuple[PartForecast, ...]
    anomalies: tuple[Anomaly, ...]


def forecast_parts(
    histories: Sequence[PartHistory],
    *,
    horizon_s: float,
    percentile_fraction: float,
    rng: Generator,
    events: Sequence[DemandEvent] = (),
    forecasters: Mapping[str, Forecaster] = FORECASTERS,
) -> tuple[PartForecast, ...]:
    """Each part by itself; parts are not made to add up, since their errors do not."""
    return tuple(
        _planned(
            each,
            forecast(
                each.series,
                horizon_s=horizon_s,
                rng=rng,
                percentile_fraction=percentile_fraction,
                events=events,
                forecasters=forecasters,
            ),
            percentile_fraction,
        )
        for each in histories
    )


def step_for(horizon_s: float, width_s: float = 1.0) -> float:
    """An hour, or a quarter of one where the horizon is short and windows of this width fill it; at least a window."""
    fine = horizon_s <= _FINE_HORIZON_S and QUARTER_S % width_s == 0.0
    return max(width_s, QUARTER_S if fine else HOUR_S)


def histories_of(
    profile: Profile, *, horizon_s: float, step_s: float | None = None, by: str = "class"
) -> tuple[PartHistory, ...]:
    """All requests, then the classes (or models, or tenants) where the profile has more than one.

    Without a step the horizon and the profile's own windows decide.
    """
    check_name(by, DIMENSIONS, field="--by")
    groups = profile.of(by)
    parts = [(ALL, profile.whole), *((group.name, group.profile) for group in groups if len(groups) > 1)]
    known = [(name, part, part.arrivals) for name, part in parts if part.arrivals is not None]
    found = [
        _history(name, part, arrivals, step_s or step_for(horizon_s, arrivals.series.width_s))
        for name, part, arrivals in known
    ]
    if not found:
        raise InputError(
            field="trace",
            value=profile.format,
            problem="has no arrivals over time, so that there is nothing to forecast",
            fix="Give a trace whose requests share a clock.",
        )
    return tuple(found)


def example_histories(model: SyntheticModel, *, weeks: int, step_s: float, rng: Generator) -> tuple[PartHistory, ...]:
    """A model's history as if it had been recorded: its season and growth, a level that wanders, and chance."""
    steps = round(weeks * 604_800.0 / step_s)
    at_s = (np.arange(steps, dtype=np.float64) + 0.5) * step_s
    parts = []
    for each in model.classes:
        kept = _WANDER_KEPT ** (step_s / HOUR_S)
        level = np.empty(steps)
        level[0] = rng.standard_normal() * _WANDER_DEVIATION
        for step in range(1, steps):
            level[step] = kept * level[step - 1] + rng.standard_normal() * _WANDER_DEVIATION * np.sqrt(1.0 - kept**2)
        rates = rng.poisson(each.rate_at(at_s) * np.exp(level) * step_s) / step_s
        prompts, outputs = each.lengths.pairs()
        parts.append(
            PartHistory(
                name=each.name,
                series=DemandSeries(name=each.name, unit="req/s", start_s=0.0, step_s=step_s, values=rates),
                request_tokens=float(prompts.mean() + outputs.mean()),
                active_tokens_per_rps=None,
                minute_dispersion_ratio=each.bursts.dispersion(60.0, each.mean_rate_rps),
            )
        )
    return tuple(parts)


def _history(name: str, part: PartProfile, arrivals: Arrivals, step_s: float) -> PartHistory:
    prompt, output = part.lengths.prompt_tokens, part.lengths.output_tokens
    inflight = part.inflight
    active = None
    if inflight is not None and inflight.active_tokens is not None and arrivals.mean_rps > 0.0:
        active = inflight.active_tokens.mean_value / arrivals.mean_rps
    return PartHistory(
        name=name,
        series=from_counts(arrivals.series, step_s=step_s, name=name),
        request_tokens=None if prompt is None or output is None else prompt.mean_value + output.mean_value,
        active_tokens_per_rps=active,
        minute_dispersion_ratio=_minute_dispersion(arrivals),
    )


def _minute_dispersion(arrivals: Arrivals) -> float | None:
    """Variance over mean of a minute's requests around their own hour; where minutes are not kept, with the season."""
    series = arrivals.series
    if series.width_s <= 60.0 and len(series.counts) * series.width_s >= 2 * HOUR_S:
        together = round(60.0 / series.width_s)
        counts = np.array(series.counts[: len(series.counts) // together * together], np.float64)
        minutes = counts.reshape(-1, together).sum(axis=1)
        hours = minutes[: minutes.size // 60 * 60].reshape(-1, 60)
        return float(hours.var(axis=1, ddof=1).mean() / max(float(hours.mean()), 1e-12))
    window = arrivals.window(60.0)
    return None if window is None else window.dispersion_ratio


def _planned(history: PartHistory, found: Forecast, percentile_fraction: float) -> PartForecast:
    planning = found.planning(percentile_fraction)
    dispersion = history.minute_dispersion_ratio
    minutes = max(1, round(history.series.step_s / 60.0))
    tokens, active = history.request_tokens, history.active_tokens_per_rps
    return PartForecast(
        history=history,
        forecast=found,
        percentile_fraction=percentile_fraction,
        planning_rps=planning,
        peak_minute_rps=None if dispersion is None else peak_minute_rps(planning, dispersion, minutes),
        planning_tokens_per_s=None if tokens is None else planning * tokens,
        planning_active_tokens=None if active is None else planning * active,
    )
