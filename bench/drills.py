"""Drills and checks on the built-in example: their cost compared with the plan, and whether seeds agree on verdicts.

    python bench/drills.py

The plan includes its loss checks. All three together must stay below thirty seconds on two cores.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ullage import verbs
from ullage.errors import Rejection
from ullage.execute.pool import thread_map
from ullage.planning.checks.checks import check_plan
from ullage.planning.drills.drills import DRILLS, run_drills

SEEDS = 10
LIMIT_S = 30.0
Answer = TypeVar("Answer")


def timed(work: Callable[[], Answer]) -> tuple[Answer, float, float]:
    """What the work gives, its wall and its CPU seconds."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall_s, time.process_time() - cpu_s


def main() -> None:
    as_of = datetime.date(2026, 11, 15)
    # Kernels are compiled or read from their cache by the first plan.
    verbs.plan(as_of=as_of)
    plan, plan_s, plan_cpu_s = timed(lambda: verbs.plan(as_of=as_of))
    assert not isinstance(plan, Rejection)
    with thread_map() as spread:
        drills, drill_s, drill_cpu_s = timed(lambda: run_drills(plan, map=spread))
        _, check_s, check_cpu_s = timed(lambda: check_plan(plan, map=spread))
        again = [run_drills(replace(plan, seed=seed), map=spread) for seed in range(SEEDS)]
    for name, wall_s, cpu_s in (
        ("plan with loss checks", plan_s, plan_cpu_s),
        (f"{len(drills.results)} drills", drill_s, drill_cpu_s),
        ("checks", check_s, check_cpu_s),
    ):
        print(f"{name:24} {wall_s:6.2f} s wall {cpu_s:6.2f} s CPU {cpu_s / plan_cpu_s:5.2f} of the plan")
    total_s = plan_s + drill_s + check_s
    print(f"{'all':24} {total_s:6.2f} s wall, limit {LIMIT_S:g} s: {'kept' if total_s < LIMIT_S else 'MISSED'}")
    for name in DRILLS:
        verdicts = Counter(str(each.result(name).verdict) for each in again)
        print(f"{name:24} {', '.join(f'{verdict} {count} of {SEEDS}' for verdict, count in verdicts.most_common())}")


if __name__ == "__main__":
    main()
