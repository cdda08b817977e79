"""A mix: what is bought for a term and when; the rest of every hour is bought as it comes.

An hour that needs n nodes of which l may be lost, where X are bought for a term, takes

    by the hour   max(0, n - l - X)
    on spot       max(0, n - X) less that

Nodes of a term serve first, for they are paid anyway. A list price may fall: `Market` says by how much in which month,
and what is bought for a term later is bought at the list of its first month.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from ullage.cost.purchase.instrument import Held, Instrument
from ullage.cost.purchase.need import Floats, Integers, NodeNeeds
from ullage.prices.purchase import HOURS_PER_MONTH

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class TermOrder:
    """So many nodes of an instrument, from so many months after the first month on."""

    instrument: Instrument
    start_months: int
    nodes: int

    @property
    def end_months(self) -> int:
        """The first month in which they are gone."""
        return self.start_months + self.instrument.term_months


@dataclass(frozen=True, kw_only=True)
class TermMix:
    """Orders for a term. An empty one buys everything by the hour, what may be lost on spot unless it goes without."""

    name: str
    orders: tuple[TermOrder, ...] = ()
    uses_spot: bool = True

    def nodes(self, months: int, held: Sequence[Held] = ()) -> Integers:
        """Nodes of a term in each month, those held already among them."""
        found = np.zeros(months, np.int64)
        for order in self.orders:
            found[order.start_months : order.end_months] += order.nodes
        for each in held:
            found[: each.months] += each.nodes
        return found


@dataclass(frozen=True, kw_only=True)
class Market:
    """What can be bought, what is held, and how list prices go: by month, as parts of today's."""

    by_hour: Instrument
    spot: Instrument | None
    terms: tuple[Instrument, ...]
    held: tuple[Held, ...] = ()
    list_ratios: tuple[float, ...]

    @property
    def months(self) -> int:
        return len(self.list_ratios)

    @property
    def hour_usd(self) -> Floats:
        """An hour of a node in each month."""
        return self.by_hour.usd_per_hour * np.array(self.list_ratios)

    @property
    def spot_usd(self) -> Floats:
        """The same of a node that may be lost: on spot where that is sold and cheaper, the time lost included."""
        if self.spot is None:
            return self.hour_usd
        lost = 1.0 + self.spot.interruptions * self.spot.refill_s / _SECONDS_PER_HOUR
        return np.minimum(self.hour_usd, self.spot.usd_per_hour * lost * np.array(self.list_ratios))

    def without_spot(self) -> Market:
        return replace(self, spot=None)

    def held_usd(self) -> float:
        return sum(
            each.nodes * each.usd_per_hour * HOURS_PER_MONTH * min(each.months, self.months) for each in self.held
        )

    def order_usd(self, order: TermOrder) -> float:
        """What an order costs within these months, at the list of the month it is made in."""
        paid = min(order.end_months, self.months) - order.start_months
        return order.nodes * order.instrument.usd_per_month * paid * self.list_ratios[order.start_months]

    def layer_usd(self, needs: NodeNeeds) -> Floats:
        """By month and node: the expected cost of leaving it to be bought by the hour."""
        every, firm = needs.layer_hours
        return np.asarray(self.hour_usd[:, None] * firm + self.spot_usd[:, None] * (every - firm))


def expected_usd(mix: TermMix, needs: NodeNeeds, market: Market) -> float:
    """The mean over all futures."""
    market = market if mix.uses_spot else market.without_spot()
    bought = mix.nodes(market.months, market.held)
    layers = market.layer_usd(needs)
    left = np.arange(1, needs.most + 1)[None, :] > bought[:, None]
    fixed = sum(market.order_usd(each) for each in mix.orders) + market.held_usd()
    return float(fixed + (layers * left).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayedMix:
    """What a mix came to in each future: USD, and by month the mean nodes by the hour, on spot, and unused.

    `interruptions` is how often spot was taken away in a month, `lost_node_hours` what that left unserved.
    """

    usd: Floats
    hour_nodes: Floats
    spot_nodes: Floats
    idle_nodes: Floats
    interruptions: float
    lost_node_hours: float

    @property
    def mean_usd(self) -> float:
        return float(self.usd.mean())


def play(mix: TermMix, needs: NodeNeeds, market: Market, *, rng: Generator) -> PlayedMix:
    """Every hour of every future, bought as it comes; what spot takes away is drawn."""
    market = market if mix.uses_spot else market.without_spot()
    bought = mix.nodes(market.months, market.held)[None, :, None]
    left = np.maximum(needs.nodes - bought, 0)
    firm = np.maximum(needs.nodes - needs.losable - bought, 0)
    cheaper = market.spot_usd < market.hour_usd
    spot = np.where(cheaper[None, :, None], left - firm, 0)
    hours = HOURS_PER_MONTH / needs.nodes.shape[2]
    spot_hours = spot.sum(axis=2) * hours
    taken, usd = np.zeros(spot_hours.shape), np.zeros(spot_hours.shape)
    if market.spot is not None:
        taken = rng.poisson(spot_hours * market.spot.interruptions).astype(np.float64)
        again_h = market.spot.refill_s / _SECONDS_PER_HOUR
        usd = market.spot.usd_per_hour * np.array(market.list_ratios) * (spot_hours + taken * again_h)
    usd = usd + market.hour_usd * (left - spot).sum(axis=2) * hours
    fixed = sum(market.order_usd(each) for each in mix.orders) + market.held_usd()
    lost_h = 0.0 if market.spot is None else market.spot.lost_s / _SECONDS_PER_HOUR
    return PlayedMix(
        usd=np.asarray(usd.sum(axis=1) + fixed),
        hour_nodes=np.asarray((left - spot).mean(axis=(0, 2))),
        spot_nodes=np.asarray(spot.mean(axis=(0, 2))),
        idle_nodes=np.asarray(np.maximum(bought - needs.nodes, 0).mean(axis=(0, 2))),
        interruptions=float(taken.mean()),
        lost_node_hours=float(taken.mean()) * lost_h,
    )
