"""The point a fleet is planned for: demand at the chosen risk, and how slow steps may be beside it.

What a pool needs depends on demand, step times, lengths and the cached share, all of which are uncertain and are
hardly ever at their worst together. They are drawn jointly, as logarithms of true over planned:

    slow = steps + (prompts, outputs and cached share, each as the step times that would need as many replicas)
    need = demand + elasticity x slow + curvature x slow^2

The need that is exceeded with the chosen chance is what has to be bought. Demand takes its own percentile of it, so
that the planning rate is one that a forecast can be held to; what is left is planned as slower steps:

    need(1 - shortfall) = demand(1 - shortfall) + elasticity x planned + curvature x planned^2

The pool is then sized by simulation at that demand with steps that slow, which is exact where elasticity and curvature
are about right; the study of the plan (uncertainty/) finds them for the pool by trials, and says what risk is left.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.fleet.risk.inputs import TRAFFIC_LENGTHS, shape_uncertainties, step_uncertainty
from ullage.fleet.risk.need import PlannedNeed
from ullage.fleet.risk.quasi_random import normal_scores, sobol_points
from ullage.fleet.risk.spread import Floats, RatioSpread
from ullage.fleet.risk.surface import CACHED, LIKELY_SLOPES, OUTPUTS, PROMPTS, STEPS
from ullage.service.steps.band import StepBand
from ullage.workload.demand.demand import Demand

_NORMAL = NormalDist()
_INPUTS = (STEPS, PROMPTS, OUTPUTS, CACHED)
_DRAWS, _EVEN = 2**16, 0.5
_SURFACES = Source(
    what="default of Ullage: elasticity of replicas needed to this input, as found on capacity surfaces of pools",
    where="docs/explanation/risk.md",
    date=datetime.date(2026, 11, 16),
)


def _sensitivity(name: str, value: float, low: float, high: float) -> Assumption:
    return Assumption(
        name=f"uncertainty.{name}", value=value, unit="ratio",
        evidence=Evidence.ASSUMED, source=_SURFACES, low=low, high=high, decision=True,
    )  # fmt: skip


ELASTICITIES: Mapping[str, Assumption] = {
    name: _sensitivity(f"{name}_elasticity", LIKELY_SLOPES[name], min(low, high), max(low, high))
    for name, low, high in ((STEPS, 1.0, 1.6), (PROMPTS, 0.5, 1.6), (OUTPUTS, 0.1, 1.0), (CACHED, -0.7, 0.0))
}
CURVATURE = _sensitivity("step_time_curvature", 1.0, 0.5, 3.0)


@dataclass(frozen=True, kw_only=True)
class NeedSpread:
    """How far a pool's need of replicas may be off: demand as a deviation of its logarithm, the rest as tables.

    `rests` is what says so.
    """

    demand_deviation_fraction: float
    slow: Mapping[str, RatioSpread]
    rests: tuple[Assumption, ...]

    @cached_property
    def _slow(self) -> Floats:
        """By draw, everything that slows, as a logarithm of step times."""
        return self._slow_by(_scores()[:, 0], _scores())

    def _slow_by(self, demand: Floats, scores: Floats) -> Floats:
        correlation = number(TRAFFIC_LENGTHS)
        found = np.zeros(len(scores))
        for at, name in enumerate(_INPUTS, start=1):
            own = scores[:, at]
            if name in (PROMPTS, OUTPUTS):
                own = correlation * demand + math.sqrt(1.0 - correlation**2) * own
            if name in self.slow:
                worth = number(ELASTICITIES[name]) / number(ELASTICITIES[STEPS])
                found += worth * np.log(self.slow[name].ratios(own))
        return found

    @cached_property
    def needs(self) -> Floats:
        """By draw, the logarithm of the need over that of the middle."""
        return np.asarray(self.demand_deviation_fraction * _scores()[:, 0] + _worth(self._slow))

    def needs_beside(self, at: int) -> Floats:
        """The same of a pool beside others: its demand moves with theirs, its steps and lengths by themselves."""
        if at == 0:
            return self.needs
        order = np.random.default_rng((0, at)).permutation(_DRAWS)
        scores = _scores()
        slow = self._slow_by(scores[:, 0], scores[order])
        return np.asarray(self.demand_deviation_fraction * scores[:, 0] + _worth(slow))

    @property
    def deviation_fraction(self) -> float:
        """Of the need, by its upper half: what lies between its median and its 95th percentile, in normal scores."""
        middle, high = np.quantile(self.needs, (0.5, 0.95)).tolist()
        return max(0.0, float(high - middle)) / _NORMAL.inv_cdf(0.95)

    def needed_ratio(self, shortfall_fraction: float, *, demand: bool, slow: Collection[str]) -> float:
        """Replicas over those of the median that are needed at this chance if only so much is uncertain."""
        only = replace(
            self,
            demand_deviation_fraction=self.demand_deviation_fraction if demand else 0.0,
            slow={name: each for name, each in self.slow.items() if name in slow},
        )
        return math.exp(float(np.quantile(only.needs, 1.0 - shortfall_fraction)))

    def step_fraction(self, shortfall_fraction: float) -> float:
        """Of what is needed beyond demand, the part for step times: demand is added first, steps next, lengths last."""
        bare = self.needed_ratio(shortfall_fraction, demand=True, slow=())
        steps = self.needed_ratio(shortfall_fraction, demand=True, slow=(STEPS,)) - bare
        whole = self.needed_ratio(shortfall_fraction, demand=True, slow=self.slow) - bare
        return min(1.0, max(0.0, steps) / whole) if whole > 0.0 else 0.0

    def slow_ratio(self, shortfall_fraction: float, demand_fraction: float | None = None) -> float:
        """How slow steps are planned beside demand at this chance; at the median everything is as expected.

        Where demand is planned at another chance than the need, `demand_fraction` is its own.
        """
        if shortfall_fraction >= _EVEN:
            return 1.0
        need = float(np.quantile(self.needs, 1.0 - shortfall_fraction))
        own = shortfall_fraction if demand_fraction is None else demand_fraction
        left = max(0.0, need - self.demand_deviation_fraction * _NORMAL.inv_cdf(1.0 - own))
        slope, bend = number(ELASTICITIES[STEPS]), number(CURVATURE)
        return math.exp((math.sqrt(slope**2 + 4.0 * bend * left) - slope) / (2.0 * bend))


@dataclass(frozen=True, kw_only=True)
class PoolPoint:
    """One pool at the planning point: its band with the slow side where it is planned, and what it may need."""

    band: StepBand
    need: PlannedNeed


@dataclass(frozen=True, kw_only=True)
class PlanningPoint:
    """The percentile of demand to plan for, common to all pools, and with it how slow the steps of each are taken.

    `shortfall` is the chance of the service, `pool_shortfall` that of each of its pools (`pool_chance`).
    """

    shortfall: Assumption
    demand_deviation_fraction: float
    percentile: Assumption
    pool_shortfall: Assumption

    def of_pool(self, band: StepBand, demand: Demand) -> PoolPoint:
        """How slow the steps of a pool with this band are taken, and how far its number of replicas may be off."""
        spread = need_spread(self.demand_deviation_fraction, band, demand)
        rests = (self.pool_shortfall, *spread.rests)
        slow = spread.slow_ratio(number(self.pool_shortfall), number(self.shortfall))
        ratio = Figure(
            name="risk.step_ratio",
            value=slow,
            unit="ratio",
            formula="step times that, with demand at the chosen risk, need what joint draws of demand, "
            "step times, lengths and cached share exceed with that chance",
            inputs=rests,
        )
        need = PlannedNeed(
            shortfall=self.pool_shortfall,
            deviation_fraction=spread.deviation_fraction,
            step_fraction=spread.step_fraction(number(self.pool_shortfall)),
            even_fraction=math.exp(-self.demand_deviation_fraction * max(0.0, _score(number(self.shortfall)))),
            rests=rests,
        )
        return PoolPoint(band=replace(band, slow_ratio=slow, planned=ratio), need=need)


def planning_point(shortfall: Assumption, middle: Demand, high: Demand) -> PlanningPoint:
    """The point of a service whose demand is `middle` at the median and `high` at the chosen risk."""
    return PlanningPoint(
        shortfall=shortfall,
        demand_deviation_fraction=_deviation(number(shortfall), middle.planning_rps, high.planning_rps),
        percentile=planned_percentile(shortfall),
        pool_shortfall=shortfall,
    )


def pool_chance(shortfall: Assumption, spreads: Sequence[NeedSpread]) -> Assumption:
    """The chance of each of several pools, equal for all, at which one of them falls short with the service's.

    Demand of all pools moves together, steps and lengths of each by themselves: between p for pools that only demand
    can bring down, all at once, and 1 - (1 - p)^(1/n) for pools that fall short one by one. At the median there is no
    margin to divide.
    """
    if len(spreads) < 2 or number(shortfall) >= _EVEN:
        return shortfall
    worst = np.zeros(_DRAWS)
    for at, each in enumerate(spreads):
        needs = each.needs_beside(at)
        # Of needs that are alike none is above the other: a pool without uncertainty never falls short.
        ranks = np.searchsorted(np.sort(needs), needs, side="left") / _DRAWS
        worst = np.maximum(worst, ranks)
    own = 1.0 - float(np.quantile(worst, 1.0 - number(shortfall)))
    return replace(
        shortfall,
        name="risk.pool_shortfall",
        value=min(number(shortfall), max(own, number(shortfall) / len(spreads))),
        low=None,
        high=None,
    )


def planned_percentile(shortfall: Assumption) -> Assumption:
    """Of the busiest hour, what is planned for: 1 - the chance of a shortfall, chosen with it."""
    return replace(shortfall, name="risk.demand_percentile", value=1.0 - number(shortfall), low=None, high=None)


def _score(shortfall_fraction: float) -> float:
    return _NORMAL.inv_cdf(1.0 - shortfall_fraction)


def _deviation(shortfall_fraction: float, middle_rps: float, high_rps: float) -> float:
    score = _score(shortfall_fraction)
    return max(0.0, math.log(high_rps / middle_rps)) / score if score > 0.0 else 0.0


def need_spread(demand_deviation_fraction: float, band: StepBand, demand: Demand) -> NeedSpread:
    """The spread of a pool's need, by the band of its step model and by how its traffic's shape is known."""
    found = (step_uncertainty(band), *shape_uncertainties(demand))
    return NeedSpread(
        demand_deviation_fraction=demand_deviation_fraction,
        slow={each.name: each.spread for each in found},
        rests=(*(each.assumption for each in found), TRAFFIC_LENGTHS, *ELASTICITIES.values(), CURVATURE),
    )


def worth_log(slow_log: float) -> float:
    """The logarithm of how many times the replicas steps need that are slower by this logarithm."""
    return float(_worth(np.array([slow_log]))[0])


def _worth(slow: Floats) -> Floats:
    """The logarithm of how many times the replicas steps need that are slower by this logarithm.

    The curve bends upwards where steps are slow, since the SLO leaves less time; it does not where they are fast.
    """
    return np.asarray(number(ELASTICITIES[STEPS]) * slow + number(CURVATURE) * np.square(np.maximum(slow, 0.0)))


@lru_cache(maxsize=1)
def _scores() -> Floats:
    """The draws' normal scores: demand first, then the inputs that slow. They are the same for every plan and seed."""
    return normal_scores(sobol_points(_DRAWS, 1 + len(_INPUTS), np.random.default_rng(0)))
