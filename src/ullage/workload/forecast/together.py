"""Classes together: how far the errors of two classes go the same way, and the busiest hour of their sum.

The 95th percentile of a sum is not the sum of 95th percentiles: that would be the hour in which every class is at its
worst at once. With m the busiest hours as often exceeded as not, d what the planning rates lie above them, both at the
same hour of the week, and R the classes' correlations, the sum is planned at

    max over the hours of   sum(m) + sqrt(d' R d)

which is the sum of planning rates where all errors are one, and less wherever they are not.
"""

from __future__ import annotations

import math

import numpy as np

from ullage.workload.forecast.demand_series import DemandSeries
from ullage.workload.forecast.point_forecasts import DAY_S, Floats, Past, grid_of

# Before two classes were seen side by side they are taken to err together, and that is worth so many errors.
_TOGETHER_WITNESSES = 4.0
# A level that is off is off for about so long: errors this far apart are separate witnesses.
_WITNESS_S = 2.0 * DAY_S


def correlation(one: DemandSeries, other: DemandSeries) -> float:
    """Of what two classes lie above or below their own seasons at the same time, drawn to 1 while little was seen.

    It is never taken as negative: that one class falls when another rises is no reserve to count on.
    """
    start_s, end_s = max(one.start_s, other.start_s), min(one.end_s, other.end_s)
    if one.step_s != other.step_s or end_s <= start_s:
        return 1.0
    here, there = (_unusual(each, start_s, end_s) for each in (one, other))
    known = ~np.isnan(here) & ~np.isnan(there)
    here, there = here[known], there[known]
    under = math.sqrt(float(here @ here) * float(there @ there))
    measured = float(here @ there) / under if under > 0.0 else 1.0
    witnesses = known.sum() * one.step_s / _WITNESS_S
    joined = (witnesses * measured + _TOGETHER_WITNESSES) / (witnesses + _TOGETHER_WITNESSES)
    return float(min(1.0, max(0.0, joined)))


def busiest_together(middles: Floats, plannings: Floats, seasons: Floats, correlations: Floats) -> float:
    """The busiest hour of the sum: a row of `seasons` is a class over the week, `correlations` is square.

    >>> busiest_together(np.array([10.0, 10.0]), np.array([13.0, 14.0]), np.ones((2, 168)), np.eye(2))
    25.0
    """
    heights = seasons / seasons.max(axis=1, keepdims=True)
    above = (plannings - middles)[:, None] * heights
    # Below the median all lie below their middles together, and so does their sum.
    sign = np.sign(above.sum(axis=0))
    spread = np.sqrt(np.maximum(np.einsum("ih,ij,jh->h", above, correlations, above), 0.0))
    return float((middles @ heights + sign * spread).max())


def _unusual(series: DemandSeries, start_s: float, end_s: float) -> Floats:
    """What was observed above the season at its own level, step by step."""
    past = Past(history=series.values, grid=grid_of(series.step_s, series.values.size))
    seen = ~np.isnan(series.values)
    level = float(series.values[seen].sum()) / max(float(past.expected[seen].sum()), 1e-12)
    first, last = (round((each - series.start_s) / series.step_s) for each in (start_s, end_s))
    found: Floats = (series.values - level * past.expected)[first:last]
    return found
