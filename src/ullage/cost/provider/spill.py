"""Base on own replicas, peaks to a provider: what every size of the base would cost, minute by minute of a week.

In a minute that asks more than the base carries the router sends the rest to the provider, as far as its rate limits
let it; what they refuse is refused. A base of k of the pool's n steady replicas is taken to carry k / n of the rate
that the pool is sized for, and reserves stay as they are; the trial says afterwards whether so many carry it
(planning/billing/spilled.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.cost.provider.minutes import MINUTE_S, Floats, granted
from ullage.cost.provider.offer import ProviderOffer

# Refusing one in a thousand is what a target of three nines leaves; a cheaper mix that refuses more is no choice.
MOST_REFUSED = 1e-3


@dataclass(frozen=True, kw_only=True)
class SpillClass:
    """A class of the pool: what a request weighs in requests of the planned mix, and what it is at the provider.

    `usd` is None where the class may not go there.
    """

    name: str
    weight_ratio: float
    limited_tokens: float
    usd: float | None
    own_success_fraction: float
    bought_success_fraction: float


@dataclass(frozen=True, kw_only=True)
class SpillPool:
    """The pool whose base is looked for: `base_rps` is what its steady replicas are sized for, in planned requests."""

    name: str
    steady_replicas: int
    reserve_replicas: float
    base_rps: float
    replica_usd: float
    period_s: float


@dataclass(frozen=True, kw_only=True)
class SpillLevel:
    """One size of the base and its month: what is paid, the share that goes to the provider, the share refused."""

    base_replicas: int
    own_usd: float
    bought_usd: float
    bought_fraction: float
    refused_fraction: float
    successes: float

    @property
    def usd(self) -> float:
        return self.own_usd + self.bought_usd

    @property
    def per_success_usd(self) -> float:
        return self.usd / self.successes if self.successes else float("inf")


def spill_levels(
    pool: SpillPool, classes: tuple[SpillClass, ...], minutes: Mapping[str, Floats], offer: ProviderOffer
) -> tuple[SpillLevel, ...]:
    """Every base from none to all steady replicas; all of them is the plan, which sends nothing away.

    Without a base there are no reserves either, and classes that may not go to the provider are refused.
    """
    return tuple(spill_level(pool, classes, minutes, offer, base) for base in range(pool.steady_replicas + 1))


def best_level(levels: tuple[SpillLevel, ...]) -> SpillLevel:
    """The cheapest per success that refuses hardly anything; of two alike the larger base."""
    kept = [each for each in levels if each.refused_fraction <= MOST_REFUSED] or [levels[-1]]
    return min(kept, key=lambda each: (each.per_success_usd, -each.base_replicas))


def spill_level(
    pool: SpillPool,
    classes: tuple[SpillClass, ...],
    minutes: Mapping[str, Floats],
    offer: ProviderOffer,
    base: int,
    *,
    paid_replicas: int | None = None,
) -> SpillLevel:
    """A base of this size; `paid_replicas` where carrying it takes more of them."""
    is_whole = base >= pool.steady_replicas
    load = np.sum([minutes[each.name] * each.weight_ratio for each in classes], axis=0)
    carried = load if is_whole else np.full_like(load, pool.base_rps * base / pool.steady_replicas * MINUTE_S)
    over = np.maximum(0.0, load - carried)
    open_load = np.sum([minutes[each.name] * each.weight_ratio for each in classes if each.usd is not None], axis=0)
    # Classes that may go spill first and alike; what is left of the excess has nowhere to go.
    share = np.minimum(1.0, over / np.maximum(open_load, 1e-12)) * np.ones_like(load)
    closed_load = load - open_load
    lost = np.minimum(1.0, np.maximum(0.0, over - open_load) / np.maximum(closed_load, 1e-12))
    sent = {each.name: minutes[each.name] * share for each in classes if each.usd is not None}
    tokens = {each.name: each.limited_tokens for each in classes}
    shares = granted(sent, tokens, offer).shares if sent else np.ones_like(load)
    # A week stands for the period.
    scale = pool.period_s / (load.size * MINUTE_S)
    bought_usd = bought = refused = successes = asked = 0.0
    for each in classes:
        here = minutes[each.name]
        spilled = sent.get(each.name, np.zeros_like(here))
        taken = float((spilled * shares).sum()) * scale
        dropped = float((spilled * (1.0 - shares)).sum()) * scale
        dropped += 0.0 if each.usd is not None else float((here * lost).sum()) * scale
        total = float(here.sum()) * scale
        bought_usd += taken * (each.usd or 0.0)
        bought, refused, asked = bought + taken, refused + dropped, asked + total
        successes += taken * each.bought_success_fraction + (total - taken - dropped) * each.own_success_fraction
    paid = base if paid_replicas is None else paid_replicas
    return SpillLevel(
        base_replicas=paid,
        own_usd=(paid + (pool.reserve_replicas if paid else 0.0)) * pool.replica_usd,
        bought_usd=bought_usd,
        bought_fraction=bought / asked if asked else 0.0,
        refused_fraction=refused / asked if asked else 0.0,
        successes=successes,
    )
