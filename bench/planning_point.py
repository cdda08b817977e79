"""Does the planning point, found with elasticities of pools in general, buy the chance that was chosen?

    python bench/planning_point.py

Four pools serve the built-in traffic: the built-in one on H100, H200 and B200, and an 8B model on L40S. Of each the
capacity surface is found by trials. The fleet that the planning point needs on that surface is put to joint draws of
demand, step times, lengths and cached share: how often it falls short, beside the chance that was chosen and the fleet
that would keep it. Hopeless draws (an SLO that no number of replicas meets) count as short, and are told by themselves.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from importlib.resources import files

import numpy as np
import yaml

from ullage.errors import Rejection
from ullage.fleet.risk.inputs import FRACTIONS, pool_uncertainties
from ullage.fleet.risk.load_draws import drawn_points, load_draws
from ullage.fleet.risk.planning_point import PlanningPoint, planning_point
from ullage.fleet.risk.shortfall import most_sensible
from ullage.fleet.risk.surface import STEPS, capacity_surface
from ullage.load.plan import load_plan
from ullage.load.pool import load_pool
from ullage.planning.planned_for import demand_at, demand_fraction
from ullage.planning.spec import PlanSpec
from ullage.service.stage import band_of
from ullage.workload.demand.demand import Demand

AS_OF = datetime.date(2026, 11, 16)
CHOSEN = (0.2, 0.1, 0.05, 0.02)
DRAWS = 8192
POOLS: dict[str, dict[str, object]] = {
    "Qwen3-32B, 2 H100": {},
    "Qwen3-32B, 2 H200": {"device": "h200-sxm"},
    "Qwen3-32B, 1 B200": {"device": "b200-sxm", "tensor_parallel": 1},
    "Qwen3-8B, 1 L40S": {"model": "Qwen/Qwen3-8B", "device": "l40s", "tensor_parallel": 1, "approved_concurrency": 1},
}


def plan_of(changes: dict[str, object]) -> dict[str, object]:
    text = (files("ullage.files") / "example.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = yaml.safe_load(text)
    return {**found, "pool": {**found["pool"], **changes}}


def point_at(spec: PlanSpec, shortfall: float) -> tuple[PlanningPoint, Demand]:
    middle, high = (demand_at(spec, demand_fraction(spec, each)) for each in (0.5, 1.0 - shortfall))
    return planning_point(replace(spec.policy.shortfall, value=shortfall), middle, high), high


def report(name: str, changes: dict[str, object]) -> None:
    plan = plan_of(changes)
    spec, pool = load_plan(plan, as_of=AS_OF), load_pool(plan, as_of=AS_OF)
    if isinstance(pool, Rejection):
        raise SystemExit(f"{name}: {pool.reason}")
    known = band_of(pool.step)
    demands = {each: demand_at(spec, demand_fraction(spec, each)) for each in FRACTIONS}
    given = pool_uncertainties(demands, pool.demand, known)
    spreads = {each.name: each.spread for each in given.inputs}
    surface = capacity_surface(replace(pool, band=known).bases(0), spreads, rate_rps=pool.demand.planning_rps, seed=0)
    # Surface noise is an error of ours, not a fact of the world.
    real = replace(given, surface_deviation_fraction=0.0)
    needed = load_draws(real, surface, drawn_points(real, DRAWS, seed=0)).needed
    most = most_sensible(needed)
    hopeless = float(np.mean(needed > most))
    for chosen in CHOSEN:
        point, high = point_at(spec, chosen)
        ratio = point.of_pool(known, pool.demand).band.slow_ratio
        slowed_rps = high.planning_rps * surface.slowdowns({STEPS: np.array([ratio])})
        fleet = int(surface.needed(slowed_rps)[0])
        least = int(np.quantile(needed, 1.0 - chosen, method="higher"))
        kept = str(least) if least <= most else "none"
        short = float(np.mean(needed > fleet))
        print(f"| {name} | {chosen:.0%} | {ratio:.2f} | {fleet} | {short:.1%} | {hopeless:.1%} | {kept} |", flush=True)


def main() -> None:
    print("| pool | chosen | steps slower by | replicas | short in | no fleet helps | fleet that keeps it |")
    print("|---|---|---|---|---|---|---|")
    for name, changes in POOLS.items():
        report(name, changes)


if __name__ == "__main__":
    main()
