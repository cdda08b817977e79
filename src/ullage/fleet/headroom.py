"""Headroom: how much more the planned replicas take before an SLO breaks, one change at a time, by simulation.

    traffic    more requests of the same mix
    prompts    longer prompts, at every quantile
    outputs    longer answers, at every quantile
    cache      fewer prompt tokens found in the prefix cache

Every change is tried on the same seeds as the pool's size (common random numbers) and looked for by bisection on one
ladder, so that an answer is a pair: this much holds, and the next rung violates an SLO that is named. Step times are
those that are believed; where they are as slow as one time in ten, the plan's margin for evidence has used most of
this headroom already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.evidence import Assumption, Figure
from ullage.fleet.steady import SteadyFleet
from ullage.service.curve.highest import LIKELY, Replications
from ullage.service.curve.load_run import Bench
from ullage.service.curve.mix import MixLoad
from ullage.simulate.statistics import replication_seeds
from ullage.workload.synthetic.model import ClassModel, ReuseModel, SyntheticModel
from ullage.workload.synthetic.whatif import outputs, prompts

# Rungs of growth: fine where a plan is tight, coarse where it has plenty. Beyond the last nobody asks.
GROWTH_RUNGS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 1.00, 1.50, 2.00)
# Rungs of loss: a cache can lose no more than all of its hits.
LOSS_RUNGS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 1.00)

_HOW = (
    "Headroom is that of the steady replicas at the planning rate, with nominal step times and no reserve; one "
    "change at a time, on the seeds of the pool's size."
)


@dataclass(frozen=True, kw_only=True)
class LoadChange:
    """One thing that may come worse than planned: `made(bench, rate, share)` is the pool and its load with it."""

    name: str
    what: str
    rungs: tuple[float, ...]
    made: Callable[[Bench, float, float], tuple[Bench, float]]
    needs_mix: bool = True


@dataclass(frozen=True, kw_only=True)
class LoadMargin:
    """One change: `holds_fraction` of it breaks nothing, `breaks_fraction` (the next rung) breaks `breaks`.

    `breaks_fraction` is None where even the last rung holds.
    """

    name: str
    what: str
    holds_fraction: float
    breaks_fraction: float | None
    breaks: str


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """What the planned replicas take beyond the planning rate. Every margin is 0 or more."""

    replicas: int
    rate_rps: float
    lines: tuple[LoadMargin, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    def line(self, name: str) -> LoadMargin:
        return next(each for each in self.lines if each.name == name)


def headroom(
    bench: Bench,
    *,
    rate_rps: float,
    seed: int,
    replications: int = 4,
    likely_fraction: float | None = None,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> Headroom:
    """Try every change on the pool that the bench describes (its replicas, its mix, its SLOs) at this rate.

    `likely_fraction` is where the answer for traffic is looked for first; it saves time and changes nothing else.
    """
    seeds = replication_seeds(seed, replications)
    lines: list[LoadMargin] = []
    for change in CHANGES:
        if change.needs_mix and not isinstance(bench.load_at, MixLoad):
            continue
        tried = Replications(_cases(change, bench, rate_rps), seeds=seeds, map=map)
        start = _first_look(change, lines[0].holds_fraction if lines else likely_fraction)
        lines.append(_margin(change, start, tried))
    found = Headroom(replicas=bench.replicas, rate_rps=rate_rps, lines=tuple(lines), figures={}, notes=(_HOW,))
    return replace(found, figures=_figures(found, inputs))


def steady_headroom(
    fleet: SteadyFleet,
    *,
    rate_rps: float,
    seed: int,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> Headroom:
    """The headroom of a steady fleet; what its margin for evidence adds is where it is looked for first."""
    likely = fleet.evidence_fraction
    return headroom(fleet.bench, rate_rps=rate_rps, seed=seed, likely_fraction=likely, inputs=inputs, map=map)


def _first_look(change: LoadChange, likely_fraction: float | None) -> int:
    """The rung to try first: everything for the cache, else the one that is likely, else the middle."""
    if change.rungs is LOSS_RUNGS:
        return len(change.rungs) - 1
    if likely_fraction is None:
        return len(change.rungs) // 2
    return max((place for place, each in enumerate(change.rungs) if each <= likely_fraction), default=0)


def _cases(change: LoadChange, bench: Bench, rate_rps: float) -> Callable[[int], tuple[Bench, float]]:
    """The pool and its load at every rung of the change, each made once."""
    return functools.cache(lambda place: change.made(bench, rate_rps, change.rungs[place]))


def _margin(change: LoadChange, start: int, tried: Replications) -> LoadMargin:
    """The last rung that holds: bisection, its first look where the answer is likely to be and the next beside it."""
    rungs = change.rungs
    low, high, breaks = -1, len(rungs), ""
    look = start
    while high - low > 1:
        found = tried.broken(look, LIKELY)
        if found:
            high, breaks = look, found[0]
        else:
            low = look
        beside = look - 1 if found else look + 1
        look = beside if look == start and low < beside < high else (low + high) // 2
    # Two runs may speak for rungs on the way; the answer itself is confirmed by all of them.
    while low >= 0 and (found := tried.broken(low, LIKELY, by_all=True)):
        low, high, breaks = low - 1, low, found[0]
    return LoadMargin(
        name=change.name,
        what=change.what,
        holds_fraction=rungs[low] if low >= 0 else 0.0,
        breaks_fraction=rungs[high] if high < len(rungs) else None,
        breaks=breaks,
    )


def _more_traffic(bench: Bench, rate_rps: float, growth: float) -> tuple[Bench, float]:
    return bench, rate_rps * (1.0 + growth)


def _longer_prompts(bench: Bench, rate_rps: float, growth: float) -> tuple[Bench, float]:
    return _with_model(bench, prompts(1.0 + growth)), rate_rps


def _longer_outputs(bench: Bench, rate_rps: float, growth: float) -> tuple[Bench, float]:
    return _with_model(bench, outputs(1.0 + growth)), rate_rps


def _fewer_hits(bench: Bench, rate_rps: float, loss: float) -> tuple[Bench, float]:
    return _with_model(bench, lambda model: _less_reuse(model, loss)), rate_rps


CHANGES: tuple[LoadChange, ...] = (
    LoadChange(name="traffic", what="more traffic", rungs=GROWTH_RUNGS, made=_more_traffic, needs_mix=False),
    LoadChange(name="prompts", what="longer prompts", rungs=GROWTH_RUNGS, made=_longer_prompts),
    LoadChange(name="outputs", what="longer outputs", rungs=GROWTH_RUNGS, made=_longer_outputs),
    LoadChange(name="cache", what="fewer cached prompt tokens", rungs=LOSS_RUNGS, made=_fewer_hits),
)


def _with_model(bench: Bench, change: Callable[[SyntheticModel], SyntheticModel]) -> Bench:
    mix = bench.load_at
    assert isinstance(mix, MixLoad)
    return replace(bench, load_at=replace(mix, model=change(mix.model)))


def _less_reuse(model: SyntheticModel, loss: float) -> SyntheticModel:
    """Every prompt finds less of itself in the cache, by the same share."""

    def less(reuse: ReuseModel) -> ReuseModel:
        return replace(
            reuse,
            first_turn_fractions=tuple(each * (1.0 - loss) for each in reuse.first_turn_fractions),
            later_turn_fractions=tuple(each * (1.0 - loss) for each in reuse.later_turn_fractions),
        )

    def one(each: ClassModel) -> ClassModel:
        return replace(each, reuse=less(each.reuse))

    return SyntheticModel(classes=tuple(one(each) for each in model.classes))


def _figures(found: Headroom, inputs: tuple[Figure | Assumption, ...]) -> dict[str, Figure]:
    if not inputs:
        return {}
    return {
        f"headroom.{each.name}_fraction": Figure(
            name=f"headroom.{each.name}_fraction",
            value=each.holds_fraction,
            unit="fraction",
            formula=_formula(each, found),
            inputs=inputs,
        )
        for each in found.lines
    }


def _formula(line: LoadMargin, found: Headroom) -> str:
    end = (
        f"the last that was tried; {found.replicas} replicas take it"
        if line.breaks_fraction is None
        else f"simulated on {found.replicas} replicas; {line.breaks_fraction:.0%} breaks {line.breaks}"
    )
    return f"{line.what} that violates no SLO: {end}"
