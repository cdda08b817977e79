"""A typical week minute by minute, and what a provider's rate limits would refuse of it.

Limits are counted by the minute, so that a mean far below them says little: what matters are the busiest minutes. The
rate of a minute is the class's mean x season x its own bursts, drawn from the same model that the pool is sized with;
requests in it are Poisson's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.cost.pool_run import hourly_rates_rps
from ullage.cost.provider.offer import ProviderOffer
from ullage.evidence import number
from ullage.workload.demand.demand import Demand
from ullage.workload.synthetic.modulation import drawn_levels

Floats = NDArray[np.float64]
MINUTE_S, _MINUTES_PER_HOUR = 60.0, 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Granted:
    """What limits let through, as a share of each minute, and the minutes in which they refused something."""

    shares: Floats
    limited_minutes: int


def week_minutes(demand: Demand, rng: Generator) -> dict[str, Floats]:
    """Requests of every class in each minute of a typical week."""
    hourly = hourly_rates_rps(demand)
    found = {}
    for each, rates in zip(demand.classes, hourly, strict=True):
        levels = drawn_levels(each.model.bursts, rates.size * _MINUTES_PER_HOUR, MINUTE_S, rng)
        expected = np.repeat(rates, _MINUTES_PER_HOUR) * levels * MINUTE_S
        found[each.name] = rng.poisson(expected).astype(np.float64)
    return found


def granted(requests: Mapping[str, Floats], tokens: Mapping[str, float], offer: ProviderOffer) -> Granted:
    """The share of each minute's requests, `tokens` long each by class, that the account's limits let through."""
    total = np.sum(list(requests.values()), axis=0)
    shares = np.ones_like(total)
    for limit, asked in (
        (offer.request_limit, total),
        (offer.token_limit, np.sum([each * tokens[name] for name, each in requests.items()], axis=0)),
    ):
        if limit is not None:
            shares = np.minimum(shares, number(limit) * MINUTE_S / np.maximum(asked, 1e-12))
    shares = np.minimum(shares, 1.0)
    return Granted(shares=shares, limited_minutes=int(np.count_nonzero(shares < 1.0)))
