"""What a pool's need depends on, each input with its spread and where that comes from.

demand          the busiest hour of each class, from the forecast's own futures, or what is stated of it
step time       the band of the step model: its calibration, its nearest published neighbours, or its class
lengths         of prompts and answers, by how they are known
cached share    of prompts, by how it is known
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from ullage.evidence import Assumption, Evidence, Figure, Source, weakest
from ullage.fleet.risk.load_draws import ClassLevel, Uncertain, Uncertainties
from ullage.fleet.risk.spread import band_spread, lognormal, quantile_spread
from ullage.fleet.risk.surface import CACHED, OUTPUTS, PROMPTS, STEPS
from ullage.service.steps.band import StepBand
from ullage.workload.demand.demand import ClassTraffic, Demand
from ullage.workload.demand.outcomes import lengths_evidence

FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995)
"""Where the busiest hour's distribution is read; between and beyond them it is straight in normal scores."""

_TENTH = NormalDist().inv_cdf(0.9)
_MAX_AGE = datetime.timedelta(days=365)
_TRACES = Source(
    what="mean lengths of one service from day to day: the deviation of their logarithm is 0.20 to 0.43 in a week of "
    "two production models whose clients come and go, and goes against the rate (correlation -0.2 to -0.8)",
    where="ServeGen (Alibaba), clients of m-large and m-small",
    date=datetime.date(2026, 11, 16),
)
_OURS = Source(
    what="default of Ullage: half the uncertainty of prompt lengths",
    where="docs/explanation/risk.md",
    date=datetime.date(2026, 11, 16),
)
# How far mean lengths may be off a month ahead, by how they are known; a trace of weeks would show its own drift.
_LENGTH_DEVIATIONS: Mapping[Evidence, float] = {Evidence.MEASURED: 0.05, Evidence.STATED: 0.10, Evidence.ASSUMED: 0.15}
_LARGEST_DEVIATION = max(_LENGTH_DEVIATIONS.values())

TRAFFIC_LENGTHS = Assumption(
    name="uncertainty.traffic_length_correlation",
    value=-0.3,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=_TRACES,
    low=-0.8,
    high=0.35,
    max_age=_MAX_AGE,
    decision=True,
)


def pool_uncertainties(quantiles: Mapping[float, Demand], planned: Demand, band: StepBand) -> Uncertainties:
    """Everything of one pool; `quantiles` are its demand at several fractions, `planned` the one its mix is made of."""
    return Uncertainties(
        classes=tuple(_level(each, quantiles) for each in planned.classes),
        correlations=class_correlations(planned.classes),
        inputs=(step_uncertainty(band), *shape_uncertainties(planned)),
        traffic_lengths=float(TRAFFIC_LENGTHS.value),
    )


def _level(planned: ClassTraffic, quantiles: Mapping[float, Demand]) -> ClassLevel:
    season = np.array(planned.model.season)
    own = {
        fraction: next(each for each in demand.classes if each.name == planned.name)
        for fraction, demand in quantiles.items()
    }
    middle = own[0.5].planning_rps
    return ClassLevel(
        name=planned.name,
        middle_rps=middle,
        heights=tuple((season / season.max()).tolist()),
        spread=quantile_spread({fraction: each.planning_rps for fraction, each in own.items()}, middle),
        planned_rps=planned.planning_rps,
    )


def class_correlations(classes: Sequence[ClassTraffic]) -> tuple[tuple[float, ...], ...]:
    """As measured; classes that were not measured together are taken to err together."""
    return tuple(
        tuple(1.0 if one is other else one.correlations.get(other.name, 1.0) for other in classes) for one in classes
    )


def step_uncertainty(band: StepBand) -> Uncertain:
    """Of the step model's times."""
    return Uncertain(name=STEPS, spread=band_spread(band.fast_ratio, band.slow_ratio), assumption=band.assumption)


def shape_uncertainties(demand: Demand) -> tuple[Uncertain, ...]:
    """Of prompts, answers and the cached share."""
    return (*_lengths(demand), _cached(demand))


def _lengths(demand: Demand) -> tuple[Uncertain, ...]:
    found = []
    for name, side in ((PROMPTS, "prompt"), (OUTPUTS, "output")):
        figures = [each.figures[f"demand.{each.name}.{side}_p95"] for each in demand.classes]
        known = weakest(lengths_evidence(each) for each in figures)
        found.append(_deviating(name, _LENGTH_DEVIATIONS.get(known, _LARGEST_DEVIATION), known, _TRACES))
    return tuple(found)


def _cached(demand: Demand) -> Uncertain:
    figures = [each.figures[f"demand.{each.name}.cached_fraction"] for each in demand.classes]
    deviation = _LENGTH_DEVIATIONS.get(_class_of(figures), _LARGEST_DEVIATION) / 2.0
    return _deviating(CACHED, deviation, _class_of(figures), _OURS)


def _class_of(figures: Sequence[Figure]) -> Evidence:
    return weakest(each.evidence for each in figures)


def _deviating(name: str, deviation: float, known: Evidence, source: Source) -> Uncertain:
    assumption = Assumption(
        name=f"uncertainty.{known}_{name}_ratio",
        value=1.0,
        unit="ratio",
        evidence=Evidence.ASSUMED,
        source=Source(what=f"{source.what}; {known} here", where=source.where, date=source.date),
        low=math.exp(-_TENTH * deviation),
        high=math.exp(_TENTH * deviation),
        max_age=_MAX_AGE,
        decision=True,
    )
    return Uncertain(name=name, spread=lognormal(deviation), assumption=assumption)
