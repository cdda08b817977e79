"""Laws of headroom: never negative, met at the headroom stated, and never more where less is left."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mixes import small_trial
from support.served_replicas import QUICK, PoissonLoad, class_with_slos, short_bases
from ullage.service.curve.margin import NO_POLICY
from ullage.service.headroom import CHANGES, EFFORT, GROWTH_RUNGS, Headroom, LoadChange, _margin, headroom
from ullage.service.trial.decide import Decision, decide
from ullage.service.trial.search import least_replicas
from ullage.service.trial.trial import Trial

RATE_RPS = 60.0
SEED = 3
PROBE = short_bases(small_trial(replicas=1)).nominal_probe


def room_of(trial: Trial, rate_rps: float = RATE_RPS) -> Headroom:
    return headroom(trial, PROBE, rate_rps=rate_rps, seed=SEED, inputs=(NO_POLICY,))


@pytest.fixture(scope="module")
def found() -> Headroom:
    return room_of(small_trial())


@pytest.mark.slow
def test_there_is_a_line_for_every_change_and_none_is_negative(found: Headroom) -> None:
    assert [line.name for line in found.lines] == ["traffic", "prompts", "outputs", "cache"]
    assert all(line.holds_fraction >= 0.0 for line in found.lines)
    assert {line.holds_fraction > 0.0 for line in found.lines} == {True}
    assert found.line("cache").holds_fraction <= 1.0


def test_what_holds_holds_and_what_breaks_breaks(found: Headroom) -> None:
    """Each line is decided again at both of its ends."""
    for change, line in zip(CHANGES, found.lines, strict=True):
        trial, rate_rps = change.made(small_trial(), RATE_RPS, line.holds_fraction)
        assert decide(trial, rate_rps, PROBE, seed=SEED, effort=EFFORT).holds, line
        if line.breaks_fraction is None:
            continue
        trial, rate_rps = change.made(small_trial(), RATE_RPS, line.breaks_fraction)
        beyond = decide(trial, rate_rps, PROBE, seed=SEED, effort=EFFORT)
        assert not beyond.holds
        assert line.breaks in (*beyond.violated, *(each.name for each in beyond.judged))


def test_capacity_is_the_highest_load_that_was_seen_to_hold(found: Headroom) -> None:
    assert found.capacity_rps == RATE_RPS * (1.0 + found.line("traffic").holds_fraction)
    assert decide(small_trial(), found.capacity_rps, PROBE, seed=SEED, effort=EFFORT).holds


@pytest.mark.slow
def test_a_large_pool_has_less_to_spare_than_a_step_of_its_size() -> None:
    """What one step fewer does not carry is more traffic for the sub-pool that stands for both, and holds no better."""
    rate_rps = 5_000.0
    sized = least_replicas(small_trial(replicas=1, span_s=10.0), rate_rps, PROBE, seed=SEED, effort=QUICK)
    trial = small_trial(replicas=sized.replicas, span_s=10.0)
    assert sized.tested_replicas < sized.replicas
    assert sized.below is not None
    found = headroom(trial, PROBE, rate_rps=rate_rps, seed=SEED, sized=sized).line("traffic")
    step_fraction = sized.replicas / (sized.replicas - sized.step_replicas) - 1.0
    assert found.holds_fraction < step_fraction
    assert found.breaks_fraction is not None
    if found.breaks_fraction >= step_fraction:
        assert found.breaks in (*sized.below.violated, *(each.name for each in sized.below.judged))


@pytest.mark.slow
def test_beside_its_size_a_pool_has_room_that_is_decided_all_the_same() -> None:
    """Few windows show where to look; what holds is decided by as many as without them."""
    sized = least_replicas(small_trial(replicas=1), RATE_RPS, PROBE, seed=SEED)
    trial = small_trial(replicas=sized.replicas)
    beside, alone = (headroom(trial, PROBE, rate_rps=RATE_RPS, seed=SEED, sized=each) for each in (sized, None))
    for change, line, other in zip(CHANGES, beside.lines, alone.lines, strict=True):
        assert line.holds_fraction <= other.holds_fraction or line.holds_fraction == 0.0
        if line.holds_fraction > 0.0:
            changed, rate_rps = change.made(trial, RATE_RPS, line.holds_fraction)
            assert decide(changed, rate_rps, PROBE, seed=SEED, effort=EFFORT).holds, line


@pytest.mark.slow
def test_more_replicas_and_looser_slos_never_leave_less(found: Headroom) -> None:
    more = room_of(small_trial(replicas=4))
    looser = room_of(small_trial(class_with_slos("chat", ttft_p95=1.0, tpot_p95=0.1)))
    for roomier in (more, looser):
        for line, other in zip(found.lines, roomier.lines, strict=True):
            assert other.holds_fraction >= line.holds_fraction
    assert more.line("traffic").holds_fraction > found.line("traffic").holds_fraction


@pytest.mark.slow
def test_more_traffic_never_leaves_more(found: Headroom) -> None:
    busier = room_of(small_trial(), 1.3 * RATE_RPS)
    assert all(
        other.holds_fraction <= line.holds_fraction for line, other in zip(found.lines, busier.lines, strict=True)
    )


def test_a_pool_that_is_too_small_has_none() -> None:
    short = room_of(small_trial(replicas=1))
    assert [line.holds_fraction for line in short.lines] == [0.0] * 4
    assert all(line.breaks for line in short.lines)


@pytest.mark.slow
def test_without_hits_to_lose_the_cache_has_all_its_headroom() -> None:
    cold = room_of(small_trial(cache_blocks=0.0), 20.0)
    assert (cold.line("cache").holds_fraction, cold.line("cache").breaks_fraction) == (1.0, None)


def test_a_load_that_is_no_mix_can_only_grow() -> None:
    trial = small_trial()
    plain = room_of(replace(trial, load_at=PoissonLoad(classes=trial.classes)), 20.0)
    assert [line.name for line in plain.lines] == ["traffic"]


def test_one_seed_one_answer_and_figures_say_how(found: Headroom) -> None:
    assert room_of(small_trial()) == found
    traffic, line = found.figures["headroom.traffic_fraction"], found.line("traffic")
    assert traffic.value == line.holds_fraction
    assert line.breaks in traffic.formula
    assert "3 replicas" in traffic.formula


class _Verdict:
    """A decision of which only this is asked."""

    violated = ("x",)

    def __init__(self, holds: bool) -> None:
        self.holds = self.passes = holds


@given(st.integers(-1, len(GROWTH_RUNGS) - 1))
def test_the_last_rung_that_holds_is_found_by_few_looks(last: int) -> None:
    change = LoadChange(name="x", what="x", rungs=GROWTH_RUNGS, made=lambda trial, rate, _: (trial, rate))
    looks: set[int] = set()

    def at(rung: int) -> Decision:
        looks.add(rung)
        return cast("Decision", _Verdict(rung <= last))

    line = _margin(change, at)
    assert line.holds_fraction == (GROWTH_RUNGS[last] if last >= 0 else 0.0)
    assert line.breaks_fraction == (GROWTH_RUNGS[last + 1] if last + 1 < len(GROWTH_RUNGS) else None)
    assert len(looks) <= 8
