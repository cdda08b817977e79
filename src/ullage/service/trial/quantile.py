"""Percentiles over windows: of all their requests together, with an interval from how the windows differ.

The mean of per-window percentiles follows its worst windows: one that met a long burst moves the mean of ten p95s far
more than it moves the p95 of all ten. An SLO is about all requests, so requests are pooled, each window by its weight.
They are not independent inside a window, so the interval comes from the windows: at latency x, window i has c_i of its
n_i requests within x, the pooled share is F(x) = sum w_i c_i / sum w_i n_i, and the residuals c_i - F(x) n_i, stratum
by stratum, give its standard error (a ratio estimate). The interval of the percentile holds every x at which F(x) is
within Student's t errors of the fraction, root two times over: two seeds both have noise.

Half of all windows are one stratum of which two may be simulated, and how far two lie apart says little of how far
others do. A stratum's spread is therefore told together with that of the heavier strata next to it, which differ no
less, until LEAST_FREEDOM degrees of freedom stand behind it; Student's t has as many as the spreads together
(Satterthwaite).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.histogram import KeptHistogram, bin_middles_s
from ullage.simulate.statistics import Interval, t_quantile

CONFIDENCE_FRACTION = 0.95
# Two answers of independent experiments differ by root two times the error of one.
REPEAT_RATIO = math.sqrt(2.0)
LEAST_FREEDOM = 5
_MOST_FREEDOM = 30

Floats = NDArray[np.float64]


def pooled_quantiles(
    runs: Sequence[KeptHistogram],
    fractions: Sequence[float],
    *,
    weights: Floats | None = None,
    strata: Sequence[int] = (),
) -> tuple[Interval | None, ...]:
    """Percentiles of all requests together; None where there are none, or only one window to judge by.

    `weights` are those of the windows (alike where left out), `strata` how many windows each stratum has, in order.
    Above the largest latency seen nothing is known, so the interval ends there.
    """
    # Between two bins that some window uses nothing changes.
    used = np.unique(np.concatenate([each.places for each in runs]))
    if len(runs) < 2 or used.size == 0:
        return (None,) * len(fractions)
    counts = np.zeros((len(runs), used.size))
    for row, each in zip(counts, runs, strict=True):
        row[np.searchsorted(used, each.places)] = each.counts
    weight = np.full(len(runs), 1.0 / len(runs)) if weights is None else weights
    within = np.cumsum(counts, axis=1)
    sent = within[:, -1]
    total = float(weight @ sent)
    share = weight @ within / total
    ends = np.cumsum(strata or (len(runs),))[:-1]
    residuals = np.split((within - share[None, :] * sent[:, None]).T, ends, axis=1)
    half = half_widths(residuals, [float(each.sum()) for each in np.split(weight, ends)]) / total
    middles = bin_middles_s(runs[0].bins)[used]
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


def half_widths(parts: Sequence[Floats], weights: Sequence[float], *, candidates: float = math.inf) -> Floats:
    """Of every row, half the interval of its weighted sum over strata: what another seed finds lies within it.

    `parts` have a row for each figure and a column for each window of a stratum, heaviest stratum first; `candidates`
    are the windows that the strata's weights were told by.
    """
    squares = [np.square(part - part.mean(axis=1, keepdims=True)).sum(axis=1) for part in parts]
    own, certain = np.zeros(len(squares[0])), np.zeros(len(squares[0]))
    for place, (weight, part) in enumerate(zip(weights, parts, strict=True)):
        first, freedom = place, part.shape[1] - 1
        while first > 0 and freedom < LEAST_FREEDOM:
            first -= 1
            freedom += parts[first].shape[1] - 1
        if freedom > 0:
            error = weight**2 * np.sum(squares[first : place + 1], axis=0) / freedom / part.shape[1]
            own, certain = own + error, certain + error**2 / freedom
    between = np.sum([w * part.mean(axis=1) ** 2 for w, part in zip(weights, parts, strict=True)], axis=0) / candidates
    whole = own + between
    freedoms = np.full(len(whole), float(_MOST_FREEDOM))
    np.divide(whole**2, certain, out=freedoms, where=certain > 0.0)
    found: Floats = _t_quantiles(freedoms) * np.sqrt(whole) * REPEAT_RATIO
    return found


def _t_quantiles(freedoms: Floats) -> Floats:
    """Student's t at the confidence, for whole degrees of freedom; more than thirty differ by little."""
    floors = np.clip(freedoms, 1.0, _MOST_FREEDOM).astype(np.int64)
    by_freedom = np.zeros(_MOST_FREEDOM + 1)
    for each in np.unique(floors).tolist():
        by_freedom[each] = t_quantile(0.5 + CONFIDENCE_FRACTION / 2, each)
    found: Floats = by_freedom[floors]
    return found


def _first_at_least(shares: Floats, fraction: float) -> int:
    reached = shares >= fraction - 1e-12
    return int(np.argmax(reached)) if bool(reached.any()) else int(shares.size - 1)
