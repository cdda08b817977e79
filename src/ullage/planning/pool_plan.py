"""One pool of a plan: from its demand to its replicas, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ullage.admission.limits import AdmissionLimits, admission_limits
from ullage.errors import NotGiven, Rejection, Remedy
from ullage.evidence import Assumption, Figure
from ullage.fleet.losses import QUICK, LossTable, loss_checks
from ullage.fleet.packing import Packing
from ullage.fleet.reserves import Reserves
from ullage.fleet.risk.planning_point import PlanningPoint
from ullage.fleet.steady import KeptFree, SteadyFleet, steady_fleet
from ullage.memory.budget import MemoryBudget
from ullage.planning.document import Stage, StageAnswer
from ullage.planning.machines import on_machines
from ullage.planning.margins import Margins, pool_margins
from ullage.planning.names import PoolNames
from ullage.planning.planned_for import pool_memory, pool_steps
from ullage.planning.progress import Report, unheard
from ullage.planning.scorecard import Scorecard, scorecard
from ullage.planning.spec import ClassDemand, PlanSpec, PoolSpec
from ullage.planning.utilisation import Utilisation, utilisation
from ullage.scaling.stage import ScalingStage, scaling_stage
from ullage.service.binding import Binding, binding_constraint
from ullage.service.curve.curve import ServiceCurve
from ullage.service.curve.point import OperatingPoint
from ullage.service.headroom import Headroom, headroom
from ullage.service.stage import band_of, pool_bases, pool_curve, pool_point, rests_on
from ullage.service.steps.step_model import StepModel
from ullage.service.trial.bases import Bases
from ullage.service.trial.trial import CONSERVATIVE
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand
from ullage.workload.demand.tools import ToolLoads, tool_loads


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """What every stage found for one pool. The fields after `demand` are its stages, in order."""

    spec: PoolSpec
    demands: tuple[ClassDemand, ...]
    demand: Demand
    bases: Bases = field(compare=False)
    memory: MemoryBudget
    step_model: StepModel
    service_curve: ServiceCurve
    operating_point: OperatingPoint
    time_to_ready: TimeToReady
    steady_fleet: SteadyFleet
    headroom: Headroom
    tools: ToolLoads | NotGiven
    binding: Binding
    admission_limits: AdmissionLimits
    reserves: Reserves
    packing: Packing
    loss_checks: LossTable
    scaling: ScalingStage
    margins: Margins
    utilisation: Utilisation
    scorecard: Scorecard

    def stages(self, names: PoolNames | None = None) -> tuple[Stage, ...]:
        """The stages as a plan lists them; `names` are given where there are several pools."""
        pool = "" if names is None else self.spec.name
        return tuple(
            Stage(name=each.name, pool=pool, answer=answer, figures=_figures(answer, names))
            for each in fields(self)
            if each.name not in _NOT_STAGES
            for answer in (getattr(self, each.name),)
        )


_NOT_STAGES = ("spec", "demands", "demand", "bases")
NO_TOOLS = NotGiven(
    stage="tools",
    instead="No tools: tasks wait only for their model.",
    fix="Give tools if tasks call any.",
)


@dataclass(frozen=True, kw_only=True)
class PoolTraffic:
    """A pool's demand at the point that is planned for, and at the median: the margin for demand lies between them."""

    point: PlanningPoint
    demand: Demand
    middling: Demand


def plan_pool(
    pool: PoolSpec,
    demands: Sequence[ClassDemand],
    traffic: PoolTraffic,
    spec: PlanSpec,
    *,
    seed: int,
    taken: Mapping[str, int] | None = None,
    service: Demand | None = None,
    map: Any = map,  # noqa: A002
    report: Report = unheard,
) -> PoolPlan | Rejection:
    """Memory, step times, curve, point, start, replicas, limits, reserves: each from what the ones before it found.

    `taken` is the devices by zone that pools before this one have of the same quotas, `service` the demand of all
    pools.
    """
    point, demand = traffic.point, traffic.demand
    classes, slo_limits = _with_slos(demands)
    memory = pool_memory(pool)
    if isinstance(memory, Rejection):
        return memory
    step = pool_steps(pool, memory)
    report(0.05, "service curve")
    inputs = rests_on(step, memory, demand, slo_limits)
    deadlines_s = spec.admission.deadlines_s(classes)
    planned = point.of_pool(band_of(step), demand)
    bases = pool_bases(step, memory, demand, classes, seed=seed, deadlines_s=deadlines_s, band=planned.band)
    curve = pool_curve(bases, seed=seed, basis=CONSERVATIVE, inputs=inputs, map=map)
    report(0.15, "operating point")
    operating = pool_point(curve, step, policy=spec.policy.margin, map=map)
    if isinstance(operating, Rejection):
        return operating
    ready = time_to_ready(memory, pool.start, rng=np.random.default_rng(seed))
    report(0.45, "replicas")
    kept = KeptFree(policy=spec.policy.margin, least=pool.least, need=planned.need)
    steady = steady_fleet(bases, planning_rps=demand.planning_rps, seed=seed, inputs=inputs, kept=kept, map=map)
    if isinstance(steady, Rejection):
        return steady
    sized = (steady.figures["fleet.replicas"],)
    room = _headroom(steady, demand.planning_rps, seed=seed, inputs=sized, map=map)
    tools = tool_loads(spec.tools, demand, service=service)
    binding = binding_constraint(bases, step, memory, room, seed=seed, tools=tools, inputs=sized, map=map)
    report(0.85, "admission limits")
    limits = admission_limits(
        curve, ready, demand, classes, replicas=steady.replicas, capacity_rps=room.capacity_rps,
        memory=memory, policy=spec.admission, rests_on=sized, map=map,
    )  # fmt: skip
    if isinstance(limits, Rejection):
        return limits
    reserved = _reserved(pool, spec, memory, steady, ready, demand, taken, seed=seed)
    if isinstance(reserved, Rejection):
        return reserved
    reserves, packing = reserved
    report(0.92, "losses")
    losses = loss_checks(demand, steady, reserves, ready, seed=seed, effort=QUICK, map=map)
    margins = pool_margins(demand, traffic.middling, memory, operating, steady, reserves)
    return PoolPlan(
        spec=pool,
        demands=tuple(demands),
        demand=demand,
        bases=bases,
        memory=memory,
        step_model=step,
        service_curve=curve,
        operating_point=operating,
        time_to_ready=ready,
        steady_fleet=steady,
        headroom=room,
        tools=tools if tools.lines else NO_TOOLS,
        binding=binding,
        admission_limits=limits,
        reserves=reserves,
        packing=packing,
        loss_checks=losses,
        scaling=_scaling(spec, memory, steady, ready, demand, reserves, seed=seed),
        margins=margins,
        utilisation=utilisation(demand, margins, steady, room, reserves, packing),
        scorecard=scorecard(steady, demand, measured=spec.measured),
    )


def _with_slos(demands: Sequence[ClassDemand]) -> tuple[tuple[RequestClass, ...], tuple[Assumption, ...]]:
    return tuple(each.request_class for each in demands), tuple(one for each in demands for one in each.slo_limits)


def _headroom(
    steady: SteadyFleet,
    rate_rps: float,
    *,
    seed: int,
    inputs: tuple[Figure, ...],
    map: Any,  # noqa: A002
) -> Headroom:
    """What the steady fleet has to spare, without trying again what its size found not to hold."""
    size = steady.size
    return headroom(
        steady.trial, size.probe, rate_rps=rate_rps, seed=seed, sized=size.conservative, inputs=inputs, map=map
    )


def _reserved(
    pool: PoolSpec,
    spec: PlanSpec,
    memory: MemoryBudget,
    steady: SteadyFleet,
    ready: TimeToReady,
    demand: Demand,
    taken: Mapping[str, int] | None,
    *,
    seed: int,
) -> tuple[Reserves, Packing] | Rejection:
    """Reserves where the plan's sites allow this pool's device, within the replicas that may ever run."""
    sites, sharding = spec.sites.get(pool.device.name), memory.runtime.sharding
    found = on_machines(pool, spec, sharding, steady, ready, demand, sites=sites, taken=taken, seed=seed)
    if isinstance(found, Rejection):
        return found
    reserves, _ = found
    if pool.most is not None and steady.replicas + reserves.replicas > int(pool.most.value):
        return _too_many(pool.most, steady, reserves)
    return found


def _scaling(
    spec: PlanSpec,
    memory: MemoryBudget,
    steady: SteadyFleet,
    ready: TimeToReady,
    demand: Demand,
    reserves: Reserves,
    *,
    seed: int,
) -> ScalingStage:
    engine = memory.runtime.engine
    return scaling_stage(demand, steady, reserves, ready, engine=engine, settings=spec.scaling, seed=seed)


def _too_many(most: Assumption, steady: SteadyFleet, reserves: Reserves) -> Rejection:
    """The plan needs more replicas than the pool may ever run."""
    needed = steady.replicas + reserves.replicas
    return Rejection(
        stage="scaling limits",
        reason=f"{needed} replicas are needed, {reserves.replicas} of them in reserve, but only {most.value} may run",
        figure=Figure(
            name="fleet.needed_replicas",
            value=needed,
            unit="replicas",
            formula="steady replicas + reserves",
            inputs=(steady.figures["fleet.replicas"], *(line.figure for line in reserves.lines), most),
        ),
        remedies=(
            Remedy(change=f"a {most.name} of {needed}", effect="the plan fits"),
            Remedy(
                change="a load test of a replica", effect=f"up to {steady.replicas - steady.nominal_replicas} fewer"
            ),
        ),
    )


def _figures(answer: StageAnswer | NotGiven, names: PoolNames | None) -> Mapping[str, Figure]:
    if isinstance(answer, NotGiven):
        return {}
    return answer.figures if names is None else names.figures(answer.figures)
