"""What regions whose hours differ need together: closed forms and laws of the week's shape."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.load.plan import load_plan
from ullage.planning.sun import pooled_fraction

WEEK = np.arange(168)


def test_days_that_are_half_a_turn_apart_cancel() -> None:
    season = 1.0 + 0.6 * np.cos(2.0 * np.pi * WEEK / 24.0)
    assert pooled_fraction(season, (0.5, 0.5), (0, 12)) == pytest.approx(1.0 / 1.6)
    assert pooled_fraction(season, (1 / 3, 1 / 3, 1 / 3), (0, 8, 16)) == pytest.approx(1.0 / 1.6)


def test_regions_of_one_hour_save_nothing() -> None:
    season = 1.0 + 0.6 * np.cos(2.0 * np.pi * WEEK / 24.0)
    assert pooled_fraction(season, (0.7, 0.3), (5, 5)) == pytest.approx(1.0)


@given(
    season=st.lists(st.floats(0.1, 10.0), min_size=168, max_size=168),
    share=st.floats(0.05, 0.95),
    later=st.integers(0, 23),
)
def test_together_is_never_more_than_apart_nor_less_than_the_largest_region_or_the_mean(
    season: list[float], share: float, later: int
) -> None:
    week = np.array(season)
    found = pooled_fraction(week, (share, 1.0 - share), (0, later))
    assert max(share, 1.0 - share, float(week.mean() / week.max())) - 1e-9 <= found <= 1.0 + 1e-9


def test_a_region_says_how_much_later_its_day_is() -> None:
    plan = {
        "version": 1,
        "service": "made",
        "workload": {
            "classes": [{"name": "chat", "rate": "4 req/s", "longest_context": 4096, "slo": {"ttft_p95": "2s"}}]
        },
        "pool": {"model": "llama-3.1-8b", "device": "l40s"},
        "sites": {
            "regions": [
                {"name": "west", "zones": [{"name": "wa"}]},
                {"name": "east", "hours_later": 9, "zones": [{"name": "ea"}]},
            ]
        },
    }
    sites = load_plan(plan, as_of=datetime.date(2026, 11, 16)).sites["l40s"]
    later = [each.later for each in sites.regions]
    assert later[0] is None
    assert later[1] is not None
    assert later[1].value == 9
