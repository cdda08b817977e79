"""Money in whole cents, so that what must sum does sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ullage.errors import InputError


def cents_of(usd: float) -> int:
    """The nearest cent, halves upwards. A larger sum never has fewer cents.

    >>> cents_of(2.345), cents_of(0.004)
    (235, 0)
    """
    return math.floor(usd * 100.0 + 0.5)


def usd_of(cents: int) -> float:
    return cents / 100.0


def apportion(cents: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Whole cents in proportion to the weights, summing exactly, by largest remainder.

    Each gets the whole cents of its quota, and the cents left over go to the largest remainders, earlier ones first
    among equals. Quotas are whole-number arithmetic: a float is an exact fraction, and no rounding can move a cent.
    Where only one weight grows and none of the others does, its part never falls.

    >>> apportion(100, [1.0, 1.0, 1.0])
    (34, 33, 33)
    """
    if any(not (math.isfinite(each) and each >= 0.0) for each in weights) or not any(weights):
        raise InputError(
            field="weights",
            value=list(weights)[:8],
            problem="must be finite, not negative and not all 0",
            fix="Give a share to at least one.",
        )
    wholes = _whole(weights)
    total = sum(wholes)
    sign, amount = (-1, -cents) if cents < 0 else (1, cents)
    parts = [divmod(amount * each, total) for each in wholes]
    left = amount - sum(quota for quota, _ in parts)
    first = sorted(range(len(parts)), key=lambda place: -parts[place][1])[:left]
    extra = set(first)
    return tuple(sign * (quota + (place in extra)) for place, (quota, _) in enumerate(parts))


def _whole(weights: Sequence[float]) -> list[int]:
    """The weights as whole numbers in the same proportion: denominators of floats are powers of two."""
    ratios = [float(each).as_integer_ratio() for each in weights]
    common = max(below for _, below in ratios)
    return [above * (common // below) for above, below in ratios]
