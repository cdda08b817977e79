"""Several pools in one future: the chance that one of them falls short, from draws that they share.

Demand is one for all of them: a class is above its forecast in every pool that it comes to. Step times, lengths and
cached share of each pool err by themselves, and so do its failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.fleet.risk.inputs import class_correlations
from ullage.fleet.risk.load_draws import Uncertainties, class_scores, load_draws
from ullage.fleet.risk.quasi_random import sobol_points
from ullage.fleet.risk.shortfall import ShortfallModel
from ullage.fleet.risk.spread import Floats
from ullage.workload.demand.demand import ClassTraffic


@dataclass(frozen=True, kw_only=True, eq=False)
class JointPool:
    """A pool as it was studied: what is uncertain of it, its model, and its serving replicas."""

    given: Uncertainties
    model: ShortfallModel
    replicas: int


def joint_shortfall(
    pools: Sequence[JointPool], names: Sequence[str], correlations: Sequence[Sequence[float]], *, draws: int, seed: int
) -> float:
    """The chance that the busiest hour of some pool falls short; `names` are the service's classes."""
    width = max(len(each.given.groups) for each in pools) + len(names)
    points = sobol_points(draws, width, np.random.default_rng((seed, 20)))
    scores = dict(zip(names, class_scores(correlations, points[:, : len(names)]).T, strict=True))
    met = np.ones(draws)
    for at, each in enumerate(pools):
        met *= 1.0 - _chances(each, scores, points, at, seed)
    return float(1.0 - met.mean())


def _chances(pool: JointPool, scores: Mapping[str, Floats], points: Floats, at: int, seed: int) -> Floats:
    """By future, the chance of one pool; its own errors are paired with the common futures at random."""
    own = points[np.random.default_rng((seed, 20, at)).permutation(len(points)), len(scores) :]
    given = pool.given
    together = np.stack([scores[each.name] for each in given.classes], axis=1)
    drawn = load_draws(given, pool.model.surface, own[:, : len(given.groups)], together=together)
    return replace(pool.model, draws=drawn).chances(pool.replicas)


def service_classes(classes: Sequence[ClassTraffic]) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """The names of a service's classes, and how far they err together."""
    return tuple(each.name for each in classes), class_correlations(classes)
