"""Rules that people copy, as they are published, and the rule of a plan made into one that can be tried.

cpu-hpa      HPA on the busy share of the engine's process at 80 %: what `kubectl autoscale` gives
queue-2      two waiting requests for each replica, as in many posts and as llm-d's saturation default
kv-80        KV cache use at 80 % of each replica
keda-queue   KEDA on five waiting requests for each replica, polled every 15 s: the vLLM production stack's example
keda-kv      KEDA on KV use at 60 % or 30 waiting requests: llm-d's script
llm-d        the workload variant autoscaler with its defaults, an HPA behind it
dynamo       Dynamo's planner with its defaults: KV use of 100 % and 60 %
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ullage.scaling.hpa import (
    DOWN_RULES,
    HpaMetric,
    HpaSpec,
    MetricKind,
    PolicyKind,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
)
from ullage.scaling.keda import FallbackBehavior, KedaFallback, KedaSpec, KedaTrigger
from ullage.scaling.planners.dynamo import DynamoSpec
from ullage.scaling.planners.variant import VariantSpec, follower
from ullage.scaling.rules import ScalingRule
from ullage.scaling.signals import Aggregate, MetricQuery, Signal

WAITING = MetricQuery(signals=(Signal.WAITING,), aggregate=Aggregate.SUM)
IN_FLIGHT = MetricQuery(signals=(Signal.RUNNING, Signal.WAITING), aggregate=Aggregate.SUM, window_s=30.0)
KV_MEAN = MetricQuery(signals=(Signal.KV_USE,), aggregate=Aggregate.MEAN)
KV_SUM = MetricQuery(signals=(Signal.KV_USE,), aggregate=Aggregate.SUM)
BUSY = MetricQuery(signals=(Signal.BUSY,), aggregate=Aggregate.MEAN, window_s=60.0)
RATE = MetricQuery(signals=(Signal.REQUEST_RATE,), aggregate=Aggregate.SUM, window_s=60.0)
SCHEDULE = "schedule"
"""The trigger of a rule that also follows the clock (KEDA's cron): replicas by hour of week."""
# One replica is what KEDA's clock says outside its hours, and does not keep a target from zero.
CLOCK = KedaTrigger(name=SCHEDULE, threshold_value=1.0, activation_value=1.0)
FALLBACK_FAILURES = 3
"""One failed query is a restart of Prometheus; after more than three the fleet is blind."""


def common_rules(most: int, *, least: int = 1) -> tuple[ScalingRule, ...]:
    """The listed rules within these bounds."""
    bounds: dict[str, Any] = {"least_replicas": least, "most_replicas": most}
    return (
        ScalingRule(
            name="cpu-hpa",
            spec=HpaSpec(metrics=(HpaMetric(kind=MetricKind.RESOURCE, target_value=80, signal="cpu"),), **bounds),
            queries={"cpu": BUSY},
        ),
        ScalingRule(
            name="queue-2",
            spec=HpaSpec(metrics=(HpaMetric(kind=MetricKind.AVERAGE, target_value=2000, signal="queue"),), **bounds),
            queries={"queue": WAITING},
        ),
        ScalingRule(
            name="kv-80",
            spec=HpaSpec(metrics=(HpaMetric(kind=MetricKind.PODS, target_value=800, signal="kv"),), **bounds),
            queries={"kv": KV_MEAN},
        ),
        ScalingRule(
            name="keda-queue",
            spec=KedaSpec(triggers=(KedaTrigger(name="queue", threshold_value=5.0),), polling_s=15.0, **bounds),
            queries={"queue": WAITING},
        ),
        ScalingRule(
            name="keda-kv",
            spec=KedaSpec(
                triggers=(
                    KedaTrigger(name="kv", threshold_value=0.6),
                    KedaTrigger(name="queue", threshold_value=30.0),
                ),
                polling_s=15.0,
                **bounds,
            ),
            queries={"kv": KV_SUM, "queue": WAITING},
        ),
        ScalingRule(name="llm-d", spec=VariantSpec(follower=follower(least=least, most=most))),
        ScalingRule(name="dynamo", spec=DynamoSpec(max_devices=most, least_endpoints=max(1, least))),
    )


def tracking_rule(
    name: str,
    in_flight_requests: float,
    *,
    least: int,
    most: int,
    up_s: float,
    down_s: float,
    window_s: float = IN_FLIGHT.window_s,
    schedule: tuple[int, ...] = (),
    fallback_replicas: int = 0,
) -> ScalingRule:
    """Our rule: so many requests in flight for each replica, a mean over `window_s`, up at once, down slowly, no lower
    than the schedule.

    Where its metric is gone it holds `fallback_replicas`, within its bounds, or more where more run; 0 is what runs.
    """
    behavior = ScalingBehavior(
        up=ScalingRules(
            window_s=up_s,
            policies=(
                ScalingPolicy(kind=PolicyKind.PODS, value=4, period_s=15.0),
                ScalingPolicy(kind=PolicyKind.PERCENT, value=100, period_s=15.0),
            ),
            tolerance_fraction=0.05,
        ),
        down=ScalingRules(window_s=down_s, policies=DOWN_RULES.policies, tolerance_fraction=0.05),
    )
    blind = KedaFallback(
        failures=FALLBACK_FAILURES,
        replicas=min(max(fallback_replicas, least), most),
        behavior=FallbackBehavior.CURRENT_IF_HIGHER,
    )
    triggers = [KedaTrigger(name="in-flight", threshold_value=in_flight_requests)]
    if schedule:
        triggers.append(CLOCK)
    return ScalingRule(
        name=name,
        spec=KedaSpec(
            triggers=tuple(triggers),
            least_replicas=least,
            most_replicas=most,
            polling_s=15.0,
            fallback=blind if fallback_replicas else None,
            behavior=behavior,
        ),
        queries={"in-flight": replace(IN_FLIGHT, window_s=window_s)},
        schedule=schedule,
    )


def schedule_text(schedule: Sequence[int]) -> str:
    """Replicas by hour of week, equal hours together: how a schedule stands among a plan's numbers.

    >>> schedule_text((1,) * 8 + (4,) * 160), schedule_text(())
    ('1x8 4x160', '')
    """
    return " ".join(f"{replicas}x{len(list(hours))}" for replicas, hours in groupby(schedule))


def read_schedule(text: str) -> tuple[int, ...]:
    """The schedule of such a text.

    >>> read_schedule("1x2 4x1"), read_schedule("")
    ((1, 1, 4), ())
    """
    pairs = [each.split("x") for each in text.split()]
    return tuple(int(replicas) for replicas, hours in pairs for _ in range(int(hours)))
