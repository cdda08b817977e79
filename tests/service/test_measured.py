"""Measured points beside a curve: a test of the model itself lies on it, and one of another machine is an anomaly."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.calibration.measured import MeasuredPoint, measured_points
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, Replayed, replay
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.stage import calibrated_step
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import MeasuredRange, StepModel, roofline_model
from ullage.workload.classes import Metric, RequestClass, Slo

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))
LIMITS = EngineLimits(max_sequences=64, budget_tokens=2048, kv_tokens=400_000)
PROMPT, OUTPUT, CLIENTS, COUNT = 512, 100, 8, 80
CHAT = RequestClass(
    name="chat",
    slos=(
        Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=1.0),
        Slo(metric=Metric.TPOT, percentile_fraction=0.95, limit_s=0.05),
    ),
)


@pytest.fixture(scope="module")
def step() -> StepModel:
    cache = kv_dtype("bf16")
    return roofline_model(
        find_model("llama-3.1-8b"), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=cache
    )


@pytest.fixture(scope="module")
def replayed(step: StepModel) -> Replayed:
    trial = LoadTestReplay(
        prompt_tokens=np.full(COUNT, PROMPT, np.int32),
        output_tokens=np.full(COUNT, OUTPUT, np.int32),
        limits=LIMITS,
        clients=CLIENTS,
    )
    return replay(step, trial)


def point(replayed: Replayed, ratio: float = 1.0, **changes: object) -> Point:
    """A closed-loop test with the latencies of a replay, times a ratio."""

    def summary(definition: Definition, latency: str) -> LatencySummary:
        at = tuple((each / 100, ratio * replayed.statistic(latency, f"p{each}")) for each in (50, 95))
        return LatencySummary(definition=definition, mean_s=ratio * replayed.statistic(latency, "mean"), percentiles=at)

    settings: dict[str, object] = {
        "name": "run",
        "subject": LoadTestSubject(),
        "load": OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=CLIENTS),
        "duration_s": replayed.duration_s,
        "completed_count": COUNT,
        "failed_count": 0,
        "achieved_rps": COUNT / replayed.duration_s,
        "tokens": Tokens(prompt_tokens=COUNT * PROMPT, output_tokens=COUNT * OUTPUT),
        "latencies": (summary(Definition.TTFT, "ttft"), summary(Definition.TPOT, "tpot")),
    }
    return Point(**{**settings, **changes})  # type: ignore[arg-type]


def fitted(step: StepModel) -> StepModel:
    """The estimate as if load tests had left it as it is."""
    spread = FactorSpread(
        covariance=tuple(tuple(0.0004 * (row == column) for column in range(5)) for row in range(5)),
        fit_spreads={"tpot": 0.04, "ttft": 0.1},
        degrees=8,
    )
    tested = MeasuredRange(sequences=64, kv_tokens=100_000, prefill_tokens=2_000)
    return calibrated_step(step, Factors(), SOURCE, tested=tested, spread=spread)


def beside(step: StepModel, *points: Point, evidence: Evidence = Evidence.CALIBRATED) -> tuple[MeasuredPoint, ...]:
    return measured_points(
        [(each.name, each) for each in points],
        fitted(step) if evidence is Evidence.CALIBRATED else step,
        RepeatTerms(limits=LIMITS),
        classes=(CHAT,),
        mix_tokens=(float(PROMPT), float(OUTPUT)),
    )


def test_a_test_of_the_model_itself_has_no_residual(step: StepModel, replayed: Replayed) -> None:
    (found,) = beside(step, point(replayed))
    assert [each.ratio for each in found.residuals] == pytest.approx([1.0, 1.0])
    assert not found.anomalies
    assert found.is_like_mix
    assert found.use_ratio == pytest.approx(
        max(replayed.statistic("ttft", "p95") / 1.0, replayed.statistic("tpot", "p95") / 0.05)
    )


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_test_of_another_machine_is_a_finding_that_names_both_sides(
    step: StepModel, replayed: Replayed, ratio: float
) -> None:
    (found,) = beside(step, point(replayed, ratio))
    assert {each.latency for each in found.residuals if each.is_outside} == {"ttft", "tpot"}
    assert all("its band allows" in sentence for sentence in found.anomalies)


def test_weaker_evidence_forgives_more(step: StepModel, replayed: Replayed) -> None:
    slower = point(replayed, 1.3)
    (known,), (guessed,) = beside(step, slower), beside(step, slower, evidence=Evidence.ESTIMATED)
    for narrow, wide in zip(known.residuals, guessed.residuals, strict=True):
        assert wide.low_s <= narrow.low_s <= narrow.simulated_s <= narrow.high_s <= wide.high_s
    assert len(guessed.anomalies) < len(known.anomalies)


def test_a_point_that_cannot_be_repeated_is_kept_with_its_reason(step: StepModel, replayed: Replayed) -> None:
    (found,) = beside(step, point(replayed, load=OfferedLoad(loop=Loop.CLOSED)))
    assert found.residuals == ()
    assert found.reason is not None
    assert "concurrency" in found.reason


def test_other_lengths_are_reported(step: StepModel, replayed: Replayed) -> None:
    (found,) = beside(step, point(replayed, tokens=Tokens(prompt_tokens=COUNT * 64, output_tokens=COUNT * OUTPUT)))
    assert not found.is_like_mix


def test_a_percentile_that_the_file_lacks_is_counted_from_its_requests(step: StepModel, replayed: Replayed) -> None:
    requests = tuple(
        MeasuredRequest(
            status=Status.OK, sent_s=0.1 * place, ttft_s=0.01 * place, prompt_tokens=PROMPT, output_tokens=OUTPUT
        )
        for place in range(COUNT)
    )
    bare = (LatencySummary(definition=Definition.TTFT, mean_s=0.4),)
    (found,) = beside(step, point(replayed, requests=requests, latencies=bare, load=OfferedLoad(loop=Loop.TRACE)))
    assert found.use_of == "chat ttft_p95"
    assert found.use_ratio == pytest.approx(float(np.quantile([0.01 * place for place in range(COUNT)], 0.95)))
