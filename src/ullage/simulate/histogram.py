"""Log histograms of durations, as the kernel fills them: bins at most 0.8 % wide."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNIT_S = 2.0**20 / 1e12


@dataclass(frozen=True, kw_only=True)
class LogHistogram:
    """How often each duration occurred. A quantile is known to within its bin, 0.8 % (1 us below 0.1 ms)."""

    counts: NDArray[np.int64]

    @cached_property
    def total_count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_s(self) -> float:
        """The mean, each duration taken at the middle of its bin; nan when there is none."""
        total = self.total_count
        return float(self.counts @ bin_middles_s(self.counts.size) / total) if total else float("nan")

    def quantile_s(self, fraction: float) -> float:
        """The least duration that this share does not exceed (middle of its bin); nan when there is none."""
        total = self.total_count
        if total == 0:
            return float("nan")
        rank = max(1, int(np.ceil(fraction * total)))
        place = int(np.searchsorted(np.cumsum(self.counts), rank))
        edges = bin_edges_s(self.counts.size)
        return float((edges[place] + edges[place + 1]) / 2)

    def share_within(self, limit_s: float) -> float:
        """The share of durations in bins that end at or before the limit."""
        total = self.total_count
        edges = bin_edges_s(self.counts.size)
        return float(self.counts[edges[1:] <= limit_s * (1 + 1e-12)].sum() / total) if total else float("nan")

    @staticmethod
    def of(durations_s: NDArray[np.float64], *, bins: int, weights: NDArray[Any] | None = None) -> LogHistogram:
        """Durations that were kept one by one, in the kernel's bins; what lies beyond the last one counts there."""
        place = np.clip(np.searchsorted(bin_edges_s(bins), durations_s, side="right") - 1, 0, bins - 1)
        return LogHistogram(counts=np.bincount(place, weights=weights, minlength=bins).astype(np.int64))

    @staticmethod
    def merged(parts: Iterable[LogHistogram]) -> LogHistogram:
        first, *rest = parts
        counts = first.counts.copy()
        for each in rest:
            counts += each.counts
        return LogHistogram(counts=counts)


@dataclass(frozen=True, kw_only=True)
class KeptHistogram:
    """The bins of a histogram that are not empty. Whole ones of fifty classes are 8 MB, and a plan keeps a thousand."""

    places: NDArray[np.int64]
    counts: NDArray[np.int64]
    bins: int

    @staticmethod
    def of(given: LogHistogram) -> KeptHistogram:
        # Of truths numpy finds the places three times as fast as of numbers.
        places = given.counts.astype(np.bool_).nonzero()[0]
        return KeptHistogram(places=places, counts=given.counts[places], bins=given.counts.size)

    @property
    def whole(self) -> LogHistogram:
        counts = np.zeros(self.bins, np.int64)
        counts[self.places] = self.counts
        return LogHistogram(counts=counts)


@dataclass(frozen=True, kw_only=True)
class KeptRows:
    """The same of many histograms, found in one pass; `keys` are their rows times the bins, plus the bin."""

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    rows: int
    bins: int

    @staticmethod
    def of(*given: NDArray[np.int64]) -> KeptRows:
        """The rows of each matrix, one matrix after the other."""
        first, keys, counts = 0, [], []
        for each in given:
            flat = each.reshape(-1)
            places = flat.astype(np.bool_).nonzero()[0]
            keys.append(places + first)
            counts.append(flat[places])
            first += flat.size
        bins = given[0].shape[1]
        return KeptRows(keys=np.concatenate(keys), counts=np.concatenate(counts), rows=first // bins, bins=bins)

    def row(self, place: int) -> KeptHistogram:
        begin, end = self._ends[place : place + 2].tolist()
        return KeptHistogram(
            places=self.keys[begin:end] - place * self.bins, counts=self.counts[begin:end], bins=self.bins
        )

    @cached_property
    def total_counts(self) -> NDArray[np.int64]:
        """By row."""
        return np.diff(self._sums[self._ends])

    def within(self, rows: Sequence[int], places: Sequence[int], parts: Sequence[float]) -> NDArray[np.float64]:
        """Of each of these rows the counts below a bin, and a part of those in it."""
        row = np.asarray(rows, np.int64)
        key = self.bins * row + np.clip(places, 0, self.bins)
        at = np.searchsorted(self.keys, key)
        inside = np.append(self.counts, 0)[at] * (np.append(self.keys, -1)[at] == key)
        found: NDArray[np.float64] = self._sums[at] - self._sums[self._ends[row]] + inside * np.asarray(parts)
        return found

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.searchsorted(self.keys, self.bins * np.arange(self.rows + 1))

    @cached_property
    def _sums(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.counts)])


@functools.lru_cache(maxsize=16)
def bin_edges_s(bins: int) -> NDArray[np.float64]:
    """Where bins begin and end: 128 of one unit (2**20 ps), then 128 to every octave."""
    place = np.arange(bins + 1)
    octave = np.maximum(place // 128 - 1, 0)
    units = np.where(place < 128, place, (128 + place % 128) * 2.0**octave)
    edges: NDArray[np.float64] = units * _UNIT_S
    edges.setflags(write=False)
    return edges


@functools.lru_cache(maxsize=16)
def bin_middles_s(bins: int) -> NDArray[np.float64]:
    """The middle of every bin."""
    edges = bin_edges_s(bins)
    middles: NDArray[np.float64] = (edges[1:] + edges[:-1]) / 2
    middles.setflags(write=False)
    return middles
