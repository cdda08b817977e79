"""Admission limits: where a pool stops admitting work, so that what it admits meets its SLOs.

Everything is read from the simulated replica: how many sequences it may run, how many requests may wait and for how
long, how fast each class and tenant may send, what goes first when there is too much, how high and how long a burst
may be, what retries make of an overload, and from which load on a pool without limits does not come back by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.admission.bounds import Bounds, replica_bounds
from ullage.admission.bursts import BurstPoint, absorbers, burst_budget
from ullage.admission.clients import MOST_REPLICAS, clients_of
from ullage.admission.deadlines import Deadline, HopRule, class_deadlines, hop_rules
from ullage.admission.limit_figures import limit_figures
from ullage.admission.limit_rows import (
    Backpressure,
    LimitCheck,
    LimitLine,
    backpressure_of,
    limit_lines,
    overload_checks,
)
from ullage.admission.policy import AdmissionPolicy
from ullage.admission.proof import (
    ENGINE_ALONE,
    OVERLOADS,
    WITH_GATEWAY,
    LimitProof,
    engine_flags,
    limit_proofs,
    planned_load,
)
from ullage.admission.rates import ClassRate, ShedStep, TenantRate, class_rates, shed_order, tenant_rates
from ullage.admission.replay import BurstReplay, replay_bursts
from ullage.admission.retries import (
    LIMITS_AND_BUDGET,
    NO_LIMITS,
    Recovery,
    RetryLoad,
    protections,
    recoveries,
    retry_loads,
)
from ullage.admission.retries import MOST_REPLICAS as STORM_REPLICAS
from ullage.errors import InputError, Rejection
from ullage.evidence import Figure, number
from ullage.facts.engine import bounds_queue
from ullage.memory.budget import MemoryBudget
from ullage.service.curve.curve import ServiceCurve
from ullage.service.trial.trial import Guard
from ullage.startup.ready import TimeToReady
from ullage.workload.classes import Metric, RequestClass
from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class AdmissionLimits:
    """Where to stop admitting. Numbers of the pool are those of a replica times the replicas, except its rate.

    `capacity_rps` is the highest load per replica at which the pool meets every SLO, bursts included.
    `refused_fraction` is what the limits turn away at
    the planning rate, bursts included, and `late_fraction` what would miss its SLO there without them.
    """

    classes: tuple[RequestClass, ...]
    replicas: int
    bounds: Bounds
    flags: Guard
    capacity_rps: float
    context_tokens: int
    deadlines: Mapping[str, Deadline]
    lines: tuple[LimitLine, ...]
    rates: tuple[ClassRate, ...]
    tenants: tuple[TenantRate, ...]
    shed: tuple[ShedStep, ...]
    backpressure: Backpressure
    hops: tuple[HopRule, ...]
    checks: tuple[LimitCheck, ...]
    proofs: tuple[LimitProof, ...]
    retries: tuple[RetryLoad, ...]
    recoveries: tuple[Recovery, ...]
    replays: tuple[BurstReplay, ...]
    bursts: tuple[BurstPoint, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    @property
    def running_requests(self) -> int:
        return self.bounds.guard.running_requests

    @property
    def waiting_requests(self) -> int:
        return self.bounds.waiting_requests

    @property
    def pool_rate_rps(self) -> float:
        return self.capacity_rps * self.replicas

    def burst_ratio(self, absorber: str, length_s: float) -> float:
        return next(p.height_ratio for p in self.bursts if (p.absorber, p.length_s) == (absorber, length_s))

    def recovery(self, protection: str) -> Recovery:
        return next(each for each in self.recoveries if each.protection == protection)


def admission_limits(
    curve: ServiceCurve,
    ready: TimeToReady,
    demand: Demand,
    classes: Sequence[RequestClass],
    *,
    replicas: int,
    capacity_rps: float,
    memory: MemoryBudget,
    policy: AdmissionPolicy,
    rests_on: tuple[Figure, ...] = (),
    map: Any = map,  # noqa: A002
) -> AdmissionLimits | Rejection:
    """The limits of a pool of `replicas`, or a refusal where a deadline is shorter than an idle replica needs.

    `capacity_rps` is the highest load of the pool that meets every SLO, bursts included, as headroom found it. All is
    tried with the step times that the fleet was sized with. `rests_on` are figures of the number of replicas. The
    curve's own seed is used throughout.
    """
    if replicas < 1:
        raise InputError(field="replicas", value=replicas, problem="must be at least 1", fix="Give a number.")
    deadlines = class_deadlines(curve, classes, policy)
    if isinstance(deadlines, Rejection):
        return deadlines
    clients = clients_of(curve, policy, replicas=MOST_REPLICAS)
    overload = number(policy.overload)
    scale_rps = curve.bases.conservative_probe.saturation_rps
    planned_rps = min(demand.planning_rps / replicas, 2.0 * scale_rps)
    proven_rps = [ratio * planned_rps for ratio in OVERLOADS]
    bounds = replica_bounds(clients, deadlines, saturation_rps=scale_rps, overload=overload, loads_rps=proven_rps)
    capacity_rps /= replicas
    # A pool that is far too small for its plan is not simulated at that plan: twice its capacity says enough.
    planning_rps = min(demand.planning_rps / replicas, 2.0 * capacity_rps)
    ways = protections(bounds.guard, policy)
    bare, _, limited, guarded = ways
    rates = class_rates(demand, classes, bounds.pace.busy_s, capacity_rps=capacity_rps * replicas)
    tenants = tenant_rates(demand, policy, capacity_rps=capacity_rps * replicas)
    trial, scale = replace(curve.bases.conservative, replicas=replicas), curve.bases.conservative_probe
    planned = planned_load(trial, scale, rate_rps=planning_rps * replicas, seed=curve.seed)
    is_bounded = bounds_queue(memory.runtime.engine, memory.runtime.version)
    flags = engine_flags(planned, clients, bounds.guard, planning_rps=planning_rps, has_queue_flag=is_bounded, map=map)
    small = clients.of(replicas=min(replicas, MOST_REPLICAS))
    storm = clients_of(curve, policy, replicas=min(replicas, STORM_REPLICAS))
    found = AdmissionLimits(
        classes=tuple(classes),
        replicas=replicas,
        bounds=bounds,
        flags=flags,
        capacity_rps=capacity_rps,
        context_tokens=min(memory.longest_context_tokens, memory.approved.context_tokens),
        deadlines=deadlines,
        lines=limit_lines(
            bounds, flags, deadlines, memory, capacity_rps=capacity_rps, replicas=replicas, is_bounded=is_bounded
        ),
        rates=rates,
        tenants=tenants,
        shed=shed_order(rates, tenants, retry_budget=number(policy.retry_budget)),
        backpressure=backpressure_of(bounds, memory, policy, capacity_rps=capacity_rps, planning_rps=planning_rps),
        hops=_hops(deadlines, bounds, policy),
        checks=overload_checks(clients, (limited, bare), overload, overload * bounds.pace.throughput_rps),
        proofs=limit_proofs(planned, clients, flags, bounds.guard, planning_rps=planning_rps, map=map),
        retries=(
            *retry_loads(clients, protections(flags, policy), [("planning", planning_rps)], map),
            *retry_loads(clients, ways, [("overload", overload * bounds.pace.throughput_rps)], map),
        ),
        recoveries=recoveries(storm, ways, scale_rps, map),
        replays=replay_bursts(storm, (bare, guarded), planning_rps=planning_rps, saturation_rps=scale_rps, map=map),
        bursts=burst_budget(
            small,
            absorbers(small, ready, replicas=replicas),
            planning_rps=planning_rps,
            capacity_rps=capacity_rps,
            map=map,
        ),
        figures={},
        notes=(),
    )
    figures = limit_figures(found, curve, demand, memory, ready, policy, rests_on) if curve.inputs else {}
    return replace(found, figures=figures, notes=_notes(found, policy, demand.planning_rps))


def _hops(deadlines: Mapping[str, Deadline], bounds: Bounds, policy: AdmissionPolicy) -> tuple[HopRule, ...]:
    backoff_s = number(policy.backoff)
    return tuple(
        rule
        for name, each in deadlines.items()
        for rule in hop_rules(each, wait_s=bounds.ages_s[name], backoff_s=backoff_s)
    )


def _without_gateway(found: AdmissionLimits) -> str:
    """What is lost where only the engine's flags are set."""
    worst = max(each.load_ratio for each in found.proofs)
    alone, both = (
        next(each.success_fraction for each in found.proofs if (each.enforced_by, each.load_ratio) == (way, worst))
        for way in (ENGINE_ALONE, WITH_GATEWAY)
    )
    why = (
        "an engine queues all it is sent, and a growing queue makes every request late"
        if found.flags.waiting_requests is None
        else "an engine's bound rejects any request once its queue is full, whatever its class or wait"
    )
    return (
        f"With the engine's flags alone {alone:.1%} of requests succeed at {worst:.3g} times the planned load, with "
        f"the gateway's limits {both:.1%}: {why}."
    )


def _notes(found: AdmissionLimits, policy: AdmissionPolicy, planning_rps: float) -> tuple[str, ...]:
    """Caveats that no single figure carries."""
    missed = [f"{each.class_name} {each.slo_name}" for each in found.checks if each.is_missed_with_limits]
    kept = "admitted requests meet their SLOs" if not missed else f"{', '.join(missed)} is still violated"
    overload = (
        f"At {number(policy.overload):.3g} times capacity, {kept}, with priority scheduling in the "
        "engine. Waits are to be enforced while the backpressure signal is on; at other times only deadlines are."
    )
    notes = [overload, _without_gateway(found)]
    bare, whole = found.recovery(NO_LIMITS), found.recovery(LIMITS_AND_BUDGET)
    if bare.capacity_fraction < 1.0:
        notes.append(
            f"Without limits the pool does not recover by itself above {bare.recovers_rps * found.replicas:.3g} "
            f"req/s, {bare.capacity_fraction:.0%} of what its replicas complete: after a burst its "
            "clients ask again faster than it works off what they gave up on. With limits and a retry budget it is "
            "back within "
            f"{number(policy.recovery) / 60:.3g} min up to {whole.capacity_fraction:.0%} of it."
        )
    if planning_rps > found.pool_rate_rps:
        notes.append(
            f"The planning rate, {planning_rps:.3g} req/s, is above what the pool carries steadily: in the busy hour "
            "work is shed, and no burst is absorbed."
        )
    if any(slo.metric is Metric.ITL for each in found.classes for slo in each.slos):
        notes.append("The burst budget does not judge SLOs on ITL: gaps are not kept request by request.")
    return tuple(notes)
