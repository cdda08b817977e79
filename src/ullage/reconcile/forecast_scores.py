"""The plan's forecast against the demand that was observed: error, bias, pinball, CRPS and coverage, by class and week.

Also whether its stated risk was right, over as many reconciliations as there are, and how long a forecast of this
quality may stand before its error moves the fleet by one replica.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from ullage.reconcile.expectation import FRACTIONS, Expectation
from ullage.reconcile.inputs import Floats
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.workload.forecast.scores import scores
from ullage.workload.synthetic.model import WEEK_S

_BAND_FRACTION = 0.8
_LEAST_STEPS = 6
_DAY_S = 86_400.0
ALL_CLASSES = "all"
WHOLE = "whole"


@dataclass(frozen=True, kw_only=True)
class ForecastScore:
    """Scores of one class (or all) in one week after the plan, by its number, or over the whole stretch.

    `band_ratio` is how much wider than the forecast's own the scored band was, because of earlier scores.
    """

    class_name: str
    week: str
    observations: int
    wape_fraction: float
    bias_fraction: float
    pinball_ratio: float
    crps_ratio: float
    coverage_fraction: float
    coverage_low_fraction: float
    coverage_high_fraction: float
    nominal_fraction: float
    band_ratio: float = 1.0

    @property
    def is_band_too_narrow(self) -> bool:
        """Whether even a longer test would find fewer hours inside the band than it states."""
        return self.coverage_high_fraction < self.nominal_fraction


def forecast_scores(expected: Expectation, seen: Observation, *, seed: int) -> tuple[ForecastScore, ...]:
    """Over the stretch first, then week by week; classes where a label tells them apart."""
    found = []
    whole = seen.rate_rps(ObservedQuantity.ARRIVALS)
    ratios = [each.band_ratio for each in expected.classes]
    series = [(ALL_CLASSES, whole, expected.quantiles_rps(seen.at_s), sum(ratios) / len(ratios))]
    series += [
        (
            each.name,
            seen.arrivals_by_class[each.name] / seen.step_s,
            each.quantiles_rps(seen.at_s, dated_s=expected.dated_s),
            each.band_ratio,
        )
        for each in expected.classes
        if each.name in seen.arrivals_by_class and len(expected.classes) > 1
    ]
    weeks = np.floor((seen.at_s - expected.dated_s) / WEEK_S).astype(int) + 1
    for name, rate, quantiles, ratio in series:
        own = _scored(name, WHOLE, rate, quantiles, seen, seed)
        for week in np.unique(weeks).tolist():
            inside = weeks == week
            if len(np.unique(weeks)) > 1:
                own += _scored(name, str(week), rate[inside], quantiles[inside], seen, seed)
        found += [replace(each, band_ratio=ratio) for each in own]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class ScoredBand:
    """How wide forecasts should have been, over their own width, by so many reconciliations."""

    ratio: float
    low_ratio: float
    high_ratio: float
    stretches: int


def scored_band(records: Iterable[Sequence[Mapping[str, Any]]], class_name: str) -> ScoredBand | None:
    """What kept scores say of a class's bands; None where they were as wide as they should be, or nobody can tell.

    A band that held c of the hours, made for n of them, should have been z(n) / z(c) times as wide, with z the reach of
    a normal distribution. Stretches count by their hours. A band is made narrower only after several stretches: one
    calm month is no reason to buy less.
    """
    rows = [row for each in records if (row := _row(each, class_name)) is not None]
    weights = [float(each["observations"]) for each in rows]
    if not rows or not sum(weights):
        return None

    def width(name: str) -> float:
        logs = [math.log(float(each.get("band_ratio", 1.0)) * _needed_ratio(each, name)) for each in rows]
        mean = sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights)
        return min(max(math.exp(mean), _NARROWEST), _WIDEST)

    middle, low, high = (width(f"coverage{part}_fraction") for part in ("", "_high", "_low"))
    is_too_narrow = low > 1.0
    is_too_wide = high < 1.0 and len(rows) >= _LEAST_TO_NARROW
    if not is_too_narrow and not is_too_wide:
        return None
    return ScoredBand(ratio=middle, low_ratio=low, high_ratio=high, stretches=len(rows))


def _row(scores: Sequence[Mapping[str, Any]], class_name: str) -> Mapping[str, Any] | None:
    """The scores of a class over a stretch; those of all classes together where no label told them apart."""
    whole = {str(each["class_name"]): each for each in scores if each.get("week") == WHOLE}
    return whole.get(class_name) or whole.get(ALL_CLASSES)


def _needed_ratio(row: Mapping[str, Any], name: str) -> float:
    inside = min(max(float(row[name]), _LEAST_INSIDE), _MOST_INSIDE)
    nominal, found = (NormalDist().inv_cdf((1.0 + each) / 2.0) for each in (float(row["nominal_fraction"]), inside))
    return nominal / found


# All or none of the hours inside say no more than these shares do.
_LEAST_INSIDE, _MOST_INSIDE = 0.1, 0.98
_NARROWEST, _WIDEST = 0.6, 4.0
_LEAST_TO_NARROW = 4


def _scored(name: str, week: str, rate: Floats, quantiles: Floats, seen: Observation, seed: int) -> list[ForecastScore]:
    if int(np.isfinite(rate).sum()) < _LEAST_STEPS:
        return []
    block = max(1, min(rate.size // 2, round(_DAY_S / seen.step_s)))
    found = scores(
        rate,
        quantiles,
        np.array(FRACTIONS),
        nominal_fraction=_BAND_FRACTION,
        block=block,
        rng=np.random.default_rng(seed),
    )
    return [ForecastScore(class_name=name, week=week, **vars(found))]


@dataclass(frozen=True, kw_only=True)
class RiskScore:
    """The stated risk of a shortfall against what was counted: this stretch, and all that were ever reconciled.

    `brier_ratio` is the mean squared distance of the stated chance from 0 or 1, as it was counted; 0 at best.
    `recalibrated_fraction` is the chance that the record supports, the stated one counting as much as `_PRIOR`
    stretches.
    """

    stated_fraction: float
    happened: bool
    stretches: int
    brier_ratio: float
    bins: tuple[RiskBin, ...]
    recalibrated_fraction: float


@dataclass(frozen=True, kw_only=True)
class RiskBin:
    """One point of the reliability curve: stretches with about this stated chance, and how many had a shortfall."""

    stated_fraction: float
    observed_fraction: float
    stretches: int


_PRIOR = 10.0
_BINS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def stated_risk(expected: Expectation, seen: Observation) -> float:
    """The stated chance for a stretch of this length: a shortfall is as likely in every part of the horizon."""
    share = min(1.0, seen.steps * seen.step_s / expected.horizon_s)
    return 1.0 - float((1.0 - expected.risk_fraction) ** share)


def risk_score(stated_fraction: float, happened: bool, before: Iterable[tuple[float, bool]]) -> RiskScore:
    """This stretch and those before it."""
    record = [*before, (stated_fraction, happened)]
    bins, low = [], 0.0
    for high in _BINS:
        inside = [each for each in record if low < each[0] <= high or (low == 0.0 and each[0] == 0.0)]
        if inside:
            bins.append(
                RiskBin(
                    stated_fraction=sum(stated for stated, _ in inside) / len(inside),
                    observed_fraction=sum(came for _, came in inside) / len(inside),
                    stretches=len(inside),
                )
            )
        low = high
    came = sum(each for _, each in record)
    return RiskScore(
        stated_fraction=stated_fraction,
        happened=happened,
        stretches=len(record),
        brier_ratio=sum((stated - each) ** 2 for stated, each in record) / len(record),
        bins=tuple(bins),
        recalibrated_fraction=(came + _PRIOR * stated_fraction) / (len(record) + _PRIOR),
    )


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """How long a plan may stand: the age at which its forecast's error moves the fleet by one replica."""

    stated_s: float
    derived_s: float | None
    error_per_day_fraction: float | None
    moves_at_fraction: float

    @property
    def is_too_seldom(self) -> bool:
        return self.derived_s is not None and self.derived_s < self.stated_s


def cadence(expected: Expectation, seen: Observation) -> Cadence:
    """Levels of days against the forecast: their slope, and how far they wander.

    A fleet of n replicas moves by one when demand moves by 1 / n. A level that drifts by d a day gets there in
    1 / (n d) days; one that wanders by s from day to day, in (1 / (n s))^2. The sooner of the two counts.
    """
    steady = sum(each.steady_replicas for each in expected.pools)
    moves = 1.0 / max(1, steady)
    levels = _daily_levels(expected, seen)
    stated_s = expected.reconcile_every_s
    if len(levels) < 3:
        return Cadence(stated_s=stated_s, derived_s=None, error_per_day_fraction=None, moves_at_fraction=moves)
    logs = np.log(levels)
    days = np.arange(len(levels), dtype=np.float64)
    slope, _ = np.polyfit(days, logs, 1)
    error = float(np.std(logs - np.polyval(np.polyfit(days, logs, 1), days), ddof=2)) if len(levels) > 3 else 0.0
    # A slope within its own error is none.
    spread = error / math.sqrt(float(((days - days.mean()) ** 2).sum()))
    drift = abs(float(slope)) if abs(float(slope)) > 2.0 * spread else 0.0
    wander = float(np.std(np.diff(logs), ddof=1)) / math.sqrt(2.0)
    ages = [moves / drift] if drift > 0.0 else []
    ages += [(moves / wander) ** 2] if wander > 0.0 else []
    derived = None if not ages else max(1.0, min(ages)) * _DAY_S
    return Cadence(
        stated_s=stated_s, derived_s=derived, error_per_day_fraction=max(drift, wander), moves_at_fraction=moves
    )


def _daily_levels(expected: Expectation, seen: Observation) -> Sequence[float]:
    """Observed over expected demand of every whole day."""
    rate = seen.rate_rps(ObservedQuantity.ARRIVALS)
    middle = expected.quantiles_rps(seen.at_s)[:, FRACTIONS.index(0.5)]
    day = np.floor(seen.at_s / _DAY_S)
    found = []
    for each in np.unique(day):
        inside = (day == each) & np.isfinite(rate)
        if inside.sum() * seen.step_s >= 0.8 * _DAY_S and rate[inside].sum() > 0.0:
            found.append(float(rate[inside].sum() / middle[inside].sum()))
    return found
