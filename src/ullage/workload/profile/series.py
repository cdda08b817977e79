"""Counts per second and per value: what rates and lengths of a trace are computed from.

Both are sparse, sorted and exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILE_FRACTIONS: tuple[float, ...] = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Quantiles, mean and number of a quantity; empty distributions are None where they would stand."""

    unit: str
    observations: int
    mean_value: float
    fractions: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, fraction: float) -> float:
        """The value at one of the fractions that are kept."""
        return self.values[self.fractions.index(fraction)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueCounts:
    """How often each value occurs: an exact histogram of whole numbers, sorted by value."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def distribution(self, unit: str) -> Distribution | None:
        """Exact quantiles: the smallest value with at least this share of observations at or below it."""
        total = self.total
        if total == 0:
            return None
        below = np.cumsum(self.counts)
        values = tuple(float(self.values[_rank(below, fraction, total)]) for fraction in QUANTILE_FRACTIONS)
        mean = math.fsum((self.values * self.counts).tolist()) / total
        return Distribution(unit=unit, observations=total, mean_value=mean, fractions=QUANTILE_FRACTIONS, values=values)


@dataclass(frozen=True, kw_only=True, eq=False)
class SecondCounts:
    """How many requests arrived in each second, numbered from the clock's zero.

    `held` are the counts of every second from `start_s` on, in as few bytes as they need: months of seconds are kept
    for each model and tenant. Where few seconds have a request, `held` are the counts of the seconds `listed`.
    """

    start_s: int
    held: NDArray[Any]
    listed: NDArray[np.int64] | None = None

    @property
    def total(self) -> int:
        return int(self.held.sum(dtype=np.int64))

    @property
    def seconds(self) -> NDArray[np.int64]:
        """The seconds in which requests arrived."""
        return self.start_s + np.flatnonzero(self.held) if self.listed is None else self.listed

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many arrived in each of `seconds`."""
        return (self.held[self.held > 0] if self.listed is None else self.held).astype(np.int64)

    def binned(self, width_s: int, first_s: float, last_s: float) -> NDArray[np.int64]:
        """Counts in every whole bin of this width between two times, empty bins included.

        Bins start at multiples of the width, so that bins of two traces are the same.
        A bin that the trace covers only in part would show a rate that never was; it is left out.
        """
        start = math.ceil(first_s / width_s)
        stop = math.floor(last_s / width_s)
        if stop <= start:
            return np.zeros(0, dtype=np.int64)
        if self.listed is None:
            return self._dense_bins(width_s, start, stop)
        bins = self.listed // width_s
        inside = (bins >= start) & (bins < stop)
        found = np.bincount(bins[inside] - start, weights=self.held[inside], minlength=stop - start)
        return found.astype(np.int64)

    def _dense_bins(self, width_s: int, start: int, stop: int) -> NDArray[np.int64]:
        found = np.zeros(stop - start, dtype=np.int64)
        # The seconds of these bins that are held, from the border of a bin on.
        low, high = max(start * width_s, self.start_s), min(stop * width_s, self.start_s + len(self.held))
        if high <= low:
            return found
        first = low // width_s
        borders = np.maximum(np.arange(first, -(-high // width_s)) * width_s, low) - self.start_s
        inside = self.held[: high - self.start_s]
        found[first - start : first - start + len(borders)] = np.add.reduceat(inside, borders, dtype=np.int64)
        return found

    def window_counts(self, width_s: int, first_s: float, last_s: float) -> ValueCounts:
        """How often each count occurs in the bins of `binned`, empty ones too, without writing those out where they
        are many: ten requests in five years have 160 million seconds between them.
        """
        start = math.ceil(first_s / width_s)
        windows = max(0, math.floor(last_s / width_s) - start)
        if self.listed is None:
            # Beside the stretch that is held, of a group of days in a trace of decades, all are empty.
            low = max(start, self.start_s // width_s)
            high = max(low, min(start + windows, -(-(self.start_s + len(self.held)) // width_s)))
            values, times = np.unique(self._dense_bins(width_s, low, high), return_counts=True)
            return value_counts(np.r_[0, values], np.r_[windows - (high - low), times])
        bins = self.listed // width_s
        inside = (bins >= start) & (bins < start + windows)
        _, held = _added(bins[inside], self.held[inside])
        empty = windows - len(held)
        return value_counts(np.r_[0, held], np.r_[empty, np.ones_like(held)])


def value_counts(values: NDArray[np.int64], counts: NDArray[np.int64]) -> ValueCounts:
    """Sorted, with equal values added up."""
    return ValueCounts(**dict(zip(("values", "counts"), _added(values, counts), strict=True)))


def second_counts(seconds: NDArray[np.int64], counts: NDArray[np.int64]) -> SecondCounts:
    """Equal seconds added up."""
    keys, added = _added(seconds, counts)
    if len(keys) == 0:
        return SecondCounts(start_s=0, held=added, listed=keys)
    start_s = int(keys[0])
    span = int(keys[-1]) - start_s + 1
    if span > _SPARSE_SECONDS * len(keys):
        return SecondCounts(start_s=start_s, held=added, listed=keys)
    held = np.zeros(span, dtype=_narrowest(added))
    held[keys - start_s] = added
    return SecondCounts(start_s=start_s, held=held)


# A second that is listed takes sixteen bytes, one that is held two.
_SPARSE_SECONDS = 8


def _narrowest(counts: NDArray[np.int64]) -> type[np.unsignedinteger[Any]] | type[np.int64]:
    most = int(counts.max(initial=0))
    return np.uint16 if most < 1 << 16 else np.uint32 if most < 1 << 32 else np.int64


def merge_values(parts: Sequence[ValueCounts]) -> ValueCounts:
    return value_counts(_joined([part.values for part in parts]), _joined([part.counts for part in parts]))


def merge_seconds(parts: Sequence[SecondCounts]) -> SecondCounts:
    given = [part for part in parts if len(part.held)]
    if not given or any(part.listed is not None for part in given):
        return second_counts(_joined([part.seconds for part in given]), _joined([part.counts for part in given]))
    start_s = min(part.start_s for part in given)
    span = max(part.start_s + len(part.held) for part in given) - start_s
    if span > _SPARSE_SECONDS * sum(len(part.held) for part in given):
        return second_counts(_joined([part.seconds for part in given]), _joined([part.counts for part in given]))
    added = np.zeros(span, dtype=np.int64)
    for part in given:
        added[part.start_s - start_s : part.start_s - start_s + len(part.held)] += part.held
    return SecondCounts(start_s=start_s, held=added.astype(_narrowest(added)))


def distribution(values: NDArray[np.float64] | NDArray[np.int64], unit: str) -> Distribution | None:
    """Quantiles of plain values, by the same rule as `ValueCounts.distribution`."""
    if len(values) == 0:
        return None
    ordered = np.sort(values)
    below = np.arange(1, len(ordered) + 1)
    picked = tuple(float(ordered[_rank(below, fraction, len(ordered))]) for fraction in QUANTILE_FRACTIONS)
    mean = math.fsum(ordered.tolist()) / len(ordered)
    return Distribution(
        unit=unit, observations=len(ordered), mean_value=mean, fractions=QUANTILE_FRACTIONS, values=picked
    )


def scaled(one: Distribution | None, factor: float, unit: str) -> Distribution | None:
    """The distribution of `factor` times the quantity."""
    if one is None:
        return None
    return Distribution(
        unit=unit,
        observations=one.observations,
        mean_value=one.mean_value * factor,
        fractions=one.fractions,
        values=tuple(value * factor for value in one.values),
    )


def _rank(below: NDArray[np.int64], fraction: float, total: int) -> int:
    # A share such as 0.99 of 100 must be the 99th, not the 100th because 0.99 * 100 is a little above 99.
    needed = max(1, math.ceil(round(fraction * total, 6)))
    return int(np.searchsorted(below, needed, side="left"))


def _added(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    keys, counts = keys.astype(np.int64, copy=False), counts.astype(np.int64, copy=False)
    if len(keys) == 0:
        return keys, counts
    least = int(keys.min())
    if int(keys.max()) - least < 8 * len(keys):
        # Nearly every key occurs: a table is several times faster than sorting, and sums stay below 2^53.
        table = np.bincount(keys - least, weights=counts).astype(np.int64)
        places = np.flatnonzero(np.bincount(keys - least))
        return places + least, table[places]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[starts], np.add.reduceat(counts[order], starts)


def _joined(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
