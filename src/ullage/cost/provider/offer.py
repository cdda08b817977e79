"""What a provider offers: a model's tokens in a tier, a fee a request, rate limits, and how often it succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.cost.service_use import ClassUse
from ullage.evidence import Assumption, Figure, number
from ullage.prices.book import MissingPrice, PriceBook, Tier, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.wanted import TokenWanted


@dataclass(frozen=True, kw_only=True)
class ProviderOffer:
    """A provider's model that classes could go to; `classes` are those that may, all where none is named.

    `success` is the share of its answers that do the task, `own_success` that of own answers which are in time. Where
    they are not stated the provider is taken to succeed as often as the own service. Limits are of the account: the
    provider refuses what a minute asks beyond them.
    """

    provider: str
    model: str
    tier: Tier = Tier.STANDARD
    classes: tuple[str, ...] = ()
    success: Assumption | None = None
    own_success: Assumption | None = None
    request_fee: Assumption | None = None
    request_limit: Assumption | None = None
    token_limit: Assumption | None = None

    @property
    def name(self) -> str:
        """As it is typed and printed: provider/model, and the tier where it is not the standard one."""
        tier = "" if self.tier is Tier.STANDARD else f" ({self.tier})"
        return f"{'/'.join(part for part in (self.provider, self.model) if part)}{tier}"

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        said = (self.success, self.own_success, self.request_fee, self.request_limit, self.token_limit)
        return tuple(each for each in said if each is not None)

    @property
    def has_limits(self) -> bool:
        return self.request_limit is not None or self.token_limit is not None

    def takes(self, class_name: str) -> bool:
        return not self.classes or class_name in self.classes


@dataclass(frozen=True, kw_only=True)
class OfferedRequest:
    """The mean request of a class at a provider: what it costs, and the tokens that count against its limit."""

    usd: float
    limited_tokens: float
    inputs: tuple[Figure | Assumption, ...]


def is_priced(book: PriceBook, offer: ProviderOffer) -> bool:
    """Whether the book has what any request of the offer needs."""
    kinds = (TokenKind.INPUT, TokenKind.OUTPUT)
    return all(isinstance(priced(book, _wanted(offer, each, 0.0)), Figure) for each in kinds)


def _wanted(offer: ProviderOffer, kind: TokenKind, prompt_tokens: float) -> TokenWanted:
    return TokenWanted(
        model=offer.model, kind=kind, provider=offer.provider, tier=offer.tier, prompt_tokens=int(prompt_tokens)
    )


def offered_request(book: PriceBook, offer: ProviderOffer, use: ClassUse) -> OfferedRequest | MissingPrice:
    """The tokens of the class's mean request at the offer's prices, and its fee.

    Prices that depend on the length of the prompt are those of the mean prompt. Tokens without a price of their own
    for being cached are sold as input.
    """
    prompt = use.prompt_tokens / use.requests
    cached = min(use.cached_tokens, use.prompt_tokens) / use.requests
    prices: dict[TokenKind, Figure] = {}
    for kind in (TokenKind.INPUT, TokenKind.OUTPUT, TokenKind.CACHED_READ):
        found = priced(book, _wanted(offer, kind, prompt))
        if isinstance(found, Figure):
            prices[kind] = found
        elif kind is not TokenKind.CACHED_READ:
            return found
    prices.setdefault(TokenKind.CACHED_READ, prices[TokenKind.INPUT])
    output = use.output_tokens / use.requests
    tokens: Mapping[TokenKind, float] = {
        TokenKind.INPUT: prompt - cached,
        TokenKind.OUTPUT: output,
        TokenKind.CACHED_READ: cached,
    }
    fee = 0.0 if offer.request_fee is None else number(offer.request_fee)
    return OfferedRequest(
        usd=fee + sum(count * float(prices[kind].value) for kind, count in tokens.items()),
        limited_tokens=prompt + output,
        inputs=tuple({each.name: each for each in prices.values()}.values()),
    )
