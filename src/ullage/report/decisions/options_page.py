"""Options in the terminal and as JSON: the ranking, what no other option beats, refusals, a mix, and dates."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ullage.errors import NotGiven, Rejection
from ullage.planning.options.apart import ApartOption
from ullage.planning.options.caches import CacheOption
from ullage.planning.options.lead_times import Order
from ullage.planning.options.mix import VerifiedMix
from ullage.planning.options.options import Options, PoolOptions
from ullage.planning.options.trial import CandidateResult
from ullage.report.tables import plain_table
from ullage.units import brief_number


def options_page(found: Options) -> list[RenderableType]:
    several = len(found.pools) > 1
    parts: list[RenderableType] = []
    for each in found.pools:
        parts += _pool(each, several=several)
    return [*parts, *_mix(found.mix, several=several)]


def _pool(each: PoolOptions, *, several: bool) -> list[RenderableType]:
    who = f"{each.pool}: " if several else ""
    best = each.best
    simulated = len(each.ranking)
    first = (
        f"{who}none of {each.candidates} candidates can serve it alone."
        if best is None
        else f"{who}{best.name} is best of {each.candidates} candidates: {_score(best)}, {best.paid_devices} devices"
        f"{_against_own(each, best)}. {simulated} were fully simulated, {len(each.refused)} refused."
    )
    parts: list[RenderableType] = [Text(first, style="bold"), *(Text(note) for note in each.notes), ""]
    if each.ranking:
        parts += [_ranking(each), "", _pareto(each), ""]
    if each.refused:
        parts += [*_refused(each), ""]
    parts += [*_caches(each), *_apart(each.apart)]
    if each.orders is not None:
        parts += [_orders(each.orders.rows), *(Text(note) for note in each.orders.notes), ""]
    return parts


def _ranking(pool: PoolOptions) -> RenderableType:
    table = plain_table(
        "Ranking, devices alone",
        "",
        "candidate",
        "per 1,000 successes",
        "95 %",
        "replicas",
        "devices",
        "rounds",
        "lead on the next",
    )
    for place, each in enumerate(pool.ranking, start=1):
        one = each.measured
        table.add_row(
            str(place),
            f"{one.name} (current)" if one.fit.candidate.is_own else one.name,
            _cost(one),
            _range(one),
            f"{one.steady_replicas} + {one.reserve_replicas}",
            str(one.paid_devices),
            str(each.rounds),
            str(each.lead),
        )
    return table


def _against_own(pool: PoolOptions, best: CandidateResult) -> str:
    """What the best saves against the current candidate, where both are priced alike."""
    own = next((each.measured for each in pool.ranking if each.measured.fit.candidate.is_own), None)
    if own is None or own.unit != best.unit:
        return ""
    if own is best:
        return ", the current plan"
    less = 1.0 - best.score.value / own.score.value
    than = f"{own.name} of the current plan"
    return f", {less:.0%} less than {than}" if round(less, 2) > 0.0 else f", as much as {than}"


def _pareto(pool: PoolOptions) -> RenderableType:
    table = plain_table(
        "Pareto-optimal: no other candidate is better on all of these",
        "candidate",
        "per 1,000 successes",
        "devices",
        "latency headroom",
        "evidence",
    )
    for each in pool.ranking:
        one = each.measured
        if each.is_efficient:
            table.add_row(
                one.name, _cost(one), str(one.paid_devices), f"{one.headroom_fraction:.0%}", str(one.evidence)
            )
    return table


def _refused(pool: PoolOptions) -> Iterator[RenderableType]:
    yield Text("Refused", style="bold")
    for each in pool.refused:
        why = each.rejection
        help_ = f" To fix: {why.remedies[0].change}." if why.remedies else ""
        yield Text(f"- {each.name}, by {why.stage}: {why.reason}.{help_}")


def _caches(pool: PoolOptions) -> list[RenderableType]:
    """Changes to caches and routers, beside the pool with caches that are simulated too."""
    if not pool.caches:
        return []
    said = [
        each.note if isinstance(each, CacheOption) else f"refused by {each.stage}: {each.reason}."
        for each in pool.caches
    ]
    return [Text("Caches and routers, simulated", style="bold"), *(Text(f"- {each}") for each in said), ""]


def _apart(found: ApartOption | Rejection | None) -> list[RenderableType]:
    if found is None:
        return []
    said = found.note if isinstance(found, ApartOption) else f"refused by {found.stage}: {found.reason}."
    return [Text("Disaggregated prefill and decode", style="bold"), Text(f"- {said}"), ""]


def _orders(rows: tuple[Order, ...]) -> RenderableType:
    table = plain_table("Order by", "from", "planning rate", "replicas", "devices", "more", "order by", "waits for")
    for each in rows:
        by = "" if each.order_by is None else f"{each.order_by}"
        late = f", {each.late_days} d ago" if each.late_days else ""
        table.add_row(
            str(each.month),
            f"{brief_number(each.rate_rps)} req/s",
            str(each.replicas),
            str(each.devices),
            f"+{each.more_devices}" if each.more_devices else "",
            by + late,
            each.waits_for,
        )
    return table


def _mix(mix: VerifiedMix | Rejection | NotGiven, *, several: bool) -> list[RenderableType]:
    if isinstance(mix, NotGiven):
        return [Text(f"{mix.instead} {mix.fix}")]
    if isinstance(mix, Rejection):
        return [Text(f"Mix refused: {mix.reason}."), *(Text(f"  {one.change}: {one.effect}") for one in mix.remedies)]
    table = plain_table("Mix of devices, simulated", "candidate", "replicas", "devices", "serves")
    for each in mix.pools:
        shares = "; ".join(
            f"{share:.0%} of {name if several else name.removeprefix(f'{each.pool} ')}"
            for name, share in each.shares.items()
        )
        replicas = f"{each.replicas} + {each.reserve_replicas}"
        table.add_row(each.fit.candidate.name, replicas, str(each.paid_devices), shares)
    return [table, Text(_mix_verdict(mix))]


def _mix_verdict(mix: VerifiedMix) -> str:
    cost = f"{brief_number(mix.usd_per_hour, 4)} USD/h"
    if mix.single_usd_per_hour is None:
        return f"{cost}, every SLO met; no single kind serves all of a pool within the quotas."
    single = f"{brief_number(mix.single_usd_per_hour, 4)} USD/h"
    if mix.is_cheaper:
        return f"{cost}, every SLO met; one kind for each pool costs {single}."
    if mix.is_mixed:
        return f"{cost}, every SLO met, but one kind for each pool costs {single}: a mix does not pay off here."
    return f"{cost}, every SLO met; no mix of kinds in one pool is cheaper."


def _score(one: CandidateResult) -> str:
    return f"{_cost(one)} per 1,000 successes" if one.is_priced else "not priced"


def _cost(one: CandidateResult) -> str:
    return f"{brief_number(one.score.value * 1000.0)} USD" if one.is_priced else "not priced"


def _range(one: CandidateResult) -> str:
    scale = 1000.0 if one.is_priced else 1.0
    unit = "" if one.is_priced else " devices"
    low, high = (brief_number(each * scale) for each in (one.score.low, one.score.high))
    return "decided" if low == high else f"{low} to {high}{unit}"
