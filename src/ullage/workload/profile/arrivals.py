"""Arrivals: rates with percentiles, and how far they are from evenly random at each time scale.

Dispersion is the variance of the counts in windows of one width over their mean: 1 for Poisson arrivals at any
width, growing with the width where traffic comes in waves. It is what a queue of that time scale feels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ullage.workload.profile.series import Distribution, SecondCounts, ValueCounts, scaled
from ullage.workload.profile.summary import Gaps

WIDTHS_S: tuple[int, ...] = (1, 10, 60, 600)
# Bins of the series that a profile carries along; a week in minutes has 10,080.
MOST_BINS = 12_000
# For a group the shape is enough: a saved profile stays small whoever has how many tenants.
GROUP_BINS = 400


@dataclass(frozen=True, kw_only=True)
class WindowRates:
    """Rates seen in windows of one width. `artefact` marks widths that the source's time stamps do not resolve."""

    width_s: float
    rates: Distribution
    dispersion_ratio: float
    artefact: bool


@dataclass(frozen=True, kw_only=True)
class CountSeries:
    """Requests in consecutive windows, from a time of the trace's clock."""

    start_s: float
    width_s: float
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """How requests arrive. `gap_cv_ratio` is the deviation of the gaps over their mean: 1 for Poisson arrivals."""

    requests: int
    span_s: float
    mean_rps: float
    windows: tuple[WindowRates, ...]
    series: CountSeries
    gap_cv_ratio: float | None

    def window(self, width_s: float) -> WindowRates | None:
        """The rates at one width; None where the trace is too short to have two whole windows of it."""
        return next((window for window in self.windows if window.width_s == width_s), None)

    @property
    def peak_rps(self) -> float:
        """The highest rate that was held for the shortest width that is no artefact."""
        honest = [window for window in self.windows if not window.artefact]
        return honest[0].rates.at(1.0) if honest else self.mean_rps


def arrivals_of(
    counts: SecondCounts,
    *,
    first_s: float,
    last_s: float,
    gaps: Gaps | None,
    resolution_s: float,
    least_width_s: int = 1,
    most_bins: int = MOST_BINS,
) -> Arrivals | None:
    """Rates of one part of a trace over a time; no window is narrower than what was counted."""
    span_s = last_s - first_s
    if counts.total == 0 or span_s <= 0:
        return None
    windows = [
        window_rates(width_s, counts.window_counts(width_s, first_s, last_s), resolution_s)
        for width_s in WIDTHS_S
        if width_s >= least_width_s
    ]
    return Arrivals(
        requests=counts.total,
        span_s=span_s,
        mean_rps=counts.total / span_s,
        windows=tuple(window for window in windows if window is not None),
        series=series_of(counts, first_s, last_s, least_width_s=least_width_s, most_bins=most_bins),
        gap_cv_ratio=_gap_cv(gaps),
    )


def window_rates(width_s: float, counts: ValueCounts, resolution_s: float = 0.0) -> WindowRates | None:
    """Rates and dispersion of counts in windows of one width; None for fewer than two windows."""
    windows, found = counts.total, counts.distribution("requests")
    rates = scaled(found, 1.0 / width_s, "req/s")
    if windows < 2 or found is None or rates is None or found.mean_value == 0.0:
        return None
    squares = float(counts.counts @ (counts.values - found.mean_value) ** 2)
    return WindowRates(
        width_s=width_s,
        rates=rates,
        dispersion_ratio=squares / (windows - 1) / found.mean_value,
        # Batches of 3 s fall three or four into a window of 10 s; from ten batches on the error is small.
        artefact=width_s < 10 * resolution_s,
    )


def series_of(
    counts: SecondCounts, first_s: float, last_s: float, *, least_width_s: int = 1, most_bins: int = MOST_BINS
) -> CountSeries:
    """The finest of a few widths at which the whole span stays small enough to carry along."""
    span_s = last_s - first_s
    widths = [width for width in (10, 60, 600, 3600, 86400, 7 * 86400) if width >= least_width_s]
    width_s = next((width for width in widths if span_s / width <= most_bins), widths[-1])
    # Partial windows at the ends are kept here: the series counts every request.
    start = math.floor(first_s / width_s)
    stop = math.floor(last_s / width_s) + 1
    bins = counts.binned(width_s, start * width_s, stop * width_s)
    return CountSeries(start_s=start * width_s, width_s=width_s, counts=tuple(int(count) for count in bins))


def _gap_cv(gaps: Gaps | None) -> float | None:
    if gaps is None or gaps.gaps == 0 or gaps.sum_s <= 0:
        return None
    mean = gaps.sum_s / gaps.gaps
    variance = max(0.0, gaps.sum_squares / gaps.gaps - mean * mean)
    return math.sqrt(variance) / mean
