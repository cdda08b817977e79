"""The capacity surface: the load that a pool of any size carries, for other step times, lengths and cached shares.

    capacity(N, ratios) = N x each(N) / slowdown(ratios),    slowdown = product of one factor for every ratio

`each` is what one replica of a pool of N carries before an SLO is violated: a larger pool evens out more. A factor says
how many times the load a change is worth. Both are found by trials at a handful of points (sizes for `each`, ratios one
at a time for the factors) and are straight between them, in logarithms. Two slow things at once are worth more than
their product, since the SLO leaves less time for both: with l the logarithms of factors above 1,

    log slowdown = sum of logs + interplay x sum over pairs of l l'

The interplay is fitted in the corners where several things are slow at once: there an SLO is violated that each of them
alone would meet. Beyond an edge no load is carried: a request that a nearly idle replica serves too late is late on any
number of them. Its own time is about a product of powers of the ratios, so that the edge is a plane in logarithms,

    log steps + sum of slope x log ratio  =  log of the steps that are too slow with every other ratio at 1

found by trials of a nearly idle pool: along steps with the others at 1, and with each of them slow by itself.

Near the edge capacity falls steeply, and how near a draw is depends on all ratios together: slightly shorter prompts
make up for steps that alone would be too slow. So steps count at the distance from the edge that all ratios together
lead to, and every other ratio has the factor that is left beyond that; with one ratio off at a time both equal what
was tried.

The surface is then checked at points drawn from the same distributions, every other one reflected to the slow side: the
error found there is part of the answer. The level itself is anchored where the plan's own size was decided by many
windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.fleet.risk.quasi_random import normal_scores, sobol_points
from ullage.fleet.risk.spread import RatioSpread
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import judge, sampled
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import RARE_REQUESTS, likely_replicas
from ullage.service.trial.strata import Strata, strata_of
from ullage.service.trial.trial import Trial
from ullage.workload.synthetic.model import ClassModel, SyntheticModel
from ullage.workload.synthetic.whatif import WhatIf, and_then, outputs, prompts

Floats = NDArray[np.float64]

STEPS, PROMPTS, OUTPUTS, CACHED = "step_time", "prompt_length", "output_length", "cached_share"
"""What the surface is a function of beside the number of replicas, each as a multiple of what is planned with."""

# Where a ratio is tried: at these quantiles of its spread. The slow side decides, so it has more of them.
_STEP_FRACTIONS = (0.05, 0.75, 0.9, 0.97, 0.995)
_SHAPE_FRACTIONS = (0.1, 0.9, 0.99)
LIKELY_SLOPES = {STEPS: 1.25, PROMPTS: 1.25, OUTPUTS: 0.35, CACHED: -0.45}
"""By how much load falls where a ratio rises, before anything is tried."""
# The pool on which ratios are tried, and its windows: the same seeds at every point, so that noise cancels.
_TRIED_REPLICAS = 8
# Larger pools than this carry hardly more a replica; what little it is stays on the safe side. So does a pool whose
# windows would have more requests than this: many requests a replica even out what many replicas do elsewhere.
_LARGEST_TRIED = 16
_MOST_REQUESTS = 24_000.0
# Where one replica carries so many times the rate at its slowest, nothing about it is uncertain enough to matter.
_AMPLE = 1.5
_WINDOWS, _MOST_WINDOWS = (1, 1, 1, 1, 1), 3
_CHECKS = 6
_MOST_INTERPLAY = 4.0
# Where the interplay is fitted: normal scores of several slow things at once, as far out as decisions are made.
_CORNERS: tuple[Mapping[str, float], ...] = (
    {STEPS: 1.28, PROMPTS: 0.84},
    {STEPS: 0.84, PROMPTS: 1.28},
    {STEPS: 1.28, PROMPTS: 1.28, CACHED: -0.5},
    {STEPS: 1.0, PROMPTS: 1.0, OUTPUTS: 1.0, CACHED: -1.0},
)
# A bracket this narrow is divided where a straight line through its excesses meets zero.
_NARROW, _FIRST_STRIDE = 1.065, 1.06
_MOST_TRIALS = 9
# Below this part of saturation a pool carries nothing worth planning with.
_LEAST_FRACTION = 0.02
# Neighbours on an axis that differ by more than this (in logarithms of load) have an edge between them.
_EDGE, _HALVINGS = 1.2, 3
_NOTHING = 1e-6
# The logarithm of a slowdown that no number of replicas makes up for.
_HOPELESS = 100.0
# An edge is searched for at this part of the load: a pool that carries less has no sensible size.
# A few late requests decide it, so many windows are simulated.
_SCARCE_FRACTION, _EDGE_WINDOWS = 0.1, 32
# Where everything is as slow as this score says at once and a scarce load still passes, there is no edge in sight.
_IN_SIGHT, _SLOW_SCORE = 3.0, 1.28
# The steps that are tried first, and the fastest; beside a known edge, the first try is so far on this side of it.
_FIRST_EDGE, _LEAST_EDGE, _ASIDE = 1.5, 0.5, 0.03


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One ratio: where it was tried, and the logarithm of how many times the load it is worth there."""

    ratios: tuple[float, ...]
    logs: tuple[float, ...]

    def slowdown_logs(self, ratios: Floats) -> Floats:
        """Straight in logarithms between the points, and beyond the ends as between the last two."""
        at, logs = np.log(np.array(self.ratios)), np.array(self.logs)
        if at.size == 1:
            return np.zeros(np.shape(ratios))
        here = np.log(ratios)
        found = np.interp(here, at, logs)
        low, high = (logs[1] - logs[0]) / (at[1] - at[0]), (logs[-1] - logs[-2]) / (at[-1] - at[-2])
        found = np.where(here < at[0], logs[0] + low * (here - at[0]), found)
        return np.asarray(np.where(here > at[-1], logs[-1] + high * (here - at[-1]), found))


UNTRIED = Axis(ratios=(1.0,), logs=(0.0,))


@dataclass(frozen=True, kw_only=True)
class CapacityEdge:
    """Where no load is carried: steps slower by `steps_ratio`, less the other ratios to the power of `slopes`."""

    steps_ratio: float
    slopes: Mapping[str, float]

    def steps_logs(self, ratios: Mapping[str, Floats]) -> dict[str, Floats]:
        """The logarithm of the slower steps that each of these ratios is worth."""
        return {
            name: (1.0 if name == STEPS else self.slopes.get(name, 0.0)) * np.log(each) for name, each in ratios.items()
        }

    def is_beyond(self, ratios: Mapping[str, Floats]) -> NDArray[np.bool_]:
        """By draw.

        >>> edge = CapacityEdge(steps_ratio=2.0, slopes={PROMPTS: 1.0})
        >>> edge.is_beyond({STEPS: np.array([1.5, 1.5]), PROMPTS: np.array([1.3, 1.4])}).tolist()
        [False, True]
        """
        return np.asarray(np.sum(list(self.steps_logs(ratios).values()), axis=0) >= math.log(self.steps_ratio))


@dataclass(frozen=True, kw_only=True)
class SurfaceCheck:
    """One point where the surface was evaluated and the pool was simulated: loads in req/s, 0 beyond the edge."""

    ratios: Mapping[str, float]
    replicas: int
    surface_rps: float
    tried_rps: float

    @property
    def is_carried(self) -> bool:
        """Whether both find a load that is carried."""
        return min(self.surface_rps, self.tried_rps) > 0.0

    @property
    def error_fraction(self) -> float:
        """How far the surface lies above what was tried."""
        return self.surface_rps / self.tried_rps - 1.0 if self.tried_rps > 0.0 else math.inf


@dataclass(frozen=True, kw_only=True)
class CapacitySurface:
    """What pools carry. `sizes` and `each_rps` are the load of one replica in pools of these sizes, as planned with.

    `work_s` is the engine time of a request by class: a mix is counted in requests of the planned mix by it.
    """

    sizes: tuple[int, ...]
    each_rps: tuple[float, ...]
    axes: Mapping[str, Axis]
    work_s: Mapping[str, float]
    interplay_ratio: float = 0.0
    edge: CapacityEdge | None = None
    checks: tuple[SurfaceCheck, ...] = ()
    trials: int = 0

    def capacity_rps(self, replicas: int | NDArray[np.int64]) -> Floats:
        """Of pools of these sizes, in requests of the planned mix, with every ratio at 1."""
        count = np.asarray(replicas, np.float64)
        each = np.interp(np.log(np.maximum(count, 1.0)), np.log(self.sizes), self.each_rps)
        return np.asarray(count * each)

    def slowdowns(self, ratios: Mapping[str, Floats]) -> Floats:
        """How many times the load a request is worth where these ratios are not 1."""
        total, pairs = self.factor_logs(ratios)
        # Far out two slow things multiply beyond every number; a slowdown that no fleet outgrows is enough.
        found = np.minimum(total + self.interplay_ratio * pairs, _HOPELESS)
        if self.edge is not None:
            found = np.where(self.edge.is_beyond(ratios), _HOPELESS, found)
        return np.asarray(np.exp(found))

    def factor_logs(self, ratios: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """The sum of the factors' logarithms, and the sum over pairs of those that slow."""
        logs = np.array([self.axes.get(name, UNTRIED).slowdown_logs(each) for name, each in ratios.items()])
        slow = np.maximum(logs, 0.0)
        return logs.sum(axis=0) + self._together_logs(ratios), (
            np.square(slow.sum(axis=0)) - np.square(slow).sum(axis=0)
        ) / 2.0

    def _together_logs(self, ratios: Mapping[str, Floats]) -> Floats:
        """What steps are worth at all ratios' distance from the edge, less what they are worth at each one's own."""
        steps = self.axes.get(STEPS, UNTRIED)
        if self.edge is None or STEPS not in ratios:
            return np.zeros(np.shape(next(iter(ratios.values()))))
        each = self.edge.steps_logs(ratios)
        alone = np.sum([steps.slowdown_logs(np.exp(one)) for one in each.values()], axis=0)
        return np.asarray(steps.slowdown_logs(np.exp(np.sum(list(each.values()), axis=0))) - alone)

    def needed(self, loads_rps: Floats) -> NDArray[np.int64]:
        """The least replicas that carry these loads, counted in requests of the planned mix at ratio 1."""
        last = self.sizes[-1]
        table = self.capacity_rps(np.arange(1, last + 1))
        found = np.searchsorted(table, loads_rps, side="left") + 1
        beyond = np.ceil(np.minimum(loads_rps / self.each_rps[-1], 1e9) - 1e-9).astype(np.int64)
        return np.asarray(np.where(loads_rps > table[-1], np.maximum(beyond, last + 1), found), np.int64)

    @property
    def error_fraction(self) -> float:
        """The deviation of the surface's error where it was checked; 0 where it was not."""
        logs = [math.log(each.surface_rps / each.tried_rps) for each in self.checks if each.is_carried]
        return math.sqrt(sum(each**2 for each in logs) / len(logs)) if logs else 0.0

    def anchored(self, replicas: int, rate_rps: float, step_ratio: float) -> CapacitySurface:
        """The surface moved as little as makes `replicas`, and not one fewer, the least at this rate and step ratio.

        That number was decided by many windows, the surface by few.
        """
        # A point that was decided is carried, on whichever side of the edge its few windows put it.
        slow = float(replace(self, edge=None).slowdowns({STEPS: np.array([step_ratio])})[0])
        load = rate_rps * slow
        least, most = (float(self.capacity_rps(each)) if each else 0.0 for each in (replicas - 1, replicas))
        moved = load / most if most < load else (load / least * (1 - 1e-9) if least >= load else 1.0)
        return replace(self, each_rps=tuple(moved * each for each in self.each_rps))


def capacity_surface(
    bases: Bases,
    spreads: Mapping[str, RatioSpread],
    *,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
    jobs: Any = map,
) -> CapacitySurface:
    """The surface around one replica's nominal trial, for pools about as large as this rate needs.

    `spreads` says by name how far each ratio may be off: it is tried where it may come to lie. Sizes, ratios and checks
    are each a job.
    """
    tried = _Tried(bases, seed, map)
    ample = _ample(tried, spreads, rate_rps)
    if ample is not None:
        return replace(ample, work_s=bases.nominal_probe.work_s)
    likely = likely_replicas(rate_rps, bases.nominal_probe.saturation_rps)
    room = int(_MOST_REQUESTS / (bases.nominal_probe.saturation_rps * bases.nominal.span_s))
    base = max(1, min(_TRIED_REPLICAS, 2 * likely, room))
    sizes = tuple(sorted({*_sizes(likely, max(1, 2 * room)), base}))
    own_rps = tried.highest(base, {})
    others = [size for size in sizes if size != base]
    carried = tried.each(jobs, lambda own, size: own.highest(size, {}, near_rps=own_rps / base * size) / size, others)
    each = {base: own_rps / base, **dict(zip(others, carried, strict=True))}
    names = [
        name
        for name, spread in spreads.items()
        if not spread.is_exact and (name == STEPS or tried.has_mix) and not (name == CACHED and not tried.has_reuse)
    ]
    found_axes = tried.each(jobs, lambda own, name: _axis(name, spreads[name], own, base, own_rps), names)
    axes: dict[str, Axis] = dict(zip(names, found_axes, strict=True))
    found = CapacitySurface(
        sizes=sizes,
        # A larger pool never carries less a replica; where it seems so, that is the windows' chance.
        each_rps=tuple(np.maximum.accumulate([each[size] for size in sizes]).tolist()),
        axes=axes,
        work_s=bases.nominal_probe.work_s,
    )
    own = {name: spreads[name] for name in axes}
    scarce_rps = max(_SCARCE_FRACTION * own_rps, tried.least_rps)
    found = replace(found, edge=found_edge(own, lambda ratios: tried.idle_excess(base, ratios, scarce_rps)))
    corners = [each for each in _CORNERS if len(set(each) & set(own)) > 1]
    rows = [[corner.get(name, 0.0) for name in own] for corner in corners]
    fitted = replace(
        found, interplay_ratio=_interplay(found, _tried_points(found, own, np.array(rows), tried, base, jobs))
    )
    checks = _tried_points(fitted, own, _check_scores(tuple(own), seed), tried, base, jobs)
    return replace(fitted, checks=checks, trials=tried.count)


def _check_scores(names: Sequence[str], seed: int) -> Floats:
    """Normal scores of the points that the surface is checked at, every other one on the slow side of each ratio."""
    scores = normal_scores(sobol_points(_CHECKS, max(1, len(names)), np.random.default_rng((seed, 7))))[:, : len(names)]
    slow = np.array([-1.0 if name == CACHED else 1.0 for name in names])
    scores[1::2] = np.abs(scores[1::2]) * slow
    return np.asarray(scores)


def _interplay(surface: CapacitySurface, points: Sequence[SurfaceCheck]) -> float:
    """How much more than their product slow things are worth together, by least squares through the origin."""
    above, below = 0.0, 0.0
    for each in points:
        if each.surface_rps <= 0.0:
            continue
        total, pairs = surface.factor_logs(_as_arrays(each.ratios))
        # Where nothing passes, the load is below the least of the search.
        most = float(surface.capacity_rps(each.replicas))
        own = math.log(most / max(each.tried_rps, _LEAST_FRACTION * most))
        above += float(pairs[0]) * (own - float(total[0]))
        below += float(pairs[0]) ** 2
    return min(max(above / below, 0.0), _MOST_INTERPLAY) if below > 0.0 else 0.0


def _expected_rps(surface: CapacitySurface, point: SurfaceCheck) -> float:
    most = float(surface.capacity_rps(point.replicas))
    found = most / float(surface.slowdowns(_as_arrays(point.ratios))[0])
    return found if found > _NOTHING * most else 0.0


def found_edge(
    spreads: Mapping[str, RatioSpread], idle_excess: Callable[[Mapping[str, float]], float]
) -> CapacityEdge | None:
    """Where even a scarce load is too much; None where that lies out of sight of every ratio's spread.

    `idle_excess` is the logarithm of the largest part that a nearly idle pool uses of what an SLO allows.
    """

    def ratio(name: str, score: float) -> float:
        return float(spreads[name].ratios(np.array([-score if name == CACHED else score]))[0])

    def too_slow_log(others: Mapping[str, float], start: float) -> float:
        found = crossing(lambda steps: idle_excess({**others, STEPS: steps}), start, least=_LEAST_EDGE)
        return math.log(max(found, _LEAST_EDGE))

    if not spreads or idle_excess({name: ratio(name, _IN_SIGHT) for name in spreads}) <= 0.0:
        return None
    alone = too_slow_log({}, _FIRST_EDGE)
    slopes = {}
    for name in spreads:
        if name != STEPS:
            slow = ratio(name, _SLOW_SCORE)
            start = alone - (math.log(slow) if name == PROMPTS else 0.0)
            slopes[name] = (alone - too_slow_log({name: slow}, math.exp(start - _ASIDE))) / math.log(slow)
    return CapacityEdge(steps_ratio=math.exp(alone), slopes=slopes)


def _as_arrays(ratios: Mapping[str, float]) -> dict[str, Floats]:
    return {name: np.array([each]) for name, each in ratios.items()}


def _ample(tried: _Tried, spreads: Mapping[str, RatioSpread], rate_rps: float) -> CapacitySurface | None:
    """A surface of one point, where one replica carries far more than the rate with everything at its slowest."""
    slowest = {
        name: spread.at(0.005 if name == CACHED else 0.995)
        for name, spread in spreads.items()
        if not spread.is_exact and (name == STEPS or tried.has_mix)
    }
    load = _AMPLE * rate_rps
    if load > tried.saturation_rps / 2.0 or tried.excess(1, slowest, max(load, tried.least_rps)) > 0.0:
        return None
    return CapacitySurface(sizes=(1,), each_rps=(max(load, tried.least_rps),), axes={}, work_s={}, trials=tried.count)


def _sizes(likely: int, most: int) -> tuple[int, ...]:
    """Powers of two up to about twice what is likely, and no larger than can be tried."""
    found = [1]
    while 2 * found[-1] <= min(2 * likely, _LARGEST_TRIED, most):
        found.append(2 * found[-1])
    return tuple(found)


def _axis(name: str, spread: RatioSpread, tried: _Tried, replicas: int, own_rps: float) -> Axis:
    """One ratio at a time, outwards from 1: where to look next follows from the points before it."""
    points = {0.0: 0.0}

    def worth(log_ratio: float) -> float:
        near = own_rps / math.exp(_guess(points, log_ratio, LIKELY_SLOPES[name]))
        carried = tried.highest(replicas, {name: math.exp(log_ratio)}, near_rps=near)
        return math.log(own_rps / max(carried, _NOTHING * own_rps))

    fractions = _STEP_FRACTIONS if name == STEPS else _SHAPE_FRACTIONS
    for log_ratio in sorted((math.log(spread.at(each)) for each in fractions), key=abs):
        if abs(log_ratio) > 1e-3:
            points[log_ratio] = worth(log_ratio)
    for _ in range(_HALVINGS):
        # A load that no number of replicas carries has an edge; where it lies decides how likely that is.
        wide = [pair for pair in pairwise(sorted(points)) if abs(points[pair[1]] - points[pair[0]]) > _EDGE]
        for one, other in wide[:1]:
            points[(one + other) / 2.0] = worth((one + other) / 2.0)
    known = sorted(points)
    logs = [points[each] for each in known]
    # More work never carries more; more of it found in the cache never less.
    ordered = np.minimum.accumulate(logs) if name == CACHED else np.maximum.accumulate(logs)
    return Axis(ratios=tuple(math.exp(each) for each in known), logs=tuple(ordered.tolist()))


def _guess(points: Mapping[float, float], at: float, slope: float) -> float:
    """The line through 1 and the farthest known point on the same side; the likely slope where there is none."""
    same = [each for each in points if each * at > 0.0 and points[each] < -math.log(_NOTHING) / 2.0]
    farthest = max(same, key=abs, default=None)
    return at * (slope if farthest is None else points[farthest] / farthest)


def _tried_points(
    surface: CapacitySurface,
    spreads: Mapping[str, RatioSpread],
    scores: Floats,
    tried: _Tried,
    replicas: int,
    jobs: Any,
) -> tuple[SurfaceCheck, ...]:
    """The surface and trials at points where several ratios are off at once."""

    def look(own: _Tried, row: Floats) -> SurfaceCheck:
        ratios = {name: float(spread.ratios(row[[at]])[0]) for at, (name, spread) in enumerate(spreads.items())}
        point = SurfaceCheck(ratios=ratios, replicas=replicas, surface_rps=0.0, tried_rps=0.0)
        expected = _expected_rps(surface, point)
        carried = own.highest(replicas, ratios, near_rps=expected)
        return replace(point, surface_rps=expected, tried_rps=carried)

    return tuple(tried.each(jobs, look, list(scores) if spreads else []))


class _Tried:
    """Trials of pools of one kind of replica, all on the same windows."""

    def __init__(self, bases: Bases, seed: int, map: Any) -> None:  # noqa: A002
        self._trial, self._probe, self._map = bases.nominal, bases.nominal_probe, map
        self._strata: Strata = strata_of(
            self._trial.load_at, span_s=self._trial.span_s, seed=seed, work_s=self._probe.work_s
        )
        self.count = 0

    def each(self, jobs: Any, look: Callable[[_Tried, Any], Any], inputs: Sequence[Any]) -> list[Any]:
        """Looks that do not depend on each other; each counts its trials by itself, wherever it is made."""

        def one(given: Any) -> tuple[Any, int]:
            own = copy(self)
            own.count = 0
            return look(own, given), own.count

        found = list(jobs(one, inputs))
        self.count += sum(trials for _, trials in found)
        return [value for value, _ in found]

    @property
    def has_mix(self) -> bool:
        return isinstance(self._trial.load_at, MixLoad)

    @property
    def has_reuse(self) -> bool:
        mix = self._trial.load_at
        return isinstance(mix, MixLoad) and any(
            any(each.reuse.first_turn_fractions) or any(each.reuse.later_turn_fractions) for each in mix.model.classes
        )

    @property
    def saturation_rps(self) -> float:
        return self._probe.saturation_rps

    @property
    def least_rps(self) -> float:
        """A load at which a window has enough requests to judge by."""
        return RARE_REQUESTS / self._trial.span_s

    def excess(self, replicas: int, ratios: Mapping[str, float], load_rps: float) -> float:
        """The logarithm of the largest part used of what an SLO allows, at this load."""
        counts = _WINDOWS if len(self._strata.weights) > 1 else (sum(_WINDOWS),)
        # A light load has few requests a window, so it is given more windows.
        more = min(_MOST_WINDOWS, max(1, round(self._probe.saturation_rps * replicas / load_rps)))
        return self._judged(replicas, ratios, load_rps, [more * each for each in counts])

    def idle_excess(self, replicas: int, ratios: Mapping[str, float], load_rps: float) -> float:
        """The same of a nearly idle pool. Bursts hardly matter to it: every stratum has windows by its weight."""
        counts = [max(1, round(_EDGE_WINDOWS * each)) for each in self._strata.weights]
        return self._judged(replicas, ratios, load_rps, counts)

    def _judged(self, replicas: int, ratios: Mapping[str, float], load_rps: float, counts: Sequence[int]) -> float:
        trial = replace(changed_trial(self._trial, ratios), replicas=replicas)
        self.count += 1
        return judge(trial, load_rps, sampled(trial, load_rps, self._strata, counts, map=self._map)).excess

    def highest(self, replicas: int, ratios: Mapping[str, float], near_rps: float | None = None) -> float:
        """The load that the pool carries, between loads on either side of the first violation; 0 where none passes."""
        full_rps = self._probe.saturation_rps * replicas / ratios.get(STEPS, 1.0)
        least = max(_LEAST_FRACTION * full_rps, self.least_rps)
        start = max(near_rps or full_rps, least)
        return crossing(lambda load_rps: self.excess(replicas, ratios, load_rps), start, least=least)


def crossing(excess: Callable[[float], float], start: float, *, least: float) -> float:
    """Where a rising excess meets zero; 0 where it is positive down to `least`.

    >>> round(crossing(lambda load: load - 3.0, 2.0, least=0.1), 2)
    3.0
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    look, stride = start, _FIRST_STRIDE
    for _ in range(_MOST_TRIALS):
        found = excess(look)
        low, high = (low, (look, found)) if found > 0.0 else ((look, found), high)
        if low is None or high is None:
            look, stride = (look / stride, stride**1.7) if low is None else (look * stride, stride**1.7)
            if look < least:
                return 0.0
            continue
        if high[0] <= _NARROW * low[0]:
            break
        part = -low[1] / (high[1] - low[1])
        look = low[0] * (high[0] / low[0]) ** min(max(part, 0.2), 0.8)
    if low is None:
        return 0.0
    if high is None:
        return low[0]
    return float(low[0] * (high[0] / low[0]) ** (-low[1] / (high[1] - low[1])))


def changed_trial(trial: Trial, ratios: Mapping[str, float]) -> Trial:
    """The trial with other step times, lengths and cached shares."""
    changes: list[WhatIf] = []
    if PROMPTS in ratios:
        changes.append(prompts(ratios[PROMPTS]))
    if OUTPUTS in ratios:
        changes.append(outputs(ratios[OUTPUTS]))
    if CACHED in ratios:
        changes.append(_cached(ratios[CACHED]))
    mix = trial.load_at
    if changes and isinstance(mix, MixLoad):
        trial = replace(trial, load_at=replace(mix, model=and_then(mix.model, *changes)))
    return trial.with_steps(ratios.get(STEPS, 1.0))


def _cached(ratio: float) -> WhatIf:
    """Every prompt finds so many times as much of itself in the cache, and no more than all of it."""

    def one(each: ClassModel) -> ClassModel:
        reuse = replace(
            each.reuse,
            first_turn_fractions=tuple(min(1.0, ratio * share) for share in each.reuse.first_turn_fractions),
            later_turn_fractions=tuple(min(1.0, ratio * share) for share in each.reuse.later_turn_fractions),
        )
        return replace(each, reuse=reuse)

    return lambda model: SyntheticModel(classes=tuple(one(each) for each in model.classes))
