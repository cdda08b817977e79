"""HorizontalPodAutoscaler, autoscaling/v2, as the controller computes it: one metric, several, windows and policies.

    proposal     what one metric asks for: usage / target, tolerance, unready and missing pods
    hpa_step     one sync of the controller: the largest proposal, stabilised, then limited by policies and bounds

Values are whole thousandths (Kubernetes' milli-quantities) because the controller divides them as integers. Times are
seconds on the simulation's clock. A state holds what the controller remembers between syncs: its recommendations, and
its scale events.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SYNC_S = 15.0
"""--horizontal-pod-autoscaler-sync-period."""
DEFAULT_TOLERANCE = 0.1
# What the controller does without `behavior`: five minutes of the highest recommendation, and doubling at most.
_DEFAULT_DOWN_S = 300.0
_DEFAULT_UP_RATIO, _DEFAULT_UP_PODS = 2, 4


class MetricKind(enum.Enum):
    """How a metric is turned into replicas: mean of pods, share of a request, a total, a total for each replica."""

    PODS = "Pods"
    RESOURCE = "Resource"
    VALUE = "Value"
    AVERAGE = "AverageValue"


@dataclass(frozen=True, kw_only=True)
class PodReadings:
    """A metric pod by pod, summed over the pods that have it and are ready.

    `unready_pods` run and do not count yet, `missing_pods` are ready ones without a sample. `request_milli` is what one
    pod (or the one container that is looked at) requests of a resource.
    """

    total_milli: int
    pods: int
    unready_pods: int = 0
    missing_pods: int = 0
    request_milli: int = 0


MetricReading = PodReadings | int | None
"""Pod by pod, a total in thousandths, or nothing where the metric could not be read."""


@dataclass(frozen=True, kw_only=True)
class HpaMetric:
    """One entry of `metrics`. `target_value` is in thousandths, in whole percent for a resource's utilisation.

    `signal` names what is measured (signals.py), `container` the one that a ContainerResource looks at.
    """

    kind: MetricKind
    target_value: int
    signal: str = ""
    container: str = ""


class PolicyKind(enum.Enum):
    PODS = "Pods"
    PERCENT = "Percent"


class SelectPolicy(enum.Enum):
    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, kw_only=True)
class ScalingPolicy:
    """At most so many pods, or percent of those at its beginning, within a period."""

    kind: PolicyKind
    value: int
    period_s: float


@dataclass(frozen=True, kw_only=True)
class ScalingRules:
    """One direction of `behavior`."""

    window_s: float
    policies: tuple[ScalingPolicy, ...]
    select: SelectPolicy = SelectPolicy.MAX
    tolerance_fraction: float = DEFAULT_TOLERANCE


UP_RULES = ScalingRules(
    window_s=0.0,
    policies=(
        ScalingPolicy(kind=PolicyKind.PODS, value=4, period_s=15.0),
        ScalingPolicy(kind=PolicyKind.PERCENT, value=100, period_s=15.0),
    ),
)
DOWN_RULES = ScalingRules(
    window_s=_DEFAULT_DOWN_S, policies=(ScalingPolicy(kind=PolicyKind.PERCENT, value=100, period_s=15.0),)
)


@dataclass(frozen=True, kw_only=True)
class ScalingBehavior:
    """`behavior`; what it leaves out is filled in as the API server does."""

    up: ScalingRules = UP_RULES
    down: ScalingRules = DOWN_RULES


@dataclass(frozen=True, kw_only=True)
class HpaSpec:
    """The object's `spec`. Without `behavior` the controller has other rules, not default ones."""

    metrics: tuple[HpaMetric, ...]
    least_replicas: int = 1
    most_replicas: int
    behavior: ScalingBehavior | None = None
    sync_s: float = SYNC_S

    @property
    def tolerances(self) -> tuple[float, float]:
        """Down and up."""
        if self.behavior is None:
            return DEFAULT_TOLERANCE, DEFAULT_TOLERANCE
        return self.behavior.down.tolerance_fraction, self.behavior.up.tolerance_fraction


@dataclass(frozen=True, kw_only=True)
class ScaleEvent:
    at_s: float
    replicas: int


@dataclass(frozen=True, kw_only=True)
class HpaState:
    """What the controller remembers: recommendations before they were stabilised, and what it did up and down."""

    recommendations: tuple[ScaleEvent, ...] = ()
    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HpaDecision:
    """`asked_replicas` is what metrics ask for, None where they could not be read; `replicas` is what is set."""

    replicas: int
    asked_replicas: int | None
    state: HpaState = field(repr=False)


def is_within(ratio: float, tolerances: tuple[float, float]) -> bool:
    """Whether a ratio is too close to 1 to act on; the edges are inside."""
    down, up = tolerances
    return 1.0 - down <= ratio <= 1.0 + up


def proposal(
    metric: HpaMetric, reading: MetricReading, *, current: int, ready: int, tolerances: tuple[float, float]
) -> int | None:
    """The replicas that one metric asks for; None where it cannot be read.

    `current` is what the scale asks for, `ready` how many pods are ready.
    """
    if reading is None:
        return None
    if metric.kind is MetricKind.VALUE:
        assert isinstance(reading, int)
        ratio = reading / metric.target_value
        if current == 0:
            return math.ceil(ratio)
        return current if is_within(ratio, tolerances) else math.ceil(ratio * ready)
    if metric.kind is MetricKind.AVERAGE:
        assert isinstance(reading, int)
        if current > 0 and is_within(reading / (float(metric.target_value) * current), tolerances):
            return current
        return math.ceil(reading / metric.target_value)
    assert isinstance(reading, PodReadings)
    return _by_pod(metric, reading, current=current, tolerances=tolerances)


def _by_pod(metric: HpaMetric, reading: PodReadings, *, current: int, tolerances: tuple[float, float]) -> int | None:
    """Pods that are not ready count 0 on the way up; missing ones count 0 on the way up, and as at target (of a
    resource, as all of the request or the target where that is more) on the way down."""
    if reading.pods == 0:
        return None
    ratio = _usage(metric, reading.total_milli, reading.pods, reading.request_milli)
    up_with_unready = reading.unready_pods > 0 and ratio > 1.0
    if not up_with_unready and reading.missing_pods == 0:
        return current if is_within(ratio, tolerances) else math.ceil(ratio * reading.pods)
    total, pods = reading.total_milli, reading.pods
    if reading.missing_pods > 0:
        total += reading.missing_pods * (_full(metric, reading) if ratio < 1.0 else 0)
        pods += reading.missing_pods
    if up_with_unready:
        pods += reading.unready_pods
    again = _usage(metric, total, pods, reading.request_milli)
    turned = (ratio < 1.0 < again) or (ratio > 1.0 > again)
    if is_within(again, tolerances) or turned:
        return current
    found = math.ceil(again * pods)
    if (again < 1.0 and found > current) or (again > 1.0 and found < current):
        return current
    return found


def _usage(metric: HpaMetric, total_milli: int, pods: int, request_milli: int) -> float:
    if metric.kind is MetricKind.RESOURCE:
        return (total_milli * 100 // (request_milli * pods)) / metric.target_value
    return (total_milli // pods) / metric.target_value


def _full(metric: HpaMetric, reading: PodReadings) -> int:
    if metric.kind is MetricKind.RESOURCE:
        return reading.request_milli * max(100, metric.target_value) // 100
    return metric.target_value


def largest_proposal(spec: HpaSpec, readings: Sequence[MetricReading], *, current: int, ready: int) -> int | None:
    """The largest of the metrics' proposals; None where none can be read, or one cannot and the rest ask for less."""
    found = [
        proposal(metric, reading, current=current, ready=ready, tolerances=spec.tolerances)
        for metric, reading in zip(spec.metrics, readings, strict=True)
    ]
    known = [each for each in found if each is not None]
    if not known or (len(known) < len(found) and max(known) < current):
        return None
    return max(known)


def hpa_step(
    spec: HpaSpec, state: HpaState, readings: Sequence[MetricReading], *, now_s: float, current: int, ready: int
) -> HpaDecision:
    """One sync. `current` is the replicas asked for before it, `ready` those that serve."""
    state = state if state.recommendations else _recorded(spec, state, now_s, current)
    if current == 0 and spec.least_replicas != 0:
        return HpaDecision(replicas=0, asked_replicas=None, state=state)
    if current > spec.most_replicas:
        return _scaled(spec, state, now_s, current, spec.most_replicas, asked_replicas=None)
    if current < spec.least_replicas:
        return _scaled(spec, state, now_s, current, spec.least_replicas, asked_replicas=None)
    asked = largest_proposal(spec, readings, current=current, ready=ready)
    if asked is None:
        return HpaDecision(replicas=current, asked_replicas=None, state=state)
    stable = _stabilised(spec, state, now_s, current, asked)
    state = _recorded(spec, state, now_s, asked)
    wanted = (
        _within_rules(spec, current, stable)
        if spec.behavior is None
        else _within_policies(spec, spec.behavior, state, now_s, current, stable)
    )
    return _scaled(spec, state, now_s, current, wanted, asked_replicas=asked)


def _recorded(spec: HpaSpec, state: HpaState, now_s: float, replicas: int) -> HpaState:
    """With one more recommendation; those that no window reaches any more are let go."""
    behavior = spec.behavior
    window_s = _DEFAULT_DOWN_S if behavior is None else max(behavior.up.window_s, behavior.down.window_s)
    first = next((place for place, each in enumerate(state.recommendations) if each.at_s >= now_s - window_s), None)
    kept = () if first is None else state.recommendations[first:]
    return HpaState(
        recommendations=(*kept, ScaleEvent(at_s=now_s, replicas=replicas)), ups=state.ups, downs=state.downs
    )


# Kubernetes allows windows and periods of an hour and half an hour at most.
_LONGEST_S = 3600.0 + SYNC_S


def _stabilised(spec: HpaSpec, state: HpaState, now_s: float, current: int, asked: int) -> int:
    """Within the lowest recommendation of the window up and the highest of the window down."""
    if spec.behavior is None:
        cutoff = now_s - _DEFAULT_DOWN_S
        return max([asked, *(each.replicas for each in state.recommendations if each.at_s >= cutoff)])
    up, down = (
        [asked, *(each.replicas for each in state.recommendations if each.at_s > now_s - rules.window_s)]
        for rules in (spec.behavior.up, spec.behavior.down)
    )
    return min(max(current, min(up)), max(down))


def _within_rules(spec: HpaSpec, current: int, wanted: int) -> int:
    """Without `behavior`: twice the replicas or four, whichever is more, and the bounds."""
    most = min(spec.most_replicas, max(_DEFAULT_UP_RATIO * current, _DEFAULT_UP_PODS))
    return min(max(wanted, spec.least_replicas), most)


def _within_policies(
    spec: HpaSpec, behavior: ScalingBehavior, state: HpaState, now_s: float, current: int, wanted: int
) -> int:
    if wanted > current:
        limit = max(_limit(behavior.up, state, now_s, current, up=True), current)
        return min(wanted, spec.most_replicas, limit)
    if wanted < current:
        limit = min(_limit(behavior.down, state, now_s, current, up=False), current)
        return max(wanted, spec.least_replicas, limit)
    return wanted


def _limit(rules: ScalingRules, state: HpaState, now_s: float, current: int, *, up: bool) -> int:
    """As far as the policies let the replicas go: by the policy that allows most, or least, of a change."""
    if rules.select is SelectPolicy.DISABLED:
        return current
    limits = []
    for policy in rules.policies:
        since_s = now_s - policy.period_s
        began = current - _changed(state.ups, since_s) + _changed(state.downs, since_s)
        if policy.kind is PolicyKind.PODS:
            limits.append(began + policy.value if up else began - policy.value)
        elif up:
            limits.append(math.ceil(began * (1 + policy.value / 100)))
        else:
            limits.append(math.trunc(began * (1 - policy.value / 100)))
    farthest = (rules.select is SelectPolicy.MAX) == up
    return max(limits) if farthest else min(limits)


def _changed(events: Sequence[ScaleEvent], since_s: float) -> int:
    return sum(each.replicas for each in events if each.at_s > since_s)


def _scaled(
    spec: HpaSpec, state: HpaState, now_s: float, current: int, wanted: int, *, asked_replicas: int | None
) -> HpaDecision:
    """The decision, with its scale event remembered where policies will look for it."""
    if spec.behavior is not None and wanted != current:
        event = ScaleEvent(at_s=now_s, replicas=abs(wanted - current))
        ups, downs = (
            tuple(each for each in events if each.at_s > now_s - _LONGEST_S) for events in (state.ups, state.downs)
        )
        ups, downs = ((*ups, event), downs) if wanted > current else (ups, (*downs, event))
        state = HpaState(recommendations=state.recommendations, ups=ups, downs=downs)
    return HpaDecision(replicas=wanted, asked_replicas=asked_replicas, state=state)
