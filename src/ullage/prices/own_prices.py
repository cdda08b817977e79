"""The user's own prices first: where the user stated a price or was billed one, lists do not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ullage.prices.book import AnyPrice, DevicePrice, RatePrice, is_own_price

P = TypeVar("P", bound=AnyPrice)


def own_prices_first(prices: Iterable[P]) -> list[P]:
    """Without the lists of a provider and purchase that the user has a price of their own for."""
    found = list(prices)
    own = {_seller(each) for each in found if is_own_price(each)}
    return [each for each in found if is_own_price(each) or _seller(each) not in own]


def _seller(price: AnyPrice) -> tuple[str, str]:
    if isinstance(price, RatePrice):
        return ("", price.item)
    return (price.provider, str(price.purchase) if isinstance(price, DevicePrice) else "")
