"""Laws of headroom: never negative, met at the headroom stated, and never more where less is left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mixes import small_bench
from support.served_replicas import PoissonLoad, class_with_slos
from ullage.service.headroom import CHANGES, GROWTH_RUNGS, Headroom, LoadChange, _margin, headroom
from ullage.service.trial.search import Replications, broken
from ullage.service.trial.window import run_load
from ullage.service.curve.margin import NO_POLICY
from ullage.simulate.statistics import replication_seeds

RATE_RPS = 60.0
SEED = 3


@pytest.fixture(scope="module")
def found() -> Headroom:
    return headroom(small_bench(), rate_rps=RATE_RPS, seed=SEED, inputs=(NO_POLICY,))


def test_there_is_a_line_for_every_change_and_none_is_negative(found: Headroom) -> None:
    assert [line.name for line in found.lines] == ["traffic", "prompts", "outputs", "cache"]
    assert all(line.holds_fraction >= 0.0 for line in found.lines)
    assert {line.holds_fraction > 0.0 for line in found.lines} == {True}
    assert found.line("cache").holds_fraction <= 1.0


def test_what_holds_holds_and_what_breaks_breaks(found: Headroom) -> None:
    """Each line is simulated again at both of its ends."""
    seeds = replication_seeds(SEED, 4)
    for change, line in zip(CHANGES, found.lines, strict=True):
        bench, rate_rps = change.made(small_bench(), RATE_RPS, line.holds_fraction)
        assert not broken(bench, [run_load(bench, rate_rps, each) for each in seeds]), line
        if line.breaks_fraction is None:
            continue
        bench, rate_rps = change.made(small_bench(), RATE_RPS, line.breaks_fraction)
        assert line.breaks in broken(bench, [run_load(bench, rate_rps, each) for each in seeds]), line


def test_more_replicas_and_looser_slos_never_leave_less(found: Headroom) -> None:
    more = headroom(small_bench(replicas=4), rate_rps=RATE_RPS, seed=SEED)
    looser = headroom(small_bench(class_with_slos("chat", ttft_p95=1.0, tpot_p95=0.1)), rate_rps=RATE_RPS, seed=SEED)
    for roomier in (more, looser):
        for line, other in zip(found.lines, roomier.lines, strict=True):
            assert other.holds_fraction >= line.holds_fraction
    assert more.line("traffic").holds_fraction > found.line("traffic").holds_fraction


def test_more_traffic_never_leaves_more(found: Headroom) -> None:
    busier = headroom(small_bench(), rate_rps=1.3 * RATE_RPS, seed=SEED)
    assert all(
        other.holds_fraction <= line.holds_fraction for line, other in zip(found.lines, busier.lines, strict=True)
    )


def test_a_pool_that_is_too_small_has_none(found: Headroom) -> None:
    short = headroom(small_bench(replicas=1), rate_rps=RATE_RPS, seed=SEED)
    assert [line.holds_fraction for line in short.lines] == [0.0] * 4
    assert all(line.breaks for line in short.lines)


def test_without_hits_to_lose_the_cache_has_all_its_headroom() -> None:
    cold = headroom(small_bench(cache_blocks=0.0), rate_rps=20.0, seed=SEED)
    assert (cold.line("cache").holds_fraction, cold.line("cache").breaks_fraction) == (1.0, None)


def test_a_load_that_is_no_mix_can_only_grow() -> None:
    bench = small_bench()
    plain = headroom(replace(bench, load_at=PoissonLoad(classes=bench.classes)), rate_rps=20.0, seed=SEED)
    assert [line.name for line in plain.lines] == ["traffic"]


def test_where_it_is_looked_for_first_changes_nothing(found: Headroom) -> None:
    for likely in (0.0, 0.3, 5.0):
        again = headroom(small_bench(), rate_rps=RATE_RPS, seed=SEED, likely_fraction=likely, inputs=(NO_POLICY,))
        assert again.lines == found.lines


def test_one_seed_one_answer_and_figures_say_how(found: Headroom) -> None:
    assert headroom(small_bench(), rate_rps=RATE_RPS, seed=SEED, inputs=(NO_POLICY,)) == found
    traffic, line = found.figures["headroom.traffic_fraction"], found.line("traffic")
    assert traffic.value == line.holds_fraction
    assert line.breaks in traffic.formula
    assert "3 replicas" in traffic.formula


@given(st.integers(-1, len(GROWTH_RUNGS) - 1), st.integers(0, len(GROWTH_RUNGS) - 1))
def test_the_last_rung_that_holds_is_found_from_any_start(last: int, start: int) -> None:
    change = LoadChange(name="x", what="x", rungs=GROWTH_RUNGS, made=lambda bench, rate, _: (bench, rate))
    looks: list[int] = []

    class Counting(Replications):
        def broken(self, number: int, view: str, *, by_all: bool = False) -> tuple[str, ...]:
            looks.extend([] if by_all else [number])
            return ("x",) if number > last else ()

    line = _margin(change, start, Counting(lambda number: (small_bench(), 1.0), seeds=(1,)))
    assert line.holds_fraction == (GROWTH_RUNGS[last] if last >= 0 else 0.0)
    assert line.breaks_fraction == (GROWTH_RUNGS[last + 1] if last + 1 < len(GROWTH_RUNGS) else None)
    assert len(looks) == len(set(looks)) <= 7
