"""Have, need, change, risk, and the order of steps: a plan laid over what runs.

Nothing here is advice to change everything at once. Steps are ordered so that capacity comes before it is relied on,
and is let go only after nothing relies on it any more.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.facts.device import find_device
from ullage.fleet.rollout import roll
from ullage.memory.settings import whole
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.planning.running import Running, RunningPool
from ullage.scaling.faults import rule_faults


class RiskSeverity(enum.Enum):
    """How much a risk matters: it violates an SLO or stops a step, or it costs or hides something."""

    STOPS = "stops"
    COSTS = "costs"


@dataclass(frozen=True, kw_only=True)
class Risk:
    weight: RiskSeverity
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An engine's argument that is not what the plan was made with; `have` is empty where the engine's default runs."""

    name: str
    have: str
    need: str


@dataclass(frozen=True, kw_only=True)
class PoolChange:
    """One pool of the plan beside the one that runs, or beside nothing."""

    pool: str
    running: RunningPool | None
    need_replicas: int
    steady_replicas: int
    devices_per_replica: int
    settings: tuple[Setting, ...]
    risks: tuple[Risk, ...]

    @property
    def have_replicas(self) -> int:
        return 0 if self.running is None else self.running.replicas

    @property
    def change_replicas(self) -> int:
        return self.need_replicas - self.have_replicas

    @property
    def change_devices(self) -> int:
        have = 0 if self.running is None else self.running.devices
        return self.need_replicas * self.devices_per_replica - have


@dataclass(frozen=True, kw_only=True)
class Brownfield:
    """The whole of it. `unplanned` runs and is in no plan; it keeps its devices."""

    changes: tuple[PoolChange, ...]
    unplanned: tuple[RunningPool, ...]
    free_devices: int | None
    risks: tuple[Risk, ...]
    steps: tuple[str, ...]


def brownfield(plan: Plan, running: Running, *, models: Mapping[str, str]) -> Brownfield:
    """Lay the plan over what runs. `models` says what the catalogue calls each model that a running pool names."""
    left = list(running.pools)
    changes = []
    for pool in plan.pools:
        found = _match(pool, left, models)
        if found is not None:
            left.remove(found)
        changes.append(_change(pool, found, running))
    wanted = sum(each.change_devices for each in changes)
    free = running.free_devices
    risks = _shared_risks(wanted, free)
    return Brownfield(
        changes=tuple(changes),
        unplanned=tuple(left),
        free_devices=free,
        risks=risks,
        steps=tuple(_steps(changes, wanted, free)),
    )


def _match(pool: PoolPlan, candidates: Sequence[RunningPool], models: Mapping[str, str]) -> RunningPool | None:
    """The running pool of this name, or the only one that serves this model."""
    named = [each for each in candidates if each.name == pool.spec.name]
    if named:
        return named[0]
    serving = [each for each in candidates if models.get(each.model) == pool.spec.model.name]
    if len(serving) > 1:
        raise InputError(
            field="running",
            value=", ".join(each.name for each in serving),
            problem=f"all serve {pool.spec.model.name}, and none is called {pool.spec.name}",
            fix="Name the plan's pool as the one that it is about.",
        )
    return serving[0] if serving else None


def _change(pool: PoolPlan, found: RunningPool | None, running: Running) -> PoolChange:
    each = pool.memory.runtime.sharding.devices
    need = pool.steady_fleet.replicas + pool.reserves.replicas
    return PoolChange(
        pool=pool.spec.name,
        running=found,
        need_replicas=need,
        steady_replicas=pool.steady_fleet.replicas,
        devices_per_replica=each,
        settings=() if found is None else _settings(pool, found),
        risks=() if found is None else tuple(_risks(pool, found, need, running)),
    )


def _settings(pool: PoolPlan, found: RunningPool) -> tuple[Setting, ...]:
    """Arguments that the plan relies on; one that nobody set is the engine's default on both sides."""
    runtime = pool.memory.runtime
    needed = {
        "tensor_parallel": runtime.sharding.tp,
        "pipeline_parallel": runtime.sharding.pp,
        "max_sequences": whole(runtime.max_sequences),
        "token_budget": whole(runtime.step_tokens),
        "max_context": whole(runtime.max_context),
    }
    assumed = {"tensor_parallel": "1", "pipeline_parallel": "1"}
    return tuple(
        Setting(name=name, have=have, need=str(need))
        for name, need in needed.items()
        for have in (found.settings.get(name, assumed.get(name, "")),)
        if have and have != str(need)
    )


def _risks(pool: PoolPlan, found: RunningPool, need: int, running: Running) -> list[Risk]:
    risks = []
    steady = pool.steady_fleet.replicas
    if found.most_replicas is not None and found.most_replicas < need:
        risks.append(
            Risk(
                weight=RiskSeverity.STOPS,
                sentence=f"{found.scaled_by} allows at most {found.most_replicas} replicas, and {need} are needed.",
            )
        )
    if found.least_replicas is not None and found.least_replicas < steady:
        slow = pool.time_to_ready.figures["ready.cold_p90_s"]
        risks.append(
            Risk(
                weight=RiskSeverity.COSTS,
                sentence=f"{found.scaled_by} may go down to {found.least_replicas} replicas; back to {steady} takes a "
                f"cold start of up to {float(slow.value) / 60:.0f} min.",
            )
        )
    if found.devices_per_replica != pool.memory.runtime.sharding.devices:
        risks.append(
            Risk(
                weight=RiskSeverity.STOPS,
                sentence=f"A replica holds {found.devices_per_replica} devices, and the plan's has "
                f"{pool.memory.runtime.sharding.devices}: the plan is about another replica.",
            )
        )
    if found.device and not _same_device(found.device, pool):
        risks.append(
            Risk(
                weight=RiskSeverity.STOPS,
                sentence=f"It runs on {found.device}, and the plan is for {pool.spec.device.name}.",
            )
        )
    return [*risks, *_rule_risks(pool, found), *_rollout_risk(pool, found, running)]


def _rule_risks(pool: PoolPlan, found: RunningPool) -> list[Risk]:
    """Faults of the autoscaler's rule; the ramp and the time to ready are the plan's."""
    if found.rule is None:
        return []
    derived = pool.scaling.derived
    faults = rule_faults(
        found.rule,
        ready_s=derived.ready_s,
        ramp_per_s=derived.ramp_rps_per_s * pool.steady_fleet.replicas / pool.demand.planning_rps,
        start_replicas=found.replicas,
    )
    return [
        Risk(weight=RiskSeverity.STOPS, sentence=f"Its rule, {each.name}: {each.sentence}. {each.fix}")
        for each in faults
    ]


def _rollout_risk(pool: PoolPlan, found: RunningPool, running: Running) -> list[Risk]:
    """Whether the next change of version can end with the devices that are free today."""
    surge, unavailable = (_share(text, found.replicas) for text in (found.surge, found.unavailable))
    if found.replicas == 0 or surge is None or unavailable is None or running.free_devices is None:
        return []
    spare = max(0, running.free_devices) // found.devices_per_replica
    course = roll(
        found.replicas,
        surge=math.ceil(surge),
        unavailable=math.floor(unavailable),
        spare_replicas=spare,
        start_s=float(pool.time_to_ready.figures["ready.warm_p90_s"].value),
        drain_s=0.0,
    )
    if course.is_deadlocked:
        return [
            Risk(
                weight=RiskSeverity.STOPS,
                sentence=f"A rollout never ends: it may surge by {found.surge} with {found.unavailable} unavailable, "
                f"and {running.free_devices} devices are free for replicas of {found.devices_per_replica}.",
            )
        ]
    return []


def _share(text: str, replicas: int) -> float | None:
    """Replicas from a number or a share of them, as Kubernetes writes both."""
    number = text.removesuffix("%")
    if not number.isdigit():
        return None
    return int(number) / 100 * replicas if text.endswith("%") else float(number)


def _same_device(label: str, pool: PoolPlan) -> bool:
    """By the catalogue's aliases; a label that is not among them is not held against the plan."""
    try:
        return find_device(label).name == pool.spec.device.name
    except InputError:
        return True


def _shared_risks(wanted: int, free: int | None) -> tuple[Risk, ...]:
    if free is None:
        sentence = "No node was read, so nobody knows how many devices are free."
        return (Risk(weight=RiskSeverity.COSTS, sentence=sentence),)
    if wanted > free:
        sentence = f"{wanted} more devices are needed and {free} are free: {wanted - free} must be ordered first."
        return (Risk(weight=RiskSeverity.STOPS, sentence=sentence),)
    return ()


def _steps(changes: Sequence[PoolChange], wanted: int, free: int | None) -> list[str]:
    """Devices, then bounds, then replicas, then settings one pool at a time, then what is let go."""
    steps = []
    if free is not None and wanted > free:
        steps.append(f"Order {wanted - free} devices, with quota for them, before anything else changes.")
    for each in changes:
        run = each.running
        if run is None:
            steps.append(f"Deploy {each.pool} with {each.need_replicas} replicas; nothing serves it today.")
            continue
        if run.most_replicas is not None and run.most_replicas < each.need_replicas:
            steps.append(
                f"Raise the most replicas of {run.scaled_by} from {run.most_replicas} to {each.need_replicas}."
            )
        if each.change_replicas > 0:
            steps.append(f"Scale {run.name} from {run.replicas} to {each.need_replicas} replicas.")
        if run.least_replicas is not None and run.least_replicas < each.steady_replicas:
            steps.append(
                f"Raise the least replicas of {run.scaled_by} from {run.least_replicas} to {each.steady_replicas}."
            )
        if each.settings:
            named = ", ".join(f"{one.name} {one.have} to {one.need}" for one in each.settings)
            steps.append(f"Roll out new settings of {run.name}, with the larger fleet up: {named}.")
    steps += [
        f"Only then scale {each.running.name} down from {each.running.replicas} to {each.need_replicas} replicas, and "
        "watch a busiest hour before devices are given back."
        for each in changes
        if each.running is not None and each.change_replicas < 0
    ]
    return steps
