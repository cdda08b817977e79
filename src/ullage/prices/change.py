"""What a change of prices does to one use: item by item, quantity x (price after - price before).

Amounts are exact fractions of a cent, and the rounding is shared out, so that the items sum to the whole to the cent.
An item that one of the books cannot price is not a change of 0: it is listed apart, and not in the sum.

This is the price effect alone. That more was used, or other things, is another cause, explained above this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ullage.errors import InternalError
from ullage.evidence import Figure
from ullage.prices.book import MissingPrice, PriceBook
from ullage.prices.lookup import priced
from ullage.prices.wanted import Wanted


@dataclass(frozen=True, kw_only=True)
class PricedUse:
    """So many units of something: device-hours, tokens, byte-months."""

    name: str
    wanted: Wanted
    quantity: Fraction | float


@dataclass(frozen=True, kw_only=True)
class PriceEffect:
    """What the change of one price does to the bill of one use."""

    name: str
    quantity: Fraction
    before: Figure
    after: Figure
    before_usd: Fraction
    after_usd: Fraction
    change_cents: int

    @property
    def change_usd(self) -> Fraction:
        return self.after_usd - self.before_usd


@dataclass(frozen=True, kw_only=True)
class PriceChange:
    """Every item's effect, the whole, and what could not be compared. The items' cents sum to the whole's."""

    effects: tuple[PriceEffect, ...]
    missing: tuple[tuple[str, MissingPrice], ...]
    before_usd: Fraction
    after_usd: Fraction
    change_cents: int

    @property
    def change_usd(self) -> Fraction:
        return self.after_usd - self.before_usd


def explain_change(before: PriceBook, after: PriceBook, usage: Sequence[PricedUse]) -> PriceChange:
    """The difference that prices alone make to this use."""
    priced_items: list[tuple[PricedUse, Figure, Figure]] = []
    missing: list[tuple[str, MissingPrice]] = []
    for use in usage:
        old, new = priced(before, use.wanted), priced(after, use.wanted)
        if isinstance(old, Figure) and isinstance(new, Figure):
            priced_items.append((use, old, new))
        else:
            missing += [(use.name, each) for each in (old, new) if isinstance(each, MissingPrice)]
    costs = [
        (_exact(use.quantity) * _exact(old.value), _exact(use.quantity) * _exact(new.value))
        for use, old, new in priced_items
    ]
    cents = rounded_to_sum([(new - old) * 100 for old, new in costs])
    effects = tuple(
        PriceEffect(
            name=use.name,
            quantity=_exact(use.quantity),
            before=old,
            after=new,
            before_usd=cost[0],
            after_usd=cost[1],
            change_cents=change,
        )
        for (use, old, new), cost, change in zip(priced_items, costs, cents, strict=True)
    )
    whole = PriceChange(
        effects=effects,
        missing=tuple(missing),
        before_usd=sum((old for old, _ in costs), Fraction(0)),
        after_usd=sum((new for _, new in costs), Fraction(0)),
        change_cents=sum(cents),
    )
    if sum((each.change_usd for each in effects), Fraction(0)) != whole.change_usd:
        raise InternalError(law="the items of a change sum to the whole", left=effects, right=whole.change_usd)
    return whole


def rounded_to_sum(amounts: Sequence[Fraction]) -> list[int]:
    """Whole numbers near these that sum to their sum, rounded: what is left over goes to the largest remainders.

    >>> rounded_to_sum([Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)])
    [1, 0, 0]
    """
    floors = [amount.__floor__() for amount in amounts]
    left = round(sum(amounts, Fraction(0))) - sum(floors)
    largest = sorted(range(len(amounts)), key=lambda at: (floors[at] - amounts[at], at))[:left]
    return [floor + (at in largest) for at, floor in enumerate(floors)]


def _exact(value: Fraction | float | str) -> Fraction:
    """A number as it is printed: 0.1 is a tenth, as on the list it was read from."""
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))
