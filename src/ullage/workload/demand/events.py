"""Planned events by date: what they multiply the demand of a month by.

    lift[day] = product of the ratios of the events on that day

A month's requests go by the mean of its days, a fleet that is fixed within a month by the highest.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ullage.evidence import Assumption, number
from ullage.workload.forecast.demand_series import DemandEvent


@dataclass(frozen=True, kw_only=True)
class DatedEvent:
    """Demand is so many times the usual from `first` to the day before `until`."""

    first: datetime.date
    until: datetime.date
    ratio: Assumption

    @property
    def name(self) -> str:
        return self.ratio.name.removeprefix("event.").removesuffix(".demand_ratio")

    @property
    def on_record(self) -> DemandEvent:
        """The same among the times of a log."""
        start_s, end_s = (
            datetime.datetime.combine(day, datetime.time(), tzinfo=datetime.UTC).timestamp()
            for day in (self.first, self.until)
        )
        return DemandEvent(name=self.name, start_s=start_s, end_s=end_s, demand_ratio=number(self.ratio))


@dataclass(frozen=True, kw_only=True)
class Lift:
    """What events multiply the demand of some days by: the part of the days at each ratio."""

    parts: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    @property
    def mean_ratio(self) -> float:
        return sum(ratio * fraction for ratio, fraction in self.parts)

    @property
    def highest_ratio(self) -> float:
        return max(ratio for ratio, _ in self.parts)


def lift_between(events: Sequence[DatedEvent], first: datetime.date, until: datetime.date) -> Lift:
    """The lift of the days from `first` to the day before `until`."""
    days = [first + datetime.timedelta(days=at) for at in range(max(1, (until - first).days))]
    found = Counter(math.prod(number(one.ratio) for one in events if one.first <= day < one.until) for day in days)
    return Lift(parts=tuple((float(ratio), count / len(days)) for ratio, count in sorted(found.items())))
