"""Services with hidden step times, measured to the end: is the number of replicas right, and for how much GPU time?

    python -m bench.measure [--worlds 200] [--seconds 600]

Every world is a pool whose replica has the estimate's steps times five factors, drawn from what is known of the errors
of estimates. The tests are those that `ullage measure` chooses, and the simulator stands in for the service, with the
scatter of published repeats (TPOT 2.5 %, TTFT 6 %). The true number of replicas is what the same search finds with the
hidden steps; worlds in which no number meets the SLOs are left out. Compared with it: the GPU time of a sweep of eight
rates, evenly up to a tenth above the limit, each as `ullage emit --target loadtest` would run it (400 requests, 5 to 30
minutes), and each as long as a test here (4 min).
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.measured_worlds import hidden_steps, measured_world, plan_file, true_replicas, world_pool
from ullage.emit.loadtests.design import LONGEST_S, SHORTEST_S, WANTED_REQUESTS
from ullage.errors import InputError
from ullage.service.measuring.planned_test import WANTED_S

SWEEP_RATES = 8
ABOVE_RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class Result:
    pool: str
    true: int
    estimated: int
    found: int
    low: int
    high: int
    is_decided: bool
    tests: int
    gpu_s: float
    sweep_s: float
    short_sweep_s: float


def pools() -> dict[str, dict[str, Any]]:
    """Two small pools: one whose TPOT limit binds early, one whose KV cache does."""
    tight, large = plan_file("40 req/s"), plan_file("14 req/s")
    tight["workload"]["classes"][0]["slo"] = {"ttft_p95": "2s", "tpot_p95": "45ms"}
    large["workload"]["classes"][0]["slo"] = {"ttft_p95": "2s", "tpot_p95": "80ms"}
    large["pool"]["model"] = "llama-3.1-70b"
    return {"qwen3-32b, TPOT p95 45 ms": tight, "llama-3.1-70b, TPOT p95 80 ms": large}


def world(name: str, pool: Any, seed: int) -> Result | None:
    """One service; None where no number of replicas would meet its SLOs, so that there is nothing to decide."""
    rng = np.random.default_rng([20261116, seed])
    hidden = hidden_steps(pool, rng)
    true = true_replicas(pool, hidden)
    if true is None:
        return None
    found = measured_world(pool, hidden, rng)
    last = found.narrowings[-1]
    limit_rps = pool.rate_rps / true
    rates = [ABOVE_RATIO * limit_rps * (at + 1) / SWEEP_RATES for at in range(SWEEP_RATES)]
    sweep_s = sum(min(max(WANTED_REQUESTS / rate, SHORTEST_S), LONGEST_S) for rate in rates)
    return Result(
        pool=name,
        true=true,
        estimated=found.narrowings[0].replicas,
        found=last.replicas,
        low=last.low_replicas,
        high=last.high_replicas,
        is_decided=found.stop.is_decided,
        tests=len(found.done),
        gpu_s=pool.devices * sum(each.wall_s for each in found.done),
        sweep_s=pool.devices * sweep_s,
        short_sweep_s=pool.devices * SWEEP_RATES * WANTED_S,
    )


def row(name: str, found: list[Result]) -> str:
    def share(right: list[bool]) -> str:
        return f"{sum(right)} of {len(right)} ({sum(right) / len(right):.0%})"

    gpu, sweep = sum(each.gpu_s for each in found), sum(each.sweep_s for each in found)
    short = sum(each.short_sweep_s for each in found)
    cells = (
        name,
        f"{min(each.true for each in found)} to {max(each.true for each in found)}",
        share([abs(each.estimated - each.true) <= 1 for each in found]),
        share([abs(each.found - each.true) <= 1 for each in found]),
        share([each.is_decided for each in found]),
        share([each.low <= each.true <= each.high for each in found]),
        f"{np.mean([each.tests for each in found]):.2f}",
        f"{gpu / len(found) / 60:.1f} min",
        f"{gpu / sweep:.0%}",
        f"{gpu / short:.0%}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first world, to go on with")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, whatever the worlds")
    given = parser.parse_args()
    asked = {name: world_pool(plan=plan) for name, plan in pools().items()}
    began, cpu = time.monotonic(), time.process_time()
    found: list[Result] = []
    refused = 0
    for at in range(given.first, given.first + given.worlds):
        if time.monotonic() - began > given.seconds:
            break
        name = list(asked)[at % len(asked)]
        try:
            one = world(name, asked[name], at)
        except InputError as error:
            # The draw was faster than the device's memory, and a tool that believes such a test would be wrong.
            refused += 1
            print(f"{at}: refused: {error}", file=sys.stderr, flush=True)
            continue
        if one is None:
            continue
        found.append(one)
        print(f"{at}: true {one.true}, found {one.found}, {one.tests} tests", file=sys.stderr, flush=True)
    columns = (
        "pool", "true replicas", "estimate within one", "measured within one", "decided", "range holds the truth",
        "tests", "GPU time", "of a sweep of 8 rates", "of one of 4 min each",
    )  # fmt: skip
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for name in asked:
        print(row(name, [each for each in found if each.pool == name]))
    print(row("both", found))
    each_s = (time.process_time() - cpu) / len(found)
    said = f"{len(found)} worlds and {refused} that were refused, {each_s:.1f} CPU-s each."
    print(f"\n{said} Must: 90 % within one replica, 33 % of the sweep's time.")


if __name__ == "__main__":
    main()
