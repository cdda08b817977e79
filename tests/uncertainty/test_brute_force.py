"""The fleet for a chosen risk against a second program (brute_force.py): same step times, nothing else in common."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from support.brute_force import (
    ArrivalWindow,
    Breaking,
    EngineTables,
    KindLimits,
    carried_rps,
    least_fleet,
    up_counts,
)
from ullage.errors import Rejection
from ullage.fleet.failure import domains_of, reliability
from ullage.fleet.risk.inputs import FRACTIONS, pool_uncertainties
from ullage.fleet.risk.load_draws import DEMAND, drawn_points, load_draws
from ullage.fleet.risk.planning_point import planned_percentile
from ullage.fleet.risk.shortfall import ShortfallModel
from ullage.fleet.risk.surface import STEPS, CapacitySurface, capacity_surface
from ullage.fleet.sites import equal_zones, place
from ullage.load.plan import load_plan
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.service.calibration.pool_step import pool_step
from ullage.service.stage import pool_bases
from ullage.service.trial.bases import Bases
from ullage.service.trial.strata import strata_of
from ullage.simulate.load import PS_PER_S
from ullage.workload.classes import Metric
from ullage.workload.demand.demand import Demand, forecast_demand

_RATIOS = (0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, 1.95)
_NODE, _ZONES = 4, 2


@dataclass(frozen=True, kw_only=True)
class Example:
    """The built-in example up to its replica."""

    bases: Bases
    demand: Demand
    quantiles: dict[float, Demand]


@functools.cache
def example() -> Example:
    spec = load_plan(None, as_of=datetime.date(2026, 11, 15))
    pool, policy = spec.pool, spec.policy
    quantiles = {
        each: forecast_demand(
            spec.demands, horizon=policy.horizon, percentile=replace(planned_percentile(policy.shortfall), value=each)
        )
        for each in FRACTIONS
    }
    memory = memory_budget(
        pool.model, pool.device, pool.settings, approved=pool.approved, reported=pool.reported, engines=pool.engines
    )
    assert isinstance(memory, MemoryBudget)
    bases = pool_bases(
        pool_step(memory, pool.tested), memory, quantiles[0.95], spec.classes, seed=0,
        deadlines_s=spec.admission.deadlines_s(spec.classes),
    )  # fmt: skip
    return Example(bases=bases, demand=quantiles[0.95], quantiles=quantiles)


@functools.cache
def surface() -> CapacitySurface:
    found = example()
    given = pool_uncertainties(found.quantiles, found.demand, found.bases.band).only((DEMAND, STEPS))
    spreads = {each.name: each.spread for each in given.inputs}
    return capacity_surface(found.bases, spreads, rate_rps=found.demand.planning_rps, seed=0)


def model() -> ShortfallModel:
    """The product's: its surface, its draws, its chances of failures."""
    found = example()
    given = pool_uncertainties(found.quantiles, found.demand, found.bases.band).only((DEMAND, STEPS))
    facts = reliability()

    def domains(replicas: int):  # type: ignore[no-untyped-def]
        placed = place(replicas, equal_zones(_ZONES), devices=2)
        assert not isinstance(placed, Rejection)
        return domains_of(placed, facts)

    draws = load_draws(given, surface(), drawn_points(given, 4096, seed=0))
    return ShortfallModel(draws=draws, surface=surface(), domains_of=domains)


def tables(bases: Bases) -> EngineTables:
    engine = bases.nominal.replica.engine
    step = engine.step
    return EngineTables(
        decode_base_s=step.decode_base_ps / PS_PER_S,
        decode_slope_s=step.decode_slope_ps / PS_PER_S,
        token_base_s=step.token_base_ps / PS_PER_S,
        token_slope_s=step.token_slope_ps / PS_PER_S,
        kv_segment=step.kv_segment_tokens,
        token_segment=step.token_segment_tokens,
        pair_s=step.pair_ps / PS_PER_S,
        adds_up=step.combine == "sum",
        sequences=engine.max_sequences,
        budget=engine.budget_tokens,
        kv_tokens=engine.kv_tokens,
        overhead_s=engine.request_overhead_s,
        crowd_s=engine.crowd_overhead_s,
    )


def windows_at(rate_rps: float) -> Sequence[ArrivalWindow]:
    """The traffic, as arrays: one window of each weight."""
    bases = example().bases
    trial = bases.nominal
    strata = strata_of(trial.load_at, span_s=trial.span_s, seed=0, work_s=bases.nominal_probe.work_s)
    found = []
    for weight, seeds in zip(strata.weights, strata.seeds, strict=True):
        load = trial.load_at(rate_rps=rate_rps, span_s=trial.span_s, seed=seeds[0])
        requests = load.requests
        assert load.arrival_ps is not None
        assert requests.class_of is not None
        assert requests.cached_tokens is not None
        found.append(
            ArrivalWindow(
                arrival_s=np.asarray(load.arrival_ps / PS_PER_S),
                prompt=requests.prompt_tokens,
                output=requests.output_tokens,
                cached=requests.cached_tokens,
                kind=requests.class_of,
                weight=weight,
            )
        )
    return found


def limits() -> list[KindLimits]:
    trial = example().bases.nominal
    return [
        KindLimits(
            **{f"{slo.metric.value}_s": slo.limit_s for slo in each.slos if slo.metric in (Metric.TTFT, Metric.TPOT)},
            deadline_s=trial.deadlines_s[each.name],
        )
        for each in trial.classes
    ]


@functools.cache
def brute_capacity() -> tuple[tuple[float, ...], float]:
    """Of one replica among eight, by step ratio, and how much more one of two dozen carries."""
    bases = example().bases
    warm_s, each_rps = bases.nominal.warmup_s, bases.nominal_probe.saturation_rps

    def carried(replicas: int, ratio: float, start: float) -> float:
        return carried_rps(
            tables(bases), windows_at, limits(),
            replicas=replicas, ratio=ratio, warm_s=warm_s, start_rps=start * replicas,
        ) / replicas  # fmt: skip

    found = []
    start = each_rps / _RATIOS[0]
    for ratio in _RATIOS:
        found.append(carried(8, ratio, start))
        start = max(found[-1] / 1.15, 0.05 * each_rps)
    own = found[_RATIOS.index(1.0)]
    return tuple(found), carried(24, 1.0, own) / own


def brute_needs(count: int) -> np.ndarray:
    """Replicas that drawn busiest hours need: a lognormal rate, a step ratio that is wider on its slow side."""
    each, larger = brute_capacity()
    rng = np.random.default_rng(5)
    band = example().bases.band
    rates = example().quantiles[0.5].planning_rps * np.exp(0.2 * rng.standard_normal(count))
    scores = rng.standard_normal(count) / 1.2815515655
    logs = np.where(scores < 0.0, -scores * math.log(band.fast_ratio), scores * math.log(band.slow_ratio))
    reached = max(at for at, value in enumerate(each) if value > 0.0)
    known = np.log(np.array(each[: reached + 1]))
    carried = larger * np.exp(np.interp(logs, np.log(_RATIOS[: reached + 1]), known))
    carried = np.where(logs < math.log(_RATIOS[0]), carried * np.exp(math.log(_RATIOS[0]) - logs), carried)
    needs = np.ceil(rates / carried)
    return np.where(logs > math.log(_RATIOS[reached]), 10_000, needs)


@functools.cache
def brute_shortfall(replicas: int) -> float:
    facts = reliability()
    parts = [
        Breaking(per_year=count * float(failures.value), repair_h=float(repair.value) / 3600.0)
        for count, failures, repair in (
            (2, facts.device_failures, facts.device_repair),
            (1, facts.node_failures, facts.node_repair),
            (1, facts.zone_failures, facts.zone_repair),
        )
    ]
    zones = []
    for zone in range(_ZONES):
        own = replicas // _ZONES + (zone < replicas % _ZONES)
        nodes = -(-own // _NODE)
        zones.append([own // nodes + (node < own % nodes) for node in range(nodes)])
    up = up_counts(zones, *parts, looks=4000, seed=replicas)
    needs = brute_needs(40_000)
    return float(np.mean([(needs > count).mean() for count in up.tolist()[::4]]))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "within"), [(0.10, 1), (0.05, 1), (0.01, 2)])
def test_both_programs_find_the_same_fleet(target: float, within: int) -> None:
    own = model().least(target)
    assert own is not None
    assert abs(own - least_fleet(brute_shortfall, target, own)) <= within


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [26, 33, 45])
def test_both_programs_find_the_same_shortfall(replicas: int) -> None:
    found = model().at(replicas)
    # Three standard errors of the draws, and two replicas' worth of what windows leave open.
    beside = abs(model().fraction(replicas - 1) - model().fraction(replicas + 1))
    assert abs(found.shortfall_fraction - brute_shortfall(replicas)) <= 3.0 * found.error_fraction + beside
