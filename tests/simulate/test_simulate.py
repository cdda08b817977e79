"""`simulate` as a notebook uses it: what goes in is checked, what comes out adds up."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scenarios import covering_rows, scenario
from ullage.errors import InputError, InternalError
from ullage.simulate import (
    Autoscaler,
    ClosedLoop,
    Engine,
    Fleet,
    FleetEvent,
    LoadClass,
    OpenLoop,
    Requests,
    Retry,
    Signals,
    StepTable,
    failure_events,
    kernel,
    poisson,
    simulate,
)
from ullage.simulate.fleet import Wanted
from ullage.simulate.histogram import KeptRows, LogHistogram, bin_edges_s
from ullage.simulate.laws import check_laws
from ullage.simulate.outcome import merged
from ullage.simulate.world import KernelRun

ENGINE = Engine(step=StepTable.affine(step_s=0.008, prefill_token_s=3e-5, kv_token_s=1e-8), kv_blocks=4000)
CLASSES = (LoadClass(name="chat", ttft_slo_s=0.05), LoadClass(name="batch"))


def load(requests: int = 3000, rate_rps: float = 12.0, retry: Retry | None = None) -> OpenLoop:
    return poisson(
        rate_rps=rate_rps, requests=requests, prompt_tokens=600, output_tokens=80, spread=0.5,
        rng=np.random.default_rng(1), classes=CLASSES, retry=retry,
    )  # fmt: skip


def test_outcomes_tokens_and_busy_time_add_up() -> None:
    given_load = load()
    outcome = simulate(ENGINE, Fleet(replicas=3), given_load, seed=1)
    total = outcome.total
    assert total.counts.requests == 3000
    assert total.counts == tuple(map(sum, zip(*(each.counts for each in outcome.groups), strict=True)))
    assert total.prompt_tokens == given_load.requests.prompt_tokens.sum()
    assert total.output_tokens == given_load.requests.output_tokens.sum()
    assert total.busy_s == pytest.approx(sum(each.busy_s for each in outcome.replicas), rel=1e-9)
    assert 0 < outcome.utilisation_fraction <= 1
    assert total.counts.late > 0
    assert outcome.of_class("chat").counts.late == total.counts.late


def test_kv_token_seconds_are_the_integral_of_the_series() -> None:
    outcome = simulate(ENGINE, Fleet(), load(400, 4.0), seed=1, sample_s=0.01)
    assert outcome.series is not None
    assert outcome.total.kv_token_s == pytest.approx(outcome.series.kv_tokens.sum() * 0.01, rel=0.01)
    assert outcome.series.utilisation.max() <= 1 + 1e-9
    assert outcome.series.running.max() > 1


def test_histograms_agree_with_the_full_arrays_to_one_percent() -> None:
    outcome = simulate(ENGINE, Fleet(replicas=2), load(), seed=1, keep_requests=True)
    times = outcome.requests
    assert times is not None
    for fraction in (0.5, 0.9, 0.99):
        for histogram, values in (
            (outcome.total.ttft, times.first_token_s - times.arrival_s),
            (outcome.total.e2e, times.end_s - times.arrival_s),
            (outcome.total.queue, times.admitted_s - times.arrival_s),
        ):
            exact = float(np.quantile(values, fraction, method="inverted_cdf"))
            assert histogram.quantile_s(fraction) == pytest.approx(exact, rel=0.01, abs=2e-6)


def test_the_gaps_between_tokens_are_all_in_the_itl_mass() -> None:
    outcome = simulate(ENGINE, Fleet(), load(500, 3.0), seed=1)
    assert outcome.total.preemptions == 0
    gaps = outcome.total.output_tokens - 500
    assert sum(each.total_count for each in outcome.itl.values()) == gaps


def test_warmup_leaves_early_requests_out() -> None:
    outcome = simulate(ENGINE, Fleet(replicas=2), load(), seed=1, warmup_s=100)
    arrivals = load().arrival_ps
    assert arrivals is not None
    assert outcome.total.counts.requests == int((arrivals >= 100 * 10**12).sum())


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    fleet = Fleet(replicas=4, routing="random")
    first, again, other = (pickle.dumps(simulate(ENGINE, fleet, load(), seed=seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_an_interrupted_run_goes_on_to_the_same_end() -> None:
    for number in range(0, len(covering_rows()), 5):
        problem = scenario(dict(covering_rows()[number] + (("control", "none"),)), number)
        whole = KernelRun(problem).finish()
        pieces = KernelRun(problem)
        for until_ps in np.linspace(0, min(problem.until_ps, int(whole.clock.now_ps)), 17).astype(int).tolist():
            pieces.advance(until_ps)
        pieces.finish()
        assert np.array_equal(whole.state, pieces.state)
        assert np.array_equal(whole.counters, pieces.counters)
        assert np.array_equal(whole.histograms, pieces.histograms)


def test_a_node_failure_takes_its_replicas_and_retries_save_the_requests() -> None:
    node = FleetEvent(at_s=60, kind="fail", replicas=(0, 1))
    back = FleetEvent(at_s=90, kind="repair", replicas=(0, 1))
    fleet = Fleet(replicas=3, events=(node, back))
    lost = simulate(ENGINE, fleet, load(), seed=1).total.counts
    saved = simulate(ENGINE, fleet, load(retry=Retry(backoff_s=0.1)), seed=1).total.counts
    assert lost.failed > 0
    assert saved.failed == 0
    assert saved.retried >= lost.failed


def test_failure_events_alternate_and_are_down_as_long_as_stated() -> None:
    events = failure_events([(0,), (1, 2)], mean_up_s=100, mean_down_s=10, until_s=1e5, rng=np.random.default_rng(1))
    for domain in ((0,), (1, 2)):
        own = [each for each in events if each.replicas == domain]
        assert [each.kind for each in own] == ["fail", "repair"] * (len(own) // 2)
        down = sum(b.at_s - a.at_s for a, b in zip(own[::2], own[1::2], strict=True))
        assert down / 1e5 == pytest.approx(10 / 110, rel=0.15)


def test_the_callback_sees_signals_and_is_obeyed() -> None:
    seen: list[Signals] = []

    def rule(signals: Signals) -> int:
        seen.append(signals)
        return 1 if signals.at_s < 100 else 4

    fleet = Fleet(
        replicas=4, ready_replicas=1, autoscaler=Autoscaler(period_s=10, ready_s=25, most_replicas=4, rule=rule)
    )
    outcome = simulate(ENGINE, fleet, load(rate_rps=8.0), seed=1)
    assert outcome.controls is not None
    ready = dict(zip(outcome.controls.at_s.tolist(), outcome.controls.ready_replicas.tolist(), strict=True))
    assert (ready[100.0], ready[120.0], ready[130.0]) == (1, 1, 4)
    assert seen[0].at_s == 10.0
    assert max(each.outstanding_requests for each in seen) > 0


def test_starts_take_what_the_rule_says_and_gauges_are_sums() -> None:
    def rule(signals: Signals) -> Wanted:
        return Wanted(replicas=3, starts_s=(5.0, 31.0)) if signals.ready_replicas == 1 else Wanted(replicas=3)

    scaler = Autoscaler(period_s=10, ready_s=999, most_replicas=3, rule=rule)
    fleet = Fleet(replicas=3, ready_replicas=1, autoscaler=scaler)
    outcome = simulate(ENGINE, fleet, load(rate_rps=8.0), seed=1, sample_s=1.0, samples=False, gauges=True)
    assert outcome.gauges is not None
    assert outcome.series is None
    ready = dict(zip(outcome.gauges.at_s.tolist(), outcome.gauges.ready.tolist(), strict=True))
    assert [ready[each] for each in (14.0, 15.0, 40.0, 41.0)] == [1, 2, 2, 3]
    both = simulate(ENGINE, Fleet(replicas=3), load(rate_rps=8.0), seed=1, sample_s=1.0, gauges=True)
    assert both.gauges is not None
    assert both.series is not None
    for name in ("running", "waiting", "kv_tokens"):
        assert (getattr(both.gauges, name) == getattr(both.series, name).sum(axis=1)).all()
    assert int(both.gauges.issued[-1]) == both.total.counts.requests
    assert both.gauges.oldest_wait_s[both.gauges.waiting == 0].max(initial=0.0) == 0.0


def test_the_last_replica_goes_where_none_need_stay_and_a_retry_finds_the_next() -> None:
    def rule(signals: Signals) -> int:
        return 1 if signals.held_requests or signals.starting_replicas or signals.outstanding_requests else 0

    scaler = Autoscaler(period_s=5, ready_s=20, least_replicas=0, most_replicas=1, rule=rule)
    few = poisson(rate_rps=0.02, requests=3, prompt_tokens=50, output_tokens=5, rng=np.random.default_rng(4))
    held = replace(few, retry=Retry(most_attempts=255, backoff_s=1.0, growth_ratio=1.0))
    outcome = simulate(ENGINE, Fleet(replicas=1, autoscaler=scaler), held, seed=1)
    assert outcome.total.counts.success == 3
    assert outcome.total.ttft.quantile_s(0.99) > 20.0


def test_the_built_in_rule_follows_the_load() -> None:
    scaler = Autoscaler(period_s=5, ready_s=10, target_per_replica=8, window_ticks=6, most_replicas=6)
    fleet = Fleet(replicas=6, ready_replicas=1, autoscaler=scaler)
    outcome = simulate(ENGINE, fleet, load(rate_rps=20.0), seed=1)
    assert outcome.controls is not None
    assert outcome.controls.ready_replicas.max() > 2
    assert sum(each.on_s for each in outcome.replicas) < 6 * outcome.duration_s


def test_two_engines_share_a_load() -> None:
    fast = Engine(
        step=StepTable.affine(step_s=0.004, prefill_token_s=1e-5, max_sequences=64), kv_blocks=1000, max_sequences=64
    )
    outcome = simulate((ENGINE, fast), Fleet(replicas=(1, 2)), load(rate_rps=20.0), seed=1)
    assert [each.steps > 0 for each in outcome.replicas] == [True, True, True]
    with pytest.raises(InputError, match="does not have one number for each of the 2 engines"):
        simulate((ENGINE, fast), Fleet(replicas=3), load(), seed=1)


def test_a_load_test_saturates_at_its_concurrency() -> None:
    requests = Requests(prompt_tokens=np.full(600, 200), output_tokens=np.full(600, 50))
    outcome = simulate(ENGINE, Fleet(), ClosedLoop(requests=requests, clients=12), seed=0, sample_s=0.5)
    assert outcome.series is not None
    assert (outcome.series.running + outcome.series.waiting).max() == 12
    assert outcome.total.counts.success == 600


def test_outcomes_cannot_be_changed() -> None:
    outcome = simulate(ENGINE, Fleet(), load(50), seed=1)
    with pytest.raises(FrozenInstanceError):
        outcome.duration_s = 0.0  # type: ignore[misc]


def test_a_broken_ledger_is_an_internal_error() -> None:
    run = KernelRun(scenario(dict(covering_rows()[3]), 1)).finish()
    check_laws(run)
    run.counters["success"][0, 0] += 1
    with pytest.raises(InternalError, match="every request issued comes to one end"):
        check_laws(run)


def test_a_run_is_bounded_by_its_event_budget() -> None:
    with pytest.raises(InternalError, match="event budget"):
        simulate(ENGINE, Fleet(), load(), seed=1, most_events=100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(ENGINE, kv_blocks=0), "engine.kv_blocks = 0: must be at least 1"),
        (lambda: replace(ENGINE, max_sequences=0), "engine.max_sequences = 0: must be at least 1"),
        (
            lambda: OpenLoop(requests=Requests(prompt_tokens=np.ones(2), output_tokens=np.ones(2))),
            "load.arrival_s = None: does not have one time for each request",
        ),
        (
            lambda: OpenLoop(
                requests=Requests(prompt_tokens=np.ones(2), output_tokens=np.ones(2)), arrival_s=np.array([1.0])
            ),
            "does not have one time for each request",
        ),
        (lambda: replace(ENGINE, budget_tokens=8), "engine.budget_tokens = 8: is below max_sequences"),
        (lambda: replace(ENGINE, block_tokens=12), "engine.block_tokens = 12: is not a power of two"),
        (lambda: replace(ENGINE, max_sequences=300), "above the step table's 256"),
        (lambda: Fleet(routing="least_outstandin"), "Did you mean least_outstanding"),
        (lambda: Fleet(events=(FleetEvent(at_s=1, kind="fail", replicas=(3,)),)), "names a replica"),
        (lambda: Requests(prompt_tokens=np.array([0]), output_tokens=np.array([1])), "requests.prompt_tokens = 0"),
        (
            lambda: Requests(prompt_tokens=np.array([5]), output_tokens=np.array([1]), cached_tokens=np.array([5])),
            "covers the whole prompt",
        ),
        (
            lambda: OpenLoop(
                requests=Requests(prompt_tokens=np.ones(2), output_tokens=np.ones(2)), arrival_s=np.array([2.0, 1.0])
            ),
            r"load.arrival_s\[1\] = 1.0: is before",
        ),
        (lambda: Retry(most_attempts=0), "retry.most_attempts = 0"),
        (lambda: Autoscaler(least_replicas=3, most_replicas=2), "autoscaler.least_replicas = 3"),
    ],
)
def test_wrong_inputs_say_field_value_problem_and_fix(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


@given(st.integers(0, 2**62))
def test_a_duration_lies_in_its_bin_and_bins_are_narrow(duration_ps: int) -> None:
    place = int(kernel.bin_of(duration_ps))
    edges = bin_edges_s(kernel.BINS) * 1e12
    assert edges[place] <= duration_ps * (1 + 1e-15)
    assert duration_ps < edges[place + 1] * (1 + 1e-15)
    assert edges[place + 1] - edges[place] <= max(2**20, edges[place] / 128)


def test_rows_without_their_empty_bins_count_as_the_whole_rows_do() -> None:
    rng = np.random.default_rng(3)
    one, other = (np.where(rng.random((rows, 40)) < 0.3, rng.integers(1, 9, (rows, 40)), 0) for rows in (5, 2))
    other[1] = 0
    whole = np.concatenate([one, other])
    kept = KeptRows.of(one, other)
    assert kept.total_counts.tolist() == whole.sum(axis=1).tolist()
    assert [each.whole.counts.tolist() for each in map(kept.row, range(kept.rows))] == whole.tolist()
    rows, bins, part = list(range(7)) * 3, [0] * 7 + [17] * 7 + [40] * 7, [0.0] * 7 + [0.25] * 7 + [0.0] * 7
    padded = np.pad(whole, ((0, 0), (0, 1)))
    counted = [padded[row, :at].sum() + by * padded[row, at] for row, at, by in zip(rows, bins, part, strict=True)]
    assert kept.within(rows, bins, part).tolist() == counted


def test_classes_and_the_total_are_the_sums_of_their_tenants() -> None:
    given_load, rng = load(300), np.random.default_rng(4)
    tenants = rng.integers(0, 3, 300).astype(np.int16)
    requests = replace(given_load.requests, tenants=("x", "y", "z"), tenant_of=tenants)
    found = simulate(ENGINE, Fleet(replicas=2), replace(given_load, requests=requests), seed=1)
    together = merged(found.groups, class_name="all", tenant="all")
    none = LogHistogram(counts=np.zeros(0, np.int64))
    assert replace(found.total, ttft=none, tpot=none, e2e=none, queue=none) == replace(
        together, ttft=none, tpot=none, e2e=none, queue=none
    )
    assert found.total.queue.counts.tolist() == together.queue.counts.tolist()
    for each, counts, rows in zip(CLASSES, found.group_rows.counts, found.group_rows.by_class, strict=True):
        own = found.of_class(each.name)
        assert counts == own.counts
        assert rows[kernel.codes.E2E].tolist() == own.e2e.counts.tolist()


def test_quantiles_of_a_histogram() -> None:
    counts = np.zeros(kernel.BINS, np.int64)
    counts[[100, 200]] = [90, 10]
    histogram = LogHistogram(counts=counts)
    edges = bin_edges_s(kernel.BINS)
    assert histogram.quantile_s(0.9) == pytest.approx((edges[100] + edges[101]) / 2)
    assert histogram.quantile_s(0.91) == pytest.approx((edges[200] + edges[201]) / 2)
    assert histogram.share_within(float(edges[101])) == pytest.approx(0.9)
    assert np.isnan(LogHistogram(counts=np.zeros(10, np.int64)).quantile_s(0.5))
