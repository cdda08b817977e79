"""Whether P10 to P90 of a budget covers the months it is for, on simulated services, from a log of weeks.

    python -m bench.budget [--worlds 200]

Every world has its own season, growth, wandering level, noise and fall of list prices (tests/support/worlds.py). A
budget of three months is made from its log alone, and each month is billed from its observed traffic. P10 to P90
should cover 75 to 85 % of the months.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from support.worlds import MONTHS, demand_world, real_usd, world_bill, world_budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    worlds = parser.parse_args().worlds
    started = time.process_time()
    bill = world_bill()
    held, sums, widths = [], [], []
    for seed in range(worlds):
        rng = np.random.default_rng((47, seed))
        world = demand_world(rng)
        budget, real = world_budget(world, bill, rng), real_usd(world, bill)
        held.append([each.low_usd <= usd <= each.high_usd for each, usd in zip(budget.months, real, strict=True)])
        sums.append(budget.low_usd <= sum(real) <= budget.high_usd)
        widths.append([(each.high_usd - each.low_usd) / each.usd for each in budget.months])
    print(f"{worlds} worlds, {time.process_time() - started:.0f} s of CPU")
    for month in range(MONTHS):
        own, width = np.mean(held, axis=0)[month], np.mean(widths, axis=0)[month]
        print(f"month {month + 1}: {100 * own:.1f} % held, band {100 * width:.0f} % of P50")
    print(f"all months: {100 * np.mean(held):.1f} % covered (target: 75 to 85 %); sums: {100 * np.mean(sums):.1f} %")


if __name__ == "__main__":
    main()
