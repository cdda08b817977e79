"""What is wrong with a rule before any traffic is looked at: four faults that its YAML alone shows.

thrash      replicas are let go sooner than they come back: a short window down on a signal that is not averaged
saturated   the signal stops at a value that the rule needs it to pass, so more load asks for no more replicas
from zero   the minimum is zero, and what the rule reads is gone when the last replica is
slow        the rule's own limits let a fleet double more slowly than traffic does, or not at all
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ullage.scaling.hpa import (
    HpaMetric,
    HpaSpec,
    HpaState,
    MetricKind,
    ScalingBehavior,
    SelectPolicy,
    hpa_step,
)
from ullage.scaling.keda import KedaSpec
from ullage.scaling.knative import KnativeSpec
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.scaling.signals import SATURATES, Aggregate, Signal

# Traffic of a morning doubles in about a quarter of an hour in the published weeks; a rule must keep up with it.
DOUBLES_S = 900.0
# Accelerators take longer than this to come back, whatever is cached.
COMES_BACK_S = 120.0
# A window up that is longer than this waits out most bursts before it acts.
_LONG_UP_S = 180.0


@dataclass(frozen=True, kw_only=True)
class RuleFault:
    """One fault: its name, what is wrong with the numbers, and what mends it."""

    name: str
    sentence: str
    fix: str


def rule_faults(
    rule: ScalingRule, *, ready_s: float | None = None, ramp_per_s: float | None = None, start_replicas: int = 1
) -> tuple[RuleFault, ...]:
    """Every fault of a rule. With a plan at hand, `ready_s` is its time to ready and `ramp_per_s` replicas a second."""
    if isinstance(rule.spec, ScheduleSpec):
        return ()
    found = (
        _thrash(rule, COMES_BACK_S if ready_s is None else min(ready_s, COMES_BACK_S)),
        _saturated(rule),
        _from_zero(rule),
        _slow(rule, ramp_per_s, start_replicas),
    )
    return tuple(each for each in found if each is not None)


def _thrash(rule: ScalingRule, back_s: float) -> RuleFault | None:
    spec = rule.spec
    if isinstance(spec, KnativeSpec):
        window_s = max(spec.stable_s, spec.down_delay_s)
    elif isinstance(spec, HpaSpec | KedaSpec):
        if spec.behavior is None or spec.behavior.down.select is SelectPolicy.DISABLED:
            return None
        down = spec.behavior.down
        averaged_s = max((each.window_s for each in rule.queries.values()), default=0.0)
        # A policy that lets go of little at a time is a window of its own.
        slowest_s = max((each.period_s for each in down.policies if each.value <= 25), default=0.0)
        window_s = max(down.window_s, averaged_s, slowest_s)
    else:
        return None
    if window_s >= min(back_s, 60.0 if isinstance(spec, KnativeSpec) else back_s):
        return None
    return RuleFault(
        name="thrash",
        sentence=f"{rule.name} removes replicas after {window_s:.0f} s of lower load, but an accelerator takes "
        f"{back_s:.0f} s or more to come back: every short dip costs a start",
        fix="Give scaleDown a stabilizationWindowSeconds of at least the time to ready, 300 or more."
        if not isinstance(spec, KnativeSpec)
        else "Give scale-down-delay or window at least the time to ready.",
    )


def _saturated(rule: ScalingRule) -> RuleFault | None:
    spec = rule.spec
    if isinstance(spec, HpaSpec):
        metrics = [(each.signal, each.kind, each.target_value) for each in spec.metrics]
        tolerance = spec.tolerances[1]
    elif isinstance(spec, KedaSpec) and spec.modifiers is None:
        metrics = [(each.name, each.kind, int(1000 * each.threshold_value)) for each in spec.triggers]
        tolerance = spec.hpa.tolerances[1]
    else:
        return None
    stuck = [name for name, kind, target in metrics if _is_stuck(rule, name, kind, target, tolerance)]
    if not stuck or len(stuck) < len(metrics):
        return None
    name, kind, target = next(each for each in metrics if each[0] == stuck[0])
    query = rule.queries[name]
    shown = target if kind is MetricKind.RESOURCE else target / 10.0 / query.factor_ratio
    return RuleFault(
        name="saturated",
        sentence=f"{rule.name} scales on {query.label} at {shown:.3g} %, which stops at 100 %: the most it can ask "
        f"for is {100.0 / shown - 1.0:+.0%} replicas, within a tolerance of {tolerance:.0%}, while requests wait",
        fix="Scale on requests in flight or waiting, which grow with load.",
    )


def _is_stuck(rule: ScalingRule, name: str, kind: MetricKind, target: int, tolerance: float) -> bool:
    """Whether the signal at its end is still within the tolerance of the target."""
    query = rule.queries.get(name)
    if query is None or len(query.signals) != 1 or query.signals[0] not in SATURATES:
        return False
    if query.signals[0] is Signal.TTFT_ATTAINMENT:
        return False
    if kind is MetricKind.AVERAGE and query.aggregate is not Aggregate.SUM:
        # A mean divided by replicas once more falls as the fleet grows, and never reaches its target.
        return True
    limit = target / 100.0 if kind is MetricKind.RESOURCE else target / 1000.0 / query.factor_ratio
    return limit > 0.0 and 1.0 / limit <= 1.0 + tolerance


def _from_zero(rule: ScalingRule) -> RuleFault | None:
    spec = rule.spec
    if isinstance(spec, HpaSpec):
        if spec.least_replicas > 0:
            return None
        blind = [each.signal for each in spec.metrics if each.kind in (MetricKind.PODS, MetricKind.RESOURCE)]
        blind += [name for name, each in rule.queries.items() if each.from_pods and name not in blind]
        total = len(spec.metrics)
    elif isinstance(spec, KedaSpec):
        if spec.least_replicas > 0 or spec.idle_replicas:
            return None
        blind = [each.name for each in spec.triggers if each.name in rule.queries and rule.queries[each.name].from_pods]
        total = len(spec.triggers)
    else:
        return None
    if len(blind) < total:
        return None
    label = rule.queries[blind[0]].label if blind[0] in rule.queries else blind[0]
    return RuleFault(
        name="from zero",
        sentence=f"{rule.name} may scale to 0 replicas, but all it reads ({label}) is exported by the replicas: "
        "at zero nothing can start one",
        fix="Add a trigger on a gateway's queue or request rate, or set the minimum to 1.",
    )


def _slow(rule: ScalingRule, ramp_per_s: float | None, start: int) -> RuleFault | None:
    spec = rule.spec
    if isinstance(spec, KedaSpec):
        spec = spec.hpa
    if not isinstance(spec, HpaSpec):
        return None
    first = max(1, spec.least_replicas, start)
    gained = _gained(spec, first)
    window_s = 0.0 if spec.behavior is None else spec.behavior.up.window_s
    wanted = first if ramp_per_s is None else max(1, math.ceil(ramp_per_s * DOUBLES_S))
    wanted = min(wanted, max(0, spec.most_replicas - first))
    if gained >= wanted and window_s <= _LONG_UP_S:
        return None
    why = f"waits {window_s:.0f} s before it adds any, and " if window_s > _LONG_UP_S else ""
    need = "traffic may double in it" if ramp_per_s is None else f"the ramp of the plan's week needs {wanted}"
    return RuleFault(
        name="slow",
        sentence=f"{rule.name} {why}adds {gained} to {first} replicas in {DOUBLES_S / 60:.0f} min however much waits; "
        f"{need}, before any replica is ready",
        fix="Let scaleUp add 100 % or 4 pods in 15 s with no window: starts are slow enough.",
    )


def _gained(spec: HpaSpec, first: int) -> int:
    """Replicas that the rule's own limits allow in the time in which traffic doubles, from the controller itself."""
    hungry = HpaMetric(kind=MetricKind.AVERAGE, target_value=1000)
    behavior = spec.behavior or ScalingBehavior()
    asked = HpaSpec(
        metrics=(hungry,),
        least_replicas=spec.least_replicas,
        most_replicas=spec.most_replicas,
        behavior=None if spec.behavior is None else behavior,
    )
    state, current = HpaState(), first
    for tick in range(round(DOUBLES_S / spec.sync_s)):
        decision = hpa_step(asked, state, [10**9], now_s=tick * spec.sync_s, current=current, ready=current)
        state, current = decision.state, decision.replicas
    return current - first
