"""Services whose step times are known and hidden: a chooser measures them, and the simulator answers as the service."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from ullage.errors import Rejection
from ullage.evidence import Source
from ullage.load.pool import load_pool
from ullage.service.calibration.calibration import prior_covariance
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.calibration.replay import replay
from ullage.service.loadtests.loadtest import (
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.measuring.choose import ChosenTest, MeasureState, MeasureStop, Spend, choose, spent_by
from ullage.service.measuring.narrowing import DoneTest, Narrowed, PoolUnderTest, narrow
from ullage.service.measuring.planned_test import PlannedTest, replay_of
from ullage.service.stage import calibrated_step
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import StepModel

DAY = datetime.date(2026, 11, 16)
SOURCE = Source(what="a simulated world", where="here", date=DAY)
USD_PER_HOUR = 8.0
# Published repeats of one run differ by so much, as spreads of a logarithm.
LUCK = {"tpot": 0.025, "ttft": 0.06}
HOUR = Spend(wall_s=3600.0, requests=20_000, tokens=100_000_000, usd=50.0)


def plan_file(rate: str) -> dict[str, Any]:
    return {
        "version": 1,
        "service": "world",
        "dated": "2026-11-15",
        "workload": {
            "classes": [
                {"name": "chat", "rate": rate, "longest_context": 8192, "slo": {"ttft_p95": "2s", "tpot_p95": "60ms"}}
            ]
        },
        "pool": {"model": "qwen3-32b", "device": "h100-sxm", "tensor_parallel": 2, "engine": "vllm"},
    }


def world_pool(rate: str = "12 req/s", plan: Mapping[str, Any] | None = None) -> PoolUnderTest:
    found = load_pool(plan or plan_file(rate), as_of=DAY)
    assert not isinstance(found, Rejection)
    memory = found.memory
    return PoolUnderTest(
        estimate=pool_step(memory),
        memory=memory,
        demand=found.demand,
        classes=found.classes,
        deadlines_s=found.deadlines_s,
        terms=RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens)),
        source=SOURCE,
        seed=0,
        replica_usd_per_hour=USD_PER_HOUR,
    )


def hidden_steps(pool: PoolUnderTest, rng: Generator) -> StepModel:
    """The estimate, off as estimates are: its factors are drawn from what is known of their errors."""
    logs = rng.multivariate_normal(np.zeros(5), prior_covariance())
    return calibrated_step(pool.estimate, Factors.of_logs(logs), SOURCE)


def run_test(pool: PoolUnderTest, hidden: StepModel, test: PlannedTest, rng: Generator) -> DoneTest:
    """What a tool writes down of the service: every request, with the luck of this run."""
    trial = replay_of(pool.load_of(test), pool.terms.limits)
    seen = replay(hidden, trial)
    tpot, ttft = (float(np.exp(LUCK[each] * rng.standard_normal())) for each in ("tpot", "ttft"))
    assert trial.arrival_s is not None
    first = ttft * seen.ttft_s
    requests = tuple(
        MeasuredRequest(
            status=Status.OK,
            sent_s=sent,
            ttft_s=begun,
            e2e_s=begun + gaps,
            prompt_tokens=prompt,
            output_tokens=output,
        )
        for sent, begun, gaps, prompt, output in zip(
            trial.arrival_s.tolist(),
            first.tolist(),
            (tpot * (seen.e2e_s - seen.ttft_s)).tolist(),
            trial.prompt_tokens.tolist(),
            trial.output_tokens.tolist(),
            strict=True,
        )
    )
    point = Point(
        name="run 1",
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=Loop.OPEN, offered_rps=test.rate_rps),
        duration_s=seen.duration_s,
        completed_count=len(requests),
        failed_count=0,
        tokens=Tokens(),
        requests=requests,
    )
    tokens = int(trial.prompt_tokens.sum()) + int(trial.output_tokens.sum())
    return DoneTest(
        planned=test,
        result=LoadTest(file=f"{test.name}.json", reader="vllm", tool="vllm bench serve", points=(point,)),
        wall_s=seen.duration_s,
        requests=len(requests),
        tokens=tokens,
    )


@dataclass(frozen=True, kw_only=True)
class MeasuredWorld:
    """A service that was measured to the end: what was found after each test, and why it stopped."""

    narrowings: tuple[Narrowed, ...]
    done: tuple[DoneTest, ...]
    stop: MeasureStop


def measured_world(
    pool: PoolUnderTest, hidden: StepModel, rng: Generator, *, bound: Spend = HOUR, within_replicas: int = 1
) -> MeasuredWorld:
    state = MeasureState(
        pool=pool,
        done=(),
        narrowed=narrowed_by(pool, ()),
        bound=bound,
        spent=spent_by((), pool.replica_usd_per_hour),
        within_replicas=within_replicas,
    )
    narrowings = [state.narrowed]
    while True:
        found = choose(state)
        if isinstance(found, MeasureStop):
            return MeasuredWorld(narrowings=tuple(narrowings), done=state.done, stop=found)
        assert isinstance(found, ChosenTest)
        done = (*state.done, run_test(pool, hidden, found.test, rng))
        narrowed = narrowed_by(pool, done)
        narrowings.append(narrowed)
        state = replace(state, done=done, narrowed=narrowed, spent=spent_by(done, pool.replica_usd_per_hour))


def narrowed_by(pool: PoolUnderTest, done: tuple[DoneTest, ...]) -> Narrowed:
    found = narrow(pool, done)
    assert isinstance(found, Narrowed), "these services can meet their SLOs"
    return found


def true_replicas(pool: PoolUnderTest, hidden: StepModel) -> int | None:
    """What the pool needs with the steps that it really has; None where no number would do."""
    found = narrow(replace(pool, estimate=hidden), ())
    return found.replicas if isinstance(found, Narrowed) else None
