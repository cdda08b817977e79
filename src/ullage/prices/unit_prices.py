"""Prices by the unit: a provider's token, and one unit of an item."""

from __future__ import annotations

from ullage.errors import check_name
from ullage.evidence import Figure
from ullage.prices.book import ANYWHERE, TOKENS, MissingPrice, PriceBook, TokenPrice, is_own_price
from ullage.prices.effective import usd
from ullage.prices.items import ITEMS
from ullage.prices.own_prices import own_prices_first
from ullage.prices.wanted import HOWTO, RateWanted, TokenWanted


def token_price(book: PriceBook, wanted: TokenWanted) -> Figure | MissingPrice:
    """One token, at the price for prompts of this length; a price for the region comes before one for anywhere."""
    rows = _token_rows(book, wanted)
    amounts = [(row, amount) for row in rows if (amount := row.of(wanted.kind)) is not None]
    if not amounts:
        listed = sorted({f"{row.provider}: {row.tier}" for row in book.tokens.get(wanted.model, ())})
        return MissingPrice(
            what=str(wanted),
            why=f"the book has {', '.join(listed[:6])} of it"
            if listed
            else "the price book has no price for this model",
            fix=f"Give its price: prices.own, or a catalogue file ({HOWTO}).",
        )
    found = [(usd(book, amount, provider=row.provider, kind=TOKENS), row) for row, amount in amounts]
    figures = [(each, row) for each, row in found if isinstance(each, Figure)]
    unusable = [each for each, row in found if isinstance(each, MissingPrice) and (is_own_price(row) or not figures)]
    if unusable:
        return unusable[0]
    return min(figures, key=lambda each: (each[0].value, each[1].key))[0]


def rate_price(book: PriceBook, wanted: RateWanted) -> Figure | MissingPrice:
    """One unit of an item; the provider's own price comes before one that names no provider."""
    check_name(wanted.item, ITEMS, field="item")
    rows = [
        row
        for row in book.rates
        if row.item == wanted.item
        and row.provider in (wanted.provider, "")
        and row.region in (wanted.region, ANYWHERE)
        and row.name in (wanted.name, "")
    ]
    if not rows:
        return MissingPrice(
            what=str(wanted),
            why="the book has no such price",
            fix=f"Give prices.own.{wanted.item}, in a currency per {ITEMS[wanted.item].per} ({HOWTO}).",
        )
    best = max(own_prices_first(rows), key=lambda row: (row.provider != "", row.region != ANYWHERE, row.name != ""))
    return usd(book, best.amount, provider=best.provider, kind=best.item)


def _token_rows(book: PriceBook, wanted: TokenWanted) -> list[TokenPrice]:
    """Of each seller the row for the longest prompt that this one reaches, in the region where there is one for it."""
    rows = [
        row
        for row in book.tokens.get(wanted.model, ())
        if row.tier == wanted.tier
        and (not wanted.provider or row.provider == wanted.provider)
        and row.region in (wanted.region, ANYWHERE)
        and row.from_prompt_tokens <= wanted.prompt_tokens
    ]
    best: dict[str, TokenPrice] = {}
    for row in own_prices_first(rows):
        known = best.get(row.provider)
        if known is None or _nearness(row) > _nearness(known):
            best[row.provider] = row
    return list(best.values())


def _nearness(row: TokenPrice) -> tuple[bool, int]:
    return (row.region != ANYWHERE, row.from_prompt_tokens)
