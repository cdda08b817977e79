"""Host or buy, class by class: what a successful task costs on one's own devices, and at a provider.

    own    = the class's part of the bill, idle and reserve spread / (successes x share of them that do the task)
    bought = requests x (tokens x prices + fee) / (requests x share of the provider's answers that do the task)

The class's part of the bill is what it makes necessary, so that a class which needs a large fleet for few requests is
not hidden behind one that fills it. The comparison is fair in tokens and unfair in everything else: another model
tokenises differently and answers differently, so its share of success is an input with its source.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.cost.bill import Bill
from ullage.cost.lines.line import Behaviour
from ullage.cost.money import usd_of
from ullage.cost.provider.minutes import Floats, granted
from ullage.cost.provider.offer import OfferedRequest, ProviderOffer, offered_request
from ullage.cost.service_use import ClassUse, TaskUse
from ullage.cost.units import class_cents
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.prices.book import MissingPrice, PriceBook

_OURS = Source(
    what="default of Ullage: the provider succeeds as often as the hosted service, whose answers in time complete "
    "the task",
    where="docs/howto/host-or-buy.md",
    date=datetime.date(2026, 11, 16),
)


@dataclass(frozen=True, kw_only=True)
class TaskSuccess:
    """How often a request does its task, own and at a provider, of all that are asked."""

    own: Assumption
    bought: Assumption


@dataclass(frozen=True, kw_only=True)
class HostOrBuy:
    """One class both ways, per successful task; `even_requests` is the volume at which both cost the same.

    Below it buying costs less. None where hosting never does: its variable part alone costs more than buying. What the
    class's devices were sized for is `capacity_requests`: beyond it there would have to be more of them.
    `refused_fraction` of the class's requests the provider's limits would refuse if it alone went there.
    """

    class_name: str
    offer: str
    own: Figure
    bought: Figure
    requests: float
    own_success_fraction: float
    bought_success_fraction: float
    even_requests: float | None
    capacity_requests: float | None = None
    refused_fraction: float | None = None
    limited_minutes: int | None = None

    @property
    def is_own_cheaper(self) -> bool:
        return float(self.own.value) <= float(self.bought.value)

    @property
    def more_fraction(self) -> float:
        """How much more buying costs; below 0 where it costs less."""
        own = float(self.own.value)
        return float(self.bought.value) / own - 1.0 if own else math.inf


def host_or_buy(
    bill: Bill, book: PriceBook, offer: ProviderOffer, *, minutes: Mapping[str, Floats] | None = None
) -> tuple[HostOrBuy, ...] | MissingPrice:
    """Every class that the offer may take; what is missing where a token has no price.

    `minutes` are the requests of each class by minute, for the offer's limits.
    """
    whole = class_cents(bill.use, bill.lines)
    variable = class_cents(bill.use, [each for each in bill.lines if each.behaviour is Behaviour.VARIABLE])
    rows = []
    for each in bill.use.ending:
        if not each.successes or not each.requests or not offer.takes(each.name):
            continue
        request = offered_request(book, offer, each)
        if isinstance(request, MissingPrice):
            return request
        own_usd, variable_usd = usd_of(whole[each.name]), usd_of(variable[each.name])
        rows.append(_row(bill, each, offer, request, own_usd, variable_usd, minutes or {}))
    return tuple(rows)


def class_success(use: ClassUse, offer: ProviderOffer, tasks: tuple[TaskUse, ...]) -> TaskSuccess:
    """Own answers succeed as often as they are in time and do the task; the provider as stated, else as often."""
    in_time = use.successes / use.requests
    task = next((each for each in tasks if {*each.requests} == {use.name}), None)
    named = f"host_or_buy.{use.name}"
    stated = offer.own_success
    share = number(stated) if stated is not None else 1.0 if task is None else task.success_fraction
    own = Assumption(
        name=f"{named}.own_success",
        value=in_time * share,
        unit="fraction",
        evidence=Evidence.ASSUMED if stated is None else stated.evidence,
        source=_OURS if stated is None else stated.source,
    )
    bought = offer.success or Assumption(
        name=f"{named}.bought_success",
        value=in_time * share,
        unit="fraction",
        evidence=Evidence.ASSUMED,
        source=_OURS,
        low=0.5 * in_time * share,
        high=1.0,
    )
    return TaskSuccess(own=own, bought=bought)


def _row(
    bill: Bill,
    use: ClassUse,
    offer: ProviderOffer,
    request: OfferedRequest,
    own_usd: float,
    variable_usd: float,
    minutes: Mapping[str, Floats],
) -> HostOrBuy:
    success = class_success(use, offer, bill.use.tasks)
    own_share, bought_share = number(success.own), number(success.bought)
    fixed_usd = own_usd - variable_usd
    # What a request may cost at the provider for both to cost the same per success, less what it costs here anyway.
    spared_usd = request.usd * own_share / bought_share - variable_usd / use.requests
    refused, limited = _refused(use, offer, request, minutes)
    return HostOrBuy(
        class_name=use.name,
        offer=offer.name,
        own=Figure(
            name=f"host_or_buy.{use.name}.{offer.name}.own_usd",
            value=own_usd / (use.requests * own_share),
            unit="USD",
            formula="its part of the bill, idle and reserve spread, / requests x share that completes the task in time",
            inputs=(bill.figures["bill.total_usd"], success.own, *use.basis),
        ),
        bought=Figure(
            name=f"host_or_buy.{use.name}.{offer.name}.bought_usd",
            value=request.usd / bought_share,
            unit="USD",
            formula="tokens of its mean request x the provider's prices + fee, / share that completes the task there",
            inputs=(*request.inputs, success.bought, *offer.inputs, *use.basis),
        ),
        requests=use.requests,
        own_success_fraction=own_share,
        bought_success_fraction=bought_share,
        even_requests=fixed_usd / spared_usd if spared_usd > 0.0 and math.isfinite(fixed_usd) else None,
        capacity_requests=_capacity(bill, use),
        refused_fraction=refused,
        limited_minutes=limited,
    )


def _refused(
    use: ClassUse, offer: ProviderOffer, request: OfferedRequest, minutes: Mapping[str, Floats]
) -> tuple[float | None, int | None]:
    if not offer.has_limits or use.name not in minutes:
        return None, None
    asked = minutes[use.name]
    found = granted({use.name: asked}, {use.name: request.limited_tokens}, offer)
    refused = float((asked * (1.0 - found.shares)).sum()) / max(float(asked.sum()), 1e-12)
    return refused, found.limited_minutes


def _capacity(bill: Bill, use: ClassUse) -> float | None:
    """What the pool was sized to serve, at this class's share of it."""
    pool = next(each for each in bill.use.pools if each.name == use.pool)
    total = sum(each.requests for each in bill.use.classes_of(use.pool))
    return None if pool.capacity_requests is None else pool.capacity_requests * use.requests / total
