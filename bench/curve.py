"""What a size, a curve and a point cost.

    python bench/curve.py

CPU seconds on one thread after start-up, of the verbs as a user calls them, on the built-in example. A size is asked
for 50, 2,000 and 100,000 req/s, each as a multiple of the first in the same run: what a pool costs to size should not
grow with the pool. Whether another seed gives the same answer is asked in bench/seeds.py.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import time
from collections.abc import Callable
from typing import TypeVar

from ullage import verbs
from ullage.load.pool import CurveInputs, load_pool
from ullage.service.curve.sizing import PoolSize
from ullage.service.stage import pool_curve, pool_point
from ullage.verbs.size import SizeAnswer

T = TypeVar("T")
AS_OF = datetime.date(2026, 11, 15)
RATES_RPS = (50.0, 2_000.0, 100_000.0)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started_s = time.process_time()
    found = work()
    return found, time.process_time() - started_s


def sized(*, rate_rps: float | None = None, seed: int = 0) -> PoolSize:
    rate = None if rate_rps is None else f"{rate_rps:.0f} req/s"
    found = verbs.size(None, rate=rate, as_of=AS_OF, seed=seed, workers=1)
    assert isinstance(found, SizeAnswer), found
    return found.size


# ---- what it costs ---------------------------------------------------------------------------------------------


def speed() -> None:
    # Compiled code is read from the cache with the first run; the table is about what comes after.
    sized(rate_rps=5.0, seed=9)
    pool = load_pool(None, as_of=AS_OF)
    assert isinstance(pool, CurveInputs), pool
    print(f"{'what':<28}{'CPU s':>8}{'x 50 req/s':>12}{'must':>12}")
    base_s = 0.0
    for rate_rps in RATES_RPS:
        size, took_s = timed(functools.partial(sized, rate_rps=rate_rps))
        base_s = base_s or took_s
        must = "3 CPU s" if rate_rps == RATES_RPS[0] else "2 times"
        _row(f"size for {rate_rps:,.0f} req/s", took_s, base_s, _said(size), must)
    # Another seed, so that nothing of it is remembered.
    size, took_s = timed(lambda: sized(seed=1))
    _row("size for the planning rate", took_s, base_s, _said(size))
    bases = pool.bases(1)
    curve, curve_s = timed(lambda: pool_curve(bases, seed=1))
    _row("curve", curve_s, base_s, f"{len(curve.points)} loads")
    point, point_s = timed(lambda: pool_point(curve, pool.step))
    _row(
        "operating point",
        point_s,
        base_s,
        f"{point.operating_rps:.3g} req/s" if hasattr(point, "operating_rps") else "",
    )


def _row(name: str, took_s: float, base_s: float, said: str, must: str = "") -> None:
    print(f"{name:<28}{took_s:>8.2f}{took_s / base_s:>12.2f}{must:>12}  {said}", flush=True)


def _said(size: PoolSize) -> str:
    found = size.conservative
    verdict = "decided" if found.is_decided else f"undecided from {found.low_replicas}"
    return f"{found.replicas} replicas, {verdict}, {found.windows} windows at the answer"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    speed()


if __name__ == "__main__":
    main()
