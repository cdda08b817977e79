"""A default that is chosen and not known, as an assumption: what a user may decide otherwise."""

from __future__ import annotations

import datetime

from ullage.evidence import Assumption, Evidence, Source

_WRITTEN = datetime.date(2026, 11, 15)


def choice(name: str, value: int | float | str, unit: str, reason: str) -> Assumption:
    """A decision of ours with its reason, until the user decides."""
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=Source(what=f"default of Ullage: {reason}", where="docs/explanation/reserves.md", date=_WRITTEN),
        decision=True,
    )
