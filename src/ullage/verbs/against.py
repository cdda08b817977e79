"""Own devices compared with providers, for `cost`: the offers, every class both ways, and peaks sent to a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.cost.bill import Bill
    from ullage.cost.provider.host_or_buy import HostOrBuy
    from ullage.cost.provider.offer import ProviderOffer
    from ullage.execute.run import RunContext
    from ullage.planning.billing.spilled import SpilledPool
    from ullage.planning.document import Plan
    from ullage.prices.book import PriceBook

# Which draw of a typical week's minutes is looked at, beside the run's own seed.
_MINUTES = 47


def parse_offer(against: str) -> ProviderOffer:
    """`provider/model`, or `provider/model@batch` for another tier than the standard one."""
    from ullage.cost.provider.offer import ProviderOffer
    from ullage.prices.book import Tier

    tiers = {each.value: each for each in Tier}
    name, at, tier = against.rpartition("@")
    if not at or tier not in tiers:
        name, tier = against, Tier.STANDARD.value
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise InputError(
            field="--against",
            value=against,
            problem="does not name a provider",
            fix="Give provider/model, for example openai/gpt-5-mini.",
        )
    return ProviderOffer(provider=provider, model=model, tier=tiers[tier])


def asked_offer(against: str | None, book: PriceBook | None) -> ProviderOffer | None:
    """The offer of an option; one that nobody has priced is refused before the minutes that a plan takes."""
    from ullage.cost.provider.offer import is_priced

    if against is None:
        return None
    offer = parse_offer(against)
    if book is not None and not is_priced(book, offer):
        raise InputError(
            field="--against",
            value=against,
            problem="has no price for input and output tokens",
            fix="Give them under prices.own.tokens, or as a price list (docs/howto/bring-your-prices.md).",
        )
    return offer


def compared_with_providers(
    plan: Plan, bill: Bill, asked: ProviderOffer | None, run: RunContext, notes: list[str]
) -> tuple[tuple[HostOrBuy, ...], tuple[SpilledPool, ...]]:
    """Every offer of the plan file and the one that was asked for; one without a price is noted and left out."""
    import numpy as np

    from ullage.cost.provider.host_or_buy import host_or_buy
    from ullage.cost.provider.minutes import week_minutes
    from ullage.planning.billing.spilled import spilled_pool
    from ullage.prices.book import MissingPrice

    stated = plan.spec.against
    known = {each.name for each in stated}
    offers = [*stated, *([] if asked is None or asked.name in known else [asked])]
    if not offers or plan.spec.prices is None:
        return (), ()
    run.progress(0.6, "providers")
    rng = np.random.default_rng((run.seed, _MINUTES))
    weeks = {each.spec.name: week_minutes(each.demand, rng) for each in plan.pools}
    minutes = {name: counts for week in weeks.values() for name, counts in week.items()}
    rows: list[HostOrBuy] = []
    mixes: list[SpilledPool] = []
    for offer in offers:
        found = host_or_buy(bill, plan.spec.prices, offer, minutes=minutes)
        if isinstance(found, MissingPrice):
            notes.append(f"Not compared with {offer.name}: {found}")
            continue
        rows += found
        for pool, use in zip(plan.pools, bill.use.pools, strict=True):
            if not any(offer.takes(each.name) for each in bill.use.classes_of(use.name)):
                continue
            mix = spilled_pool(pool, use, bill, plan.spec.prices, offer, weeks[use.name], seed=run.seed, map=run.map)
            if isinstance(mix, MissingPrice):
                notes.append(f"No mix of {use.name} with {offer.name}: {mix}")
            else:
                mixes.append(mix)
    return tuple(rows), tuple(mixes)
