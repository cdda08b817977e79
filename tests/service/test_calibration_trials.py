"""From load-test points to trials: the loop, lengths and times of the file, and a reason where they are missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.load import evidence as load_evidence
from ullage.report.encode import schema_name, to_json
from ullage.service.calibration.calibration import Calibration, Measurement
from ullage.service.calibration.document import NOTHING_STATED, SCHEMA, engine_of, factors_of, spread_of
from ullage.service.calibration.fitted import waiting_clients
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, measurement_of
from ullage.service.calibration.replay import EngineLimits
from ullage.service.loadtests.anomalies import decode_time_disagrees, examined
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import Factors

TERMS = RepeatTerms(limits=EngineLimits(max_sequences=64, budget_tokens=2048, kv_tokens=100_000))
POINT = Point(
    name="run 1",
    subject=LoadTestSubject(),
    load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=8),
    duration_s=10.0,
    completed_count=80,
    failed_count=0,
    tokens=Tokens(prompt_tokens=80 * 512, output_tokens=80 * 100),
    latencies=(
        LatencySummary(definition=Definition.TTFT, mean_s=0.2, percentiles=((0.5, 0.1),)),
        LatencySummary(definition=Definition.TPOT, percentiles=((0.5, 0.02),)),
    ),
)


def repeated(point: Point) -> Measurement:
    found = measurement_of(point, TERMS)
    assert isinstance(found, Measurement)
    return found


def test_a_closed_loop_is_repeated_with_its_clients_and_mean_lengths() -> None:
    found = repeated(POINT)
    assert found.trial.clients == 8
    assert found.trial.prompt_tokens.size == 80
    assert set(found.trial.prompt_tokens.tolist()) == {512}
    assert set(found.trial.output_tokens.tolist()) == {100}


def test_a_tpot_that_counted_chunks_gives_way_to_e2e_and_ttft() -> None:
    """With two chunks a token a tool's TPOT is half the truth; the anomaly says so, and the fit must not use it."""
    latencies = (
        LatencySummary(definition=Definition.TTFT, mean_s=0.2),
        LatencySummary(definition=Definition.TPOT, mean_s=0.01),
        LatencySummary(definition=Definition.E2E, mean_s=0.2 + 99 * 0.02),
    )
    halved = replace(POINT, latencies=latencies)
    anomaly = decode_time_disagrees(halved)
    assert anomaly is not None
    halved = replace(halved, anomalies=(anomaly,))
    found = {each.latency: each.value for each in repeated(halved).targets}
    assert found["tpot"] == pytest.approx(0.02)


def test_the_statistic_the_file_has_is_the_one_compared() -> None:
    assert {(each.latency, each.statistic, each.value) for each in repeated(POINT).targets} == {
        ("ttft", "mean", 0.2),
        ("tpot", "p50", 0.02),
    }


def test_requests_are_repeated_as_they_were_sent() -> None:
    sent = (0.5, 0.0, 0.25)
    requests = tuple(
        MeasuredRequest(status=Status.OK, sent_s=at, prompt_tokens=100 + i, output_tokens=10 + i, cached_tokens=16)
        for i, at in enumerate(sent)
    )
    point = replace(POINT, load=OfferedLoad(loop=Loop.OPEN, offered_rps=4.0), requests=requests, completed_count=3)
    trial = repeated(point).trial
    assert trial.arrival_s is not None
    assert trial.arrival_s.tolist() == [0.0, 0.25, 0.5]
    assert trial.prompt_tokens.tolist() == [101, 102, 100]
    assert trial.cached_tokens is not None
    assert trial.cached_tokens.tolist() == [16, 16, 16]


@pytest.mark.parametrize(("even", "spread"), [(True, 0.0), (False, 1.0)])
def test_an_open_loop_gets_arrivals_of_its_rate(even: bool, spread: float) -> None:
    point = replace(POINT, load=OfferedLoad(loop=Loop.OPEN, offered_rps=5.0, even=even), completed_count=4000)
    arrivals = repeated(point).trial.arrival_s
    assert arrivals is not None
    gaps = np.diff(arrivals)
    assert gaps.mean() == pytest.approx(0.2, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, abs=0.1)


@pytest.mark.parametrize(("achieved_rps", "clients"), [(12.0, 8), (20.0, None)])
def test_an_open_loop_whose_cap_binds_is_a_closed_one(achieved_rps: float, clients: int | None) -> None:
    load = OfferedLoad(loop=Loop.OPEN, offered_rps=20.0, concurrency_cap_count=8)
    assert repeated(replace(POINT, load=load, achieved_rps=achieved_rps)).trial.clients == clients


WAITING = replace(
    POINT,
    load=OfferedLoad(loop=Loop.OPEN, offered_rps=40.0),
    completed_count=4000,
    duration_s=200.0,
    achieved_rps=20.0,
    sent_rps=21.0,
    latencies=(*POINT.latencies, LatencySummary(definition=Definition.E2E, mean_s=1.5)),
)


def test_a_client_that_waited_is_a_closed_loop_of_what_was_in_flight() -> None:
    """At the rate that it sent a full server's queue grows for as long as the test ran; that client's never did."""
    waited = examined(WAITING)
    assert repeated(waited).trial.clients == 30
    (said,) = waiting_clients([waited, POINT])
    assert "1 of 2 points" in said.sentence
    assert "30 requests" in said.sentence


def test_a_client_that_sent_what_was_offered_is_an_open_loop_however_slow_the_server() -> None:
    overloaded = examined(replace(WAITING, sent_rps=40.0))
    assert repeated(overloaded).trial.clients is None
    assert not list(waiting_clients([overloaded]))


@pytest.mark.parametrize(
    ("sent_rps", "e2e_s", "clients"),
    [(21.0, 1.5, 40), (40.0, 1.5, None), (None, 1.5, 40), (None, 0.5, None)],
    ids=["late client", "client in time", "about full", "nearly idle"],
)
def test_a_cap_binds_where_the_client_was_late_and_its_requests_under_way(
    sent_rps: float | None, e2e_s: float, clients: int | None
) -> None:
    """An overloaded server under a cap that was never near is an overloaded server, not thousands of clients."""
    latencies = (*POINT.latencies, LatencySummary(definition=Definition.E2E, mean_s=e2e_s))
    load = replace(WAITING.load, concurrency_cap_count=40)
    assert repeated(replace(WAITING, sent_rps=sent_rps, latencies=latencies, load=load)).trial.clients == clients


def test_cached_tokens_are_shared_out() -> None:
    point = replace(POINT, tokens=replace(POINT.tokens, cached_prompt_tokens=80 * 128))
    cached = repeated(point).trial.cached_tokens
    assert cached is not None
    assert set(cached.tolist()) == {128}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"latencies": ()}, "neither TTFT nor TPOT"),
        ({"tokens": Tokens()}, "no prompt or output lengths"),
        ({"load": OfferedLoad(loop=Loop.CLOSED)}, "without its concurrency"),
        ({"load": OfferedLoad(loop=Loop.OPEN)}, "without its rate"),
        ({"requests": (MeasuredRequest(status=Status.FAILED),) * 80}, "none of them succeeded"),
    ],
)
def test_what_cannot_be_repeated_says_why(change: dict[str, object], said: str) -> None:
    found = measurement_of(replace(POINT, **change), TERMS)  # type: ignore[arg-type]
    assert isinstance(found, NotRepeatable)
    assert said in found.reason


OTHERS = {"sequences_ratio": 1, "kv_ratio": 1, "prefill_ratio": 1, "request_ratio": 1}


def saved(**factors: object) -> dict[str, object]:
    return {"schema": SCHEMA, "calibration": {"factors": factors}}


def test_a_document_gives_back_its_factors() -> None:
    factors = Factors(fixed_ratio=1.25, sequences_ratio=0.5, kv_ratio=0.7, prefill_ratio=2.0, request_ratio=0.75)
    spread = FactorSpread(
        covariance=tuple(tuple(0.01 * (row == column) for column in range(5)) for row in range(5)),
        fit_spreads={"tpot": 0.04, "ttft": 0.1},
        degrees=5,
    )
    calibration = Calibration(factors=factors, parameters=(), residuals=(), held_out=(), spread=spread)
    assert schema_name("calibrate") == SCHEMA
    document = {"schema": SCHEMA, "calibration": to_json(calibration)}
    assert factors_of(document, file="c.json") == factors
    assert spread_of(document, file="c.json") == spread


@pytest.mark.parametrize(
    "spread", [None, {}, {"covariance": [[1.0]], "fit_spreads": {"tpot": 1, "ttft": 1}, "degrees": 5}]
)
def test_a_document_says_how_far_it_may_be_off(spread: object) -> None:
    with pytest.raises(InputError, match="does not state the error of the fit"):
        spread_of({"schema": SCHEMA, "calibration": {"spread": spread}}, file="c.json")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schema": "other/2"}, "schema"),
        ({"schema": SCHEMA}, "five factors"),
        (saved(fixed_ratio=1), "five factors"),
        (saved(fixed_ratio=0, **OTHERS), "factors.fixed"),
        (saved(fixed_ratio="1", **OTHERS), "factors.fixed"),
    ],
)
def test_a_bad_document_is_named(document: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        factors_of(document, file="c.json")


def test_what_was_stated_of_the_engine_is_read_back_and_nothing_else_is_taken() -> None:
    assert engine_of({}, file="old.json") == NOTHING_STATED
    found = engine_of({"stated_engine": {"engine_version": "0.11.0", "kv_tokens": 100, "poll_steps": None}}, file="c")
    assert found.stated == {"engine_version": "0.11.0", "kv_tokens": 100}
    with pytest.raises(InputError, match="stated_engine"):
        engine_of({"stated_engine": {"kv_tokens": "many"}}, file="c")


def test_a_cache_that_the_engine_stated_in_the_result_is_the_tests() -> None:
    point = replace(POINT, subject=LoadTestSubject(kv_tokens=5_000, max_sequences=32))
    assert (repeated(point).trial.limits.kv_tokens, repeated(point).trial.limits.max_sequences) == (5_000, 32)
    stated = measurement_of(point, replace(TERMS, are_limits_stated=True))
    assert isinstance(stated, Measurement)
    assert (stated.trial.limits.kv_tokens, stated.trial.limits.max_sequences) == (5_000, 64)


def test_tests_of_one_name_are_told_apart_by_as_many_folders_as_it_takes() -> None:
    def named(*files: str) -> list[str]:
        return load_evidence.test_names([LoadTest(file=each, reader="vllm", tool="vllm", points=()) for each in files])

    assert named("runs/low.json", "runs/high.json") == ["low", "high"]
    assert named("/a/chat/results/stage_0.json", "/a/code/results/stage_0.json") == [
        "chat/results/stage_0",
        "code/results/stage_0",
    ]
    assert named("a/x.json", "a/x.json", "b/y.json") == ["a/x", "a/x", "y"]


def test_what_was_measured_is_put_beside_what_is_predicted() -> None:
    point = replace(POINT, completed_count=60, failed_count=20, output_tokens_per_s=600.0)
    assert (repeated(point).answered_fraction, repeated(point).output_tokens_per_s) == (0.75, None)
    whole = measurement_of(replace(POINT, output_tokens_per_s=600.0), replace(TERMS, replicas=2))
    assert isinstance(whole, Measurement)
    assert (whole.answered_fraction, whole.output_tokens_per_s) == (1.0, 300.0)
