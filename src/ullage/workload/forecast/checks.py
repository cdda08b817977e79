"""What a forecast is checked against before its planning rate is called anything, and what its reader should know."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity, in_order
from ullage.workload.forecast.backtest import BacktestRun
from ullage.workload.forecast.demand_series import Break, DemandSeries
from ullage.workload.forecast.point_forecasts import DAY_S
from ullage.workload.forecast.scores import Scores

# A planning rate beyond so many times the busiest step seen is neither observed nor stated.
MOST_TIMES_SEEN = 3.0
# A band that held so rarely, made to hold four times in five, did not hold.
_HELD_AT_ALL = 0.1


def limit_of(series: DemandSeries, expected_ratio: float, growth_ratio: float = 1.0) -> float:
    """The most that is planned for without a stated event, once a whole week was seen; `growth_ratio` is what growth
    that nobody measured may add by the end of the horizon.

    Errors of forecasts on a day that was forecast at next to nothing are no factor for a busy one: a month's one busy
    morning, or traffic that began three weeks into the record, would allow rates of a hundred thousand times it.
    """
    if series.values.size * series.step_s < 7.0 * DAY_S:
        return math.inf
    return MOST_TIMES_SEEN * expected_ratio * growth_ratio * float(np.nanmax(series.values))


def beyond_seen(
    series: DemandSeries, planning: float, expected_ratio: float, limit: float = math.inf
) -> Anomaly | None:
    """A planning rate far above anything seen, without a stated event or a measured growth that explains it; what goes
    beyond `limit` is not planned for."""
    seen = float(np.nanmax(series.values))
    times = planning / max(seen, 1e-12)
    if times < MOST_TIMES_SEEN * expected_ratio * (1.0 - 1e-9):
        return None
    limited = f"limited to {limit / seen:.3g} times it, assumed" if planning > limit else "assumed"
    what = "Past errors would make the planning rate of" if planning > limit else "The planning rate of"
    is_ = "" if planning > limit else "is "
    sentence = (
        f"{what} {series.name} {is_}{times:,.1f} times its busiest step on record "
        f"({seen:.3g} {series.unit}), and neither a stated event nor measured growth explains it: it is {limited}, "
        "not measured. Give a longer history, a shorter horizon, or the event behind it."
    )
    return _anomaly(AnomalyKind.BEYOND_SEEN, Severity.SERIOUS, sentence)


def never_held(name: str, model: str, scores: Scores | None) -> Anomaly | None:
    """A band that did not hold where it was tested: it is not used."""
    if scores is None or scores.coverage_fraction >= _HELD_AT_ALL:
        return None
    sentence = (
        f"The band of {model!r} held {scores.coverage_fraction:.0%} of {scores.observations:,} past outcomes of {name} "
        f"instead of {scores.nominal_fraction:.0%}: it is not used, and the last season is repeated instead."
    )
    return _anomaly(AnomalyKind.BAND_FAILED, Severity.SERIOUS, sentence)


def cautions(
    series: DemandSeries,
    clean: DemandSeries,
    *,
    used: BacktestRun,
    naive: BacktestRun,
    steps: int,
    broken: Break | None,
    others: Sequence[Anomaly | None],
) -> tuple[Anomaly, ...]:
    """What should make the reader of this forecast cautious, the gravest first."""
    name, size = series.name, clean.values.size
    found = [each for each in others if each is not None]
    days = size * series.step_s / DAY_S
    if days < 14.0:
        season = (
            "only one week was observed"
            if days >= 7.0
            else "only a daily season is visible"
            if days > 1.0
            else "no season is visible"
        )
        sentence = f"The history of {name} is {days:.1f} days long: {season}, and the band is wider for it."
        found.append(_anomaly(AnomalyKind.COLD_START, Severity.CAUTION, sentence))
    missing = size - clean.observed
    if missing:
        sentence = f"{missing} of {size} steps of {name} are gaps or past events, and are left out of the fit."
        found.append(_anomaly(AnomalyKind.HOLES, Severity.NOTE, sentence, share_fraction=missing / size))
    if broken is not None:
        ago_days = (series.end_s - broken.at_s) / DAY_S
        sentence = (
            f"The level of {name} changed {broken.ratio:.2f}-fold {ago_days:.0f} days before the end of the history; "
            "earlier demand says little about later demand."
        )
        found.append(_anomaly(AnomalyKind.STRUCTURAL_BREAK, Severity.SERIOUS, sentence))
    if steps > used.errors.tested_steps:
        tested_days = used.errors.tested_steps * series.step_s / DAY_S
        sentence = (
            f"Leads beyond {tested_days:.1f} days are longer than the history of {name} can test; their band is as "
            "wide as the last tested one, and wider by what growth may be."
        )
        found.append(_anomaly(AnomalyKind.LONG_HORIZON, Severity.CAUTION, sentence))
    if used is naive:
        sentence = f"No forecaster beat repeating the last season of {name}; it is used."
        if not any(each.kind is AnomalyKind.BAND_FAILED for each in found):
            found.append(_anomaly(AnomalyKind.NAIVE_WINS, Severity.NOTE, sentence))
    return in_order(found)


def _anomaly(kind: AnomalyKind, weight: Severity, sentence: str, share_fraction: float | None = None) -> Anomaly:
    return Anomaly(kind=kind, weight=weight, sentence=sentence, share_fraction=share_fraction, touches=("forecast",))
