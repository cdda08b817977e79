"""Shapley values by sampling: what each player adds, averaged over the orders in which they could come.

    phi(i) = mean over orders of  worth(those before i, and i) - worth(those before i)

Any worth can be asked for: how many replicas a coalition of tenants would need, how high its peak would be. Orders are
drawn in pairs, each with its reverse, which takes most of the noise out; the parts sum to the worth of all exactly,
order by order. Where a worth has a closed form (busy time, in moments.py), that is used instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Takes which players are in, gives what they are worth together; nobody is worth 0.
Worth = Callable[[NDArray[np.bool_]], float]

# 64 pairs: for eight tenants the standard error is below a fiftieth of the whole (tests/cost/test_moments.py).
ORDER_PAIRS = 64


@dataclass(frozen=True, kw_only=True)
class ShapleyValues:
    """One value a player, and the standard error that sampling left in it."""

    values: Floats
    errors: Floats


def sampled_shapley(players: int, worth: Worth, *, rng: Generator, pairs: int = ORDER_PAIRS) -> ShapleyValues:
    """The values from `pairs` random orders, each together with its reverse.

    >>> glove = lambda there: float(there[0] and (there[1] or there[2]))
    >>> sampled_shapley(3, glove, rng=np.random.default_rng(1), pairs=4000).values.round(1).tolist()
    [0.7, 0.2, 0.2]
    """
    drawn = np.empty((pairs, players))
    for row in range(pairs):
        order = rng.permutation(players)
        drawn[row] = (_added(order, worth) + _added(order[::-1], worth)) / 2.0
    spread = drawn.std(axis=0, ddof=1) if pairs > 1 else np.full(players, np.nan)
    return ShapleyValues(values=drawn.mean(axis=0), errors=spread / np.sqrt(pairs))


def _added(order: NDArray[np.int64], worth: Worth) -> Floats:
    there = np.zeros(order.size, bool)
    added = np.empty(order.size)
    before = 0.0
    for player in order:
        there[player] = True
        after = worth(there)
        added[player] = after - before
        before = after
    return added
