"""The replica that curve, size and simulate work on: that of a plan's pool, or one put together by names."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection, check_name
from ullage.load.changes import NO_CHANGES, Changes
from ullage.load.plan import PlanSource, load_plan
from ullage.load.typed import parse_host_cache, parse_share, parse_speculation, with_definitions, with_slos

if TYPE_CHECKING:
    from ullage.evidence import Assumption, Figure
    from ullage.fleet.risk.planning_point import PlanningPoint
    from ullage.memory.budget import MemoryBudget
    from ullage.planning.spec import ClassDemand, PlanSpec, PoolSpec
    from ullage.planning.work.limit import WorkLimit
    from ullage.service.calibration.evidence import CalibrationEvidence
    from ullage.service.calibration.pool_step import StepProfile
    from ullage.service.steps.band import StepBand
    from ullage.service.steps.step_model import StepModel
    from ullage.service.trial.bases import Bases
    from ullage.simulate.load import Requests
    from ullage.workload.classes import RequestClass
    from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class CurveInputs:
    """The part of a plan file's pool that a curve needs."""

    service: str
    replica: str
    step: StepModel
    band: StepBand
    memory: MemoryBudget
    demand: Demand
    classes: tuple[RequestClass, ...]
    slo_limits: tuple[Assumption, ...]
    deadlines_s: Mapping[str, float]
    as_of: datetime.date

    def bases(self, seed: int) -> Bases:
        """One replica of the pool under its busy hour, as a plan tries it."""
        from ullage.service.stage import pool_bases

        return pool_bases(
            self.step, self.memory, self.demand, self.classes,
            seed=seed, deadlines_s=self.deadlines_s, band=self.band,
        )  # fmt: skip

    def drawn(self, seed: int) -> Requests:
        """Requests of the pool's mix, as many as tell a mean length or a cached share to a hundredth or two."""
        from ullage.service.stage import mix_of, replica_of

        mix = mix_of(self.demand, self.classes, replica_of(self.step, self.memory))
        return mix(rate_rps=20.0, span_s=120.0, seed=seed).requests

    @property
    def inputs(self) -> tuple[Figure | Assumption, ...]:
        from ullage.service.stage import rests_on

        return rests_on(self.step, self.memory, self.demand, self.slo_limits)


@dataclass(frozen=True, kw_only=True)
class PoolSides:
    """A pool of a plan whose prefill and decode are apart: both sides, and the traffic and limits of the whole."""

    prefill: CurveInputs
    decode: CurveInputs
    prefill_pool: PoolSpec
    spec: PlanSpec
    demand: Demand

    @property
    def whole(self) -> CurveInputs:
        """The decode side's replica under the traffic and the limits of the whole."""
        demands = self.spec.served_by(self.prefill_pool.name)
        return replace(
            self.decode,
            demand=self.demand,
            classes=tuple(each.request_class for each in demands),
            slo_limits=tuple(one for each in demands for one in each.slo_limits),
        )


def load_pool(source: PlanSource = None, *, limit: WorkLimit | None = None, **asked: Any) -> CurveInputs | Rejection:
    """The stages of a plan that come before a curve: demand, memory, step model; work over the limit is refused.

    `asked` is as in `load_sides`. A pool whose prefill and decode are apart has two replicas, and is refused by name.
    """
    found = load_sides(source, limit=limit, **asked)
    if isinstance(found, PoolSides):
        raise InputError(
            field="pool.disaggregated",
            value=found.prefill_pool.whole,
            problem="is disaggregated, but this command handles replicas of one kind",
            fix="Use ullage plan, size or simulate, or leave it out: --set pool.disaggregated=null.",
        )
    return found


def load_sides(
    source: PlanSource = None,
    *,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: str | Path | None = None,
    beside: str | None = None,
    as_of: datetime.date,
    seed: int = 0,
    changes: Changes = NO_CHANGES,
    limit: WorkLimit | None = None,
) -> CurveInputs | PoolSides | Rejection:
    """The first pool of a plan as far as a curve needs it, or both its sides where they are apart."""
    from ullage.evidence import Evidence, Source
    from ullage.planning.planned_for import planned_for
    from ullage.planning.sides import pool_asked, pool_classes
    from ullage.planning.spec import slo_limits
    from ullage.planning.work.estimate import over_limit
    from ullage.planning.work.limit import DEFAULT_LIMIT
    from ullage.workload.demand.routing import pool_demand

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    own = [each for each in spec.pools if each.whole == spec.pool.whole]
    too_much = over_limit(replace(spec, pools=tuple(own)), limit or DEFAULT_LIMIT)
    if too_much is not None:
        return too_much
    if slos:
        stated = Source(what="stated by the user", where="--slo", date=as_of)
        changed = with_slos([each.request_class for each in spec.demands], slos)
        demands = tuple(
            replace(each, request_class=one, slo_limits=slo_limits(one, evidence=Evidence.STATED, source=stated))
            for each, one in zip(spec.demands, changed, strict=True)
        )
        spec = replace(spec, demands=demands)
    point, demand, _ = planned_for(spec)
    found: list[CurveInputs] = []
    for pool in own:
        asked = pool_asked(spec, pool, demand)
        served = pool_classes(spec, pool, asked)
        one = _curve_inputs(spec, pool, asked, served, point, calibration, beside, definitions, as_of)
        if isinstance(one, Rejection):
            return one
        found.append(one)
    if len(found) == 1:
        return found[0]
    whole = pool_demand(demand, spec.routing, spec.pool.whole, spec.own_pools)
    return PoolSides(prefill=found[0], decode=found[1], prefill_pool=own[0], spec=spec, demand=whole)


def load_pools(
    source: PlanSource = None, *, as_of: datetime.date, seed: int = 0, changes: Changes = NO_CHANGES
) -> dict[str, CurveInputs] | Rejection:
    """Every pool of a plan by its name, each under its own traffic; sides of a pool that are apart stand for it."""
    from ullage.planning.planned_for import planned_for
    from ullage.planning.sides import pool_asked, pool_classes

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    point, demand, _ = planned_for(spec)
    found: dict[str, CurveInputs] = {}
    for pool in spec.pools:
        asked = pool_asked(spec, pool, demand)
        one = _curve_inputs(spec, pool, asked, pool_classes(spec, pool, asked), point, None, None, None, as_of)
        if isinstance(one, Rejection):
            return one
        found[pool.name] = one
    return found


def _curve_inputs(
    spec: PlanSpec,
    asked: PoolSpec,
    demand: Demand,
    demands: Sequence[ClassDemand],
    point: PlanningPoint,
    calibration: str | Path | None,
    beside: str | None,
    definitions: str | None,
    as_of: datetime.date,
) -> CurveInputs | Rejection:
    from ullage.load.evidence import read_calibration
    from ullage.planning.planned_for import pool_memory, pool_steps
    from ullage.service.calibration.pool_step import StepEvidence
    from ullage.service.stage import band_of

    tested = asked.tested if calibration is None else StepEvidence(calibrations=(read_calibration(Path(calibration)),))
    # A calibration that is given here is not the evidence whose age the plan file counts.
    own = replace(asked, tested=tested, step_drift=asked.step_drift if calibration is None else None)
    memory = pool_memory(own)
    if isinstance(memory, Rejection):
        return memory
    step = _beside(pool_steps(own, memory), parse_share(beside, "--beside") or 0.0)
    return CurveInputs(
        service=spec.name,
        replica=f"{_name(memory)}{_other_pools(spec, asked)}",
        step=step,
        band=point.of_pool(band_of(step), demand).band,
        memory=memory,
        demand=demand,
        classes=with_definitions([each.request_class for each in demands], definitions),
        slo_limits=tuple(one for each in demands for one in each.slo_limits),
        deadlines_s=spec.admission.deadlines_s([each.request_class for each in demands]),
        as_of=as_of,
    )


@dataclass(frozen=True, kw_only=True)
class ReplicaChoice:
    """The replica by name. Without a model and a device, that of the plan file (or of the built-in example).

    Without an `engine_version` the engine is the newest known; `poll_steps` are the decode steps between two polls for
    new requests, by default the engine's own, and `batch_wait_steps` those that requests wait to be admitted together.
    `capacity_policy` is NAME[:CONSERVATIVENESS], and `output_limit_tokens` the max_tokens of requests.
    `kv_tokens` is the capacity that the engine reports; without it, what the memory budget leaves.
    `speculation` is METHOD:TOKENS[:PER_STEP][@DRAFT], `host_cache` BYTES:BANDWIDTH.
    `step_profile` is a file of measured steps, `aiconfigurator` or `aisimulate`. `neighbours_busy_fraction` is how much
    of the time other engines on the same device run, all together.
    """

    model: str | Path | None = None
    device: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1
    memory_fraction: float | None = None
    max_sequences: int | None = None
    budget_tokens: int | None = None
    poll_steps: int | None = None
    batch_wait_steps: int | None = None
    capacity_policy: str | None = None
    output_limit_tokens: int | None = None
    max_context_tokens: int | None = None
    kv_dtype: str | None = None
    kv_tokens: int | None = None
    speculation: str | None = None
    host_cache: str | None = None
    neighbours_busy_fraction: float = 0.0
    step_profile: str | None = None
    calibration: Path | None = None

    def __post_init__(self) -> None:
        if (self.model is None) != (self.device is None):
            raise InputError(
                field="--device" if self.device is None else "--model",
                value="not given",
                problem="a replica is a model on a device",
                fix="Give both, or neither for the replica of the plan file.",
            )
        for name in ("speculation", "host_cache"):
            if self.model is None and getattr(self, name):
                raise InputError(
                    field=f"--{name.replace('_', '-')}",
                    value=getattr(self, name),
                    problem="applies to a replica given by options, but this one is the plan's",
                    fix=f"Give --model and --device with it, or set pool.{name} in the plan file.",
                )

    @property
    def is_named(self) -> bool:
        return self.model is not None


def parse_policy(given: str | None) -> dict[str, Any]:
    """A capacity policy as it is typed, NAME[:CONSERVATIVENESS], as settings of an engine."""
    from ullage.facts.engine import CAPACITY_POLICIES

    if given is None:
        return {}
    name, apart, text = given.partition(":")
    check_name(name, CAPACITY_POLICIES, field="--capacity-policy")
    if not apart:
        return {"capacity_policy": name}
    try:
        return {"capacity_policy": name, "conservativeness": float(text)}
    except ValueError:
        raise InputError(
            field="--capacity-policy",
            value=given,
            problem=f"{text!r} is not a number",
            fix="Give the conservativeness after the colon: new_token_ratio:0.3.",
        ) from None


def load_replica(
    choice: ReplicaChoice, planned: CurveInputs | None, *, as_of: datetime.date
) -> tuple[MemoryBudget, StepModel, str] | Rejection:
    """The memory, the step model and the name of the replica that was chosen, or else of the plan's."""
    if choice.is_named:
        found = _named(choice, as_of)
        if isinstance(found, Rejection):
            return found
        memory, step = found
        name = _name(memory)
    else:
        assert planned is not None
        memory, step, name = planned.memory, planned.step, planned.replica
        memory = memory if choice.kv_tokens is None else replace(memory, kv_tokens=choice.kv_tokens)
    return memory, _beside(step, choice.neighbours_busy_fraction), name


def _as_tested(
    choice: ReplicaChoice, calibrations: Sequence[CalibrationEvidence]
) -> tuple[ReplicaChoice, tuple[str, ...]]:
    """The replica with what was stated of the engine that was tested, where nothing else is; and a sentence of it.

    A cache of stated size is that of the stated memory: whoever states that anew has another.
    """
    tested = {name: value for each in calibrations for name, value in each.engine.stated.items()}
    if choice.memory_fraction is not None or choice.max_context_tokens is not None:
        tested.pop("kv_tokens", None)
    taken = {name: value for name, value in tested.items() if getattr(choice, name) is None}
    if not taken:
        return choice, ()
    said = ", ".join(f"{name} {value}" for name, value in taken.items())
    return replace(choice, **taken), (f"The engine is that of the calibration's tests: {said}.",)  # type: ignore[arg-type]


def _named(choice: ReplicaChoice, day: datetime.date) -> tuple[MemoryBudget, StepModel] | Rejection:
    from ullage.evidence import Source
    from ullage.facts.device import find_device
    from ullage.load.evidence import read_calibration
    from ullage.load.names import load_catalogue, load_model
    from ullage.memory.budget import memory_budget
    from ullage.memory.settings import RuntimeSettings
    from ullage.memory.sharding import Sharding
    from ullage.service.calibration.pool_step import StepEvidence, pool_step

    model, device = choice.model, choice.device
    assert model is not None
    assert device is not None
    engines = load_catalogue("engines")
    calibrations = () if choice.calibration is None else (read_calibration(Path(choice.calibration)),)
    choice, said = _as_tested(choice, calibrations)
    settings = RuntimeSettings(
        source=Source(what="stated by the user", where="ullage simulate", date=day),
        engine=None if choice.engine is None else engines.find(choice.engine, field="engine").name,
        version=choice.engine_version,
        sharding=Sharding(tp=choice.tp, pp=choice.pp, ep=choice.ep, dp_attention=choice.dp_attention),
        memory_fraction=choice.memory_fraction,
        max_sequences=choice.max_sequences,
        step_tokens=choice.budget_tokens,
        poll_steps=choice.poll_steps,
        batch_wait_steps=choice.batch_wait_steps,
        **parse_policy(choice.capacity_policy),
        output_limit_tokens=choice.output_limit_tokens,
        max_context_tokens=choice.max_context_tokens,
        kv_dtype=choice.kv_dtype,
        speculation=parse_speculation(choice.speculation, load_model, as_of=day),
        host_cache=parse_host_cache(choice.host_cache),
    )
    memory = memory_budget(load_model(model), find_device(device), settings, engines=engines)
    if isinstance(memory, Rejection):
        return memory
    memory = memory if choice.kv_tokens is None else replace(memory, kv_tokens=choice.kv_tokens)
    step = pool_step(memory, StepEvidence(calibrations=calibrations, profile=_profile(choice, memory, day)))
    return memory, replace(step, notes=(*step.notes, *said))


def _profile(choice: ReplicaChoice, memory: MemoryBudget, day: datetime.date) -> StepProfile | None:
    """The measured steps that were named, where they were."""
    from ullage.load.evidence import read_step_profile

    if choice.step_profile is None:
        return None
    return read_step_profile(
        choice.step_profile,
        folder=Path(),
        model=memory.model,
        device=memory.device.name,
        engine=memory.runtime.engine,
        sharding=memory.runtime.sharding,
        as_of=day,
        field="--step-profile",
    )


def _beside(step: StepModel, busy_fraction: float) -> StepModel:
    """The step model beside other engines on its devices, which slow it; unchanged where there are none."""
    from ullage.service.steps.colocation import Neighbour, asks_of, beside, slow_ratio

    if not busy_fraction:
        return step
    neighbours = [Neighbour(name="others", busy_fraction=busy_fraction)]
    return beside(step, slow_ratio(asks_of(step), neighbours))


def _other_pools(spec: PlanSpec, own: PoolSpec) -> str:
    """Of a plan of several pools, which one it is and which are left out."""
    others = dict.fromkeys(each.whole for each in spec.pools if each.whole != own.whole)
    side = "" if own.phase is None else f", {own.phase.side.value} side"
    return f"{side}, pool {own.whole}; {', '.join(others)} left out" if others else side


def _name(memory: MemoryBudget) -> str:
    return f"{memory.model.name} on {memory.runtime.sharding.devices} x {memory.device.name}"
