"""Laws of sharing: nothing is lost, nobody gets more than asked, and nobody can gain except from who has more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.admission.fair_share import by_priority, max_min
from ullage.errors import InputError

Claims = list[tuple[float, float, int]]
amounts = st.floats(min_value=0.0, max_value=1e6)
weights = st.floats(min_value=0.01, max_value=100.0)
claims = st.lists(st.tuples(amounts, weights, st.integers(0, 3)), min_size=1, max_size=8)


@pytest.mark.slow
@given(amounts, claims)
def test_shares_add_up_to_the_capacity_or_to_all_that_is_wanted(capacity: float, claimed: Claims) -> None:
    wanted, weight, priority = zip(*claimed, strict=True)
    for shares in (max_min(capacity, wanted, weight), by_priority(capacity, wanted, weight, priority)):
        assert sum(shares) == pytest.approx(min(capacity, sum(wanted)), rel=1e-9, abs=1e-6)
        assert all(0.0 <= share <= want for share, want in zip(shares, wanted, strict=True))


@given(amounts, claims)
def test_who_gets_less_than_wanted_has_no_less_per_weight_than_anybody(capacity: float, claimed: Claims) -> None:
    """The max-min property: a share can grow only at the cost of one that is no larger by weight."""
    wanted, weight, _ = zip(*claimed, strict=True)
    shares = max_min(capacity, wanted, weight)
    levels = [share / own for share, own in zip(shares, weight, strict=True)]
    for share, want, level in zip(shares, wanted, levels, strict=True):
        if share < want * (1 - 1e-9) - 1e-9:
            assert all(other <= level * (1 + 1e-9) + 1e-6 for other in levels)


@given(amounts, claims)
def test_nobody_is_served_before_all_of_higher_priority_are_full(capacity: float, claimed: Claims) -> None:
    wanted, weight, priority = zip(*claimed, strict=True)
    shares = by_priority(capacity, wanted, weight, priority)
    for share, own in zip(shares, priority, strict=True):
        if share > 1e-6:
            before = [(s, w) for s, w, p in zip(shares, wanted, priority, strict=True) if p < own]
            assert all(s == pytest.approx(w, rel=1e-9) for s, w in before)


@given(amounts, st.floats(min_value=0.0, max_value=1e6), claims)
def test_more_capacity_never_lowers_a_share(capacity: float, more: float, claimed: Claims) -> None:
    wanted, weight, priority = zip(*claimed, strict=True)
    few, many = (by_priority(each, wanted, weight, priority) for each in (capacity, capacity + more))
    assert all(low <= high * (1 + 1e-9) + 1e-6 for low, high in zip(few, many, strict=True))


def test_a_weight_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="weights"):
        max_min(1.0, [1.0, 1.0], [1.0, 0.0])
    with pytest.raises(InputError, match="not negative"):
        max_min(-1.0, [1.0], [1.0])
