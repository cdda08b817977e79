"""Candidates that need no simulation to be refused: too large, too slow even when idle, or not to be bought."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.cost.quotes import DeviceQuote
from ullage.errors import InputError, Rejection, Remedy
from ullage.evidence import Assumption, Evidence, Figure
from ullage.fleet.risk.need import PlannedNeed
from ullage.fleet.risk.planning_point import PlanningPoint
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.planning.device_hours import device_hours
from ullage.planning.options.bounds import IdleMiss, busy_bound_s, idle_misses
from ullage.planning.options.candidates import Candidate
from ullage.planning.spec import PlanSpec
from ullage.prices.book import MissingPrice
from ullage.service.calibration.evidence import is_of
from ullage.service.calibration.pool_step import pool_step
from ullage.service.replica import Replica
from ullage.service.stage import band_of, mix_of, replica_of, rests_on
from ullage.service.steps.band import StepBand
from ullage.service.steps.step_model import StepModel
from ullage.service.trial.mix import MixLoad
from ullage.units import DURATION, brief
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand

# Requests that are drawn, not simulated, to know lengths by: a p99 then has forty beyond it.
_DRAWN_REQUESTS = 4000


@dataclass(frozen=True, kw_only=True)
class OptionRequest:
    """The requirements of every candidate of one pool."""

    demand: Demand
    classes: tuple[RequestClass, ...]
    slo_limits: tuple[Assumption, ...]
    spec: PlanSpec
    point: PlanningPoint
    seed: int

    @property
    def rate_rps(self) -> float:
        """What a pool is sized for: the planning rate, with the policy's share of it kept free."""
        return self.with_margin_rps(self.demand.planning_rps)

    def with_margin_rps(self, rate_rps: float) -> float:
        return rate_rps / (1.0 - float(self.spec.policy.margin.value))


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A candidate that fits its devices and is not refused by its bounds, ready to be simulated.

    `quotes` are its device-hour, part by part of the mix of purchases. `fewest_replicas` carry the planning rate if
    every step were as full as possible and no request had to wait.
    """

    candidate: Candidate
    asked: OptionRequest
    memory: MemoryBudget
    step: StepModel
    band: StepBand
    need: PlannedNeed
    replica: Replica
    mix: MixLoad
    quotes: tuple[DeviceQuote, ...] | MissingPrice
    fewest_replicas: int

    @property
    def devices(self) -> int:
        """Of one replica."""
        return self.replica.devices

    @property
    def evidence(self) -> Evidence:
        return self.step.evidence

    @property
    def usd_per_hour(self) -> float | None:
        """Of one device; None where it is not priced."""
        if isinstance(self.quotes, MissingPrice):
            return None
        return sum(each.share_fraction * each.usd_per_hour for each in self.quotes)

    @property
    def inputs(self) -> tuple[Figure | Assumption, ...]:
        """What every figure of this candidate rests on."""
        prices = () if isinstance(self.quotes, MissingPrice) else tuple(each.hour for each in self.quotes)
        own = rests_on(self.step, self.memory, self.asked.demand, self.asked.slo_limits)
        return (*own, self.band.slow_input, *prices)


def fit_of(candidate: Candidate, asked: OptionRequest) -> Fit | Rejection:
    """The candidate with all that can be known before it is simulated, or why it is not."""
    memory = _memory(candidate)
    if isinstance(memory, Rejection):
        return memory
    step = _step(candidate, memory)
    if isinstance(step, Rejection):
        return step
    try:
        replica = replica_of(step, memory)
    except InputError as error:
        if candidate.is_own:
            raise
        return refused_candidate("scheduler", error, candidate)
    mix = mix_of(asked.demand, asked.classes, replica, candidate.pool.settings)
    rate_rps = asked.rate_rps
    # No cache holds more than one without end would, which bounds a simulated one.
    most = replace(mix, chains=False, cache_blocks=math.inf) if mix.chains else mix
    load = most(rate_rps=rate_rps, span_s=_DRAWN_REQUESTS / rate_rps, seed=asked.seed)
    planned = asked.point.of_pool(band_of(step), asked.demand)
    band = planned.band
    inputs = rests_on(step, memory, asked.demand, asked.slo_limits)
    for miss in idle_misses(replica, load, asked.classes):
        return _idle_refusal(miss, inputs)
    for miss in idle_misses(replica.slowed(band.slow_ratio), load, asked.classes):
        return _weak_refusal(miss, band, inputs)
    return Fit(
        candidate=candidate,
        asked=asked,
        memory=memory,
        step=step,
        band=band,
        need=planned.need,
        replica=replica,
        mix=mix,
        quotes=device_hours(asked.spec, candidate.pool, replica_devices=replica.devices),
        fewest_replicas=max(1, math.ceil(rate_rps * busy_bound_s(replica, load) * (1.0 - 1e-6))),
    )


def _memory(candidate: Candidate) -> MemoryBudget | Rejection:
    pool = candidate.pool
    try:
        return memory_budget(
            pool.model, pool.device, pool.settings, approved=pool.approved, reported=pool.reported, engines=pool.engines
        )
    except InputError as error:
        # A parallelism that no engine can load is a wrong input of a plan, but one candidate of many.
        return refused_candidate("sharding", error, candidate)


def _step(candidate: Candidate, memory: MemoryBudget) -> StepModel | Rejection:
    """By its own measurements: calibrations name their configuration, load tests are of the pool as it is."""
    tested = candidate.pool.tested
    if candidate.is_own and tested.load_tests:
        return pool_step(memory, tested)
    own = tuple(each for each in tested.calibrations if is_of(each, memory))
    try:
        return pool_step(memory, replace(tested, calibrations=own))
    except InputError as error:
        return refused_candidate("step model", error, candidate)


def _idle_refusal(miss: IdleMiss, inputs: tuple[Figure | Assumption, ...]) -> Rejection:
    what, limit = f"{miss.request_class} {miss.slo.name}", brief(miss.slo.limit_s, DURATION)
    least = brief(miss.least_s, DURATION)
    return Rejection(
        stage="roofline",
        reason=f"{what} is at least {least} with one request at a time; the limit is {limit}",
        figure=_figure("option.idle_s", miss.least_s, "s", f"{what} of a request alone on a replica", inputs),
        remedies=(
            Remedy(change=f"a {miss.slo.name} of {least} or more for {miss.request_class}", effect="it may be met"),
            Remedy(change="more devices per replica, or a smaller model", effect="shorter steps"),
        ),
    )


def _weak_refusal(miss: IdleMiss, band: StepBand, inputs: tuple[Figure | Assumption, ...]) -> Rejection:
    what, limit = f"{miss.request_class} {miss.slo.name}", brief(miss.slo.limit_s, DURATION)
    return Rejection(
        stage="roofline",
        reason=(
            f"the evidence is too weak: with conservative step times, {band.slow_ratio:.3g} x nominal, {what} is "
            f"at least {brief(miss.least_s, DURATION)}; the limit is {limit}"
        ),
        figure=_figure("option.idle_slow_s", miss.least_s, "s", f"{what} alone, conservative step times", inputs),
        remedies=(
            Remedy(change="a load test of this configuration", effect="a narrower band of step times"),
            Remedy(change=f"a looser {miss.slo.name} for {miss.request_class}", effect="room for the band"),
        ),
    )


def bound_refusal(fit: Fit, least: float, best: float, best_name: str, unit: str) -> Rejection:
    """Even at its best it is dearer than a candidate that was simulated."""
    return Rejection(
        stage="bound",
        reason=f"at least {least:.4g} {unit} with every step full, while {best_name} needs {best:.4g}",
        figure=_figure(
            "option.least",
            least,
            unit,
            f"fewest replicas by the step table, {fit.fewest_replicas} x {fit.devices} devices",
            fit.inputs,
        ),
        remedies=(Remedy(change=f"a price {1.0 - best / least:.0%} lower", effect="it might be cheaper"),)
        if fit.usd_per_hour is not None
        else (Remedy(change="a load test that shows shorter steps", effect="fewer devices"),),
    )


def refused_candidate(stage: str, error: InputError, candidate: Candidate) -> Rejection:
    """What would be a wrong input of a plan is a refusal of one candidate of many."""
    return Rejection(
        stage=stage,
        reason=f"{error.field} = {error.value} {error.problem}",
        figure=_figure(
            "option.replica_devices",
            candidate.pool.settings.sharding.devices,
            "devices",
            "tp x pp",
            candidate.pool.choices or (candidate.pool.device.memory,),
        ),
        remedies=(Remedy(change=error.fix.rstrip("."), effect="it can be considered"),),
    )


def _figure(
    name: str, value: float, unit: str, formula: str, inputs: Sequence[Figure | Assumption]
) -> Figure:  # fmt: skip
    return Figure(name=name, value=value, unit=unit, formula=formula, inputs=tuple(inputs))
