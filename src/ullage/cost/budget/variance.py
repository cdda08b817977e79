"""A month that is over: what was paid less what was planned, by cause, summing exactly.

One month is turned into the other step by step, in this order; what a step adds is what its cause did:

    volume       as many requests as came, all else as planned: serving replica-hours grow with them
    mix          the classes that came, each request weighing what it was planned to
    efficiency   the replica-hours that served them
    reserve      the replica-hours that were kept beside them
    price        what a replica-hour came to, all lines in it
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

VARIANCE_CAUSES = ("volume", "mix", "efficiency", "reserve", "price")


@dataclass(frozen=True, kw_only=True)
class MonthFacts:
    """What a month was, planned or real: requests by class, replica-hours that served and that stood by, and USD."""

    requests: Mapping[str, float]
    serving_replica_hours: float
    reserve_replica_hours: float
    usd: float

    @property
    def total(self) -> float:
        return sum(self.requests.values())

    @property
    def usd_per_replica_hour(self) -> float:
        hours = self.serving_replica_hours + self.reserve_replica_hours
        return self.usd / hours if hours else 0.0


@dataclass(frozen=True, kw_only=True)
class PastMonth:
    """A month that is over. `causes` sum to what was paid less what was planned; empty where only sums are known."""

    month: datetime.date
    planned_usd: float | None
    paid_usd: float
    causes: Mapping[str, float]


def variance(planned: MonthFacts, real: MonthFacts, weights: Mapping[str, float]) -> dict[str, float]:
    """By cause, in USD.

    >>> plan = MonthFacts(requests={"a": 10}, serving_replica_hours=10, reserve_replica_hours=2, usd=24)
    >>> real = MonthFacts(requests={"a": 20}, serving_replica_hours=18, reserve_replica_hours=2, usd=60)
    >>> variance(plan, real, {})
    {'volume': 20.0, 'mix': 0.0, 'efficiency': -4.0, 'reserve': 0.0, 'price': 20.0}
    """
    price = planned.usd_per_replica_hour
    louder = planned.serving_replica_hours * (real.total / planned.total if planned.total else 1.0)
    heavier = louder * (_weight(real, weights) / _weight(planned, weights) if planned.total and real.total else 1.0)
    hours = real.serving_replica_hours + real.reserve_replica_hours
    steps = (
        planned.serving_replica_hours,
        louder,
        heavier,
        real.serving_replica_hours,
    )
    found = {
        name: price * (after - before)
        for name, before, after in zip(VARIANCE_CAUSES[:3], steps[:-1], steps[1:], strict=True)
    }
    found["reserve"] = price * (real.reserve_replica_hours - planned.reserve_replica_hours)
    found["price"] = real.usd - price * hours
    return found


def _weight(month: MonthFacts, weights: Mapping[str, float]) -> float:
    """What a request of the month weighs on average."""
    return sum(count * weights.get(name, 1.0) for name, count in month.requests.items()) / month.total
