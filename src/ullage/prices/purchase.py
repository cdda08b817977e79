"""The ways to buy a device-hour, and a mix of them.

A commitment is paid whether it is used or not; its price per hour holds for hours that are used. How much of a
fleet to commit is a question of demand, answered above this package; this one knows what an hour costs.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption

HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
"""730: providers bill by the hour and quote by the month of 730 hours; calendar months differ by 8 %."""


class Purchase(enum.StrEnum):
    """How a device-hour is bought."""

    ON_DEMAND = "on-demand"
    ONE_YEAR = "1y-no-upfront"
    ONE_YEAR_PARTIAL = "1y-partial-upfront"
    ONE_YEAR_ALL = "1y-all-upfront"
    THREE_YEARS = "3y-no-upfront"
    THREE_YEARS_PARTIAL = "3y-partial-upfront"
    THREE_YEARS_ALL = "3y-all-upfront"
    CAPACITY_BLOCK = "capacity-block"
    """A block or future reservation: machines for a stated month, paid whether they are used or not."""
    SPOT = "spot"
    OWNED = "owned"
    BILLED = "billed"
    """What a bill came to per hour, whatever the contract behind it."""

    @property
    def term_months(self) -> int:
        """Months of the commitment; 0 where there is none."""
        return _TERM_MONTHS.get(self, 0)

    @property
    def is_committed(self) -> bool:
        return self in _TERM_MONTHS


_TERM_MONTHS = {
    Purchase.ONE_YEAR: 12,
    Purchase.ONE_YEAR_PARTIAL: 12,
    Purchase.ONE_YEAR_ALL: 12,
    Purchase.THREE_YEARS: 36,
    Purchase.THREE_YEARS_PARTIAL: 36,
    Purchase.THREE_YEARS_ALL: 36,
    Purchase.CAPACITY_BLOCK: 1,
}


def purchase_of(name: str, *, field: str) -> Purchase:
    """The purchase of this name; an unknown one is an InputError with the nearest."""
    known = {each.value: each for each in Purchase}
    found = known.get(name.strip().lower())
    if found is None:
        raise unknown_name(field=field, name=name, known=known)
    return found


@dataclass(frozen=True, kw_only=True)
class PurchaseMix:
    """Which share of the device-hours is bought how. The shares are decisions, and sum to 1."""

    shares: Mapping[Purchase, Assumption]

    def __post_init__(self) -> None:
        values = {str(each): share.value for each, share in self.shares.items()}
        # Shares are typed as decimals: 0.7 and 0.2 and 0.1 are one whole, which they are not as binary fractions.
        total = sum((Fraction(str(value)) for value in values.values()), Fraction(0))
        if total != 1 or any(isinstance(value, str) or value < 0 for value in values.values()):
            raise InputError(
                field="prices.purchase",
                value=values,
                problem=f"the shares sum to {float(total):g}, not to 1",
                fix="Give shares from 0 to 1 that sum to 1, for example on-demand: 70%, spot: 30%.",
            )
