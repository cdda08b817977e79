"""The highest load that meets every SLO, and how far another seed's answer may lie from it.

The search bisects a grid of loads. At each load the same seeds are replayed (common random numbers) and all their
requests are judged together. The grid's scale is the replica's saturation, in which SLOs do not enter: two searches
that differ only in their SLOs visit comparable loads, and the stricter one can never end above the other.

Far from the edge two runs tell as much as eight: a load whose first two runs miss a limit by half, or use no more than
two thirds of any, is not replicated further. The law above holds with that too: what a strict limit calls clear in
its favour, a looser one does all the more, and what a loose limit calls clearly broken, a stricter one does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InternalError
from ullage.service.curve.load_run import Bench, LoadRun, overhead_of, run_load
from ullage.service.curve.pooled import REPEAT_RATIO, pooled_quantile
from ullage.service.curve.stability import instability
from ullage.simulate.statistics import Interval, mean_interval, replication_seeds
from ullage.workload.classes import RequestClass, Slo

# Steps of the grid in one saturation: the answer is at most one step, 0.8 % of saturation, too low.
STEPS = 128
MOST_DOUBLINGS = 4
SURE, LIKELY, POSSIBLE = "sure", "likely", "possible"
# How many runs scout a load, and how far from a limit their verdict is clear. On the built-in mix a p95 of two runs is
# within a third of that of eight wherever the load is sustained.
SCOUTS = 2
CLEAR_RATIO = 1.5
# A backlog that grows by this share of what arrives is no accident of two runs.
CLEAR_GROWTH_FRACTION = 0.05


@dataclass(frozen=True, kw_only=True)
class HighestLoad:
    """The highest load of the grid that meets every SLO, per replica.

    `interval` covers what another seed would have found, in `confidence_fraction` of cases. `binding` is the SLO
    that the next load breaks. A value of 0 says that no load meets the SLOs; `binding` is then why.
    """

    interval: Interval
    binding: str
    replications: int
    step_rps: float

    @property
    def rps(self) -> float:
        return self.interval.value


def highest_load(
    bench: Bench,
    *,
    scale_rps: float,
    seed: int,
    replications: int,
    with_interval: bool = True,
    map: Any = map,  # noqa: A002
) -> HighestLoad:
    """Bisect to the highest load at which the pooled percentiles meet every SLO and the backlog does not grow.

    The ends of the interval are found the same way, with every percentile at the pessimistic and at the optimistic end
    of its own interval, widened to what a repeat with another seed would show.
    """
    step_rps = scale_rps * bench.replicas / STEPS
    tried = Replications(lambda place: (bench, place * step_rps), seeds=replication_seeds(seed, replications), map=map)

    def passes(place: int, view: str) -> bool:
        return not tried.broken(place, view)

    found = _last_passing(lambda place: passes(place, LIKELY), above=0)
    # Scouts may speak for loads on the way; the answer itself is confirmed by all runs.
    while found > 0 and tried.broken(found, LIKELY, by_all=True):
        found -= 1
    low = high = found
    if with_interval:
        low = _last_passing_near(lambda place: passes(place, SURE), found, upward=False)
        high = _last_passing_near(lambda place: passes(place, POSSIBLE), found, upward=True)
    if not low <= found <= high:
        raise InternalError(law="an estimate lies in its interval", left=found, right=(low, high))
    # The grid itself hides up to a step on either side.
    each_rps = step_rps / bench.replicas
    return HighestLoad(
        interval=Interval(
            value=found * each_rps,
            low=max(0, low - 1) * each_rps,
            high=(high + 1) * each_rps,
            confidence_fraction=0.95,
        ),
        binding=_binding(tried.broken(found + 1, LIKELY)),
        replications=replications,
        step_rps=each_rps,
    )


class Replications:
    """Loads tried on the same seeds: scouted first, replicated where that leaves doubt, and remembered.

    `case(number)` is the bench and the total rate that a number stands for: a place on a grid, or a size of a pool.
    """

    def __init__(
        self,
        case: Callable[[int], tuple[Bench, float]],
        *,
        seeds: Sequence[int],
        run: Callable[[Bench, float, int], LoadRun] = run_load,
        map: Any = map,  # noqa: A002
    ) -> None:
        self._case, self._seeds, self._run, self._map = case, tuple(seeds), run, map
        self._known: dict[int, list[LoadRun]] = {}

    def runs(self, number: int, count: int | None = None) -> list[LoadRun]:
        """The first `count` replications, or all of them."""
        bench, rate_rps = self._case(number)
        runs = self._known.setdefault(number, [])
        missing = self._seeds[len(runs) : len(self._seeds) if count is None else count]
        if missing:
            runs += list(self._map(lambda each: self._run(bench, rate_rps, each), missing))
        return runs if count is None else runs[:count]

    def broken(self, number: int, view: str, *, by_all: bool = False) -> tuple[str, ...]:
        """The SLOs that are broken there, from as many runs as it takes to tell, or by all of them."""
        bench, _ = self._case(number)
        if len(self._seeds) > SCOUTS and not by_all:
            clear = _clear(bench, self.runs(number, SCOUTS), view)
            if clear is not None:
                return clear
        return broken(bench, self.runs(number), view)


def _clear(bench: Bench, scouts: Sequence[LoadRun], view: str) -> tuple[str, ...] | None:
    """What two runs say where they are far from every limit; None where more are needed.

    A limit missed beyond doubt is missed to everyone but an optimist, and one kept beyond doubt is kept to all but a
    pessimist. A backlog that grows in both runs grows to everyone.
    """
    grown = min(each.drift.growth_fraction for each in scouts)
    if grown > CLEAR_GROWTH_FRACTION and instability([each.drift for each in scouts]) is not None:
        return broken(bench, scouts, view)
    most = max(_uses(bench, scouts).values(), default=0.0)
    if view != POSSIBLE and most > CLEAR_RATIO:
        return broken(bench, scouts)
    if view != SURE and most < 1.0 / CLEAR_RATIO and not broken(bench, scouts):
        return ()
    return None


def _uses(bench: Bench, runs: Sequence[LoadRun]) -> dict[str, float]:
    """The share of its limit that each promised percentile uses."""
    return {
        f"{each.name} {slo.name}": found.value / slo.limit_s
        for each in bench.classes
        for slo in each.slos
        if (found := _percentile(bench, runs, each, slo)) is not None
    }


def _percentile(bench: Bench, runs: Sequence[LoadRun], slo_class: RequestClass, slo: Slo) -> Interval | None:
    return pooled_quantile(
        [run.histograms[slo_class.name][slo.metric] for run in runs],
        slo.percentile_fraction,
        offset_s=overhead_of(bench, slo.metric),
        widening_ratio=REPEAT_RATIO,
    )


def broken(bench: Bench, runs: Sequence[LoadRun], view: str = LIKELY) -> tuple[str, ...]:
    """The SLOs that these replications break, seen as `likely`, or by the near or far end of every interval."""
    names = ["stability"] if instability([each.drift for each in runs]) is not None else []
    for each in bench.classes:
        errors = _seen([run.error_fractions.get(each.name, 0.0) for run in runs], view)
        if errors > bench.error_fraction:
            names.append(f"{each.name} error budget")
        for slo in each.slos:
            found = _percentile(bench, runs, each, slo)
            if found is not None and _end(found, view) > slo.limit_s:
                names.append(f"{each.name} {slo.name}")
    return tuple(names)


def _end(interval: Interval, view: str) -> float:
    return {SURE: interval.high, LIKELY: interval.value, POSSIBLE: interval.low}[view]


def _seen(shares: Sequence[float], view: str) -> float:
    if max(shares) == 0.0 or len(shares) < 2:
        return shares[0] if len(shares) == 1 else 0.0
    return max(0.0, _end(mean_interval(shares), view))


def _last_passing(passes: Callable[[int], bool], *, above: int) -> int:
    """The last grid place that passes, by bisection; doubled upwards while its top passes."""
    low, high = above, above + STEPS
    for _ in range(MOST_DOUBLINGS):
        if not passes(high):
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _last_passing_near(passes: Callable[[int], bool], start: int, *, upward: bool) -> int:
    """The border of a looser or stricter test, looked for in growing steps from the answer of the plain one."""
    step, here = 1, start
    if upward:
        while passes(here + step):
            here, step = here + step, 2 * step
        low, high = here, here + step
    else:
        while here > 0 and not passes(here):
            here, step = max(0, here - step), 2 * step
        if here == start:
            return start
        low, high = here, min(start, here + step // 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def _binding(names: Sequence[str]) -> str:
    return Counter(names).most_common(1)[0][0] if names else "none"
