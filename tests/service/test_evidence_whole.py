"""What comes in whole: lengths, prefix hits, replicas and time-outs of a test, and whose evidence it is."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ullage.evidence import Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.fitted import FittedTests, fit_tests
from ullage.service.calibration.hits import are_unknown, prefix_hits
from ullage.service.calibration.lengths import lengths_of_test
from ullage.service.calibration.prediction import predict
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, measurement_of, trial_of
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, replay
from ullage.service.calibration.whose import ReplicaUnderTest, differences, is_same_model
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LengthLaw,
    LengthRule,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    SharedPrefix,
    Tokens,
)
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel, roofline_model

SOURCE = Source(what="a test", where="here", date=datetime.date(2026, 11, 15))
TERMS = RepeatTerms(limits=EngineLimits(max_sequences=256, budget_tokens=8192, kv_tokens=400_000))
UNIFORM = LengthRule(law=LengthLaw.UNIFORM, least_fraction=0.8, said_by="a tool")


def point(clients: int = 8, *, subject: LoadTestSubject | None = None, **tokens: Any) -> Point:
    given = tokens or {"prompt_tokens": 997.0 * 80 + 3, "output_tokens": 203.0 * 80 + 1}
    return Point(
        name=f"{clients} clients",
        subject=subject or LoadTestSubject(),
        load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=clients),
        duration_s=10.0,
        completed_count=80,
        failed_count=0,
        tokens=Tokens(**given),
        latencies=(
            LatencySummary(definition=Definition.TTFT, mean_s=0.2),
            LatencySummary(definition=Definition.TPOT, mean_s=0.02),
        ),
    )


def lengths(given: Point) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], str]:
    found = lengths_of_test(given, given.requests, rng=np.random.default_rng(0))
    assert found is not None
    return found.prompt_tokens, found.output_tokens, found.said_by


def trial(given: Point, terms: RepeatTerms = TERMS) -> LoadTestReplay:
    found = trial_of(given, terms)
    assert not isinstance(found, NotRepeatable)
    return found


# ---- lengths ------------------------------------------------------------------------------------------


def test_sums_alone_give_lengths_that_differ_with_the_mean_of_the_file() -> None:
    prompt, output, said = lengths(point())
    assert said == "assumed"
    assert prompt.std() > 0.03 * prompt.mean()
    assert prompt.mean() == pytest.approx(997.0, rel=0.01)
    assert output.mean() == pytest.approx(203.0, rel=0.01)


def test_totals_that_divide_are_requests_of_one_length() -> None:
    prompt, output, said = lengths(point(prompt_tokens=80.0 * 1000, output_tokens=80.0 * 200))
    assert (set(prompt.tolist()), set(output.tolist())) == ({1000}, {200})
    assert "divide" in said


def test_one_total_that_divides_by_many_requests_is_of_one_length_and_the_other_is_not() -> None:
    prompt, output, said = lengths(
        replace(point(prompt_tokens=300.0 * 999, output_tokens=81_050.0), completed_count=300)
    )
    assert set(prompt.tolist()) == {999}
    assert output.std() > 0.03 * output.mean()
    assert "divide" in said
    assert "assumed" in said


def test_a_tools_rule_comes_before_what_is_assumed() -> None:
    prompt, _, said = lengths(point(nominal_prompt_tokens=1000.0, nominal_output_tokens=200.0, rule=UNIFORM))
    assert said == "a tool"
    assert 800 <= prompt.min() < prompt.max() <= 1000


def test_percentiles_of_the_file_come_first() -> None:
    summary = LengthSummary(
        mean_tokens=500.0, min_tokens=100.0, max_tokens=2000.0, percentiles=((0.1, 150.0), (0.5, 300.0), (0.9, 1200.0))
    )
    prompt, _, said = lengths(point(prompt_lengths=summary, output_lengths=summary, rule=UNIFORM))
    assert said == "the summary of the file"
    assert prompt.mean() == pytest.approx(500.0, rel=0.01)
    assert np.percentile(prompt, 90) / np.percentile(prompt, 10) > 5


# ---- prefix hits --------------------------------------------------------------------------------------


def test_hits_are_taken_from_the_user_then_from_the_file() -> None:
    prompt = np.full(80, 1000, np.int32)
    counted = point(prompt_tokens=80_000.0, output_tokens=8_000.0, cached_prompt_tokens=40_000.0)
    by_file, by_user = prefix_hits(counted, None, prompt, ()), prefix_hits(counted, 0.8, prompt, ())
    assert by_file is not None
    assert by_user is not None
    assert set(by_file.cached_tokens.tolist()) == {500}
    # Half of 80 prompts of 1,000 tokens, where the file does not say how many tokens all prompts had.
    alone = prefix_hits(point(cached_prompt_tokens=40_000.0), None, prompt, ())
    assert alone is not None
    assert set(alone.cached_tokens.tolist()) == {500}
    assert set(by_user.cached_tokens.tolist()) == {800}
    assert prefix_hits(point(), None, prompt, ()) is None


def test_a_layout_of_shared_prompts_warms_up_and_takes_room_once() -> None:
    layout = SharedPrefix(groups=2, prompts_per_group=3, prefix_tokens=320, said_by="config.yaml")
    found = prefix_hits(point(prompt_tokens=1.0, shared_prefix=layout), None, np.full(80, 1000, np.int32), ())
    assert found is not None
    cached = found.cached_tokens.tolist()
    assert cached[:2] == [0, 0]
    assert set(cached[2:6]) == {320}
    assert set(cached[6:]) == {992}
    limits = found.limits(TERMS.limits, np.full(80, 1000, np.int32), np.full(80, 200, np.int32))
    # A request keeps some 1,200 tokens, and all but some 290 of them only once.
    assert limits.kv_tokens > 3 * TERMS.limits.kv_tokens


def test_hits_are_unknown_where_prompts_may_repeat_and_nobody_counts() -> None:
    assert are_unknown(point(subject=LoadTestSubject(dataset="sharegpt"), prompt_tokens=80_000.0))
    assert not are_unknown(point(subject=LoadTestSubject(dataset="random"), prompt_tokens=80_000.0))
    assert not are_unknown(point(subject=LoadTestSubject(dataset="sharegpt"), cached_fraction=0.0))


def test_a_test_of_several_replicas_is_repeated_on_one_with_its_part() -> None:
    one, four = trial(point(8)), trial(point(8), replace(TERMS, replicas=4))
    assert (one.clients, four.clients) == (8, 2)
    assert four.prompt_tokens.size == one.prompt_tokens.size / 4
    stated = point(8, subject=LoadTestSubject(replicas=4), prompt_tokens=80_003.0, output_tokens=8_001.0)
    assert trial(stated).clients == 2


# ---- whose evidence -----------------------------------------------------------------------------------

REPLICA = ReplicaUnderTest(model=find_model("llama-3.1-70b"), device="h100-sxm", engine="vllm", sharding=Sharding(tp=4))


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        (LoadTestSubject(model="acme/tiny"), "model"),
        (LoadTestSubject(model="meta-llama/Llama-3.1-8B-Instruct"), "model"),
        (LoadTestSubject(hardware="B200"), "device"),
        (LoadTestSubject(engine="sglang"), "engine"),
        (LoadTestSubject(tp=8), "parallelism"),
        (LoadTestSubject(precision="fp8"), "precision"),
        (LoadTestSubject(), None),
        (LoadTestSubject(model="/models/Llama-3.1-70B-Instruct", hardware="NVIDIA H100 80GB HBM3", tp=4), None),
        (LoadTestSubject(engine="openai-chat", precision="bf16"), None),
    ],
)
def test_what_a_test_says_of_itself_is_held_against_the_replica(stated: LoadTestSubject, name: str | None) -> None:
    test = LoadTest(file="a.json", reader="vllm", tool="vllm", points=(point(subject=stated, prompt_tokens=1.0),))
    found = differences(test, REPLICA)
    assert [each.name for each in found] == ([] if name is None else [name])
    assert all(each.refuses for each in found)


def test_short_names_of_a_model_are_known() -> None:
    deepseek = find_model("deepseek-r1")
    assert is_same_model("dsr1", deepseek)
    assert is_same_model("deepseek-ai/DeepSeek-R1-0528", deepseek)
    assert not is_same_model("gptoss", deepseek)


# ---- the fit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def step() -> StepModel:
    return roofline_model(
        find_model("llama-3.1-8b"), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=kv_dtype("bf16")
    )


def of_replica(step: StepModel, clients: int, ratio: float = 1.0, *, factors: Factors | None = None) -> Point:
    """A test of a replica with these factors, as a tool that keeps sums would have written it, times a ratio."""
    asked = point(clients, nominal_prompt_tokens=1000.0, nominal_output_tokens=200.0, rule=UNIFORM)
    times = ScaledStep(times=step, factors=factors or Factors(fixed_ratio=1.2, sequences_ratio=1.2, kv_ratio=1.2))
    found = replay(times, trial(asked))
    return replace(
        asked,
        latencies=(
            LatencySummary(definition=Definition.TTFT, mean_s=ratio * found.statistic("ttft", "mean")),
            LatencySummary(definition=Definition.TPOT, mean_s=ratio * found.statistic("tpot", "mean")),
        ),
    )


def fitted(step: StepModel, *points: Point) -> FittedTests:
    test = LoadTest(file="sweep.json", reader="vllm", tool="vllm", points=points)
    return fit_tests(step, [("sweep", test)], TERMS, source=SOURCE)


def test_a_prediction_of_a_load_that_was_not_tested_lies_in_its_band(step: StepModel) -> None:
    found = fitted(step, of_replica(step, 2), of_replica(step, 32))
    for clients in (8, 128):
        asked = measurement_of(of_replica(step, clients), TERMS)
        assert isinstance(asked, Measurement)
        prediction = predict(found.step, asked)
        assert all(each.is_inside is not False for each in prediction.latencies)
        assert (prediction.doublings > 0.1) == (clients > 32)


@pytest.mark.slow
def test_bands_are_wider_with_fewer_points_and_further_away(step: StepModel) -> None:
    def width(fit: FittedTests, clients: int) -> float:
        asked = measurement_of(of_replica(step, clients), TERMS)
        assert isinstance(asked, Measurement)
        (found,) = [
            each for each in predict(fit.step, asked).latencies if (each.latency, each.statistic) == ("tpot", "mean")
        ]
        return found.high_s / found.predicted_s

    one, two = fitted(step, of_replica(step, 16)), fitted(step, of_replica(step, 2), of_replica(step, 32))
    assert width(one, 2) > width(two, 2)
    assert width(two, 256) > width(two, 32)
    broken = fitted(step, of_replica(step, 2), of_replica(step, 32, 1.6), of_replica(step, 33, 0.8))
    assert width(broken, 8) > width(two, 8)


@pytest.mark.slow
def test_no_band_near_saturation_ends_below_an_idle_engine(step: StepModel) -> None:
    """A queue that is about to form has no tangent: faster steps have none, and no prompt takes no time."""
    count = 1500
    arrival_s = np.cumsum(np.random.default_rng(0).exponential(1 / 24.0, count))
    loaded = LoadTestReplay(
        prompt_tokens=np.full(count, 1000, np.int32),
        output_tokens=np.full(count, 200, np.int32),
        limits=TERMS.limits,
        arrival_s=arrival_s - arrival_s[0],
    )
    fit = fitted(step, of_replica(step, 2))
    found = predict(fit.step, Measurement(name="24 req/s", trial=loaded, targets=()))
    alone_s = replay(fit.step, trial(point(1))).statistic("ttft", "mean")
    for each in found.latencies:
        if each.latency == "ttft":
            assert 0.5 * alone_s < each.low_s < 0.3 * each.predicted_s
            assert each.high_s > 3.0 * each.predicted_s


@pytest.mark.slow
def test_points_that_do_not_belong_together_are_said_to(step: StepModel) -> None:
    found = fitted(step, of_replica(step, 2), of_replica(step, 16, 2.0), of_replica(step, 32, 0.7))
    names = {each.name for each in found.anomalies}
    assert {"residual", "sweep"} <= names
    (misfit,) = (each.sentence for each in found.anomalies if each.name == "residual")
    assert re.search(r" was [\d.]+ m?s, and [\d.]+ m?s by the fit", misfit)
    assert all(each.sentence in found.step.notes for each in found.anomalies)
    assert not {each.name for each in fitted(step, of_replica(step, 2), of_replica(step, 32)).anomalies}
