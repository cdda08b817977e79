"""Counts per second and per value: what rates and lengths of a trace are computed from.

Both are sparse, sorted and exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """How many requests arrived in each second, numbered from the clock's zero; seconds without any are left out."""

    seconds: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def binned(self, width_s: int, first_s: float, last_s: float) -> NDArray[np.int64]:
        """Counts in every whole bin of this width between two times, empty bins included.

        Bins start at multiples of the width, so that bins of two traces are the same.
        A bin that the trace covers only in part would show a rate that never was; it is left out.
        """
        start = math.ceil(first_s / width_s)
        stop = math.floor(last_s / width_s)
        if stop <= start:
            return np.zeros(0, dtype=np.int64)
        bins = self.seconds // width_s
        inside = (bins >= start) & (bins < stop)
        found = np.bincount(bins[inside] - start, weights=self.counts[inside], minlength=stop - start)
        return found.astype(np.int64)

    def window_counts(self, width_s: int, first_s: float, last_s: float) -> ValueCounts:
        """How often each count occurs in the bins of `binned`, empty ones too, without writing those out.

        Ten requests in five years have 160 million seconds between them.
        """
        start = math.ceil(first_s / width_s)
        windows = max(0, math.floor(last_s / width_s) - start)
        bins = self.seconds // width_s
        inside = (bins >= start) & (bins < start + windows)
        _, held = _added(bins[inside], self.counts[inside])
        empty = windows - len(held)
        return value_counts(np.r_[0, held], np.r_[empty, np.ones_like(held)])


def value_counts(values: NDArray[np.int64], counts: NDArray[np.int64]) -> ValueCounts:
    """Sorted, with equal values added up."""
    return ValueCounts(**dict(zip(("values", "counts"), _added(values, counts), strict=True)))


def second_counts(seconds: NDArray[np.int64], counts: NDArray[np.int64]) -> SecondCounts:
    """Sorted, with equal seconds added up."""
    return SecondCounts(**dict(zip(("seconds", "counts"), _added(seconds, counts), strict=True)))


def merge_values(parts: Sequence[ValueCounts]) -> ValueCounts:
    return value_counts(_joined([part.values for part in parts]), _joined([part.counts for part in parts]))


def merge_seconds(parts: Sequence[SecondCounts]) -> SecondCounts:
    return second_counts(_joined([part.seconds for part in parts]), _joined([part.counts for part in parts]))


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
