"""What a short history cannot show is in its band, in closed form."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from support.demand_laws import hourly, known_law
from ullage.errors import InputError
from ullage.workload.forecast.conformal import FRACTIONS, conformal, witnesses
from ullage.workload.forecast.forecast import Forecast, forecast
from ullage.workload.forecast.point_forecasts import Floats

SCORES = np.array([NormalDist().inv_cdf(each) for each in FRACTIONS.tolist()])
MIDDLE = int(np.argmin(np.abs(FRACTIONS - 0.5)))


def run(values: Floats, hours: int = 24) -> Forecast:
    return forecast(hourly(values), horizon_s=hours * 3600.0, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("days", "deviation"), [(3, 0.2), (8, 0.2), (13.9, 0.2), (14, 0.1), (20.9, 0.1), (21, 0.0), (40, 0.0)]
)
def test_a_constant_history_is_as_unsure_as_the_weeks_it_did_not_see(days: float, deviation: float) -> None:
    """No error was ever made: the band is that of unseen days of the week alone, lognormal with this deviation."""
    found = run(np.full(round(24 * days), 5.0))
    assert found.quantiles[0] == pytest.approx(5.0 * np.exp(deviation * SCORES), rel=1e-6)


def test_what_was_not_seen_is_added_in_squares() -> None:
    """Lognormal errors of deviation 0.3 and unseen ones of 0.4 are one of 0.5."""
    rng = np.random.default_rng(0)
    predicted = np.ones((4000, 1))
    actual = np.exp(0.3 * rng.standard_normal((4000, 1)))
    alone, joined = (
        conformal(actual, predicted, apart_steps=1, steps=1, unseen_deviation=each).ratios[0] for each in (0.0, 0.4)
    )
    assert np.log(alone) == pytest.approx(0.3 * SCORES, abs=0.03)
    assert np.log(joined) == pytest.approx(0.5 * SCORES, abs=0.03)
    assert joined[MIDDLE] == alone[MIDDLE]


def test_few_past_errors_are_widened_as_student_did() -> None:
    """With n independent errors the band of the next is t(n - 1) x sqrt(1 + 1/n) deviations wide."""
    from scipy.stats import t

    rng = np.random.default_rng(1)
    widths = {}
    for count in (6, 30):
        pools = np.exp(rng.standard_normal((600, count, 1)))
        bands = [np.log(conformal(each, np.ones((count, 1)), apart_steps=1, steps=1).ratios[0]) for each in pools]
        spread = np.mean([band[-3] - band[2] for band in bands])  # from a tenth to nine tenths
        plain = np.subtract(*np.quantile(rng.standard_normal((6000, count)), [0.9, 0.1], axis=1)).mean()
        widths[count] = spread / plain
        student = t.ppf(0.9, count - 1) / NormalDist().inv_cdf(0.9) * np.sqrt(1.0 + 1.0 / count)
        assert widths[count] == pytest.approx(student, rel=0.1)
    assert widths[6] > widths[30] > 1.0


def test_errors_of_one_origin_are_one_witness() -> None:
    """Twenty hours that were all off by the same are worth their origin, twenty that err by themselves count each."""
    rng = np.random.default_rng(2)
    together = np.repeat(rng.standard_normal((10, 1)), 20, axis=1)
    apart = rng.standard_normal((10, 20))
    assert witnesses(together, apart_steps=20, lead=20) == pytest.approx(10.0)
    assert witnesses(apart, apart_steps=20, lead=20) > 60.0
    # Outcomes that overlap are fewer still: origins one step apart, twenty steps ahead, span hardly more than one.
    assert witnesses(together, apart_steps=1, lead=20) == pytest.approx(1.0 + 9.0 / 20.0)


def test_the_band_of_a_lead_that_was_not_tested_grows_with_its_square_root() -> None:
    rng = np.random.default_rng(3)
    actual = np.full((50, 64), np.nan)
    actual[:, :5] = np.exp(0.1 * rng.standard_normal((50, 5)))
    band = conformal(actual, np.ones((50, 64)), apart_steps=1, steps=64)
    assert band.tested_steps == 5
    spread = np.log(band.ratios[:, -1] / band.ratios[:, 0])
    assert spread[63] / spread[31] == pytest.approx(np.sqrt(63.5 / 31.5))
    assert spread[31] > spread[3]


def test_a_cut_history_is_less_sure_of_the_same_week() -> None:
    relative = []
    for weeks in (1, 2, 4):
        found = [run(known_law(seed, 8)[-weeks * 168 :], 168).quantiles for seed in range(8)]
        relative.append(np.mean([np.log(each[:, -3] / each[:, 2]).mean() for each in found]))
    assert relative[0] > relative[1] > relative[2]


def test_three_origins_are_enough_for_a_band_and_two_are_not() -> None:
    actual = np.exp(0.1 * np.random.default_rng(0).standard_normal((3, 1)))
    assert conformal(actual, np.ones((3, 1)), apart_steps=1, steps=1).tested_steps == 1
    with pytest.raises(InputError, match="too few observed steps"):
        conformal(actual[:2], np.ones((2, 1)), apart_steps=1, steps=1)
