"""Percentiles over windows: of all their requests together, with an interval from how the windows differ.

The mean of per-window percentiles follows its worst windows: one that met a long burst moves the mean of ten p95s far
more than it moves the p95 of all ten. An SLO is about all requests, so requests are pooled, each window by its weight.
They are not independent inside a window, so the interval comes from the windows: at latency x, window i has c_i of its
n_i requests within x, the pooled share is F(x) = sum w_i c_i / sum w_i n_i, and the residuals c_i - F(x) n_i, stratum
by stratum, give its standard error (a ratio estimate). The interval of the percentile holds every x at which F(x) is
within Student's t errors of the fraction, root two times over: two seeds both have noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.histogram import LogHistogram, bin_middles_s
from ullage.simulate.statistics import Interval, t_quantile

CONFIDENCE_FRACTION = 0.95
# Two answers of independent experiments differ by root two times the error of one.
REPEAT_RATIO = math.sqrt(2.0)

Floats = NDArray[np.float64]


def pooled_quantiles(
    runs: Sequence[LogHistogram],
    fractions: Sequence[float],
    *,
    weights: Floats | None = None,
    strata: Sequence[int] = (),
) -> tuple[Interval | None, ...]:
    """Percentiles of all requests together; None where there are none, or only one window to judge by.

    `weights` are those of the windows (alike where left out), `strata` how many windows each stratum has, in order.
    Above the largest latency seen nothing is known, so the interval ends there.
    """
    counts = np.stack([each.counts for each in runs])
    used = np.flatnonzero(counts.any(axis=0))
    if len(runs) < 2 or used.size == 0:
        return (None,) * len(fractions)
    first, last = int(used[0]), int(used[-1])
    weight = np.full(len(runs), 1.0 / len(runs)) if weights is None else weights
    within = np.cumsum(counts[:, first : last + 1], axis=1, dtype=np.float64)
    sent = within[:, -1]
    total = float(weight @ sent)
    share = weight @ within / total
    error = _error(within - share[None, :] * sent[:, None], weight, strata or (len(runs),)) / total
    half = t_quantile(0.5 + CONFIDENCE_FRACTION / 2, len(runs) - 1) * error * REPEAT_RATIO
    middles = bin_middles_s(counts.shape[1])[first : last + 1]
    above, below = share + half, share - half

    def interval(fraction: float) -> Interval:
        value = float(middles[_first_at_least(share, fraction)])
        return Interval(
            value=value,
            low=min(value, float(middles[_first_at_least(above, fraction)])),
            high=max(value, float(middles[_first_at_least(below, fraction)])),
            confidence_fraction=CONFIDENCE_FRACTION,
        )

    return tuple(interval(each) for each in fractions)


def _error(residuals: Floats, weight: Floats, strata: Sequence[int]) -> Floats:
    """The standard error of a weighted sum over strata, at every latency."""
    squared = np.zeros(residuals.shape[1])
    begin = 0
    for count in strata:
        part, own = residuals[begin : begin + count], float(weight[begin : begin + count].sum())
        if count > 1:
            squared += own**2 * part.var(axis=0, ddof=1) / count
        begin += count
    return np.sqrt(squared)


def _first_at_least(shares: Floats, fraction: float) -> int:
    reached = shares >= fraction - 1e-12
    return int(np.argmax(reached)) if bool(reached.any()) else int(shares.size - 1)
