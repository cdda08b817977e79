"""Fair shares: who gets what when not everybody can have all.

`max_min` fills like water: each share rises in proportion to weight until it meets the demand (or the
most that one may take), and what they leave goes on rising for the others. Nobody can get more without somebody
getting less who has no more per weight already. `by_priority` serves one level after the other and is max-min fair
inside a level.
"""

from __future__ import annotations

from collections.abc import Sequence

from ullage.errors import InputError

_NEAR = 1e-12


def max_min(capacity: float, wanted: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """Weighted max-min fair shares of `capacity`; they add up to it, or to all that is wanted where that is less.

    >>> max_min(10.0, [2.0, 8.0, 8.0], [1.0, 1.0, 1.0])
    (2.0, 4.0, 4.0)
    >>> max_min(10.0, [2.0, 8.0, 8.0], [1.0, 1.0, 3.0])
    (2.0, 2.0, 6.0)
    """
    _require(capacity, wanted, weights)
    given = [0.0] * len(wanted)
    left = capacity
    # Whoever needs least per weight is full first; what a full one leaves is shared by those still to come.
    order = sorted(range(len(wanted)), key=lambda each: wanted[each] / weights[each])
    for place, each in enumerate(order):
        total = sum(weights[later] for later in order[place:])
        given[each] = min(wanted[each], left * weights[each] / total)
        left = max(0.0, left - given[each])
    return tuple(given)


def by_priority(
    capacity: float, wanted: Sequence[float], weights: Sequence[float], priorities: Sequence[int]
) -> tuple[float, ...]:
    """The same, level by level: a level gets what those before it leave. Level 0 is served first.

    >>> by_priority(10.0, [6.0, 6.0, 6.0], [1.0, 1.0, 1.0], [0, 1, 1])
    (6.0, 2.0, 2.0)
    """
    given = [0.0] * len(wanted)
    left = capacity
    for level in sorted(set(priorities)):
        members = [each for each, own in enumerate(priorities) if own == level]
        shares = max_min(left, [wanted[each] for each in members], [weights[each] for each in members])
        for each, share in zip(members, shares, strict=True):
            given[each] = share
        left = max(0.0, left - sum(shares))
    return tuple(given)


def _require(capacity: float, wanted: Sequence[float], weights: Sequence[float]) -> None:
    if capacity < 0.0 or any(each < 0.0 for each in wanted):
        raise InputError(
            field="capacity",
            value=(capacity, *wanted),
            problem="capacity and what is wanted are not negative",
            fix="Give 0 or more.",
        )
    if len(weights) != len(wanted) or any(each <= _NEAR for each in weights):
        raise InputError(
            field="weights",
            value=tuple(weights),
            problem="does not have a weight above 0 for each share",
            fix="Give 1 to all for equal shares.",
        )
