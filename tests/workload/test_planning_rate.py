"""The planning rate: the busiest hour of the horizon at the planning percentile, and nothing that explodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.demand_laws import PLANNING_LAWS, hourly, known_law
from ullage.workload.anomalies import AnomalyKind, Severity
from ullage.workload.forecast.checks import beyond_seen, never_held
from ullage.workload.forecast.demand_series import DemandEvent, without_holes
from ullage.workload.forecast.forecast import Forecast, forecast
from ullage.workload.forecast.point_forecasts import FORECASTERS, NAIVE, Floats, Past
from ullage.workload.forecast.together import busiest_together, correlation

DAY_S = 86_400.0


def run(values: Floats, days: float, **more: object) -> Forecast:
    return forecast(hourly(values), horizon_s=days * DAY_S, rng=np.random.default_rng(0), **more)  # type: ignore[arg-type]


def quiet_week() -> Floats:
    """A week at 0.04 requests a second in its busiest hour, with empty hours."""
    hours = np.arange(168)
    mean = 115.0 * np.clip(np.sin(2.0 * np.pi * (hours % 24 - 8) / 24), 0.02, None)
    return np.random.default_rng(0).poisson(mean) / 3600.0


def business_weeks() -> Floats:
    """28 days of 0.5 requests a second in business hours, and next to nothing at night."""
    rng, hours = np.random.default_rng(0), np.arange(4 * 168)
    day = (hours % 24 >= 8) & (hours % 24 < 18) & (hours // 24 % 7 < 5)
    return rng.poisson(np.where(day, 1800.0, 0.5) * np.exp(0.1 * rng.standard_normal(hours.size))) / 3600.0


def calm_fortnight() -> Floats:
    """Two weeks at 2 requests a second in the busiest hour, 3 % of noise."""
    rng, hours = np.random.default_rng(0), np.arange(336)
    mean = 3600.0 * (1.2 + 0.7 * np.sin(2.0 * np.pi * (hours % 24 - 9) / 24)) * np.where(hours // 24 % 7 >= 5, 0.7, 1.0)
    return rng.poisson(mean * np.exp(0.03 * rng.standard_normal(hours.size))) / 3600.0


@pytest.mark.parametrize(
    ("values", "days", "most_times_seen"),
    [
        (quiet_week(), 30, 2.0),
        (quiet_week(), 90, 3.0),
        (business_weeks(), 30, 1.6),
        (business_weeks(), 90, 2.0),
        (calm_fortnight(), 30, 1.6),
        (calm_fortnight(), 90, 2.2),
    ],
)
def test_a_calm_record_is_planned_near_its_busiest_hour(values: Floats, days: float, most_times_seen: float) -> None:
    found = run(values, days)
    assert 0.9 * values.max() < found.planning(0.95) < most_times_seen * values.max()
    assert found.defensible(0.95)
    # Fan and planning rate agree: no hour's ninth decile lies above the busiest hour's 95th percentile.
    assert found.at(0.9).max() <= found.planning(0.95)


def test_silent_nights_stay_silent() -> None:
    values = business_weeks()
    found = run(values, 7)
    night = np.tile(np.arange(24) < 7, 7)
    assert found.at(0.9)[night].max() < 0.02 * values.max()


@pytest.mark.slow
def test_on_known_laws_the_planning_rate_is_rarely_exceeded_and_not_far_above() -> None:
    """A few of the futures of bench/forecast.py, with limits as wide as so few need."""
    over, ratio = [], []
    for place, law in enumerate(PLANNING_LAWS):
        for seed in range(6):
            history, came = law.draw(500 + 100 * place + seed, weeks=4, ahead_hours=720, futures=8)
            busiest, planned = came.max(axis=1), run(history, 30).planning(0.95)
            over.append(busiest > planned)
            ratio.append(planned / busiest)
    assert np.mean(over) < 0.2
    assert np.median(ratio) < 1.35


@pytest.mark.slow
@given(seed=st.integers(0, 50), low=st.floats(0.05, 0.94), more=st.floats(0.001, 0.05))
def test_more_caution_never_plans_for_less(seed: int, low: float, more: float) -> None:
    found = run(known_law(seed, 2), 7)
    assert found.planning(low) <= found.planning(low + more)
    assert found.busiest_between(0, 168, low) == pytest.approx(found.planning(low))
    assert found.busiest_between(0, 24, low) <= found.planning(low)


def test_a_longer_horizon_is_not_planned_lower() -> None:
    values = known_law(3, 4)
    rates = [run(values, days).planning(0.95) for days in (1, 7, 30, 90)]
    assert all(later > 0.97 * earlier for earlier, later in pairwise(rates))


def test_few_requests_are_planned_with_the_chance_of_counting_them() -> None:
    """Poisson's own busiest hour as an oracle: 8 requests an hour, steady, for a week."""
    rng = np.random.default_rng(0)
    busiest = np.quantile(rng.poisson(8.0, (4000, 168)).max(axis=1), 0.95) / 3600.0
    planned = [run(np.random.default_rng(seed).poisson(8.0, 8 * 168) / 3600.0, 7).planning(0.95) for seed in range(4)]
    assert 0.9 * busiest < np.mean(planned) < 1.4 * busiest


def test_a_spike_of_one_night_is_repeated_and_not_multiplied() -> None:
    values = business_weeks()
    values[10 * 24 + 2] = 3.0 * values.max()
    found = run(values, 30)
    assert values.max() * 0.9 < found.planning(0.99) < 1.6 * values.max()


def test_growth_is_carried_on_and_widens_the_longer_nobody_saw_it() -> None:
    hours = np.arange(8 * 168)
    growing = 1.0 * np.exp(0.05 * hours / 168) * (1.5 + np.sin(2.0 * np.pi * hours / 24))
    found = run(growing, 90)
    grown = np.exp(0.05 * 90.0 / 7.0)
    assert 0.85 * grown < found.planning(0.5) / growing[-168:].max() < 1.15 * grown
    assert found.planning(0.95) < 1.5 * found.planning(0.5)


@pytest.mark.slow
def test_a_rate_beyond_three_times_the_record_is_assumed_unless_an_event_explains_it() -> None:
    series = hourly(calm_fortnight())
    seen = float(series.values.max())
    assert beyond_seen(series, 2.9 * seen, 1.0) is None
    found = beyond_seen(series, 3.1 * seen, 1.0)
    assert found is not None
    assert found.weight is Severity.SERIOUS
    assert "3.1 times" in found.sentence
    assert beyond_seen(series, 3.1 * seen, 2.0) is None
    launch = DemandEvent(name="launch", start_s=series.end_s, end_s=series.end_s + DAY_S, demand_ratio=4.0)
    planned = run(series.values, 7, events=[launch])
    assert planned.planning(0.95) > 3.0 * seen
    assert planned.defensible(0.95)
    # Two years from a week on record is growth that nobody saw.
    far = run(quiet_week(), 730)
    assert not far.defensible(0.99)
    assert AnomalyKind.BEYOND_SEEN in [each.kind for each in run(quiet_week(), 730, percentile_fraction=0.99).anomalies]


def test_a_band_that_never_held_is_not_used() -> None:
    """A forecaster that is right on the earlier origins and a hundredfold off on the later ones loses its place."""
    values = known_law(4, 8)

    def turns(past: Past, steps: int) -> Floats:
        came = np.resize(values[past.history.size :], steps) if past.history.size < values.size else np.ones(steps)
        return came if past.history.size < 6 * 168 else 100.0 * came

    one_day = run(values, 1)
    assert one_day.scores is not None
    assert never_held("chat", "any", one_day.scores) is None
    failed = replace(one_day.scores, coverage_fraction=0.0)
    assert never_held("chat", "any", failed) is not None
    found = run(values, 1, forecasters={NAIVE: FORECASTERS[NAIVE], "turns": turns})
    assert found.model == NAIVE


def test_the_contest_is_shown_and_won_by_the_least_loss() -> None:
    found = run(known_law(5, 8), 7)
    assert {each.name for each in found.contest} == set(FORECASTERS)
    losses = [each.pinball_ratio for each in found.contest]
    assert losses == sorted(losses)
    assert found.model == found.contest[0].name


def test_classes_that_err_apart_need_less_than_the_sum_of_their_rates() -> None:
    over = {}
    for shared in (0.0, 1.0):
        drawn = PLANNING_LAWS[0].draw_classes(7, classes=2, weeks=8, ahead_hours=24, futures=1, shared_fraction=shared)
        over[shared] = correlation(*(hourly(history) for history, _ in drawn))
    assert over[0.0] < 0.35 < over[1.0]
    week = np.ones((2, 168))
    middles, plannings = np.array([10.0, 20.0]), np.array([13.0, 24.0])
    apart, half, one = (
        busiest_together(middles, plannings, week, np.array([[1.0, r], [r, 1.0]])) for r in (0.0, 0.5, 1.0)
    )
    assert apart == pytest.approx(30.0 + 5.0)
    assert apart < half < one == pytest.approx(37.0)


def test_classes_seen_for_a_day_are_taken_to_err_together() -> None:
    rng = np.random.default_rng(0)
    one, other = (hourly(rng.poisson(100.0, 24) / 3600.0) for _ in range(2))
    assert correlation(one, other) > 0.6
    assert correlation(one, replace(other, start_s=10 * DAY_S)) == 1.0


@given(
    agreed=st.floats(0.0, 1.0),
    middles=st.tuples(st.floats(0.1, 100.0), st.floats(0.1, 100.0)),
    margins=st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)),
    shift=st.integers(0, 167),
)
def test_the_peak_of_the_sum_lies_between_the_largest_class_and_the_sum(
    agreed: float, middles: tuple[float, float], margins: tuple[float, float], shift: int
) -> None:
    day = 1.2 + np.sin(2.0 * np.pi * np.arange(168) / 24)
    seasons = np.array([day, np.roll(day, shift)])
    middle = np.array(middles)
    planning = middle * (1.0 + np.array(margins))
    total = busiest_together(middle, planning, seasons, np.array([[1.0, agreed], [agreed, 1.0]]))
    assert planning.max() - 1e-9 <= total <= planning.sum() + 1e-9


def record(*, silent: range = range(0), level: float = 20.0, days: int = 14) -> Floats:
    """Requests an hour with a daily season, without those of the days that are silent."""
    hours = np.arange(days * 24)
    rates = level * (1.0 + 0.8 * np.sin((hours % 24 - 9) / 24 * 2.0 * np.pi))
    rates[np.isin(hours // 24, silent)] = 0.0
    return np.random.default_rng(3).poisson(rates) / 3600.0


@pytest.mark.parametrize("silent", [range(5, 9), range(4, 11)])
def test_an_outage_of_days_is_not_learnt_as_quiet(silent: range) -> None:
    counts = record(silent=silent)
    found = run(without_holes(hourly(counts)).values, 30)
    assert found.planning(0.95) < 1.6 * counts.max()
    assert found.defensible(0.95)


@pytest.mark.parametrize(
    "counts",
    [
        record(silent=range(5, 8), level=8.0),
        np.where(np.arange(65 * 24) % 720 == 9, 2.5, 0.0006),
        np.where(np.arange(28 * 24) < 20 * 24, 2.0, 60.0) / 3600.0,
    ],
    ids=["three silent days", "one busy hour a month", "traffic began three weeks in"],
)
def test_no_record_of_weeks_is_planned_at_many_times_its_busiest_hour(counts: Floats) -> None:
    found = run(counts, 30)
    assert found.planning(0.95) < 4.0 * counts.max()
    assert found.at(0.975).max() < 4.0 * counts.max()


def test_silences_that_recur_are_how_the_service_is_used() -> None:
    weekly = np.where(np.arange(35 * 24) % 168 == 9, 1.0, 0.0)
    for counts in (weekly, np.concatenate([weekly[:170], np.zeros(24 * 10)]), record(silent=range(5, 7))):
        assert not np.isnan(without_holes(hourly(counts)).values).sum() > 48
