"""Which prices are too old to trust on a day: a warning for each, oldest first."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from ullage.evidence import Assumption, Evidence, Figure, Source, assumptions_of, number
from ullage.prices.wanted import HOWTO

_DAY, _YEAR = datetime.timedelta(days=1), datetime.timedelta(days=365.25)


@dataclass(frozen=True, kw_only=True)
class OldPrice:
    """A price past its maximum age."""

    name: str
    age_days: int
    max_age_days: int
    source: str

    def __str__(self) -> str:
        return f"{self.name} is {self.age_days} days old, past {self.max_age_days}: {self.source}"


def age_notes(used: Iterable[Figure | Assumption], as_of: datetime.date | None) -> tuple[str, ...]:
    """One sentence on the prices past their age, or none: how many, and the oldest of them."""
    old = () if as_of is None else old_prices(used, as_of)
    if not old:
        return ()
    count = (
        "A price is past its maximum age"
        if len(old) == 1
        else f"{len(old)} prices are past their maximum age, the oldest first"
    )
    newer = "a newer one" if len(old) == 1 else "newer ones"
    return (f"{count}: {old[0]}. Bring {newer}: {HOWTO}",)


def price_drift(used: Iterable[Figure | Assumption], as_of: datetime.date, fall: Assumption) -> Assumption | None:
    """What prices past their age may have moved by, as a deviation; None where none is past it.

    The largest fall of a year on record is taken for what one year in twenty exceeds.
    """
    past = max((each.past(as_of) for each in assumptions_of(used)), default=datetime.timedelta())
    if past <= datetime.timedelta():
        return None
    a_year = -math.log1p(-number(fall)) / NormalDist().inv_cdf(0.95)
    return Assumption(
        name="price.drift",
        value=a_year * (past / _YEAR),
        unit="ratio",
        evidence=Evidence.ASSUMED,
        source=Source(
            what=f"{past.days} days past its maximum age; {100 * number(fall):.0f} % within a year is the largest fall "
            f"on record: {fall.source.what}",
            where=fall.source.where,
            date=fall.source.date,
        ),
    )


def old_prices(used: Iterable[Figure | Assumption], as_of: datetime.date) -> tuple[OldPrice, ...]:
    """The prices below these figures that are past their age on this day; a price that never ages is never old."""
    found = [
        OldPrice(
            name=each.name,
            age_days=each.age(as_of) // _DAY,
            max_age_days=each.max_age // _DAY,
            source=each.source.what,
        )
        for each in assumptions_of(used)
        if each.max_age is not None and each.is_stale(as_of)
    ]
    return tuple(sorted(found, key=lambda each: (-each.age_days, each.name)))
