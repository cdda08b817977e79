"""From how much work on Ray beats one process (`make bench-ray`): calls of one map, by the seconds of a task.

A task works for so many CPU seconds on one core. Every number of workers is a Ray of its own on this machine; a call of
`TASKS` tasks is timed on it, its workers warm, beside the same call on one core. Ray's start, and the first task of
every worker, which imports the planner, are paid once and printed apart. Times are by the clock: give it a machine that
does nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial

from ullage.execute.pool import inline
from ullage.execute.ray_map import ray_map

TASKS = 16
GRAINS_S = (0.001, 0.01, 0.1, 1.0)


def busy(at: int, *, seconds: float) -> int:
    """Pure work of one core, of a known length in CPU time: what else the machine does lengthens it alike."""
    import numpy as np

    from ullage.fleet.risk.quasi_random import sobol_points

    begun, done = time.thread_time(), 0
    while time.thread_time() - begun < seconds:
        done += int(sobol_points(64, 4, np.random.default_rng(at)).shape[0])
    return done


def wall_s(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    cores = os.cpu_count() or 1
    parser.add_argument("--workers", default=",".join(str(each) for each in (1, 2, 4, 8) if each <= cores))
    parser.add_argument("--grains", default=",".join(f"{each:g}" for each in GRAINS_S))
    asked = parser.parse_args()
    grains = [float(each) for each in asked.grains.split(",")]
    alone = {each: wall_s(partial(inline, partial(busy, seconds=each), range(TASKS))) for each in grains}
    print(f"{TASKS} tasks a call, {cores} cores\n")
    print("| workers | start, s | first tasks, s | s of a task | one process, s | Ray, s | times as fast |")
    print("|---|---|---|---|---|---|---|")
    for workers in (int(each) for each in asked.workers.split(",")):
        begun = time.perf_counter()
        with ray_map("ray", workers=workers) as (_, whole):
            start_s = time.perf_counter() - begun
            first_s = wall_s(partial(whole, partial(busy, seconds=0.0), range(2 * workers)))
            for grain in grains:
                # The second of two: whatever a worker loads for it is there.
                took = min(wall_s(partial(whole, partial(busy, seconds=grain), range(TASKS))) for _ in range(2))
                print(
                    f"| {workers} | {start_s:.1f} | {first_s:.1f} | {grain:g} | {alone[grain]:.2f} | {took:.2f} | "
                    f"{alone[grain] / took:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
