"""Loss checks: what they cost compared with one plain run of the pool, and how often another seed has the same verdict.

    python bench/losses.py

Prints CPU seconds of the checks as a plan runs them and as `loss_checks` runs them by itself, each as a multiple of
one simulation of the peak hour, and the share of verdicts on which ten seeds agree.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter

import numpy as np

from ullage.errors import Rejection
from ullage.fleet.loss_scenarios import SCENARIOS
from ullage.fleet.losses import QUICK, THOROUGH, LossEffort, LossTable, loss_checks
from ullage.fleet.reserves import named_reserves
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.fleet.steady import steady_fleet
from ullage.load.plan import load_plan
from ullage.memory.budget import memory_budget
from ullage.service.stage import pool_bases, rests_on
from ullage.service.steps.step_model import replica_step
from ullage.startup.ready import time_to_ready
from ullage.workload.demand.demand import forecast_demand

SEEDS = 10


def main() -> None:
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    pool, policy = spec.pool, spec.policy
    demand = forecast_demand(spec.demands, horizon=policy.horizon, percentile=planned_percentile(policy.shortfall))
    memory = memory_budget(pool.model, pool.device, pool.settings, approved=pool.approved, engines=pool.engines)
    assert not isinstance(memory, Rejection)
    step = replica_step(pool.model, pool.device, memory.runtime)
    bases = pool_bases(step, memory, demand, spec.classes, seed=0)
    inputs = rests_on(step, memory, demand, spec.slo_limits)
    steady = steady_fleet(bases, planning_rps=demand.planning_rps, seed=0, inputs=inputs)
    assert not isinstance(steady, Rejection)
    ready = time_to_ready(memory, pool.start, rng=np.random.default_rng(0))
    reserves = named_reserves(steady, ready, demand, zones=policy.zones, seed=0)
    assert not isinstance(reserves, Rejection)

    def checked(effort: LossEffort, seed: int, *names: str) -> LossTable:
        wanted = names or tuple(SCENARIOS)
        return loss_checks(demand, steady, reserves, ready, seed=seed, effort=effort, names=wanted)

    checked(QUICK, 0)
    one_s = _cpu_s(lambda: checked(LossEffort(replications=1), 0, "peak_hour"))
    print(f"one run of the peak hour: {1000 * one_s:.0f} ms CPU")
    for name, effort in (("as in a plan", QUICK), ("thorough", THOROUGH)):
        took_s = _cpu_s(lambda effort=effort: checked(effort, 0))
        print(f"all checks, {name}: {took_s:.2f} s CPU, {took_s / one_s:.0f} times one run")
    for name, effort in (("as in a plan", QUICK), ("thorough", THOROUGH)):
        _agreement(name, [checked(effort, seed) for seed in range(SEEDS)])


def _agreement(name: str, tables: list[LossTable]) -> None:
    print(f"verdicts of {SEEDS} seeds, {name}:")
    for place, check in enumerate(tables[0].checks):
        found = Counter(str(table.checks[place].verdict) for table in tables)
        print(f"  {check.title:24}" + ", ".join(f"{verdict} {count}" for verdict, count in found.most_common()))


def _cpu_s(work: object) -> float:
    assert callable(work)
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
