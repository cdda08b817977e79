"""The plan as one immutable value: the specification, the result of every stage, and the verdict."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ullage.errors import NotGiven, check_name
from ullage.evidence import Assumption, Figure, assumptions_of, by_name
from ullage.planning.answer.verdict import Verdict, verdict
from ullage.planning.spec import PlanSpec

if TYPE_CHECKING:
    from ullage.fleet.risk.planning_point import PlanningPoint
    from ullage.planning.pool_plan import PoolPlan


class StageAnswer(Protocol):
    """What a stage hands over: figures that explain themselves, by name, in the order they are printed."""

    @property
    def figures(self) -> Mapping[str, Figure]: ...


@runtime_checkable
class Noted(Protocol):
    """An answer with sentences beside its figures: what was approximated, what is uncertain, what to measure next."""

    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the chain, and its answer, or the statement that it had nothing to work from.

    `pool` is the pool it was worked out for, among several; a stage of the whole service has none. `figures` stand
    under the stage's own keys; among several pools a figure's name begins with its pool's. One that
    `is_around` the plan is computed from it, and nothing of the plan depends on it.
    """

    name: str
    answer: StageAnswer | NotGiven
    figures: Mapping[str, Figure]
    pool: str = ""
    is_around: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        return self.answer.notes if isinstance(self.answer, Noted) else ()


def service_stages(**answers: StageAnswer | NotGiven) -> tuple[Stage, ...]:
    """Stages of the whole service, in the order in which they are named here."""
    return tuple(
        Stage(name=name, answer=answer, figures={} if isinstance(answer, NotGiven) else answer.figures)
        for name, answer in answers.items()
    )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A finished plan. It claims no more than the stages that exist could say.

    `pools` are what the stages found, as values to compute with; `stages` are the same as a reader meets them. `point`
    is the percentile of demand, and with it the pace of steps, that its risk requires.
    """

    spec: PlanSpec
    as_of: datetime.date
    seed: int
    pools: tuple[PoolPlan, ...]
    point: PlanningPoint
    stages: tuple[Stage, ...]

    @property
    def verdict(self) -> Verdict:
        """What to do with it (verdict.py has the rules)."""
        return verdict(self)[0]

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figure for stage in self.stages for figure in stage.figures.values())

    def figures_of(self, stage: str, pool: str = "") -> Mapping[str, Figure]:
        """The figures of a stage of this pool, or of the whole service, under its own keys; none where it has none."""
        found = (each.figures for each in self.stages if each.name == stage and each.pool in ("", pool))
        return next(found, {})

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Everything the plan rests on: the inputs it was given, and every default and fact behind a figure.

        They are the same with a risk study around the plan and without one, so that every verb counts alike.
        """
        own = (figure for stage in self.stages if not stage.is_around for figure in stage.figures.values())
        return assumptions_of([*self.spec.inputs, *own])

    @property
    def stale(self) -> tuple[Assumption, ...]:
        return tuple(each for each in self.assumptions if each.is_stale(self.as_of))

    def followed_by(self, **answers: StageAnswer | NotGiven) -> Plan:
        """The plan with the answers of stages that work around it, such as uncertainty."""
        around = tuple(replace(each, is_around=True) for each in service_stages(**answers))
        return replace(self, stages=self.stages + around)

    def find(self, name: str) -> Figure | Assumption:
        """The printed number of this name; an unknown name is answered with the nearest."""
        # The answer is made of a plan, so that this module cannot know it before there is one.
        from ullage.planning.answer.answer import answer
        from ullage.planning.reserve_parts import fleet_parts

        # The inputs of a figure are printed too, so they are looked up like the figure itself.
        known = by_name([*self.spec.inputs, *answer(self).figures.values(), *self.figures])
        known.update({each.name: each for each in self.figures})
        if name not in known:
            stacked = [each.stacked.usd for each in fleet_parts(self) if each.stacked is not None]
            known.update({each.name: each for each in stacked if each is not None})
        check_name(name, known, field="--explain", fix="ullage plan --json lists every name.")
        return known[name]
