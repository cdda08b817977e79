"""Host or buy: what a success costs on one's own devices, and what the same tokens would cost at a provider.

The comparison is fair in tokens and unfair in everything else: another model tokenises differently, answers
differently and may succeed more or less often, so its share of success is an input with its source.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ullage.cost.bill import Bill
from ullage.cost.lines.line import Behaviour
from ullage.cost.money import usd_of
from ullage.cost.service_use import ClassUse
from ullage.cost.units import class_cents
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.prices.book import MissingPrice, PriceBook, Tier, TokenKind
from ullage.prices.lookup import priced
from ullage.prices.wanted import TokenWanted

AS_OFTEN = Assumption(
    name="cost.provider_success_ratio",
    value=1.0,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: the provider succeeds as often as the own service",
        where="docs/explanation/cost.md",
        date=datetime.date(2026, 11, 15),
    ),
    low=0.5,
    high=1.5,
)


@dataclass(frozen=True, kw_only=True)
class HostOrBuy:
    """One class both ways, per success; `even_requests` is the month's volume at which both cost the same.

    Below it buying costs less. None where hosting never does: its variable part alone costs more than buying. What the
    class's devices were sized for is `capacity_requests`: beyond it there would have to be more of them.
    """

    class_name: str
    provider: str
    model: str
    own: Figure
    bought: Figure
    even_requests: float | None
    capacity_requests: float | None = None

    @property
    def is_own_cheaper(self) -> bool:
        return float(self.own.value) <= float(self.bought.value)


def host_or_buy(
    bill: Bill,
    book: PriceBook,
    *,
    model: str,
    provider: str = "",
    tier: Tier = Tier.STANDARD,
    success: Assumption = AS_OFTEN,
) -> tuple[HostOrBuy, ...] | MissingPrice:
    """Every class of the bill against one model of a provider; what is missing where a token has no price."""
    prices: dict[TokenKind, Figure] = {}
    for kind in (TokenKind.INPUT, TokenKind.OUTPUT, TokenKind.CACHED_READ):
        price = priced(book, TokenWanted(model=model, kind=kind, provider=provider, tier=tier))
        if isinstance(price, Figure):
            prices[kind] = price
        elif kind is not TokenKind.CACHED_READ:
            return price
    # A provider without a price for cached tokens sells them as input.
    prices.setdefault(TokenKind.CACHED_READ, prices[TokenKind.INPUT])
    whole = class_cents(bill.use, bill.lines)
    variable = class_cents(bill.use, [each for each in bill.lines if each.behaviour is Behaviour.VARIABLE])
    rows = []
    for each in bill.use.ending:
        if not each.successes or not each.requests:
            continue
        cached = min(each.cached_tokens, each.prompt_tokens)
        tokens = {
            TokenKind.INPUT: each.prompt_tokens - cached,
            TokenKind.OUTPUT: each.output_tokens,
            TokenKind.CACHED_READ: cached,
        }
        bought_usd = sum(count * float(prices[kind].value) for kind, count in tokens.items())
        own_usd = usd_of(whole[each.name])
        per_request = (bought_usd - usd_of(variable[each.name])) / each.requests
        fixed = own_usd - usd_of(variable[each.name])
        rows.append(
            HostOrBuy(
                class_name=each.name,
                provider=provider,
                model=model,
                own=Figure(
                    name=f"host_or_buy.{each.name}.own_usd",
                    value=own_usd / each.successes,
                    unit="USD",
                    formula="its part of the bill, idle and reserve spread, / successes",
                    inputs=(bill.figures["bill.total_usd"], *each.basis),
                ),
                bought=Figure(
                    name=f"host_or_buy.{each.name}.bought_usd",
                    value=bought_usd / (each.successes * number(success)),
                    unit="USD",
                    formula="the same tokens x the provider's prices / successes x how often it succeeds beside ours",
                    inputs=(*_once(prices.values()), success, *each.basis),
                ),
                even_requests=fixed / per_request if per_request > 0.0 and math.isfinite(fixed) else None,
                capacity_requests=_capacity(bill, each),
            )
        )
    return tuple(rows)


def _capacity(bill: Bill, each: ClassUse) -> float | None:
    """What the pool was sized to serve, at this class's share of it."""
    pool = next(one for one in bill.use.pools if one.name == each.pool)
    total = sum(one.requests for one in bill.use.classes_of(each.pool))
    return None if pool.capacity_requests is None else pool.capacity_requests * each.requests / total


def _once(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    return tuple({each.name: each for each in figures}.values())
