"""Growth by the week: the opinion before any week, what weeks make of it, and how old the level is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.demand_laws import PLANNING_LAWS, hourly
from ullage.workload.forecast.forecast import forecast
from ullage.workload.forecast.growth import (
    _A_FEW_ANY,
    _MAY_CHANGE,
    _MOSTLY_LITTLE,
    _SOME_GROW,
    _WEEK_DEVIATION,
    DampedGrowth,
    Floats,
    damped_weeks,
    growth_of,
)
from ullage.workload.forecast.point_forecasts import FORECASTERS, NAIVE, STEADY, Past, grid_of, level_age_weeks

DAY_S = 86_400.0


def seen(levels: Floats) -> DampedGrowth:
    return growth_of(levels, np.arange(levels.size, dtype=np.float64), 0.0)


def test_before_any_week_most_services_grow_little_and_some_by_percents() -> None:
    unknown = seen(np.zeros(0))
    assert unknown == seen(np.ones(1))
    assert abs(unknown.weekly_fraction) < 0.005
    drawn = unknown.weekly_fraction + unknown.drawn(4000, np.random.default_rng(0))
    assert np.mean(drawn > 0.03) == pytest.approx(_SOME_GROW[0], abs=0.03)
    assert np.mean(np.abs(drawn) < 0.025) == pytest.approx(_MOSTLY_LITTLE[0], abs=0.03)


@pytest.mark.parametrize("slope", [-0.06, 0.0, 0.02, 0.05, 0.12])
def test_two_weeks_are_weighed_as_bayes_would_have_it(slope: float) -> None:
    """The parts in closed form against the same opinion integrated along a fine grid."""
    found = seen(np.exp([0.0, slope]))
    grid = np.linspace(-0.4, 0.4, 8001)
    prior = sum(
        share * np.exp(-0.5 * ((grid - middle) / deviation) ** 2) / deviation
        for share, middle, deviation in (_MOSTLY_LITTLE, _SOME_GROW, _A_FEW_ANY)
    )
    after = prior * np.exp(-0.5 * (slope - grid) ** 2 / (2.0 * _WEEK_DEVIATION**2))
    below = np.cumsum(after) / after.sum()
    middle = float(np.interp(0.5, below, grid))
    deviation = math.sqrt(float((after * (grid - middle) ** 2).sum() / after.sum()))
    assert found.weekly_fraction == pytest.approx(middle, abs=0.005)
    # Growth that may change adds to the deviation of each part, and nothing where there is none.
    assert deviation * 0.99 < found.deviation_fraction < math.hypot(deviation, 1.5 * _MAY_CHANGE * max(0.06, slope))
    assert sum(each.share_fraction for each in found.parts) == pytest.approx(1.0)


def test_more_weeks_of_growth_leave_less_doubt_that_there_is_growth() -> None:
    few, more, many = (seen(np.exp(0.05 * np.arange(weeks))) for weeks in (2, 4, 8))
    assert few.weekly_fraction < 0.03 < more.weekly_fraction
    assert many.weekly_fraction == pytest.approx(0.05, abs=0.002)
    assert few.parts[0].share_fraction > 0.5 > 0.1 > more.parts[0].share_fraction > many.parts[0].share_fraction
    assert few.deviation_fraction > more.deviation_fraction > many.deviation_fraction


def test_growth_is_worth_ever_less_by_the_week() -> None:
    weeks = damped_weeks(np.array([0.0, 1.0, 4.0, 13.0, 52.0]) * 7.0 * DAY_S)
    assert weeks[:3] == pytest.approx([0.0, 1.0, 4.0], rel=0.06, abs=1e-12)
    assert (np.diff(weeks) > 0.0).all()
    assert weeks[-1] < 30.0


def test_the_level_of_a_forecast_is_as_old_as_what_it_is_averaged_over() -> None:
    past = Past(history=10.0 + np.sin(np.arange(336) * 2.0 * np.pi / 24), grid=grid_of(3600.0, 336))
    ages = {name: level_age_weeks(past, 720, each) for name, each in FORECASTERS.items()}
    assert ages[NAIVE] == 0.5
    # Two weeks with weights that halve in 28 days.
    assert 0.85 < ages[STEADY] < 1.0
    assert 0.1 < ages["shape, daily level"] < 0.25 < ages["shape, weekly level"] < ages[STEADY]


@pytest.mark.slow
def test_two_weeks_of_growth_are_not_planned_for_twice_over() -> None:
    """A quarter ahead, the rate covers growth that goes on; it is not as wide as if any growth were as likely."""
    law, ratio = PLANNING_LAWS[3], []
    for seed in range(10):
        history, came = law.draw(700 + seed, weeks=2, ahead_hours=90 * 24, futures=4)
        found = forecast(hourly(history), horizon_s=90 * DAY_S, rng=np.random.default_rng(seed))
        ratio.append(found.planning(0.95) / came.max(axis=1))
    assert np.mean(np.array(ratio) < 1.0) < 0.3
    assert np.median(ratio) < 1.25
