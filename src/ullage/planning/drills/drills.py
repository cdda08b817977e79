"""Drills: what goes wrong in practice, simulated on a plan before it happens.

    run_drills(plan)  ->  Drills of DrillResult: verdict, a figure before and during, and the change that would pass

To add one: write a function from PoolScenario to DrillResult, list it here and in docs/howto/run-drills.md.
tests/planning/test_drills.py asks for a plan that fails it and one that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import check_name
from ullage.planning.document import Plan
from ullage.planning.drills.loss import cache_drill, memory_drill, quota_drill, warm_up_drill, zone_drill
from ullage.planning.drills.money import economics_drill, idle_drill
from ullage.planning.drills.overload import collapse_drill, storm_drill, tool_drill
from ullage.planning.drills.result import DrillResult, Drills
from ullage.planning.drills.scenario import RUNS, PoolScenario


@dataclass(frozen=True, kw_only=True)
class Drill:
    """`asks` is the question in a line; a drill of the service is played once, the others on every pool."""

    asks: str
    play: Callable[[PoolScenario], DrillResult]
    is_of_service: bool = False


DRILLS: dict[str, Drill] = {
    "memory": Drill(asks="Are SLOs met with a tenth of device memory gone?", play=memory_drill),
    "queue-collapse": Drill(asks="Do as many requests succeed in overload?", play=collapse_drill),
    "idle-fleet": Drill(asks="Is at least half of the fleet needed?", play=idle_drill),
    "warm-up": Drill(asks="Are SLOs met while replicas start?", play=warm_up_drill),
    "cache-miss": Drill(asks="Are SLOs met when no prefix is cached?", play=cache_drill),
    "quota": Drill(asks="Are SLOs met when the quota is exhausted?", play=quota_drill),
    "unit-economics": Drill(
        asks="Does a success cost about the same at half the traffic?", play=economics_drill, is_of_service=True
    ),
    "zone": Drill(asks="Are SLOs met without the largest zone?", play=zone_drill),
    "retry-storm": Drill(asks="Does it recover when clients retry?", play=storm_drill),
    "tool-outage": Drill(asks="Are SLOs met when a tool fails and recovers?", play=tool_drill),
}


def run_drills(
    plan: Plan,
    names: Sequence[str] = (),
    *,
    map: Any = map,  # noqa: A002
) -> Drills:
    """Play the named drills, all where none is named, on every pool of the plan."""
    for name in names:
        check_name(name, DRILLS, field="drill")
    grounds = [PoolScenario(plan=plan, pool=pool) for pool in plan.pools]
    jobs = [
        (drill, scenario)
        for name, drill in DRILLS.items()
        if not names or name in names
        for scenario in (grounds[:1] if drill.is_of_service else grounds)
    ]
    # Jobs go by their place: what they share, the plan above all, is then one thing to whoever plays them elsewhere.
    return Drills(
        results=tuple(map(lambda at: jobs[at][0].play(jobs[at][1]), range(len(jobs)))),
        notes=tuple(_note(scenario) for scenario in grounds),
    )


def _note(scenario: PoolScenario) -> str:
    slow = (
        f" Steps are {scenario.slow_ratio:.3g} times nominal, as the fleet was sized."
        if scenario.slow_ratio > 1.0
        else ""
    )
    return (
        f"{scenario.pool.spec.name}: {scenario.replicas} serving replicas at the planning rate of "
        f"{scenario.planning_rps:.3g} req/s, {RUNS} runs of each drill on the fleet.{slow}"
    )
