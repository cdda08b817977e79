"""Which windows to simulate: a thousand are drawn, sorted by how heavy they are, and the heavy ones simulated most.

A pool near its limit serves most windows well and collapses in a few. Those few decide a percentile over all of them,
so a handful of windows taken at random decides by chance. How heavy a window's heaviest two minutes are predicts a
collapse well (AUC 0.93 to 0.98 on the built-in example), and is known from its rates alone, before any request is
drawn. The candidates are cut into strata by it; every stratum has its weight, the share of candidates in it, and the
sum over strata is unbiased however many windows each gets.

Of many replicas no window collapses: all of them miss a little, the ordinary ones decide with the heavy ones, and how
much a window misses follows from its rates nearly alone. So windows are taken about by weight there, and what the rates
predict of all candidates corrects the noise of the few that are simulated (decide.py).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ullage.service.trial.mix import BurstyWork, LoadAt, MixLoad
from ullage.simulate.statistics import replication_seeds

CANDIDATES = 1024
# Bursts of many classes even out, and each costs its draws: of more classes than this fewer windows are weighed.
_FEW_CLASSES, _LEAST_CANDIDATES = 8, 256
# Shares of the candidates, heaviest first, and how many windows of each are simulated before anything is judged.
SHARES = (1 / 32, 1 / 16, 5 / 32, 1 / 4, 1 / 2)
FIRST_WINDOWS = (6, 5, 4, 3, 2)
# From so many replicas on they are many, and these are their first windows.
MANY_REPLICAS = 64
MANY_FIRST_WINDOWS = (3, 2, 3, 3, 5)
# What bursts do on average belongs to the mix and not to a seed: so many times as many windows as there are candidates
# tell it, the same ones for every seed.
_REFERENCE_RATIO, _REFERENCE_SEED = 2, 20_261_119
# A window's first eighth fills the engines, and is not counted.
WARMUP_FRACTION = 0.125


@dataclass(frozen=True, kw_only=True)
class Strata:
    """Seeds of windows by stratum, heaviest stratum first, in an order that chance gave; weights sum to 1.

    `surges` are of every stratum how much its windows' rates hurt (mix.py), less the mean of the mix: rows by
    steepness, a column for each seed; none where the rates predict little. `reference_windows` told that mean.
    """

    weights: tuple[float, ...]
    seeds: tuple[tuple[int, ...], ...]
    first_windows: tuple[int, ...]
    surges: tuple[NDArray[np.float64], ...] = field(default=(), compare=False)
    reference_windows: int = 0

    @property
    def candidates(self) -> int:
        return sum(len(each) for each in self.seeds)

    def first_seeds(self, counts: Sequence[int]) -> list[int]:
        """The first so many of every stratum, one stratum after the other."""
        return [seed for part, count in zip(self.seeds, counts, strict=True) for seed in part[:count]]

    def turned(self, times: int) -> Strata:
        """The same strata, each beginning so many times its first windows later."""
        return self._begun(
            [times * count % len(part) for count, part in zip(self.first_windows, self.seeds, strict=True)]
        )

    def begun_with(self, first: Sequence[int]) -> Strata | None:
        """The same strata, each beginning with this window; None where one of them does not have it."""
        if len(first) != len(self.seeds) or any(a not in b for a, b in zip(first, self.seeds, strict=True)):
            return None
        return self._begun([part.index(each) for each, part in zip(first, self.seeds, strict=True)])

    def _begun(self, starts: Sequence[int]) -> Strata:
        if not any(starts):
            return self
        return replace(
            self,
            seeds=tuple(part[start:] + part[:start] for part, start in zip(self.seeds, starts, strict=True)),
            surges=tuple(np.roll(part, -start, axis=1) for part, start in zip(self.surges, starts, strict=False)),
        )


def strata_of(load_at: LoadAt, *, span_s: float, seed: int, work_s: Mapping[str, float], replicas: int = 1) -> Strata:
    """The strata of a mix; a load without bursts has one, because all of its windows are alike."""
    if not isinstance(load_at, MixLoad) or not load_at.has_bursts:
        seeds = replication_seeds(seed, CANDIDATES)
        return Strata(weights=(1.0,), seeds=(seeds,), first_windows=(sum(FIRST_WINDOWS),))
    found = _many if replicas >= MANY_REPLICAS else _strata
    return found(load_at.work(work_s), span_s, seed)


@functools.lru_cache(maxsize=32)
def _strata(work: BurstyWork, span_s: float, seed: int) -> Strata:
    candidates = max(_LEAST_CANDIDATES, CANDIDATES * _FEW_CLASSES // max(len(work.bursts), _FEW_CLASSES))
    seeds = replication_seeds(seed, candidates)
    heavy = work.heaviness(span_s=span_s, seeds=seeds)
    order = np.argsort(-heavy, kind="stable")
    edges = np.cumsum([0, *(round(share * len(seeds)) for share in SHARES)])
    # Within a stratum windows keep the order of their seeds, which has nothing to do with how heavy they are.
    parts = [np.sort(order[low:high]) for low, high in pairwise(edges.tolist())]
    return Strata(
        weights=tuple(part.size / len(seeds) for part in parts),
        seeds=tuple(tuple(seeds[place] for place in part.tolist()) for part in parts),
        first_windows=FIRST_WINDOWS,
    )


@functools.lru_cache(maxsize=32)
def _many(work: BurstyWork, span_s: float, seed: int) -> Strata:
    """The same windows for a pool of many replicas, with what their rates predict."""
    found = _strata(work, span_s, seed)
    seeds = replication_seeds(seed, found.candidates)
    surges = work.surges(span_s=span_s, from_s=WARMUP_FRACTION * span_s, seeds=seeds)
    reference = replication_seeds(_REFERENCE_SEED, _REFERENCE_RATIO * found.candidates)
    surges -= work.mean_surges(span_s=span_s, from_s=WARMUP_FRACTION * span_s, seeds=reference)[:, None]
    places = {each: place for place, each in enumerate(seeds)}
    by_stratum = tuple(surges[:, [places[each] for each in part]] for part in found.seeds)
    return replace(found, first_windows=MANY_FIRST_WINDOWS, surges=by_stratum, reference_windows=len(reference))


def allocated(strata: Strata, spreads: Sequence[float], counts: Sequence[int], more: int) -> tuple[int, ...]:
    """How many windows each stratum has after `more` of them, given where they tell most: weight times spread.

    >>> strata = Strata(weights=(0.5, 0.5), seeds=((1,) * 9, (2,) * 9), first_windows=(1, 1))
    >>> allocated(strata, (3.0, 1.0), (1, 1), 6)
    (6, 2)
    """
    worth = np.array([weight * spread for weight, spread in zip(strata.weights, spreads, strict=True)])
    room = np.array([len(each) for each in strata.seeds])
    found = np.array(counts)
    for _ in range(more):
        # The next window goes where the standard error falls most: worth^2 / n - worth^2 / (n + 1).
        gain = np.where(found < room, np.square(worth) / (found * (found + 1.0)), -1.0)
        found[int(np.argmax(gain))] += 1
    return tuple(found.tolist())
