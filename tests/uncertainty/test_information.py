"""The value of information: a closed form, and worlds in which the measurement is really made."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.risks import risk_model, surface, uncertainties
from ullage.fleet.risk.load_draws import drawn_points
from ullage.fleet.risk.quasi_random import normal_fractions, normal_scores
from ullage.fleet.risk.surface import STEPS
from ullage.uncertainty.information import InformationValue, PossibleMeasurement, chooser, information_value

_DEVIATION, _LEFT, _SCORE = 0.3, 0.4, 1.6448536


def _test(left: float = _LEFT) -> PossibleMeasurement:
    return PossibleMeasurement(name="load_test", what="load test", left_fractions={STEPS: left}, usd=100.0)


def _value(left: float = _LEFT) -> InformationValue:
    given = uncertainties(demand=0.0, steps=_DEVIATION, load=400.0)
    over = surface(sizes=1024)
    points = drawn_points(given, 2048, seed=0)
    model = risk_model(given=given, over=over)
    now = model.least(0.05)
    assert now is not None
    return information_value(
        _test(left), given, points, chooser(given, over, model, 0.05), now=now, usd_of=lambda count: 10.0 * count
    )


def test_the_expected_fleet_is_that_of_two_lognormals() -> None:
    found = _value()
    now = 400.0 * math.exp(_SCORE * _DEVIATION)
    after = 400.0 * math.exp(_LEFT * _SCORE * _DEVIATION + 0.5 * (1.0 - _LEFT**2) * _DEVIATION**2)
    assert found.now_replicas == pytest.approx(now, rel=0.01)
    assert found.expected_replicas == pytest.approx(after, rel=0.01)
    assert found.saves_usd == pytest.approx(10.0 * (found.now_replicas - found.expected_replicas))


def test_a_measurement_that_shows_nothing_saves_nothing() -> None:
    found = _value(left=1.0)
    assert found.expected_replicas == found.now_replicas
    assert found.saves_usd == 0.0


def test_the_more_it_shows_the_more_it_saves() -> None:
    saved = [_value(left).saves_usd or 0.0 for left in (0.9, 0.6, 0.3, 0.05)]
    assert saved == sorted(saved)


def test_a_load_test_changes_the_plan_by_what_was_announced_on_average() -> None:
    """Worlds with a true step ratio each: it is measured with noise, the plan is made anew with what was learnt."""
    given = uncertainties(demand=0.1, steps=_DEVIATION, load=200.0)
    over = surface(sizes=1024)
    points = drawn_points(given, 512, seed=0)
    model = risk_model(given=given, over=over)
    now = model.least(0.05)
    assert now is not None
    chosen = chooser(given, over, model, 0.05)
    announced = information_value(_test(), given, points, chosen, now=now, usd_of=None)
    column = given.groups.index(STEPS)
    fleets = []
    for shown in np.random.default_rng(8).standard_normal(300).tolist():
        learnt = points.copy()
        learnt[:, column] = normal_fractions(
            math.sqrt(1.0 - _LEFT**2) * shown + _LEFT * normal_scores(points[:, column])
        )  # fmt: skip
        fleets.append(chosen(learnt) or now)
    error = float(np.std(fleets)) / math.sqrt(len(fleets))
    assert abs(float(np.mean(fleets)) - announced.expected_replicas) <= 3.0 * error + 0.5
