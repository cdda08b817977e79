"""Drifts planted in a simulated production are charged to their cause, and nothing is where nothing was planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.kept_case import KeptCase
from support.planned import AS_OF
from support.production import Planted
from ullage.errors import Rejection
from ullage.load.pool import load_pools
from ullage.reconcile.attribution import error_by_cause
from ullage.reconcile.evaluate import Evaluation, Needed, ServiceEvaluation, pool_inputs
from ullage.reconcile.inputs import DriftCause, DriftInputs, InputVerdict
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.reconcile.reconcile import Reconciliation, reconcile
from ullage.reconcile.updates import plan_updates

PLANTED = {
    DriftCause.TRAFFIC: Planted(inputs=DriftInputs(traffic_ratio=1.3)),
    DriftCause.LENGTHS: Planted(inputs=DriftInputs(output_ratio=1.4)),
    DriftCause.CACHE: Planted(inputs=DriftInputs(cached_ratio=0.6)),
    DriftCause.MIX: Planted(inputs=DriftInputs(class_ratios={"chat": 0.85, "coding": 1.9})),
    DriftCause.STEPS: Planted(slow_zone_ratio=1.5),
    DriftCause.READY: Planted(inputs=DriftInputs(ready_ratio=2.0)),
    DriftCause.PRICES: Planted(inputs=DriftInputs(price_ratio=1.25)),
    DriftCause.FAILURES: Planted(restarts_per_week=12.0, failed_fraction=0.05),
}


def held(kept: KeptCase, planted: Planted, *, weeks: float = 2.0, seed: int = 5) -> Reconciliation:
    seen = kept.production.observation(planted, start_s=kept.start_s, weeks=weeks, seed=seed)
    return reconcile(kept.expected, seen, kept.evaluation, plan=kept.digest, seed=0)


def error_usd(needed: Needed) -> float:
    assert needed.usd_per_month is not None
    assert needed.usd_per_success is not None
    # A month's bill moves with the fleet and with prices, that of a success with failures too.
    return abs(needed.usd_per_month) + 1e7 * abs(needed.usd_per_success)


@pytest.mark.slow
@pytest.mark.parametrize("cause", PLANTED, ids=str)
def test_a_planted_drift_is_charged_to_its_cause(kept: KeptCase, cause: DriftCause) -> None:
    found = held(kept, PLANTED[cause])
    assert found.causes is not None
    charged = {each.cause: error_usd(each.shapley) for each in found.causes.shares}
    assert charged.get(cause, 0.0) >= 0.8 * sum(charged.values()) > 0.0, charged
    assert {each.cause for each in found.inputs if each.verdict is InputVerdict.DRIFTED} >= {cause}


@pytest.mark.slow
def test_without_a_bill_devices_are_compared_with_devices(kept: KeptCase) -> None:
    """As many replicas for as many successes cost what was planned: other lines of the bill are on neither side."""
    seen = replace(kept.production.observation(Planted(), start_s=kept.start_s, weeks=1.0, seed=5), paid_usd=None)
    found = reconcile(kept.expected, seen, kept.evaluation, plan=kept.digest, seed=0)
    (cost,) = (each for each in found.scorecard if each.what == "cost per success")
    replicas = seen.level(ObservedQuantity.REPLICAS)
    mean_rps = float(np.nanmean(seen.rate_rps(ObservedQuantity.ARRIVALS)))
    expected = kept.expected
    month_usd, success_usd = expected.usd_per_month, expected.usd_per_success
    planned, observed = cost.planned_value, cost.observed_value
    assert None not in (month_usd, success_usd, planned, observed, replicas)
    assert planned < success_usd  # type: ignore[operator]
    month_rps = month_usd / success_usd / (730.0 * 3600.0)  # type: ignore[operator]
    fleet = sum(each.replicas for each in expected.pools)
    wanted = replicas / fleet * month_rps / mean_rps  # type: ignore[operator]
    assert observed / planned == pytest.approx(wanted, rel=0.02)  # type: ignore[operator]


@pytest.mark.slow
def test_the_size_of_a_drift_lies_in_its_interval(kept: KeptCase) -> None:
    sizes = {"arrival rate": 1.3, "mean output": 1.4, "cached share of prompts": 0.6}
    for cause, name in (
        (DriftCause.TRAFFIC, "arrival rate"),
        (DriftCause.LENGTHS, "mean output"),
        (DriftCause.CACHE, "cached share of prompts"),
    ):
        (row,) = [each for each in held(kept, PLANTED[cause]).inputs if each.name == name]
        assert row.low is not None
        assert row.high is not None
        assert row.low * 0.97 <= row.stated_value * sizes[name] <= row.high * 1.03, row


@pytest.mark.slow
def test_nothing_is_found_where_nothing_was_planted(kept: KeptCase) -> None:
    for seed in range(6):
        found = held(kept, Planted(), weeks=1.0, seed=seed)
        assert found.causes is not None
        assert found.causes.shares == ()
        assert found.causes.whole.replicas == 0.0
        assert [each for each in found.inputs if each.verdict is InputVerdict.DRIFTED] == []
        assert found.past == ()


@pytest.mark.slow
def test_two_drifts_share_the_error_and_both_sums_are_whole(kept: KeptCase) -> None:
    both = Planted(inputs=DriftInputs(traffic_ratio=1.3, output_ratio=1.5))
    causes = held(kept, both).causes
    assert causes is not None
    assert {each.cause for each in causes.shares} == {DriftCause.TRAFFIC, DriftCause.LENGTHS}
    for way in ("in_order", "shapley"):
        for measure in ("replicas", "usd_per_month", "usd_per_success"):
            parts = sum(getattr(getattr(each, way), measure) for each in causes.shares)
            assert parts == pytest.approx(getattr(causes.whole, measure), rel=1e-9)


def test_shapley_is_the_mean_over_orders_and_a_bystander_is_charged_nothing() -> None:
    def product(inputs: DriftInputs) -> Needed:
        replicas = 8.0 * inputs.traffic_ratio * inputs.output_ratio
        return Needed(replicas=replicas, usd_per_month=None, usd_per_success=None)

    found = error_by_cause(DriftInputs(traffic_ratio=2.0, output_ratio=3.0, ready_ratio=5.0), product)
    charged = {each.cause: each.shapley.replicas for each in found.shares}
    # By hand: traffic moves 8 alone and 24 after lengths; lengths 16 alone and 32 after traffic.
    assert charged == {DriftCause.TRAFFIC: 16.0, DriftCause.LENGTHS: 24.0, DriftCause.READY: 0.0}
    assert [each.in_order.replicas for each in found.shares] == [8.0, 32.0, 0.0]
    assert found.whole.replicas == 40.0


def without(seen: Observation, *quantities: ObservedQuantity) -> Observation:
    return replace(
        seen,
        arrivals_by_class={},
        counted={key: each for key, each in seen.counted.items() if key not in quantities},
        levels={key: each for key, each in seen.levels.items() if key not in quantities},
        latencies={key: each for key, each in seen.latencies.items() if key not in quantities},
    )


@pytest.mark.slow
def test_what_is_not_seen_is_unknown_and_never_drifted(kept: KeptCase) -> None:
    everything = PLANTED[DriftCause.CACHE]
    seen = kept.production.observation(everything, start_s=kept.start_s, weeks=1.0, seed=1)
    seen = without(
        seen,
        ObservedQuantity.CACHED_TOKENS,
        ObservedQuantity.ITL,
        ObservedQuantity.RESTARTS,
        ObservedQuantity.DEVICE_HOUR_USD,
    )
    found = reconcile(kept.expected, seen, kept.evaluation, plan="", seed=0)
    verdicts = {each.name: each.verdict for each in found.inputs}
    for name in ("cached share of prompts", "step times over the plan's", "stops of a replica", "shares of classes"):
        assert verdicts[name] is InputVerdict.UNKNOWN, name
    assert verdicts["price of a replica-hour"] is InputVerdict.UNKNOWN
    assert found.causes is not None
    assert found.causes.shares == ()


@pytest.mark.slow
def test_gaps_do_not_look_like_less_traffic(kept: KeptCase) -> None:
    seen = kept.production.observation(Planted(), start_s=kept.start_s, weeks=2.0, seed=3)
    holes = np.random.default_rng(0).random(seen.steps) < 0.3
    counted = {key: np.where(holes, np.nan, value) for key, value in seen.counted.items()}
    found = reconcile(kept.expected, replace(seen, counted=counted), kept.evaluation, plan="", seed=0)
    assert {each.verdict for each in found.inputs if each.name == "arrival rate"} == {InputVerdict.HOLDS}


@pytest.mark.slow
def test_updates_change_what_drifted_and_nothing_else(kept: KeptCase) -> None:
    quiet, _ = plan_updates(kept.expected, held(kept, Planted()), weeks=2.0)
    assert quiet == ()
    changes, _ = plan_updates(kept.expected, held(kept, PLANTED[DriftCause.TRAFFIC]), weeks=2.0)
    by_key = {each.key: each for each in changes}
    assert set(by_key) - {"policy.reconcile_every"} == {
        "dated",
        "workload.classes.chat.rate",
        "workload.classes.coding.rate",
    }
    assert float(by_key["workload.classes.chat.rate"].new.split()[0]) == pytest.approx(6.0 * 1.3 * 1.01**2, rel=0.03)
    assert "arrival rate" in by_key["workload.classes.chat.rate"].evidence
    _, elsewhere = plan_updates(kept.expected, held(kept, PLANTED[DriftCause.STEPS]), weeks=2.0)
    assert any("calibrate" in each for each in elsewhere)


TWO_POOLS = {
    "version": 1,
    "service": "two pools",
    "dated": "2026-11-15",
    "workload": {
        "classes": [
            {"name": "chat", "rate": "6 req/s", "longest_context": 8192, "slo": {"tpot_p95": "80ms"}, "pool": "small"},
            {
                "name": "coding",
                "rate": "1 req/s",
                "longest_context": 8192,
                "slo": {"tpot_p95": "80ms"},
                "pool": "large",
            },
        ]
    },
    "pools": [
        {"name": "small", "model": "llama-3.1-8b", "device": "h100-sxm"},
        {"name": "large", "model": "llama-3.1-70b", "device": "h100-sxm", "tensor_parallel": 4},
    ],
}


@pytest.mark.slow
def test_several_pools_need_the_sum_and_share_out_the_whole(kept: KeptCase) -> None:
    pools = load_pools(TWO_POOLS, as_of=AS_OF)
    assert not isinstance(pools, Rejection)
    own = kept.expected.pools[0]
    names = {"chat": "small", "coding": "large"}
    expected = replace(
        kept.expected,
        pools=(replace(own, name="small"), replace(own, name="large", devices=4)),
        classes=tuple(replace(each, pool=names[each.name]) for each in kept.expected.classes),
    )
    parts = [Evaluation(expected, each, pools[each.name].bases(0), seed=0) for each in expected.pools]
    whole = ServiceEvaluation(parts)
    chat, coding = (each.mean_rps for each in expected.classes)
    total = chat + coding
    # Coding doubles its share, and chat gives it: to the pool of coding that is twice its traffic.
    mix = {"coding": 2.0, "chat": (total - 2.0 * coding) / chat}
    drift = DriftInputs(traffic_ratio=1.3, class_ratios=mix, output_ratio=1.4)
    assert pool_inputs(drift, expected, "large").traffic_ratio == pytest.approx(2.6)
    assert pool_inputs(drift, expected, "small").traffic_ratio == pytest.approx(1.3 * mix["chat"])
    needed = whole.needed(drift)
    assert needed.replicas == pytest.approx(sum(each.needed(drift).replicas for each in parts))
    found = error_by_cause(drift, whole.needed)
    assert {each.cause for each in found.shares} == {DriftCause.TRAFFIC, DriftCause.MIX, DriftCause.LENGTHS}
    for measure in ("replicas", "usd_per_month", "usd_per_success"):
        for way in ("in_order", "shapley"):
            charged = sum(getattr(getattr(each, way), measure) for each in found.shares)
            assert charged == pytest.approx(getattr(found.whole, measure), rel=1e-9)
    # A replica of four devices costs four times one of a single device, and both together what the plan says.
    small, large = (expected.pool_usd_per_hour(each) for each in expected.pools)
    assert small is not None
    assert large is not None
    assert large == pytest.approx(4.0 * small)
    assert small + large == pytest.approx(2.0 * (expected.replica_usd_per_hour or 0.0))
    assert expected.whole_pool.replicas == 2 * own.replicas
