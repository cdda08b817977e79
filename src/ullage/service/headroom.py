"""Headroom: how much more the planned replicas take before an SLO is violated, one change at a time, by simulation.

    traffic    more requests of the same mix
    prompts    longer prompts, at every quantile
    outputs    longer answers, at every quantile
    cache      fewer prompt tokens found in the prefix cache

Every change is tried on the same windows as the pool's size (common random numbers), on the same step basis, and
searched by bisection on one ladder, so that an answer is a pair: this much passes with confidence, and the next rung
violates an SLO that is named, or cannot be told.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ullage.evidence import Assumption, Figure
from ullage.service.trial.decide import Beside, Decision, Effort, decide, decide_beside
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import LeastReplicas, rare_traffic, tested_pool
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import Probe
from ullage.workload.synthetic.model import ClassModel, ReuseModel, SyntheticModel
from ullage.workload.synthetic.whatif import outputs, prompts

# Rungs of growth: fine where a plan is tight, coarse where it has plenty; the last is the end of the search. A rate
# limiter is set by traffic, so its rungs are finer.
TRAFFIC_RUNGS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 1.00, 1.50, 2.00)
GROWTH_RUNGS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 1.00, 1.50, 2.00)
# Rungs of loss: a cache can lose no more than all of its hits.
LOSS_RUNGS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.80, 1.00)
# A rung is between two others, so fewer windows decide it than a purchase.
EFFORT = Effort(most_windows=16, most_requests=8e5, first_fraction=0.4)


@dataclass(frozen=True, kw_only=True)
class LoadChange:
    """One thing that may come worse than planned: `made(trial, rate, share)` is the pool and its load with it."""

    name: str
    what: str
    rungs: tuple[float, ...]
    made: Callable[[Trial, float, float], tuple[Trial, float]]
    needs_mix: bool = True


@dataclass(frozen=True, kw_only=True)
class LoadMargin:
    """One change: `holds_fraction` of it violates nothing, `breaks_fraction` (the next rung) violates `breaks`.

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
    basis: str
    lines: tuple[LoadMargin, ...]
    figures: Mapping[str, Figure]

    def line(self, name: str) -> LoadMargin:
        return next(each for each in self.lines if each.name == name)

    @property
    def capacity_rps(self) -> float:
        """The highest load that passes with confidence."""
        return self.rate_rps * (1.0 + self.line("traffic").holds_fraction)

    @property
    def notes(self) -> tuple[str, ...]:
        how = (
            f"Headroom is that of the steady replicas at the planning rate, with {self.basis} step times and no "
            "reserve; one change at a time, on the windows of the pool's size."
        )
        return (how,)


def headroom(
    trial: Trial,
    probe: Probe,
    *,
    rate_rps: float,
    seed: int,
    sized: LeastReplicas | None = None,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> Headroom:
    """Try every change on the pool that the trial describes (its replicas, its mix, its SLOs) at this rate.

    `sized` is the search that ended with this pool: what it found not to hold is not tried again.
    """
    stretched, tried_rps = rare_traffic(trial, rate_rps)
    ask = _Asked(
        trial=stretched,
        rate_rps=tried_rps,
        probe=probe,
        seed=seed,
        base=_base(stretched, tried_rps, sized),
        fewer=sized.below if sized is not None and sized.tested_replicas < sized.replicas else None,
        map=map,
    )
    lines = [
        _margin(change, functools.cache(functools.partial(ask.decided, change)), functools.partial(ask.scouted, change))
        for change in CHANGES
        if not change.needs_mix or isinstance(trial.load_at, MixLoad)
    ]
    found = Headroom(replicas=trial.replicas, rate_rps=rate_rps, basis=trial.basis, lines=tuple(lines), figures={})
    return replace(found, figures=_figures(found, inputs))


def _base(trial: Trial, rate_rps: float, sized: LeastReplicas | None) -> Beside | None:
    """What the size's search decided of this very pool at this rate; None where it was of another."""
    if sized is None or sized.replicas != trial.replicas:
        return None
    tested, tested_rps = tested_pool(trial, rate_rps, trial.replicas)
    if not math.isclose(sized.tested_rps, tested_rps, rel_tol=1e-9):
        return None
    return Beside(trial=tested, found=sized.at)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The pool and its load, and what its size's search knows of them.

    `base` decided the pool as planned, and `fewer` one step fewer: one sub-pool stands for every number of a large
    pool, so that a step fewer was the same pool under more traffic.
    """

    trial: Trial
    rate_rps: float
    probe: Probe
    seed: int
    base: Beside | None
    fewer: Decision | None
    map: Any

    def decided(self, change: LoadChange, place: int) -> Decision:
        """A rung, decided by as many windows as that takes."""
        tested, load_rps, known = self._tested(change, place)
        return known or decide(tested, load_rps, self.probe, seed=self.seed, effort=EFFORT, map=self.map)

    def scouted(self, change: LoadChange, place: int) -> Decision | None:
        """A rung by a few windows, beside the plan itself; None where that was decided by none."""
        if self.base is None:
            return None
        tested, load_rps, known = self._tested(change, place)
        return known or decide_beside(
            tested, load_rps, self.probe, self.base, seed=self.seed, effort=EFFORT, map=self.map
        )

    def _tested(self, change: LoadChange, place: int) -> tuple[Trial, float, Decision | None]:
        """The pool that stands for the changed one, its load, and what is known of it already."""
        changed, load_rps = change.made(self.trial, self.rate_rps, change.rungs[place])
        tested, tested_rps = tested_pool(changed, load_rps, changed.replicas)
        is_fewer = self.fewer is not None and not self.fewer.holds and change is CHANGES[0]
        is_fewer = is_fewer and tested.replicas < changed.replicas
        known = self.fewer if is_fewer and self.fewer is not None and tested_rps >= self.fewer.rate_rps else None
        return tested, tested_rps, known


def _margin(
    change: LoadChange, at: Callable[[int], Decision], scouted: Callable[[int], Decision | None] = lambda _: None
) -> LoadMargin:
    """The last rung that passes, searched from below: the least pool has little to spare, and overload takes long.

    Where few windows can show where to look they do; the rung that they end with must hold by many.
    """
    rungs = change.rungs
    seen: dict[int, Decision] = {}

    def look_at(place: int) -> Decision:
        if place not in seen:
            seen[place] = scouted(place) or at(place)
        return seen[place]

    low, high, stride = -1, len(rungs), 2 if rungs is TRAFFIC_RUNGS else 1
    while high - low > 1:
        look = min(low + stride, len(rungs) - 1) if high == len(rungs) else (low + high) // 2
        low, high = (look, high) if look_at(look).holds else (low, look)
        stride *= 2
    while low >= 0 and not at(low).holds:
        seen[low] = at(low)
        low, high = low - 1, low
    # Few windows leave open what many may decide.
    while high < len(rungs) and seen[high].passes and at(high).holds:
        low, high = high, high + 1
        look_at(min(high, len(rungs) - 1))
    if high < len(rungs) and seen[high].passes:
        seen[high] = at(high)
    return LoadMargin(
        name=change.name,
        what=change.what,
        holds_fraction=rungs[low] if low >= 0 else 0.0,
        breaks_fraction=rungs[high] if high < len(rungs) else None,
        breaks=_named(look_at(high)) if high < len(rungs) else "",
    )


def _named(found: Decision) -> str:
    """What is violated, or comes closest where it cannot be told."""
    return found.violated[0] if found.violated else ("" if found.first is None else found.first.name)


def _more_traffic(trial: Trial, rate_rps: float, growth: float) -> tuple[Trial, float]:
    return trial, rate_rps * (1.0 + growth)


def _longer_prompts(trial: Trial, rate_rps: float, growth: float) -> tuple[Trial, float]:
    return _with_model(trial, prompts(1.0 + growth)), rate_rps


def _longer_outputs(trial: Trial, rate_rps: float, growth: float) -> tuple[Trial, float]:
    return _with_model(trial, outputs(1.0 + growth)), rate_rps


def _fewer_hits(trial: Trial, rate_rps: float, loss: float) -> tuple[Trial, float]:
    return _with_model(trial, lambda model: _less_reuse(model, loss)), rate_rps


CHANGES: tuple[LoadChange, ...] = (
    LoadChange(name="traffic", what="more traffic", rungs=TRAFFIC_RUNGS, made=_more_traffic, needs_mix=False),
    LoadChange(name="prompts", what="longer prompts", rungs=GROWTH_RUNGS, made=_longer_prompts),
    LoadChange(name="outputs", what="longer outputs", rungs=GROWTH_RUNGS, made=_longer_outputs),
    LoadChange(name="cache", what="fewer cached prompt tokens", rungs=LOSS_RUNGS, made=_fewer_hits),
)


def _with_model(trial: Trial, change: Callable[[SyntheticModel], SyntheticModel]) -> Trial:
    mix = trial.load_at
    assert isinstance(mix, MixLoad)
    return replace(trial, load_at=replace(mix, model=change(mix.model)))


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
        else f"simulated on {found.replicas} replicas; {line.breaks_fraction:.3g} violates {line.breaks}"
    )
    return f"{line.what} that violates no SLO: {end}"
