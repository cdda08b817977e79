"""What a short history cannot show is in its band, and what is assumed gives way to what was seen."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from support.demand_laws import hourly, known_law
from ullage.workload.forecast.error_model import (
    FRACTIONS,
    LEVEL_DEVIATION,
    ErrorModel,
    PastErrors,
    _band_ratio,
    counted,
    error_model,
    student_ratio,
)
from ullage.workload.forecast.forecast import Forecast, forecast
from ullage.workload.forecast.point_forecasts import DampedGrowth, Floats

SCORES = np.array([NormalDist().inv_cdf(each) for each in FRACTIONS.tolist()])
DAY_S = 86_400.0


def run(values: Floats, hours: int = 24) -> Forecast:
    return forecast(hourly(values), horizon_s=hours * 3600.0, rng=np.random.default_rng(0))


def past(observed: Floats, predicted: Floats, *, apart_steps: int = 24, block_steps: int = 24) -> PastErrors:
    return PastErrors(observed=observed, predicted=predicted, apart_steps=apart_steps, block_steps=block_steps)


def errors(observed: Floats, predicted: Floats, *, steps: int, seasons: float = 8.0) -> ErrorModel:
    seen = past(observed, predicted)
    return error_model(
        seen,
        seen,
        step_s=3600.0,
        steps=steps,
        growth=DampedGrowth(weekly_fraction=0.0, deviation_fraction=0.03),
        seasons=seasons,
        season_blocks=7,
    )


def test_a_history_without_any_error_is_still_not_sure() -> None:
    """Zero past error widens all the same: by what is assumed of any service, and by the chance of counting."""
    found = run(np.full(8 * 168, 5.0), 30 * 24)
    assert found.planning(0.95) > 1.05 * 5.0
    assert (found.at(0.9) > found.at(0.1)).all()


def test_without_past_errors_the_level_is_as_unsure_as_assumed() -> None:
    found = errors(np.full((0, 24), np.nan), np.zeros((0, 24)), steps=72, seasons=1.0)
    assert found.level_variances == pytest.approx(2.0 * LEVEL_DEVIATION**2)
    assert found.tested_steps == 0


@pytest.mark.parametrize("deviation", [0.02, 0.3])
def test_many_past_errors_take_the_place_of_what_was_assumed(deviation: float) -> None:
    rng = np.random.default_rng(0)
    predicted = np.full((400, 24), 10_000.0)
    observed = predicted * np.exp(deviation * rng.standard_normal((400, 1)))
    found = errors(observed, predicted, steps=24)
    assert np.sqrt(found.level_variances[0]) == pytest.approx(deviation, rel=0.15)
    assert found.noise_variance_ratio == pytest.approx(0.0, abs=1e-4)


def test_noise_within_a_day_is_told_from_the_chance_of_counting() -> None:
    rng = np.random.default_rng(1)
    predicted = np.full((200, 24), 50.0)
    chance, noisy = (
        errors(rng.poisson(predicted * np.exp(noise)).astype(np.float64), predicted, steps=24)
        for noise in (0.0 * predicted, 0.2 * rng.standard_normal(predicted.shape))
    )
    assert chance.noise_variance_ratio < 0.003
    assert np.sqrt(noisy.noise_variance_ratio) == pytest.approx(0.2, rel=0.15)


def test_a_forecast_of_next_to_nothing_says_nothing_of_the_busy_hours() -> None:
    """Nights that were forecast at a thousandth of a request and saw one, or a hundred times less, leave the day be."""
    day = np.where(np.arange(24) < 12, 1e-3, 1000.0)
    predicted = np.tile(day, (40, 1))
    observed = predicted.copy()
    observed[::2, 3] = 1.0
    found = errors(observed, predicted, steps=24)
    assert found.noise_variance_ratio < 1e-4
    quantiles = found.band(day / 3600.0) * 3600.0
    assert quantiles[12:, -1].max() < 1.3 * 1000.0
    assert quantiles[:12, -1].max() < 5.0


def test_uncertainty_grows_with_the_lead_as_the_past_shows() -> None:
    """A level that wanders off widens by lead; one that returns does not, beyond what growth may be."""
    rng = np.random.default_rng(2)
    predicted = np.full((60, 10 * 24), 10_000.0)
    steps = 0.05 * rng.standard_normal((60, 10))
    wanders, returns = (
        errors(predicted * np.exp(np.repeat(each, 24, axis=1)), predicted, steps=240).level_variances
        for each in (np.cumsum(steps, axis=1), steps)
    )
    assert wanders[9] > 3.0 * wanders[0]
    assert returns[9] < 1.5 * returns[0]
    assert (np.diff(wanders) >= 0.0).all()


@pytest.mark.slow
def test_a_cut_history_is_less_sure_of_the_same_quarter() -> None:
    relative = []
    for weeks in (1, 4, 8):
        found = [run(known_law(seed, 8, deviation=0.05)[-weeks * 168 :], 90 * 24).quantiles for seed in range(4)]
        relative.append(np.mean([np.log(each[-168:, -3] / each[-168:, 2]).mean() for each in found]))
    assert relative[0] > relative[1] > relative[2]


def test_counts_have_the_quantiles_of_poisson_where_there_is_no_noise() -> None:
    """Poisson's own quantiles as an oracle, from next to nothing to many."""
    from scipy.stats import poisson

    for mean in (5.0, 50.0, 5000.0):
        found = counted(np.array([mean]), 0.0, SCORES, mean_variance=0.0)
        exact = poisson.ppf(FRACTIONS, mean)
        assert np.abs(found - exact).max() <= 1.0 + 0.01 * mean


def test_few_degrees_of_freedom_widen_as_student_did() -> None:
    from scipy.stats import t

    for freedom in (6.0, 12.0, 30.0):
        assert student_ratio(SCORES[-1], freedom) * SCORES[-1] == pytest.approx(t.ppf(FRACTIONS[-1], freedom), rel=0.01)


def test_a_band_is_trusted_with_its_witnesses() -> None:
    """None at all leave half as much again; as many as are assumed beside them give half of what they show."""
    same = np.full((20, 24), 100.0)
    found = errors(same, same, steps=24)
    ratios = [_band_ratio(replace(found, witnesses=6.0 * each), past(same, same)) for each in (1, 2, 1000)]
    assert ratios[0] == pytest.approx(1.5)
    assert ratios[1] == pytest.approx((1 / 1.5) ** 0.5 * 1.5**0.25)
    assert ratios[2] == pytest.approx(1 / 1.5, rel=0.01)
