"""What the numbers of a point say about each other, check by check, and that a sound point says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.service.loadtests.anomalies import CHECKS, examined, impossible, requests_sampled
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import due_rate_rps, latency_of, sending_rate_rps, summaries, summarise
from ullage.workload.anomalies import Severity


def latency(definition: Definition, mean_s: float, **more: object) -> LatencySummary:
    pairs = ((0.5, mean_s), (0.99, mean_s * 1.2))
    return replace(LatencySummary(definition=definition, mean_s=mean_s, percentiles=pairs), **more)  # type: ignore[arg-type]


SOUND = Point(
    name="sound",
    subject=LoadTestSubject(),
    load=OfferedLoad(loop=Loop.OPEN, offered_rps=4.0),
    duration_s=100.0,
    completed_count=400,
    failed_count=0,
    achieved_rps=4.0,
    sent_rps=4.0,
    stated_rps=4.0,
    mean_concurrency_count=4.0,
    tokens=Tokens(output_tokens=400 * 46.0, other_output_tokens=400 * 46.0),
    latencies=(latency(Definition.TTFT, 0.1), latency(Definition.TPOT, 0.02), latency(Definition.E2E, 1.0)),
    client_delay=latency(Definition.CLIENT_DELAY, 0.001),
)


def flags(point: Point) -> list[Flag]:
    return [each.flag for each in examined(point).anomalies]


def test_a_sound_point_says_nothing() -> None:
    assert flags(SOUND) == []
    assert impossible(SOUND) is None


def test_a_bare_point_says_nothing() -> None:
    bare = Point(
        name="bare", subject=LoadTestSubject(), load=OfferedLoad(loop=Loop.OPEN), duration_s=None, completed_count=None
    )
    assert [check(bare) for check in CHECKS] == [None] * len(CHECKS)
    assert bare.sent_count is None
    assert bare.mean_output_tokens is None
    assert bare.little_concurrency_count is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"sent_rps": 3.0, "achieved_rps": 3.0}, Flag.CLOSED_LOOP_SATURATION),
        ({"achieved_rps": 2.0}, Flag.OVERLOAD),
        ({"client_delay": latency(Definition.CLIENT_DELAY, 0.05)}, Flag.COORDINATED_OMISSION),
        ({"tokens": Tokens(output_tokens=400 * 46.0, other_output_tokens=400 * 40.0)}, Flag.TOKEN_COUNT_MISMATCH),
        ({"stated_rps": 4.2}, Flag.RATE_DISAGREES),
        ({"mean_concurrency_count": 8.0}, Flag.LITTLES_LAW),
        ({"failed_count": 5}, Flag.FAILURES),
        ({"unfinished_count": 100}, Flag.UNFINISHED),
        ({"requests": (MeasuredRequest(status=Status.OK),)}, Flag.REQUESTS_SAMPLED),
    ],
)
def test_each_departure_has_its_flag(change: dict[str, object], expected: Flag) -> None:
    assert expected in flags(replace(SOUND, **change))  # type: ignore[arg-type]


def with_latency(*changed: LatencySummary) -> Point:
    kept = [each for each in SOUND.latencies if each.definition not in {new.definition for new in changed}]
    return replace(SOUND, latencies=(*kept, *changed))


def test_a_unit_uncertain_names_both_readings() -> None:
    long = examined(with_latency(latency(Definition.TTFT, 20_000.0))).anomalies[0]
    assert long.flag is Flag.UNIT_UNCERTAIN
    assert "5.56 h" in long.sentence
    assert "20 s" in long.sentence
    short = examined(with_latency(latency(Definition.TTFT, 0.0001))).anomalies[0]
    assert "100 us" in short.sentence
    assert "100 ms" in short.sentence


def test_percentiles_that_cross_are_found() -> None:
    crossed = LatencySummary(definition=Definition.TTFT, mean_s=0.1, percentiles=((0.5, 0.3), (0.99, 0.2)))
    assert Flag.PERCENTILES_CROSS in flags(with_latency(crossed))


def test_time_per_token_is_held_against_its_parts() -> None:
    assert Flag.DECODE_TIME_DISAGREES in flags(with_latency(latency(Definition.TPOT, 0.01)))
    assert Flag.DECODE_TIME_DISAGREES in flags(with_latency(latency(Definition.E2E, 0.1)))
    assert Flag.DECODE_TIME_DISAGREES not in flags(with_latency(latency(Definition.TPOT, 0.022)))


def test_a_histogram_floor_is_found_only_at_or_below_it() -> None:
    above = latency(Definition.TTFT, 0.1, floor_s=0.05)
    below = latency(Definition.TTFT, 0.1, floor_s=0.2)
    assert Flag.HISTOGRAM_FLOOR not in flags(with_latency(above))
    assert Flag.HISTOGRAM_FLOOR in flags(with_latency(below))


def test_a_capped_point_at_its_cap_is_saturated_and_one_below_it_is_overloaded() -> None:
    load = OfferedLoad(loop=Loop.OPEN, offered_rps=4.0, concurrency_cap_count=3)
    assert Flag.CLOSED_LOOP_SATURATION in flags(replace(SOUND, load=load, sent_rps=None, achieved_rps=3.0))
    roomy = replace(load, concurrency_cap_count=300)
    assert Flag.OVERLOAD in flags(replace(SOUND, load=roomy, sent_rps=None, achieved_rps=3.0))


def test_idle_clients_of_a_closed_loop_are_the_clients_fault() -> None:
    load = OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=16)
    assert Flag.CLIENT_LIMITED in flags(replace(SOUND, load=load, mean_concurrency_count=None))


def test_chance_is_no_finding_but_an_even_rate_is_held_to() -> None:
    few = replace(SOUND, completed_count=25, duration_s=7.0, achieved_rps=25 / 7.0, sent_rps=25 / 7.0, stated_rps=None)
    assert Flag.CLOSED_LOOP_SATURATION not in flags(few)
    even = replace(few, load=replace(few.load, even=True))
    assert Flag.CLOSED_LOOP_SATURATION in flags(even)


@pytest.mark.parametrize("definition", [Definition.TTFT, Definition.E2E])
def test_a_request_longer_than_its_run_is_impossible(definition: Definition) -> None:
    said = impossible(with_latency(latency(definition, 5000.0)))
    assert said is not None
    assert said.shown == "1.39 h"
    assert said.sentence == "the whole run took 1.67 min; in a unit a thousand times smaller it would be 5 s"


def test_more_under_way_than_allowed_is_impossible() -> None:
    said = impossible(replace(SOUND, load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=4), achieved_rps=100.0))
    assert said is not None
    assert "at most 4 were allowed" in said.sentence


def test_the_gravest_finding_stands_first() -> None:
    found = examined(
        replace(SOUND, stated_rps=5.0, failed_count=100, client_delay=latency(Definition.CLIENT_DELAY, 0.05))
    )
    order = [Severity.SERIOUS, Severity.CAUTION, Severity.NOTE]
    places = [order.index(each.weight) for each in found.anomalies]
    assert places == sorted(places)
    assert len(set(places)) == 3


times = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50)


@given(values=times)
def test_a_summary_lies_between_its_extremes(values: list[float]) -> None:
    found = latency_of(values, Definition.E2E)
    assert found is not None
    assert found.min_s is not None
    assert found.max_s is not None
    shown = [value for _, value in found.percentiles]
    assert shown == sorted(shown)
    assert found.min_s <= shown[0] <= shown[-1] <= found.max_s
    assert found.sample_count == len(values)


def test_definitions_differ_on_the_same_request() -> None:
    request = MeasuredRequest(status=Status.OK, sent_s=0.5, due_s=0.2, ttft_s=0.1, e2e_s=1.0, output_tokens=46)
    found = {each.definition: each.mean_s for each in summaries([request])}
    assert found == {
        Definition.TTFT: 0.1,
        Definition.TPOT: pytest.approx(0.02),
        Definition.NTPOT: pytest.approx(1.0 / 46),
        Definition.E2E: 1.0,
    }
    delay = summarise([request], Definition.CLIENT_DELAY)
    assert delay is not None
    assert delay.mean_s == pytest.approx(0.3)


def test_every_definition_has_a_formula_and_only_the_clients_delay_has_no_metric() -> None:
    assert all(each.formula for each in Definition)
    assert [each for each in Definition if each.metric is None] == [Definition.CLIENT_DELAY]


def test_rates_need_every_time() -> None:
    timed = [MeasuredRequest(status=Status.OK, sent_s=float(each), due_s=each / 2.0) for each in range(5)]
    assert sending_rate_rps(timed) == 1.0
    assert due_rate_rps(timed) == 2.0
    assert sending_rate_rps([*timed, MeasuredRequest(status=Status.OK)]) is None
    assert sending_rate_rps(timed[:1]) is None


def test_failed_requests_are_late_but_have_no_latency() -> None:
    late = [
        MeasuredRequest(status=Status.OK, sent_s=0.0, due_s=0.0, ttft_s=0.1),
        MeasuredRequest(status=Status.FAILED, sent_s=2.0, due_s=1.0),
    ]
    ttft, delay = summarise(late, Definition.TTFT), summarise(late, Definition.CLIENT_DELAY)
    assert ttft is not None
    assert ttft.sample_count == 1
    assert delay is not None
    assert delay.mean_s == 0.5


def test_a_run_that_states_no_e2e_is_given_time_for_its_last_answers() -> None:
    """300 requests at 10 a second are sent in 30 s, and answers of 4 s make 34 of it: nothing is overloaded."""
    tokens = Tokens(output_tokens=300 * 270.0)
    short = replace(
        SOUND,
        load=OfferedLoad(loop=Loop.OPEN, offered_rps=10.0),
        completed_count=300,
        achieved_rps=300 / 34.0,
        sent_rps=None,
        stated_rps=None,
        mean_concurrency_count=None,
        tokens=tokens,
        latencies=(latency(Definition.TTFT, 0.05), latency(Definition.TPOT, 0.0135)),
    )
    pooled = LatencySummary(definition=Definition.ITL_POOLED, mean_s=0.0135, max_s=9.0)
    for pace in (latency(Definition.TPOT, 0.0135), pooled):
        given = replace(short, latencies=(latency(Definition.TTFT, 0.05), pace))
        assert Flag.OVERLOAD not in flags(given)
        assert Flag.OVERLOAD in flags(replace(given, achieved_rps=300 / 60.0)), "one long gap is no long answer"


def test_a_queue_does_not_hide_behind_the_longest_request() -> None:
    """Sent in 100 s and answered in 140: the slowest request waited 40 s for its first token, and that is the queue."""
    waited = (LatencySummary(definition=Definition.TTFT, mean_s=20.0, percentiles=((0.5, 0.1), (0.99, 40.0))),)
    e2e = LatencySummary(definition=Definition.E2E, mean_s=21.0, percentiles=((0.5, 1.0), (0.99, 41.0)))
    late = replace(SOUND, achieved_rps=400 / 140.0, mean_concurrency_count=None, latencies=(*waited, e2e))
    assert Flag.OVERLOAD in flags(late)


def test_a_file_that_keeps_every_request_is_no_sample() -> None:
    kept = tuple(MeasuredRequest(status=Status.OK) for _ in range(3))
    whole = replace(SOUND, requests=kept, completed_count=3, sent_rps=None, failed_count=0)
    assert requests_sampled(whole) is None
    sampled = requests_sampled(replace(whole, completed_count=4))
    assert sampled is not None
    assert "keeps 3 of 4 requests" in sampled.sentence
