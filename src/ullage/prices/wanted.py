"""The request for a price: a device-hour, a token or a unit of an item, under constraints."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ullage.errors import InputError, check_name, unknown_name
from ullage.evidence import Assumption, Figure
from ullage.prices.book import ANYWHERE, PriceBook, Tier, TokenKind
from ullage.prices.purchase import Purchase

_MOST_LISTED = 8
HOWTO = "docs/howto/bring-your-prices.md"


@dataclass(frozen=True, kw_only=True)
class DeviceWanted:
    """A device-hour under constraints; an empty constraint holds for all.

    `least_devices` is how many devices must stand in one machine. `lost` is the time an interruption of spot costs.
    """

    device: str
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    purchases: tuple[Purchase, ...] = ()
    least_devices: int = 1
    parts_too: bool = False
    lost: Assumption | Figure | None = None

    def __str__(self) -> str:
        limits = (*self.providers, *self.regions, *self.zones, *self.instances, *map(str, self.purchases))
        together = (f"in machines of {self.least_devices} or more",) if self.least_devices > 1 else ()
        return " ".join((f"a device-hour of {self.device}", *limits, *together))


@dataclass(frozen=True, kw_only=True)
class TokenWanted:
    """A token of a provider's model, in a request of so many prompt tokens."""

    model: str
    kind: TokenKind
    provider: str = ""
    region: str = ANYWHERE
    tier: Tier = Tier.STANDARD
    prompt_tokens: int = 0

    def __str__(self) -> str:
        where = " ".join(part for part in (self.provider, self.region) if part)
        return f"a token of {self.kind} of {self.model} ({self.tier}{f', {where}' if where else ''})"


@dataclass(frozen=True, kw_only=True)
class RateWanted:
    """One unit of an item, such as `egress`."""

    item: str
    provider: str = ""
    region: str = ANYWHERE
    name: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.item, self.name, self.provider, self.region) if part)


Wanted = DeviceWanted | TokenWanted | RateWanted


def check_names(book: PriceBook, *, providers: Sequence[str] = (), regions: Sequence[str] = ()) -> None:
    """An InputError for a provider or region that no price of the book is of, with the nearest that are."""
    known = book.providers
    for name in providers:
        check_name(name, known, field="prices.provider", fix=f"Or give its prices: {HOWTO}")
    if not regions:
        return
    places = {place for each in providers or known for place in book.regions(each)}
    for name in regions:
        if name not in places and ANYWHERE not in places:
            sellers = sorted(each for each in known if name in book.regions(each))
            if sellers:
                raise _of_others(name, sellers, providers, places)
            raise unknown_name(field="prices.region", name=name, known=places, fix=f"Or give its prices: {HOWTO}")


def _of_others(region: str, sellers: Sequence[str], providers: Sequence[str], places: Collection[str]) -> InputError:
    """The error for a region that others sell in; the nearest name would be a region on another continent."""
    listed = ", ".join(sorted(places)[:_MOST_LISTED]) + (", ..." if len(places) > _MOST_LISTED else "")
    return InputError(
        field="prices.region",
        value=region,
        problem=f"is a region of {' and '.join(sellers)}, and prices.provider is {' and '.join(providers)}",
        fix=f"Name one of its regions ({listed}), or give its prices: {HOWTO}",
    )
