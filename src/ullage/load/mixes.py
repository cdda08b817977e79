"""The traffic of each pool of a plan, at any rate: what a load test of one replica sends."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ullage.errors import InputError, Rejection
from ullage.load.changes import NO_CHANGES, Changes
from ullage.load.plan import PlanSource, load_plan

if TYPE_CHECKING:
    from ullage.service.trial.mix import MixLoad


def pool_mixes(
    source: PlanSource, *, as_of: datetime.date, seed: int, changes: Changes = NO_CHANGES
) -> dict[str, MixLoad]:
    """By pool, the busy hour that its replicas are planned for, as one of them sees it."""
    from ullage.planning.planned_for import planned_for, pool_memory, pool_steps
    from ullage.planning.sides import pool_asked, pool_classes
    from ullage.service.stage import mix_of, replica_of

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    _, demand, _ = planned_for(spec)
    found = {}
    for pool in spec.pools:
        memory = pool_memory(pool)
        if isinstance(memory, Rejection):
            raise InputError(
                field=f"pool {pool.name}",
                value=memory.stage,
                problem=f"has no replica to test: {memory.reason}",
                fix="Fix the plan file, or plan again.",
            )
        asked = pool_asked(spec, pool, demand)
        classes = [each.request_class for each in pool_classes(spec, pool, asked)]
        found[pool.name] = mix_of(asked, classes, replica_of(pool_steps(pool, memory), memory))
    return found
