"""The steady fleet: replicas for the planned demand, verified by simulating the pool with its router.

No reserve is in it: failure, rollout, maintenance and warm capacity are lines of their own, on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure
from ullage.memory.budget import MemoryBudget
from ullage.service.sizing import PoolSize
from ullage.service.stage import pool_size
from ullage.service.step_model import StepModel
from ullage.workload.classes import RequestClass
from ullage.workload.demand import Demand

_HOW = (
    "Simulated is the planning rate of all classes together, in the proportions of their busiest hours, in one pool "
    "behind a router that counts outstanding requests. The first number has no margin for evidence in it, the careful "
    "one has all of it."
)


@dataclass(frozen=True, kw_only=True)
class SteadyFleet:
    """So many replicas carry the planning rate; `careful` is the number where the evidence errs on the slow side."""

    size: PoolSize
    replicas: int
    careful_replicas: int
    devices: int
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        return (_HOW,)


def steady_fleet(
    step: StepModel,
    memory: MemoryBudget,
    demand: Demand,
    classes: Sequence[RequestClass],
    *,
    seed: int,
    promises: Sequence[Assumption] = (),
    map: Any = map,  # noqa: A002
) -> SteadyFleet | Rejection:
    """The least pool that keeps every promise at the planning rate of demand, in replicas and devices."""
    found = pool_size(
        step, memory, demand, classes, rate_rps=demand.planning_rps, seed=seed, promises=promises, map=map
    )
    if isinstance(found, Rejection):
        return found
    each = memory.runtime.sharding.devices
    counted = {
        "fleet.devices": ("size.replicas", found.replicas * each),
        "fleet.careful_devices": ("size.careful_replicas", found.careful_replicas * each),
    }
    devices = {
        name: Figure(
            name=name,
            value=value,
            unit="devices",
            formula=f"replicas x {each} devices each, without any reserve",
            inputs=(found.figures[replicas],),
        )
        for name, (replicas, value) in counted.items()
    }
    return SteadyFleet(
        size=found,
        replicas=found.replicas,
        careful_replicas=found.careful_replicas,
        devices=found.replicas * each,
        figures={**found.figures, **devices},
    )
