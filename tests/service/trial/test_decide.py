"""Met, violated or undecided: shares over strata are unbiased, errors are honest, and the rule knows its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from support.mixes import BURSTS, small_trial
from support.served_replicas import class_with_slos, poisson_trial, short_bases
from ullage.evidence import Evidence
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.trial.bases import Bases, bases_of
from ullage.service.trial.decide import (
    DECIDED_ERRORS,
    FULL,
    SCOUT,
    Beside,
    Decision,
    Effort,
    Judged,
    Sample,
    decide,
    decide_beside,
    is_on_edge,
    judge,
    sampled,
    scout_windows,
)
from ullage.service.trial.stability import Drift
from ullage.service.trial.strata import strata_of
from ullage.service.trial.window import Tally, Window, error_budget, window
from ullage.simulate.statistics import Interval

# ---- estimates over strata, on a population whose share is known ----------------------------------------------

WEIGHTS = (1 / 32, 1 / 16, 5 / 32, 1 / 4, 1 / 2)
COUNTS = (24, 20, 16, 12, 8)
# Of each stratum: how many of its windows collapse, and what the others miss.
COLLAPSES = (0.6, 0.25, 0.05, 0.01, 0.0)
PER_STRATUM = tuple(round(weight * 1024) for weight in WEIGHTS)


def made_up(sent: float, missed: float) -> Window:
    steady = Drift(offered_rps=1.0, ended_rps=1.0, growth_fraction=0.0, backlog_requests=(1.0, 1.0, 1.0))
    return Window(
        seed=0,
        rate_rps=1.0,
        drift=steady,
        tallies={"slo": Tally(sent_count=sent, missed_count=missed)},
        histograms={},
        mean_e2e_s=missed / sent,
        service_s=0.0,
        queue_age_s=0.0,
        waiting_requests=0.0,
        goodput_rps=0.0,
        achieved_rps=0.0,
        error_fractions={},
        busy_fraction=0.0,
        kv_fraction=0.0,
        kv_peak_fraction=0.0,
        active_tokens=0.0,
        running_requests=0.0,
        preemptions_per_request=0.0,
        cached_fraction=0.0,
    )


def candidates(rng: Generator) -> list[list[Window]]:
    """A thousand windows: calm ones miss about two in a hundred, those that collapse half."""
    found = []
    for size, collapse in zip(PER_STRATUM, COLLAPSES, strict=True):
        sent = rng.uniform(800.0, 1200.0, size)
        share = np.where(rng.random(size) < collapse, rng.uniform(0.3, 0.7, size), rng.uniform(0.01, 0.03, size))
        found.append([made_up(one, one * each) for one, each in zip(sent, share, strict=True)])
    return found


def share_of(population: list[list[Window]]) -> float:
    tallies = [one.tallies["slo"] for part in population for one in part]
    return float(sum(each.missed_count for each in tallies) / sum(each.sent_count for each in tallies))


def drawn(population: list[list[Window]], rng: Generator, counts: tuple[int, ...] = COUNTS) -> Sample:
    parts = [
        tuple(part[place] for place in rng.choice(len(part), count, replace=False))
        for part, count in zip(population, counts, strict=True)
    ]
    return Sample(weights=WEIGHTS, windows=tuple(parts), candidates=1024)


def test_weights_of_windows_sum_to_one_and_counts_do_not_move_the_mean() -> None:
    rng = np.random.default_rng(0)
    population = candidates(rng)
    sample = drawn(population, rng)
    assert float(sample.each_weight.sum()) == pytest.approx(1.0)
    whole = Sample(weights=WEIGHTS, windows=tuple(tuple(each) for each in population), candidates=1024)
    assert whole.judged({"slo": 0.05})[0].missed_fraction == pytest.approx(share_of(population))


def test_criteria_that_are_judged_together_are_judged_as_each_alone() -> None:
    rng = np.random.default_rng(4)
    parts = [
        tuple(
            replace(one, tallies={**one.tallies, "other": other.tallies["slo"]})
            for one, other in zip(*each, strict=True)
        )
        for each in zip(drawn(candidates(rng), rng).windows, drawn(candidates(rng), rng).windows, strict=True)
    ]
    sample = Sample(weights=WEIGHTS, windows=tuple(parts), candidates=1024)
    alone = [sample.judged({name: allowed})[0] for name, allowed in (("slo", 0.05), ("other", 0.01))]
    assert list(sample.judged({"slo": 0.05, "other": 0.01})) == alone
    assert alone[0].missed_fraction != alone[1].missed_fraction


@pytest.mark.slow
def test_stratified_shares_are_unbiased_and_their_errors_cover() -> None:
    """Over many draws the mean is the population's share, and nineteen in twenty lie within two errors of it."""
    rng = np.random.default_rng(1)
    population = candidates(rng)
    truth = share_of(population)
    found = [drawn(population, rng).judged({"slo": 0.05})[0] for _ in range(600)]
    shares = np.array([each.missed_fraction for each in found])
    errors = np.array([each.error_fraction for each in found])
    assert shares.mean() == pytest.approx(truth, abs=4.0 * shares.std() / math.sqrt(len(found)))
    covered = float((np.abs(shares - truth) <= 2.0 * errors).mean())
    assert 0.90 <= covered <= 0.995, covered


@pytest.mark.slow
def test_errors_also_cover_where_the_candidates_are_drawn_anew() -> None:
    """A seed draws its thousand candidates too; the true share is that of all seeds."""
    rng = np.random.default_rng(2)
    truth = float(np.mean([share_of(candidates(rng)) for _ in range(40)]))
    found = [drawn(candidates(rng), rng).judged({"slo": 0.05})[0] for _ in range(100)]
    covered = float(np.mean([abs(each.missed_fraction - truth) <= 2.0 * each.error_fraction for each in found]))
    assert 0.88 <= covered <= 0.995, covered


def test_strata_tell_more_than_as_many_windows_at_random() -> None:
    rng = np.random.default_rng(3)
    population = candidates(rng)
    plain = [one for part in population for one in part]
    count = sum(COUNTS)

    def at_random() -> float:
        tallies = [plain[place].tallies["slo"] for place in rng.choice(len(plain), count, replace=False)]
        return float(sum(each.missed_count for each in tallies) / sum(each.sent_count for each in tallies))

    stratified = np.std([drawn(population, rng).judged({"slo": 0.05})[0].missed_fraction for _ in range(300)])
    assert stratified < 0.8 * np.std([at_random() for _ in range(300)])


def test_the_interval_of_a_mean_covers_other_seeds_where_half_of_all_windows_are_two() -> None:
    """Windows of every stratum differ alike; most of the error is that of the lightest, of which there are two."""
    rng, counts = np.random.default_rng(5), (6, 5, 4, 3, 2)

    def found() -> Interval:
        parts = tuple(tuple(made_up(1000.0, each) for each in rng.normal(50.0, 5.0, count)) for count in counts)
        return Sample(weights=WEIGHTS, windows=parts, candidates=1024).mean(lambda one: one.mean_e2e_s)

    pairs = [(found(), found().value) for _ in range(400)]
    covered = sum(each.low <= value <= each.high for each, value in pairs) / len(pairs)
    assert 0.91 < covered < 0.99, covered


def edge_of(missed_fraction: float, error_fraction: float, replicas: int) -> bool:
    judged = (
        Judged(name="slo", missed_fraction=missed_fraction, error_fraction=error_fraction, allowed_fraction=0.05),
        Judged(name="other", missed_fraction=0.01, error_fraction=0.001, allowed_fraction=0.05),
    )
    sample = drawn(candidates(np.random.default_rng(0)), np.random.default_rng(0))
    found = Decision(rate_rps=1.0, judged=judged, sample=sample, is_decided=False, instability=None)
    return is_on_edge(found, replicas)


def test_a_pool_stands_on_the_edge_where_a_part_of_a_replica_turns_the_answer() -> None:
    assert edge_of(0.0500, 0.0010, 30), "known to lie within a fifteenth of what is allowed"
    assert not edge_of(0.0500, 0.0010, 120), "which is half a replica of so many"
    assert not edge_of(0.0500, 0.0020, 30), "too few windows to say so"
    assert not edge_of(0.0470, 0.0010, 30), "more windows may decide"
    assert not edge_of(0.0500, 0.0020, 1), "no wider for a small pool"


def test_a_stratum_that_was_not_hurt_yet_is_not_taken_for_safe() -> None:
    """Next to strata in which windows collapse, two calm windows prove little; by themselves they do."""
    calm, hurt = made_up(1000.0, 20.0), made_up(1000.0, 500.0)
    beside = Sample(weights=(0.5, 0.5), windows=((hurt, hurt, calm), (calm, calm)), candidates=1024)
    alone = Sample(weights=(0.5, 0.5), windows=((calm, calm, calm), (calm, calm)), candidates=1024)
    assert beside.spreads("slo", 0.02)[1] > 0.0 == alone.spreads("slo", 0.02)[1]


# ---- the rule, on a small pool --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bases() -> Bases:
    return short_bases(poisson_trial(class_with_slos(ttft_p95=0.1)))


def first_windows(bases: Bases, effort: Effort = SCOUT) -> int:
    trial = bases.nominal
    strata = strata_of(trial.load_at, span_s=trial.span_s, seed=1, work_s=bases.nominal_probe.work_s)
    return sum(effort.first_windows(strata))


def test_loads_far_below_and_far_above_are_decided_with_the_first_windows(bases: Bases) -> None:
    full_rps = bases.nominal_probe.saturation_rps
    below = decide(bases.nominal, 0.2 * full_rps, bases.nominal_probe, seed=1, effort=SCOUT)
    above = decide(bases.nominal, 1.5 * full_rps, bases.nominal_probe, seed=1, effort=SCOUT)
    assert below.holds
    assert below.violated == ()
    assert above.is_decided
    assert not above.passes
    assert below.windows == above.windows == first_windows(bases)


def test_what_is_clear_is_passed_by_with_fewer_windows_and_decided_alike(bases: Bases) -> None:
    probe = bases.nominal_probe
    for share in (0.2, 1.0, 1.5):
        shown = decide(bases.nominal, share * probe.saturation_rps, probe, seed=1, effort=FULL)
        passed = decide(bases.nominal, share * probe.saturation_rps, probe, seed=1, effort=FULL, in_passing=True)
        assert (passed.holds, passed.is_decided) == (shown.holds, shown.is_decided)
        assert shown.windows >= first_windows(bases, FULL)
        if share == 0.2:
            assert passed.windows < first_windows(bases, FULL)


def test_what_seems_violated_is_not_tried_beyond_what_its_windows_forecast(bases: Bases) -> None:
    """A limit that slightly more than one request in twenty misses: all windows would not tell, so most are saved."""
    probe, trial = bases.nominal_probe, bases.nominal
    rate_rps = 0.8 * probe.saturation_rps
    effort = Effort(most_windows=200)
    found = decide(trial, rate_rps, probe, seed=1, effort=replace(effort, most_windows=60))
    (border,) = found.sample.quantiles(trial.classes[0], trial.classes[0].slos[0].metric, (0.945,))
    assert border is not None
    close = replace(trial, classes=(class_with_slos(ttft_p95=border.value),))
    asked = decide(close, rate_rps, probe, seed=1, effort=effort)
    assert not asked.holds
    assert asked.windows < 200


def test_a_border_is_undecided_when_its_windows_are_spent(bases: Bases) -> None:
    """The limit is set to what exactly one request in twenty misses."""
    rate_rps = 0.8 * bases.nominal_probe.saturation_rps
    effort = Effort(most_windows=24)
    found = decide(bases.nominal, rate_rps, bases.nominal_probe, seed=1, effort=effort)
    (p95,) = found.sample.quantiles(bases.nominal.classes[0], bases.nominal.classes[0].slos[0].metric, (0.95,))
    assert p95 is not None
    border = replace(bases.nominal, classes=(class_with_slos(ttft_p95=p95.value),))
    asked = decide(border, rate_rps, bases.nominal_probe, seed=1, effort=effort)
    assert not asked.is_decided
    assert not asked.holds
    assert asked.windows == 24
    assert abs(asked.distance) < DECIDED_ERRORS


def test_more_windows_are_asked_only_of_what_is_close(bases: Bases) -> None:
    """Close to the border more windows are simulated than far from it, and never more than the effort allows."""
    trial, probe = bases.nominal, bases.nominal_probe
    effort = Effort(most_windows=24, first_fraction=0.4)
    counts = [
        decide(trial, share * probe.saturation_rps, probe, seed=1, effort=effort).windows
        for share in (0.3, 0.7, 0.8, 0.85, 0.9, 1.4)
    ]
    assert counts[0] == counts[-1] == first_windows(bases, effort)
    assert max(counts) > counts[0]
    assert max(counts) <= 24


def test_a_large_load_gets_fewer_windows_than_a_small_one() -> None:
    effort = Effort(most_windows=100, most_requests=1e5)
    assert effort.windows(10.0, 20) == 100
    assert effort.windows(2_000.0, 20) == 50
    assert effort.windows(1e6, 20) == 20


def test_the_same_seed_decides_alike_on_any_map_and_another_seed_on_other_windows(bases: Bases) -> None:
    def backwards(function, inputs):  # type: ignore[no-untyped-def]
        return reversed([function(each) for each in reversed(list(inputs))])

    rate_rps = 0.8 * bases.nominal_probe.saturation_rps
    one, two, other = (
        decide(bases.nominal, rate_rps, bases.nominal_probe, seed=seed, effort=SCOUT, map=spread)
        for seed, spread in ((1, map), (1, backwards), (2, map))
    )
    assert one.judged == two.judged
    assert one.judged != other.judged
    assert not {each.seed for each in one.sample.each} & {each.seed for each in other.sample.each}


def test_a_stricter_limit_never_turns_violated_into_met(bases: Bases) -> None:
    rate_rps = 0.8 * bases.nominal_probe.saturation_rps
    shares = []
    for limit_s in (0.4, 0.2, 0.1, 0.05):
        strict = replace(bases.nominal, classes=(class_with_slos(ttft_p95=limit_s),))
        found = decide(strict, rate_rps, bases.nominal_probe, seed=1, effort=SCOUT)
        shares.append(found.judged[1].missed_fraction)
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


# ---- deadlines and the error budget ----------------------------------------------------------------------------


def test_a_lost_request_counts_against_the_budget_and_meets_no_slo(bases: Bases) -> None:
    """Half of the requests give up: all of them are missed by the budget and by every SLO."""
    trial = poisson_trial(class_with_slos(e2e_p95=5.0))
    rate_rps = 0.6 * bases.nominal_probe.saturation_rps
    free = window(trial, rate_rps, 1)
    middle_s = free.histograms["chat"][trial.classes[0].slos[0].metric].whole.quantile_s(0.5)
    hasty = replace(trial, deadlines_s={"chat": middle_s})
    found = window(hasty, rate_rps, 1).tallies
    budget, slo = found[error_budget("chat")], found["chat e2e_p95"]
    assert free.tallies[error_budget("chat")].missed_count == 0
    assert 0.2 < budget.missed_count / budget.sent_count < 0.7
    assert slo.sent_count == budget.sent_count
    assert slo.missed_count >= budget.missed_count
    assert judge(hasty, rate_rps, _alone(hasty, rate_rps)).violated[0] in (error_budget("chat"), "chat e2e_p95")


def _alone(trial, rate_rps: float) -> Sample:  # type: ignore[no-untyped-def]
    return Sample(weights=(1.0,), windows=(tuple(window(trial, rate_rps, seed) for seed in (1, 2)),), candidates=1024)


def test_what_an_idle_replica_loses_too_is_allowed_for() -> None:
    """Answers longer than the deadline allows are nobody's lack of replicas; what load adds to them is."""
    whole_s = 20 * 0.0102 + 0.004
    trial = replace(poisson_trial(class_with_slos(tpot_p95=0.05)), deadlines_s={"chat": 0.9 * whole_s})
    found = bases_of(trial, DEFAULT_BANDS[Evidence.STATED], seed=1)
    assert found.nominal.idle_error_fractions["chat"] == 1.0
    roomy = replace(trial, deadlines_s={"chat": 100.0 * whole_s})
    free = bases_of(roomy, DEFAULT_BANDS[Evidence.STATED], seed=1)
    assert free.nominal.idle_error_fractions["chat"] == 0.0
    short = replace(found.nominal, span_s=60.0)
    assert decide(short, 2.0, found.nominal_probe, seed=1, effort=SCOUT).judged[0].is_met
    strict = replace(short, idle_error_fractions={})
    assert error_budget("chat") in decide(strict, 2.0, found.nominal_probe, seed=1, effort=SCOUT).violated


def test_slower_steps_lose_more_by_their_deadlines() -> None:
    trial = replace(poisson_trial(class_with_slos(ttft_p95=0.5)), deadlines_s={"chat": 0.25})
    found = bases_of(trial, DEFAULT_BANDS[Evidence.ESTIMATED], seed=1)
    assert found.nominal.idle_error_fractions["chat"] < found.conservative.idle_error_fractions["chat"]
    assert found.conservative.basis == "conservative"
    assert found.conservative_probe.saturation_rps < found.nominal_probe.saturation_rps
    assert FULL.most_windows >= 128


# ---- loads beside one that is decided ---------------------------------------------------------------------------

BESIDE = small_trial(bursts=BURSTS, span_s=40.0)
BESIDE_PROBE = short_bases(small_trial(bursts=BURSTS, replicas=1, span_s=40.0)).nominal_probe


def beside_of(rate_rps: float, base_rps: float, seed: int) -> tuple[Decision, Decision]:
    """What few windows beside a decided load say, and what many say."""
    base = decide(BESIDE, base_rps, BESIDE_PROBE, seed=seed)
    few = decide_beside(BESIDE, rate_rps, BESIDE_PROBE, Beside(trial=BESIDE, found=base), seed=seed, effort=SCOUT)
    return few, decide(BESIDE, rate_rps, BESIDE_PROBE, seed=seed)


def test_the_decided_load_itself_is_told_as_it_was_decided() -> None:
    few, many = beside_of(60.0, 60.0, 1)
    assert few.windows == sum(scout_windows(strata_of(BESIDE.load_at, span_s=40.0, seed=1, work_s=BESIDE_PROBE.work_s)))
    assert few.windows < many.windows
    for one, other in zip(few.judged, many.judged, strict=True):
        assert one.missed_fraction == pytest.approx(other.missed_fraction, abs=1e-12)
        assert one.error_fraction == pytest.approx(other.error_fraction, abs=1e-12)


@pytest.mark.slow
def test_few_windows_beside_a_decided_load_come_nearer_than_the_few_alone() -> None:
    """Of the binding share at a load some per cent higher, over seeds: its error with and without what is known."""
    off: dict[str, list[float]] = {"beside": [], "alone": []}
    for seed in range(1, 9):
        few, many = beside_of(66.0, 62.0, seed)
        strata = strata_of(BESIDE.load_at, span_s=40.0, seed=seed, work_s=BESIDE_PROBE.work_s)
        alone = judge(BESIDE, 66.0, sampled(BESIDE, 66.0, strata, scout_windows(strata)))
        worst = max(range(len(many.judged)), key=lambda place: many.judged[place].use_fraction)
        true = many.judged[worst].missed_fraction
        off["beside"].append(abs(few.judged[worst].missed_fraction - true))
        off["alone"].append(abs(alone.judged[worst].missed_fraction - true))
    assert sum(off["beside"]) < sum(off["alone"])


def test_beside_a_pool_with_other_classes_a_load_is_decided_by_itself() -> None:
    base = decide(BESIDE, 60.0, BESIDE_PROBE, seed=1)
    other = small_trial(class_with_slos("chat", ttft_p95=0.5), bursts=BURSTS, span_s=40.0)
    few = decide_beside(other, 60.0, BESIDE_PROBE, Beside(trial=BESIDE, found=base), seed=1, effort=SCOUT)
    assert few == decide(other, 60.0, BESIDE_PROBE, seed=1, effort=SCOUT)
