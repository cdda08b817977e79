"""Joint draws of a pool's week: how heavy each hour may be, in requests of the planned mix at nominal step times.

A row is one future: every class's level, the step-time ratio, lengths and the cached share, drawn together. Classes err
together as far as their errors were seen to; lengths and traffic by a stated correlation. A future's hours are the
week's season at its level, and its busiest hour is the highest of them in work, not in requests: a class of long
prompts counts for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import Assumption
from ullage.fleet.risk.quasi_random import normal_scores, sobol_points
from ullage.fleet.risk.spread import Floats, RatioSpread
from ullage.fleet.risk.surface import OUTPUTS, PROMPTS, CapacitySurface

DEMAND = "demand"


@dataclass(frozen=True, kw_only=True)
class ClassLevel:
    """One class: its busiest hour as often exceeded as not, its week as parts of that hour, how far it may be off."""

    name: str
    middle_rps: float
    heights: tuple[float, ...]
    spread: RatioSpread
    planned_rps: float


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """An input of the surface and how far it may be off, with the assumption that says so."""

    name: str
    spread: RatioSpread
    assumption: Assumption


@dataclass(frozen=True, kw_only=True)
class Uncertainties:
    """All that a pool's need hangs on. `correlations` are the classes' among each other, `traffic_lengths` theirs with
    lengths, `surface_deviation_fraction` what the capacity surface itself may be off by."""

    classes: tuple[ClassLevel, ...]
    correlations: tuple[tuple[float, ...], ...]
    inputs: tuple[Uncertain, ...]
    traffic_lengths: float
    surface_deviation_fraction: float = 0.0

    @property
    def groups(self) -> tuple[str, ...]:
        """What each column of the drawn points belongs to."""
        own = [DEMAND] * len(self.classes)
        return (
            *own,
            *(each.name for each in self.inputs),
            *(["simulation"] if self.surface_deviation_fraction else []),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.groups))

    def only(self, names: Sequence[str]) -> Uncertainties:
        """The same with everything else at its planned value."""
        exact = RatioSpread(scores=(-1.0, 1.0), logs=(0.0, 0.0))
        return replace(
            self,
            classes=tuple(each if DEMAND in names else replace(each, spread=exact) for each in self.classes),
            inputs=tuple(each if each.name in names else replace(each, spread=exact) for each in self.inputs),
            surface_deviation_fraction=self.surface_deviation_fraction if "simulation" in names else 0.0,
        )

    def input(self, name: str) -> Uncertain | None:
        return next((each for each in self.inputs if each.name == name), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadDraws:
    """By draw (a row): the load of each hour of the week, and the replicas it needs; `ratios` by name."""

    ratios: Mapping[str, Floats]
    levels: Floats
    hours_rps: Floats
    slowdowns: Floats
    needed: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.needed.size)

    @property
    def busiest_rps(self) -> Floats:
        """The busiest hour's load, in requests of the planned mix, before anything is slower than nominal."""
        return np.asarray(self.hours_rps.max(axis=1))


def drawn_points(given: Uncertainties, count: int, *, seed: int) -> Floats:
    """Points of the unit cube, a column for each of the given's groups."""
    return sobol_points(count, max(1, len(given.groups)), np.random.default_rng((seed, 20)))


def load_draws(
    given: Uncertainties, surface: CapacitySurface, points: Floats, *, together: Floats | None = None
) -> LoadDraws:
    """The futures at these points of the unit cube; `together` are the classes' scores where other pools share them."""
    scores = normal_scores(points)
    classes = len(given.classes)
    if together is None:
        together = class_scores(given.correlations, points[:, :classes])
    levels = np.stack(
        [each.spread.ratios(together[:, at]) for at, each in enumerate(given.classes)], axis=1
    )  # fmt: skip
    ratios: dict[str, Floats] = {}
    for at, each in enumerate(given.inputs, start=classes):
        own = scores[:, at]
        if each.name in (PROMPTS, OUTPUTS) and given.traffic_lengths:
            # Lengths go with the classes' common level, which has a deviation of one whatever their number.
            common = together.mean(axis=1) / max(float(np.sqrt(np.mean(given.correlations))), 1e-9)
            own = given.traffic_lengths * common + np.sqrt(1.0 - given.traffic_lengths**2) * own
        ratios[each.name] = each.spread.ratios(own)
    slow = surface.slowdowns(ratios) if ratios else np.ones(len(points))
    if given.surface_deviation_fraction:
        slow = slow * np.exp(given.surface_deviation_fraction * scores[:, -1])
    hours = _hours(given, surface, levels)
    return LoadDraws(
        ratios=ratios,
        levels=levels,
        hours_rps=hours,
        slowdowns=slow,
        needed=surface.needed(hours.max(axis=1) * slow),
    )


def class_scores(correlations: Sequence[Sequence[float]], points: Floats) -> Floats:
    """Normal scores of classes that err together so far, from points of the unit cube, a column for each class."""
    return np.asarray(normal_scores(points) @ _root(correlations).T)


def _hours(given: Uncertainties, surface: CapacitySurface, levels: Floats) -> Floats:
    """Requests of the planned mix, by draw and hour: classes weigh by their engine time."""
    work = np.array([surface.work_s.get(each.name, 1.0) for each in given.classes])
    planned = np.array([each.planned_rps for each in given.classes])
    weights = work * planned.sum() / float(work @ planned)
    rates = np.array([each.middle_rps for each in given.classes])[:, None] * np.array(
        [each.heights for each in given.classes]
    )
    return np.asarray(levels @ (weights[:, None] * rates))


def _root(correlations: Sequence[Sequence[float]]) -> Floats:
    """A square root of the correlations, the nearest where chance has made them impossible together."""
    values, vectors = np.linalg.eigh(np.array(correlations, np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt(np.maximum(np.square(root).sum(axis=1, keepdims=True), 1e-12)))
