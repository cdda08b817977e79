"""Prompts that begin like earlier ones, when some of the earlier ones are gone or come later."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]


def kept_parents(parent: Integers, shared_tokens: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Parents among the rows that are kept, in their new order, and what is shared with them; -1 and 0 for none.

    Where a parent is not kept, its own parent has what it shared with that. One that now comes later is none.

    >>> kept_parents(np.array([-1, 0, 1]), np.array([0, 50, 80]), np.array([0, 2]))
    (array([-1,  0]), array([ 0, 50]))
    """
    place = np.full(parent.size, -1, np.int64)
    place[rows] = np.arange(rows.size)
    found, shared = parent[rows], shared_tokens[rows]
    while bool((lost := (found >= 0) & (place[found] < 0)).any()):
        shared = np.where(lost, np.minimum(shared, shared_tokens[found]), shared)
        found = np.where(lost, parent[found], found)
    found = np.where(found >= 0, place[found], -1)
    found = np.where(found < np.arange(rows.size), found, -1)
    return found, np.where(found >= 0, shared, 0)
