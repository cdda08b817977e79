"""Burst episodes: stretches in which traffic stands clearly above its own level of that hour.

The level is the median rate of the hour and its neighbours, so that the daily wave is not a burst. An episode
is a run of windows above one and a half times the level and above what Poisson counts of that level reach once
in a hundred thousand windows: where counts are small, chance alone makes peaks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.profile.series import Distribution, SecondCounts, distribution

LEVEL_S = 3600
HEIGHT_RATIO = 1.5
# Deviations of a normal count that chance passes once in a hundred thousand windows, and how much farther the
# longer tail of a Poisson count reaches (the first term of Cornish and Fisher's expansion).
DEVIATIONS = 4.26
SKEW_REQUESTS = (DEVIATIONS**2 - 1) / 6
# A window should hold so many requests at the mean rate, or a burst cannot be told from chance.
LEAST_PER_WINDOW = 5.0
WIDTHS_S = (10, 60, 600)
SHOWN = 5
# Ten years of minutes: where one stray time stretches a trace over decades, windows are wider.
MOST_BINS = 6_000_000


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One burst: when, how long, how high above its level, and how fast it rose to its peak."""

    start_s: float
    length_s: float
    level_rps: float
    peak_rps: float
    rise_s: float

    @property
    def height_ratio(self) -> float:
        return self.peak_rps / self.level_rps if self.level_rps > 0 else math.inf

    @property
    def ramp_rps_per_s(self) -> float:
        return (self.peak_rps - self.level_rps) / self.rise_s


@dataclass(frozen=True, kw_only=True)
class Bursts:
    """All episodes of a trace in numbers, and the highest of them one by one."""

    width_s: float
    episodes: int
    time_fraction: float
    height_ratio: Distribution | None
    length_s: Distribution | None
    ramp_rps_per_s: Distribution | None
    highest: tuple[Episode, ...]


def bursts_of(counts: SecondCounts, *, first_s: float, last_s: float, resolution_s: float) -> Bursts | None:
    """Episodes at the finest width at which they can be told from chance and from the source's time stamps."""
    mean_rps = counts.total / (last_s - first_s) if last_s > first_s else 0.0
    for width_s in WIDTHS_S:
        if mean_rps * width_s < LEAST_PER_WINDOW or width_s < 10 * resolution_s or _is_long(width_s, first_s, last_s):
            continue
        bins = counts.binned(width_s, first_s, last_s)
        if len(bins) < 6:
            return None
        start_s = math.ceil(first_s / width_s) * width_s
        return _bursts(bins, width_s, start_s)
    return _sparse_bursts(counts, first_s, last_s, resolution_s)


def _sparse_bursts(counts: SecondCounts, first_s: float, last_s: float, resolution_s: float) -> Bursts | None:
    """Episodes in a quiet trace, where most windows are empty: the level is then at least the mean, which one burst
    raises but does not reach."""
    fitting = (each for each in WIDTHS_S[1:] if each >= 10 * resolution_s and not _is_long(each, first_s, last_s))
    width_s = next(fitting, None)
    if width_s is None:
        return None
    bins = counts.binned(width_s, first_s, last_s)
    if len(bins) < 6:
        return None
    return _bursts(bins, width_s, math.ceil(first_s / width_s) * width_s, least_level=float(bins.mean()))


def _is_long(width_s: float, first_s: float, last_s: float) -> bool:
    """Whether windows of this width would be more than there is memory for."""
    return last_s - first_s > MOST_BINS * width_s


def _bursts(bins: NDArray[np.int64], width_s: int, start_s: float, least_level: float = 0.0) -> Bursts:
    level = np.maximum(_level(bins, max(1, LEVEL_S // width_s)), least_level)
    threshold = np.maximum(HEIGHT_RATIO * level, level + DEVIATIONS * np.sqrt(level) + SKEW_REQUESTS)
    above = np.r_[False, bins > threshold, False]
    starts = np.flatnonzero(~above[:-1] & above[1:])
    stops = np.flatnonzero(above[:-1] & ~above[1:])
    episodes = [
        _episode(bins[low:high], float(level[low:high].mean()), width_s, start_s + low * width_s)
        for low, high in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
    highest = sorted(episodes, key=lambda episode: (-episode.peak_rps, episode.start_s))[:SHOWN]
    finite = [episode.height_ratio for episode in episodes if math.isfinite(episode.height_ratio)]
    return Bursts(
        width_s=width_s,
        episodes=len(episodes),
        time_fraction=float(above.sum()) / len(bins),
        height_ratio=distribution(np.array(finite), "times the level"),
        length_s=distribution(np.array([episode.length_s for episode in episodes]), "s"),
        ramp_rps_per_s=distribution(np.array([episode.ramp_rps_per_s for episode in episodes]), "req/s per s"),
        highest=tuple(highest),
    )


def _episode(bins: NDArray[np.int64], level: float, width_s: int, start_s: float) -> Episode:
    peak = int(np.argmax(bins))
    return Episode(
        start_s=start_s,
        length_s=float(len(bins) * width_s),
        level_rps=level / width_s,
        peak_rps=float(bins[peak]) / width_s,
        rise_s=float((peak + 1) * width_s),
    )


def _level(bins: NDArray[np.int64], block: int) -> NDArray[np.float64]:
    """For every window the median over its own stretch of about an hour and the two beside it."""
    whole = len(bins) // block
    medians = np.median(bins[: whole * block].reshape(whole, block), axis=1)
    if rest := bins[whole * block :].tolist():
        medians = np.r_[medians, np.median(rest)]
    beside = np.stack([np.r_[medians[:1], medians[:-1]], medians, np.r_[medians[1:], medians[-1:]]])
    return np.repeat(np.median(beside, axis=0), block)[: len(bins)]
