"""Prefix reuse: what share of prompt blocks a cache of a given size would hold already.

A cache that forgets the block used longest ago (LRU) holds a block exactly if fewer distinct blocks than fit
were used since its last use. That number, the stack distance, is computed once for every use; the hit rate of
every cache size follows from it at once (Mattson et al., 1970).

    distance(i) = distinct blocks between the last use p of the block and now
                = (i - p - 1) - #{j < i : last(j) > p}

because every use j between p and i whose block was last used after p is a repetition. The subtrahend counts
inversions of the sequence of last uses; merging sorted halves, level by level, counts them in n log n.

Above MOST_USES uses a sample of *blocks* is taken, chosen by the hash of the block so that all uses of a block
are in or out together, and distances are scaled up by the sampling rate (Waldspurger et al., SHARDS, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.answers import arrays, literal, one_row
from ullage.workload.trace import Trace

# Exact up to here; a day of a large service has more, and a sample of 4 million uses errs by well under 0.1 points.
MOST_USES = 4_000_000
_SAMPLE_STEPS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ReusePoint:
    """A cache of so many blocks would hold this share of all prompt blocks used.

    Cold counts every use from an empty cache; warm counts the second half of the uses, with the cache as the
    first half left it: what a service that has been running sees.
    """

    cache_blocks: int
    cold_hit_fraction: float
    warm_hit_fraction: float


@dataclass(frozen=True, kw_only=True)
class ReuseProfile:
    """The curve of hit rate over cache size, with the two ends that no size can leave."""

    uses: int
    distinct_blocks: int
    endless_cold_fraction: float
    endless_warm_fraction: float
    points: tuple[ReusePoint, ...]
    sampled_fraction: float
    block_tokens: int | None
    by_tenant: tuple[tuple[str, ReuseProfile], ...] = ()

    def at(self, cache_blocks: int) -> ReusePoint:
        """The point of one of the sizes that are kept."""
        return next(point for point in self.points if point.cache_blocks == cache_blocks)


def reuse_of(trace: Trace, *, tenants: Sequence[str] = (), in_order: bool) -> ReuseProfile | None:
    """The curve of a trace with block hashes, all tenants sharing one cache, and each tenant in a cache of its own."""
    if not trace.knows("block_hashes"):
        return None
    block_tokens = trace.block_tokens or _block_tokens(trace)
    shared = _curve_of(trace, "true", in_order, block_tokens)
    if shared is None:
        return None
    alone = []
    for tenant in tenants:
        curve = _curve_of(trace, f"tenant = {literal(tenant)}", in_order, block_tokens)
        if curve is not None:
            alone.append((tenant, curve))
    return ReuseProfile(**{**shared.__dict__, "by_tenant": tuple(alone)})


def _curve_of(trace: Trace, where: str, in_order: bool, block_tokens: int | None) -> ReuseProfile | None:
    uses = int(one_row(trace.query(f"SELECT COALESCE(sum(len(block_hashes)), 0) FROM trace WHERE {where}"))[0])
    if uses == 0:
        return None
    kept = min(_SAMPLE_STEPS, max(1, round(_SAMPLE_STEPS * MOST_USES / uses)))
    sample = "" if kept == _SAMPLE_STEPS else f"WHERE hash(block) % {_SAMPLE_STEPS} < {kept}"
    # Rows of a sorted source are in order already; sorting them again could exchange rows of one stamp.
    order = "" if in_order else "ORDER BY arrival_s, block_hashes"
    blocks = arrays(
        trace.query(
            f"SELECT block FROM (SELECT unnest(block_hashes) AS block FROM "
            f"(SELECT block_hashes FROM trace WHERE {where} {order})) {sample}"
        )
    )["block"]
    return reuse_curve(blocks, uses=uses, sampled_fraction=kept / _SAMPLE_STEPS, block_tokens=block_tokens)


def reuse_curve(
    blocks: NDArray[np.uint64], *, uses: int, sampled_fraction: float = 1.0, block_tokens: int | None = None
) -> ReuseProfile | None:
    """The curve of a sequence of block uses, all of them or a sample of blocks."""
    if len(blocks) == 0:
        return None
    places, distances = stack_distances(blocks)
    distances = np.floor(distances / sampled_fraction)
    distinct = round((len(blocks) - len(places)) / sampled_fraction)
    middle = len(blocks) // 2
    late = places >= middle
    # A few blocks with very many uses, in or out of the sample, tip it; they would hit in any cache, so what the
    # sample has too many or too few of are hits (the correction of SHARDS). Nothing to correct without sampling.
    expected = uses * sampled_fraction
    surplus = expected - len(blocks)

    def share(hits: int, among: float, part: float) -> float:
        return min(1.0, max(0.0, (hits + surplus * part) / among))

    points = tuple(
        ReusePoint(
            cache_blocks=size,
            cold_hit_fraction=share(int((distances < size).sum()), expected, 1.0),
            warm_hit_fraction=share(int((distances[late] < size).sum()), len(blocks) - middle + surplus / 2, 0.5),
        )
        for size in _sizes(distinct)
    )
    return ReuseProfile(
        uses=uses,
        distinct_blocks=distinct,
        endless_cold_fraction=share(len(places), expected, 1.0),
        endless_warm_fraction=share(int(late.sum()), len(blocks) - middle + surplus / 2, 0.5),
        points=points,
        sampled_fraction=sampled_fraction,
        block_tokens=block_tokens,
    )


def stack_distances(blocks: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every use that repeats a block: its place in the sequence, and its stack distance.

    >>> places, distances = stack_distances(np.array([7, 8, 9, 7, 7, 8], dtype=np.uint64))
    >>> places.tolist(), distances.tolist()
    ([3, 4, 5], [2, 0, 2])
    """
    order = np.argsort(blocks, kind="stable")
    same = blocks[order][1:] == blocks[order][:-1]
    last = np.full(len(blocks), -1, dtype=np.int64)
    last[order[1:][same]] = order[:-1][same]
    places = np.flatnonzero(last >= 0)
    before = last[places]
    return places, places - before - 1 - _larger_before(before)


def _larger_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each element of a sequence without repetitions, how many before it are larger.

    At each level every pair of neighbouring blocks is merged: for an element of the right block, the elements
    of the left one with a larger value are those not yet passed when both are walked in order of value.
    """
    count = len(values)
    larger = np.zeros(count, dtype=np.int64)
    by_value = np.argsort(values, kind="stable")
    width = 1
    while width < count:
        pair = by_value // (2 * width)
        order = np.argsort(pair, kind="stable")
        places, pairs = by_value[order], pair[order]
        is_left = (places // width) % 2 == 0
        passed = np.cumsum(is_left)
        starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
        sizes = np.diff(np.r_[starts, count])
        before_pair = np.repeat(np.r_[0, passed][starts], sizes)
        up_to_pair = np.repeat(np.r_[passed[starts[1:] - 1], passed[-1]], sizes)
        right = ~is_left
        larger[places[right]] += (up_to_pair - before_pair)[right] - (passed - before_pair)[right]
        width *= 2
    return larger


def _sizes(distinct: int) -> list[int]:
    """1, 2 and 5 of every power of ten, from 100 blocks to the first size that holds everything."""
    sizes = []
    for power in range(2, 12):
        for step in (1, 2, 5):
            sizes.append(step * 10**power)
            if sizes[-1] >= distinct:
                return sizes
    return sizes


def _block_tokens(trace: Trace) -> int | None:
    """The block size that all prompts agree with: n blocks hold more than (n - 1) and at most n times it."""
    if not trace.knows("prompt_tokens"):
        return None
    low, high = one_row(
        trace.query(
            "SELECT max(prompt_tokens / len(block_hashes)), min(CASE WHEN len(block_hashes) > 1 "
            "THEN prompt_tokens / (len(block_hashes) - 1) END) FROM trace WHERE len(block_hashes) > 0"
        )
    )
    if low is None or high is None:
        return None
    fitting = [size for power in range(3, 14) if low <= (size := 2**power) < high]
    return fitting[0] if len(fitting) == 1 else None
