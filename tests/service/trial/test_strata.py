"""Strata: every candidate window in one of them, by what its rates alone predict."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from support.mixes import BURSTS, small_trial
from support.served_replicas import class_with_slos, poisson_trial
from ullage.service.trial.mix import MixLoad, _surges
from ullage.service.trial.strata import CANDIDATES, SHARES, Strata, allocated, strata_of
from ullage.workload.synthetic.model import CELL_S

SPAN_S = 240.0
WORK_S = {"chat": 0.02, "coding": 0.2}
CLASSES = (class_with_slos("chat", ttft_p95=0.5), class_with_slos("coding", ttft_p95=2.0))


def mix(bursts: bool = True) -> MixLoad:
    load_at = small_trial(*CLASSES, bursts=BURSTS if bursts else None).load_at
    assert isinstance(load_at, MixLoad)
    return load_at


def strata(seed: int = 1) -> Strata:
    return strata_of(mix(), span_s=SPAN_S, seed=seed, work_s=WORK_S)


def heaviness(seed: int) -> float:
    return float(mix().work(WORK_S).heaviness(span_s=SPAN_S, seeds=(seed,))[0])


def test_every_candidate_is_in_one_stratum_and_weights_are_their_shares() -> None:
    found = strata()
    assert sum(found.weights) == pytest.approx(1.0)
    assert found.candidates == CANDIDATES == len({seed for part in found.seeds for seed in part})
    for weight, part, share in zip(found.weights, found.seeds, SHARES, strict=True):
        assert weight == len(part) / CANDIDATES == pytest.approx(share)


def test_no_window_of_a_heavier_stratum_is_lighter_than_one_of_the_next() -> None:
    found = strata()
    heavy = [mix().work(WORK_S).heaviness(span_s=SPAN_S, seeds=part) for part in found.seeds]
    for heavier, lighter in pairwise(heavy):
        assert heavier.min() >= lighter.max()


def test_the_order_within_a_stratum_has_nothing_to_do_with_weight() -> None:
    """The first windows of a stratum are a fair sample of it."""
    for part in strata().seeds[1:]:
        heavy = mix().work(WORK_S).heaviness(span_s=SPAN_S, seeds=part)
        assert abs(np.corrcoef(np.arange(heavy.size), heavy)[0, 1]) < 4.0 / np.sqrt(heavy.size)


def test_a_load_without_bursts_has_one_stratum() -> None:
    for load_at in (mix(bursts=False), mix().smooth, poisson_trial().load_at):
        found = strata_of(load_at, span_s=SPAN_S, seed=1, work_s=WORK_S)
        assert (found.weights, len(found.seeds), found.candidates) == ((1.0,), 1, CANDIDATES)


def test_the_seed_reaches_every_draw() -> None:
    """Two seeds share no window; two windows of one seed differ in their rates, arrivals, lengths and prefixes."""
    one, other = ({seed for part in strata(seed).seeds for seed in part} for seed in (1, 2))
    assert not one & other
    first, second = sorted(one)[:2]
    loads = [mix()(rate_rps=20.0, span_s=SPAN_S, seed=each) for each in (first, second)]
    assert heaviness(first) != heaviness(second)
    fewest = min(each.requests.count for each in loads)
    for name in ("prompt_tokens", "output_tokens", "cached_tokens", "class_of"):
        one_column, other_column = (np.asarray(getattr(each.requests, name))[:fewest] for each in loads)
        assert not np.array_equal(one_column, other_column), name
    one_arrivals, other_arrivals = (np.asarray(each.arrival_ps)[:fewest] for each in loads)
    assert not np.array_equal(one_arrivals, other_arrivals)
    again = mix()(rate_rps=20.0, span_s=SPAN_S, seed=first)
    assert np.array_equal(np.asarray(again.arrival_ps), np.asarray(loads[0].arrival_ps))


def test_a_window_is_as_heavy_as_the_requests_that_are_drawn_for_it() -> None:
    """Rates predict: at a high rate, the work of the heaviest two minutes of arrivals is what the rates said."""
    load_at, rate_rps = mix(), 400.0
    rates_rps = np.array([each.mean_rate_rps for each in load_at.model.classes])
    work = np.array([WORK_S[each.name] for each in load_at.model.classes])
    scale = rate_rps * float(rates_rps @ work) / rates_rps.sum()
    for seed in (3, 4, 5):
        load = load_at(rate_rps=rate_rps, span_s=SPAN_S, seed=seed)
        cells = np.floor(np.asarray(load.arrival_ps) / 1e12 / CELL_S).astype(int)
        by_cell = np.bincount(cells, weights=work[np.asarray(load.requests.class_of)], minlength=round(SPAN_S / CELL_S))
        wide = round(120.0 / CELL_S)
        heaviest = max(by_cell[start : start + wide].sum() for start in range(by_cell.size - wide + 1))
        assert heaviest == pytest.approx(heaviness(seed) * scale * CELL_S, rel=0.03)


def test_a_load_is_what_it_says_in_every_window() -> None:
    """Bursts move the rate inside a window and not its mean."""
    counts = [mix()(rate_rps=100.0, span_s=SPAN_S, seed=seed).requests.count for seed in range(12)]
    assert np.std(counts) < 3.0 * np.sqrt(100.0 * SPAN_S)
    assert np.mean(counts) == pytest.approx(100.0 * SPAN_S, rel=0.02)


# ---- where the next windows go -------------------------------------------------------------------------------


def made_up(*weights: float, room: int = 1_000) -> Strata:
    return Strata(
        weights=weights,
        seeds=tuple(tuple(range(place * room, (place + 1) * room)) for place in range(len(weights))),
        first_windows=(1,) * len(weights),
    )


def test_windows_go_where_weight_and_spread_are() -> None:
    """Neyman: in proportion to weight times spread."""
    found = allocated(made_up(0.1, 0.3, 0.6), (6.0, 2.0, 1.0), (2, 2, 2), 594)
    assert sum(found) == 600
    assert found == pytest.approx((200, 200, 200), abs=2)
    assert allocated(made_up(0.5, 0.5), (1.0, 0.0), (2, 2), 10) == (12, 2)


def test_no_stratum_gets_more_than_it_has_and_none_loses_any() -> None:
    found = allocated(made_up(0.5, 0.5, room=5), (9.0, 1.0), (2, 2), 6)
    assert found == (5, 5)
    counts = Counter(allocated(made_up(0.2, 0.8), (1.0, 1.0), (6, 3), 1))
    assert counts == Counter((6, 4))


def test_other_work_sorts_windows_otherwise() -> None:
    """What is heavy depends on the engine: bursts of the dear class weigh more where it is dearer."""
    other = strata_of(mix(), span_s=SPAN_S, seed=1, work_s={"chat": 0.2, "coding": 0.002})
    assert set(other.seeds[0]) != set(strata().seeds[0])
    assert strata_of(replace(mix()), span_s=SPAN_S, seed=1, work_s=WORK_S) == strata()


def test_a_part_of_a_mix_meets_the_bursts_of_the_whole() -> None:
    """Its windows are as heavy as if nothing of the others weighed, and its requests come when they came there."""
    whole = mix()
    part = whole.part({"coding"})
    seeds = tuple(range(20))
    found = part.work(WORK_S).heaviness(span_s=SPAN_S, seeds=seeds)
    assert found.tolist() == whole.work({"chat": 0.0, "coding": 1.0}).heaviness(span_s=SPAN_S, seeds=seeds).tolist()
    assert whole.part({"chat", "coding"}) is whole

    def counts(load_at: MixLoad, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        drawn = load_at(rate_rps=2_000.0, span_s=SPAN_S, seed=4)
        assert drawn.requests.class_of is not None
        assert drawn.arrival_ps is not None
        own = drawn.requests.class_of == [each.name for each in drawn.requests.classes].index(name)
        return np.bincount((drawn.arrival_ps[own] // (10 * 10**12)).astype(np.int64), minlength=round(SPAN_S / 10))

    alone, among, other = counts(part, "coding"), counts(whole, "coding"), counts(whole, "chat")
    assert np.corrcoef(alone, among)[0, 1] > 0.95 > np.corrcoef(alone, other)[0, 1]


def test_a_window_is_drawn_once_for_pools_of_every_size_and_again_for_another_rate() -> None:
    load_at = mix()
    first = load_at(rate_rps=20.0, span_s=SPAN_S, seed=1)
    assert load_at(rate_rps=20.0, span_s=SPAN_S, seed=1) is first
    assert load_at(rate_rps=20.0, span_s=SPAN_S, seed=2) is not first
    assert load_at(rate_rps=21.0, span_s=SPAN_S, seed=1).requests.count != first.requests.count
    assert load_at(rate_rps=20.0, span_s=SPAN_S, seed=1) is first
    assert mix()(rate_rps=20.0, span_s=SPAN_S, seed=1) is first


def many(seed: int) -> Strata:
    return strata_of(mix(), span_s=SPAN_S, seed=seed, work_s=WORK_S, replicas=64)


def test_rates_tell_windows_of_many_replicas_alone_and_take_no_side() -> None:
    """What rates tell is compared with the mean of the mix, which no seed moves; candidates lie about it."""
    few = strata_of(mix(), span_s=SPAN_S, seed=1, work_s=WORK_S, replicas=63)
    assert few.surges == ()
    assert many(1).seeds == few.seeds
    for found in (many(1), many(2)):
        surges = np.concatenate([part[0] for part in found.surges])
        error = surges.std() * np.sqrt(1.0 / surges.size + 1.0 / found.reference_windows)
        assert abs(surges.mean()) < 4.0 * error
        assert found.surges[0].mean() > 0.0 > found.surges[-1].mean()
    one, other = (np.concatenate([part[0] for part in many(seed).surges]).mean() for seed in (1, 2))
    assert one != other


def test_a_window_whose_rate_is_far_above_the_mean_hurts_no_more_than_all_can_miss() -> None:
    """A hundred times the rate for a second, in one window of thousands, would otherwise outweigh all the others."""
    cells = round(SPAN_S / CELL_S)
    spiky = np.full(cells, 0.01)
    spiky[cells // 2 :] = 100.0
    assert 1.0 < _surges(spiky, 0)[0] <= 30.0


def test_every_turn_begins_with_other_windows_of_the_same_strata() -> None:
    whole = many(1)
    counts = whole.first_windows
    turns = [set(whole.turned(times).first_seeds(counts)) for times in range(5)]
    assert sum(len(each) for each in turns) == len(set().union(*turns)) == 5 * sum(counts)
    later = whole.turned(3)
    assert [set(part) for part in later.seeds] == [set(part) for part in whole.seeds]
    surge_of = dict(zip(whole.seeds[1], whole.surges[1][0].tolist(), strict=True))
    assert [surge_of[each] for each in later.seeds[1]] == later.surges[1][0].tolist()
    again = whole.begun_with([part[0] for part in later.seeds])
    assert again is not None
    assert again.seeds == later.seeds
    assert whole.begun_with([-1] * len(whole.seeds)) is None
