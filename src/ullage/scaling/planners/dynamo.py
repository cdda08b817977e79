"""Dynamo's planner, as of its main branch of August 2026 (after 1.4.1), for engines that do both prefill and decode.

    throughput, latency, load    every `load_s`: KV tokens running and queued, and prompt tokens queued, over KV tokens
                                 of the engine. One more where any engine is above the upper threshold, one fewer where
                                 all are below the lower one, nothing while replicas come or go.
    sla                          every `traffic_s`: ceil(predicted requests a second / what an engine carries within
                                 TTFT and ITL); the prediction is the last interval's rate, or a Kalman filter's of
                                 level and trend.

Both stay within the budget of devices and the least number of endpoints. What an engine carries comes from profiles
there, and is what the plan found here. Prefill and decode apart, the load rule that learns a regression from forward
passes, ARIMA and Prophet, and the power budget are not here.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


class DynamoTarget(enum.Enum):
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    LOAD = "load"
    SLA = "sla"


# Above which one is added, below which one is let go.
_THRESHOLDS = {DynamoTarget.THROUGHPUT: (1.0, 0.6), DynamoTarget.LATENCY: (0.4, 0.1)}


@dataclass(frozen=True, kw_only=True)
class DynamoSpec:
    """The planner's configuration, with its defaults. Budgets are devices, -1 for none."""

    target: DynamoTarget = DynamoTarget.THROUGHPUT
    up_fraction: float | None = None
    down_fraction: float | None = None
    load_s: float = 5.0
    traffic_s: float = 180.0
    max_devices: int = 8
    min_devices: int = -1
    engine_devices: int = 1
    least_endpoints: int = 1
    is_kalman: bool = False
    level_noise_value: float = 1.0
    trend_noise_value: float = 0.1
    reading_noise_value: float = 10.0
    min_points: int = 5

    @property
    def least_replicas(self) -> int:
        return self.least_endpoints

    @property
    def most_replicas(self) -> int:
        return 0 if self.max_devices < 0 else max(1, self.max_devices // self.engine_devices)

    @property
    def period_s(self) -> float:
        return self.traffic_s if self.target is DynamoTarget.SLA else self.load_s

    @property
    def thresholds(self) -> tuple[float, float]:
        if self.target is DynamoTarget.LOAD:
            assert self.up_fraction is not None
            assert self.down_fraction is not None
            return self.up_fraction, self.down_fraction
        return _THRESHOLDS[self.target]


@dataclass(frozen=True, kw_only=True)
class TrendFilter:
    """A Kalman filter of level and trend: its state, its covariance, and whether the next step was predicted."""

    level_requests: float = 0.0
    trend_requests: float = 0.0
    p: tuple[float, float, float] = (1000.0, 0.0, 1000.0)
    points: int = 0
    is_ahead: bool = False

    def ahead(self, spec: DynamoSpec) -> TrendFilter:
        """One interval on: x = F x, P = F P F' + Q with F = [1 1; 0 1]."""
        a, b, c = self.p
        return replace(
            self, level_requests=self.level_requests + self.trend_requests, is_ahead=True,
            p=(a + 2.0 * b + c + spec.level_noise_value, b + c, c + spec.trend_noise_value),
        )  # fmt: skip

    def seen(self, value: float, spec: DynamoSpec) -> TrendFilter:
        """With another value of the rate; zeros before the first that is none are not looked at."""
        if self.points == 0:
            return self if value == 0.0 else replace(self, level_requests=value, trend_requests=0.0, points=1)
        at = self if self.is_ahead else self.ahead(spec)
        a, b, c = at.p
        whole = a + spec.reading_noise_value
        level, trend = a / whole, b / whole
        off = value - at.level_requests
        return TrendFilter(
            level_requests=at.level_requests + level * off,
            trend_requests=at.trend_requests + trend * off,
            p=((1.0 - level) * a, (1.0 - level) * b, c - trend * b),
            points=self.points + 1,
        )


@dataclass(frozen=True, kw_only=True)
class DynamoState:
    """The filter of the rate, and when it decides next."""

    filter: TrendFilter = TrendFilter()
    next_s: float = 0.0


def budgeted(spec: DynamoSpec, desired: int) -> int:
    """Within the devices: a hard maximum; a minimum with one engine's tolerance where both are given.

    >>> budgeted(DynamoSpec(max_devices=8, engine_devices=2), 5), budgeted(DynamoSpec(min_devices=6), 3)
    (4, 6)
    """
    total = desired * spec.engine_devices
    if spec.max_devices >= 0 and total > spec.max_devices:
        if spec.max_devices < spec.least_endpoints * spec.engine_devices:
            return 0
        return max(spec.least_endpoints, spec.max_devices // spec.engine_devices)
    tolerance = spec.engine_devices if spec.min_devices >= 0 and spec.max_devices >= 0 else 0
    if spec.min_devices >= 0 and total < spec.min_devices - tolerance:
        return max(spec.least_endpoints, math.ceil(spec.min_devices / spec.engine_devices))
    return desired


def load_target(spec: DynamoSpec, uses: Sequence[float], *, workers: int, expected: int) -> int:
    """By load: `uses` are the shares of engines that report; those that are still expected stop every decision."""
    if not uses or expected not in (0, workers) or len(uses) != workers:
        return expected or workers
    up, down = spec.thresholds
    is_load = spec.target is DynamoTarget.LOAD
    if any(each >= up if is_load else each > up for each in uses):
        wanted = workers + 1
    elif workers > 1 and all(each <= down if is_load else each < down for each in uses):
        wanted = max(workers - 1, spec.least_endpoints)
    else:
        return workers
    return budgeted(spec, max(wanted, spec.least_endpoints))


def traffic_target(spec: DynamoSpec, state: TrendFilter, rate_rps: float, engine_rps: float) -> tuple[TrendFilter, int]:
    """By traffic: the interval's rate in, the replicas for the next interval out. The filter counts requests."""
    requests = rate_rps * spec.traffic_s
    state = state.seen(requests, spec)
    if spec.is_kalman and state.points >= spec.min_points:
        state = state.ahead(spec)
        requests = state.level_requests
    wanted = max(math.ceil(requests / spec.traffic_s / engine_rps), spec.least_endpoints)
    return state, budgeted(spec, wanted)
