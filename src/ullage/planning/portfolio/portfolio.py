"""A portfolio: every pool's need, where all pools are placed, what is dropped, and what moves from a lost region.

Needs are first looks, each with its band. A pool is decided by the whole plan only where that matters: where the pools
of a device fit at the low end of their bands and not at the high end, where something is dropped, or where the budget
is met at one end only. Those with the widest bands come first, as many as the caller allows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ullage.errors import Rejection, Remedy
from ullage.evidence import Evidence, Figure, Source
from ullage.planning.portfolio.limits import DAYS_PER_MONTH, PoolNeed, PortfolioLimits, SizeBasis
from ullage.planning.portfolio.program import Placed, place_pools

Decide = Callable[[Sequence[PoolNeed]], Sequence[PoolNeed | None]]
"""Pools as the whole plans of their services decide them; None where one is refused."""


@dataclass(frozen=True, kw_only=True)
class PortfolioPool:
    """One pool: what it needs, what it gets and where, and what the rest costs."""

    need: PoolNeed
    given_up_replicas: int
    regions: Mapping[str, int]
    lost_usd: float
    lost_usd_per_device: float

    @property
    def name(self) -> str:
        return self.need.name

    @property
    def replicas(self) -> int:
        return self.need.replicas - self.given_up_replicas

    @property
    def devices(self) -> int:
        return self.replicas * self.need.replica_devices


@dataclass(frozen=True, kw_only=True)
class RegionDevice:
    """A device in a region: what is used of what is allowed, in whole nodes."""

    region: str
    device: str
    devices: int
    nodes: int
    idle_devices: int
    quota_devices: int | None
    committed_devices: int


@dataclass(frozen=True, kw_only=True)
class PoolMove:
    """Replicas of a pool that have to start elsewhere, or stop for others, after a region is lost."""

    pool: str
    from_region: str
    to_region: str
    replicas: int


@dataclass(frozen=True, kw_only=True)
class LostRegion:
    """A region lost: who moves where, who stops elsewhere to make room, and what is not served then."""

    region: str
    replicas: int
    moves: tuple[PoolMove, ...]
    stopped: tuple[PoolMove, ...]
    given_up: Mapping[str, int]
    lost_usd_per_day: float


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """All of it. `usd` is a month of devices, commitments among it; `lost_usd` what is given up would cost."""

    name: str
    pools: tuple[PortfolioPool, ...]
    regions: tuple[RegionDevice, ...]
    losses: tuple[LostRegion, ...]
    requests_per_day: float
    replicas: int
    devices: int
    usd: float
    budget_usd: float | None
    lost_usd: float
    decided_pools: int
    undecided: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def given_up(self) -> tuple[PortfolioPool, ...]:
        """Pools that give something up, in the order in which they would: least lost for a device first."""
        some = [each for each in self.pools if each.given_up_replicas]
        return tuple(sorted(some, key=lambda each: (each.lost_usd_per_device, each.need.name)))


def plan_portfolio(
    needs: Sequence[PoolNeed], limits: PortfolioLimits, *, decide: Decide, most_decided: int, as_of: datetime.date
) -> Portfolio | Rejection:
    """The placement of all pools; those on which it turns are decided first, at most so many of them."""
    pools = list(needs)
    refused: list[str] = []
    wanted = turning(pools, limits, place_pools(pools, limits))
    chosen = [at for name in wanted[:most_decided] for at, each in enumerate(pools) if each.name == name]
    for at, found in zip(chosen, decide([pools[at] for at in chosen]), strict=True):
        if found is None:
            refused.append(pools[at].name)
        else:
            pools[at] = found
    placed = place_pools(pools, limits)
    if placed is None:
        return _unplaceable(pools, limits, as_of)
    open_still = turning(pools, limits, placed)
    losses = tuple(each for region in limits.regions for each in _lost(region.name, pools, limits, placed))
    notes = [f"{name}: its full plan is refused; its estimate is used instead." for name in refused]
    return _portfolio(pools, limits, placed, losses, tuple(each for each in open_still if each not in refused), notes)


def turning(pools: Sequence[PoolNeed], limits: PortfolioLimits, placed: Placed | None) -> list[str]:
    """Names of first looks on which the answer turns, the widest band of devices first."""
    looked = [each for each in pools if each.basis is SizeBasis.FIRST_LOOK and each.low_replicas < each.high_replicas]
    short = {*placed.given_up} if placed is not None else {each.name for each in pools}
    devices = {each.device for each in pools if each.name in short}
    for device in {each.device for each in looked}:
        rooms = [each.quota_devices.get(device) for each in limits.places]
        if any(room is None for room in rooms):
            continue
        room = sum(each for each in rooms if each is not None)
        low, high = (
            sum(getattr(each, end) * each.replica_devices for each in pools if each.device == device)
            for end in ("low_replicas", "high_replicas")
        )
        if low <= room < high:
            devices.add(device)
    if limits.budget_usd is not None and _budget_turns(pools, limits.budget_usd):
        devices |= {each.device for each in looked if each.device_usd}
    chosen = [each for each in looked if each.device in devices]
    chosen.sort(key=lambda each: (-(each.high_replicas - each.low_replicas) * each.replica_devices, each.name))
    return [each.name for each in chosen]


def _budget_turns(pools: Sequence[PoolNeed], budget_usd: float) -> bool:
    low, high = (
        sum(getattr(each, end) * each.replica_devices * (each.device_usd or 0.0) for each in pools)
        for end in ("low_replicas", "high_replicas")
    )
    return bool(low <= budget_usd < high)


def _lost(region: str, pools: Sequence[PoolNeed], limits: PortfolioLimits, placed: Placed) -> tuple[LostRegion, ...]:
    """The region's loss; nothing where no pool runs in it."""
    here = {name: count for (name, where), count in placed.replicas.items() if where == region}
    if not here:
        return ()
    if len(limits.regions) == 1:
        after: Placed | None = None
    else:
        # What was dropped before stays dropped; the rest of the lost region is placed again.
        kept = [_without(each, placed.given_up.get(each.name, 0)) for each in pools]
        free = replace(
            limits, services={name: replace(each, least_fraction=0.0) for name, each in limits.services.items()}
        )
        after = place_pools([each for each in kept if each.replicas], free, without=region, standing=placed)
    rates = {each.name: limits.lost_usd(each.service) * each.lost_requests_per_replica for each in pools}
    if after is None:
        alone = LostRegion(
            region=region, replicas=sum(here.values()), moves=(), stopped=(), given_up=here,
            lost_usd_per_day=sum(rates[name] * count for name, count in here.items()),
        )  # fmt: skip
        return (alone,)
    moves, stopped = [], []
    for pool in sorted({name for name, _ in placed.replicas}):
        for place in (each.name for each in limits.regions if each.name != region):
            change = after.in_region(pool, place) - placed.in_region(pool, place)
            if change > 0:
                moves.append(PoolMove(pool=pool, from_region=region, to_region=place, replicas=change))
            elif change < 0:
                stopped.append(PoolMove(pool=pool, from_region=place, to_region="", replicas=-change))
    found = LostRegion(
        region=region,
        replicas=sum(here.values()),
        moves=tuple(moves),
        stopped=tuple(stopped),
        given_up=dict(sorted(after.given_up.items())),
        lost_usd_per_day=sum(rates[name] * count for name, count in after.given_up.items()),
    )
    return (found,)


def _without(need: PoolNeed, given_up: int) -> PoolNeed:
    """The pool that is left; a replica of it is worth what it was."""
    left = need.replicas - given_up
    share = left / need.replicas if need.replicas else 0.0
    return replace(need, replicas=left, requests_per_day=need.requests_per_day * share)


def _portfolio(
    pools: Sequence[PoolNeed],
    limits: PortfolioLimits,
    placed: Placed,
    losses: tuple[LostRegion, ...],
    undecided: tuple[str, ...],
    notes: list[str],
) -> Portfolio:
    rows = tuple(_pool_row(each, limits, placed) for each in pools)
    unpriced = sorted({each.device for each in pools if each.device_usd is None})
    if unpriced:
        notes.append(f"Not priced, and counted as 0 USD: {', '.join(unpriced)}.")
    if all(limits.terms(each.service).shortfall_usd is None for each in pools) and limits.shortfall_usd is None:
        notes.append("The cost of a lost request is not stated: all count the same.")
    return Portfolio(
        name=limits.name,
        pools=rows,
        regions=_region_rows(pools, limits, placed),
        losses=losses,
        requests_per_day=sum(each.requests_per_day for each in pools),
        replicas=sum(each.replicas for each in rows),
        devices=sum(n * size for (_, size, _), n in placed.nodes.items()),
        usd=placed.usd,
        budget_usd=limits.budget_usd,
        lost_usd=placed.lost_usd,
        decided_pools=sum(each.basis is SizeBasis.DECIDED for each in pools),
        undecided=undecided,
        notes=tuple(notes),
    )


def _pool_row(need: PoolNeed, limits: PortfolioLimits, placed: Placed) -> PortfolioPool:
    given_up = placed.given_up.get(need.name, 0)
    each_usd = limits.lost_usd(need.service) * need.lost_requests_per_replica * DAYS_PER_MONTH
    return PortfolioPool(
        need=need,
        given_up_replicas=given_up,
        regions={region: count for (name, region), count in sorted(placed.replicas.items()) if name == need.name},
        lost_usd=given_up * each_usd,
        lost_usd_per_device=each_usd / need.replica_devices,
    )


def _region_rows(pools: Sequence[PoolNeed], limits: PortfolioLimits, placed: Placed) -> tuple[RegionDevice, ...]:
    found = []
    sizes = {each.name: each for each in pools}
    for region in limits.places:
        for device in sorted({each.device for each in pools}):
            held = {size: n for (d, size, r), n in placed.nodes.items() if (d, r) == (device, region.name)}
            devices = sum(size * n for size, n in held.items())
            used = sum(
                count * sizes[name].replica_devices
                for (name, where), count in placed.replicas.items()
                if where == region.name and sizes[name].device == device
            )
            committed = sum(
                each.devices for each in limits.commitments if (each.device, each.region) == (device, region.name)
            )
            if devices or committed or device in region.quota_devices:
                found.append(
                    RegionDevice(
                        region=region.name,
                        device=device,
                        devices=devices,
                        nodes=sum(held.values()),
                        idle_devices=devices - used,
                        quota_devices=region.quota_devices.get(device),
                        committed_devices=committed,
                    )
                )
    return tuple(found)


def _unplaceable(pools: Sequence[PoolNeed], limits: PortfolioLimits, as_of: datetime.date) -> Rejection:
    least = sum(
        each.replica_devices * (each.replicas - int(each.replicas * (1.0 - limits.terms(each.service).least_fraction)))
        for each in pools
    )
    figure = Figure(
        name="portfolio.least_devices",
        value=least,
        unit="devices",
        formula="devices of the replicas that must not be dropped",
        sources=(Source(what="services and quotas of the portfolio", where=limits.name, date=as_of),),
        own_evidence=Evidence.ESTIMATED,
    )
    return Rejection(
        stage="portfolio",
        reason="the replicas that must not be dropped exceed quotas, nodes or budget",
        figure=figure,
        remedies=(Remedy(change="a smaller `least` of services, or larger quotas", effect="something can be placed"),),
    )
