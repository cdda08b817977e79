"""What would move the highest load: engine settings that can be chosen, and traffic that can only be watched.

Each change is tried by simulation on the same seeds and the same grid of loads, one at a time. A difference of one
step of the grid is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ullage.service.curve.curve import ServiceCurve
from ullage.service.trial.decide import BRIEF, Effort
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import HighestLoad, highest_load
from ullage.service.trial.trial import Trial
from ullage.simulate.engine import Engine
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel, SyntheticModel

SETTING, TRAFFIC = "setting", "traffic"
# How far traffic is moved: by a quarter, as a new model version or product does over months.
LENGTH_RATIO = 1.25
TAIL_FROM_FRACTION = 0.95
TAIL_RATIO = 1.5


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One change: the highest load with it, against the highest without, and the SLO that then binds."""

    kind: str
    change: str
    highest_rps: float
    base_rps: float
    step_rps: float
    binding: str

    @property
    def is_difference(self) -> bool:
        """Whether it is more than the grid's own coarseness."""
        return abs(self.highest_rps - self.base_rps) > 1.5 * self.step_rps

    @property
    def change_fraction(self) -> float:
        return self.highest_rps / self.base_rps - 1.0 if self.base_rps > 0.0 else 0.0


def try_changes(curve: ServiceCurve, *, effort: Effort = BRIEF, map: Any = map) -> tuple[Tried, ...]:  # noqa: A002
    """Every change that this replica and mix allow, the largest gain first within its kind."""

    def highest(trial: Trial) -> HighestLoad:
        return highest_load(trial, curve.probe, seed=curve.seed, effort=effort, with_interval=False, map=map)

    base = highest(curve.trial)
    tried = []
    for kind, change, trial in (*_settings(curve.trial), *_traffic(curve.trial)):
        found = highest(trial)
        tried.append(
            Tried(
                kind=kind,
                change=change,
                highest_rps=found.rps,
                base_rps=base.rps,
                step_rps=base.step_rps,
                binding=found.binding,
            )
        )
    return tuple(sorted(tried, key=lambda each: (each.kind, -each.highest_rps)))


def _settings(trial: Trial) -> Iterator[tuple[str, str, Trial]]:
    engine = trial.replica.engine

    def changed(other: Engine) -> Trial:
        return replace(trial, replica=replace(trial.replica, engine=other))

    for ratio in (16, 4):
        fewer = engine.max_sequences // ratio
        if fewer >= 1:
            yield SETTING, f"max sequences {fewer}", changed(replace(engine, max_sequences=fewer))
    for budget in (engine.budget_tokens // 4, engine.budget_tokens * 2):
        if budget >= engine.max_sequences:
            yield SETTING, f"token budget {budget}", changed(replace(engine, budget_tokens=budget))
    chunk = engine.budget_tokens // 8
    if chunk >= 1:
        change = f"at most {chunk} prefill tokens of a request in a step"
        yield SETTING, change, changed(replace(engine, long_prefill_tokens=chunk))
    roomy = changed(replace(engine, kv_blocks=2 * engine.kv_blocks))
    if isinstance(mix := trial.load_at, MixLoad):
        # The blocks hold prefixes too.
        roomy = replace(roomy, load_at=replace(mix, cache_blocks=2 * mix.cache_blocks))
    yield SETTING, "twice the KV blocks, as a KV dtype half as wide gives", roomy


def _traffic(trial: Trial) -> Iterator[tuple[str, str, Trial]]:
    mix = trial.load_at
    if not isinstance(mix, MixLoad):
        return
    yield TRAFFIC, "no prefix hits", replace(trial, load_at=replace(mix, cache_blocks=-1.0))
    longer = _lengths(mix.model, _longer_outputs)
    yield TRAFFIC, f"outputs {LENGTH_RATIO:g} times as long", replace(trial, load_at=replace(mix, model=longer))
    tail = _lengths(mix.model, _longer_tail)
    change = f"the longest {1 - TAIL_FROM_FRACTION:.0%} of prompts {TAIL_RATIO:g} times as long"
    yield TRAFFIC, change, replace(trial, load_at=replace(mix, model=tail))


def _lengths(model: SyntheticModel, change: Callable[[LengthModel], LengthModel]) -> SyntheticModel:
    def one(each: ClassModel) -> ClassModel:
        return replace(each, lengths=change(each.lengths))

    return SyntheticModel(classes=tuple(one(each) for each in model.classes))


def _longer_outputs(lengths: LengthModel) -> LengthModel:
    return replace(lengths, output_tokens=tuple(each * LENGTH_RATIO for each in lengths.output_tokens))


def _longer_tail(lengths: LengthModel) -> LengthModel:
    longer = tuple(
        tokens * (TAIL_RATIO if fraction > TAIL_FROM_FRACTION else 1.0)
        for fraction, tokens in zip(FRACTIONS, lengths.prompt_tokens, strict=True)
    )
    return replace(lengths, prompt_tokens=longer)
