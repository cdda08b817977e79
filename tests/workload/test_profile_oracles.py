"""Statistics of small profiles, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ullage.workload.profile.bursts import bursts_of
from ullage.workload.profile.seasons import growth_of, season_of
from ullage.workload.profile.series import SecondCounts, ValueCounts, distribution, merge_seconds, scaled, second_counts
from ullage.workload.profile.shapes import _explained

DAY_S = 86_400


def hourly(counts: Sequence[float]) -> SecondCounts:
    """So many requests in each hour, all in its first second."""
    return second_counts(np.arange(len(counts), dtype=np.int64) * 3600, np.array(counts, dtype=np.int64))


def test_a_constant_rate_has_no_season() -> None:
    found = season_of(hourly([7.0] * 72), first_s=0.0, last_s=72 * 3600.0, calendar=True)
    assert found is not None
    assert found.strength_fraction == 0.0
    assert found.peak_ratio == 1.0
    assert found.shape == (1.0,) * 24


def test_a_season_that_repeats_explains_all_of_the_variance() -> None:
    """One hour of six beside 23 of one: mean 29/24, the peak 6 / (29/24) above it."""
    found = season_of(hourly(([1.0] * 10 + [6.0] + [1.0] * 13) * 4), first_s=0.0, last_s=4 * DAY_S, calendar=True)
    assert found is not None
    assert (found.period_hours, found.periods, found.peak_hour_index) == (24, 4.0, 10)
    assert found.peak_ratio == pytest.approx(6 * 24 / 29)
    assert found.strength_fraction == pytest.approx(1.0)


def test_noise_beside_a_season_is_what_it_does_not_explain() -> None:
    """Hours of 10 and 30 in turn, each off by 5 up on one day and 5 down on the next: the wave has a variance of 100,
    the rest of 25, and 24 fitted means of 96 hours took a quarter of the rest with them."""
    hours = [(10 if hour % 2 else 30) + (5 if day % 2 else -5) for day in range(4) for hour in range(24)]
    found = season_of(hourly(hours), first_s=0.0, last_s=4 * DAY_S, calendar=True)
    assert found is not None
    assert found.strength_fraction == pytest.approx(1.0 - 25.0 * (96 / 72) / 125.0)


def test_a_week_on_a_calendar_begins_on_monday() -> None:
    """1970 began on a Thursday: the busy first hour of the epoch is hour 72 of a week from Monday on."""
    hours = [100.0] + [1.0] * (2 * 168 - 1)
    hours[168] = 100.0
    for calendar, place in ((True, 72), (False, 0)):
        found = season_of(hourly(hours), first_s=0.0, last_s=2 * 7 * DAY_S, calendar=calendar)
        assert found is not None
        assert (found.period_hours, found.peak_hour_index) == (168, place)


def test_growth_is_that_of_equal_weekdays() -> None:
    """Twice as much every week, whatever the days of the week differ by."""
    days = [100.0 * (2.0 ** (day / 7)) * (0.5 if day % 7 > 4 else 1.0) for day in range(28)]
    counts = second_counts(np.arange(28, dtype=np.int64) * DAY_S, np.array(days, dtype=np.int64))
    found = growth_of(counts, first_s=0.0, last_s=28.0 * DAY_S)
    assert found is not None
    assert found.days == 28
    assert found.per_week_fraction == pytest.approx(1.0, rel=0.02)
    assert found.low_per_week_fraction <= found.per_week_fraction <= found.high_per_week_fraction
    assert growth_of(counts, first_s=0.0, last_s=7.5 * DAY_S) is None


def test_lengths_are_explained_by_the_share_of_variance_between_groups() -> None:
    """Two groups around 2^4 and 2^8, each one power of two wide: variance 4 between them, 1 inside."""
    groups = [
        ValueCounts(values=np.array([2**low, 2**high]), counts=np.array([50, 50])) for low, high in ((3, 5), (7, 9))
    ]
    assert _explained(groups) == pytest.approx(4.0 / 5.0)
    # The larger group weighs more: means 4 and 8 at 3 to 1 lie 16 x 3/16 apart in squares.
    groups[0] = ValueCounts(values=groups[0].values, counts=np.array([150, 150]))
    assert _explained(groups) == pytest.approx(3.0 / 4.0)
    assert _explained([groups[0], groups[0]]) == 0.0


def test_a_burst_is_as_long_high_and_steep_as_it_was() -> None:
    """Two requests a second for three hours, and a minute that climbs to twelve."""
    rates = np.full(3 * 3600, 2)
    rates[5400:5430] = 8
    rates[5430:5460] = 12
    counts = second_counts(np.arange(rates.size, dtype=np.int64), rates.astype(np.int64))
    found = bursts_of(counts, first_s=0.0, last_s=float(rates.size), resolution_s=0.001)
    assert found is not None
    assert found.episodes == 1
    (episode,) = found.highest
    width_s = found.width_s
    assert episode.start_s == pytest.approx(5400.0, abs=width_s)
    assert episode.length_s == pytest.approx(60.0, abs=width_s)
    assert (episode.level_rps, episode.peak_rps) == (2.0, 12.0)
    assert episode.height_ratio == 6.0
    # Up to the end of the first window at its peak.
    assert episode.rise_s == pytest.approx(30.0 + width_s, abs=width_s)
    assert episode.ramp_rps_per_s == pytest.approx(10.0 / episode.rise_s)
    assert found.time_fraction == pytest.approx(episode.length_s / rates.size)
    assert not math.isinf(episode.height_ratio)


def test_whole_bins_alone_are_counted() -> None:
    counts = second_counts(np.arange(100, dtype=np.int64), np.ones(100, dtype=np.int64))
    assert counts.binned(10, 5.0, 95.0).tolist() == [10] * 8
    assert counts.binned(10, 0.0, 100.0).tolist() == [10] * 10
    assert counts.binned(60, 10.0, 100.0).tolist() == []


def test_one_value_is_its_own_distribution_and_none_has_none() -> None:
    one = ValueCounts(values=np.array([7]), counts=np.array([1])).distribution("tokens")
    assert one is not None
    assert (one.observations, one.mean_value, set(one.values)) == (1, 7.0, {7.0})
    assert ValueCounts(values=np.zeros(0, np.int64), counts=np.zeros(0, np.int64)).distribution("tokens") is None
    assert distribution(np.zeros(0), "s") is None
    doubled = scaled(one, 2.0, "s")
    assert doubled is not None
    assert (doubled.mean_value, set(doubled.values), doubled.unit) == (14.0, {14.0}, "s")


@pytest.mark.parametrize(
    "seconds", [np.arange(100, 400), np.arange(7, 4000, 3), np.array([5, 90_000, 91_000, 900_001])]
)
@pytest.mark.parametrize("height", [3, 70_000, 5_000_000_000])
def test_seconds_are_counted_alike_however_they_are_held(seconds: np.ndarray, height: int) -> None:
    """Dense and sparse, in two bytes or eight, whole or merged from parts, against plain sums."""
    counts = np.random.default_rng(3).integers(1, height, len(seconds))
    halves = [second_counts(seconds[part::2], counts[part::2]) for part in (0, 1)]
    for held in (second_counts(seconds, counts), merge_seconds(halves)):
        assert held.total == counts.sum()
        assert held.seconds.tolist() == seconds.tolist()
        assert held.counts.tolist() == counts.tolist()
        for width, first, last in ((1, 0.0, 5000.0), (10, 95.5, 399.0), (60, 130.0, 900_500.0), (3600, 0.0, 1e6)):
            start, stop = math.ceil(first / width), math.floor(last / width)
            places = seconds // width
            inside = [counts[places == at].sum() for at in range(start, min(stop, start + 400))]
            assert held.binned(width, first, last)[:400].tolist() == inside
            found = held.window_counts(width, first, last)
            assert found.total == max(0, stop - start)
            assert (found.values * found.counts).sum() == counts[(places >= start) & (places < stop)].sum()
