"""How often a fleet falls short, by its number of replicas: joint draws against replicas that are up.

    shortfall(N) = mean over draws of   P(replicas up of N < replicas that the busiest hour needs)

A draw in which steps are so slow that no sensible number of replicas meets the SLOs is no lack of replicas: its chance
is told by itself, and a measurement or another device is what helps there.

What fails and is repaired is summed exactly (availability.py), not drawn, so that a chance of one in a thousand is not
left to chance. A rollout or a drained node takes replicas out in its own hours: those hours count with fewer replicas,
by the share of such hours in which it is under way. Hours of shortfall a month are the same sum over the hours of the
week.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InternalError
from ullage.fleet.availability import Domains, up_chances
from ullage.fleet.risk.load_draws import LoadDraws
from ullage.fleet.risk.spread import Floats
from ullage.fleet.risk.surface import CapacitySurface

HOURS_PER_MONTH = 730.5
# A fleet of more than so many times what the median needs is not tried: what it would cover is no lack of replicas.
_MOST_TIMES, _MOST_MORE = 6, 32
# Where even a usual draw needs more than this, steps are too slow for any number.
_MOST_REPLICAS = 1_000_000


def most_sensible(needed: NDArray[np.int64]) -> int:
    """Of the needs of all draws, the most that is a question of replicas: beyond it steps are too slow for any number.

    >>> most_sensible(np.array([10, 12, 10**9]))
    104
    """
    return min(_MOST_REPLICAS, _MOST_TIMES * int(np.median(needed)) + _MOST_MORE)


def sensible(needed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Needs as far as replicas are the question: a draw that none would help counts as the most, not as a billion.

    >>> sensible(np.array([10, 12, 10**9])).tolist()
    [10, 12, 104]
    """
    return np.minimum(needed, most_sensible(needed))


@dataclass(frozen=True, kw_only=True)
class Outage:
    """Planned work: so many replicas out, and by hour of the week the share of such hours in which it is under way."""

    name: str
    replicas: int
    hours_fraction: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class FleetRisk:
    """A fleet of so many replicas: the chance that its busiest hour falls short, and hours of shortfall a month.

    `error_fraction` is the standard error of the chance over the draws.
    """

    replicas: int
    shortfall_fraction: float
    error_fraction: float
    hours_per_month: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ShortfallModel:
    """Draws, the surface they were made on, how replicas of a fleet of N fail together, and planned work."""

    draws: LoadDraws
    surface: CapacitySurface
    domains_of: Callable[[int], Domains]
    outages: tuple[Outage, ...] = ()

    @cached_property
    def _hour_needs(self) -> NDArray[np.int64]:
        loads = self.draws.hours_rps * self.draws.slowdowns[:, None]
        return np.asarray(self.surface.needed(loads.ravel()).reshape(loads.shape), np.int64)

    @cached_property
    def _busiest_hours(self) -> NDArray[np.int64]:
        return np.asarray(self.draws.hours_rps.argmax(axis=1))

    @cached_property
    def _most(self) -> int:
        """More than this is never a question of replicas."""
        return most_sensible(self.draws.needed)

    @property
    def hopeless_fraction(self) -> float:
        """The share of draws that no number of replicas would help."""
        return float((self.draws.needed > self._most).mean())

    @property
    def helped_needs(self) -> NDArray[np.int64]:
        """What the busiest hour needs, of the draws that some number of replicas helps; the others have none."""
        needed = self.draws.needed
        helped = needed[needed <= self._most]
        return helped if helped.size else needed

    def at(self, replicas: int) -> FleetRisk:
        """The risk of a fleet of so many."""
        short = self.chances(replicas)
        return FleetRisk(
            replicas=replicas,
            shortfall_fraction=float(short.mean()),
            error_fraction=float(short.std(ddof=1) / math.sqrt(short.size)) if short.size > 1 else 0.0,
            hours_per_month=HOURS_PER_MONTH * float(self.hour_shares(replicas).mean()),
        )

    def chances(self, replicas: int) -> Floats:
        """By draw, the chance that the busiest hour falls short."""
        return self._short_chances(replicas, self.draws.needed, self._busiest_hours)

    def hour_shares(self, replicas: int) -> Floats:
        """By draw, the share of all hours that fall short."""
        hours = np.arange(self._hour_needs.shape[1])[None, :]
        return np.asarray(self._short_chances(replicas, self._hour_needs, hours).mean(axis=1))

    def fraction(self, replicas: int) -> float:
        return float(self.chances(replicas).mean())

    def least(self, shortfall_fraction: float) -> int | None:
        """The smallest fleet that falls short no more often; None where no number of replicas does."""
        most = self._most
        if int(np.median(self.draws.needed)) > most:
            return None
        # A draw falls short wherever it needs more than there are, so fewer than this never do.
        helped = np.where(self.draws.needed > most, 0, self.draws.needed)
        allowed = int(shortfall_fraction * helped.size)
        least = int(np.sort(helped)[::-1][min(allowed, helped.size - 1)])
        low, high = max(0, least - 1), max(1, least)
        while self.fraction(high) > shortfall_fraction:
            if high >= most:
                return None
            low, high = high, min(most, high + max(1, high // 4))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.fraction(middle) <= shortfall_fraction else (middle, high)
        return high

    def _short_chances(self, replicas: int, needed: NDArray[np.int64], hours: NDArray[np.int64]) -> Floats:
        """The chance of fewer up than needed, for every need, with planned work in its hours."""
        fewer = _fewer_chances(self.domains_of(replicas))
        found = _looked_up(fewer, needed)
        for each in self.outages:
            under_way = np.array(each.hours_fraction)[hours]
            found = found + under_way * (_looked_up(fewer, needed + each.replicas) - found)
        return np.where(needed > self._most, 0.0, found)


@lru_cache(maxsize=1024)
def _fewer_chances(domains: Domains) -> Floats:
    """The chance that fewer than k are up, for k from 0 to one more than all."""
    chances = up_chances(domains)
    found = np.concatenate(([0.0], np.cumsum(chances)))
    if abs(found[-1] - 1.0) > 1e-6:
        raise InternalError(law="the chances of all numbers of replicas up sum to 1", left=float(found[-1]), right=1.0)
    found[-1] = 1.0
    return found


def _looked_up(fewer: Floats, needed: NDArray[np.int64]) -> Floats:
    return np.asarray(fewer[np.minimum(needed, fewer.size - 1)])


def quiet_hours(load: Sequence[float] | Floats, hours: int) -> tuple[int, ...]:
    """The hours of the week with the least load, so many of them.

    >>> quiet_hours([3.0, 1.0, 2.0, 4.0], 2)
    (1, 2)
    """
    order = np.argsort(np.asarray(load), kind="stable")
    return tuple(sorted(order[:hours].tolist()))


def outage(name: str, replicas: int, hours: Sequence[int], *, hours_a_week: float, of: int = 168) -> Outage:
    """Work of so many hours a week, spread evenly over these hours of it."""
    share = min(1.0, hours_a_week / max(1, len(hours)))
    allowed = set(hours)
    return Outage(
        name=name, replicas=replicas, hours_fraction=tuple(share if at in allowed else 0.0 for at in range(of))
    )
