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
