"""Tokens of providers: what a class buys of each kind, what that costs, and what their caches saved of it."""

from __future__ import annotations

from collections.abc import Sequence

from ullage.cost.quotes import Quotes
from ullage.cost.service_use import Named, ProviderUse, ServiceUse
from ullage.evidence import Figure
from ullage.prices.book import MissingPrice, TokenKind


def bought_tokens(each: ProviderUse) -> dict[TokenKind, float]:
    """Tokens by how they are sold: what is written to the cache is sold at the price of a write in place of input."""
    cached = min(each.cached_tokens, each.prompt_tokens)
    written = min(each.written_tokens, each.prompt_tokens - cached)
    return {
        TokenKind.INPUT: each.prompt_tokens - cached - written,
        TokenKind.OUTPUT: each.output_tokens,
        TokenKind.CACHED_READ: cached,
        TokenKind.CACHE_WRITE: written,
    }


def provider_usd(
    each: ProviderUse, quotes: Quotes, kinds: Sequence[TokenKind] = tuple(TokenKind)
) -> tuple[float, tuple[Named, ...]] | MissingPrice:
    """What its tokens of these kinds cost, failed ones included, and the prices behind it."""
    total = 0.0
    prices: list[Named] = []
    for kind, tokens in bought_tokens(each).items():
        if kind not in kinds or not tokens:
            continue
        price = quotes.token(each.provider, each.model, kind)
        if isinstance(price, MissingPrice):
            return price
        total += tokens * float(price.value)
        prices.append(price)
    return total, tuple(prices)


def cache_saving(use: ServiceUse, quotes: Quotes) -> Figure | None:
    """What the providers' caches saved against the same tokens sold as input; negative where writes cost more."""
    saved = 0.0
    inputs: list[Named] = []
    for each in use.providers or ():
        tokens = bought_tokens(each)
        for kind in (TokenKind.CACHED_READ, TokenKind.CACHE_WRITE):
            if not tokens[kind]:
                continue
            prices = [quotes.token(each.provider, each.model, one) for one in (TokenKind.INPUT, kind)]
            known = [one for one in prices if isinstance(one, Figure)]
            if len(known) < 2:
                return None
            saved += tokens[kind] * (float(known[0].value) - float(known[1].value))
            inputs += [*known, *each.basis]
    if not inputs:
        return None
    return Figure(
        name="bill.cache_saved_usd",
        value=saved,
        unit="USD",
        formula="tokens read from and written to providers' caches x (price of input - their own price)",
        inputs=tuple({each.name: each for each in inputs}.values()),
    )
