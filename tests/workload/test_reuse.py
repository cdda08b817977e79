"""Stack distances against a cache that is run block by block."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.traces import make_trace
from ullage.workload.profile import reuse
from ullage.workload.profile.reuse import reuse_curve, reuse_of, stack_distances


def lru_hits(blocks: list[int], size: int, *, from_use: int = 0) -> int:
    """Hits of a least-recently-used cache, literally."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for place, block in enumerate(blocks):
        if block in cache:
            hits += place >= from_use
            cache.move_to_end(block)
        else:
            cache[block] = None
            if len(cache) > size:
                cache.popitem(last=False)
    return hits


@given(st.lists(st.integers(0, 30), min_size=1, max_size=120), st.integers(1, 20))
def test_a_distance_below_the_size_is_a_hit(blocks: list[int], size: int) -> None:
    _, distances = stack_distances(np.array(blocks, dtype=np.uint64))
    assert int((distances < size).sum()) == lru_hits(blocks, size)


@given(st.lists(st.integers(0, 400), min_size=2, max_size=300))
def test_cold_and_warm_are_those_of_the_cache(blocks: list[int]) -> None:
    curve = reuse_curve(np.array(blocks, dtype=np.uint64), uses=len(blocks))
    assert curve is not None
    middle = len(blocks) // 2
    for point in curve.points:
        assert point.cold_hit_fraction == pytest.approx(lru_hits(blocks, point.cache_blocks) / len(blocks))
        warm = lru_hits(blocks, point.cache_blocks, from_use=middle) / (len(blocks) - middle)
        assert point.warm_hit_fraction == pytest.approx(warm)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=300))
def test_a_larger_cache_never_hits_less(blocks: list[int]) -> None:
    curve = reuse_curve(np.array(blocks, dtype=np.uint64), uses=len(blocks))
    assert curve is not None
    cold = [point.cold_hit_fraction for point in curve.points]
    assert cold == sorted(cold)
    assert cold[-1] == curve.endless_cold_fraction
    assert curve.endless_cold_fraction == pytest.approx(1 - len(set(blocks)) / len(blocks))


def _zipf_blocks(uses: int) -> list[int]:
    rng = np.random.default_rng(5)
    return [int(block) for block in rng.zipf(1.2, size=uses) % 60_000]


def test_a_sample_of_blocks_comes_close(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = _zipf_blocks(300_000)
    lists = [blocks[at : at + 100] for at in range(0, len(blocks), 100)]
    trace = make_trace(arrival_s=range(len(lists)), block_hashes=lists)
    exact = reuse_of(trace, in_order=True)
    monkeypatch.setattr(reuse, "MOST_USES", 60_000)
    sampled = reuse_of(trace, in_order=True)
    assert exact is not None
    assert sampled is not None
    assert sampled.sampled_fraction == pytest.approx(0.2, rel=0.01)
    for size in (1000, 5000, 20_000):
        assert sampled.at(size).cold_hit_fraction == pytest.approx(exact.at(size).cold_hit_fraction, abs=0.01)
        assert sampled.at(size).warm_hit_fraction == pytest.approx(exact.at(size).warm_hit_fraction, abs=0.01)
    assert sampled.endless_cold_fraction == pytest.approx(exact.endless_cold_fraction, abs=0.005)
    assert sampled.distinct_blocks == pytest.approx(exact.distinct_blocks, rel=0.05)


def test_tenants_in_caches_of_their_own() -> None:
    trace = make_trace(
        arrival_s=range(4),
        tenant=["a", "b", "a", "b"],
        block_hashes=[[1, 2], [1, 2], [1, 2], [3, 4]],
    )
    found = reuse_of(trace, tenants=["a", "b"], in_order=True)
    assert found is not None
    assert found.endless_cold_fraction == 0.5
    alone = dict(found.by_tenant)
    assert alone["a"].endless_cold_fraction == 0.5
    assert alone["b"].endless_cold_fraction == 0.0


def test_the_block_size_follows_from_the_prompts() -> None:
    trace = make_trace(arrival_s=range(3), prompt_tokens=[100, 513, 1500], block_hashes=[[1], [1, 2], [1, 2, 3]])
    found = reuse_of(trace, in_order=True)
    assert found is not None
    assert found.block_tokens == 512
