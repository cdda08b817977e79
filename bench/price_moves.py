"""How far GPU prices move in how many weeks: the reason for the maximum ages of prices (facts/price.py).

Needs the published data set beside the repository. For each span, over every instance and region of one provider and
every week of its history: how often spot had moved by more than a tenth, and on demand by more than a hundredth.

    python -m bench.price_moves
"""

from __future__ import annotations

import csv
import datetime
import gzip
import statistics
from pathlib import Path

HISTORY = Path(__file__).resolve().parents[2] / "shared" / "data" / "prices" / "gpu_price_history_weekly.csv.gz"
PROVIDER = "aws"
SPANS_WEEKS = (2, 4, 8, 13, 26, 52)


def main() -> None:
    spot, on_demand = _series("spot_min_az"), _series("on_demand_usd_h")
    print(f"{PROVIDER}, {min(day for *_, day in on_demand)} to {max(day for *_, day in on_demand)}")
    print("weeks   cases  spot moved > 10 %  median move   cases  on demand moved > 1 %  largest move")
    for weeks in SPANS_WEEKS:
        there, here = _moves(spot, weeks), _moves(on_demand, weeks)
        print(
            f"{weeks:5d} {len(there):7d} {_share(there, 0.10):18.1%} {statistics.median(there):12.1%}"
            f" {len(here):7d} {_share(here, 0.01):22.1%} {max(here):13.1%}"
        )


def _series(column: str) -> dict[tuple[str, str, datetime.date], float]:
    with gzip.open(HISTORY, "rt", encoding="utf-8") as file:
        return {
            (row["instance"], row["region"], datetime.date.fromisoformat(row["date"])): float(row[column])
            for row in csv.DictReader(file)
            if row["provider"] == PROVIDER and row[column]
        }


def _moves(prices: dict[tuple[str, str, datetime.date], float], weeks: int) -> list[float]:
    span = datetime.timedelta(weeks=weeks)
    return [
        abs(prices[instance, region, day + span] / price - 1)
        for (instance, region, day), price in prices.items()
        if (instance, region, day + span) in prices
    ]


def _share(moves: list[float], above: float) -> float:
    return sum(move > above for move in moves) / len(moves)


if __name__ == "__main__":
    main()
