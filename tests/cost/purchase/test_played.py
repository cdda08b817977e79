"""A mix that is played hour by hour, on two hours a month and with interruptions that are stated instead of drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.purchases import instrument, market
from ullage.cost.purchase.instrument import Held
from ullage.cost.purchase.mix import TermMix, TermOrder, play
from ullage.cost.purchase.need import NodeNeeds
from ullage.prices.purchase import HOURS_PER_MONTH, Purchase


class Stated:
    """Takes spot away as often as is expected, always."""

    def poisson(self, expected: Any) -> Any:
        return np.asarray(expected)


# One future of two months, each half the time five nodes and half the time two; one of them may be lost.
NEEDS = NodeNeeds(nodes=np.array([[[5, 2], [5, 2]]]), losable=np.array([[[1, 1], [1, 1]]]))
SPOT = instrument(Purchase.SPOT, 4.0, interruptions=0.1, refill_s=1800.0, warning_s=1440.0)
HALF = HOURS_PER_MONTH / 2


def played(**more: Any) -> Any:
    sold = replace(market(months=2, hour_usd=10.0, spot=SPOT), **more)
    term = instrument(Purchase.ONE_YEAR, 6.0, term_months=2)
    mix = TermMix(name="one", orders=(TermOrder(instrument=term, start_months=0, nodes=1),))
    return play(mix, NEEDS, sold, rng=Stated())  # type: ignore[arg-type]


def test_spot_is_paid_for_the_time_it_takes_to_come_back_too() -> None:
    """One node is bought. Four and one are left: of them one on spot, three and none by the hour."""
    found = played()
    # 730 hours of a node on spot are taken away 73 times, and half an hour each time is paid twice.
    spot_usd = 4.0 * (HOURS_PER_MONTH + 0.1 * HOURS_PER_MONTH * 0.5)
    assert found.usd == pytest.approx([2 * (spot_usd + 10.0 * 3 * HALF + 6.0 * HOURS_PER_MONTH)])
    assert found.spot_nodes == pytest.approx([1.0, 1.0])
    assert found.hour_nodes == pytest.approx([1.5, 1.5])
    assert found.idle_nodes == pytest.approx([0.0, 0.0])
    assert found.interruptions == pytest.approx(0.1 * HOURS_PER_MONTH)
    # A tenth of an hour is lost each time.
    assert found.lost_node_hours == pytest.approx(0.01 * HOURS_PER_MONTH)


def test_spot_that_is_dearer_is_left_and_prices_follow_their_list() -> None:
    dear = played(spot=instrument(Purchase.SPOT, 9.9, interruptions=0.1, refill_s=1800.0))
    assert dear.spot_nodes == pytest.approx([0.0, 0.0])
    assert dear.usd == pytest.approx([2 * (10.0 * 5 * HALF + 6.0 * HOURS_PER_MONTH)])
    # The second month's list is half: of hours and of spot, and not of what was ordered in the first.
    cheap = played(list_ratios=(1.0, 0.5))
    spot_usd = 4.0 * (HOURS_PER_MONTH + 0.1 * HOURS_PER_MONTH * 0.5)
    assert cheap.usd == pytest.approx([1.5 * (spot_usd + 10.0 * 3 * HALF) + 2 * 6.0 * HOURS_PER_MONTH])


def test_what_is_held_is_used_first_and_paid_until_it_ends() -> None:
    found = played(held=(Held(name="held", nodes=3, months=1, usd_per_hour=5.0),))
    # Four are there in the first month: one is left half the time, and two of them stand idle the other half.
    assert found.idle_nodes == pytest.approx([1.0, 0.0])
    assert found.hour_nodes[0] == pytest.approx(0.0)
    assert found.spot_nodes == pytest.approx([0.5, 1.0])
    nothing = TermMix(name="none", orders=(), uses_spot=False)
    alone = play(nothing, NEEDS, market(months=2, spot=SPOT), rng=Stated())  # type: ignore[arg-type]
    assert alone.usd == pytest.approx([2 * 10.0 * 7 * HALF])
    assert (alone.interruptions, alone.lost_node_hours) == (0.0, 0.0)
