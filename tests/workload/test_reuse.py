"""Stack distances against a cache that is run block by block."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

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


@pytest.mark.slow
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


def prefix_hits(prompts: list[list[int]], size: int) -> int:
    """Blocks that an engine takes from its cache, literally: keys are whole prefixes, and the first miss ends it."""
    cache: OrderedDict[tuple[int, ...], None] = OrderedDict()
    hits = 0
    for prompt in prompts:
        is_hit = True
        for end in range(1, len(prompt) + 1):
            key = tuple(prompt[:end])
            is_hit = is_hit and key in cache
            hits += is_hit
            cache.pop(key, None)
            cache[key] = None
            if len(cache) > size:
                cache.popitem(last=False)
    return hits


PROMPTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=40)


@pytest.mark.slow
@given(PROMPTS)
def test_only_prefixes_hit_and_ids_that_are_not_chained_are_chained(prompts: list[list[int]]) -> None:
    found = reuse_of(make_trace(arrival_s=range(len(prompts)), block_hashes=prompts), in_order=True)
    assert found is not None
    uses = sum(len(prompt) for prompt in prompts)
    for point in found.points:
        assert point.cold_hit_fraction == pytest.approx(prefix_hits(prompts, point.cache_blocks) / uses)
    seen = [block for prompt in prompts for block in prompt]
    assert found.any_place_fraction == pytest.approx(1 - len(set(seen)) / len(seen))
    assert found.endless_cold_fraction <= found.any_place_fraction + 1e-12


@given(PROMPTS, st.integers(1, 6))
def test_small_caches_hold_prefixes_as_an_engine_does(prompts: list[list[int]], size: int) -> None:
    keys: dict[tuple[int, ...], int] = {}
    chained = [
        [keys.setdefault(tuple(prompt[:end]), len(keys)) for end in range(1, len(prompt) + 1)] for prompt in prompts
    ]
    flat = np.array([block for prompt in chained for block in prompt], dtype=np.uint64)
    starts = np.repeat(np.cumsum([0, *map(len, prompts[:-1])]), list(map(len, prompts)))
    places, distances = stack_distances(flat)
    needed = np.full(flat.size, np.inf)
    needed[places] = distances
    assert int((reuse._largest_so_far(needed, starts) < size).sum()) == prefix_hits(prompts, size)


def test_equal_blocks_after_another_beginning_do_not_hit() -> None:
    trace = make_trace(arrival_s=range(2), block_hashes=[[1, 2, 3], [9, 2, 3]])
    found = reuse_of(trace, in_order=True)
    assert found is not None
    assert found.endless_cold_fraction == 0.0
    assert found.any_place_fraction == pytest.approx(1 / 3)
    assert found.unchained_fraction == pytest.approx(1 / 4)


def test_hits_are_counted_in_tokens_of_whole_blocks() -> None:
    trace = make_trace(arrival_s=range(2), prompt_tokens=[1000, 1000], block_hashes=[[1, 2], [1, 2]])
    found = reuse_of(replace(trace, block_tokens=512), in_order=True)
    assert found is not None
    assert found.endless_cold_fraction == pytest.approx(512 / 2000)
