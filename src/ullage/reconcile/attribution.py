"""Error by cause: the plan with observed inputs, less the plan, divided among the groups of inputs that differ.

In the stated order each group is put in after those before it, and is charged what the answer moves by. By Shapley a
group is charged the mean of that over all orders: no order is favoured. Both sum to the whole, to the last digit that a
float holds; a group whose inputs hold moves nothing in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import factorial

from ullage.reconcile.evaluate import Needed
from ullage.reconcile.inputs import DriftCause, DriftInputs


@dataclass(frozen=True, kw_only=True)
class CauseShare:
    """What one cause is charged with, in the stated order and by Shapley."""

    cause: DriftCause
    in_order: Needed
    shapley: Needed


@dataclass(frozen=True, kw_only=True)
class ErrorByCause:
    """The plan, the plan with all observed inputs, and the causes of the difference."""

    planned: Needed
    observed: Needed
    shares: tuple[CauseShare, ...]

    @property
    def whole(self) -> Needed:
        return self.observed.minus(self.planned)


def error_by_cause(inputs: DriftInputs, evaluate: Callable[[DriftInputs], Needed]) -> ErrorByCause:
    """Evaluate the plan with every subset of the groups that differ, and share out the difference."""
    causes = inputs.causes
    known: dict[frozenset[DriftCause], Needed] = {}

    def value(subset: frozenset[DriftCause]) -> Needed:
        if subset not in known:
            known[subset] = evaluate(inputs.only(subset))
        return known[subset]

    shares = []
    for place, cause in enumerate(causes):
        before = frozenset(causes[:place])
        shares.append(
            CauseShare(
                cause=cause,
                in_order=value(before | {cause}).minus(value(before)),
                shapley=_shapley(cause, causes, value),
            )
        )
    return ErrorByCause(planned=value(frozenset()), observed=value(frozenset(causes)), shares=tuple(shares))


def _shapley(
    cause: DriftCause, causes: tuple[DriftCause, ...], value: Callable[[frozenset[DriftCause]], Needed]
) -> Needed:
    others = [each for each in causes if each is not cause]
    empty = value(frozenset())
    total = empty.minus(empty)
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(len(others) - size) / factorial(len(causes))
        for picked in combinations(others, size):
            subset = frozenset(picked)
            total = total.plus(value(subset | {cause}).minus(value(subset)), weight)
    return total
