"""The integer program against every mix there is, and against what follows from its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from support.purchases import drawn_needs, instrument, market
from ullage.cost.purchase.instrument import Held, Instrument
from ullage.cost.purchase.mix import Market, TermMix, TermOrder, expected_usd, play
from ullage.cost.purchase.need import NodeNeeds, firm_needs
from ullage.cost.purchase.program import CostCap, best_mix, least_usd, starts_of
from ullage.cost.purchase.rules import fixed_rules
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase


def _every_mix(needs: NodeNeeds, sold: Market) -> list[TermMix]:
    choices = [(each, start) for each in sold.terms for start in starts_of(each, sold)]
    return [
        TermMix(
            name="tried",
            orders=tuple(
                TermOrder(instrument=i, start_months=s, nodes=n) for (i, s), n in zip(choices, counts, strict=True) if n
            ),
        )
        for counts in itertools.product(range(needs.most + 1), repeat=len(choices))
    ]


def _short(term_months: int, usd_per_hour: float) -> Instrument:
    return instrument(Purchase.ONE_YEAR, usd_per_hour, term_months=term_months)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_mix_of_all_there_are_costs_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    months = 4
    nodes = rng.integers(0, 4, (3, months, 6))
    needs = NodeNeeds(nodes=nodes, losable=rng.integers(0, nodes + 1))
    spot = instrument(Purchase.SPOT, float(rng.uniform(2, 8)), interruptions=0.001, refill_s=600.0)
    held = (Held(name="held", nodes=1, months=int(rng.integers(0, 4)), usd_per_hour=5.0),)
    sold = market(
        _short(2, float(rng.uniform(4, 10))), _short(4, float(rng.uniform(3, 9))), months=months, spot=spot, held=held
    )
    cheapest = min(expected_usd(each, needs, sold) for each in _every_mix(needs, sold))
    found = best_mix(needs, sold)
    assert found is not None
    assert expected_usd(found, needs, sold) == pytest.approx(cheapest, rel=1e-9)


def test_a_capped_mix_is_the_cheapest_of_those_that_keep_the_cap() -> None:
    rng = np.random.default_rng(3)
    needs = firm_needs(rng.integers(2, 5, (3, 3, 6)))
    sold = market(_short(3, 5.0), months=3)
    low = needs.times(0.25)
    most = 1.3 * least_usd(low, sold)
    allowed = [each for each in _every_mix(needs, sold) if expected_usd(each, low, sold) <= most + 1e-6]
    found = best_mix(needs, sold, caps=(CostCap(needs=low, market=sold, usd=most),))
    assert found is not None
    assert expected_usd(found, needs, sold) == pytest.approx(min(expected_usd(each, needs, sold) for each in allowed))
    free = best_mix(needs, sold)
    assert free is not None
    assert expected_usd(free, low, sold) > most, "the cap is meant to bind"


def test_caps_that_nothing_keeps_have_no_mix() -> None:
    needs = firm_needs(np.full((1, 2, 4), 2))
    sold = market(_short(2, 5.0), months=2)
    assert best_mix(needs, sold, caps=(CostCap(needs=needs, market=sold, usd=1.0),)) is None


def test_the_level_is_the_quantile_where_an_hour_more_stops_paying() -> None:
    # 2, 2, 4, 8 at 6 against 10: committed as far as more than 60 % of the hours need it, which is two nodes.
    sold = market(_short(1, 6.0), months=1)
    found = best_mix(firm_needs(np.array([[[2, 2, 4, 8]]])), sold)
    assert found is not None
    assert [each.nodes for each in found.orders] == [2]


def test_expected_cost_is_the_mean_of_what_is_played() -> None:
    rng = np.random.default_rng(5)
    needs = drawn_needs(rng, futures=20, months=12, base=6.0, swing=0.5, losable=0.3)
    spot = instrument(Purchase.SPOT, 4.0, interruptions=0.01, refill_s=900.0, warning_s=120.0)
    sold = market(_short(12, 6.0), months=12, spot=spot)
    found = best_mix(needs, sold)
    assert found is not None
    played = play(found, needs, sold, rng=rng)
    assert played.mean_usd == pytest.approx(expected_usd(found, needs, sold), rel=2e-3)
    quiet = market(_short(12, 6.0), months=12)
    exact = play(found, needs, quiet, rng=rng)
    assert exact.mean_usd == pytest.approx(expected_usd(found, needs, quiet), rel=1e-12)


def test_spot_serves_only_what_may_be_lost_and_loses_as_often_as_stated() -> None:
    rng = np.random.default_rng(6)
    needs = drawn_needs(rng, futures=50, months=6, base=20.0, swing=0.4, losable=0.5)
    spot = instrument(Purchase.SPOT, 3.0, interruptions=0.02, refill_s=1800.0, warning_s=600.0)
    sold = market(months=6, spot=spot)
    played = play(TermMix(name="none"), needs, sold, rng=rng)
    np.testing.assert_allclose(played.spot_nodes, needs.losable.mean(axis=(0, 2)))
    np.testing.assert_allclose(played.hour_nodes, (needs.nodes - needs.losable).mean(axis=(0, 2)))
    expected = needs.losable.mean() * HOURS_PER_MONTH * 0.02
    assert played.interruptions == pytest.approx(expected, rel=0.05)
    assert played.lost_node_hours == pytest.approx(played.interruptions * 1200.0 / 3600.0)
    without = play(TermMix(name="none", uses_spot=False), needs, sold, rng=rng)
    assert without.spot_nodes.max() == 0.0
    assert without.interruptions == 0.0


def test_what_is_held_is_used_first_and_paid_whatever_comes() -> None:
    needs = firm_needs(np.full((1, 3, 4), 2))
    bare, own = market(months=3), market(months=3, held=(Held(name="old", nodes=2, months=2, usd_per_hour=7.0),))
    assert expected_usd(TermMix(name="none"), needs, bare) == pytest.approx(2 * 3 * HOURS_PER_MONTH * 10.0)
    expected = 2 * HOURS_PER_MONTH * (2 * 7.0 + 10.0)
    assert expected_usd(TermMix(name="none"), needs, own) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_no_fixed_rule_is_cheaper_on_the_futures_it_was_chosen_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs = drawn_needs(rng, futures=12, months=24, base=float(rng.uniform(2, 12)), swing=float(rng.uniform(0, 0.6)))
    year = instrument(Purchase.ONE_YEAR, float(rng.uniform(5, 9)))
    sold = market(year, months=24, held=(Held(name="old", nodes=1, months=5, usd_per_hour=6.0),))
    found = best_mix(needs, sold)
    assert found is not None
    cost = expected_usd(found, needs, sold)
    rules = fixed_rules(needs, sold)
    assert len(rules) == 3
    assert all(cost <= expected_usd(each, needs, sold) + 1e-6 for each in rules)


def test_a_rule_fills_up_where_a_held_term_ends() -> None:
    needs = firm_needs(np.full((1, 24, 4), 5))
    year = instrument(Purchase.ONE_YEAR, 6.0)
    sold = market(year, months=24, held=(Held(name="old", nodes=3, months=6, usd_per_hour=6.0),))
    committed = next(each for each in fixed_rules(needs, sold) if each.name == "all committed")
    assert [(each.start_months, each.nodes) for each in committed.orders] == [(0, 2), (6, 3), (12, 2), (18, 3)]
    np.testing.assert_array_equal(committed.nodes(24, sold.held), np.full(24, 5))
