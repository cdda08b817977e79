"""The scaling rule of a plan as a small value that manifests, alerts and pages can be written from.

`ScalingPlan` is what an emitter needs and nothing else: which metric, how much of it for each replica, between which
numbers of replicas, over which windows, and what to fall back on when the metric is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.scaling.keda import KedaSpec
from ullage.scaling.rules import ScalingRule

# What each engine exports of the requests that run and wait.
_IN_FLIGHT = {
    "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
    "tensorrt-llm": ("trtllm_num_requests_running", "trtllm_num_requests_waiting"),
}


@dataclass(frozen=True, kw_only=True)
class ScalingPlan:
    """`threshold_value` is so much of the summed metrics for each replica; `schedule` replicas by hour of week."""

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
