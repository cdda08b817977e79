"""The next test, or why to stop: a function of what was measured and what may still be spent, and of nothing else.

The first test is the low load, which also shows that the tool and the endpoint work. After it every candidate is
simulated at the fitted steps; how its latencies would move with each factor says how much it would narrow the range of
replicas, and the one that narrows most for the device time it takes is next. That is a step of few sequences against
one of many first, prompts computed whole and long prompts where prefill is what is unknown, and loads around the knee.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ullage.service.calibration.calibration import ERROR_SPREADS, Measurement, Target, sensitivity
from ullage.service.measuring.narrowing import (
    TAIL_FRACTION,
    DoneTest,
    Narrowed,
    PoolUnderTest,
    doublings_to,
    steps_spread,
)
from ullage.service.measuring.planned_test import (
    LEAST_REQUESTS,
    PlannedTest,
    TestShape,
    drawn_load,
    replay_of,
    requests_at,
)
from ullage.service.steps.scaled import PARAMETERS, ScaledStep
from ullage.service.steps.step_model import MeasuredRange
from ullage.service.steps.work import Floats
from ullage.simulate.statistics import t_quantile

LOW_FRACTION = 0.2
# Loads of one replica, as parts of what it carries when the pool is just large enough.
KNEE_FRACTIONS = (0.8, 1.0, 1.1)
_NO_PREFIX_FRACTION, _LONG_FRACTION = 0.5, 0.15
# Less than this a test is not worth its device time: a twentieth of a replica.
LEAST_GAIN_REPLICAS = 0.05
# What a tool takes to start and a replica to finish, beside the requests themselves.
OVERHEAD_S = 30.0
# So many requests tell how latencies move with a factor.
_LOOKED_AT = 200


@dataclass(frozen=True, kw_only=True)
class Spend:
    """Wall time of tests, requests, tokens and money: as a bound, or as what was spent. No price, no money."""

    wall_s: float
    requests: int
    tokens: int
    usd: float | None

    def plus(self, other: Spend) -> Spend:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Spend(
            wall_s=self.wall_s + other.wall_s,
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            usd=usd,
        )


@dataclass(frozen=True, kw_only=True)
class MeasureState:
    """All that the choice depends on. `within_replicas` is how far off a decided number may be."""

    pool: PoolUnderTest
    done: tuple[DoneTest, ...]
    narrowed: Narrowed
    bound: Spend
    spent: Spend
    within_replicas: int = 1


@dataclass(frozen=True, kw_only=True)
class ChosenTest:
    """The next test, what it is expected to take, and why it was chosen."""

    test: PlannedTest
    expected: Spend
    why: str


@dataclass(frozen=True, kw_only=True)
class MeasureStop:
    """Why there is no next test; `is_decided` where the number of replicas is known well enough."""

    is_decided: bool
    why: str


def choose(state: MeasureState) -> ChosenTest | MeasureStop:
    """The next test, or why to stop."""
    found = state.narrowed
    if state.done and found.off_replicas <= state.within_replicas:
        return MeasureStop(
            is_decided=True,
            why=f"{found.replicas} replicas are decided: at most {found.off_replicas} off, with 95 % confidence on "
            "either "
            "side",
        )
    spent = [name for name, left in _left(state).items() if left <= 0.0]
    if spent:
        return MeasureStop(is_decided=False, why=f"the bound on {', '.join(spent)} is reached")
    candidates = list(_candidates(state))
    fitting = [each for each in candidates if not _over(state, expected_spend(state.pool, each))]
    if not fitting:
        names = sorted({name for each in candidates for name in _over(state, expected_spend(state.pool, each))})
        return MeasureStop(is_decided=False, why=f"no further test fits within the bound on {', '.join(names)}")
    if not state.done:
        return _chosen(state, fitting[0], "low load first: the step of few sequences, and whether the tool works")
    gains = [_gain_replicas(state, each) for each in fitting]
    best = max(range(len(fitting)), key=lambda at: gains[at] / expected_spend(state.pool, fitting[at]).wall_s)
    if max(gains) < LEAST_GAIN_REPLICAS:
        return MeasureStop(
            is_decided=False,
            why=f"no test would narrow {found.low_replicas} to {found.high_replicas} replicas by "
            f"{LEAST_GAIN_REPLICAS:g} more",
        )
    why = f"narrows the range by about {gains[best]:.2g} replicas for its device time, more than any other"
    return _chosen(state, fitting[best], why)


def expected_spend(pool: PoolUnderTest, test: PlannedTest) -> Spend:
    """What a test takes: its requests and their tokens are known, its time is that of its arrivals and a little."""
    drawn = pool.load_of(test).requests
    wall_s = test.span_s + OVERHEAD_S
    price = pool.replica_usd_per_hour
    return Spend(
        wall_s=wall_s,
        requests=drawn.count,
        tokens=int(drawn.prompt_tokens.sum()) + int(drawn.output_tokens.sum()),
        usd=None if price is None else price * wall_s / 3600.0,
    )


def _chosen(state: MeasureState, test: PlannedTest, why: str) -> ChosenTest:
    return ChosenTest(test=test, expected=expected_spend(state.pool, test), why=why)


def _left(state: MeasureState) -> dict[str, float]:
    bound, spent = state.bound, state.spent
    found = {
        "time": bound.wall_s - spent.wall_s,
        "requests": float(bound.requests - spent.requests),
        "tokens": float(bound.tokens - spent.tokens),
    }
    if bound.usd is not None and spent.usd is not None:
        found["money"] = bound.usd - spent.usd
    return found


def _over(state: MeasureState, expected: Spend) -> list[str]:
    """The bounds that a test would exceed."""
    left = _left(state)
    asked = {"time": expected.wall_s, "requests": expected.requests, "tokens": expected.tokens, "money": expected.usd}
    return [name for name, each in asked.items() if each is not None and name in left and each > left[name]]


def _candidates(state: MeasureState) -> Iterator[PlannedTest]:
    """Low load first, then those around the knee, then the two that tell prefill; seeds are of their place."""
    found, pool = state.narrowed, state.pool
    knee_rps = pool.rate_rps / found.replicas
    # Until something was measured the replica may be slower than estimated, and a test in overload says little.
    sure_rps = pool.rate_rps / found.high_replicas
    cached = pool.mix()(rate_rps=5.0, span_s=60.0, seed=pool.seed).requests.cached_tokens
    loads = [("low", TestShape.MIX, LOW_FRACTION * sure_rps)]
    loads += [(f"knee {part:g}", TestShape.MIX, part * min(knee_rps, 1.1 * sure_rps)) for part in KNEE_FRACTIONS]
    if cached is not None and bool(np.any(cached)):
        loads.append(("no prefix", TestShape.NO_PREFIX, _NO_PREFIX_FRACTION * sure_rps))
    loads.append(("long prompts", TestShape.LONG, _LONG_FRACTION * sure_rps))
    at = len(state.done)
    for name, shape, rate_rps in loads:
        test = PlannedTest(
            name=f"{at + 1} {name}",
            shape=shape,
            rate_rps=float(f"{rate_rps:.4g}"),
            requests=requests_at(rate_rps),
            seed=pool.seed + 1 + at,
        )
        yield _shortened(state, test)


def _shortened(state: MeasureState, test: PlannedTest) -> PlannedTest:
    """A test that the time left would cut off is made shorter, as long as enough requests remain."""
    left_s = _left(state)["time"] - OVERHEAD_S
    if test.span_s <= left_s:
        return test
    return replace(test, requests=max(LEAST_REQUESTS, math.floor(left_s * test.rate_rps)))


def _gain_replicas(state: MeasureState, test: PlannedTest) -> float:
    """By how much the range of replicas would shrink, on its wider side."""
    found = state.narrowed
    after = _covariance_after(state, test)
    reached = _reached(state, test)
    spread = replace(
        found.spread, covariance=tuple(tuple(row) for row in after.tolist()), degrees=found.spread.degrees + 1
    )
    now = math.log(found.slow_ratio)
    then = steps_spread(spread, found.shares, doublings_to(reached, found.request))
    narrower = now - t_quantile(TAIL_FRACTION, spread.degrees) * then
    return max(0.0, found.gain_ratio * found.replicas * narrower)


def _covariance_after(state: MeasureState, test: PlannedTest) -> Floats:
    step = state.narrowed.step
    times = step.times if isinstance(step.times, ScaledStep) else None
    base = step if times is None else times.times
    logs = np.zeros(len(PARAMETERS)) if times is None else np.array([times.factors.log(each) for each in PARAMETERS])
    load = drawn_load(state.pool.mix(), test)
    asked = Measurement(
        name=test.name,
        trial=replay_of(load, state.pool.terms.limits, most=_LOOKED_AT),
        targets=tuple(Target(latency=each, statistic="mean", value=1.0) for each in ("ttft", "tpot")),
    )
    _, slopes = sensitivity(base, step.floor, logs, asked)
    known = slopes[np.isfinite(slopes).all(axis=1)]
    spreads = np.array([[ERROR_SPREADS["ttft"]], [ERROR_SPREADS["tpot"]]])[: known.shape[0]]
    weighted = known / spreads
    precision = np.linalg.inv(np.array(state.narrowed.spread.covariance)) + weighted.T @ weighted
    covariance: Floats = np.linalg.inv(precision)
    return covariance


def _reached(state: MeasureState, test: PlannedTest) -> MeasuredRange:
    """What would have been tested: the load of the plan's own request at the test's rate, by Little's law."""
    found = state.narrowed
    knee_rps = state.pool.rate_rps / found.replicas
    part = min(1.0, test.rate_rps / knee_rps) if test.shape is TestShape.MIX else 0.0
    sequences = max(found.tested.sequences, math.ceil(part * found.request.sequences))
    kv_tokens = max(found.tested.kv_tokens, math.ceil(part * found.request.kv_tokens))
    return replace(found.tested, sequences=sequences, kv_tokens=kv_tokens)


class Taken(Protocol):
    """A test, or the record of one, by what it took."""

    @property
    def wall_s(self) -> float: ...
    @property
    def requests(self) -> int: ...
    @property
    def tokens(self) -> int: ...


def spent_by(done: Sequence[Taken], price_usd_per_hour: float | None) -> Spend:
    """What the tests so far took, those that failed or never ended too where they are among them."""
    wall_s = sum(each.wall_s for each in done)
    return Spend(
        wall_s=wall_s,
        requests=sum(each.requests for each in done),
        tokens=sum(each.tokens for each in done),
        usd=None if price_usd_per_hour is None else price_usd_per_hour * wall_s / 3600.0,
    )
