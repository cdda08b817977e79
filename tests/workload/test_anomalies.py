"""Every anomaly is found where it was planted, and a clean trace has none of them."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from support.traces import make_trace
from ullage.workload.anomalies import AnomalyKind, Severity
from ullage.workload.profile.profile import Profile, profile
from ullage.workload.trace import Clock, Trace

# A Sunday, 2026-03-29: summer time starts in Europe.
SUNDAY_EPOCH_S = datetime.datetime(2026, 3, 29, tzinfo=datetime.UTC).timestamp()
AS_OF = datetime.date(2026, 4, 10)


def even(span_s: float = 4 * 3600.0, rate_rps: float = 2.0, seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, span_s, int(span_s * rate_rps)))
    return [float(time) for time in times - times[0]]


def trace_of(times: list[float], *, zone: str = "UTC", clock: Clock = Clock.UTC) -> Trace:
    rng = np.random.default_rng(9)
    return make_trace(
        clock=clock,
        start_epoch_s=SUNDAY_EPOCH_S,
        zone=zone,
        arrival_s=times,
        prompt_tokens=rng.lognormal(6, 0.5, len(times)).astype(int).tolist(),
        output_tokens=rng.lognormal(5, 0.5, len(times)).astype(int).tolist(),
    )


def found(trace: Trace) -> Profile:
    return profile(trace, as_of=AS_OF)


def kinds(trace: Trace) -> set[AnomalyKind]:
    return {anomaly.kind for anomaly in found(trace).anomalies}


def sentence(trace: Trace, kind: AnomalyKind) -> str:
    (one,) = [anomaly for anomaly in found(trace).anomalies if anomaly.kind is kind]
    return one.sentence


def test_a_clean_trace_is_only_short() -> None:
    assert kinds(trace_of(even())) == {AnomalyKind.SHORT}


def test_two_weeks_of_clean_trace_have_no_anomaly() -> None:
    assert kinds(trace_of(even(14.2 * 86400, 0.02))) == set()


def test_rows_out_of_order() -> None:
    times = even()
    for at in range(0, 4000, 10):
        times[at], times[at + 1] = times[at + 1], times[at]
    assert AnomalyKind.UNSORTED in kinds(trace_of(times))
    (found,) = [each for each in profile(trace_of(times)).anomalies if each.kind is AnomalyKind.UNSORTED]
    assert found.share_fraction == pytest.approx(400 / len(times))


def test_a_clock_that_was_set_back() -> None:
    times = even()
    shifted = times[:5000] + [time - 40 for time in times[5000:]]
    assert "goes back once, by up to" in sentence(trace_of(shifted), AnomalyKind.CLOCK_STEP)


def test_duplicate_rows_without_and_with_identifiers() -> None:
    times = [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    rows = make_trace(arrival_s=times, prompt_tokens=[5, 6, 6, 7, 8, 9], output_tokens=[1] * 6)
    assert "1 of 6 rows repeat" in sentence(rows, AnomalyKind.DUPLICATES)
    named = make_trace(arrival_s=times, prompt_tokens=[5] * 6, request=["a", "b", "c", "d", "a", "b"])
    assert "2 of 6 rows repeat" in sentence(named, AnomalyKind.DUPLICATES)
    distinct = make_trace(arrival_s=times, prompt_tokens=[5] * 6, request=list("abcdef"))
    assert AnomalyKind.DUPLICATES not in kinds(distinct)


def test_local_time_that_goes_back_an_hour() -> None:
    times = even(6 * 3600)
    local = [time if time < 3 * 3600 else time - 3600 for time in times]
    assert "one hour once" in sentence(trace_of(local, zone=""), AnomalyKind.SUMMER_TIME)
    # With a zone in the stamps the same step is a clock that was set.
    assert AnomalyKind.SUMMER_TIME not in kinds(trace_of(local, zone="UTC"))
    # Seconds since the first request are no local time: two logs stand one after the other.
    joined = sentence(trace_of(local, zone="", clock=Clock.RELATIVE), AnomalyKind.CLOCK_STEP)
    assert "files were joined out of order" in joined


def test_local_time_that_skips_an_hour() -> None:
    times = [time if time < 2 * 3600 else time + 3600 for time in even(6 * 3600)]
    assert "skips one hour" in sentence(trace_of(times, zone=""), AnomalyKind.SUMMER_TIME)
    assert AnomalyKind.SUMMER_TIME not in kinds(trace_of(times, zone="UTC"))


def test_a_named_zone_that_ends_summer_time() -> None:
    times = even(6 * 3600)
    doubled = [time if time < 3 * 3600 else time - 3600 for time in times]
    assert "Europe/Berlin ends summer time" in sentence(
        trace_of(doubled, zone="Europe/Berlin"), AnomalyKind.SUMMER_TIME
    )


def test_durations_in_milliseconds() -> None:
    trace = make_trace(arrival_s=range(50), prompt_tokens=[5] * 50, duration_s=[4000.0] * 50)
    assert "durations may be in another unit" in sentence(trace, AnomalyKind.UNIT_UNCERTAIN)


@pytest.mark.slow
def test_stamps_in_batches() -> None:
    # Every 3 s with a millisecond of jitter, as collectors write.
    times = [3.0 * (time // 3.0) + 0.001 * ((time // 3.0) % 2) for time in even(rate_rps=5.0)]
    assert "batches of 3 s" in sentence(trace_of(times), AnomalyKind.TIME_BATCHING)
    arrivals = found(trace_of(times)).whole.arrivals
    assert arrivals is not None
    assert [window.artefact for window in arrivals.windows] == [True, True, False, False]


@pytest.mark.slow
def test_whole_seconds_at_a_high_rate_are_batches_and_at_a_low_rate_are_not() -> None:
    busy = [float(int(time)) for time in even(rate_rps=5.0)]
    quiet = [float(int(time)) for time in even(40 * 3600, rate_rps=0.02)]
    assert AnomalyKind.TIME_BATCHING in kinds(trace_of(busy))
    assert AnomalyKind.TIME_BATCHING not in kinds(trace_of(quiet))


def test_holes() -> None:
    times = [time if time < 5000 else time + 150 for time in even()]
    assert "one hole of 2.5" in sentence(trace_of(times), AnomalyKind.HOLES)
    coverage = found(trace_of(times)).coverage
    assert coverage.covered_fraction == pytest.approx(1 - 150 / coverage.span_s, abs=1e-3)


def test_missing_lengths_and_outputs() -> None:
    trace = make_trace(
        arrival_s=range(10),
        prompt_tokens=[None, *[5] * 9],
        output_tokens=[None, None, *[5] * 8],
        status=["ok", "failed", *["ok"] * 8],
    )
    assert "1 of 10 requests have no prompt length" in sentence(trace, AnomalyKind.MISSING_LENGTHS)
    assert "1 of 10 requests that did not fail" in sentence(trace, AnomalyKind.MISSING_OUTPUTS)


def test_a_status_that_is_not_known() -> None:
    trace = make_trace(arrival_s=range(4), status=["ok", None, "failed", None])
    assert "2 of 4 requests have no status" in sentence(trace, AnomalyKind.UNKNOWN_STATUS)


@pytest.mark.parametrize(("days", "is_stale"), [(12, False), (29, False), (32, True)])
def test_age_is_counted_from_the_last_request(days: int, is_stale: bool) -> None:
    as_of = datetime.date(2026, 3, 29) + datetime.timedelta(days=days)
    anomalies = profile(trace_of(even()), as_of=as_of).anomalies
    assert any(anomaly.kind is AnomalyKind.STALE for anomaly in anomalies) == is_stale


def test_a_trace_without_a_calendar_has_no_age() -> None:
    trace = trace_of(even(), clock=Clock.RELATIVE)
    assert AnomalyKind.STALE not in {each.kind for each in profile(trace, as_of=datetime.date(2090, 1, 1)).anomalies}


def test_times_that_cannot_be_compared() -> None:
    lengths = make_trace(clock=Clock.NONE, prompt_tokens=[1, 2], output_tokens=[3, 4])
    assert AnomalyKind.NO_COMMON_CLOCK in kinds(lengths)
    assert found(lengths).whole.arrivals is None


def test_too_many_tokens_a_second() -> None:
    trace = make_trace(arrival_s=[0.001 * at for at in range(100)], prompt_tokens=[50_000] * 100)
    assert AnomalyKind.UNIT_UNCERTAIN in kinds(trace)


def test_sessions_recorded_twice() -> None:
    turns = [100, 220, 350, 480]
    trace = make_trace(
        clock=Clock.SESSION,
        arrival_s=[0, 1, 2, 3] * 3,
        prompt_tokens=[*turns, *turns, 100, 220, 350, 481],
        session=["a"] * 4 + ["b"] * 4 + ["c"] * 4,
    )
    assert "1 of 3 sessions" in sentence(trace, AnomalyKind.REPEATED_SESSIONS)


def two_shapes(rng: np.random.Generator, apart: float) -> list[int]:
    short = rng.lognormal(5, 0.4, 3000)
    return [int(value) for value in np.r_[short, rng.lognormal(5 + apart, 0.4, 3000)]]


def test_two_humps_are_suggested_as_classes() -> None:
    rng = np.random.default_rng(11)
    prompts = two_shapes(rng, apart=4.0)
    trace = make_trace(arrival_s=range(len(prompts)), prompt_tokens=prompts, output_tokens=[5] * len(prompts))
    suggestion = found(trace).suggestion
    assert suggestion is not None
    assert suggestion.by == "length"
    low, high = suggestion.classes
    assert low.rule.below_prompt_tokens == high.rule.from_prompt_tokens
    assert low.share_fraction == pytest.approx(0.5, abs=0.01)
    assert "hides several shapes" in sentence(trace, AnomalyKind.TWO_SHAPES)
    # A prompt of just the border's length is one of the long ones, as the rule says.
    border = low.rule.below_prompt_tokens
    assert border is not None
    prompts += [border] * 500
    more = make_trace(arrival_s=range(len(prompts)), prompt_tokens=prompts, output_tokens=[5] * len(prompts))
    again = found(more).suggestion
    assert again is not None
    limit = again.classes[0].rule.below_prompt_tokens
    assert limit is not None
    for one, below in zip(again.classes, (True, False), strict=True):
        assert one.share_fraction == pytest.approx(np.mean([(each < limit) is below for each in prompts]))


def test_one_hump_is_left_alone() -> None:
    rng = np.random.default_rng(12)
    for apart in (0.0, 1.0):
        prompts = two_shapes(rng, apart=apart)
        trace = make_trace(arrival_s=range(len(prompts)), prompt_tokens=prompts, output_tokens=[5] * len(prompts))
        assert found(trace).suggestion is None


def test_a_model_that_explains_the_lengths_is_suggested() -> None:
    rng = np.random.default_rng(13)
    prompts = two_shapes(rng, apart=2.0)
    trace = make_trace(
        arrival_s=range(len(prompts)),
        prompt_tokens=prompts,
        output_tokens=[5] * len(prompts),
        model=["chat"] * 3000 + ["code"] * 3000,
    )
    suggestion = found(trace).suggestion
    assert suggestion is not None
    assert suggestion.by == "model"
    assert {one.rule.model for one in suggestion.classes} == {"chat", "code"}


def test_a_name_whose_requests_log_no_lengths_is_not_suggested_as_a_shape_of_nothing() -> None:
    trace = make_trace(
        arrival_s=range(60),
        prompt_tokens=[10] * 20 + [900] * 20 + [None] * 20,
        output_tokens=[5] * 60,
        model=["chat"] * 20 + ["code"] * 20 + ["failing"] * 20,
    )
    suggestion = found(trace).suggestion
    assert suggestion is not None
    assert [(one.name, one.median_prompt_tokens) for one in suggestion.classes] == [("chat", 10), ("code", 900)]


def test_classes_of_one_name_that_differ() -> None:
    trace = make_trace(
        arrival_s=range(40),
        prompt_tokens=[10] * 20 + [480] * 20,
        output_tokens=[1] * 40,
        class_=["share_a"] * 20 + ["share_b"] * 20,
    )
    assert "named share differ 48-fold" in sentence(trace, AnomalyKind.COPIES_DIFFER)


def test_the_gravest_stands_first() -> None:
    times = [time if time < 5000 else time + 3000 for time in even()]
    weights = [anomaly.weight for anomaly in found(trace_of(times)).anomalies]
    assert weights == sorted(weights, key=[Severity.SERIOUS, Severity.CAUTION, Severity.NOTE].index)
