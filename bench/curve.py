"""How long a curve, a point and a size take, and whether two seeds agree as often as their intervals say.

    python bench/curve.py [--repeats 20]

CPU seconds after start-up, on the built-in example (chat and coding on the built-in plan's replica), beside one bare
simulation of the same load in the same run, so that the ratio holds on any machine.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from ullage.errors import Rejection
from ullage.execute.pool import thread_map
from ullage.load.pool import CurveInputs, load_pool
from ullage.service.curve.curve import Effort
from ullage.service.stage import pool_curve, pool_point, pool_size
from ullage.service.trial.search import highest_load
from ullage.service.trial.window import run_load

T = TypeVar("T")
AS_OF = datetime.date(2026, 11, 15)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started_s = time.process_time()
    found = work()
    return found, time.process_time() - started_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="seeds that are compared two by two")
    repeats = parser.parse_args().repeats
    pool = load_pool(None, slos=(), as_of=AS_OF)
    if isinstance(pool, Rejection):
        sys.exit(pool.reason)
    # Compiled code is read from the cache with the first run; the table is about what comes after.
    pool_curve(pool.step, pool.memory, pool.demand, pool.classes, seed=9, effort=Effort(requests=200, refined_points=0))
    speed(pool)
    agreement(pool, repeats)


def speed(pool: CurveInputs) -> None:
    curve, curve_s = timed(lambda: pool_curve(pool.step, pool.memory, pool.demand, pool.classes, seed=0))
    _, run_s = timed(lambda: [run_load(curve.bench, curve.saturation_rps / 2, seed) for seed in range(10)])
    _, point_s = timed(lambda: pool_point(curve, pool.step))
    rows = [("one run of one load", run_s / 10), ("curve", curve_s), ("operating point", point_s)]
    for rate_rps in (5.0, 50.0):
        ask = rate_rps
        _, size_s = timed(
            lambda: pool_size(pool.step, pool.memory, pool.demand, pool.classes, rate_rps=ask, seed=0)  # noqa: B023
        )
        rows.append((f"size for {rate_rps:g} req/s", size_s))
    with thread_map(workers=None) as spread:
        started_s = time.perf_counter()
        pool_size(pool.step, pool.memory, pool.demand, pool.classes, rate_rps=50.0, seed=0, map=spread)
        wall_s = time.perf_counter() - started_s
    sys.stdout.write(f"{'what':<24}{'CPU s':>8}{'in runs':>10}\n")
    for name, took_s in rows:
        sys.stdout.write(f"{name:<24}{took_s:>8.3f}{took_s / (run_s / 10):>10.0f}\n")
    sys.stdout.write(f"size for 50 req/s on all cores: {wall_s:.2f} s on the clock\n")


def agreement(pool: CurveInputs, repeats: int) -> None:
    curve = pool_curve(pool.step, pool.memory, pool.demand, pool.classes, seed=0, effort=Effort(refined_points=0))
    found = [
        highest_load(curve.bench, scale_rps=curve.saturation_rps, seed=seed, replications=8).interval
        for seed in range(repeats + 1)
    ]
    inside = sum(one.low <= other.value <= one.high for one, other in pairwise(found))
    width = sum(each.relative_half_width_fraction for each in found) / len(found)
    sys.stdout.write(
        f"highest load of the next seed in the interval of this one: {inside} of {repeats}; "
        f"the intervals are +- {width:.0%} wide\n"
    )


if __name__ == "__main__":
    main()
