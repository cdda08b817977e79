"""The value of information: what a measurement is expected to save before it is made.

A measurement splits what is not known of an input into a part that it will show and a part that stays. In normal
scores, with `left` the deviation that stays over the one there is now,

    score = sqrt(1 - left^2) shown + left rest

For every outcome `shown` the fleet is chosen anew at the same risk; the mean of what these fleets cost, over all
outcomes, less what today's fleet costs, is what the measurement saves, and its price is taken off. A measurement that
leaves everything as it is saves nothing, and no measurement makes the expected cost higher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.fleet.risk.load_draws import Uncertainties, load_draws
from ullage.fleet.risk.quasi_random import normal_fractions, normal_scores
from ullage.fleet.risk.shortfall import ShortfallModel
from ullage.fleet.risk.surface import CapacitySurface

Floats = NDArray[np.float64]
OUTCOMES = 32


@dataclass(frozen=True, kw_only=True)
class PossibleMeasurement:
    """Something that can be measured: what part of which inputs' deviation stays, and its price.

    `usd` is None where nothing says what it costs.
    """

    name: str
    what: str
    left_fractions: Mapping[str, float]
    usd: float | None


@dataclass(frozen=True, kw_only=True)
class InformationValue:
    """What a measurement is expected to change at the same risk: replicas, and USD a month before its price.

    `hopeless_fraction` is the chance of an outcome after which no number of replicas keeps the risk.
    """

    measurement: PossibleMeasurement
    now_replicas: int
    expected_replicas: float
    low_replicas: int
    high_replicas: int
    saves_usd: float | None
    hopeless_fraction: float


def information_value(
    measurement: PossibleMeasurement,
    given: Uncertainties,
    points: Floats,
    chosen: Callable[[Floats], int | None],
    *,
    now: int,
    usd_of: Callable[[int], float] | None,
) -> InformationValue:
    """The expectation over outcomes of the measurement; `chosen` is the fleet for points of the unit cube."""
    fleets = [chosen(each) for each in shown_points(measurement, given.groups, points)]
    # The same points before anything is shown: fewer draws than decided `now` must not look like information.
    before = chosen(points)
    counted = [now if each is None or before is None else max(1, now + each - before) for each in fleets]
    saved = None if usd_of is None else usd_of(now) - float(np.mean([usd_of(each) for each in counted]))
    low, high = np.quantile(counted, [0.1, 0.9], method="nearest").tolist()
    return InformationValue(
        measurement=measurement,
        now_replicas=now,
        expected_replicas=float(np.mean(counted)),
        low_replicas=int(low),
        high_replicas=int(high),
        saves_usd=saved,
        hopeless_fraction=sum(each is None for each in fleets) / len(fleets),
    )


def shown_points(measurement: PossibleMeasurement, groups: Sequence[str], points: Floats) -> list[Floats]:
    """For every outcome, the points as they are drawn once it is known: what was shown is fixed, the rest is left."""
    shown = normal_scores((np.arange(OUTCOMES) + 0.5) / OUTCOMES)
    own = [at for at, each in enumerate(groups) if each in measurement.left_fractions]
    found = []
    for step, score in enumerate(shown):
        known = points.copy()
        for place, at in enumerate(own):
            left = measurement.left_fractions[groups[at]]
            # Columns that are shown together have outcomes of their own: each goes through them in another order.
            other = shown[(step * _STRIDES[place % len(_STRIDES)] + place) % OUTCOMES] if place else score
            known[:, at] = normal_fractions(np.sqrt(1.0 - left**2) * other + left * normal_scores(points[:, at]))
        found.append(known)
    return found


# Odd numbers have no factor with a power of two, so that each stride visits every outcome once.
_STRIDES = (1, 5, 11, 17, 23, 29)


def chooser(
    given: Uncertainties, surface: CapacitySurface, model: ShortfallModel, shortfall_fraction: float
) -> Callable[[Floats], int | None]:
    """The least fleet at this risk for any points, failing and being repaired as the model's does."""

    def chosen(points: Floats) -> int | None:
        drawn = load_draws(given, surface, points)
        return ShortfallModel(
            draws=drawn, surface=surface, domains_of=model.domains_of, outages=model.outages
        ).least(shortfall_fraction)  # fmt: skip

    return chosen
