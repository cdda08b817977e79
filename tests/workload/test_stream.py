"""Laws of generated streams: seeds, rates, dispersion, sessions, tables."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.demand_laws import local_dispersion
from ullage.errors import InputError
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import ClassModel, LengthModel, SessionModel, SyntheticModel, Tenants, synthesised
from ullage.workload.synthetic.modulation import Modulation, drawn_levels, measured
from ullage.workload.synthetic.stream import (
    BLOCK_TOKENS,
    COLUMNS,
    NO_SESSION,
    PS_PER_S,
    Stream,
    _exponential,
    _stir,
    joined,
)

FLAT = LengthModel(prompt_tokens=(100.0,) * 12, output_tokens=(10.0,) * 12)


def drawn(seed: int = 0, hours: float = 1.0, **changes: object) -> Stream:
    one = replace(ClassModel(name="one", mean_rate_rps=20.0, lengths=FLAT), **changes)  # type: ignore[arg-type]
    return synthesised(SyntheticModel(classes=(one,)), span_s=hours * 3600.0, rng=np.random.default_rng(seed))


def same(left: Stream, right: Stream) -> bool:
    return all(getattr(left, name).tobytes() == getattr(right, name).tobytes() for name in COLUMNS)


@given(seed=st.integers(0, 2**32), minutes=st.integers(1, 30))
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(seed: int, minutes: int) -> None:
    first, again, other = (
        synthesised(builtin(), span_s=60.0 * minutes, rng=np.random.default_rng(each))
        for each in (seed, seed, seed + 1)
    )
    assert same(first, again)
    assert not same(first, other)


@given(seed=st.integers(0, 2**32), hours=st.floats(0.01, 2.0))
def test_a_stream_is_sorted_inside_its_window_and_keeps_the_laws_of_its_columns(seed: int, hours: float) -> None:
    stream = synthesised(builtin(), span_s=3600.0 * hours, rng=np.random.default_rng(seed))
    assert (np.diff(stream.arrival_ps) >= 0).all()
    assert stream.requests == 0 or 0 <= stream.arrival_ps[0] <= stream.arrival_ps[-1] < stream.until_ps
    assert (stream.prompt_tokens >= 1).all()
    assert (stream.output_tokens >= 1).all()
    assert (stream.cached_tokens < stream.prompt_tokens).all()
    assert (stream.cached_tokens % BLOCK_TOKENS == 0).all()
    assert ((stream.cached_tokens > 0) | (stream.reuse_blocks == 0)).all()


def test_arrivals_without_bursts_are_poisson() -> None:
    stream = drawn(hours=24.0)
    expected = 20.0 * 86_400
    assert abs(stream.requests - expected) < 5.0 * math.sqrt(expected)
    gaps_s = np.diff(stream.arrival_ps) / PS_PER_S
    assert gaps_s.mean() == pytest.approx(0.05, rel=0.01)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(1.0, abs=0.01)
    # An exponential's quantiles, as an oracle for the ziggurat: body, edge and tail.
    for fraction in (0.01, 0.5, 0.9, 0.99, 0.9995):
        assert np.quantile(gaps_s, fraction) == pytest.approx(-math.log1p(-fraction) * 0.05, rel=0.04)
    for width_s in (1.0, 10.0, 60.0):
        assert local_dispersion(stream.counts(width_s)) == pytest.approx(1.0, abs=0.1)


def test_doubling_the_rate_doubles_counts() -> None:
    once, twice = drawn(hours=10.0), drawn(hours=10.0, mean_rate_rps=40.0)
    assert twice.requests / once.requests == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("variances", [(0.3, 0.0, 0.0, 0.1, 0.0, 0.0), (0.05, 0.05, 0.05, 0.05, 0.05, 0.05)])
def test_a_stream_has_the_dispersion_of_its_modulation(variances: tuple[float, ...]) -> None:
    bursts = Modulation(variances=variances)
    stream = drawn(hours=48.0, bursts=bursts)
    for width_s in (1.0, 10.0, 60.0, 240.0):
        counts = stream.counts(width_s)
        assert counts.var() / counts.mean() == pytest.approx(bursts.dispersion(width_s, 20.0), rel=0.25)


def test_what_is_drawn_is_measured_again() -> None:
    bursts = Modulation(variances=(0.2, 0.1, 0.05, 0.1, 0.05, 0.05))
    found = measured(drawn(hours=60.0, bursts=bursts).counts(1.0))
    lags_s = np.array([0.0, 2.0, 30.0, 120.0])
    assert found.covariance(lags_s) == pytest.approx(bursts.covariance(lags_s), rel=0.3, abs=0.03)


def test_levels_are_positive_and_have_mean_one() -> None:
    levels = drawn_levels(Modulation(variances=(0.2,) * 6), 500_000, 1.0, np.random.default_rng(3))
    assert (levels > 0.0).all()
    assert levels.mean() == pytest.approx(1.0, abs=0.1)


def test_the_season_shows_in_the_rate() -> None:
    season = tuple(2.0 if hour < 84 else 1.0 for hour in range(168))
    stream = drawn(hours=168.0, mean_rate_rps=3.0, season=season)
    hourly = stream.counts(3600.0)
    assert hourly[10:70].mean() / hourly[100:160].mean() == pytest.approx(2.0, rel=0.02)


def test_sessions_have_their_turns_and_think_times() -> None:
    stream = drawn(hours=20.0, sessions=SessionModel(mean_turns=5.0, mean_think_s=30.0), tenants=Tenants(tenants=7))
    _, first, turns = np.unique(stream.session, return_index=True, return_counts=True)
    whole = stream.arrival_ps[first] < (stream.until_ps * 9) // 10
    assert turns[whole].mean() == pytest.approx(5.0, rel=0.05)
    order = np.lexsort((stream.arrival_ps, stream.session))
    same_session = np.diff(stream.session[order]) == 0
    waits_s = np.diff(stream.arrival_ps[order])[same_session] / PS_PER_S
    assert waits_s.mean() == pytest.approx(30.0, rel=0.1)
    # A session belongs to one tenant.
    assert (np.diff(stream.tenant[order])[same_session] == 0).all()
    assert set(stream.tenant.tolist()) == set(range(7))


def test_without_sessions_no_request_has_one() -> None:
    assert (drawn().session == NO_SESSION).all()


def test_lengths_follow_their_quantiles_and_their_correlation() -> None:
    lengths = builtin().named("chat").lengths
    stream = drawn(hours=10.0, lengths=replace(lengths, rank_correlation_ratio=0.6))
    assert np.quantile(stream.prompt_tokens, 0.5) == pytest.approx(1_100, rel=0.03)
    assert np.quantile(stream.output_tokens, 0.99) == pytest.approx(1_400, rel=0.05)
    columns = [stream.prompt_tokens, stream.output_tokens]
    ranks = np.array([np.argsort(np.argsort(each, kind="stable")) for each in columns], np.float64)
    assert np.mean(ranks[0] * ranks[1]) / stream.requests**2 * 12 - 3 == pytest.approx(
        0.6, abs=0.03
    )  # Spearman's, for ranks without ties


@pytest.mark.slow
def test_the_builtin_classes_keep_their_rates_and_longest_contexts() -> None:
    stream = synthesised(builtin(), span_s=7 * 86_400.0, rng=np.random.default_rng(1))
    for name, rate_rps, longest_tokens in (("chat", 20.0, 16_384), ("coding", 4.0, 32_768)):
        one = stream.of_class(name)
        assert one.requests / one.span_s == pytest.approx(rate_rps, rel=0.05)
        assert int((one.prompt_tokens.astype(np.int64) + one.output_tokens).max()) <= longest_tokens


def test_batch_classes_stand_beside_interactive_ones() -> None:
    nightly = ClassModel(name="nightly", mean_rate_rps=1.0, lengths=FLAT, deadline_s=4 * 3600.0)
    model = SyntheticModel(classes=(*builtin().classes, nightly))
    stream = synthesised(model, span_s=600.0, rng=np.random.default_rng(0))
    assert stream.deadlines_s == (math.inf, math.inf, 4 * 3600.0)


def test_joined_streams_lose_no_row_and_share_no_session() -> None:
    left, right = (drawn(seed, sessions=SessionModel(mean_turns=3.0)) for seed in (1, 2))
    both = joined([left, replace(right, class_names=("two",))])
    assert both.requests == left.requests + right.requests
    assert (np.diff(both.arrival_ps) >= 0).all()
    assert np.unique(both.session).size == np.unique(left.session).size + np.unique(right.session).size
    assert both.of_class("two").prompt_tokens.sum() == right.prompt_tokens.sum()


def test_a_smaller_cache_never_holds_more() -> None:
    stream = synthesised(builtin(), span_s=3600.0, rng=np.random.default_rng(0))
    held = [int(stream.served_by_cache(blocks).cached_tokens.sum()) for blocks in (0, 1_000, 10_000, math.inf)]
    assert held == sorted(held)
    assert held[0] < held[-1] == int(stream.cached_tokens.sum())


def test_a_negative_rate_is_refused() -> None:
    with pytest.raises(InputError, match="mean_rate_rps = -1"):
        drawn(mean_rate_rps=-1.0)


def _split_mix(counter: int) -> int:
    """SplitMix64 as its authors print it, in whole numbers."""
    mask = 2**64 - 1
    mixed = (counter ^ counter >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return mixed ^ mixed >> 31


@given(seed=st.integers(0, 2**64 - 1))
def test_draws_made_at_once_are_those_of_the_counter_one_by_one(seed: int) -> None:
    words = np.empty(96, np.uint64)
    _stir(np.uint64(seed), words)
    step = 0x9E3779B97F4A7C15
    assert words.tolist() == [_split_mix((seed + (at + 1) * step) % 2**64) for at in range(words.size)]
    later = np.uint64((seed + 10 * step) % 2**64)
    value, taken = _exponential(np.uint64(seed), np.uint64(10))
    assert (value, taken - 10) == _exponential(later, np.uint64(0))


def test_a_stream_of_many_tenants_numbers_those_that_it_can_show() -> None:
    stream = drawn(tenants=Tenants(tenants=200_000, skew_ratio=0.5))
    shown = np.unique(stream.tenant)
    assert shown[0] >= 0
    assert shown[-1] < 4096
    assert shown.size > 2000


def test_more_classes_than_a_stream_tells_apart_are_refused() -> None:
    classes = tuple(ClassModel(name=str(each), mean_rate_rps=1.0, lengths=FLAT) for each in range(200))
    with pytest.raises(InputError, match="more classes"):
        synthesised(SyntheticModel(classes=classes), span_s=10.0, rng=np.random.default_rng(0))
