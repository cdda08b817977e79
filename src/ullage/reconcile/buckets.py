"""Latencies as engines export them: counts by bucket, from which a quantile is an interval and a mean is exact.

An engine that counts 90 requests up to 0.25 s and 8 more up to 0.5 s has a 95th percentile somewhere in between;
where, nobody can say. A point inside a bucket is a guess, so that here there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, kw_only=True)
class BucketBounds:
    """Where a value lies for sure; `high` is infinite where the last bucket is open."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class BucketCounts:
    """Counts in `(edge before, edge]`, the last beyond every edge. Edges rise; `sum_s` is of all values."""

    edges_s: tuple[float, ...]
    counts: tuple[float, ...]
    sum_s: float

    @property
    def count(self) -> float:
        return float(sum(self.counts))

    @property
    def mean_s(self) -> float | None:
        """Exact: the engine sums what it counts."""
        return self.sum_s / self.count if self.count > 0.0 else None

    def quantile_s(self, fraction: float) -> BucketBounds | None:
        """Where the sample's quantile lies: the buckets of its neighbours in the order of the sample.

        Definitions of a quantile differ in which neighbours they take and how they weigh them: ranks from f (n - 1) + 1
        to f (n + 1) cover them all, so that none of them falls outside.
        """
        if self.count <= 0.0:
            return None
        size = self.count
        ranks = (fraction * (size - 1.0) + 1.0, fraction * (size + 1.0))
        # A count that was extrapolated is not whole; a billionth of a request is no request.
        first = max(min(1.0, size), math.floor(min(ranks) + 1e-9)) - 1e-6
        last = min(size, math.ceil(max(ranks) - 1e-9)) - 1e-6
        running = list(accumulate(self.counts))
        low, high = (next(index for index, each in enumerate(running) if each >= rank) for rank in (first, last))
        return BucketBounds(
            low=0.0 if low == 0 else self.edges_s[low - 1],
            high=math.inf if high >= len(self.edges_s) else self.edges_s[high],
        )

    def above_fraction(self, limit_s: float) -> BucketBounds | None:
        """The share of values beyond a limit: of the bucket that the limit lies in, all or none may be."""
        if self.count <= 0.0:
            return None
        surely = sum(
            each for edge, each in zip((-math.inf, *self.edges_s), self.counts, strict=True) if edge >= limit_s
        )
        highest = sum(each for edge, each in zip((*self.edges_s, math.inf), self.counts, strict=True) if edge > limit_s)
        return BucketBounds(low=surely / self.count, high=highest / self.count)


def merged_buckets(parts: Iterable[BucketCounts]) -> BucketCounts | None:
    """The sum of histograms. Edges that only some of them have are left out: what is left is in all of them."""
    found = [each for each in parts if each.count > 0.0]
    if not found:
        return None
    shared = sorted(set.intersection(*(set(each.edges_s) for each in found)))
    counts = [0.0] * (len(shared) + 1)
    for each in found:
        for edge, count in zip((*each.edges_s, math.inf), each.counts, strict=True):
            place = next((index for index, limit in enumerate(shared) if edge <= limit), len(shared))
            counts[place] += count
    return BucketCounts(edges_s=tuple(shared), counts=tuple(counts), sum_s=sum(each.sum_s for each in found))
