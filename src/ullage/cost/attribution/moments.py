"""Who was there at each moment: a shared device's busy time, divided over requests or over groups of them.

Two divisions of the same busy time:

- over requests: at every moment each request in flight takes an equal part. Summed, a request's GPU-time share.
- over groups: at every moment each *group* that has a request in flight takes an equal part. This is the Shapley value
  of the game in which a coalition is worth the time it would keep the device busy alone: a moment costs the same
  whoever is there, so all who are there carry it alike. No sampling is needed for it.

Both are sums over the sorted starts and ends, n log n in the number of requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[Any]


def request_shares_s(start_s: Floats, end_s: Floats, replica: Ints | None = None) -> Floats:
    """Each request's part of the time at which at least one was in flight, replica by replica.

    >>> request_shares_s(np.array([0.0, 1.0]), np.array([2.0, 3.0])).tolist()
    [1.5, 1.5]
    """
    start_s, end_s = _side_by_side(start_s, end_s, replica)
    times, first, last = _ranked(start_s, end_s)
    return _shares(times, first, last)


def group_shares_s(start_s: Floats, end_s: Floats, group: Ints, groups: int, replica: Ints | None = None) -> Floats:
    """Each group's part of the busy time, every moment divided equally over the groups that are there."""
    start_s, end_s = _side_by_side(start_s, end_s, replica)
    times, first, last = _ranked(start_s, end_s)
    whose, first, last = _merged(first, last, group.astype(np.int64), len(times))
    return np.bincount(whose, weights=_shares(times, first, last), minlength=groups).astype(np.float64)


def _side_by_side(start_s: Floats, end_s: Floats, replica: Ints | None) -> tuple[Floats, Floats]:
    """Replicas one after another on one clock: requests on different replicas never share a moment."""
    if replica is None or start_s.size == 0:
        return start_s, end_s
    begin = float(start_s.min())
    shift = (float(end_s.max()) - begin + 1.0) * replica
    return start_s - begin + shift, end_s - begin + shift


def _ranked(start_s: Floats, end_s: Floats) -> tuple[Floats, Ints, Ints]:
    """The distinct times in order, and the place of each start and end among them."""
    times, place = np.unique(np.concatenate([start_s, end_s]), return_inverse=True)
    return times, place[: start_s.size], place[start_s.size :]


def _shares(times: Floats, first: Ints, last: Ints) -> Floats:
    """Time between two ranks in which every moment counts for one over the number of intervals that hold it."""
    if times.size == 0:
        return np.zeros(0)
    change = np.bincount(first, minlength=times.size) - np.bincount(last, minlength=times.size)
    there = np.cumsum(change)[:-1]
    each = np.where(there > 0, np.diff(times) / np.maximum(there, 1), 0.0)
    until = np.concatenate([[0.0], np.cumsum(each)])
    shares: Floats = until[last] - until[first]
    return shares


def _merged(first: Ints, last: Ints, group: Ints, ranks: int) -> tuple[Ints, Ints, Ints]:
    """The intervals of each group with overlaps joined, so that a group is at most once at any moment."""
    order = np.lexsort((first, group))
    whose = group[order]
    # A group's ranks lie above those of all groups before it, so one running maximum serves them all.
    begin, end = first[order] + whose * ranks, last[order] + whose * ranks
    reach = np.maximum.accumulate(end) if end.size else end
    opens = np.ones(begin.size, bool)
    opens[1:] = (begin[1:] > reach[:-1]) | (whose[1:] != whose[:-1])
    places = np.flatnonzero(opens)
    closes = np.append(places[1:] - 1, begin.size - 1) if begin.size else places
    return whose[places], first[order][places], (reach - whose * ranks)[closes]
