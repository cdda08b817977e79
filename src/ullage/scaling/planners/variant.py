"""llm-d's workload variant autoscaler, as of version 0.5.1: saturation by percentages, or by tokens.

Every `interval_s` it says how many replicas a variant should have, as a metric (`wva_desired_replicas`) that an HPA or
KEDA follows with a target of 1. A pool is one variant here, so that its costs play no part.

    percentages  a replica is saturated at a KV use or a queue of so much. Spare is the threshold less the load, a mean
                 over replicas that are not saturated. One more where either spare is below its trigger; one fewer where
                 both are not after the load of one replica went to the others; nothing while replicas come or go.
    tokens       capacity of a replica = min(KV tokens x threshold, what it was seen to hold at a full queue, or what
                 its engine's limits let it hold), demand = tokens in use + queued requests x mean prompt;
                 more by ceil((demand / scale-up threshold - capacity of all, starting ones too) / capacity of one),
                 fewer by floor((capacity of all that are ready - demand / scale-down boundary) / capacity of one).

One more of ten or more replicas is within the HPA's tolerance of a tenth, which then does not make it: by percentages a
pool of that size stays where it is, unless the HPA has a smaller tolerance.

Its limiter of devices, its split over variants and the optimiser of versions before 0.3 are not here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.scaling.hpa import HpaMetric, HpaSpec, MetricKind
from ullage.scaling.keda import KedaSpec

INTERVAL_S = 60.0
WINDOW_S = 60.0
"""Its queries take the highest of a minute."""
SHAPE_S = 300.0
"""Mean lengths are rates of five minutes."""
DESIRED = "desired"
"""The metric of the autoscaler that follows."""
_HISTORY = 10
_LEAST_UNSATURATED = 2


@dataclass(frozen=True, kw_only=True)
class VariantSpec:
    """The saturation configuration, and the autoscaler that makes what it says; `by_tokens` is analyzerName saturation.

    Defaults are those of the controller.
    """

    follower: HpaSpec | KedaSpec
    kv_threshold_fraction: float = 0.80
    queue_threshold_requests: float = 5.0
    kv_spare_fraction: float = 0.10
    queue_spare_requests: float = 3.0
    by_tokens: bool = False
    up_fraction: float = 0.85
    down_fraction: float = 0.70
    interval_s: float = INTERVAL_S

    @property
    def least_replicas(self) -> int:
        return self.follower.least_replicas

    @property
    def most_replicas(self) -> int:
        return self.follower.most_replicas


@dataclass(frozen=True, kw_only=True)
class ReplicaLoad:
    """What one replica reports; mean lengths of its requests where a rule goes by tokens."""

    kv_fraction: float
    queue_requests: int
    kv_tokens: int = 0
    held_tokens: int = 0
    prompt_tokens: float = 0.0
    output_tokens: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StepLimits:
    """Tokens of a step and sequences at a time."""

    budget_tokens: int
    max_sequences: int


@dataclass(frozen=True, kw_only=True)
class VariantState:
    """`desired_replicas` is what was said last, 0 before; `history` what replicas held at a full queue."""

    desired_replicas: int = 0
    history: tuple[float, ...] = ()
    next_s: float = 0.0


def follower(*, least: int, most: int) -> HpaSpec:
    """The HPA of its documentation."""
    metric = HpaMetric(kind=MetricKind.AVERAGE, target_value=1000, signal=DESIRED)
    return HpaSpec(metrics=(metric,), least_replicas=least, most_replicas=most)


def percentage_target(spec: VariantSpec, loads: Sequence[ReplicaLoad], *, current: int, desired: int) -> int:
    """By percentages: `loads` are replicas that report, `current` those that are there, starting ones too."""
    if not loads:
        return current
    if desired not in (0, current):
        return desired
    if len(loads) != current:
        return current
    spare = [
        (spec.kv_threshold_fraction - each.kv_fraction, spec.queue_threshold_requests - each.queue_requests)
        for each in loads
        if each.kv_fraction < spec.kv_threshold_fraction and each.queue_requests < spec.queue_threshold_requests
    ]
    free = len(spare)
    kv, queue = (sum(each[place] for each in spare) / free if free else 0.0 for place in (0, 1))
    if kv < spec.kv_spare_fraction or queue < spec.queue_spare_requests:
        return current + 1
    if free < _LEAST_UNSATURATED or current <= 1:
        return current
    # The load of one goes to the others.
    more = free / (free - 1)
    kv_after = spec.kv_threshold_fraction - (spec.kv_threshold_fraction - kv) * more
    queue_after = spec.queue_threshold_requests - (spec.queue_threshold_requests - queue) * more
    is_safe = kv_after >= spec.kv_spare_fraction and queue_after >= spec.queue_spare_requests
    return current - 1 if is_safe else current


def token_target(
    spec: VariantSpec,
    loads: Sequence[ReplicaLoad],
    *,
    current: int,
    pending: int,
    history: tuple[float, ...] = (),
    limits: StepLimits | None = None,
) -> tuple[int, tuple[float, ...]]:
    """By tokens: the target, and what is remembered of full queues."""
    capacities = []
    for each in loads:
        if each.queue_requests >= int(spec.queue_threshold_requests) and each.held_tokens > 0:
            history = (*history, float(each.held_tokens))[-_HISTORY:]
        capacities.append(_capacity(spec, each, history, limits))
    per_replica = _median(capacities)
    if per_replica <= 0:
        return current, history
    demand = sum(each.held_tokens + each.queue_requests * int(each.prompt_tokens) for each in loads)
    ready = max(0, current - pending)
    required = demand / spec.up_fraction - (ready + pending) * per_replica
    if required > 0.0:
        return current + math.ceil(required / per_replica), history
    spare = ready * per_replica - demand / spec.down_fraction
    fewer = math.floor(spare / per_replica) if spare > 0.0 else 0
    return current - min(fewer, max(0, current - 1)), history


def _capacity(spec: VariantSpec, load: ReplicaLoad, history: tuple[float, ...], limits: StepLimits | None) -> int:
    memory = int(load.kv_tokens * spec.kv_threshold_fraction)
    if load.queue_requests >= int(spec.queue_threshold_requests) and load.held_tokens > 0:
        return min(memory, load.held_tokens)
    if history:
        return min(memory, int(sum(history) / len(history)))
    derived = 0 if limits is None else steady_tokens(limits, load.prompt_tokens, load.output_tokens)
    return min(memory, derived) if derived > 0 else memory


def steady_tokens(limits: StepLimits, prompt_tokens: float, output_tokens: float) -> int:
    """Tokens that a replica holds when its step is full.

    >>> steady_tokens(StepLimits(budget_tokens=8192, max_sequences=256), 900.0, 100.0)
    243200
    """
    if output_tokens <= 0.0 or limits.budget_tokens <= 0:
        return 0
    running = limits.budget_tokens * output_tokens / (prompt_tokens + output_tokens)
    return int(min(running, limits.max_sequences) * (prompt_tokens + output_tokens / 2.0))


def _median(values: Sequence[int]) -> float:
    if not values:
        return 0.0
    ordered, middle = sorted(values), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2)
