"""What a mix states to lose at most, against worlds inside the range that it states it for."""

from __future__ import annotations

import numpy as np
import pytest

from support.purchases import drawn_needs, instrument, market, stated
from ullage.cost.purchase.mix import TermMix
from ullage.cost.purchase.program import best_mix
from ullage.cost.purchase.purchase import PurchasePlan, purchase_plan
from ullage.cost.purchase.regret import fallen, future_regret_usd, worlds_of
from ullage.errors import Rejection
from ullage.prices.purchase import Purchase

FALL = 0.4


def _bought(seed: int, *, most_regret: float | None = None, futures: int = 24) -> PurchasePlan | Rejection:
    rng = np.random.default_rng(seed)
    sold = market(instrument(Purchase.ONE_YEAR, 6.5), months=12)
    draw = {"months": 12, "base": 8.0, "swing": 0.5, "losable": 0.0}
    drawn, fresh = (drawn_needs(rng, futures=each, **draw) for each in (futures, 4 * futures))  # type: ignore[arg-type]
    return purchase_plan(
        "main",
        drawn,
        fresh,
        sold,
        fall=stated("fall", FALL),
        most_regret=None if most_regret is None else stated("most_regret", most_regret),
        inputs=(),
        rng=rng,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_world_inside_the_range_loses_more_than_is_said(seed: int) -> None:
    found = _bought(seed)
    assert isinstance(found, PurchasePlan)
    rng = np.random.default_rng(100 + seed)
    needs = drawn_needs(rng, futures=20, months=12, base=8.0, swing=0.5)
    mix = TermMix(name="chosen", orders=found.chosen.orders)
    for future in range(needs.futures):
        sold = fallen(found.market, float(rng.uniform(0.0, FALL)))
        world = needs.only(future).times(float(rng.uniform(0.85, 1.15)))
        assert future_regret_usd(mix, world, sold) <= found.regret_usd


def test_a_mix_for_exactly_this_world_regrets_nothing() -> None:
    rng = np.random.default_rng(2)
    needs = drawn_needs(rng, futures=1, months=12, base=8.0, swing=0.5)
    sold = market(instrument(Purchase.ONE_YEAR, 6.5), months=12)
    mix = best_mix(needs, sold)
    assert mix is not None
    assert future_regret_usd(mix, needs, sold) == pytest.approx(0.0, abs=1e-6)
    assert future_regret_usd(mix, needs.times(2.0), sold) > 0.0


def test_worlds_are_the_corners_of_demand_and_prices() -> None:
    rng = np.random.default_rng(2)
    sold = market(instrument(Purchase.ONE_YEAR, 6.5), months=12)
    found = worlds_of(drawn_needs(rng, futures=2, months=12, base=8.0, swing=0.5), sold, FALL)
    assert {(each.demand_ratio, each.fall_fraction) for each in found} == {
        (ratio, fall) for ratio in (0.7, 1.0, 1.3) for fall in (0.0, FALL)
    }
    assert found[0].name == "as forecast"
    assert found[-1].market.list_ratios == (1.0, *[0.6] * 11)


@pytest.mark.slow
def test_a_chosen_regret_is_kept_in_every_world_and_costs_something() -> None:
    free, kept = _bought(7), _bought(7, most_regret=0.12)
    assert isinstance(free, PurchasePlan)
    assert isinstance(kept, PurchasePlan)
    assert max(each.usd / each.least_usd for each in kept.regrets) <= 1.12 + 1e-9
    assert max(each.usd / each.least_usd for each in free.regrets) > 1.12, "the limit is meant to bind"
    assert kept.regrets[0].usd >= free.regrets[0].usd


@pytest.mark.slow
def test_a_regret_that_no_mix_keeps_is_refused_with_the_least_that_one_does() -> None:
    found = _bought(7, most_regret=0.01)
    assert isinstance(found, Rejection)
    least = float(found.figure.value)
    again, below = _bought(7, most_regret=least), _bought(7, most_regret=least - 0.01)
    assert isinstance(again, PurchasePlan)
    assert isinstance(below, Rejection)


def test_months_add_up_to_what_is_needed() -> None:
    found = _bought(1)
    assert isinstance(found, PurchasePlan)
    assert found.chosen.low_usd < found.chosen.middle_usd < found.chosen.high_usd
    bought = sum(each.nodes for each in found.chosen.orders)
    assert [each.term_nodes for each in found.by_month] == [bought] * 12
    assert found.saved_usd == pytest.approx(min(each.usd for each in found.rules) - found.chosen.usd)
