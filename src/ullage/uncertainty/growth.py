"""How demand goes on after the weeks that were seen: how long growth is carried on."""

from __future__ import annotations

import datetime

from ullage.evidence import Assumption, Evidence, Source

_WRITTEN = datetime.date(2026, 11, 16)

GROWTH_MONTHS = Assumption(
    name="months.growth",
    value=6.0,
    unit="months",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: growth that was measured over weeks is carried on for half a year and no longer",
        where="docs/howto/buy-nodes.md",
        date=_WRITTEN,
    ),
    low=1.0,
    high=24.0,
)


def until_next_month_s(day: datetime.date) -> float:
    """The time from a day to the first of the next month, with which budgets and purchases begin.

    >>> until_next_month_s(datetime.date(2026, 11, 15)) / 86_400.0
    16.0
    """
    following = datetime.date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return (following - day).total_seconds()
