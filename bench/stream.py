"""Nanoseconds a request of a generated stream, beside numpy's own exponential draw in the same run.

.venv/bin/python bench/stream.py [--requests 44000000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import SyntheticModel, recipe, synthesised
from ullage.workload.synthetic.stream import Recipe, generate
from ullage.workload.synthetic.whatif import and_then, traffic

WEEK_S = 604_800.0
REPEATS = 5


def best_ns(work: Callable[[], int]) -> float:
    """Processor nanoseconds a request of the fastest of several runs: the machine is shared, the work is not random."""
    found = []
    for _ in range(REPEATS):
        started = time.process_time()
        made = work()
        found.append((time.process_time() - started) / made * 1e9)
    return min(found)


def draw(model: SyntheticModel) -> int:
    return synthesised(model, span_s=WEEK_S, rng=np.random.default_rng(1)).requests


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--requests", type=int, default=44_000_000)
    wanted = asked.parse_args().requests
    model = builtin()
    mean_rps = sum(each.mean_rate_rps for each in model.classes)
    model = and_then(model, traffic(wanted / WEEK_S / mean_rps))
    synthesised(model, span_s=60.0, rng=np.random.default_rng(0))  # compile

    exponential = best_ns(lambda: np.random.default_rng(0).standard_exponential(wanted).size)
    ready: Recipe = recipe(model, span_s=WEEK_S, rng=np.random.default_rng(0))
    loop = best_ns(lambda: generate(ready, np.random.default_rng(1)).requests)
    whole = best_ns(lambda: draw(model))
    print(f"requests                         {wanted:>14,}")
    print(f"numpy standard_exponential       {exponential:>14.1f} ns each")
    print(f"generate(): 8 columns            {loop:>14.1f} ns each   {loop / exponential:.2f} x numpy")
    print(f"with season, bursts and tables   {whole:>14.1f} ns each   {whole / exponential:.2f} x numpy")
    print(f"the week in                      {whole * wanted / 1e9:>14.2f} s")


if __name__ == "__main__":
    main()
