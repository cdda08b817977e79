"""The commitment level: the quantile rule against trying every level, and the ends of the scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.bills import given as stated
from support.bills import pool, price
from ullage.cost.commitment import commitment_advice, commitment_levels
from ullage.cost.quotes import DeviceQuote
from ullage.errors import InputError
from ullage.prices.purchase import Purchase

_HOURS = st.lists(st.integers(0, 30).map(float), min_size=1, max_size=60)


@given(_HOURS, st.floats(0.05, 2.0), st.floats(0.1, 100.0))
def test_the_best_level_is_the_quantile_of_the_duration_curve(hours: list[float], ratio: float, usd: float) -> None:
    levels = commitment_levels(hours, committed_usd_per_hour=ratio * usd, usage_usd_per_hour=usd, period_hours=730.0)
    cheapest = min(each.usd for each in levels)
    # As many as are needed in a larger share of hours than the price ratio.
    wanted = next(
        level for level in range(len(levels)) if np.mean(np.array(hours) > level) <= ratio or level == len(levels) - 1
    )
    assert levels[wanted].usd == pytest.approx(cheapest, rel=1e-9)


@given(_HOURS, st.floats(0.1, 100.0))
def test_a_commitment_as_dear_as_use_brings_nothing(hours: list[float], usd: float) -> None:
    levels = commitment_levels(hours, committed_usd_per_hour=usd, usage_usd_per_hour=usd, period_hours=730.0)
    assert min(each.usd for each in levels) == pytest.approx(levels[0].usd)


def test_a_fleet_that_is_always_on_commits_all_or_nothing() -> None:
    def best(ratio: float) -> int:
        levels = commitment_levels([10.0] * 5, committed_usd_per_hour=ratio, usage_usd_per_hour=1.0, period_hours=730.0)
        return min(levels, key=lambda each: each.usd).committed_replicas

    assert [best(0.6), best(1.1)] == [10, 0]


def test_advice_says_how_many_and_what_it_saves() -> None:
    week = [4.0] * 84 + [10.0] * 84
    on_demand = DeviceQuote(purchase=Purchase.ON_DEMAND, share=stated("s", 1.0), hour=price("p", 3.0))
    year = DeviceQuote(purchase=Purchase.ONE_YEAR, share=stated("s", 0.0), hour=price("q", 2.0))
    found = commitment_advice(pool(), week, year, on_demand, period=stated("cost.period", 730.0, "h"))
    assert found.best.committed_replicas == 4
    assert found.saved_usd == pytest.approx(4 * 2 * 730 * 1.0)
    assert {each.name for each in found.figures} == {"commitment.main_replicas", "commitment.main_saved_usd"}


def test_hours_are_needed() -> None:
    with pytest.raises(InputError, match="has hours"):
        commitment_levels([], committed_usd_per_hour=1.0, usage_usd_per_hour=2.0, period_hours=1.0)
