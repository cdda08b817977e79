"""Finding the price of anything.

A name that the book has never heard of is an InputError with the nearest known ones. A price that is merely not
there (this provider sells no spot of that device) is a `MissingPrice`, which says what to give.
"""

from __future__ import annotations

from ullage.evidence import Figure
from ullage.prices.book import MissingPrice, PriceBook
from ullage.prices.offers import cheapest
from ullage.prices.unit_prices import rate_price, token_price
from ullage.prices.wanted import DeviceWanted, RateWanted, TokenWanted, Wanted


def priced(book: PriceBook, wanted: Wanted) -> Figure | MissingPrice:
    """What one unit of anything costs in USD: the cheapest price that meets the constraints."""
    match wanted:
        case DeviceWanted():
            found = cheapest(book, wanted)
            return found if isinstance(found, MissingPrice) else found.usd_per_device_hour
        case TokenWanted():
            return token_price(book, wanted)
        case RateWanted():
            return rate_price(book, wanted)
