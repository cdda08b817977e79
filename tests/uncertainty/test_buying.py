"""How to buy a plan: months that follow from it, commitments that are held, orders with dates."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from support.planned import stated
from ullage.cost.quotes import AnnouncedChange
from ullage.errors import Rejection
from ullage.evidence import number
from ullage.planning.document import Plan
from ullage.prices.purchase import Purchase
from ullage.uncertainty.buying import Buying, BuyingChoice, buying, months_on
from ullage.uncertainty.growth import GROWTH_MONTHS
from ullage.uncertainty.pool_months import nodes_for, pool_months
from ullage.uncertainty.pool_study import pool_surface
from ullage.verbs.buy import buy

AS_OF = datetime.date(2026, 11, 16)
PLAN = {
    "version": 1,
    "service": "small",
    "dated": "2026-11-10",
    "workload": {
        "classes": [
            {
                "name": "chat", "rate": "8 req/s", "longest_context": 4096,
                "slo": {"ttft_p95": "2s", "tpot_p95": "80ms"}, "weekly_growth": "1%",
            },
            {"name": "batch", "rate": "4 req/s", "longest_context": 4096, "slo": {"e2e_p95": "60s"}, "priority": 1},
        ]
    },
    "pool": {"model": "llama-3.1-8b", "device": "l40s", "engine_version": "0.32.0"},
    "prices": {
        "provider": "aws",
        "region": "us-east-1",
        "spot_classes": ["batch"],
        "held": [{"device": "l40s", "devices": 2, "price": "1.1 USD/h", "until": "2027-04-30"}],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def bought() -> tuple[Plan, Buying]:
    found = buy(PLAN, months=12, as_of=AS_OF)
    assert not isinstance(found, Rejection)
    return found.plan, found.buying


@pytest.mark.slow
def test_what_is_held_is_counted_until_its_last_month(bought: tuple[Plan, Buying]) -> None:
    (pool,) = bought[1].pools
    assert [each.held_nodes for each in pool.by_month] == [2.0] * 5 + [0.0] * 7
    assert bought[1].first_month == datetime.date(2026, 12, 1)


@pytest.mark.slow
def test_announced_prices_are_those_of_their_months(bought: tuple[Plan, Buying]) -> None:
    """From February hours cost half: by hand every month of "all on demand" from the third on."""
    plan, before = bought
    half = AnnouncedChange(begins=datetime.date(2027, 2, 1), ratio=stated("announced", 0.5, "ratio"))
    spec = replace(plan.spec, buying=replace(plan.spec.buying, announced=(half,)))
    after = buying(replace(plan, spec=spec), BuyingChoice(months=12))
    assert not isinstance(after, Rejection)
    market = after.pools[0].market
    assert market.list_ratios == (1.0, 1.0, *[0.5] * 10)
    old, new = ({each.name: each.usd for each in found.pools[0].rules} for found in (before, after))
    assert new["all on demand"] < 0.75 * old["all on demand"]
    for order in after.orders:
        price = next(each for each in market.terms if each.name == order.instrument)
        ratio = 1.0 if order.begins < half.begins else 0.5
        assert order.usd_per_month == pytest.approx(order.nodes * price.usd_per_month * ratio)
    assert any("x0.5 from 2027-02-01" in each for each in after.notes)


@pytest.mark.slow
def test_the_mix_is_no_dearer_than_any_rule_and_explains_itself(bought: tuple[Plan, Buying]) -> None:
    (pool,) = bought[1].pools
    assert pool.chosen.usd <= 1.01 * pool.best_rule.usd
    assert pool.figures["buy.pool.usd"].value == pool.chosen.usd
    names = {each.name for each in pool.figures["buy.pool.usd"].inputs}
    assert {"months.wander", "months.growth", "buy.one_year_off"} <= names
    assert any(each.spot_nodes > 0.0 for each in pool.by_month), "batch may be interrupted and spot is cheaper"


@pytest.mark.slow
def test_orders_are_due_their_lead_time_before_they_begin(bought: tuple[Plan, Buying]) -> None:
    plan, found = bought
    lead_s = sum(number(each) for each in plan.spec.options.lead.steps(Purchase.ONE_YEAR))
    assert found.orders
    for each in found.orders:
        assert (each.begins - each.order_by).days == round(lead_s / 86_400.0)
        assert each.ends == months_on(each.begins, 12) - datetime.timedelta(days=1)


@pytest.mark.slow
def test_months_follow_the_plan(bought: tuple[Plan, Buying]) -> None:
    plan, _ = bought
    (pool,) = plan.pools
    given, surface = pool_surface(pool, plan.spec, seed=0)
    found = pool_months(pool, given, surface, months=12, futures=400, seed=0, losable=("batch",))
    reserve = sum(pool.reserves.bought.values())
    assert (found.fixed[:, 0] == pool.steady_fleet.replicas + reserve).all()
    assert (found.firm_hours <= found.hours).all()
    assert (found.firm_hours < found.hours).any()
    firm = pool_months(pool, given, surface, months=2, futures=8, seed=0)
    np.testing.assert_array_equal(firm.firm_hours, firm.hours)
    chat = np.median(found.classes["chat"], axis=0)
    growth = next(each.model.weekly_growth_fraction for each in pool.demand.classes if each.name == "chat")
    grown = (1.0 + growth) ** (5.0 * 365.0 / 12.0 / 7.0)
    assert chat[5] / chat[0] == pytest.approx(grown, rel=0.05)
    # A plan of the middle of a month is budgeted from the next: half a month's growth is not lost between them.
    later = pool_months(pool, given, surface, months=12, futures=400, seed=0, wait_s=15.0 * 86_400.0)
    assert np.median(later.classes["chat"], axis=0)[0] / chat[0] == pytest.approx(
        (1.0 + growth) ** (15.0 / 7.0), rel=1e-6
    )
    assert chat[11] / chat[6] == pytest.approx(1.0, abs=0.05), f"growth ends after {GROWTH_MONTHS.value} months"
    assert found.hours.max() <= 8 * np.median(found.hours.max(axis=(1, 2))), "no future asks for fleets without end"
    spread = np.log(found.volumes).std(axis=0)
    assert spread[11] > spread[0]


def test_whole_nodes_never_hold_less_than_they_must() -> None:
    replicas = np.arange(1, 60)
    for zones in (1, 2, 3):
        for per_node in (1, 2, 8):
            found = nodes_for(replicas, zones=zones, per_node=per_node, node_of_replica=1)
            assert (found * per_node >= replicas).all()
            assert (found <= np.ceil(replicas / per_node) + zones - 1).all()
    np.testing.assert_array_equal(nodes_for(replicas, zones=1, per_node=1, node_of_replica=2), 2 * replicas)
