"""The answer's numbers are the plan's: bridges sum to the fleet and the bill, and every name can be explained."""

from __future__ import annotations

import datetime
import math
from dataclasses import fields, replace

import pytest

from support.planned import ONE_REPLICA, TWO_POOLS, planned, stated
from ullage.cost.bill import Bill
from ullage.evidence import Figure, Source, number, walk
from ullage.planning.answer.answer import LOAD_TEST, Answer, answer
from ullage.planning.document import Plan

PLANS = [
    pytest.param(None, id="built-in"),
    pytest.param(TWO_POOLS, id="two pools", marks=pytest.mark.slow),
    pytest.param(ONE_REPLICA, id="one replica", marks=pytest.mark.slow),
]


def bill_of(plan: Plan) -> Bill:
    return next(each.answer for each in plan.stages if isinstance(each.answer, Bill))


@pytest.mark.parametrize("text", PLANS)
def test_the_steps_of_the_bridge_are_the_fleet(text: str | None) -> None:
    plan = planned(text)
    found = answer(plan)
    assert [each.name for each in found.pools] == [each.spec.name for each in plan.pools]
    for pool, said in zip(plan.pools, found.pools, strict=True):
        steps = {each.name: number(each.amount) for each in said.replicas}
        assert sum(steps.values()) == pool.reserves.total_replicas == number(said.machines.replicas)
        assert steps["nominal"] + steps["demand uncertainty"] == pool.steady_fleet.nominal_replicas
        slow = steps["untested step times"] + steps["length uncertainty"]
        assert pool.steady_fleet.nominal_replicas + slow == pool.steady_fleet.replicas
        for name, bought in pool.reserves.bought.items():
            assert steps[name] == bought
        devices = pool.reserves.total_replicas * pool.memory.runtime.sharding.devices
        assert devices + number(said.rounding.amount) == number(said.machines.devices)
        assert number(said.machines.devices) == number(said.machines.nodes) * pool.packing.chosen.shape.devices


@pytest.mark.slow
def test_replicas_that_always_run_are_a_step_of_their_own() -> None:
    found = answer(planned(ONE_REPLICA.replace("device: h100-sxm}", "device: h100-sxm, least_replicas: 4}", 1)))
    steps = {each.name: number(each.amount) for each in found.pools[0].replicas}
    assert (steps["nominal"], steps["untested step times"], steps["minimum"]) == (1, 0, 3)
    assert sum(steps.values()) == number(found.pools[0].machines.replicas)


@pytest.mark.parametrize("text", PLANS[:2])
def test_the_money_of_the_bridge_is_that_of_the_devices_on_the_bill(text: str | None) -> None:
    plan = planned(text)
    found, bill = answer(plan), bill_of(plan)
    for said in found.pools:
        assert said.usd is not None
        steps = [each.usd for each in (*said.replicas, said.rounding) if each.usd is not None]
        assert sum(number(each) for each in steps) == pytest.approx(number(said.usd), abs=0.01)
    others = {"storage", "network", "observability", "provider tokens", "tool apis", "evaluation", "engineering"}
    devices = sum(number(each.usd) for each in found.money if each.name not in others)
    assert sum(number(each.usd) for each in found.pools if each.usd) == pytest.approx(devices, abs=0.01)
    assert sum(number(each.usd) for each in found.money) == pytest.approx(bill.total_usd, abs=0.005)
    assert found.total_usd is not None
    assert number(found.total_usd) == bill.total_usd


@pytest.mark.slow
def test_without_a_price_of_the_devices_no_sum_pretends_to_have_one() -> None:
    found = answer(planned(ONE_REPLICA))
    assert found.total_usd is None
    assert found.per_success is None
    assert found.causes == ()
    assert all(each.usd is None for pool in found.pools for each in (*pool.replicas, pool.rounding))
    assert "compute usage" in found.unpriced


@pytest.mark.parametrize("text", PLANS)
def test_traffic_rises_from_step_to_step_to_what_is_planned_for(text: str | None) -> None:
    plan = planned(text)
    rates = [number(each.amount) for each in answer(plan).traffic]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(sum(number(each.mean_rate) for each in plan.spec.demands))
    assert rates[-1] == pytest.approx(sum(each.demand.planning_rps for each in plan.pools))


@pytest.mark.parametrize("text", PLANS)
def test_utilisation_is_load_over_capacity_and_rises_from_state_to_state(text: str | None) -> None:
    plan = planned(text)
    for pool, said in zip(plan.pools, answer(plan).pools, strict=True):
        used = [number(each.utilisation) for each in said.utilisation]
        states = ["mean", "busiest hour", "planned", "machine lost", "zone lost"]
        zones = pool.reserves.placement.rows
        assert [each.name for each in said.utilisation] == states[: 5 if len(zones) > 1 else 4]
        assert used == sorted(used)
        mean = sum(each.mean_rps for each in pool.demand.classes)
        assert used[2] / used[0] == pytest.approx(pool.demand.planning_rps / mean)
        # By hand: what the steady replicas carried in simulation, for as many as stand behind the router.
        serving = pool.steady_fleet.replicas + pool.reserves.serving_replicas
        each_rps = (
            pool.demand.planning_rps * (1.0 + pool.headroom.line("traffic").holds_fraction) / pool.steady_fleet.replicas
        )
        assert used[2] == pytest.approx(pool.demand.planning_rps / (each_rps * serving))
        left = serving - pool.packing.chosen.most_parts_per_node
        assert used[3] == pytest.approx(pool.demand.planning_rps / (each_rps * left))
        if len(zones) > 1:
            largest = max(row.replicas for row in zones) / sum(row.replicas for row in zones)
            assert used[4] == pytest.approx(pool.demand.planning_rps / each_rps / (serving * (1.0 - largest)), rel=0.1)


def test_the_parts_of_the_bill_are_whole() -> None:
    found = answer(planned())
    assert {each.name for each in found.causes} == {"chat", "coding"}
    assert math.fsum(number(each.bill) for each in found.causes) == pytest.approx(1.0)
    assert math.fsum(number(each.requests) for each in found.causes) == pytest.approx(1.0)


def test_the_next_step_is_the_load_test_that_buys_back_the_margin_for_step_times() -> None:
    plan = planned()
    step, (pool,) = answer(plan).next_step, plan.pools
    whole = pool.steady_fleet.replicas - pool.steady_fleet.nominal_replicas
    margin = whole - number(pool.steady_fleet.figures["fleet.length_replicas"])
    assert step.saves_replicas is not None
    assert step.saves_usd is not None
    assert step.cost_usd is not None
    assert number(step.saves_replicas) == margin > whole / 2
    bill = bill_of(plan)
    # By hand: machines of eight hold four replicas of two devices in one zone, and only whole ones stop being paid for.
    zones = [row.replicas for row in pool.reserves.placement.rows]
    machines = sum(math.ceil(each / 4) for each in zones)
    assert machines == pool.packing.chosen.nodes
    left = sum(zones) - int(margin)
    # Zones may be uneven where that takes fewer machines, and the fullest machine may be lost: 26 on seven leave 22.
    kept = math.ceil(left / 4)
    assert left - math.ceil(left / kept) >= pool.steady_fleet.replicas - margin
    lines = ("compute_usage", "compute_reservation", "idle_hours", "failed_work", "idle_reserve", "stranded_devices")
    machine_usd = sum(bill.cents_of(each) for each in lines) / 100 / machines
    assert number(step.saves_usd) == pytest.approx((machines - kept) * machine_usd)
    (quote,) = bill.quotes.devices[pool.spec.name]  # type: ignore[misc]
    assert number(step.cost_usd) == pytest.approx(number(LOAD_TEST) / 3600 * 2 * quote.usd_per_hour)


def test_what_stops_growth_stands_at_its_load_and_losses_have_their_outcomes() -> None:
    plan = planned()
    (pool,), (said,) = plan.pools, answer(plan).pools
    first, following = said.stops
    assert (first.name, following.name) == (pool.binding.binding.name, pool.binding.following.name)
    assert first.load is not None
    assert pool.binding.binding.growth_fraction is not None
    assert number(first.load) == pytest.approx(pool.demand.planning_rps * (1.0 + pool.binding.binding.growth_fraction))
    assert [each.covered_by for each in said.losses] == [each.covered_by for each in pool.loss_checks.checks]
    words = {"holds": "met", "breaks": "violated", "undecided": "undecided", "outage": "outage"}
    assert [each.outcome for each in said.losses] == [words[str(each.verdict)] for each in pool.loss_checks.checks]
    during = {each.name.replace("_", " "): each.during for each in pool.loss_checks.checks}
    for each in said.losses:
        part = during[each.name]
        found = None if each.attained is None else number(each.attained)
        assert found == (None if part is None else part.attained.value)


def test_three_limits_are_those_of_the_plan() -> None:
    plan = planned()
    (pool,), (said,) = plan.pools, answer(plan).pools
    limits = pool.admission_limits
    assert [number(each.limit) for each in said.limits] == [
        limits.pool_rate_rps,
        limits.flags.running_requests,
        limits.waiting_requests,
    ]
    assert said.shed_first == "coding"
    assert [number(each) for each in said.bursts] == [limits.burst_ratio("queue", each) for each in (120, 900)]


def test_devices_asked_for_today_are_there_after_their_lead_time() -> None:
    plan = planned()
    (order,) = answer(plan).orders
    assert order.there_on == plan.as_of + datetime.timedelta(days=14)
    assert not order.is_late
    assert order.quota is None
    assert number(order.devices) == plan.pools[0].packing.chosen.devices
    slow = replace(plan.spec.options.lead, quota=stated("lead.quota_request", 31 * 86400.0, "s"))
    late = replace(plan, spec=replace(plan.spec, options=replace(plan.spec.options, lead=slow)))
    (order,) = answer(late).orders
    assert order.there_on == plan.as_of + datetime.timedelta(days=31)
    assert order.is_late


@pytest.mark.slow
@pytest.mark.parametrize("text", PLANS)
def test_every_figure_of_the_answer_is_found_by_name_and_explained_to_its_sources(text: str | None) -> None:
    plan = planned(text)
    found = answer(plan).figures
    assert len(found) > 25
    known = {each.name: each for each in plan.figures}
    for name, figure in found.items():
        assert plan.find(name) == figure
        assert known.get(name, figure) == figure
        assert any(isinstance(each, Source) for _, each in walk(figure))


def test_no_field_of_the_answer_is_a_number_without_evidence() -> None:
    """Counts of assumptions aside, a number is a figure or an assumption."""
    found = answer(planned())
    bare = [each.name for each in fields(Answer) if isinstance(getattr(found, each.name), int | float)]
    assert bare == ["assumption_count", "stale_count"]
    assert all(isinstance(each, Figure) for each in found.figures.values())
