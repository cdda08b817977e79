"""Statistics of traces made for the purpose, against what is known about them."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.traces import make_trace
from ullage.report.encode import to_json
from ullage.workload.profile.arrivals import arrivals_of, window_rates
from ullage.workload.profile.bursts import DEVIATIONS, SKEW_REQUESTS, bursts_of
from ullage.workload.profile.inflight import inflight_of
from ullage.workload.profile.lengths import _correlation
from ullage.workload.profile.profile import PartProfile, profile
from ullage.workload.profile.seasons import growth_of, season_of
from ullage.workload.profile.series import SecondCounts, distribution, second_counts, value_counts
from ullage.workload.profile.summarise import summarise
from ullage.workload.profile.summary import JointCounts
from ullage.workload.trace import Clock, Trace

HOUR_S, DAY_S = 3600, 86400
MONDAY_EPOCH_S = 4 * DAY_S


def poisson(rate_rps: float, span_s: float, seed: int = 1) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0, span_s, rng.poisson(rate_rps * span_s)))


def counted(times: NDArray[np.float64]) -> SecondCounts:
    seconds, counts = np.unique(np.floor(times).astype(np.int64), return_counts=True)
    return second_counts(seconds, counts)


def of_hours(rates_rps: NDArray[np.float64], start_s: int = 0, seed: int = 3) -> SecondCounts:
    """Poisson arrivals with one rate for each hour."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(len(rates_rps) * HOUR_S) + start_s
    counts = rng.poisson(np.repeat(rates_rps, HOUR_S))
    return second_counts(seconds[counts > 0], counts[counts > 0])


def whole_of(trace: Trace) -> PartProfile:
    return profile(trace).whole


# ---- quantiles ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200))
def test_quantiles_of_counts_are_those_of_the_values(values: list[int]) -> None:
    unique, counts = np.unique(values, return_counts=True)
    assert value_counts(unique, counts).distribution("x") == distribution(np.array(values), "x")


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200))
def test_a_quantile_has_its_share_at_or_below_it(values: list[int]) -> None:
    found = distribution(np.array(values), "x")
    assert found is not None
    for fraction, value in zip(found.fractions, found.values, strict=True):
        assert np.mean(np.array(values) <= value) >= fraction - 1e-9
        assert np.mean(np.array(values) < value) <= fraction + 1e-9
    assert found.mean_value == pytest.approx(np.mean(values))


# ---- arrivals ----------------------------------------------------------------------------------------


def test_poisson_arrivals_have_dispersion_one_at_every_width() -> None:
    span_s = 20_000.0
    times = poisson(20.0, span_s)
    found = arrivals_of(counted(times), first_s=0, last_s=span_s, gaps=None, resolution_s=0)
    assert found is not None
    assert found.mean_rps == pytest.approx(20.0, rel=0.02)
    for window in found.windows:
        windows = span_s / window.width_s
        # The variance of an estimated dispersion of Poisson counts is 2 / (n - 1).
        assert window.dispersion_ratio == pytest.approx(1.0, abs=4 * math.sqrt(2 / (windows - 1)))


def test_a_wave_shows_at_its_own_scale_and_not_below() -> None:
    rng = np.random.default_rng(2)
    rate = 20 * (1 + 0.5 * np.sin(np.arange(40_000) * 2 * np.pi / 1200))
    counts = rng.poisson(rate)
    series = second_counts(np.arange(40_000), counts)
    one, minutes = (window_rates(width_s, series.window_counts(width_s, 0, 40_000)) for width_s in (1, 60))
    assert one is not None
    assert minutes is not None
    # Var = mean + var(rate): 20 * 0.125 a second, sixty times as much in a minute.
    assert one.dispersion_ratio == pytest.approx(1 + 20 * 0.125, rel=0.1)
    assert minutes.dispersion_ratio == pytest.approx(1 + 60 * 20 * 0.125, rel=0.15)


def test_the_deviation_of_gaps_is_that_of_the_gaps() -> None:
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.weibull(0.5, 4000))
    gaps = np.diff(times)
    shuffled = rng.permutation(times)
    for order in (times, shuffled):
        found = whole_of(make_trace(arrival_s=(order - times[0]).tolist())).arrivals
        assert found is not None
        assert found.gap_cv_ratio == pytest.approx(gaps.std() / gaps.mean(), rel=1e-9)


def test_a_window_that_is_not_whole_is_left_out() -> None:
    times = np.arange(0, 95.0)
    found = arrivals_of(counted(times), first_s=0, last_s=95, gaps=None, resolution_s=0)
    assert found is not None
    ten = found.window(10)
    assert ten is not None
    assert ten.rates.observations == 9
    assert set(ten.rates.values) == {1.0}
    assert sum(found.series.counts) == 95


@given(
    times=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    first_s=st.floats(0, 100),
    span_s=st.floats(0, 400),
    width_s=st.sampled_from((1, 7, 60)),
)
def test_counts_of_windows_are_those_of_the_windows_written_out(
    times: list[int], first_s: float, span_s: float, width_s: int
) -> None:
    series = counted(np.array(times, dtype=np.float64))
    bins = series.binned(width_s, first_s, first_s + span_s)
    found = series.window_counts(width_s, first_s, first_s + span_s)
    assert np.repeat(found.values, found.counts).tolist() == sorted(bins.tolist())


@pytest.mark.parametrize("times", [[0.0, 1.0, 100 * 365 * 86_400.0 - 10], list(range(100))], ids=["apart", "in a row"])
def test_a_few_requests_in_a_century_cost_no_century_of_seconds(times: list[float]) -> None:
    century_s = 100 * 365 * 86_400.0
    series = counted(np.array(times, dtype=np.float64))
    tracemalloc.start()
    found = arrivals_of(series, first_s=0, last_s=century_s, gaps=None, resolution_s=0)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.windows[0].rates.observations == century_s
    assert most_bytes < 10e6


def test_the_clock_decides_where_bins_start() -> None:
    trace = make_trace(clock=Clock.UTC, start_epoch_s=1_760_000_030.5, arrival_s=np.arange(0, 200.0).tolist())
    found = whole_of(trace).arrivals
    assert found is not None
    minute = found.window(60)
    assert minute is not None
    # 1,760,000,030.5 is 50.5 s into its minute: 9.5 s are left of it, three whole minutes follow.
    assert minute.rates.observations == 3
    assert minute.rates.values[-1] == 1.0


# ---- bursts ------------------------------------------------------------------------------------------


def test_a_planted_burst_is_found_where_it_is() -> None:
    rng = np.random.default_rng(6)
    rate = np.full(4 * HOUR_S, 10.0)
    rate[7200:7230], rate[7230:7260], rate[7260:7290] = 25.0, 60.0, 25.0
    counts = rng.poisson(rate)
    series = second_counts(np.arange(len(counts)), counts)
    found = bursts_of(series, first_s=0, last_s=len(counts), resolution_s=0)
    assert found is not None
    assert found.episodes == 1
    (episode,) = found.highest
    assert (episode.start_s, episode.length_s) == (7200, 90)
    assert episode.level_rps == pytest.approx(10, rel=0.05)
    assert episode.peak_rps == pytest.approx(60, rel=0.15)
    assert 40 <= episode.rise_s <= 60


def test_poisson_noise_and_the_daily_wave_are_no_bursts() -> None:
    hours = 3 * 24
    wave = 10 * (1 + 0.8 * np.sin(np.arange(hours) * 2 * np.pi / 24))
    found = bursts_of(of_hours(wave), first_s=0, last_s=hours * HOUR_S, resolution_s=0)
    assert found is not None
    # One window in a hundred thousand by chance, and there are 25,920; the wave's slope adds a few.
    assert found.episodes <= 3


@given(st.floats(0.5, 200.0))
def test_the_threshold_is_where_poisson_counts_hardly_reach(level: float) -> None:
    reached = level + DEVIATIONS * math.sqrt(level) + SKEW_REQUESTS
    # The chance of a count above the threshold, summed from the top of the Poisson distribution.
    counts = np.arange(math.floor(reached) + 1, math.floor(reached) + 400)
    chance = math.fsum(math.exp(count * math.log(level) - level - math.lgamma(count + 1)) for count in counts)
    assert 1e-8 < chance < 2e-5


def test_bursts_are_not_looked_for_below_the_resolution() -> None:
    found = bursts_of(counted(poisson(20, 7200)), first_s=0, last_s=7200, resolution_s=3.0)
    assert found is not None
    assert found.width_s == 60


# ---- seasons and growth ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_weekly_wave_is_found_with_its_peak() -> None:
    hours = np.arange(4 * 168)
    rate = 5 + 4 * (hours % 168 == 33)
    counts = of_hours(rate.astype(np.float64), start_s=MONDAY_EPOCH_S)
    found = season_of(counts, first_s=MONDAY_EPOCH_S, last_s=MONDAY_EPOCH_S + len(hours) * HOUR_S, calendar=True)
    assert found is not None
    assert (found.period_hours, found.peak_hour_index) == (168, 33)
    assert found.strength_fraction is not None
    assert found.strength_fraction > 0.9


def test_noise_has_no_season() -> None:
    counts = of_hours(np.full(4 * 168, 5.0))
    found = season_of(counts, first_s=0, last_s=4 * 168 * HOUR_S, calendar=False)
    assert found is not None
    assert found.strength_fraction is not None
    assert found.strength_fraction < 0.15


@pytest.mark.parametrize(("days", "period"), [(0.5, None), (3, 24), (10, 168)])
def test_the_period_is_one_that_was_seen(days: float, period: int | None) -> None:
    counts = of_hours(np.full(int(days * 24), 2.0))
    found = season_of(counts, first_s=0, last_s=days * DAY_S, calendar=False)
    assert (None if found is None else found.period_hours) == period


def test_growth_is_found_through_weekends() -> None:
    days = np.arange(35)
    level = 3 * np.exp(np.log(1.10) * days / 7) * np.where(days % 7 >= 5, 0.3, 1.0)
    counts = of_hours(np.repeat(level, 24))
    found = growth_of(counts, first_s=0, last_s=35 * DAY_S)
    assert found is not None
    assert found.per_week_fraction == pytest.approx(0.10, abs=0.01)
    assert found.low_per_week_fraction <= found.per_week_fraction <= found.high_per_week_fraction


# ---- in flight ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_what_is_in_flight_is_what_overlaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 40, 30))
    arrival -= arrival[0]
    duration = rng.exponential(4, 30) + 0.01
    prompt, output = rng.integers(1, 500, 30), rng.integers(1, 300, 30)
    trace = make_trace(
        arrival_s=arrival.tolist(),
        duration_s=duration.tolist(),
        prompt_tokens=prompt.tolist(),
        output_tokens=output.tolist(),
    )
    load = summarise(trace).whole.load
    found = inflight_of(load, requests=30, first_s=0.0, last_s=float(arrival[-1]))
    assert found is not None
    assert found.active_tokens is not None
    seconds = np.arange(0, int(arrival[-1]) + 1)[:, None]
    inside = (arrival <= seconds) & (seconds < arrival + duration)
    tokens = np.where(inside, prompt + output * (seconds - arrival) / duration, 0).sum(axis=1)
    assert found.requests.mean_value == pytest.approx(inside.sum(axis=1).mean())
    assert found.requests.values[-1] == inside.sum(axis=1).max()
    assert found.active_tokens.mean_value == pytest.approx(tokens.mean(), rel=1e-3)
    assert found.active_tokens.values[-1] == pytest.approx(tokens.max(), rel=1e-3)
    assert found.mean_requests == pytest.approx(duration.sum() / arrival[-1])
    assert max(found.requests_series.counts) == found.requests.values[-1]


def test_without_durations_nothing_is_said_to_be_in_flight() -> None:
    found = profile(make_trace(arrival_s=range(100), prompt_tokens=[5] * 100))
    assert found.whole.inflight is None
    assert any("service model" in need for need in found.needs)


# ---- lengths and outcomes ----------------------------------------------------------------------------


def test_the_longest_carry_their_share() -> None:
    prompts = [10] * 99 + [1010]
    found = whole_of(make_trace(arrival_s=range(100), prompt_tokens=prompts, output_tokens=[1] * 100)).lengths
    assert found.prompt_longest_fraction == pytest.approx(1010 / 2000)
    assert found.output_longest_fraction == pytest.approx(0.01)


def test_the_joint_grid_counts_every_request() -> None:
    rng = np.random.default_rng(8)
    prompt = rng.integers(0, 5000, 500)
    trace = make_trace(arrival_s=range(500), prompt_tokens=prompt.tolist(), output_tokens=(prompt // 10).tolist())
    found = whole_of(trace).lengths
    assert found.joint is not None
    assert sum(cell[-1] for cell in found.joint.cells) == 500
    assert found.correlation_ratio == pytest.approx(1.0, abs=0.02)
    for low, _, count in found.joint.cells:
        edges = (0, 1) if low < 0 else (2 ** (low / 4), 2 ** ((low + 1) / 4))
        assert count <= int(((prompt >= edges[0]) & (prompt < edges[1])).sum())


def test_outcomes_are_shares_of_what_is_known() -> None:
    trace = make_trace(arrival_s=range(5), status=["ok", "failed", "cancelled", "ok", None])
    found = whole_of(trace).outcomes
    assert found is not None
    assert (found.failed_fraction, found.cancelled_fraction, found.unknown_count) == (0.25, 0.25, 1)


# ---- sessions ----------------------------------------------------------------------------------------


def test_think_and_tool_time_run_from_the_end_of_an_answer() -> None:
    trace = make_trace(
        arrival_s=[0.0, 10.0, 15.0, 0.5],
        duration_s=[2.0, 1.0, 1.0, 1.0],
        session=["a", "a", "a", "b"],
        after_tool=[False, False, True, False],
        tool_calls=[0, 2, 1, 0],
    )
    found = whole_of(trace).sessions
    assert found is not None
    assert found.sessions == 2
    assert found.think_s is not None
    assert found.think_s.values[-1] == 8.0
    assert found.tool_s is not None
    assert found.tool_s.values[-1] == 4.0
    assert found.tasks == 3
    assert found.tool_calls_per_task is not None
    assert found.tool_calls_per_task.values[-1] == 3


def test_sessions_are_told_apart_by_group() -> None:
    trace = make_trace(
        arrival_s=range(6), session=["a", "a", "b", "b", "b", "c"], tenant=["x", "x", "y", "y", "y", "x"]
    )
    groups = {group.name: group.profile.sessions for group in profile(trace).of("tenant")}
    assert {name: None if found is None else found.sessions for name, found in groups.items()} == {"x": 2, "y": 1}


def test_two_pairs_are_enough_to_be_correlated_and_one_is_not() -> None:
    def of(*counts: int) -> float | None:
        cells = np.array([[3, 5], [7, 9]][: len(counts)])
        return _correlation(
            JointCounts(columns=("prompt", "output"), bins_per_octave=4, cells=cells, counts=np.array(counts))
        )

    assert of(1) is None
    assert of(1, 1) == pytest.approx(1.0)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_log_asked_for_in_stretches_gives_the_same_profile(is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    times = poisson(0.5, 4000.0)
    times = times if is_sorted else np.random.default_rng(5).permutation(times)
    tenants = [f"t{at * at % 5}" for at in range(len(times))]
    trace = make_trace(arrival_s=times.tolist(), prompt_tokens=[5] * len(times), tenant=tenants)
    whole = to_json(profile(trace))
    monkeypatch.setattr("ullage.workload.profile.summarise.MOST_CELLS", 100)
    assert to_json(profile(trace)) == whole
