"""Laws of the whole plan over random services (`make bench-laws ARGS="--count 20 --seed 1"`).

Prints, law by law, how many random services it was tried on, how often a size went the wrong way at all, and how often
beyond the interval that the plan prints; the last must be 0, and the exit code is 1 where it is not.
"""

from __future__ import annotations

import argparse
import sys

from support.plan_laws import LAWS, planned, random_service
from ullage.errors import Rejection


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(arguments)
    tried = dict.fromkeys(LAWS, 0)
    wrong, beyond = dict.fromkeys(LAWS, 0), dict.fromkeys(LAWS, 0)
    refused = 0
    for seed in range(given.seed, given.seed + given.count):
        # A service takes a minute: whoever stops the run knows how far it came.
        print(f"seed {seed}", file=sys.stderr, flush=True)
        service = random_service(seed)
        plan = planned(service)
        if isinstance(plan, Rejection):
            refused += 1
            continue
        for name, law in LAWS.items():
            found = law(plan, service)
            tried[name] += 1
            wrong[name] += found.is_wrong
            beyond[name] += found.is_beyond
            if found.is_wrong:
                print(f"seed {seed}: {name}: {found.sentence}", file=sys.stderr, flush=True)
    print("| law | services | wrong way at all | beyond the interval |\n|---|---|---|---|")
    for name in LAWS:
        print(f"| {name} | {tried[name]} | {wrong[name]} | {beyond[name]} |")
    print(f"\n{refused} of {given.count} services were refused as they were.")
    return 1 if any(beyond.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
