"""How demand goes on after the weeks that were seen: how long growth is carried on, and how far the level wanders."""

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
WANDER = Assumption(
    name="months.wander",
    value=0.05,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: the level of demand wanders by this deviation of its logarithm a month, beside what "
        "a forecast of the plan's horizon is off by",
        where="docs/howto/buy-nodes.md",
        date=_WRITTEN,
    ),
    low=0.02,
    high=0.15,
)
