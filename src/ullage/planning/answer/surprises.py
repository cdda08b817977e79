"""Unstated inputs that move the bill by more than a tenth: shown in the answer, not in a note.

Each is worked out from the bill and the price book; nothing is planned a second time. The figure beside a
sentence is the part of the bill that it moves, and explains itself back to the prices and the bill.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ullage.cost.bill import Bill
from ullage.cost.quotes import DeviceQuote, device_wanted
from ullage.cost.service_use import PoolUse
from ullage.cost.units import class_cents
from ullage.evidence import Assumption, Evidence, Figure, number
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.book import PriceBook, is_own_price
from ullage.prices.offers import Offer, offers
from ullage.workload.demand.outcomes import lengths_evidence
from ullage.workload.synthetic.builtin import builtin

MOST_UNSAID_FRACTION = 0.1
"""A tenth of a bill is more than most budgets leave open; below it a note is enough."""

_DEVICE_LINES = (
    "compute_reservation", "compute_usage", "idle_hours", "failed_work", "idle_reserve", "stranded_devices",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Surprise:
    """One of them: what it is, in a sentence, and the part of the bill that it moves."""

    name: str
    sentence: str
    moves: Figure


def surprises(plan: Plan, bill: Bill | None) -> tuple[Surprise, ...]:
    """All that move the bill by more than a tenth, the largest first; none where there is no bill of devices."""
    if bill is None or not bill.is_of_devices or not bill.total_cents:
        return ()
    found = [
        *_default_lengths(plan, bill),
        *_default_peaks(plan, bill),
        *(one for pool in plan.pools for one in _of_pool(plan, pool, bill)),
    ]
    large = [each for each in found if abs(number(each.moves)) > MOST_UNSAID_FRACTION]
    return tuple(sorted(large, key=lambda each: -abs(number(each.moves))))


def _of_pool(plan: Plan, pool: PoolPlan, bill: Bill) -> Iterator[Surprise]:
    book = plan.spec.prices
    if book is not None:
        yield from _seller(plan, pool, bill, book)
        yield from _price_of_another_machine(plan, pool, bill, book)
    yield from _whole_machines(plan, pool, bill)
    yield from _node_size(plan, pool, bill)
    yield from _default_hits(plan, pool, bill)
    yield from _seed(plan, pool, bill)


# ---- prices -----------------------------------------------------------------------------------------------------


def _seller(plan: Plan, pool: PoolPlan, bill: Bill, book: PriceBook) -> Iterator[Surprise]:
    """The cheapest of several sellers, taken because none is named."""
    if plan.spec.buying.providers:
        return
    for quote in _quotes(bill, pool):
        wanted = device_wanted(_use(bill, pool), plan.spec.buying, quote.purchase)
        best = _by_seller(offers(book, wanted))
        if len(best) < 2 or is_own_price(next(iter(best.values())).price):
            continue
        hours = {name: each.usd_per_device_hour for name, each in best.items()}
        middle = statistics.median(number(each) for each in hours.values())
        seller = f"{quote.provider} {quote.region}".strip()
        yield Surprise(
            name="seller",
            sentence=f"{_of(plan, pool)}no provider is stated: prices are those of {seller}, the cheapest of "
            f"{len(best)} ({quote.usd_per_hour:.3g} USD per device-hour); the median is {middle:.3g}",
            moves=_moves(
                plan,
                pool,
                f"seller_{quote.purchase}",
                _device_usd(bill, pool) * quote.share_fraction * (middle / quote.usd_per_hour - 1.0) / bill.total_usd,
                "devices on the bill x (median provider's price / price taken - 1) / bill",
                (*hours.values(), *_total(bill)),
            ),
        )


def _by_seller(found: tuple[Offer, ...]) -> dict[str, Offer]:
    """Every seller's cheapest offer, the cheapest seller first."""
    best: dict[str, Offer] = {}
    for each in found:
        best.setdefault(each.price.provider, each)
    return best


def _price_of_another_machine(plan: Plan, pool: PoolPlan, bill: Bill, book: PriceBook) -> Iterator[Surprise]:
    """A price for one device where the plan uses machines of eight, which are sold at another."""
    size = pool.packing.chosen.shape.devices
    for quote in _quotes(bill, pool):
        wanted = device_wanted(_use(bill, pool), plan.spec.buying, quote.purchase)
        taken = next(iter(offers(book, wanted)), None)
        whole = next(iter(offers(book, replace(wanted, least_devices=size))), None)
        if taken is None or whole is None or taken.price.devices >= size or is_own_price(taken.price):
            continue
        hour = whole.usd_per_device_hour
        yield Surprise(
            name="machine price",
            sentence=f"{_of(plan, pool)}priced as a machine with {taken.price.devices} devices but planned on "
            f"{pool.packing.chosen.shape.name} with {size}, where a device-hour costs {number(hour):.3g} USD, not "
            f"{quote.usd_per_hour:.3g}",
            moves=_moves(
                plan,
                pool,
                f"machine_price_{quote.purchase}",
                _device_usd(bill, pool)
                * quote.share_fraction
                * (number(hour) / quote.usd_per_hour - 1.0)
                / bill.total_usd,
                "devices on the bill x (price on a machine of this size / price taken - 1) / bill",
                (quote.hour, hour, *_total(bill)),
            ),
        )


# ---- machines ---------------------------------------------------------------------------------------------------


def _whole_machines(plan: Plan, pool: PoolPlan, bill: Bill) -> Iterator[Surprise]:
    """Devices that are paid because a machine is only sold whole."""
    lines = [each for each in bill.lines if each.pool == pool.spec.name and each.name == "stranded_devices"]
    figures = tuple(each.figure for each in lines if each.figure is not None)
    chosen = pool.packing.chosen
    empty = chosen.spare_devices + chosen.stranded_devices
    if not figures or not empty:
        return
    yield Surprise(
        name="whole machines",
        sentence=f"{_of(plan, pool)}{chosen.shape.name} is only sold with {chosen.shape.devices} devices: {empty} of "
        f"the {chosen.devices} hold no replica but are paid for",
        moves=_moves(
            plan,
            pool,
            "whole_machines",
            sum(each.usd for each in lines if each.figure is not None) / bill.total_usd,
            "devices without a replica on the bill / bill",
            (*figures, *_total(bill)),
        ),
    )


def _node_size(plan: Plan, pool: PoolPlan, bill: Bill) -> Iterator[Surprise]:
    """A machine that is not stated, where the same replicas need more devices on another that is sold."""
    chosen = pool.packing.chosen
    if pool.spec.instance is not None or not chosen.devices:
        return
    sellers = plan.spec.buying.providers
    others = [
        each
        for each in pool.packing.rows
        if each.shape.devices != chosen.shape.devices
        and not each.spans_nodes
        and (not sellers or each.shape.provider in sellers)
    ]
    if not others:
        return
    other = max(others, key=lambda each: abs(each.devices - chosen.devices))
    yield Surprise(
        name="node size",
        sentence=f"{_of(plan, pool)}no machine type is stated (pool.instance): planned on "
        f"{chosen.nodes} {chosen.shape.name} ({chosen.devices} devices); on {other.shape.name} with "
        f"{other.shape.devices} each the same replicas need {other.devices} devices",
        moves=_moves(
            plan,
            pool,
            "node_size",
            _device_usd(bill, pool) * (other.devices / chosen.devices - 1.0) / bill.total_usd,
            "devices on the bill x (devices on the other machine / devices - 1) / bill",
            (plan.figures_of("packing", pool.spec.name)["packing.devices"], *_total(bill)),
        ),
    )


# ---- traffic and chance -----------------------------------------------------------------------------------------


def _default_lengths(plan: Plan, bill: Bill) -> Iterator[Surprise]:
    """Classes whose lengths are ours; a bill of replicas goes up with the tokens that they serve."""
    demand = plan.figures_of("demand")
    names = [
        name
        for each in plan.spec.demands
        for name in (each.request_class.name,)
        if Evidence.ASSUMED in (lengths_evidence(demand[f"demand.{name}.{side}_p95"]) for side in ("prompt", "output"))
    ]
    cents = class_cents(bill.use, bill.lines)
    ours = sum(cents.get(name, 0) for name in names)
    if not ours:
        return
    shown = ", ".join(
        f"{name} (p95 {number(demand[f'demand.{name}.prompt_p95']):,.0f} in, "
        f"{number(demand[f'demand.{name}.output_p95']):,.0f} out)"
        for name in names[:3]
    )
    share = ours / bill.total_cents
    yield Surprise(
        name="default lengths",
        sentence=f"lengths of {shown}{' and others' if len(names) > 3 else ''} are defaults; doubling them adds up to "
        f"{100 * share:.0f} % of the bill",
        moves=Figure(
            name="surprise.default_lengths_fraction",
            value=share,
            unit="fraction",
            formula="part of the bill that these classes cause / bill: the most that doubling their lengths adds",
            inputs=(
                *(demand[f"demand.{name}.{side}_p95"] for name in names for side in ("prompt", "output")),
                *_total(bill),
            ),
        ),
    )


def _default_peaks(plan: Plan, bill: Bill) -> Iterator[Surprise]:
    """Classes whose week is that of a built-in class, chosen by longest context alone: a sign of its kind, no more."""
    peaks = {each.name: max(each.season) * len(each.season) / sum(each.season) for each in builtin().classes}
    assumed = {each.name: each for each in plan.assumptions if each.evidence is Evidence.ASSUMED}
    cents = class_cents(bill.use, bill.lines)
    for name in (each.request_class.name for each in plan.spec.demands):
        peak = assumed.get(f"{name}.peak_hour_ratio")
        if peak is None or name in peaks:
            continue
        taken = min(peaks, key=lambda kind: abs(peaks[kind] - number(peak)))
        other = max(peaks, key=lambda kind: abs(peaks[kind] - number(peak)))
        yield Surprise(
            name="default peak hour",
            sentence=f"no peak hour of {name} is stated: week and growth are those of {taken}, the built-in class of "
            f"the nearest longest context (busiest hour {number(peak):.3g} times the mean; {other} has "
            f"{peaks[other]:.3g}). State peak_hour and weekly_growth",
            moves=Figure(
                name=f"surprise.{name}_peak_hour_fraction",
                value=cents.get(name, 0) / bill.total_cents * (peaks[other] / number(peak) - 1.0),
                unit="fraction",
                formula=f"part of the bill that {name} causes x (peak hour of {other} / peak hour taken - 1): the most "
                "that the other week moves",
                inputs=(peak, *_total(bill)),
            ),
        )


def _default_hits(plan: Plan, pool: PoolPlan, bill: Bill) -> Iterator[Surprise]:
    """Classes whose prefix-cache hits are ours: the replicas that would compute those prompts instead."""
    demand = plan.figures_of("demand")
    prefill = plan.figures_of("step_model", pool.spec.name)["step.prefill_1000_s"]
    shared = plan.figures_of("scorecard", pool.spec.name)["score.cached_fraction"]
    uses = bill.use.classes_of(pool.spec.name)
    found = sum(each.cached_tokens for each in uses) / max(1.0, sum(each.prompt_tokens for each in uses))
    slow_ratio = pool.steady_fleet.size.band.slow_ratio
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    hits_of: dict[str, Figure] = {}
    replicas, rates = 0.0, []
    for use in uses:
        hits = demand[f"demand.{use.name}.cached_fraction"]
        if hits.evidence is not Evidence.ASSUMED or not (use.cached_tokens and use.requests):
            continue
        (asked,) = (each for each in pool.demand.classes if each.name == use.name)
        # The bill's hits are those of all hours, the fleet's those of the planning rate.
        cached_tokens = use.cached_tokens * number(shared) / found
        hits_of[use.name] = Figure(
            name=f"surprise.{use.name}_cached_fraction",
            value=cached_tokens / use.prompt_tokens,
            unit="fraction",
            formula="hits on the bill x score.cached_fraction / hits of all prompts on the bill: at the planning rate",
            inputs=(hits, shared),
        )
        replicas += asked.planning_rps * cached_tokens / use.requests * slow_ratio * number(prefill) / 1000.0
        rates.append(asked.figures[f"demand.{use.name}.planning_rate"])
    if not hits_of:
        return
    needed = Figure(
        name=f"{prefix}surprise.default_cache_hits_replicas",
        value=replicas,
        unit="replicas",
        formula="sum of planning rate x cached tokens of a request x time to prefill a token x "
        f"{slow_ratio:.3g} for conservative step times: replicas that are all busy",
        inputs=(*rates, *hits_of.values(), prefill),
    )
    shares = [f"{name} {100 * number(each):.0f} %" for name, each in hits_of.items()]
    some = ", ".join(shares[:3]) + (" and others" if len(shares) > 3 else "")
    yield Surprise(
        name="default cache hits",
        sentence=f"{_of(plan, pool)}prefix-cache hits ({some} of prompt tokens) are a default; without them at least "
        f"{replicas:.2g} replicas more. State cached_fraction",
        moves=_moves(
            plan,
            pool,
            "default_cache_hits",
            _device_usd(bill, pool) * replicas / pool.reserves.total_replicas / bill.total_usd,
            f"devices on the bill x default_cache_hits_replicas / {pool.reserves.total_replicas} replicas / bill",
            (needed, *hits_of.values(), *_total(bill)),
        ),
    )


def _seed(plan: Plan, pool: PoolPlan, bill: Bill) -> Iterator[Surprise]:
    """A number of replicas that the simulated windows leave open: another seed may decide it otherwise."""
    size = pool.steady_fleet.size
    low, high = size.low_replicas, size.high_replicas
    if low >= high:
        return
    replicas = plan.figures_of("steady_fleet", pool.spec.name)["fleet.replicas"]
    total = pool.reserves.total_replicas
    yield Surprise(
        name="seed",
        sentence=f"{_of(plan, pool)}{low} or {high} steady replicas: the simulation does not decide it; the larger is "
        "planned",
        moves=_moves(
            plan,
            pool,
            "seed",
            _device_usd(bill, pool) * (high - low) / total / bill.total_usd,
            f"devices on the bill x ({high} - {low}) / {total} replicas / bill",
            (replicas, *_total(bill)),
        ),
    )


# ---- parts of the bill ------------------------------------------------------------------------------------------


def _moves(
    plan: Plan, pool: PoolPlan, what: str, value: float, formula: str, inputs: tuple[Figure | Assumption, ...]
) -> Figure:
    prefix = f"{pool.spec.name}." if len(plan.pools) > 1 else ""
    name = f"{prefix}surprise.{what.replace('-', '_').replace(' ', '_')}_fraction"
    return Figure(name=name, value=value, unit="fraction", formula=formula, inputs=inputs)


def _device_usd(bill: Bill, pool: PoolPlan) -> float:
    return sum(each.usd for each in bill.lines if each.pool == pool.spec.name and each.name in _DEVICE_LINES)


def _total(bill: Bill) -> tuple[Figure, ...]:
    return (bill.figures["bill.total_usd"],)


def _quotes(bill: Bill, pool: PoolPlan) -> tuple[DeviceQuote, ...]:
    found = bill.quotes.devices.get(pool.spec.name)
    return found if isinstance(found, tuple) else ()


def _use(bill: Bill, pool: PoolPlan) -> PoolUse:
    return next(each for each in bill.use.pools if each.name == pool.spec.name)


def _of(plan: Plan, pool: PoolPlan) -> str:
    return f"{pool.spec.name}: " if len(plan.pools) > 1 else ""
