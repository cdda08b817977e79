"""How to buy the nodes of one pool: the mix, what it costs beside the usual rules, and what it may lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from ullage.cost.purchase.mix import Market, PlayedMix, TermMix, TermOrder, play
from ullage.cost.purchase.need import NodeNeeds
from ullage.cost.purchase.program import best_mix
from ullage.cost.purchase.regret import WorldRegret, regret_caps, stated_regret_usd, world_regrets, worlds_of
from ullage.cost.purchase.rules import fixed_rules
from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Figure, number

Named = Figure | Assumption
_BAND = (10.0, 50.0, 90.0)


@dataclass(frozen=True, kw_only=True)
class RuleCost:
    """A mix in futures that no mix was chosen on: its mean cost, its band, and how much more it is than the chosen."""

    name: str
    orders: tuple[TermOrder, ...]
    usd: float
    low_usd: float
    middle_usd: float
    high_usd: float
    more_fraction: float


@dataclass(frozen=True, kw_only=True)
class MonthNodes:
    """The mean nodes of a month by how they are bought, and those bought for a term that stood idle."""

    after_months: int
    held_nodes: float
    term_nodes: float
    hour_nodes: float
    spot_nodes: float
    idle_nodes: float


@dataclass(frozen=True, kw_only=True)
class PurchasePlan:
    """One pool's answer. `rules` are beside it; `regrets` by world; `regret_usd` is the most it loses in any of them.

    `interruptions` is how often spot is taken away in a month, `lost_node_hours` what that leaves unserved.
    """

    pool: str
    months: int
    market: Market
    chosen: RuleCost
    rules: tuple[RuleCost, ...]
    regrets: tuple[WorldRegret, ...]
    regret_usd: float
    by_month: tuple[MonthNodes, ...]
    interruptions: float
    lost_node_hours: float
    futures: int
    figures: Mapping[str, Figure]

    @property
    def best_rule(self) -> RuleCost:
        return min(self.rules, key=lambda each: each.usd)

    @property
    def saved_usd(self) -> float:
        """Against the cheapest of the fixed rules."""
        return self.best_rule.usd - self.chosen.usd

    @property
    def order_now(self) -> tuple[TermOrder, ...]:
        return tuple(each for each in self.chosen.orders if each.start_months == each.instrument.after_months)


def purchase_plan(
    pool: str,
    drawn: NodeNeeds,
    fresh: NodeNeeds,
    market: Market,
    *,
    fall: Assumption,
    most_regret: Assumption | None,
    inputs: tuple[Named, ...],
    rng: Generator,
) -> PurchasePlan | Rejection:
    """Choose on the drawn futures, and say what the choice costs on fresh ones.

    `most_regret` is how much more than the best for it any world may cost, as a part; without it the least expected
    cost is all that counts.
    """
    worlds = worlds_of(drawn, market, number(fall))
    caps = () if most_regret is None else regret_caps(worlds, number(most_regret))
    mix = best_mix(drawn, market, name="chosen", caps=caps)
    if mix is None:
        assert most_regret is not None
        return _no_mix(drawn, market, most_regret, fall, inputs)
    rules = fixed_rules(drawn, market)
    played = {each.name: play(each, fresh, market, rng=rng) for each in (mix, *rules)}
    least = played[mix.name].mean_usd
    regrets = world_regrets(mix, rules, worlds)
    stated = stated_regret_usd(regrets, market)
    chosen = _cost(mix, played[mix.name], least)
    costs = tuple(_cost(each, played[each.name], least) for each in rules)
    basis = (*inputs, fall, *([] if most_regret is None else [most_regret]))
    return PurchasePlan(
        pool=pool,
        months=market.months,
        market=market,
        chosen=chosen,
        rules=costs,
        regrets=regrets,
        regret_usd=stated,
        by_month=_months(mix, market, played[mix.name]),
        interruptions=played[mix.name].interruptions,
        lost_node_hours=played[mix.name].lost_node_hours,
        futures=fresh.futures,
        figures=_figures(pool, mix, market, chosen, costs, stated, fresh.futures, basis),
    )


def _cost(mix: TermMix, played: PlayedMix, least_usd: float) -> RuleCost:
    low, middle, high = (float(each) for each in np.percentile(played.usd, _BAND))
    return RuleCost(
        name=mix.name,
        orders=mix.orders,
        usd=played.mean_usd,
        low_usd=low,
        middle_usd=middle,
        high_usd=high,
        more_fraction=played.mean_usd / least_usd - 1.0 if least_usd else 0.0,
    )


def _months(mix: TermMix, market: Market, played: PlayedMix) -> tuple[MonthNodes, ...]:
    every, held = mix.nodes(market.months, market.held), TermMix(name="held").nodes(market.months, market.held)
    return tuple(
        MonthNodes(
            after_months=month,
            held_nodes=float(held[month]),
            term_nodes=float(every[month] - held[month]),
            hour_nodes=float(played.hour_nodes[month]),
            spot_nodes=float(played.spot_nodes[month]),
            idle_nodes=float(played.idle_nodes[month]),
        )
        for month in range(market.months)
    )


def _figures(
    pool: str,
    mix: TermMix,
    market: Market,
    chosen: RuleCost,
    rules: tuple[RuleCost, ...],
    regret_usd: float,
    futures: int,
    inputs: tuple[Named, ...],
) -> dict[str, Figure]:
    sold = (market.by_hour, *([] if market.spot is None else [market.spot]), *market.terms)
    rests = tuple({each.name: each for each in (*inputs, *(each.node_hour for each in sold))}.values())
    span = f"{market.months} months, mean of {futures} held-out futures"
    now = sum(each.nodes for each in mix.orders if each.start_months == each.instrument.after_months)
    best = min(rules, key=lambda each: each.usd)
    rows: tuple[tuple[str, float, str, str], ...] = (
        ("term_nodes", now, "nodes", "committed now: the integer program of least expected cost"),
        ("usd", chosen.usd, "USD", f"the chosen mix over {span}"),
        ("low_usd", chosen.low_usd, "USD", f"p10 over {futures} futures"),
        ("high_usd", chosen.high_usd, "USD", f"p90 over {futures} futures"),
        ("saved_usd", best.usd - chosen.usd, "USD", f"{best.name}, the cheapest fixed rule, less the chosen mix"),
        ("regret_usd", regret_usd, "USD", "highest regret of the mix in any case"),
        *((f"{each.name.replace(' % ', '_percent_').replace(' ', '_')}_usd", each.usd, "USD", f"{each.name}, {span}")
          for each in rules),
    )  # fmt: skip
    return {
        f"buy.{pool}.{name}": Figure(name=f"buy.{pool}.{name}", value=value, unit=unit, formula=formula, inputs=rests)
        for name, value, unit, formula in rows
    }


def _no_mix(
    drawn: NodeNeeds, market: Market, most: Assumption, fall: Assumption, inputs: tuple[Named, ...]
) -> Rejection:
    """No mix keeps the regret that was allowed; the least that one keeps is named, to a hundredth."""
    worlds = worlds_of(drawn, market, number(fall))
    least = next(
        (
            part / 100.0
            for part in range(int(100 * number(most)) + 1, 201)
            if best_mix(drawn, market, caps=regret_caps(worlds, part / 100.0)) is not None
        ),
        2.0,
    )
    return Rejection(
        stage="purchase",
        reason=f"no mix stays within {number(most):.0%} of the best in every case".replace("%", " %"),
        figure=Figure(
            name="buy.least_regret_fraction",
            value=least,
            unit="fraction",
            formula="lowest regret that some mix achieves in every case",
            inputs=(*inputs, most, fall),
        ),
        remedies=(Remedy(change=f"--regret {least:.0%}", effect="a mix meets it"),),
    )
