"""A ledger of 100,000 plans: how long to keep them, to list them, and to find one; bodies compressed as they are kept.

    python bench/ledger.py [--plans 100000] [--postgres postgresql://user@host/name]

Bodies are of the size that a compressed plan has (about 40 kB) only for every hundredth entry, lest the bench fill a
disk; the others have 1 kB. A list reads no body, so that their size decides nothing.
"""

from __future__ import annotations

import argparse
import datetime
import random
import tempfile
import time
from pathlib import Path

from ullage.ledger.body import EntryBody, EntryKind
from ullage.ledger.ledger import opened

LARGE, SMALL = 20_000, 400
AT = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)


def body(number: int, noise: random.Random) -> EntryBody:
    size = LARGE if number % 100 == 0 else SMALL
    return EntryBody(
        kind=EntryKind.PLAN,
        service=f"service {number % 50}",
        as_of="2026-11-16",
        summary=f"verdict BUY, busiest hour {number % 90} req/s, replicas {number % 60}",
        content={"number": number, "document": noise.randbytes(size).hex()},
    )


def timed(what: str, start: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    print(f"| {what} | {wall - start[0]:.2f} | {cpu - start[1]:.2f} |", flush=True)
    return time.perf_counter(), time.process_time()


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--plans", type=int, default=100_000)
    asked.add_argument("--postgres")
    given = asked.parse_args()
    noise = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        address = given.postgres or str(Path(folder) / "ledger.sqlite")
        with opened(address, create=True) as ledger:
            print("| | wall s | CPU s |\n|---|---|---|")
            start = time.perf_counter(), time.process_time()
            for first in range(0, given.plans, 500):
                ledger.keep_all([body(number, noise) for number in range(first, first + 500)], at=AT)
            start = timed(f"{given.plans:,} plans kept, 500 in a transaction", start)
            found = ledger.entries(kind=EntryKind.PLAN)
            start = timed(f"all {len(found):,} listed", start)
            del found[2000:]
            ledger.entries(kind=EntryKind.PLAN, most=20)
            start = timed("the newest 20 listed", start)
            ledger.entries(kind=EntryKind.PLAN, service="service 7", most=20)
            start = timed("the newest 20 of a service listed", start)
            ledger.body(ledger.find(found[1234].digest[:12]).digest)
            timed("one found by twelve digits and read", start)


if __name__ == "__main__":
    main()
