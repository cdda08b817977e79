"""The scaling rule of a plan: derived from ramp rate and time to ready, chosen, and as manifests are written from it.

    u         = min over hours of  rate / (rate + ramp rate x (lag + time to ready))
    threshold = u x requests in flight on a replica at the rate it was sized for
    minimum   = as stated, or replicas for the quietest hour at that use, two at least
    maximum   = replicas of the fixed fleet, reserves that serve included
    window    = down no sooner than a replica would take to come back

A replica that is asked for when the threshold is passed is ready one lag and one time to ready later; until then the
others take what the ramp adds. `RuleChoice` holds every value that can be chosen otherwise, by the plan file or by a
search; whatever a rule is played with and written from is made from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.hpa import SYNC_S
from ullage.scaling.keda import KedaSpec
from ullage.scaling.loop import ScalingPool
from ullage.scaling.published_rules import IN_FLIGHT, tracking_rule
from ullage.scaling.rules import ScalingRule

Floats = NDArray[np.float64]

# The shortest and the longest window on the way down: HPA's own default, and the most that it allows.
LEAST_DOWN_S, MOST_DOWN_S = 300.0, 3600.0
# What each engine exports of the requests that run and wait.
_IN_FLIGHT = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    "tensorrt-llm": ("trtllm_num_requests_running", "trtllm_num_requests_waiting"),
}


@dataclass(frozen=True, kw_only=True)
class RuleChoice:
    """A rule of ours by its values, and the warm levels behind it.

    `floor_fraction` of what an hour of the week is expected to need is held by the clock; 0 is no schedule. An empty
    node is held for `node_held_s`, so that what returns starts warm; `sleepers` start hot.
    """

    threshold_value: float
    least_replicas: int
    most_replicas: int
    down_s: float
    window_s: float = IN_FLIGHT.window_s
    floor_fraction: float = 0.0
    node_held_s: float = 0.0
    sleepers: int = 0
    fallback_replicas: int = 0

    def rule(self, hourly_rps: Sequence[float] = (), each_rps: float = math.inf) -> ScalingRule:
        """As it is played and written; the schedule is made from the rates of the week's hours."""
        return tracking_rule(
            "ullage",
            self.threshold_value,
            least=self.least_replicas,
            most=self.most_replicas,
            up_s=0.0,
            down_s=self.down_s,
            window_s=self.window_s,
            schedule=self._schedule(np.asarray(hourly_rps, np.float64), each_rps),
            fallback_replicas=self.fallback_replicas,
        )

    def _schedule(self, hourly_rps: Floats, each_rps: float) -> tuple[int, ...]:
        """Replicas by hour of week: what the hour and the one that begins within a start need. Hours in which that is
        no more than the minimum ask for nothing, which is one replica to KEDA's clock."""
        if not self.floor_fraction or not hourly_rps.size:
            return ()
        ahead = np.maximum(hourly_rps, np.roll(hourly_rps, -1))
        needed = np.ceil(self.floor_fraction * ahead / each_rps - 1e-9).astype(int)
        hours = [min(int(each), self.most_replicas) for each in needed]
        return tuple(each if each > self.least_replicas else 1 for each in hours)

    def behind(self, pool: ScalingPool) -> ScalingPool:
        """The pool with these warm levels."""
        limits = replace(pool.limits, node_held_s=self.node_held_s, sleepers=self.sleepers)
        return pool if limits == pool.limits else replace(pool, limits=limits)

    def settings(self) -> Mapping[str, str]:
        """As the `scaling` section of a plan file states them."""
        found = {
            "threshold": f"{self.threshold_value:.7g}",
            "least": str(self.least_replicas),
            "most": str(self.most_replicas),
            "down_window": f"{self.down_s:g}s",
            "node_held": f"{self.node_held_s:g}s",
        }
        if self.window_s != IN_FLIGHT.window_s:
            found["window"] = f"{self.window_s:g}s"
        if self.floor_fraction:
            found["floor"] = f"{100.0 * self.floor_fraction:g}%"
        if self.sleepers:
            found["sleepers"] = str(self.sleepers)
        return found


@dataclass(frozen=True, kw_only=True)
class DerivedRule:
    """The thresholds as a formula with its numbers; `hour_index` is the hour of the week that decided."""

    ramp_rps_per_s: float
    rate_rps: float
    hour_index: int
    lag_s: float
    ready_s: float
    in_flight_requests: float
    use_fraction: float
    least_replicas: int
    most_replicas: int
    fallback_replicas: int = 0

    @property
    def threshold_value(self) -> float:
        """In whole thousandths, the finest that a cluster counts in: what is tried is what can be written."""
        return max(0.001, round(self.use_fraction * self.in_flight_requests, 3))

    @property
    def down_s(self) -> float:
        """A replica is not let go for less time than one takes to come back."""
        return min(max(SYNC_S * math.ceil(self.ready_s / SYNC_S), LEAST_DOWN_S), MOST_DOWN_S)

    @property
    def formula(self) -> str:
        """With the numbers put in."""
        return (
            f"{self.rate_rps:.3g} / ({self.rate_rps:.3g} + {3600 * self.ramp_rps_per_s:.3g} req/s an hour x "
            f"({self.lag_s:.0f} s + {self.ready_s:.0f} s)) x {self.in_flight_requests:.3g} = {self.threshold_value:.3g}"
        )

    def choice(self, pool: ScalingPool) -> RuleChoice:
        """The derived values, with the warm levels that the platform has."""
        return RuleChoice(
            threshold_value=self.threshold_value,
            least_replicas=self.least_replicas,
            most_replicas=self.most_replicas,
            down_s=self.down_s,
            node_held_s=pool.limits.node_held_s,
            sleepers=pool.limits.sleepers,
            fallback_replicas=self.fallback_replicas,
        )


def derive_rule(
    rates_rps: Floats,
    *,
    each_rps: float,
    in_flight_requests: float,
    lag_s: float,
    ready_s: float,
    most: int,
    least: int = 0,
    fallback_replicas: int = 0,
) -> DerivedRule:
    """From the expected rates of consecutive hours; `fallback_replicas` are held where the metric is gone.

    `least` is a minimum that was stated, 0 where none was. An hour in which nobody comes has no load that a threshold
    could be part of: what begins after it is the minimum's, until the first replica that it asks for is ready.
    """
    ramps = np.maximum(0.0, np.roll(rates_rps, -1) - rates_rps) / 3600.0
    if rates_rps.size == 1:
        ramps = np.zeros(1)
    served = rates_rps > 0.0
    uses = np.where(served, rates_rps / np.maximum(rates_rps + ramps * (lag_s + ready_s), 1e-300), np.inf)
    hour = int(np.argmin(uses))
    use = float(uses[hour])
    begun_rps = float(ramps[~served].max(initial=0.0)) * (lag_s + ready_s)
    quiet = math.ceil(max(float(rates_rps.min()), begun_rps) / (use * each_rps) - 1e-9)
    return DerivedRule(
        ramp_rps_per_s=float(ramps[hour]),
        rate_rps=float(rates_rps[hour]),
        hour_index=hour,
        lag_s=lag_s,
        ready_s=ready_s,
        in_flight_requests=in_flight_requests,
        use_fraction=use,
        least_replicas=max(1, min(least or max(quiet, 2), most)),
        most_replicas=most,
        fallback_replicas=fallback_replicas,
    )


def rule_lag_s(pool: ScalingPool) -> float:
    """From a change to the decision: half a scrape, its delay, half the window, half a sync."""
    return pool.signals.scrape_s / 2.0 + pool.signals.delay_s + IN_FLIGHT.window_s / 2.0 + SYNC_S / 2.0


@dataclass(frozen=True, kw_only=True)
class ScalingPlan:
    """What an emitter needs and nothing else. `threshold_value` is so much of the summed metrics for each replica;
    `schedule` replicas by hour of week."""

    signal: str
    metrics: tuple[str, ...]
    threshold_value: float
    least_replicas: int
    most_replicas: int
    window_s: float
    up_window_s: float
    down_window_s: float
    polling_s: float
    tolerance_fraction: float
    fallback_replicas: int
    schedule: tuple[int, ...] = ()

    @property
    def query(self) -> str:
        """The PromQL that the threshold is about."""
        return " + ".join(f"sum(avg_over_time({each}[{self.window_s:.0f}s]))" for each in self.metrics)


def scaling_plan(rule: ScalingRule, *, engine: str) -> ScalingPlan:
    """A rule of ours as this value; without a fallback it is blind with all that may run."""
    spec = rule.spec
    assert isinstance(spec, KedaSpec)
    assert spec.behavior is not None
    query = rule.queries["in-flight"]
    return ScalingPlan(
        signal=query.label,
        metrics=_IN_FLIGHT.get(engine, _IN_FLIGHT["vllm"]),
        threshold_value=spec.triggers[0].threshold_value,
        least_replicas=spec.least_replicas,
        most_replicas=spec.most_replicas,
        window_s=query.window_s,
        up_window_s=spec.behavior.up.window_s,
        down_window_s=spec.behavior.down.window_s,
        polling_s=spec.polling_s,
        tolerance_fraction=spec.behavior.up.tolerance_fraction,
        fallback_replicas=spec.most_replicas if spec.fallback is None else spec.fallback.replicas,
        schedule=rule.schedule,
    )
