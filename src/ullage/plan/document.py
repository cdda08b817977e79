"""The plan as one immutable value: what was asked, what every stage answered, and the verdict."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ullage.errors import NotBuilt, NotGiven, unknown_name
from ullage.evidence import Assumption, Figure, assumptions_of
from ullage.plan.spec import PlanSpec


class Verdict(enum.Enum):
    """What can be said of the plan as a whole."""

    HOLDS = "holds"
    INCOMPLETE = "incomplete"


class Answer(Protocol):
    """What a stage hands over: figures that explain themselves, by name, in the order they are printed."""

    @property
    def figures(self) -> Mapping[str, Figure]: ...


@runtime_checkable
class Noted(Protocol):
    """An answer with sentences beside its figures: what was approximated, what is doubtful, what to measure next."""

    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of the chain, and its answer or the word that it is not built."""

    name: str
    answer: Answer | NotBuilt | NotGiven

    @property
    def is_built(self) -> bool:
        return not isinstance(self.answer, NotBuilt)

    @property
    def figures(self) -> tuple[Figure, ...]:
        return () if isinstance(self.answer, NotBuilt | NotGiven) else tuple(self.answer.figures.values())

    @property
    def notes(self) -> tuple[str, ...]:
        return self.answer.notes if isinstance(self.answer, Noted) else ()


def stages(**answers: Answer | NotBuilt | NotGiven) -> tuple[Stage, ...]:
    """The stages in the order in which they are named here."""
    return tuple(Stage(name=name, answer=answer) for name, answer in answers.items())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A finished plan. It claims no more than the stages that exist could say."""

    spec: PlanSpec
    as_of: datetime.date
    seed: int
    stages: tuple[Stage, ...]

    @property
    def verdict(self) -> Verdict:
        return Verdict.HOLDS if all(stage.is_built for stage in self.stages) else Verdict.INCOMPLETE

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(figure for stage in self.stages for figure in stage.figures)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Everything the plan rests on: the inputs it was given, and every default and fact behind a figure."""
        return assumptions_of([*self.spec.inputs, *self.figures])

    @property
    def stale(self) -> tuple[Assumption, ...]:
        return tuple(each for each in self.assumptions if each.is_stale(self.as_of))

    def followed_by(self, **answers: Answer | NotBuilt) -> Plan:
        """The plan with the answers of stages that work around it, such as uncertainty."""
        return replace(self, stages=self.stages + stages(**answers))

    def find(self, name: str) -> Figure | Assumption:
        """The printed number of this name; an unknown name is answered with the nearest."""
        known: dict[str, Figure | Assumption] = {each.name: each for each in self.assumptions}
        known.update({each.name: each for each in self.figures})
        if name not in known:
            raise unknown_name(field="--explain", name=name, known=known, fix="ullage plan --json lists every name.")
        return known[name]
