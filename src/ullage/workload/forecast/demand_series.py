"""Demand over time on an even grid, with its gaps, its planned events and its breaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.workload.forecast.point_forecasts import DAY_S, Floats, Past, grid_of, shape_and_level
from ullage.workload.profile.arrivals import CountSeries

# A step without a single request is a hole in the record, not a quiet hour, where at least so many were to be expected.
_EXPECTED_IN_A_HOLE = 30.0
# A silence of so many days, longer than any weekend with a holiday, that stands alone in a record otherwise busy, is a
# cut or an outage: nothing is learnt from it, neither a level nor how wrong forecasts are.
_LEAST_SILENCE_DAYS, _LONGER_THAN_OTHERS = 4.0, 2.0
_MOST_SILENT_FRACTION, _LEAST_BUSY_FRACTION = 0.7, 0.3
# A break is flagged from this ratio of levels on, and where the two sides differ by so many standard errors.
_LEAST_BREAK, _BREAK_ERRORS = 1.25, 5.0
_LEAST_BREAK_DAYS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class DemandSeries:
    """Demand a second, step by step from `start_s`; NaN where nothing was observed.

    `start_s` counts from Monday 00:00 (UTC) of some week where the trace has a calendar, else from its start.
    """

    name: str
    unit: str
    start_s: float
    step_s: float
    values: Floats

    @property
    def end_s(self) -> float:
        return self.start_s + self.step_s * self.values.size

    @property
    def observed(self) -> int:
        return int((~np.isnan(self.values)).sum())

    def times(self, value: float, *, unit: str, name: str) -> DemandSeries:
        return replace(self, values=self.values * value, unit=unit, name=name)


@dataclass(frozen=True, kw_only=True)
class DemandEvent:
    """A holiday, launch or sale: demand times `demand_ratio` from start to end; None takes its past namesakes'."""

    name: str
    start_s: float
    end_s: float
    demand_ratio: float | None = None

    def __post_init__(self) -> None:
        if not self.end_s > self.start_s:
            raise InputError(
                field=f"event.{self.name}",
                value=(self.start_s, self.end_s),
                problem="ends before it starts",
                fix="Give a start and a later end.",
            )
        if self.demand_ratio is not None and not (math.isfinite(self.demand_ratio) and self.demand_ratio >= 0.0):
            raise InputError(
                field=f"event.{self.name}.demand_ratio",
                value=self.demand_ratio,
                problem="must be 0 or more",
                fix="Give 2 for twice the demand, 0.6 for two fifths less.",
            )


@dataclass(frozen=True, kw_only=True)
class Break:
    """A lasting change of level: when, and by how much."""

    at_s: float
    ratio: float


def from_counts(series: CountSeries, *, step_s: float, name: str) -> DemandSeries:
    """A profile's counts on the grid, as a rate; the steps at both ends, perhaps covered in part, are left out."""
    width_s = series.width_s
    together = round(step_s / width_s)
    if together < 1 or abs(together * width_s - step_s) > 1e-6:
        raise InputError(
            field="step",
            value=f"{step_s:g} s",
            problem=f"is not a whole number of the {width_s:g} s windows of the profile",
            fix="Give a multiple, for example 1h.",
        )
    counts = np.array(series.counts, np.float64)
    skip = (-round(series.start_s / width_s)) % together
    inner = counts[skip + together : counts.size - 1 - (counts.size - 1 - skip) % together]
    rates = inner.reshape(-1, together).sum(axis=1) / step_s if inner.size >= together else np.zeros(0)
    start_s = series.start_s + (skip + together) * width_s
    return without_holes(DemandSeries(name=name, unit="req/s", start_s=start_s, step_s=step_s, values=rates))


def without_holes(series: DemandSeries) -> DemandSeries:
    """Empty steps where many requests were to be expected become unknown, so that a hole is not learnt as quiet."""
    values = _without_silence(series.values, series.step_s)
    seen = values[~np.isnan(values)]
    if seen.size == 0 or not (seen > 0.0).any():
        return series
    day = grid_of(series.step_s, values.size).day_steps
    slot = np.arange(values.size) % day
    usual = np.full(values.size, float(seen.mean()))
    for each in range(day if values.size > day else 0):
        here = values[(slot == each) & ~np.isnan(values)]
        if here.size:
            usual[slot == each] = np.median(here)
    hole = (values == 0.0) & (usual * series.step_s >= _EXPECTED_IN_A_HOLE)
    return replace(series, values=np.where(hole, np.nan, values))


def _without_silence(values: Floats, step_s: float) -> Floats:
    """The values without the one long silence between two busy parts; as they are where silences recur."""
    busy = np.flatnonzero(values > 0.0)
    if busy.size < 2:
        return values
    apart = np.diff(busy) - 1
    longest = int(np.argmax(apart))
    length, others = int(apart[longest]), np.delete(apart, longest)
    rest = values.size - length
    is_alone = length >= _LONGER_THAN_OTHERS * max(int(others.max(initial=0)), 1)
    is_long = length * step_s >= _LEAST_SILENCE_DAYS * DAY_S and length <= _MOST_SILENT_FRACTION * values.size
    expected = float(np.nansum(values)) * step_s / rest * length
    if not (is_alone and is_long and busy.size >= _LEAST_BUSY_FRACTION * rest and expected >= _EXPECTED_IN_A_HOLE):
        return values
    found = values.copy()
    found[busy[longest] + 1 : busy[longest + 1]] = np.nan
    return found


def around_events(series: DemandSeries, events: Sequence[DemandEvent]) -> tuple[DemandSeries, dict[str, float]]:
    """The series without its past events, and the factor that each of them had over what was to be expected."""
    values = series.values.copy()
    at_s = series.start_s + series.step_s * np.arange(values.size)
    factors: dict[str, list[float]] = {}
    for event in events:
        inside = (at_s >= event.start_s) & (at_s < event.end_s)
        first = int(np.argmax(inside)) if inside.any() else 0
        before = values[:first]
        if first and np.isfinite(before).any():
            past = Past(history=before, grid=grid_of(series.step_s, first))
            expected = shape_and_level(past, int(inside.sum()), level_s=7 * DAY_S)
            came = series.values[inside]
            known = ~np.isnan(came)
            if known.any() and expected[known].sum() > 0.0:
                factors.setdefault(event.name, []).append(float(came[known].sum() / expected[known].sum()))
        values[inside] = np.nan
    return replace(series, values=values), {name: float(np.mean(each)) for name, each in factors.items()}


def event_factors(events: Sequence[DemandEvent], measured: dict[str, float], at_s: Floats) -> Floats:
    """What planned events multiply demand by, at each time."""
    factors = np.ones(at_s.size)
    for event in events:
        inside = (at_s >= event.start_s) & (at_s < event.end_s)
        factor = event.demand_ratio if event.demand_ratio is not None else measured.get(event.name)
        if not inside.any():
            continue
        if factor is None:
            raise InputError(
                field=f"event.{event.name}.demand_ratio",
                value=None,
                problem="is not given, and the history has no event of this name to measure it from",
                fix="Give a factor, for example 0.6 for a holiday or 2 for a launch.",
            )
        factors[inside] *= factor
    return factors


def break_of(series: DemandSeries) -> Break | None:
    """The strongest lasting change of level, if it is more than the level's own wandering explains.

    Days are compared with days of the same place in the week; the two sides' difference is put in relation to the
    spread that is left, widened by the correlation of neighbouring days.
    """
    grid = grid_of(series.step_s, series.values.size)
    days = series.values.size // grid.day_steps
    if days < 2 * _LEAST_BREAK_DAYS + 2:
        return None
    values = series.values[series.values.size - days * grid.day_steps :].reshape(days, grid.day_steps)
    with_data = (~np.isnan(values)).mean(axis=1) > 0.5
    daily = np.where(with_data, np.nansum(np.where(np.isnan(values), 0.0, values), axis=1), np.nan)
    logs = np.log(np.maximum(daily / np.maximum((~np.isnan(values)).sum(axis=1), 1), 1e-12))
    logs = np.where(with_data & (daily > 0.0), logs, np.nan)
    best: tuple[float, float, int] | None = None
    for split in range(_LEAST_BREAK_DAYS, days - _LEAST_BREAK_DAYS + 1):
        found = _difference(logs, split)
        if found is not None and (best is None or found[0] > best[0]):
            best = (*found, split)
    if best is None or best[0] < _BREAK_ERRORS or abs(best[1]) < math.log(_LEAST_BREAK):
        return None
    start_s = series.end_s - days * grid.day_steps * series.step_s
    return Break(at_s=start_s + best[2] * grid.day_steps * series.step_s, ratio=math.exp(best[1]))


def _difference(logs: Floats, split: int) -> tuple[float, float] | None:
    """Standard errors between the sides, and their difference, after the week's places are taken out of both."""
    side = (np.arange(logs.size) >= split).astype(np.float64)
    place = np.arange(logs.size) % 7 if logs.size >= 21 else np.zeros(logs.size, np.int64)
    known = ~np.isnan(logs)
    columns = np.column_stack([side, *(place == each for each in np.unique(place))])[known].astype(np.float64)
    share = float(side[known].mean()) if known.any() else 0.0
    if columns.shape[0] < columns.shape[1] + 4 or not 0.0 < share < 1.0:
        return None
    weights, *_ = np.linalg.lstsq(columns, logs[known], rcond=None)
    rest = logs[known] - columns @ weights
    spread = float(rest @ rest) / (columns.shape[0] - columns.shape[1])
    if spread <= 1e-12:
        return (math.inf if abs(weights[0]) > 1e-9 else 0.0), float(weights[0])
    follow = min(0.9, max(0.0, float(rest[1:] @ rest[:-1]) / max(float(rest @ rest), 1e-12) + 2.0 / rest.size))
    error = math.sqrt(spread * (1.0 + follow) / (1.0 - follow) / (columns.shape[0] * share * (1.0 - share)))
    return abs(float(weights[0])) / error, float(weights[0])
