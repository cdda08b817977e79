"""Cents sum exactly, stay within one of their quota, and never fall when only one's own weight grows."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.cost.money import apportion, cents_of
from ullage.errors import InputError

_WEIGHTS = st.lists(st.floats(0.0, 1e9), min_size=1, max_size=20).filter(any)


@given(st.integers(-(10**12), 10**12), _WEIGHTS)
def test_parts_sum_and_stay_within_a_cent_of_their_quota(cents: int, weights: list[float]) -> None:
    parts = apportion(cents, weights)
    assert sum(parts) == cents
    total = sum(map(Fraction, weights))
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - cents * Fraction(weight) / total) < 1


@given(st.integers(0, 10**7), _WEIGHTS, st.integers(0, 19), st.floats(0.0, 1e9))
def test_who_alone_grows_never_pays_less(cents: int, weights: list[float], place: int, more: float) -> None:
    place %= len(weights)
    grown = [*weights[:place], weights[place] + more, *weights[place + 1 :]]
    assert apportion(cents, grown)[place] >= apportion(cents, weights)[place]


@given(st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_a_larger_sum_never_has_fewer_cents(one: float, other: float) -> None:
    assert cents_of(min(one, other)) <= cents_of(max(one, other))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [float("nan")], []])
def test_weights_that_divide_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="not all 0"):
        apportion(100, weights)
