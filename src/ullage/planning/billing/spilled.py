"""Base on own replicas, peaks to a provider, for a planned pool: the sizes of the base compared, the best one tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ullage.cost.bill import Bill
from ullage.cost.marginal import replica_usd
from ullage.cost.provider.host_or_buy import class_success
from ullage.cost.provider.minutes import Floats
from ullage.cost.provider.offer import ProviderOffer, offered_request
from ullage.cost.provider.spill import SpillClass, SpillLevel, SpillPool, best_level, spill_level, spill_levels
from ullage.cost.service_use import SECONDS_PER_HOUR, PoolUse
from ullage.evidence import Figure, number
from ullage.planning.billing.caused import EFFORT
from ullage.planning.pool_plan import PoolPlan
from ullage.prices.book import MissingPrice, PriceBook
from ullage.service.trial.search import least_replicas


@dataclass(frozen=True, kw_only=True)
class SpilledPool:
    """A pool all own, all bought, and with the base of least cost per success.

    `tried_replicas` is what the chosen base takes by the trial; more than `chosen` was tried where a
    smaller pool evens out less. `levels` are all bases as reckoned, before any was tried.
    """

    pool: str
    offer: str
    own: SpillLevel
    bought: SpillLevel
    chosen: SpillLevel
    levels: tuple[SpillLevel, ...]
    tried_replicas: int | None
    figure: Figure

    @property
    def is_mixed(self) -> bool:
        return 0 < self.chosen.base_replicas < self.own.base_replicas

    @property
    def saved_usd(self) -> float:
        """Of the month of an all-own pool, devices alone."""
        return self.own.usd - self.chosen.usd


def spilled_pool(
    pool: PoolPlan,
    use: PoolUse,
    bill: Bill,
    book: PriceBook,
    offer: ProviderOffer,
    minutes: Mapping[str, Floats],
    *,
    seed: int,
    map: Any = map,  # noqa: A002
) -> SpilledPool | MissingPrice:
    """The mix of least cost per success; its base is decided by the pool's own trial."""
    hour = replica_usd(use, bill.quotes, bill.policy)
    if isinstance(hour, MissingPrice):
        return hour
    classes = _classes(use, bill, book, offer)
    if isinstance(classes, MissingPrice):
        return classes
    steady = pool.steady_fleet.replicas
    asked = SpillPool(
        name=use.name,
        steady_replicas=steady,
        reserve_replicas=sum(use.reserves.values()),
        base_rps=pool.demand.planning_rps,
        replica_usd=number(hour),
        period_s=bill.policy.period_hours * SECONDS_PER_HOUR,
    )
    levels = spill_levels(asked, classes, minutes, offer)
    best, tried = best_level(levels), None
    if 0 < best.base_replicas < steady:
        tried = _tried(pool, best.base_replicas, seed=seed, map=map)
        again = spill_level(asked, classes, minutes, offer, best.base_replicas, paid_replicas=tried)
        best = best_level((levels[0], again, levels[-1]))
    return SpilledPool(
        pool=use.name,
        offer=offer.name,
        own=levels[-1],
        bought=levels[0],
        chosen=best,
        levels=levels,
        tried_replicas=tried,
        figure=Figure(
            name=f"host_or_buy.{use.name}.{offer.name}.mix_usd",
            value=best.usd,
            unit="USD",
            formula="replicas of the base and reserves x a replica's month + requests over the base x their price",
            inputs=(hour, *use.basis, *offer.inputs),
        ),
    )


def _classes(use: PoolUse, bill: Bill, book: PriceBook, offer: ProviderOffer) -> tuple[SpillClass, ...] | MissingPrice:
    """Classes of the pool, their weights by engine time; a weight of one is the mean request of the pool."""
    members = [each for each in bill.use.classes_of(use.name) if each.requests]
    work = {each.name: (each.gpu_s or 0.0) / each.requests for each in members}
    mean = sum(each.gpu_s or 0.0 for each in members) / max(sum(each.requests for each in members), 1e-12)
    found = []
    for each in members:
        request = offered_request(book, offer, each) if offer.takes(each.name) else None
        if isinstance(request, MissingPrice):
            return request
        success = class_success(each, offer, bill.use.tasks)
        found.append(
            SpillClass(
                name=each.name,
                weight_ratio=work[each.name] / mean if mean else 1.0,
                limited_tokens=0.0 if request is None else request.limited_tokens,
                usd=None if request is None else request.usd,
                own_success_fraction=number(success.own),
                bought_success_fraction=number(success.bought),
            )
        )
    return tuple(found)


def _tried(pool: PoolPlan, base: int, *, seed: int, map: Any) -> int:  # noqa: A002
    """How many replicas carry the base's part of the planning rate within every SLO; a part never takes the whole."""
    size = pool.steady_fleet.size
    rate_rps = size.rate_rps * base / pool.steady_fleet.replicas
    found = least_replicas(
        size.bases.conservative, rate_rps, size.probe,
        seed=seed, effort=EFFORT, start=base, is_bought=False, map=map,
    )  # fmt: skip
    return max(base, min(found.replicas, pool.steady_fleet.replicas))
