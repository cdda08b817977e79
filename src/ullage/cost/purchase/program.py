"""The mix of least expected cost, as an integer program over nodes and months.

    x[i, s]   nodes of instrument i from month s on, whole
    z[t, j]   the part of node j that month t buys by the hour, 0 to 1

    least   sum x[i, s] x its price x its months  +  sum z[t, j] x expected hours that need j in t x price of an hour
    where   held[t] + sum of x that run in t + sum of z[t, .]  >=  most nodes of t

The hours that need j fall with j, so what is left to the hour is always the topmost nodes. A term ends within the
months that are looked at, or begins with the first or where another ends; of one that outlives the months only those
within are paid, as if the rest were worth its price. With `caps` the cost in other worlds is limited as well, each
with hours of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, lil_array

from ullage.cost.purchase.instrument import Instrument
from ullage.cost.purchase.mix import Market, TermMix, TermOrder, expected_usd
from ullage.cost.purchase.need import Floats, NodeNeeds
from ullage.errors import InternalError

_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class CostCap:
    """In this world the mix may cost no more than `usd`."""

    needs: NodeNeeds
    market: Market
    usd: float


def starts_of(instrument: Instrument, market: Market) -> tuple[int, ...]:
    """The months in which a term may begin."""
    fitting = range(instrument.after_months, market.months - instrument.term_months + 1)
    anchors = {instrument.after_months, *(each.months for each in market.held)}
    renewed = (
        month
        for anchor in anchors
        if anchor >= instrument.after_months
        for month in range(anchor, market.months, instrument.term_months)
    )
    return tuple(sorted({*fitting, *renewed}))


def best_mix(needs: NodeNeeds, market: Market, *, name: str = "best", caps: Sequence[CostCap] = ()) -> TermMix | None:
    """The mix of least expected cost; None where no mix keeps the caps."""
    choices = [(each, start) for each in market.terms for start in starts_of(each, market)]
    worlds = [(needs, market), *((each.needs, each.market) for each in caps)]
    layers = [one_market.layer_usd(one) for one, one_market in worlds]
    offsets = np.cumsum([len(choices), *(each.size for each in layers)])
    prices = [
        np.array([one_market.order_usd(TermOrder(instrument=i, start_months=s, nodes=1)) for i, s in choices])
        for _, one_market in worlds
    ]
    cost = np.zeros(offsets[-1])
    cost[: len(choices)] = prices[0]
    cost[offsets[0] : offsets[1]] = layers[0].ravel()
    constraints = [_covered(choices, market, layers, offsets)]
    constraints += _capped(caps, prices, layers, offsets)
    whole = np.zeros(offsets[-1])
    whole[: len(choices)] = 1
    upper = np.ones(offsets[-1])
    upper[: len(choices)] = max((each.shape[1] for each in layers), default=0)
    found = milp(
        cost, integrality=whole, bounds=Bounds(0.0, upper), constraints=constraints, options={"time_limit": _SECONDS}
    )
    if found.x is None:
        if caps and found.status == 2:
            return None
        raise InternalError(law="the purchase program has a solution", left=found.message, right="solved")
    nodes = np.rint(found.x[: len(choices)]).astype(int)
    orders = tuple(
        TermOrder(instrument=i, start_months=s, nodes=int(count))
        for (i, s), count in zip(choices, nodes, strict=True)
        if count > 0
    )
    return TermMix(name=name, orders=orders)


def least_usd(needs: NodeNeeds, market: Market) -> float:
    """What the best mix for exactly this world costs."""
    found = best_mix(needs, market)
    assert found is not None
    return expected_usd(found, needs, market)


def _covered(
    choices: Sequence[tuple[Instrument, int]], market: Market, layers: Sequence[Floats], offsets: Floats
) -> LinearConstraint:
    """In every world and month: held, bought for a term and bought by the hour cover every node."""
    months = market.months
    rows = lil_array((len(layers) * months, int(offsets[-1])))
    least = np.empty(len(layers) * months)
    held = TermMix(name="held").nodes(months, market.held)
    for world, layer in enumerate(layers):
        for month in range(months):
            row = world * months + month
            for at, (instrument, start) in enumerate(choices):
                if start <= month < start + instrument.term_months:
                    rows[row, at] = 1.0
            first = int(offsets[world]) + month * layer.shape[1]
            rows[row, first : first + layer.shape[1]] = 1.0
            least[row] = layer.shape[1] - held[month]
    return LinearConstraint(csr_array(rows), lb=least)


def _capped(
    caps: Sequence[CostCap], prices: Sequence[Floats], layers: Sequence[Floats], offsets: Floats
) -> list[LinearConstraint]:
    found = []
    for world, cap in enumerate(caps, start=1):
        row = np.zeros((1, int(offsets[-1])))
        row[0, : prices[world].size] = prices[world]
        row[0, int(offsets[world]) : int(offsets[world + 1])] = layers[world].ravel()
        found.append(LinearConstraint(csr_array(row), ub=cap.usd - cap.market.held_usd()))
    return found
