"""Risks of a running pool for a plan: bounds, signals, memory, rollouts, versions.

Each rule reads what the cluster states and the plan's own figures; what is not stated is no risk.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import number
from ullage.facts.device import find_device
from ullage.fleet.rollout import roll
from ullage.planning.brownfield.running import Running, RunningPool
from ullage.planning.pool_plan import PoolPlan
from ullage.scaling.faults import rule_faults

_HOST_SIGNALS = ("cpu", "memory")
"""A server of language models keeps a core busy whether one request waits or a thousand, and its memory never falls."""

SATURATED_RULE = "Its rule, saturated:"
"""How the risk of a rule begins whose signal stops growing while requests wait."""

_MOST_MEMORY_FRACTION = 0.95
"""Above it the context, libraries and fragmentation of most start-up logs no longer fit beside the engine."""


class RiskSeverity(enum.Enum):
    """How much a risk matters: it violates an SLO or stops a step, or it costs or hides something."""

    STOPS = "stops"
    COSTS = "costs"


@dataclass(frozen=True, kw_only=True)
class Risk:
    weight: RiskSeverity
    sentence: str


def pool_risks(pool: PoolPlan, found: RunningPool, need: int, running: Running) -> Iterator[Risk]:
    """Every risk of this running pool, seen from the plan."""
    yield from _bounds(pool, found, need)
    yield from _another_replica(pool, found)
    yield from _signal(pool, found)
    yield from _rule(pool, found)
    yield from _memory(pool, found)
    yield from _without_hits(pool, found)
    yield from _version(pool, found)
    yield from _rollout_loss(pool, found)
    yield from _rollout_risk(pool, found, running)


def _rule(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    """Faults of the autoscaler's rule; the ramp and the time to ready are the plan's."""
    if found.rule is None:
        return
    derived = pool.scaling.derived
    for each in rule_faults(
        found.rule,
        ready_s=derived.ready_s,
        ramp_per_s=derived.ramp_rps_per_s * pool.steady_fleet.replicas / pool.demand.planning_rps,
        start_replicas=found.replicas,
    ):
        yield _stops(f"Its rule, {each.name}: {each.sentence}. {each.fix}")


def _stops(sentence: str) -> Risk:
    return Risk(weight=RiskSeverity.STOPS, sentence=sentence)


def _costs(sentence: str) -> Risk:
    return Risk(weight=RiskSeverity.COSTS, sentence=sentence)


def _bounds(pool: PoolPlan, found: RunningPool, need: int) -> Iterator[Risk]:
    steady, least = pool.steady_fleet.replicas, pool.scaling.derived.least_replicas
    if found.most_replicas is not None and found.most_replicas < need:
        yield _stops(f"{found.scaled_by} allows at most {found.most_replicas} replicas, but {need} are needed.")
    if found.least_replicas is not None and found.least_replicas < least:
        slow = pool.time_to_ready.figures["ready.cold_p90_s"]
        yield _costs(
            f"{found.scaled_by} may scale down to {found.least_replicas} replicas, the plan's rule to {least}; going "
            f"back to {steady} takes a cold start of up to {float(slow.value) / 60:.0f} min."
        )


def _another_replica(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    devices = pool.memory.runtime.sharding.devices
    if found.devices_per_replica != devices:
        yield _stops(
            f"A replica holds {found.devices_per_replica} devices, the plan's {devices}: the plan describes "
            "a different replica."
        )
    if found.device and not _same_device(found.device, pool):
        yield _stops(f"It runs on {found.device}, but the plan is for {pool.spec.device.name}.")


def misleading_signals(found: RunningPool) -> tuple[str, ...]:
    """The signals of its autoscaler that do not follow the load of an engine on a device."""
    return tuple(each for each in found.signals if each in _HOST_SIGNALS)


def _signal(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    misled = misleading_signals(found)
    if not misled:
        return
    others = [each for each in found.signals if each not in misled]
    beside = f" beside {', '.join(others)}" if others else ""
    waiting = number(pool.admission_limits.figures["limit.replica_queue_requests"])
    sentence = (
        f"{found.scaled_by} follows {' and '.join(misled)}{beside}, which a GPU engine uses equally at any "
        f"load: the queue passes {waiting:g} waiting per replica before it reacts."
    )
    yield _costs(sentence) if others else _stops(sentence)


def _memory(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    """A share of the device's memory that leaves the rest of the process too little."""
    runtime = pool.memory.runtime
    have, need = fraction(found.settings.get("memory_fraction", "")), number(runtime.memory_fraction)
    if have is None or have <= max(need, _MOST_MEMORY_FRACTION) or found.engine not in ("", runtime.engine):
        return
    total = number(pool.spec.device.memory) / 2**30
    yield _stops(
        f"memory_fraction {have:g} leaves {(1.0 - have) * total:.1f} GiB per device outside the engine, the plan "
        f"at {need:g} leaves {(1.0 - need) * total:.1f}: graphs, libraries or a long prompt may crash a replica in the "
        "busiest hour."
    )


def _without_hits(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    """A prefix cache that is off, where the plan's replicas are few because of its hits."""
    hits = number(pool.scorecard.figures["score.cached_fraction"])
    if found.settings.get("prefix_cache") != "off" or hits <= 0.0:
        return
    yield _stops(
        f"The prefix cache is off, and the plan counts on {100 * hits:.0f} % of prompt tokens from it: the replicas of "
        "the plan do not carry the busiest hour without. Switch it on, or state pool.prefix_cache: off and plan again."
    )


def fraction(text: str) -> float | None:
    """A share from 0 to 1 as a flag has it; None where it is none.

    >>> fraction("0.98"), fraction("auto"), fraction("")
    (0.98, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 < value <= 1.0 else None


def version_behind(pool: PoolPlan, found: RunningPool) -> str:
    """The plan's version of the engine where an older one runs, as far as both are known."""
    runtime = pool.memory.runtime
    have, need = (_version_numbers(each) for each in (found.engine_version, runtime.version))
    return runtime.version if found.engine == runtime.engine and have and need and have < need else ""


def _version(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    need = version_behind(pool, found)
    if need:
        yield _costs(
            f"{found.engine} {found.engine_version} runs, and the plan is made for {need}: step times, defaults and "
            f"memory of a newer engine are not those of this one. Upgrade it first, or plan for it with "
            f"pool.engine_version: {found.engine_version}."
        )


def _version_numbers(text: str) -> tuple[int, ...]:
    """Major and minor number: patch releases are not told apart."""
    parts = text.split(".")[:2]
    return tuple(int(each) for each in parts) if len(parts) == 2 and all(each.isdigit() for each in parts) else ()


def _rollout_loss(pool: PoolPlan, found: RunningPool) -> Iterator[Risk]:
    """Whether a rollout takes away replicas that the busiest hour needs."""
    unavailable = _share(found.unavailable, found.replicas)
    gone = 0 if unavailable is None else math.floor(unavailable)
    steady = pool.steady_fleet.replicas
    if gone < 1 or found.replicas - gone >= steady:
        return
    yield _stops(
        f"A rollout takes {gone} of {found.replicas} replicas away (surge {found.surge or 'not stated'}, "
        f"{found.unavailable} unavailable): {found.replicas - gone} serve where the busiest hour needs {steady}."
    )


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
                sentence=f"A rollout cannot finish: it may surge by {found.surge} with {found.unavailable} "
                "unavailable, "
                f"but {running.free_devices} devices are free for replicas of {found.devices_per_replica}.",
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
    """By the catalogue's aliases; a label that is not among them is not compared with the plan."""
    try:
        return find_device(label).name == pool.spec.device.name
    except InputError:
        return True
