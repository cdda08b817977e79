"""Prefix reuse: what share of prompt tokens an engine's cache of a given size would hold already.

An engine hashes a block together with all before it, and takes a block from its cache only where it took the one before
as well: a *prefix* hits, and equal text after another beginning does not. So ids are checked first. Where one id
follows different predecessors, ids are hashes of a block's text alone; they are chained here, as the profile notes.

A cache that forgets the block used longest ago (LRU) holds a block exactly if fewer distinct blocks than fit
were used since its last use. That number, the stack distance, is computed once for every use; the hit rate of
every cache size follows from it at once (Mattson et al., 1970).

    distance(i) = distinct blocks between the last use p of the block and now
                = (i - p - 1) - #{j < i : last(j) > p}

because every use j between p and i whose block was last used after p is a repetition. The subtrahend counts
inversions of the sequence of last uses; merging sorted halves, level by level, counts them in n log n. A use hits in a
cache that holds it and all before it in the same prompt: its own distance or the largest before it, if that is larger.

Hits are counted in tokens: a block's size, and for the last of a prompt what is left of it, which engines do not keep
unless it is full. How often an id recurs at any place is a line of its own: no engine reuses that.

Above MOST_USES uses a sample of *blocks* is taken, chosen by the hash of the block so that all uses of a block
are in or out together, and distances are scaled up by the sampling rate (Waldspurger et al., SHARDS, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.workload.answers import arrays, literal, one_row
from ullage.workload.trace import Trace

# Exact up to here; a day of a large service has more, and a sample of 4 million uses errs by well under 0.1 points.
MOST_USES = 4_000_000
_SAMPLE_STEPS = 1 << 20
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class ReusePoint:
    """A cache of so many blocks would hold this share of all prompt tokens, as prefixes.

    Cold counts every use from an empty cache; warm counts the second half of the uses, with the cache as the
    first half left it: what a service that has been running sees.
    """

    cache_blocks: int
    cold_hit_fraction: float
    warm_hit_fraction: float


@dataclass(frozen=True, kw_only=True)
class ReuseProfile:
    """The curve of prefix hits over cache size, with the two ends that no size can leave.

    `any_place_fraction` is the share of blocks whose id was seen before, wherever it stood. `unchained_fraction` is the
    share of distinct ids that follow different predecessors: above 0 the ids were chained by us.
    """

    uses: int
    distinct_blocks: int
    endless_cold_fraction: float
    endless_warm_fraction: float
    points: tuple[ReusePoint, ...]
    sampled_fraction: float
    block_tokens: int | None
    any_place_fraction: float
    unchained_fraction: float
    by_tenant: tuple[tuple[str, ReuseProfile], ...] = ()

    def at(self, cache_blocks: int) -> ReusePoint:
        """The point of one of the sizes that are kept."""
        return next(point for point in self.points if point.cache_blocks == cache_blocks)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Uses:
    """Uses of blocks in order of time: each block's id, the place where its prompt starts, and its tokens."""

    blocks: NDArray[np.uint64]
    starts: NDArray[np.int64]
    tokens: NDArray[np.float64]


def reuse_of(trace: Trace, *, tenants: Sequence[str] = (), in_order: bool) -> ReuseProfile | None:
    """The curve of a trace with block hashes, all tenants sharing one cache, and each tenant in a cache of its own."""
    if not trace.knows("block_hashes"):
        return None
    block_tokens = trace.block_tokens or inferred_block_tokens(trace)
    unchained, any_place = _recurring(trace)
    shared = _curve_of(trace, "true", in_order, block_tokens, unchained)
    if shared is None:
        return None
    alone = []
    for tenant in tenants:
        curve = _curve_of(trace, f"tenant = {literal(tenant)}", in_order, block_tokens, unchained)
        if curve is not None:
            alone.append((tenant, curve))
    return replace(shared, by_tenant=tuple(alone), any_place_fraction=any_place)


def _recurring(trace: Trace) -> tuple[float, float]:
    """The share of distinct ids with different predecessors, and the share of uses that repeat an id at any place."""
    # The first block of a prompt follows nothing, which is a predecessor like any other.
    pairs = (
        "SELECT block, count(DISTINCT COALESCE(before::HUGEINT, -1)) AS befores, count(*) AS uses FROM "
        "(SELECT unnest(block_hashes) AS block, unnest(list_prepend(NULL, block_hashes[:-2])) AS before FROM trace "
        "WHERE len(block_hashes) > 0) GROUP BY block"
    )
    several, distinct, uses = one_row(
        trace.query(f"SELECT count(*) FILTER (befores > 1), count(*), sum(uses) FROM ({pairs})")
    )
    return several / max(1, distinct), 1.0 - distinct / max(1, uses)


def _curve_of(
    trace: Trace, where: str, in_order: bool, block_tokens: int | None, unchained_fraction: float
) -> ReuseProfile | None:
    uses = int(one_row(trace.query(f"SELECT COALESCE(sum(len(block_hashes)), 0) FROM trace WHERE {where}"))[0])
    if uses == 0:
        return None
    # Rows of a sorted source are in order already; sorting them again could exchange rows of one stamp.
    order = "" if in_order else "ORDER BY arrival_s, block_hashes"
    kept = min(_SAMPLE_STEPS, max(1, round(_SAMPLE_STEPS * MOST_USES / uses)))
    is_chained = unchained_fraction == 0.0
    found = _uses(trace, where, order, block_tokens, kept if is_chained else _SAMPLE_STEPS)
    if not is_chained:
        found = _sampled(_chained(found), kept)
    return reuse_curve(
        found.blocks,
        uses=uses,
        sampled_fraction=kept / _SAMPLE_STEPS,
        block_tokens=block_tokens,
        starts=found.starts,
        tokens=found.tokens,
        unchained_fraction=unchained_fraction,
    )


def _uses(trace: Trace, where: str, order: str, block_tokens: int | None, kept: int) -> _Uses:
    """The uses of a trace, or a sample of blocks where ids are chained already."""
    sample = "" if kept == _SAMPLE_STEPS else f"WHERE hash(block) % {_SAMPLE_STEPS} < {kept}"
    # What the last block of a prompt holds; one that is not full is computed again, every time.
    size = block_tokens or 1
    knows_prompt = block_tokens is not None and trace.knows("prompt_tokens")
    left = f"COALESCE(prompt_tokens, len(block_hashes) * {size}) - (len(block_hashes) - 1) * {size}"
    last = f"LEAST({size}, GREATEST(0, {left}))"
    found = arrays(
        trace.query(
            f"SELECT block, row_, CAST(CASE WHEN place < blocks THEN {size} ELSE last END AS DOUBLE) AS tokens FROM "
            "(SELECT unnest(block_hashes) AS block, unnest(range(1, len(block_hashes) + 1)) AS place, "
            f"len(block_hashes) AS blocks, {last if knows_prompt else size} AS last, row_ FROM (SELECT *, "
            f"row_number() OVER () AS row_ FROM (SELECT * FROM trace WHERE {where} AND len(block_hashes) > 0 "
            f"{order}))) "
            f"{sample}"
        )
    )
    rows = found["row_"].astype(np.int64)
    is_first = np.r_[True, rows[1:] != rows[:-1]] if rows.size else np.zeros(0, dtype=np.bool_)
    starts = np.maximum.accumulate(np.where(is_first, np.arange(rows.size), 0)) if rows.size else rows
    return _Uses(blocks=found["block"].astype(np.uint64), starts=starts, tokens=found["tokens"])


def _chained(uses: _Uses) -> _Uses:
    """Every id hashed together with all before it in its prompt, place by place over all prompts at once."""
    blocks = _mixed(uses.blocks)
    place = np.arange(blocks.size) - uses.starts
    by_place = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[by_place], np.arange(1, int(place.max(initial=0)) + 2))
    for at in range(1, len(ends)):
        here = by_place[ends[at - 1] : ends[at]]
        blocks[here] = _mixed(blocks[here] ^ (blocks[here - 1] * _ODD))
    return replace(uses, blocks=blocks)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: near ids end far apart."""
    mixed = values + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _sampled(uses: _Uses, kept: int) -> _Uses:
    inside = uses.blocks % np.uint64(_SAMPLE_STEPS) < kept
    starts = uses.starts[inside]
    is_first = np.r_[True, starts[1:] != starts[:-1]] if starts.size else np.zeros(0, dtype=np.bool_)
    moved = np.maximum.accumulate(np.where(is_first, np.arange(starts.size), 0)) if starts.size else starts
    return _Uses(blocks=uses.blocks[inside], starts=moved, tokens=uses.tokens[inside])


def reuse_curve(
    blocks: NDArray[np.uint64],
    *,
    uses: int,
    sampled_fraction: float = 1.0,
    block_tokens: int | None = None,
    starts: NDArray[np.int64] | None = None,
    tokens: NDArray[np.float64] | None = None,
    unchained_fraction: float = 0.0,
) -> ReuseProfile | None:
    """The curve of a sequence of block uses, all of them or a sample of blocks.

    `starts` gives for each use the place where its prompt begins; without it every use stands alone. `tokens` weighs
    them.
    """
    if len(blocks) == 0:
        return None
    places, distances = stack_distances(blocks)
    distinct = round((len(blocks) - len(places)) / sampled_fraction)
    needed = np.full(len(blocks), np.inf)
    needed[places] = np.floor(distances / sampled_fraction)
    if starts is not None:
        needed = _largest_so_far(needed, starts)
    full = block_tokens or 1
    weights = np.ones(len(blocks)) if tokens is None else tokens
    # Engines keep whole blocks alone, so that the end of a prompt never hits.
    carried = weights if tokens is None else np.where(weights >= full, weights, 0.0)
    late = np.arange(len(blocks)) >= len(blocks) // 2
    # A few blocks with very many uses, in or out of the sample, tip it; they would hit in any cache, so what the
    # sample has too many or too few of are hits (the correction of SHARDS). Nothing to correct without sampling.
    mean = float(weights.mean())
    surplus = (uses * sampled_fraction - len(blocks)) * mean

    def share(hits: NDArray[np.bool_], among: NDArray[np.bool_] | None, part: float) -> float:
        total = float(weights.sum() if among is None else weights[among].sum()) + surplus * part
        counted = float(carried[hits].sum() if among is None else carried[hits & among].sum()) + surplus * part
        return min(1.0, max(0.0, counted / total)) if total > 0 else 0.0

    points = tuple(
        ReusePoint(
            cache_blocks=size,
            cold_hit_fraction=share(needed < size, None, 1.0),
            warm_hit_fraction=share(needed < size, late, 0.5),
        )
        for size in _sizes(distinct)
    )
    return ReuseProfile(
        uses=uses,
        distinct_blocks=distinct,
        endless_cold_fraction=share(np.isfinite(needed), None, 1.0),
        endless_warm_fraction=share(np.isfinite(needed), late, 0.5),
        points=points,
        sampled_fraction=sampled_fraction,
        block_tokens=block_tokens,
        any_place_fraction=1.0 - (len(blocks) - len(places)) / len(blocks),
        unchained_fraction=unchained_fraction,
    )


def _largest_so_far(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The running maximum inside each prompt.

    Prompts are put one above the other: what a later one adds is larger than any difference inside an earlier one, so
    that one running maximum over all of them starts afresh with each.
    """
    ranks = np.unique(values, return_inverse=True)[1].ravel().astype(np.int64)
    number = np.cumsum(np.arange(len(values)) == starts) - 1
    levels = int(ranks.max(initial=0)) + 1
    largest = np.maximum.accumulate(number * levels + ranks) - number * levels
    found: NDArray[np.float64] = np.unique(values)[largest]
    return found


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


def inferred_block_tokens(trace: Trace) -> int | None:
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
