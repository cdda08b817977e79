"""Shapley's division: what every cause is charged with, as the mean over all orders in which they could be added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import factorial

from ullage.fleet.lines import ReserveLine


def shapley_parts(causes: Sequence[str], value: Callable[[frozenset[str]], float]) -> dict[str, float]:
    """What each cause adds on average; they sum to the value of all of them less that of none.

    >>> shapley_parts(["a", "b"], lambda known: 4.0 if len(known) == 2 else 1.0 if "a" in known else 0.0)
    {'a': 2.5, 'b': 1.5}
    """
    known: dict[frozenset[str], float] = {}

    def worth(subset: frozenset[str]) -> float:
        if subset not in known:
            known[subset] = value(subset)
        return known[subset]

    found = {}
    for cause in causes:
        others = [each for each in causes if each != cause]
        total = 0.0
        for size in range(len(others) + 1):
            weight = factorial(size) * factorial(len(others) - size) / factorial(len(causes))
            for picked in combinations(others, size):
                subset = frozenset(picked)
                total += weight * (worth(subset | {cause}) - worth(subset))
        found[cause] = total
    return found


def shared_lines(lines: Sequence[ReserveLine], together: Callable[[Mapping[str, int]], int]) -> dict[str, float]:
    """Reserves that may stand in for each other, each with its part of what is bought of all of them."""
    sizes = {line.name: line.replicas for line in lines}
    return shapley_parts(
        list(sizes), lambda known: float(together({name: size for name, size in sizes.items() if name in known}))
    )
