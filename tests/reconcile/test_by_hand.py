"""Two pools and two classes that are level (tests/support/by_hand.py), reconciled with pencil and paper."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.by_hand import (
    ALONE,
    DATED,
    DAY_S,
    EXPECTED,
    HOUR_S,
    LARGE,
    PLAYED,
    SMALL,
    YEAR_S,
    Stated,
    also,
    observed,
    one_class,
)  # fmt: skip
from ullage.errors import InputError
from ullage.reconcile.attribution import error_by_cause
from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.evaluate import (
    Needed,
    PoolBill,
    ServiceEvaluation,
    _mean_played,
    pool_inputs,
)
from ullage.reconcile.expectation import FRACTIONS, Expectation, ExpectedInput
from ullage.reconcile.forecast_scores import cadence
from ullage.reconcile.inputs import DriftCause, DriftInputs, InputVerdict
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.reconcile.observed import _at_least, observed_inputs, usual_steps
from ullage.reconcile.reconcile import Reconciliation, Tolerances, kept_risks, reconcile
from ullage.reconcile.score import NOT_RECONCILED, LastReconciled, last_reconciled
from ullage.reconcile.updates import plan_updates, weeks_between


def test_devices_cost_what_they_cost_in_whichever_pool() -> None:
    # 15 replicas at 3 USD are 45 USD an hour for 10 + 20 devices: 1.50 each.
    assert EXPECTED.pool_usd_per_hour(SMALL) == pytest.approx(1.5)
    assert EXPECTED.pool_usd_per_hour(LARGE) == pytest.approx(6.0)
    assert replace(EXPECTED, replica_usd_per_hour=None).pool_usd_per_hour(SMALL) is None
    # 15 replicas x 3 USD x 730 h of 50,000 USD are 65.7 %; of 100 h 9 %.
    assert EXPECTED.device_usd_per_success == pytest.approx(0.00657)
    period = ExpectedInput(name="cost.period", value=100.0, unit="h", evidence="stated", dated="2026-11-01")
    assert replace(EXPECTED, inputs=(period,)).device_usd_per_success == pytest.approx(0.0009)
    for unknown in ({"usd_per_month": None}, {"usd_per_success": None}, {"replica_usd_per_hour": None}):
        assert replace(EXPECTED, **unknown).device_usd_per_success is None  # type: ignore[arg-type]


def test_two_pools_as_one_add_fleets_and_average_replicas() -> None:
    whole = EXPECTED.whole_pool
    assert (whole.replicas, whole.steady_replicas, whole.capacity_rps) == (15, 12, 88.0)
    assert whole.rise_rps_per_s == pytest.approx(0.04)
    assert whole.devices == 2
    assert whole.kv_tokens == pytest.approx((10 * 4000 + 5 * 7000) / 15)
    assert whole.goodput_rps == pytest.approx((10 * 9.0 + 5 * 1.5) / 15)
    assert ALONE.whole_pool is SMALL


def test_growth_season_and_band_by_hand() -> None:
    # The first hour of Monday is thrice the others; the mean of 168 hours is (167 + 3) / 168.
    season = (3.0, *(1.0,) * 167)
    grows = one_class("chat", "small", 17.0, 0.0, season=season, weekly_growth_fraction=0.1, band_ratio=2.0)
    found = grows.quantiles_rps(np.array([DATED, DATED + HOUR_S, DATED + 7 * DAY_S]), dated_s=DATED)
    middle = found[:, FRACTIONS.index(0.5)]
    assert middle == pytest.approx([17 * 168 / 170 * 3, 17 * 168 / 170 * 1.1 ** (1 / 168), 17 * 168 / 170 * 3 * 1.1])
    # A normal table: 90 % lie below 1.2816 deviations, which here are 0.2, doubled.
    assert found[:, FRACTIONS.index(0.9)] == pytest.approx(middle * math.exp(1.2816 * 0.4), rel=1e-4)


def test_a_forecast_of_steps_counts_where_it_reaches_and_its_band_is_stretched_around_its_middle() -> None:
    row = tuple(4.0 * 2.0 ** (place - 5) for place in range(len(FRACTIONS)))
    own = one_class(
        "chat", "small", 6.0, 0.0, forecast_start_s=DATED, forecast_step_s=2 * HOUR_S, forecast_rps=(row, row),
        band_ratio=2.0,
    )  # fmt: skip
    at_s = DATED + HOUR_S * np.array([-0.5, 0.0, 3.9, 4.1])
    found = own.quantiles_rps(at_s, dated_s=DATED)
    assert found[:, 5] == pytest.approx([6.0, 4.0, 4.0, 6.0])
    # Once as wide it would be 8 and 16 above the middle of 4: twice as wide is 16 and 64.
    assert found[1, 6:8] == pytest.approx([16.0, 64.0])
    assert found[2, 4] == pytest.approx(1.0)


def test_what_a_pool_needs_with_other_inputs() -> None:
    """Half as much again comes, to replicas that carry half as much and start half as fast again, and fail more."""
    own = Stated(ALONE, SMALL)
    inputs = DriftInputs(traffic_ratio=1.5, step_ratio=2.0, ready_ratio=1.5, more_failures_per_year=4.0, price_ratio=2)
    steady = 8 * 1.5 * 2
    lost = steady * (2 * (3600 + 300) + 4 * 300) / YEAR_S
    # Demand rises by 0.03 a second for 450 s, and a replica carries 5.
    rise = 0.02 * 1.5 * 300 * 1.5 / 5
    planned = 8 + 8 * 2 * (3600 + 200) / YEAR_S + 0.02 * 300 / 10
    found = own.bill(inputs)
    assert found.replicas == pytest.approx(steady + lost + rise + 10 - planned)
    # Alone, a replica of one device costs what a replica costs: 3 USD, and here twice that.
    assert found.usd_per_month == pytest.approx(found.replicas * 6.0 * 730)
    assert found.successes_per_month == pytest.approx(6.0 * 1.5 * 0.9 * 730 * 3600)
    assert own.bill(DriftInputs()).replicas == pytest.approx(10.0)
    assert own.bill(DriftInputs(failed_fraction=0.4)).successes_per_month == pytest.approx(6.0 * 0.6 * 730 * 3600)
    assert own.bill(DriftInputs(failed_fraction=1.0)).successes_per_month == pytest.approx(6.0 * 0.001 * 730 * 3600)


def test_pools_together_need_the_sum_and_a_success_costs_what_all_of_them_cost() -> None:
    both = ServiceEvaluation([Stated(EXPECTED, SMALL), Stated(EXPECTED, LARGE)])
    found = both.needed(DriftInputs())
    assert found.replicas == pytest.approx(15.0)
    assert found.usd_per_month == pytest.approx(45.0 * 730)
    # Of 6 a second a tenth fails, of 2 three tenths: 5.4 + 1.4 succeed.
    assert found.usd_per_success == pytest.approx(45.0 / (6.8 * 3600))
    unpriced = replace(EXPECTED, replica_usd_per_hour=None)
    none = ServiceEvaluation([Stated(unpriced, SMALL), Stated(unpriced, LARGE)]).needed(DriftInputs())
    assert (none.usd_per_month, none.usd_per_success) == (None, None)
    assert both.pools[0].share_of(DriftInputs()) == pytest.approx((0.75, 10 / 15))
    # Twice as much coding is a third of ten.
    assert both.pools[1].share_of(DriftInputs(class_ratios={"coding": 2.0})) == pytest.approx((0.4, 5 / 15))
    both.played(DriftInputs(), rate_rps=8.0, replicas=15)
    assert [each.asked for each in both.pools] == [(6.0, 10), (2.0, 5)]  # type: ignore[attr-defined]


def test_what_is_needed_is_added_and_taken_away_part_by_part() -> None:
    one = Needed(replicas=5.0, usd_per_month=100.0, usd_per_success=0.5)
    other = Needed(replicas=3.0, usd_per_month=40.0, usd_per_success=None)
    assert one.minus(other) == Needed(replicas=2.0, usd_per_month=60.0, usd_per_success=None)
    assert one.plus(other, 0.5) == Needed(replicas=6.5, usd_per_month=120.0, usd_per_success=None)
    assert other.plus(one).usd_per_success is None
    assert PoolBill(replicas=2.0, usd_per_month=None, successes_per_month=4.0).needed.usd_per_success is None


def test_classes_that_grew_elsewhere_are_not_a_pools_own() -> None:
    two = replace(EXPECTED, classes=(*EXPECTED.classes, one_class("mail", "small", 2.0, 0.0)))
    inputs = DriftInputs(traffic_ratio=2.0, class_ratios={"chat": 0.5, "mail": 2.5, "coding": 3.0})
    # Chat and mail were 6 and 2, and are 3 and 5: as many, otherwise mixed.
    small = pool_inputs(inputs, two, "small")
    assert small.traffic_ratio == pytest.approx(2.0)
    assert small.class_ratios == pytest.approx({"chat": 0.5, "mail": 2.5})
    large = pool_inputs(inputs, two, "large")
    assert large.traffic_ratio == pytest.approx(6.0)
    assert large.class_ratios == {}
    assert pool_inputs(DriftInputs(), two, "small") == DriftInputs()
    assert pool_inputs(inputs, two, "none") is inputs


def test_means_over_pools_are_over_what_is_counted() -> None:
    one = replace(PLAYED, prompt_tokens=100.0, output_tokens=11.0, cached_fraction=0.0, itl_s=0.1, ttft_s=1.0)
    other = replace(PLAYED, prompt_tokens=300.0, output_tokens=31.0, cached_fraction=0.5, itl_s=0.2, ttft_s=2.0)
    found = _mean_played([(0.75, one), (0.25, other)])
    assert found.prompt_tokens == pytest.approx(150.0)
    assert found.ttft_s == pytest.approx(1.25)
    # 75 prompt tokens of the one to 75 of the other; 7.5 gaps between tokens to 7.5.
    assert found.cached_fraction == pytest.approx(0.25)
    assert found.itl_s == pytest.approx(0.15)
    silent = replace(PLAYED, output_tokens=1.0)
    assert math.isnan(_mean_played([(1.0, silent)]).itl_s)


def row(found: tuple[Any, ...], name: str) -> Any:
    return next(each for each in found if each.name == name)


def test_inputs_that_production_shows_without_a_simulation() -> None:
    seen = also(
        observed(ratio=1.5), failures=8.0 * 1.5 * HOUR_S * 0.5, restarts=0.0, time_to_ready=400.0, device_hour_usd=2.0
    )
    inputs, rows = observed_inputs(ALONE, SMALL, seen, None)
    # 12 a second of the 6 that were expected of chat alone.
    assert inputs.traffic_ratio == pytest.approx(2.0)
    rate = row(rows, "arrival rate")
    assert (rate.stated_value, rate.observed_value) == (pytest.approx(6.0), pytest.approx(12.0))
    assert (rate.cause, rate.unit, rate.verdict) == (DriftCause.TRAFFIC, "req/s", InputVerdict.DRIFTED)
    failed = row(rows, "failed requests")
    assert (failed.stated_value, failed.observed_value) == (pytest.approx(0.1), pytest.approx(0.5))
    assert inputs.failed_fraction == pytest.approx(0.5)
    stops = row(rows, "stops of a replica")
    assert (stops.observed_value, stops.verdict) == (0.0, InputVerdict.HOLDS)
    years = 15 * 168 / 8766
    assert (stops.low, stops.high) == (0.0, pytest.approx(3.0 / years))
    ready = row(rows, "time to ready")
    reach = 2.0 * 1.25 * math.log(3.0) / 2.56 / math.sqrt(168)
    assert (ready.stated_value, ready.observed_value) == (200.0, pytest.approx(400.0))
    assert (ready.low, ready.high) == (pytest.approx(400 * math.exp(-reach)), pytest.approx(400 * math.exp(reach)))
    assert inputs.ready_ratio == pytest.approx(2.0)
    # 2 USD a device-hour, and 3 were planned: two thirds.
    assert row(rows, "price of a replica-hour").observed_value == pytest.approx(2.0)
    assert inputs.price_ratio == pytest.approx(2 / 3)
    assert {each.cause for each in rows if each.verdict is InputVerdict.UNKNOWN} == {
        DriftCause.LENGTHS, DriftCause.CACHE, DriftCause.STEPS,
    }  # fmt: skip
    assert all(each.why for each in rows if each.verdict is InputVerdict.UNKNOWN)


def test_a_bill_is_paid_for_the_hours_that_ran() -> None:
    # 15 replicas for 168 h at 4 USD instead of 3.
    paid = replace(observed(), paid_usd=15 * 168 * 4.0)
    inputs, rows = observed_inputs(EXPECTED, EXPECTED.whole_pool, paid, None)
    assert inputs.price_ratio == pytest.approx(4 / 3)
    # A bill goes before an exporter's price, which of two devices is for each.
    both, _ = observed_inputs(EXPECTED, EXPECTED.whole_pool, also(paid, device_hour_usd=9.0), None)
    assert both.price_ratio == pytest.approx(4 / 3)
    exported, _ = observed_inputs(EXPECTED, EXPECTED.whole_pool, also(observed(), device_hour_usd=9.0), None)
    assert exported.price_ratio == pytest.approx(2 * 9.0 / 3.0)
    for seen, expected in ((paid, replace(EXPECTED, replica_usd_per_hour=None)), (observed(), EXPECTED)):
        inputs, rows = observed_inputs(expected, expected.whole_pool, seen, None)
        assert inputs.price_ratio == 1.0
        assert row(rows, "price of a replica-hour").verdict is InputVerdict.UNKNOWN


def test_more_stops_than_chance_brings_are_more_failures() -> None:
    # 15 replicas for 168 h are 0.2875 years, of which 2 stops a year make 0.575; 24 is no chance.
    years = 15 * 168 / 8766
    seen = also(observed(), restarts=24 / 168)
    inputs, rows = observed_inputs(EXPECTED, SMALL, seen, None)
    stops = row(rows, "stops of a replica")
    assert stops.observed_value == pytest.approx(24 / years)
    assert stops.low == pytest.approx((24 - 2 * math.sqrt(24)) / years)
    assert stops.high == pytest.approx((24 + 2 * math.sqrt(24) + 3) / years)
    assert inputs.more_failures_per_year == pytest.approx(24 / years - 2.0)
    # Of two, the chance is one in nine: e^-0.575 (1 + 0.575) stay below.
    two, _ = observed_inputs(EXPECTED, SMALL, also(observed(), restarts=2 / 168), None)
    assert two.more_failures_per_year == 0.0
    assert _at_least(2, 0.575) == pytest.approx(1 - math.exp(-0.575) * 1.575)
    assert _at_least(0, 3.0) == 1.0
    assert _at_least(1, 3.0) == pytest.approx(1 - math.exp(-3.0))


def test_a_stop_in_a_few_minutes_is_a_rate_of_a_day_at_least() -> None:
    # One stop of 15 replicas in three minutes is no chance, and 12,000 a replica and year are no rate to plan for.
    short = replace(also(observed(1), restarts=1 / 24), step_s=DAY_S / 24 / 480)
    inputs, rows = observed_inputs(EXPECTED, SMALL, short, None)
    stops = row(rows, "stops of a replica")
    assert stops.verdict is InputVerdict.DRIFTED
    assert stops.observed_value == pytest.approx(8766 / (15 * 24))
    assert stops.low == 0.0
    assert inputs.more_failures_per_year == pytest.approx(8766 / (15 * 24) - 2.0)


def test_shares_of_classes_are_compared_at_the_same_hours() -> None:
    plain = observed()
    halves = {name: np.full(168, 4.0 * HOUR_S) for name in ("chat", "coding")}
    inputs, rows = observed_inputs(EXPECTED, SMALL, replace(plain, arrivals_by_class=halves), None)
    # Three quarters and one quarter were expected; halves came: two thirds as much of the one, twice the other.
    assert inputs.class_ratios == pytest.approx({"chat": 2 / 3, "coding": 2.0})
    assert row(rows, "share of chat").observed_value == pytest.approx(0.5)
    assert row(rows, "share of coding").stated_value == pytest.approx(0.25)
    assert inputs.traffic_ratio == 1.0
    planned = {"chat": np.full(168, 6.0 * HOUR_S), "coding": np.full(168, 2.0 * HOUR_S)}
    assert observed_inputs(EXPECTED, SMALL, replace(plain, arrivals_by_class=planned), None)[0].class_ratios == {}
    for seen in (plain, replace(plain, arrivals_by_class={"chat": halves["chat"]})):
        inputs, rows = observed_inputs(EXPECTED, SMALL, seen, None)
        assert row(rows, "shares of classes").verdict is InputVerdict.UNKNOWN
        assert inputs.class_ratios == {}


def test_lengths_hits_and_steps_against_what_was_played() -> None:
    """1,500 tokens came where 1,000 were played, 300 of 200; hits of 20 % for 40 %; gaps of 0.1 s for 0.05."""
    arrivals = 8.0 * HOUR_S
    gaps = BucketCounts(edges_s=(0.05,), counts=(0.0, 1000.0), sum_s=100.0)
    seen = replace(
        also(
            observed(), prompt_tokens=1500 * arrivals, output_tokens=300 * arrivals, cached_tokens=300 * arrivals
        ),
        latencies={ObservedQuantity.ITL: (gaps,) * 168},
    )  # fmt: skip
    own = Stated(ALONE, SMALL)
    inputs, rows = observed_inputs(ALONE, SMALL, seen, own)
    assert inputs.prompt_ratio == pytest.approx(1.5)
    assert inputs.output_ratio == pytest.approx(1.5)
    assert inputs.cached_ratio == pytest.approx(0.5)
    assert inputs.step_ratio == pytest.approx(2.0)
    assert row(rows, "mean prompt").observed_value == pytest.approx(1500.0)
    assert row(rows, "mean output").stated_value == pytest.approx(200.0)
    assert row(rows, "step times over the plan's").observed_value == pytest.approx(2.0)
    assert own.asked == pytest.approx((8.0, 15))
    # Without gaps between tokens the mean per request stands in: 0.1 s for 0.06.
    mean = replace(seen, latencies={ObservedQuantity.TPOT: (gaps,) * 168})
    assert observed_inputs(ALONE, SMALL, mean, own)[0].step_ratio == pytest.approx(0.1 / 0.06)
    silent, rows = observed_inputs(ALONE, SMALL, replace(observed(), latencies={}), own)
    assert silent.traffic_ratio == pytest.approx(8 / 6)
    assert silent.causes == (DriftCause.TRAFFIC,)
    assert {each.name for each in rows if each.verdict is InputVerdict.UNKNOWN} >= {
        "mean prompt", "mean output", "cached share of prompts", "step times over the plan's",
    }  # fmt: skip


def test_the_usual_load_is_that_of_hours_in_which_most_requests_came() -> None:
    # 20 h of 1 and 4 h of 10: a request typically meets (20 + 400) / 60 = 7, and no hour is near, so that all count.
    rate = np.array([1.0] * 20 + [10.0] * 4)
    seen = replace(observed(1), counted={ObservedQuantity.ARRIVALS: rate * HOUR_S})
    assert usual_steps(seen).all()
    # 4 h of 40 and 2 h of 45 among hours of 1: 40.6 is typical, and both lie within a fifth of it.
    rate = np.array([1.0] * 18 + [40.0] * 4 + [45.0] * 2)
    seen = replace(observed(1), counted={ObservedQuantity.ARRIVALS: rate * HOUR_S})
    assert usual_steps(seen).tolist() == [False] * 18 + [True] * 6


def lines(found: Reconciliation) -> dict[str, Any]:
    return {each.what: (each.planned_value, each.observed_value) for each in found.scorecard}


def reconciled(seen: Observation, expected: Expectation = EXPECTED, **more: Any) -> Reconciliation:
    return reconcile(expected, seen, None, plan="a plan", seed=0, **more)


def test_the_scorecard_by_hand() -> None:
    arrivals = np.full(168, 8.0 * HOUR_S)
    arrivals[30] = 16.0 * HOUR_S
    e2e = BucketCounts(edges_s=(1.0,), counts=(0.0, 10.0), sum_s=30.0)
    queue = BucketCounts(edges_s=(0.5, 2.0), counts=(5.0, 5.0, 0.0), sum_s=5.0)
    seen = also(
        observed(), failures=8.0 * HOUR_S / 4, kv_use=0.5, kv_peak=0.9, waiting=30.0, time_to_ready=100.0,
        preemptions=15.0, oom_kills=0.0,
    )  # fmt: skip
    seen = replace(
        seen,
        counted={**seen.counted, ObservedQuantity.ARRIVALS: arrivals},
        latencies={ObservedQuantity.E2E: (e2e,) * 168, ObservedQuantity.QUEUE_TIME: (queue,) * 168},
    )
    found = reconciled(seen)
    said = lines(found)
    mean_rps = 8.0 * 169 / 168
    success_rps = mean_rps * (1 - 168 / 4 / 169)
    assert said["arrival rate, busiest hour"] == (12.0, pytest.approx(16.0))
    # 3 s in the system, half a second of it waiting.
    assert said["service time"] == (2.0, pytest.approx(2.5))
    assert said["goodput per replica"] == (pytest.approx(97.5 / 15), pytest.approx(success_rps / 15))
    assert said["goodput per device"] == (pytest.approx(97.5 / 15 / 2), pytest.approx(success_rps / 15 / 2))
    assert said["active tokens"] == (1000.0, pytest.approx(2500.0))
    assert said["memory headroom, least free KV"] == (pytest.approx(0.3), pytest.approx(0.1))
    assert said["queue depth per replica"] == (1.0, pytest.approx(2.0))
    assert said["queue age p95"] == (0.5, pytest.approx(0.5))
    age = next(each for each in found.scorecard if each.what == "queue age p95")
    assert (age.low, age.high) == (0.5, 2.0)
    # A replica carries 88 / 12; sixteen a second take 2.18 of them.
    assert said["utilisation, busiest hour"] == (pytest.approx(12 / (88 / 12 * 15)), pytest.approx(16 / (88 / 12) / 15))
    assert said["scale-up time"] == (200.0, 100.0)
    assert said["idle reserve in the busiest hour"] == (3.0, pytest.approx(15 - 16 / (88 / 12)))
    # No bill: 15 replicas at 3 USD an hour, beside what devices alone were planned to cost a success.
    assert said["cost per success"] == (pytest.approx(0.00657), pytest.approx(45.0 / (success_rps * 3600)))
    assert found.memory.observed_preemptions_per_s == pytest.approx(15.0 / 15 / HOUR_S)
    assert (found.memory.oom_kills, found.memory.contradicts) == (0, "")
    assert (found.ran_replicas, found.causes) == (15.0, None)
    assert (found.start, found.end) == ("2026-11-16T00:00Z", "2026-11-23T00:00Z")
    paid = lines(reconciled(replace(seen, paid_usd=1000.0)))["cost per success"]
    assert paid == (0.01, pytest.approx(1000.0 / (success_rps * 168 * 3600)))
    done = also(seen, successes=6.0 * HOUR_S)
    assert lines(reconciled(done))["goodput per replica"][1] == pytest.approx(6.0 / 15)


def test_what_was_not_seen_is_not_said() -> None:
    found = reconciled(replace(observed(), levels={}))
    said = {each.what: each.observed_value for each in found.scorecard}
    assert {what for what, value in said.items() if value is not None} == {
        "arrival rate, busiest hour", "forecast error",
    }  # fmt: skip
    assert found.ran_replicas is None
    assert (found.memory.observed_preemptions_per_s, found.memory.oom_kills) == (None, None)
    with pytest.raises(InputError, match="has no count of requests"):
        reconciled(replace(observed(), counted={}))


def test_tolerances_are_passed_by_more_than_they_are() -> None:
    fine = reconciled(observed())
    assert fine.past == ()
    assert fine.risk.happened is False
    late = BucketCounts(edges_s=(2.0,), counts=(0.0, 100.0), sum_s=500.0)
    bad = replace(also(observed(ratio=2.0), oom_kills=3 / 168), latencies={ObservedQuantity.TTFT: (late,) * 168})
    said = reconciled(bad)
    assert said.past == (
        "the forecast was off by 50% of demand",
        "168 hours certainly violated an SLO",
        "3 out-of-memory kills, although the memory budget fits",
    )
    assert said.risk.happened is True
    assert said.shortfall.above_plan_hours == 168.0
    easy = Tolerances(replicas=1.0, wape_fraction=0.5 + 1e-9, shortfall_hours=168.0)
    assert reconciled(replace(bad, counted={**observed(ratio=2.0).counted}), tolerances=easy).past == ()
    # Twice the demand takes twice the 12 steady replicas, and 0.6 more for the rise of each pool.
    both = ServiceEvaluation([Stated(EXPECTED, SMALL), Stated(EXPECTED, LARGE)])
    needs = reconcile(EXPECTED, observed(ratio=2.0), both, plan="a plan", seed=0, tolerances=easy)
    assert needs.causes is not None
    assert needs.past == (f"the service needs {needs.causes.whole.replicas:+.1f} replicas against the plan",)
    assert needs.causes.whole.replicas == pytest.approx(12 + 0.6 + 3.0, abs=0.02)
    assert needs.left_out[0].startswith("lengths, cache hits and step times by pool")
    assert said.left_out == ("error by cause: disaggregated pools are not re-evaluated",)


def test_an_assumption_is_stale_on_the_day_after_its_age() -> None:
    def given(days: int | None) -> ExpectedInput:
        return ExpectedInput(
            name=f"{days}", value=1.0, unit="", evidence="stated", dated="2026-11-13", max_age_days=days
        )

    # Seen until the 23rd, ten days after its date.
    found = reconciled(observed(), replace(EXPECTED, inputs=(given(9), given(10), given(None))))
    assert [(each.name, each.age_days, each.max_age_days) for each in found.stale] == [("9", 10, 9)]


def test_a_wandering_level_asks_for_a_look_as_soon_as_it_may_move_the_fleet() -> None:
    # Days of 1.1 and of its inverse in turn: differences of 2 ln 1.1 and their deviation by hand.
    day = np.repeat([1.1, 1 / 1.1] * 4, 24)
    seen = replace(observed(8), counted={ObservedQuantity.ARRIVALS: 8.0 * HOUR_S * day})
    found = cadence(EXPECTED, seen)
    step = 2 * math.log(1.1)
    # Seven differences: four down, three up, with a mean of -step / 7.
    wander = step * math.sqrt((7 - 1 / 7) / 6) / math.sqrt(2.0)
    assert found.moves_at_fraction == pytest.approx(1 / 12)
    assert found.error_per_day_fraction == pytest.approx(wander)
    # (1 / 12 / 0.144)^2 is less than a day, and sooner than daily nobody looks.
    assert found.derived_s == DAY_S
    assert found.is_too_seldom
    few = cadence(EXPECTED, observed(2))
    assert (few.derived_s, few.error_per_day_fraction, few.is_too_seldom) == (None, None, False)


def drifted(**inputs: Any) -> Any:
    """A reconciliation in which these inputs drifted, as far as a change of the plan file looks at it."""
    rows = observed_inputs(ALONE, SMALL, also(observed(ratio=1.5), failures=4.0 * HOUR_S), None)[1]
    due = SimpleNamespace(is_too_seldom=True, derived_s=9.6 * DAY_S, stated_s=30 * DAY_S)
    return SimpleNamespace(inputs=rows, drift=DriftInputs(**inputs), cadence=due, end="2026-11-23T00:00Z", refit=None)


def test_a_plan_file_is_brought_to_what_was_seen() -> None:
    grows = replace(ALONE, classes=(replace(ALONE.classes[0], weekly_growth_fraction=0.1),))
    found = drifted(traffic_ratio=2.0, prompt_ratio=1.5, cached_ratio=3.0, failed_fraction=0.25)
    changes, elsewhere = plan_updates(grows, found, weeks=2.0)
    new = {each.key: (each.old, each.new) for each in changes}
    assert next(iter(new)) == "dated"
    key = "workload.classes.chat"
    assert new == {
        "dated": ("2026-11-16", "2026-11-23"),
        f"{key}.rate": ("6 req/s", f"{6 * 2 * 1.21:.4g} req/s"),
        f"{key}.prompt.p50": ("800", "1200"),
        f"{key}.prompt.p95": ("3000", "4500"),
        f"{key}.cached_fraction": ("40.0%", "100.0%"),
        f"{key}.outcomes.failed": ("10.0%", "25.0%"),
        "policy.reconcile_every": ("30d", "10d"),
    }
    assert elsewhere == ()
    shown = {each.key: each.evidence for each in changes}
    assert shown[f"{key}.rate"].startswith("arrival rate 12 (12 to 12) req/s, planned 6")
    assert shown[f"{key}.outcomes.failed"].startswith("failed requests 0.3333")
    nothing, _ = plan_updates(ALONE, drifted(), weeks=1.0)
    assert nothing == ()
    assert weeks_between(EXPECTED, DATED + 10.5 * DAY_S) == pytest.approx(1.5)


def test_the_next_plan_says_what_the_last_reconciliation_found() -> None:
    content = {
        "end": "2026-11-23T00:00Z", "source": "prometheus", "shortfall": {"violated_hours": 2.5},
        "causes": {"planned": {"replicas": 15.0}, "observed": {"replicas": 18.0}},
        "forecast": [
            {"class_name": "chat", "week": "whole", "wape_fraction": 0.9, "bias_fraction": 0.9,
             "coverage_fraction": 0.9},
            {"class_name": "all", "week": "1", "wape_fraction": 0.8, "bias_fraction": 0.8, "coverage_fraction": 0.8},
            {"class_name": "all", "week": "whole", "wape_fraction": 0.1, "bias_fraction": -0.05,
             "coverage_fraction": 0.7},
        ],
        "inputs": [{"name": "a", "verdict": "drifted"}, {"name": "b", "verdict": "holds"}],
    }  # fmt: skip
    found = last_reconciled(content, digest="0123456789abcdef")
    assert isinstance(found, LastReconciled)
    assert {name: each.value for name, each in found.figures.items()} == {
        "reconcile.forecast_wape_fraction": 0.1, "reconcile.forecast_bias_fraction": -0.05,
        "reconcile.forecast_coverage_fraction": 0.7, "reconcile.replicas_off": 3.0, "reconcile.violated_hours": 2.5,
    }  # fmt: skip
    (source,) = found.figures["reconcile.violated_hours"].sources
    assert (source.what, source.where, source.date) == (
        "reconciliation 0123456789ab", "prometheus", datetime.date(2026, 11, 23),
    )  # fmt: skip
    assert found.notes == ("Drifted by 2026-11-23: a.",)
    calm = last_reconciled({**content, "causes": None, "forecast": [], "inputs": []})
    assert isinstance(calm, LastReconciled)
    assert list(calm.figures) == ["reconcile.violated_hours"]
    assert calm.notes == ("Every observed assumption holds.",)
    assert last_reconciled(None) is NOT_RECONCILED


def test_kept_risks_are_those_that_were_stated() -> None:
    kept: list[dict[str, object]] = [
        {"risk": {"stated_fraction": 0.1, "happened": True}},
        {"risk": {"stated_fraction": None}},
        {"risk": 3},
        {},
    ]
    assert kept_risks(kept) == [(0.1, True)]


def test_causes_share_an_error_by_what_each_adds_in_every_order() -> None:
    """Twice the demand alone adds 8 replicas, twice the steps alone 8, both 24: each is charged 12, and 0.6 for the
    rise alone, 0.6, and 1.8 for both: each 0.9. What is lost to failures is a thousandth of a replica."""
    found = error_by_cause(DriftInputs(traffic_ratio=2.0, step_ratio=2.0), Stated(ALONE, SMALL).needed)
    assert found.whole.replicas == pytest.approx(24 + 1.8, abs=0.02)
    shares = {each.cause: each.shapley.replicas for each in found.shares}
    assert shares[DriftCause.TRAFFIC] == pytest.approx(12.9, abs=0.02)
    assert shares[DriftCause.STEPS] == pytest.approx(12.9, abs=0.02)
