"""Load tests of services that are simulated: the steps are known, and a tool wrote down what its clients saw."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np

from ullage.evidence import Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import EngineLimits, Replayed, RequestTimes, replay
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LengthLaw,
    LengthRule,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    Tokens,
)
from ullage.service.stage import calibrated_step
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import MeasuredRange, StepModel, roofline_model

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))
LIMITS = EngineLimits(max_sequences=64, budget_tokens=2048, kv_tokens=400_000)
TERMS = RepeatTerms(limits=LIMITS)
PROMPT, OUTPUT, COUNT = 1024, 100, 300


def estimate() -> StepModel:
    cache = kv_dtype("bf16")
    return roofline_model(
        find_model("llama-3.1-8b"), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=cache
    )


def calibrated(step: StepModel, spread: float = 0.02) -> StepModel:
    """The estimate as if load tests had left it as it is, each factor known to so much."""
    known = FactorSpread(
        covariance=tuple(tuple(spread**2 * (row == column) for column in range(5)) for row in range(5)),
        fit_spreads={"tpot": 0.04, "ttft": 0.1},
        degrees=8,
    )
    tested = MeasuredRange(sequences=64, kv_tokens=100_000, prefill_tokens=PROMPT)
    return calibrated_step(step, Factors(), SOURCE, tested=tested, spread=known)


def offered(rate_rps: float = 4.0, *, cached_fraction: float | None = None, count: int = COUNT) -> Point:
    """A test before it is run: Poisson arrivals, lengths from 80 % of the nominal ones up."""
    return Point(
        name=f"{rate_rps:g} req/s",
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=Loop.OPEN, offered_rps=rate_rps),
        duration_s=None,
        completed_count=count,
        failed_count=0,
        tokens=Tokens(
            nominal_prompt_tokens=PROMPT,
            nominal_output_tokens=OUTPUT,
            prompt_tokens=0.9 * PROMPT * count,
            output_tokens=0.9 * OUTPUT * count,
            rule=LengthRule(law=LengthLaw.UNIFORM, least_fraction=0.8, said_by="a test"),
            cached_fraction=cached_fraction,
        ),
    )


def run(times: RequestTimes, point: Point, *, cached: bool = True, terms: RepeatTerms = TERMS) -> Replayed:
    """What the service makes of the test; without its prefix cache where `cached` is false."""
    trial = trial_of(point, terms)
    assert not isinstance(trial, NotRepeatable)
    return replay(times, trial if cached else replace(trial, cached_tokens=None))


def written(point: Point, seen: Replayed, *, tpot_ratio: float = 1.0, ttft_ratio: float = 1.0) -> Point:
    """The test as a tool writes it down that keeps means and percentiles; ratios are the luck of this run."""

    def summary(definition: Definition, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> LatencySummary:
        at = tuple((each, float(np.quantile(values, each))) for each in (0.5, 0.9, 0.95, 0.99))
        return LatencySummary(
            definition=definition, mean_s=float(values.mean()), percentiles=at, sample_count=values.size
        )

    return replace(
        point,
        completed_count=int(seen.ttft_s.size),
        duration_s=seen.duration_s,
        achieved_rps=seen.ttft_s.size / seen.duration_s,
        output_tokens_per_s=seen.output_tokens_per_s,
        latencies=(
            summary(Definition.TTFT, ttft_ratio * seen.ttft_s),
            summary(Definition.TPOT, tpot_ratio * seen.tpot_s),
            summary(Definition.E2E, tpot_ratio * seen.e2e_s),
        ),
    )
