"""Time to ready: how long a new replica takes from being wanted to being routed to, cold, warm and hot.

    time to ready = sum of the phases of its level (phases.py), each drawn from its spread (estimates.py)

Phases are drawn independently, except that boot, graph capture and warm-up share one draw: in the published logs
their deviations correlate by about 0.9, because all three wait for the same host's processors. Each phase is drawn
at evenly spaced ranks in shuffled order (a Latin hypercube), so that a phase has its own percentiles to the last
digit, means add up, and the same generator gives the same answer.

A start that skips work is never slower than one that does it: local weights, a compile cache and a sleeping engine
are taken draw by draw at the lesser of their own time and of the work they save.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.evidence import Figure
from ullage.facts.startup import startup_facts
from ullage.memory.budget import MemoryBudget
from ullage.startup.estimates import Estimate, estimates
from ullage.startup.figures import ready_figures
from ullage.startup.phases import HOLDS, LEVELS, Level, Phase
from ullage.startup.settings import StartSettings

DRAWS = 8192  # 80 of them lie beyond p99, which then moves by about 1 % from seed to seed

Draws = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PhaseTime:
    """What a phase takes within one level."""

    phase: Phase
    mean_s: float
    p50_s: float
    p90_s: float


@dataclass(frozen=True, kw_only=True)
class ReadyLevel:
    """The start from one level. `quantiles_s` are at 0, 1, ... 100 %."""

    level: Level
    phases: tuple[PhaseTime, ...]
    mean_s: float
    quantiles_s: tuple[float, ...]
    holds: str

    def quantile_s(self, fraction: float) -> float:
        """The time within which this share of starts is ready; between whole percents, interpolated."""
        return float(np.interp(100.0 * fraction, np.arange(len(self.quantiles_s)), self.quantiles_s))

    @property
    def p50_s(self) -> float:
        return self.quantile_s(0.50)

    @property
    def p90_s(self) -> float:
        return self.quantile_s(0.90)


@dataclass(frozen=True, kw_only=True)
class TimeToReady:
    """How long new capacity takes, from each level, and what that rests on."""

    levels: tuple[ReadyLevel, ...]
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]

    def level(self, level: Level) -> ReadyLevel:
        return next(each for each in self.levels if each.level is level)


def time_to_ready(memory: MemoryBudget, settings: StartSettings, *, rng: Generator) -> TimeToReady:
    """The phases of a replica of this budget, and their sum at every percentile, from each level."""
    facts = startup_facts(memory.runtime.engine, settings.sheets)
    found = estimates(memory, settings, facts)
    draws = _draws(found, rng)
    levels = tuple(_level(level, draws) for level in Level)
    return TimeToReady(
        levels=levels,
        figures=ready_figures(memory, found, _phase_times(draws), {each.level: each.quantiles_s for each in levels}),
        notes=_notes(facts.fallback, settings, memory.runtime.version),
    )


def _draws(found: Mapping[Phase, Estimate], rng: Generator) -> dict[Phase, Draws]:
    """Every phase's durations, index by index of one start."""
    luck = _luck(found, rng)
    drawn = {
        phase: np.maximum(estimate.spread.at(luck[estimate.moves_with]), estimate.floor_s)
        for phase, estimate in found.items()
    }
    for quick, slow in ((Phase.WEIGHTS_LOCAL, Phase.WEIGHTS), (Phase.COMPILE_CACHED, Phase.COMPILE)):
        if quick in drawn and slow in drawn:
            drawn[quick] = np.minimum(drawn[quick], drawn[slow])
    if Phase.ENGINE in drawn:
        # The engine was timed with its weights at hand; a new node also waits for what reading them takes longer.
        drawn[Phase.WEIGHTS] = drawn[Phase.WEIGHTS] - drawn.pop(Phase.WEIGHTS_LOCAL)
    drawn[Phase.WAKE] = np.minimum(drawn[Phase.WAKE], _sum(_of_level(Level.WARM, drawn, before=Phase.PROBE)))
    return drawn


def _luck(found: Mapping[Phase, Estimate], rng: Generator) -> dict[str, Draws]:
    """Standard normal deviates by what moves together: evenly spaced ranks, shuffled anew for each."""
    deviates = _evenly_spaced()
    # In the order of the phases, so that measuring one leaves the draws of the others as they are.
    names = dict.fromkeys(found[phase].moves_with if phase in found else phase.value for phase in Phase)
    return {name: deviates[rng.permutation(DRAWS)] for name in names}


@functools.cache
def _evenly_spaced() -> Draws:
    """Standard normal deviates at the middles of equal shares, the least first."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / DRAWS) for rank in range(DRAWS)])


def _of_level(level: Level, draws: Mapping[Phase, Draws], *, before: Phase | None = None) -> dict[Phase, Draws]:
    phases = LEVELS[level]
    until = len(phases) if before is None else phases.index(before)
    return {phase: draws[phase] for phase in phases[:until] if phase in draws}


def _sum(draws: Mapping[Phase, Draws]) -> Draws:
    return np.asarray(np.sum(list(draws.values()), axis=0), dtype=np.float64)


def _level(level: Level, draws: Mapping[Phase, Draws]) -> ReadyLevel:
    own = _of_level(level, draws)
    total = _sum(own)
    times = _phase_times(own)
    return ReadyLevel(
        level=level,
        phases=tuple(times.values()),
        mean_s=float(total.mean()),
        quantiles_s=tuple(float(each) for each in np.quantile(total, np.arange(101) / 100)),
        holds=HOLDS[level],
    )


def _phase_times(draws: Mapping[Phase, Draws]) -> dict[Phase, PhaseTime]:
    return {
        phase: PhaseTime(
            phase=phase,
            mean_s=float(each.mean()),
            p50_s=float(np.quantile(each, 0.5)),
            p90_s=float(np.quantile(each, 0.9)),
        )
        for phase, each in draws.items()
    }


def _notes(fallback: str, settings: StartSettings, version: str) -> tuple[str, ...]:
    """Caveats that no figure carries."""
    notes = [fallback] if fallback else []
    if not settings.measured:
        notes.append("No start of this pool was measured: hosts differ by a factor of three. Give a start-up log.")
    others = sorted({each.version for each in settings.measured} - {"", version})
    if others:
        notes.append(f"The starts were measured with version {', '.join(others)}; the plan is for {version}.")
    return tuple(notes)
