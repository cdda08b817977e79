"""How many nodes each hour needs: drawn futures by month by hour of a typical week.

What is paid by the hour is paid by layers: the j-th node is paid in the hours that need j or more. So a month of many
futures is two rows of hours, one of all needs and one of those that must not be lost, and the expected cost of any
mix is read off them (`layer_hours`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError
from ullage.prices.purchase import HOURS_PER_MONTH

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeNeeds:
    """`nodes` by future, month and hour; `losable` of them serve what may be interrupted, in the same shape."""

    nodes: Integers
    losable: Integers

    def __post_init__(self) -> None:
        if self.nodes.ndim != 3 or not self.nodes.size or self.nodes.shape != self.losable.shape:
            raise InputError(
                field="needs",
                value=str(self.nodes.shape),
                problem="must be futures by months by hours, and as many of them losable",
                fix="Give one need for every hour of every month of every future.",
            )
        if self.nodes.min() < 0 or (self.losable > self.nodes).any() or self.losable.min() < 0:
            raise InputError(
                field="needs",
                value=int(self.nodes.min()),
                problem="no need is negative, and no more can be lost than is needed",
                fix="Give whole nodes.",
            )

    @property
    def futures(self) -> int:
        return int(self.nodes.shape[0])

    @property
    def months(self) -> int:
        return int(self.nodes.shape[1])

    @property
    def most(self) -> int:
        return int(self.nodes.max())

    def times(self, ratio: float) -> NodeNeeds:
        """So many times the demand, on whole nodes; the floor of one future stays the floor of its multiple."""
        firm = np.ceil((self.nodes - self.losable) * ratio - 1e-9).astype(np.int64)
        nodes = np.maximum(np.ceil(self.nodes * ratio - 1e-9).astype(np.int64), firm)
        return NodeNeeds(nodes=nodes, losable=nodes - firm)

    def only(self, future: int) -> NodeNeeds:
        return NodeNeeds(nodes=self.nodes[future : future + 1], losable=self.losable[future : future + 1])

    def beyond_extremes(self) -> tuple[tuple[int, float], tuple[int, float]]:
        """The futures that need least and most in all, and what takes each a deviation of all of them further out."""
        totals = self.nodes.sum(axis=(1, 2))
        deviation = float(np.exp(np.log(np.maximum(totals, 1)).std()))
        return (int(totals.argmin()), 1.0 / deviation), (int(totals.argmax()), deviation)

    @property
    def layer_hours(self) -> tuple[Floats, Floats]:
        """By month and node: the expected hours of a month that need it at all, and those that must not lose it."""
        return _layers(self.nodes, self.most), _layers(self.nodes - self.losable, self.most)

    def monthly_peaks(self) -> Integers:
        """The busiest hour of each month in the future that is exceeded as often as not."""
        return np.asarray(np.ceil(np.median(self.nodes.max(axis=2), axis=0)), np.int64)


def firm_needs(nodes: Integers) -> NodeNeeds:
    """Needs of which nothing may be lost."""
    return NodeNeeds(nodes=nodes, losable=np.zeros_like(nodes))


def _layers(nodes: Integers, most: int) -> Floats:
    found = np.empty((nodes.shape[1], most))
    for month in range(nodes.shape[1]):
        own = nodes[:, month]
        counted = np.bincount(own.ravel(), minlength=most + 1)
        found[month] = counted[::-1].cumsum()[::-1][1:] / own.size
    return found * HOURS_PER_MONTH
