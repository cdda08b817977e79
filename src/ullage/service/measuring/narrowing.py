"""The replicas that a plan's traffic needs by the tests so far: a number and its range.

All tests are fitted together, as `ullage calibrate` fits them. The number is that of the pool simulated with the
fitted steps. Its range is what the fit leaves open of the steps *where the pool runs*, near the limit of its SLOs:

    spread^2 = s' C s            the factors, by the share s that each has in the device time of a request
             + fit^2 / degrees   how far the tests lie from their fit, over what they are worth
             + (3 % x doublings)^2   the way from the loads that were tested to the one that is planned

Steps at either end of it, each exceeded one time in twenty, are simulated too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.errors import Rejection
from ullage.evidence import Evidence, Source
from ullage.memory.budget import MemoryBudget
from ullage.service.calibration.calibration import ERROR_SPREADS, PRIOR_POINTS, prior_covariance
from ullage.service.calibration.fitted import FittedTests, fit_tests
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.calibration.step_change import MixedRequest, device_time_shares, mixed_request
from ullage.service.curve.quick import needed_replicas
from ullage.service.curve.sizing import idle_rejection
from ullage.service.loadtests.loadtest import LoadTest, MeasuredRequest, Point
from ullage.service.measuring.planned_test import PlannedTest, drawn_load
from ullage.service.replica import Replica
from ullage.service.stage import band_of, mix_of, replica_of, scheduler_limits
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.steps.factor_spread import DISTANCE_SPREADS, FactorSpread
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import MeasuredRange, StepModel
from ullage.service.steps.work import Floats
from ullage.service.trial.bases import bases_of
from ullage.service.trial.decide import BRIEF
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import least_replicas
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import Probe
from ullage.simulate.load import OpenLoop
from ullage.simulate.statistics import t_quantile
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand

TAIL_FRACTION = 0.95
# Spreads of a normal distribution that so many lie beyond on one side.
_ONE_IN_TWENTY, _ONE_IN_TEN = 1.645, 1.2816
# Beyond the loads that anything was tested at, where nothing was: as if at one sequence.
_NOTHING = MeasuredRange(sequences=1, kv_tokens=1, prefill_tokens=1)


@dataclass(frozen=True, kw_only=True)
class PoolUnderTest:
    """What stays the same while a pool is measured: its replica by the estimate, its traffic, its SLOs.

    `replica_usd_per_hour` is None where the plan has no price.
    """

    estimate: StepModel
    memory: MemoryBudget
    demand: Demand
    classes: tuple[RequestClass, ...]
    deadlines_s: Mapping[str, float]
    terms: RepeatTerms
    source: Source
    seed: int
    replica_usd_per_hour: float | None = None
    accepted: tuple[str, ...] = ()

    @property
    def rate_rps(self) -> float:
        return self.demand.planning_rps

    @property
    def devices(self) -> int:
        return self.memory.runtime.sharding.devices

    def mix(self) -> MixLoad:
        return mix_of(self.demand, self.classes, self.replica(self.estimate))

    def replica(self, step: StepModel) -> Replica:
        return replica_of(step, self.memory)

    def load_of(self, test: PlannedTest) -> OpenLoop:
        """What a test sends."""
        return drawn_load(self.mix(), test)


@dataclass(frozen=True, kw_only=True)
class DoneTest:
    """A test that was run, what its tool wrote down, and what it took: device time is wall time times devices."""

    planned: PlannedTest
    result: LoadTest
    wall_s: float
    requests: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """Replicas for the plan's traffic after so many tests, and the ends of their range.

    `spread` and `shares` are what the range comes from, `request` the load they were taken at, `gain_ratio` by how much
    more the replicas grow than the steps do.
    """

    tests: int
    replicas: int
    low_replicas: int
    high_replicas: int
    slow_ratio: float
    gain_ratio: float
    step: StepModel
    fitted: FittedTests | None
    spread: FactorSpread
    tested: MeasuredRange
    request: MixedRequest
    shares: Floats

    @property
    def off_replicas(self) -> int:
        """How far the number may be off, on the side where it may be off more."""
        return max(self.replicas - self.low_replicas, self.high_replicas - self.replicas)


def narrow(pool: PoolUnderTest, done: Sequence[DoneTest], *, map: Any = map) -> Narrowed | Rejection:  # noqa: A002
    """Fit what was measured so far, and size the pool with it; refused where not even an idle replica meets an SLO."""
    fitted = None
    step, spread, tested = pool.estimate, no_tests(), _NOTHING
    if done:
        named = [(each.planned.name, with_hits(each.result, pool.load_of(each.planned))) for each in done]
        fitted = fit_tests(pool.estimate, named, pool.terms, source=pool.source, accepted=pool.accepted)
        step, spread, tested = fitted.step, fitted.calibration.spread, fitted.tested
    bases = bases_of(_trial(pool, step), DEFAULT_BANDS[Evidence.STATED], seed=pool.seed)
    refused = idle_rejection(bases, seed=pool.seed, inputs=(), map=map)
    if refused is not None:
        return refused
    trial, probe = bases.nominal, bases.nominal_probe
    sized = least_replicas(trial, pool.rate_rps, probe, seed=pool.seed, effort=BRIEF, is_bought=False, map=map)
    request = _request(pool, step, sized.replicas)
    shares = device_time_shares(_scaled(step), request)
    slow = _slow_ratio(spread, shares, doublings_to(tested, request)) if done else _estimate_ratio(step)
    centre, low, high = (_needed(trial, probe, ratio, pool, map) for ratio in (1.0, 1.0 / slow, slow))
    # The pool's own size lies somewhere in the last replica; the middle of it stands for all.
    inner = sized.replicas - 0.5
    return Narrowed(
        tests=len(done),
        replicas=sized.replicas,
        low_replicas=min(sized.replicas, max(1, math.ceil(inner * low / centre))),
        high_replicas=max(sized.replicas, math.ceil(inner * high / centre)),
        slow_ratio=slow,
        gain_ratio=max(1.0, math.log(high / low) / (2.0 * math.log(slow))),
        step=step,
        fitted=fitted,
        spread=spread,
        tested=tested,
        request=request,
        shares=shares,
    )


def _slow_ratio(spread: FactorSpread, shares: Floats, doublings: float) -> float:
    return math.exp(t_quantile(TAIL_FRACTION, spread.degrees) * steps_spread(spread, shares, doublings))


def _estimate_ratio(step: StepModel) -> float:
    """How slow an estimate's steps may be, one time in twenty: its own band says it for one time in ten."""
    return float(band_of(step).slow_ratio ** (_ONE_IN_TWENTY / _ONE_IN_TEN))


def no_tests() -> FactorSpread:
    """How far an estimate may be off, before anything was measured."""
    return FactorSpread(
        covariance=tuple(tuple(row) for row in prior_covariance().tolist()),
        fit_spreads={kind: ERROR_SPREADS[kind] for kind in ("tpot", "ttft")},
        degrees=PRIOR_POINTS,
    )


def steps_spread(spread: FactorSpread, shares: Floats, doublings: float) -> float:
    """Of the logarithm of a request's device time."""
    factors = float(shares @ np.array(spread.covariance) @ shares)
    fit = spread.fit_spreads["tpot"] ** 2 / spread.degrees
    return math.sqrt(factors + fit + (DISTANCE_SPREADS["tpot"] * doublings) ** 2)


def doublings_to(tested: MeasuredRange, request: MixedRequest) -> float:
    """How often the tested load would have to double to be the one at which the pool runs."""
    return max(
        0.0, math.log2(request.sequences / tested.sequences), math.log2(max(request.kv_tokens, 1.0) / tested.kv_tokens)
    )


def with_hits(test: LoadTest, sent: OpenLoop) -> LoadTest:
    """The result with the prefix hits that its requests were made for: a tool does not know them, and we do."""
    cached = sent.requests.cached_tokens
    hits = np.zeros(sent.requests.count, np.int64) if cached is None else np.asarray(cached, np.int64)
    share = float(hits.sum()) / float(np.sum(sent.requests.prompt_tokens))
    return replace(test, points=tuple(_point_with_hits(each, hits, share) for each in test.points))


def _point_with_hits(point: Point, hits: np.ndarray[tuple[int], np.dtype[np.int64]], share: float) -> Point:
    def sent_at(place: int) -> float:
        sent_s = point.requests[place].sent_s
        return float(place) if sent_s is None else sent_s

    found: tuple[MeasuredRequest, ...] = point.requests
    if len(found) == hits.size:
        own = list(found)
        for place, count in zip(sorted(range(len(found)), key=sent_at), hits.tolist(), strict=True):
            own[place] = replace(own[place], cached_tokens=count)
        found = tuple(own)
    return replace(point, requests=found, tokens=replace(point.tokens, cached_fraction=share))


def _trial(pool: PoolUnderTest, step: StepModel) -> Trial:
    replica = pool.replica(step)
    return Trial(
        replica=replica,
        load_at=mix_of(pool.demand, pool.classes, replica),
        classes=pool.classes,
        deadlines_s=pool.deadlines_s,
    )


def _scaled(step: StepModel) -> ScaledStep:
    return step.times if isinstance(step.times, ScaledStep) else ScaledStep(times=step, factors=Factors())


def _needed(trial: Trial, probe: Probe, ratio: float, pool: PoolUnderTest, map: Any) -> float:  # noqa: A002
    slowed = Probe(
        saturation_rps=probe.saturation_rps / ratio,
        work_s={name: ratio * each for name, each in probe.work_s.items()},
        idle_e2e_s=ratio * probe.idle_e2e_s,
    )
    return needed_replicas(trial.with_steps(ratio), slowed, rate_rps=pool.rate_rps, seed=pool.seed, map=map)


def _request(pool: PoolUnderTest, step: StepModel, replicas: int) -> MixedRequest:
    drawn = pool.mix()(rate_rps=20.0, span_s=120.0, seed=pool.seed).requests
    return mixed_request(
        step,
        prompt_tokens=float(drawn.prompt_tokens.mean()),
        cached_tokens=0.0 if drawn.cached_tokens is None else float(drawn.cached_tokens.mean()),
        output_tokens=float(drawn.output_tokens.mean()),
        rate_rps=pool.rate_rps / replicas,
        most=scheduler_limits(pool.memory)[0],
    )
