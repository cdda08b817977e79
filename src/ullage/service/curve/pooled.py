"""Percentiles over replications: of all their requests together, with an interval from how the runs differ.

The mean of per-run percentiles follows its worst runs: one run that met a long burst moves the mean of ten p95s far
more than it moves the p95 of all ten. An SLO is about all requests, so requests are pooled. They are not independent
inside a run, so the interval comes from the runs: at latency x, run i has c_i of its n_i requests within x, the pooled
share is F(x) = sum c_i / sum n_i, and the residuals c_i - F(x) n_i give its standard error (a ratio estimate). The
interval of the percentile holds every x at which F(x) is within Student's t errors of the fraction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ullage.simulate.histogram import LogHistogram, bin_edges_s
from ullage.simulate.statistics import Interval, t_quantile

CONFIDENCE_FRACTION = 0.95
# Two answers of independent experiments differ by root two times the error of one.
REPEAT_RATIO = math.sqrt(2.0)


def pooled_quantile(
    runs: Sequence[LogHistogram], fraction: float, *, offset_s: float = 0.0, widening_ratio: float = 1.0
) -> Interval | None:
    """The percentile of all requests together; None where there are none, or only one run to judge by.

    With `widening_ratio` = REPEAT_RATIO the interval is the one that the answer of another seed lies in. Above the
    largest latency seen nothing is known, so the interval ends there.
    """
    counts = np.stack([each.counts for each in runs])
    used = np.flatnonzero(counts.any(axis=0))
    if len(runs) < 2 or used.size == 0:
        return None
    first, last = int(used[0]), int(used[-1])
    within = np.cumsum(counts[:, first : last + 1], axis=1, dtype=np.float64)
    sent = within[:, -1]
    share = within.sum(axis=0) / sent.sum()
    residuals = within - share[None, :] * sent[:, None]
    error = np.sqrt(np.square(residuals).sum(axis=0) * len(runs) / (len(runs) - 1)) / sent.sum()
    half = t_quantile(0.5 + CONFIDENCE_FRACTION / 2, len(runs) - 1) * error * widening_ratio
    edges = bin_edges_s(counts.shape[1])
    middles = (edges[1:] + edges[:-1])[first : last + 1] / 2 + offset_s
    value = float(middles[_first_at_least(share, fraction)])
    return Interval(
        value=value,
        low=min(value, float(middles[_first_at_least(share + half, fraction)])),
        high=max(value, float(middles[_first_at_least(share - half, fraction)])),
        confidence_fraction=CONFIDENCE_FRACTION,
    )


def _first_at_least(shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]], fraction: float) -> int:
    reached = shares >= fraction - 1e-12
    return int(np.argmax(reached)) if bool(reached.any()) else int(shares.size - 1)
