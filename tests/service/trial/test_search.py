"""The highest load and the least replicas: what a search by all numbers and many windows finds, in far fewer runs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mixes import BURSTS, small_trial
from support.served_replicas import QUICK, PoissonLoad, class_with_slos, poisson_trial, short_bases
from ullage.errors import InputError
from ullage.service.trial import search
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import BRIEF, Effort, decide
from ullage.service.trial.search import MOST_WHOLE, SUB_POOL, LeastReplicas, highest_load, last_passing, least_replicas
from ullage.simulate.load import OpenLoop

CHAT = class_with_slos(ttft_p95=0.3)
WEEK_S = 604_800.0


@dataclass(frozen=True, kw_only=True)
class CountingLoad:
    """Equal requests that are counted as they are drawn."""

    inner: PoissonLoad
    requests: list[int] = field(default_factory=list, compare=False)

    def __call__(self, *, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
        load = self.inner(rate_rps=rate_rps, span_s=span_s, seed=seed)
        self.requests.append(load.requests.count)
        return load


@pytest.fixture(scope="module")
def bases() -> Bases:
    return short_bases(poisson_trial(CHAT, span_s=30.0))


def least(
    bases: Bases, rate_rps: float, *, seed: int = 1, effort: Effort = QUICK, start: int | None = None
) -> LeastReplicas:
    return least_replicas(bases.nominal, rate_rps, bases.nominal_probe, seed=seed, effort=effort, start=start)


# ---- the search itself -----------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(-50, 400), st.floats(0.001, 3.0), st.floats(0.0, 0.4))
def test_the_last_passing_place_is_found_from_anywhere(border: int, start: int, slope: float, offset: float) -> None:
    """Whatever the slope, and however far the start, with no place asked twice."""
    asked: list[int] = []

    def excess(place: int) -> float:
        asked.append(place)
        return min(max(slope * (place - border - offset), -3.0), 3.0)

    assert last_passing(excess, start, least=0, most=256) == min(border, 256)
    assert len(set(asked)) == len(asked) <= 40


def test_a_likely_start_and_a_smooth_excess_take_few_questions() -> None:
    asked: list[int] = []

    def excess(place: int) -> float:
        asked.append(place)
        return 8.0 * math.log(place / 70.5)

    assert last_passing(excess, 76, least=0, most=2048) == 70
    assert len(asked) <= 4


# ---- the least replicas ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rate_rps", [70.0, 150.0])
def test_a_search_by_all_numbers_and_many_windows_finds_the_same(bases: Bases, rate_rps: float) -> None:
    many = Effort(most_windows=40, first_fraction=2.0)
    verdicts = [
        decide(replace(bases.nominal, replicas=replicas), rate_rps, bases.nominal_probe, seed=99, effort=many).holds
        for replicas in range(1, 7)
    ]
    found = least(bases, rate_rps, effort=many)
    assert verdicts == sorted(verdicts)
    assert found.low_replicas <= 1 + verdicts.index(True) <= found.replicas
    assert found.at.holds
    assert found.below is None or not found.below.holds


def test_where_it_is_looked_for_first_changes_nothing(bases: Bases) -> None:
    found = [least(bases, 150.0, start=start).replicas for start in (1, 4, 20)]
    assert len(set(found)) == 1


def test_more_traffic_never_needs_fewer(bases: Bases) -> None:
    found = [least(bases, rate_rps).replicas for rate_rps in (8.0, 40.0, 60.0, 90.0, 200.0)]
    assert found == sorted(found)
    assert found[0] == 1


def test_stricter_slos_and_slower_steps_never_need_fewer(bases: Bases) -> None:
    plain = least(bases, 150.0).replicas
    slow = least_replicas(bases.nominal.with_steps(1.3), 150.0, bases.nominal_probe, seed=1, effort=QUICK).replicas
    strict = replace(bases.nominal, classes=(class_with_slos(ttft_p95=0.05),))
    assert least_replicas(strict, 150.0, bases.nominal_probe, seed=1, effort=QUICK).replicas >= plain
    assert slow >= plain


def test_what_one_fewer_violates_is_named(bases: Bases) -> None:
    found = least(bases, 150.0)
    assert found.binding in ("stability", "chat ttft_p95", "chat error budget")
    assert least(bases, 5.0).binding == "one replica is enough"


def test_a_trickle_takes_one_replica_and_few_requests() -> None:
    """One request a week: what carries a brisker rate carries it too, and no week is simulated."""
    load_at = CountingLoad(inner=PoissonLoad(classes=(CHAT,), output_tokens=19))
    bases = short_bases(poisson_trial(CHAT, load_at=load_at, span_s=1024.0))
    load_at.requests.clear()
    found = least(bases, 1.0 / WEEK_S, effort=BRIEF)
    assert (found.replicas, found.low_replicas) == (1, 1)
    assert found.at.holds
    assert found.tested_rps > 1.0 / WEEK_S
    assert sum(load_at.requests) < 20_000


def test_no_rate_is_an_error_and_so_is_a_pool_without_end(bases: Bases) -> None:
    for rate_rps in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="rate"):
            least(bases, rate_rps)


# ---- pools of very many ------------------------------------------------------------------------------------


def test_a_large_pool_is_tried_as_a_part_of_it_with_its_share_of_the_load(bases: Bases) -> None:
    whole, rate_rps = search.tested_pool(bases.nominal, 1_000.0, MOST_WHOLE)
    assert (whole.replicas, rate_rps) == (MOST_WHOLE, 1_000.0)
    part, rate_rps = search.tested_pool(bases.nominal, 10_000.0, 1_000)
    assert part.replicas == SUB_POOL
    assert rate_rps == pytest.approx(640.0)


@pytest.mark.slow
def test_a_part_of_a_pool_errs_to_the_safe_side() -> None:
    """What a sub-pool says is enough is enough for the whole pool, simulated whole."""
    bases = short_bases(poisson_trial(CHAT, span_s=10.0))
    rate_rps = 6_500.0
    found = least(bases, rate_rps)
    assert found.replicas > MOST_WHOLE
    assert found.tested_replicas == SUB_POOL
    assert found.tested_rps == pytest.approx(rate_rps * SUB_POOL / found.replicas)
    whole = decide(replace(bases.nominal, replicas=found.replicas), rate_rps, bases.nominal_probe, seed=7, effort=QUICK)
    assert whole.passes


@pytest.mark.slow
def test_ten_seeds_give_one_answer_on_a_bursty_pool() -> None:
    """Where a number is decided, no other seed decides another; undecided ones say so and are one apart."""
    bases = short_bases(small_trial(replicas=1, span_s=256.0, bursts=BURSTS))
    found = [least(bases, 55.0, seed=seed, effort=Effort(most_windows=128)) for seed in range(10)]
    counts = Counter(each.replicas for each in found)
    assert max(counts) - min(counts) <= 1, counts
    decided = {each.replicas for each in found if each.is_decided}
    assert len(decided) <= 1, counts


# ---- the highest load ----------------------------------------------------------------------------------------


def test_the_highest_load_passes_and_the_next_of_the_grid_does_not(bases: Bases) -> None:
    found = highest_load(bases.nominal, bases.nominal_probe, seed=1, effort=QUICK)
    assert found.interval.low <= found.rps <= found.interval.high
    assert decide(bases.nominal, found.rps, bases.nominal_probe, seed=1, effort=QUICK).passes
    above = decide(bases.nominal, found.rps + found.step_rps, bases.nominal_probe, seed=1, effort=QUICK)
    assert found.binding in above.violated


def test_where_the_highest_load_is_looked_for_changes_nothing(bases: Bases) -> None:
    found = {
        highest_load(
            bases.nominal, bases.nominal_probe, seed=1, effort=QUICK, with_interval=False, near_rps=near_rps
        ).rps
        for near_rps in (None, 5.0, 200.0)
    }
    assert len(found) == 1


def test_a_pool_carries_more_per_replica_than_one_alone(bases: Bases) -> None:
    one, four = (
        highest_load(
            replace(bases.nominal, replicas=replicas), bases.nominal_probe, seed=1, effort=QUICK, with_interval=False
        )
        for replicas in (1, 4)
    )
    assert four.rps >= one.rps - one.step_rps


@given(st.integers(1, 200_000), st.integers(0, 100_000), st.floats(1.0, 1.5))
def test_larger_pools_are_looked_for_in_coarser_steps_and_never_end_with_fewer(
    likely: int, more: int, needed_ratio: float
) -> None:
    few, many = search.grain_replicas(likely), search.grain_replicas(likely + more)
    assert many % few == 0
    assert few == 1 or few <= likely / 64
    needs = math.ceil(likely * needed_ratio), math.ceil((likely + more) * needed_ratio)
    assert few * math.ceil(needs[0] / few) <= many * math.ceil(needs[1] / many)
