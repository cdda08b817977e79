"""Have, need, change, risk, and the order of steps: a plan compared with what runs.

Nothing here is advice to change everything at once. Steps are ordered so that capacity comes before it is relied on,
and is removed only after nothing relies on it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import number
from ullage.memory.kv import kv_dtype
from ullage.memory.settings import OFF, whole
from ullage.planning.brownfield.risks import (
    SATURATED_RULE,
    Risk,
    RiskSeverity,
    fraction,
    misleading_signals,
    pool_risks,
)
from ullage.planning.brownfield.running import Running, RunningPool
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An engine's argument that is not what the plan was made with; `have` is empty where the engine's default runs."""

    name: str
    have: str
    need: str


@dataclass(frozen=True, kw_only=True)
class PoolChange:
    """One pool of the plan beside the one that runs, or beside nothing. `limits` are the plan's, with what is set."""

    pool: str
    running: RunningPool | None
    need_replicas: int
    least_replicas: int
    devices_per_replica: int
    settings: tuple[Setting, ...]
    limits: tuple[Setting, ...]
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
    """Compares the plan with what runs. `models` maps each model of a running pool to its name in the catalogue."""
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
    if len(named) > 1:
        raise InputError(
            field="running",
            value=", ".join(each.where for each in named),
            problem=f"all are called {pool.spec.name}",
            fix="Give the objects of one namespace.",
        )
    if named:
        return named[0]
    serving = [each for each in candidates if models.get(each.model) == pool.spec.model.name]
    if len(serving) > 1:
        raise InputError(
            field="running",
            value=", ".join(each.name for each in serving),
            problem=f"all serve {pool.spec.model.name}, and none is called {pool.spec.name}",
            fix="Give the plan's pool the name of the workload it describes.",
        )
    return serving[0] if serving else None


def _change(pool: PoolPlan, found: RunningPool | None, running: Running) -> PoolChange:
    each = pool.memory.runtime.sharding.devices
    need = pool.steady_fleet.replicas + pool.reserves.replicas
    return PoolChange(
        pool=pool.spec.name,
        running=found,
        need_replicas=need,
        least_replicas=pool.scaling.derived.least_replicas,
        devices_per_replica=each,
        settings=() if found is None else _settings(pool, found),
        limits=_limits(pool, found),
        risks=() if found is None else tuple(pool_risks(pool, found, need, running)),
    )


def _settings(pool: PoolPlan, found: RunningPool) -> tuple[Setting, ...]:
    """Arguments that the plan relies on; one that is not set is the engine's default on both sides."""
    runtime = pool.memory.runtime
    needed = {
        "tensor_parallel": runtime.sharding.tp,
        "pipeline_parallel": runtime.sharding.pp,
        "token_budget": whole(runtime.step_tokens),
        "max_context": whole(runtime.max_context),
    }
    assumed = {"tensor_parallel": "1", "pipeline_parallel": "1"}
    have_fraction = fraction(found.settings.get("memory_fraction", ""))
    others = (
        ()
        if have_fraction in (None, number(runtime.memory_fraction))
        else (
            Setting(
                name="memory_fraction",
                have=found.settings["memory_fraction"],
                need=f"{number(runtime.memory_fraction):g}",
            ),
        )
    )
    return (
        *others,
        *(
            Setting(name=name, have=have, need=str(need))
            for name, need in needed.items()
            for have in (found.settings.get(name, assumed.get(name, "")),)
            if have and have != str(need)
        ),
        *_cache_settings(pool, found),
    )


def _cache_settings(pool: PoolPlan, found: RunningPool) -> Iterator[Setting]:
    """How prompts and keys are cached, and whether steps run as graphs, where the engine is told."""
    have, need = found.settings.get("kv_dtype", ""), pool.memory.runtime.cache.name
    if have and _dtype_name(have) not in ("", need):
        yield Setting(name="kv_dtype", have=have, need=need)
    planned = {
        "prefix_cache": "off" if pool.spec.settings.prefix_cache == OFF else "on",
        "graphs": "on" if pool.spec.settings.graphs else "off",
    }
    for name, wanted in planned.items():
        state = found.settings.get(name, "")
        if state and state != wanted:
            yield Setting(name=name, have=state, need=wanted)


def _dtype_name(text: str) -> str:
    """Ours for what an engine calls it; empty where it leaves the choice to the model, or is not known."""
    try:
        return kv_dtype(text).name
    except InputError:
        return ""


def _limits(pool: PoolPlan, found: RunningPool | None) -> tuple[Setting, ...]:
    """The settings of the plan: the engine's flags, the gateway's bounds, and how far a rollout may go."""
    limits = pool.admission_limits.figures
    running = f"{number(limits['limit.engine_running_requests']):g}"
    have = "" if found is None else found.settings.get("max_sequences", "")
    rollout = pool.reserves.rollout
    # An autoscaler leaves no replica idle to take out, but room for as many new ones.
    idle = rollout.unavailable_replicas if found is not None and found.scaled_by else 0
    return (
        Setting(name="engine max_sequences", have=have, need=running),
        Setting(name="gateway rate", have="", need=f"{number(limits['limit.pool_rate_rps']):.3g} req/s"),
        Setting(
            name="gateway waiting per replica", have="", need=f"{number(limits['limit.replica_queue_requests']):g}"
        ),
        Setting(
            name="rollout surge", have="" if found is None else found.surge, need=str(rollout.surge_replicas + idle)
        ),
        Setting(
            name="rollout unavailable",
            have="" if found is None else found.unavailable,
            need=str(rollout.unavailable_replicas - idle),
        ),
    )


def _shared_risks(wanted: int, free: int | None) -> tuple[Risk, ...]:
    if free is None:
        sentence = "No node was read, so the number of free devices is unknown."
        return (Risk(weight=RiskSeverity.COSTS, sentence=sentence),)
    if wanted > free:
        sentence = f"{wanted} more devices are needed and {free} are free: order {wanted - free} first."
        return (Risk(weight=RiskSeverity.STOPS, sentence=sentence),)
    return ()


def _steps(changes: Sequence[PoolChange], wanted: int, free: int | None) -> list[str]:
    """Devices, then bounds, then replicas, then settings one pool at a time, then removals."""
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
                f"Raise the maximum replicas of {run.scaled_by} from {run.most_replicas} to {each.need_replicas}."
            )
        if each.change_replicas > 0:
            steps.append(f"Scale {run.name} from {run.replicas} to {each.need_replicas} replicas.")
        if run.least_replicas is not None and run.least_replicas < each.least_replicas:
            steps.append(
                f"Raise the minimum replicas of {run.scaled_by} from {run.least_replicas} to {each.least_replicas}."
            )
        steps += _limit_steps(each, run)
        if each.settings:
            named = ", ".join(f"{one.name} {one.have} to {one.need}" for one in each.settings)
            steps.append(f"Roll out new settings of {run.name}, with the larger fleet up: {named}.")
    steps += [
        f"Only then scale {each.running.name} down from {each.running.replicas} to {each.need_replicas} replicas, and "
        "watch a busiest hour before releasing devices."
        for each in changes
        if each.running is not None and each.change_replicas < 0
    ]
    return steps


def _limit_steps(change: PoolChange, run: RunningPool) -> list[str]:
    """The limits of the plan where something else is set, and a signal that follows the load."""
    needed = {each.name: each for each in change.limits}
    steps = []
    is_saturated = any(SATURATED_RULE in each.sentence for each in change.risks)
    wrong = run.signals if is_saturated else misleading_signals(run)
    if wrong:
        waiting = needed["gateway waiting per replica"].need
        steps.append(
            f"Let {run.scaled_by} follow waiting requests per replica, below {waiting}, instead of "
            f"{' and '.join(wrong)}."
        )
    sequences = needed["engine max_sequences"]
    if sequences.have and sequences.have != sequences.need:
        steps.append(
            f"Set max_sequences of {run.name} from {sequences.have} to {sequences.need}, as the plan limits it."
        )
    surge, unavailable = needed["rollout surge"], needed["rollout unavailable"]
    is_other = any(each.have != each.need for each in (surge, unavailable))
    if is_other and any("A rollout takes" in each.sentence for each in change.risks):
        steps.append(
            f"Let a rollout of {run.name} surge by {surge.need} with {unavailable.need} unavailable, as the plan "
            f"reserves, not by {surge.have or 'none'} with {unavailable.have}."
        )
    return steps
