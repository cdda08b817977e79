"""What a mix loses where demand or prices come out otherwise.

Regret is what the mix costs in a world, less what the best mix for exactly that world would have. For a fixed mix the
cost is convex in the level of demand and the best cost proportional to it; in the level of list prices the cost is
straight and the best concave. So over a range of both regret is largest at a corner, and the corners are what is
tried: on all futures together, and on a future that lies a deviation beyond the one that needs least, and beyond the
one that needs most, since a drawn future is never the last. A node is whole, so between corners it may be off by what
rounding to one is worth; that is added (`rounding_usd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.cost.purchase.mix import Market, TermMix, expected_usd
from ullage.cost.purchase.need import NodeNeeds
from ullage.cost.purchase.program import CostCap, least_usd
from ullage.prices.purchase import HOURS_PER_MONTH

DEMAND_RATIOS = (1.0, 0.7, 1.3)
# A commitment regrets a fall most that comes right after it was signed.
FALL_MONTH = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class RegretWorld:
    """Demand so many times what was drawn, and list prices that fall by a part in the second month."""

    name: str
    demand_ratio: float
    fall_fraction: float
    needs: NodeNeeds
    market: Market


@dataclass(frozen=True, kw_only=True)
class WorldRegret:
    """One world: what the mix costs in it, what the best for it would, and the largest loss in a single future.

    `rules_usd` are the costs of the fixed rules in the same world, by name.
    """

    world: str
    demand_ratio: float
    fall_fraction: float
    usd: float
    least_usd: float
    worst_usd: float
    rules_usd: dict[str, float]

    @property
    def regret_usd(self) -> float:
        return max(0.0, self.usd - self.least_usd)


def worlds_of(needs: NodeNeeds, market: Market, fall_fraction: float) -> tuple[RegretWorld, ...]:
    """As drawn, three tenths lower and higher, each with prices as they are and fallen."""
    return tuple(
        RegretWorld(
            name=_name(ratio, fall),
            demand_ratio=ratio,
            fall_fraction=fall,
            needs=needs.times(ratio),
            market=fallen(market, fall),
        )
        for fall in dict.fromkeys((0.0, fall_fraction))
        for ratio in DEMAND_RATIOS
    )


def fallen(market: Market, fall_fraction: float) -> Market:
    ratios = tuple(
        each * (1.0 - fall_fraction if month >= FALL_MONTH else 1.0) for month, each in enumerate(market.list_ratios)
    )
    return replace(market, list_ratios=ratios)


def _name(ratio: float, fall: float) -> str:
    words = [] if ratio == 1.0 else [f"demand {abs(ratio - 1.0):.0%} {'higher' if ratio > 1.0 else 'lower'}"]
    words += [f"list prices {fall:.0%} lower"] if fall else []
    return " and ".join(words).replace("%", " %") or "as forecast"


def world_regrets(mix: TermMix, rules: Sequence[TermMix], worlds: Sequence[RegretWorld]) -> tuple[WorldRegret, ...]:
    return tuple(
        WorldRegret(
            world=each.name,
            demand_ratio=each.demand_ratio,
            fall_fraction=each.fall_fraction,
            usd=expected_usd(mix, each.needs, each.market),
            least_usd=least_usd(each.needs, each.market),
            worst_usd=max(
                future_regret_usd(mix, each.needs.only(future).times(beyond), each.market)
                for future, beyond in each.needs.beyond_extremes()
            ),
            rules_usd={rule.name: expected_usd(rule, each.needs, each.market) for rule in rules},
        )
        for each in worlds
    )


def future_regret_usd(mix: TermMix, future: NodeNeeds, market: Market) -> float:
    """What the mix loses in one future to a buyer who knew it."""
    return max(0.0, expected_usd(mix, future, market) - least_usd(future, market))


def rounding_usd(market: Market) -> float:
    """Half a node by the hour, at the dearest: how far whole nodes can be off a straight line on average."""
    return 0.5 * float(market.hour_usd.sum()) * HOURS_PER_MONTH


def stated_regret_usd(regrets: Sequence[WorldRegret], market: Market) -> float:
    """The most that the mix loses in any world of the range."""
    return max(max(each.regret_usd, each.worst_usd) for each in regrets) + rounding_usd(market)


def regret_caps(worlds: Sequence[RegretWorld], most_fraction: float) -> tuple[CostCap, ...]:
    """No world may cost more than this part above the best for it."""
    return tuple(
        CostCap(needs=each.needs, market=each.market, usd=least_usd(each.needs, each.market) * (1.0 + most_fraction))
        for each in worlds
        if each.demand_ratio != 1.0 or each.fall_fraction
    )
