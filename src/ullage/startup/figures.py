"""Time to ready as figures: every phase and every level, down to facts, logs and stated values.

Names start with `ready.`; a phase's are `ready.boot_p50_s` and `_p90_s`, a level's `ready.cold_p50_s`, `_p90_s` and
`_p99_s`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ullage.evidence import Assumption, Evidence, Figure
from ullage.memory.budget import MemoryBudget
from ullage.startup.estimates import Estimate, checkpoint_bytes
from ullage.startup.phases import LEVELS, Level, Phase

_PERCENTS = (50, 90, 99)


class _Time(Protocol):
    @property
    def p50_s(self) -> float: ...
    @property
    def p90_s(self) -> float: ...


def ready_figures(
    memory: MemoryBudget,
    found: Mapping[Phase, Estimate],
    times: Mapping[Phase, _Time],
    quantiles_s: Mapping[Level, Sequence[float]],
) -> dict[str, Figure]:
    """Levels first, since they are the answer; then phases in the order in which they pass."""
    phases = {phase: _phase_figures(found[phase], found, times[phase]) for phase in Phase if phase in times}
    named = [
        *(each for level in Level for each in _level_figures(level, phases, quantiles_s[level])),
        _held(memory),
        checkpoint_bytes(memory),
        *(each for pair in phases.values() for each in pair),
        *(_default(estimate) for estimate in found.values() if estimate.default is not None),
    ]
    return {figure.name: figure for figure in named}


def _phase_figures(estimate: Estimate, found: Mapping[Phase, Estimate], time: _Time) -> tuple[Figure, Figure]:
    formula, inputs = _explained(estimate, found)
    middle = Figure(
        name=f"ready.{estimate.phase}_p50_s", value=round(time.p50_s, 3), unit="s", formula=formula, inputs=inputs
    )
    high = Figure(
        name=f"ready.{estimate.phase}_p90_s",
        value=round(time.p90_s, 3),
        unit="s",
        formula="p90 of the same; spread of repeats on one host" if estimate.is_measured else "p90 of the same",
        inputs=(middle, *estimate.spread_inputs),
    )
    return middle, high


def _explained(estimate: Estimate, found: Mapping[Phase, Estimate]) -> tuple[str, tuple[Figure | Assumption, ...]]:
    """The formula and inputs of a phase, with what holds it down where it stands in for slower work."""
    slower = {Phase.WEIGHTS_LOCAL: Phase.WEIGHTS, Phase.COMPILE_CACHED: Phase.COMPILE}.get(estimate.phase)
    if slower is not None and slower in found:
        return f"{estimate.formula}; at most {slower}", (*estimate.inputs, *found[slower].inputs)
    if estimate.phase is Phase.WEIGHTS and Phase.ENGINE in found:
        local = found[Phase.WEIGHTS_LOCAL]
        return f"{estimate.formula}; less the same from a local disk", (*estimate.inputs, *local.inputs)
    return estimate.formula, estimate.inputs


def _level_figures(
    level: Level, phases: Mapping[Phase, tuple[Figure, Figure]], quantiles_s: Sequence[float]
) -> list[Figure]:
    inputs = tuple(each for phase in LEVELS[level] if phase in phases for each in phases[phase])
    names = ", ".join(str(phase) for phase in LEVELS[level] if phase in phases)
    return [
        Figure(
            name=f"ready.{level}_p{percent}_s",
            value=round(quantiles_s[percent], 3),
            unit="s",
            formula=f"p{percent} of {names} together" if percent == _PERCENTS[0] else f"p{percent} of the same",
            inputs=inputs,
        )
        for percent in _PERCENTS
    ]


def _held(memory: MemoryBudget) -> Figure:
    settings, sharding = memory.runtime.settings, memory.runtime.sharding
    return Figure(
        name="ready.held_devices",
        value=sharding.devices,
        unit="devices",
        formula="tp x pp, kept idle for each warm or hot start; a cold one keeps none",
        inputs=(settings.stated("tp", sharding.tp, "devices"),)
        if sharding.pp == 1
        else (settings.stated("tp", sharding.tp, "devices"), settings.stated("pp", sharding.pp, "devices")),
    )


def _default(estimate: Estimate) -> Figure:
    default = estimate.default
    assert default is not None, estimate.phase
    return Figure(
        name=f"ready.default.{estimate.phase}_p50_s",
        value=round(default.spread.median_s, 3),
        unit="s",
        formula=f"{default.formula}; replaced by what was measured",
        inputs=default.inputs,
        own_evidence=Evidence.ASSUMED,
    )
