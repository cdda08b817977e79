"""Rows of token price catalogues as prices, and what such catalogues get wrong.

- 0 stands for `free` and for `unknown` alike; it is no price here;
- a price above anything ever asked is in another unit (per thousand for per million): dropped, never rescaled;
- output cheaper than input, a cached token dearer than a new one: kept, and reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.price import LIST_MAX_AGE
from ullage.prices.book import Tier, TokenKind, TokenPrice
from ullage.prices.packaged import price_name
from ullage.prices.price_list import Gathering

MODES = ("chat", "completion", "responses")
"""The modes whose tokens are prompt and answer; images, audio and embeddings are priced otherwise."""
_HIGHEST_INPUT = 250e-6
_HIGHEST_OUTPUT = 1000e-6
"""USD per token: above the dearest models that were ever listed (150 and 600 per million)."""


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """One model in one tier, in USD per token; None where the catalogue has nothing."""

    provider: str
    model: str
    tier: Tier
    amounts: Mapping[TokenKind, float | None]
    source: Source
    from_prompt_tokens: int = 0

    @property
    def shown(self) -> str:
        return f"{self.provider} {self.model} ({self.tier})"


def add_tokens(row: TokenRow, into: Gathering) -> None:
    """The row's price, or the reason why it has none."""
    priced = {kind: value for kind, value in row.amounts.items() if value}
    if any(value == 0 for value in row.amounts.values()):
        into.note("0 for a price", row.shown, "that kind of token has no price here")
    if TokenKind.INPUT not in priced and TokenKind.OUTPUT not in priced:
        return into.drop("no price, or 0")
    given, made = priced.get(TokenKind.INPUT, 0.0), priced.get(TokenKind.OUTPUT, 0.0)
    if given > _HIGHEST_INPUT or made > _HIGHEST_OUTPUT:
        into.note("above any known price", f"{row.shown}: {given * 1e6:g} and {made * 1e6:g} USD/Mtok", "dropped")
        return into.drop("above any known price: likely another unit")
    if 0 < made < given:
        into.note("output cheaper than input", f"{row.shown}: {made * 1e6:g} under {given * 1e6:g} USD/Mtok", "kept")
    if given and priced.get(TokenKind.CACHED_READ, 0.0) > given:
        into.note("a cached token dearer than a new one", row.shown, "kept")
    return into.keep(_price(row, priced))


def _price(row: TokenRow, priced: Mapping[TokenKind, float]) -> TokenPrice:
    longer = f"from-{row.from_prompt_tokens}" if row.from_prompt_tokens else ""
    amounts = {
        kind: Assumption(
            name=price_name(row.provider, row.model, str(row.tier), longer, str(kind)),
            value=value,
            unit="USD/token",
            evidence=Evidence.ESTIMATED,
            source=row.source,
            max_age=LIST_MAX_AGE,
        )
        for kind, value in priced.items()
    }
    return TokenPrice(
        provider=row.provider,
        model=row.model,
        tier=row.tier,
        from_prompt_tokens=row.from_prompt_tokens,
        input=amounts.get(TokenKind.INPUT),
        output=amounts.get(TokenKind.OUTPUT),
        cached_read=amounts.get(TokenKind.CACHED_READ),
        cache_write=amounts.get(TokenKind.CACHE_WRITE),
    )


def bare_model(provider: str, model: str) -> str:
    """A model's name without the provider in front: `azure/gpt-4o` of azure is gpt-4o."""
    return model.removeprefix(f"{provider}/")
