"""The scaling stage of a plan: its rule, tried on the busiest day of the planned week, and what it saves.

The rule is derived from ramp rate and time to ready (plan.py), with what the plan file states of it in place of what
was derived, and played once, in the simulator; `ullage scale` searches around the derived one, compares it with others,
and says what to state. Of a service so large that a day of it would take long, the hours of
the steepest rise are played, and every figure says which. Of a large pool a part is played, with its share of the
traffic and of every bound: a smaller pool evens out less, so that what the part meets the whole meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ullage.evidence import Assumption, Figure, number
from ullage.fleet.reserves import Reserves
from ullage.fleet.steady import SteadyFleet
from ullage.scaling.followed import FollowedWeek, followed_week, held_replicas
from ullage.scaling.judged import RuleResult
from ullage.scaling.loop import ScalingPool, ScalingTraffic
from ullage.scaling.plan import DerivedRule, RuleChoice, ScalingPlan, derive_rule, rule_lag_s, scaling_plan
from ullage.scaling.played import EQUAL_FRACTION, fixed_rule, played
from ullage.scaling.published_rules import schedule_text
from ullage.scaling.rules import ScalingRule
from ullage.scaling.settings import ScalingSettings
from ullage.scaling.supply import StartTimes
from ullage.scaling.traffic import (
    HOUR_S,
    hourly_rates,
    mean_week,
    planned_day,
    planned_week,
    steep_hours,
    telling_days,
    times_traffic,
)
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady
from ullage.workload.demand.demand import Demand

# A plan plays so many requests at most, a second or so of work, and three hours of any day at least.
MOST_REQUESTS = 1e6
_LEAST_HOURS, _DAY_HOURS, WEEK_HOURS = 3, 24, 168
# Beyond so many replicas a part of about so many is played.
MOST_PLAYED, PART_REPLICAS = 96, 64


@dataclass(frozen=True, kw_only=True)
class ScalingStage:
    """The rule, and what it did on the day it was tried on, beside the fleet that never scales: that is played where
    the rule violates an SLO, to tell whether the rule does or the fleet's size."""

    plan: ScalingPlan
    derived: DerivedRule
    choice: RuleChoice
    rule: ScalingRule
    played: RuleResult
    fixed: RuleResult | None
    fixed_replicas: int
    part_fraction: float
    day: str
    week: FollowedWeek
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        met = "meets every SLO" if self.fixed is None else f"violates {self.played.attainment.slo_name}{self._beside}"
        whole = self.part_fraction == 1.0
        part = "" if whole else f", on {100.0 * self.part_fraction:.2g} % of the pool with its share of the traffic"
        played = f"The rule was simulated on {self.day} of the planned week, one seed{part}: it {met}."
        return (
            f"{played} Threshold: {self.derived.formula}{self._stated}.",
            "ullage scale compares rules and searches for a cheaper one to put in the scaling section.",
        )

    @property
    def is_advised(self) -> bool:
        """Whether it attains what is required, or as much as the fleet that never scales."""
        if self.fixed is None:
            return True
        return self.fixed.attainment.margin_fraction - self.played.attainment.margin_fraction <= EQUAL_FRACTION

    @property
    def _beside(self) -> str:
        if self.is_advised:
            return f", as a fixed fleet of {self.fixed_replicas} does"
        return f", and a fixed fleet of {self.fixed_replicas} attains more: keep it fixed, or run ullage scale"

    @property
    def _stated(self) -> str:
        stated = self.choice.threshold_value
        return "" if stated == self.derived.threshold_value else f", which the plan file sets to {stated:g}"

    @property
    def saving_fraction(self) -> float:
        return 1.0 - self.played.mean_replicas / self.fixed_replicas


def scaling_pool(
    demand: Demand,
    steady: SteadyFleet,
    reserves: Reserves,
    ready: TimeToReady,
    *,
    settings: ScalingSettings,
) -> ScalingPool:
    """The planned pool as rules see it: the step basis it was sized with, and what one of its replicas carries."""
    quantiles = {level: ready.level(level).quantiles_s for level in Level}
    limits = settings.limits(node_replicas=reserves.node_replicas)
    most = limits.most_replicas or steady.replicas + reserves.serving_replicas
    return ScalingPool(
        trial=steady.trial,
        each_rps=demand.planning_rps / steady.size.conservative_replicas,
        starts=StartTimes(cold_s=quantiles[Level.COLD], warm_s=quantiles[Level.WARM], hot_s=quantiles[Level.HOT]),
        limits=replace(limits, most_replicas=most),
        signals=settings.signals,
    )


def pool_rule(demand: Demand, steady: SteadyFleet, pool: ScalingPool, *, settings: ScalingSettings) -> DerivedRule:
    """The rule derived for a pool from the week that is planned for."""
    point = steady.size.at_size
    return derive_rule(
        hourly_rates(planned_week(demand)),
        each_rps=pool.each_rps,
        in_flight_requests=point.running.value + point.waiting.value,
        lag_s=rule_lag_s(pool),
        ready_s=pool.starts.cold_p90_s,
        most=pool.limits.most_replicas,
        least=0 if settings.least is None else pool.limits.least_replicas,
        fallback_replicas=steady.replicas,
    )


def pool_choice(derived: DerivedRule, pool: ScalingPool, *, settings: ScalingSettings) -> RuleChoice:
    """The derived values, and the stated ones in their place, in the thousandths and seconds that a cluster counts."""
    found = derived.choice(pool)
    if settings.threshold is not None:
        found = replace(found, threshold_value=round(float(f"{number(settings.threshold):.7g}"), 3))
    if settings.down_window is not None:
        found = replace(found, down_s=float(round(number(settings.down_window))))
    if settings.window is not None:
        found = replace(found, window_s=float(round(number(settings.window))))
    if settings.floor is not None:
        found = replace(found, floor_fraction=number(settings.floor))
    return found


def part_fraction(pool: ScalingPool) -> float:
    """How much of a pool is played."""
    most = pool.limits.most_replicas
    return 1.0 if most <= MOST_PLAYED else PART_REPLICAS / most


def part_of_pool(pool: ScalingPool, fraction: float) -> ScalingPool:
    """So much of a pool, with its share of what the platform allows."""
    if fraction == 1.0:
        return pool
    limits = pool.limits
    return replace(
        pool,
        limits=replace(
            limits,
            least_replicas=_share(limits.least_replicas, fraction),
            most_replicas=_share(limits.most_replicas, fraction),
            step_replicas=_share(limits.step_replicas, fraction) if limits.step_replicas else 0,
            nodes_per_minute=limits.nodes_per_minute * fraction,
            sleepers=round(limits.sleepers * fraction),
        ),
    )


def _share(replicas: int, fraction: float) -> int:
    return max(1, round(replicas * fraction))


def part_of_choice(choice: RuleChoice, fraction: float) -> RuleChoice:
    """The same rule on so much of a pool."""
    if fraction == 1.0:
        return choice
    return replace(
        choice,
        least_replicas=_share(choice.least_replicas, fraction),
        most_replicas=_share(choice.most_replicas, fraction),
        fallback_replicas=_share(choice.fallback_replicas, fraction),
        sleepers=round(choice.sleepers * fraction),
    )


def tried_day(demand: Demand, pool: ScalingPool, *, seed: int, fraction: float = 1.0) -> ScalingTraffic:
    """What a plan tries its rule on: the day of the busiest hour, or as many of its hours as a plan has time for.

    `fraction` of the traffic, with bursts as high beside it as those of the whole.
    """
    week = times_traffic(planned_week(demand), fraction)
    rates = hourly_rates(week)
    day = telling_days(rates)[0]
    hourly = float(rates.reshape(7, 24)[day].max()) * 3600.0
    hours = min(max(int(MOST_REQUESTS / hourly), _LEAST_HOURS), _DAY_HOURS)
    first = 0 if hours == _DAY_HOURS else steep_hours(rates, day, hours)
    return planned_day(week, pool.trial, day, seed=seed, from_hour=first, hours=hours)


def scaling_stage(
    demand: Demand,
    steady: SteadyFleet,
    reserves: Reserves,
    ready: TimeToReady,
    *,
    engine: str,
    settings: ScalingSettings,
    seed: int,
) -> ScalingStage:
    """Derive the rule, play it, and say what it does."""
    pool = scaling_pool(demand, steady, reserves, ready, settings=settings)
    derived = pool_rule(demand, steady, pool, settings=settings)
    choice = pool_choice(derived, pool, settings=settings)
    rates = hourly_rates(planned_week(demand))
    rule = choice.rule(rates.tolist(), pool.each_rps)
    share = part_fraction(pool)
    traffic = tried_day(demand, pool, seed=seed, fraction=share)
    tried = part_of_choice(choice, share).rule((share * rates).tolist(), pool.each_rps)
    part = part_of_pool(pool, share)
    found = played(tried, part, [traffic]).times(1.0 / share)
    never = None if found.is_met else played(fixed_rule(part), part, [traffic]).times(1.0 / share)
    fixed = pool.limits.most_replicas
    hours = _week(demand, steady, choice, found, traffic, pool)
    return ScalingStage(
        plan=scaling_plan(rule, engine=engine),
        derived=derived,
        choice=choice,
        rule=rule,
        played=found,
        fixed=never,
        fixed_replicas=fixed,
        part_fraction=share,
        day=traffic.name,
        week=hours,
        figures={
            **_figures(derived, found, fixed, traffic.name, steady, reserves, ready),
            **_chosen_figures(derived, choice, rule, settings, steady, ready),
            **_week_figures(hours, traffic.name, steady, demand),
            **({} if never is None else _fixed_figures(never, fixed, traffic.name, steady)),
        },
    )


def _week(
    demand: Demand,
    steady: SteadyFleet,
    choice: RuleChoice,
    found: RuleResult,
    traffic: ScalingTraffic,
    pool: ScalingPool,
) -> FollowedWeek:
    """The mean week, its hours read off those that were played by their rates."""
    first = int((traffic.week_s + traffic.counted_s) // HOUR_S)
    places = (first + np.arange(len(found.hourly_paid))) % WEEK_HOURS
    held = held_replicas(
        hourly_rates(planned_week(demand))[places],
        np.array(found.hourly_paid),
        least_replicas=choice.least_replicas,
    )
    return followed_week(
        held,
        hourly_rates(mean_week(demand)),
        planning_rps=demand.planning_rps,
        steady=steady.replicas,
        node_replicas=pool.limits.node_replicas,
    )


def _week_figures(week: FollowedWeek, day: str, steady: SteadyFleet, demand: Demand) -> dict[str, Figure]:
    inputs = (steady.figures["fleet.replicas"], demand.figures["demand.planning_rate"])
    rows = (
        ("paid_replicas", week.mean_replicas, "replicas",
         f"steady replicas less machines that the rule releases, mean over a mean week, read off {day} by rate"),
        ("idle_fraction", week.idle_replicas / week.mean_replicas, "fraction",
         "part of those beyond steady replicas x the hour's rate / planning rate"),
    )  # fmt: skip
    return {
        f"scaling.{name}": Figure(
            name=f"scaling.{name}", value=round(value, 4), unit=unit, formula=formula, inputs=inputs
        )
        for name, value, unit, formula in rows
    }


def _figures(
    derived: DerivedRule,
    found: RuleResult,
    fixed: int,
    day: str,
    steady: SteadyFleet,
    reserves: Reserves,
    ready: TimeToReady,
) -> dict[str, Figure]:
    replicas, start = steady.figures["fleet.replicas"], ready.figures["ready.cold_p90_s"]
    behind = (replicas, *(reserves.figures[f"reserve.{line.name}_replicas"] for line in reserves.lines))
    ran = f"simulated on {day} of the planned week"
    slo = found.attainment
    held = f"requests within {slo.slo_name}, the SLO with the least margin; {slo.required_fraction:g} is required"
    rows: tuple[tuple[str, float, str, str, tuple[Figure | Assumption, ...]], ...] = (
        ("least_replicas", derived.least_replicas, "replicas",
         "as stated, or what the quietest hour needs at that threshold, at least two", (replicas,)),
        ("most_replicas", derived.most_replicas, "replicas", "steady replicas and reserves that serve", behind),
        ("decision_lag_s", round(found.decision_lag_s, 1), "s",
         f"mean time during which need exceeded the requested replicas, {ran}", (replicas,)),
        ("ready_s", round(found.ready_s, 1), "s",
         f"mean time to ready of its starts, cold and warm, {ran}", (replicas, start)),
        ("queue_requests", found.most_waiting_requests, "requests",
         f"most requests waiting in the pool, {ran}", (replicas,)),
        ("scale_up_violated_requests", found.scale_up_violated_requests, "requests",
         f"violated an SLO while replicas started, {ran}", (replicas,)),
        ("overshoot_fraction", round(found.overshoot_fraction, 4), "fraction",
         f"mean of (ready - need) / need where above it, {ran}", (replicas,)),
        ("undershoot_fraction", round(found.undershoot_fraction, 4), "fraction",
         f"mean of (need - ready) / need where below it, {ran}", (replicas,)),
        ("turns_per_hour", round(found.turns_per_hour, 3), "reversals/h",
         f"thrash: reversals of the requested replicas, {ran}", (replicas,)),
        ("attained_fraction", round(slo.attained.value, 5), "fraction", f"{held}, {ran}", (replicas,)),
        ("warm_hours", round(found.warm_hours, 3), "h",
         f"replica-hours of empty nodes held and of sleeping engines, {ran}", (replicas,)),
        ("mean_replicas", round(found.mean_replicas, 3), "replicas",
         f"replicas that hold devices, starts and drains included, {ran}", (replicas,)),
        ("saving_fraction", round(1.0 - found.mean_replicas / fixed, 4), "fraction",
         f"1 - mean replicas / {fixed} of the fixed fleet, {ran}", behind),
    )  # fmt: skip
    return {
        f"scaling.{name}": Figure(name=f"scaling.{name}", value=value, unit=unit, formula=formula, inputs=inputs)
        for name, value, unit, formula, inputs in rows
    }


def _fixed_figures(never: RuleResult, fixed: int, day: str, steady: SteadyFleet) -> dict[str, Figure]:
    slo, name = never.attainment, "scaling.fixed_attained_fraction"
    formula = f"requests within {slo.slo_name} by a fixed fleet of {fixed}, simulated on {day} of the planned week"
    figure = Figure(
        name=name, value=round(slo.attained.value, 5), unit="fraction", formula=formula,
        inputs=(steady.figures["fleet.replicas"],),
    )  # fmt: skip
    return {name: figure}


def _chosen_figures(
    derived: DerivedRule,
    choice: RuleChoice,
    rule: ScalingRule,
    settings: ScalingSettings,
    steady: SteadyFleet,
    ready: TimeToReady,
) -> dict[str, Figure]:
    """The values of the rule that bounds do not say: whatever is written of it is written from these."""
    replicas, start = steady.figures["fleet.replicas"], ready.figures["ready.cold_p90_s"]
    rows: tuple[tuple[str, float | str, str, str, Assumption | None, tuple[Figure | Assumption, ...]], ...] = (
        ("threshold_requests", choice.threshold_value, "requests",
         f"requests in flight for each replica: {derived.formula}", settings.threshold, (replicas, start)),
        ("down_window_s", choice.down_s, "s", "at least as long as a replica takes to come back, at p90",
         settings.down_window, (start,)),
        ("window_s", choice.window_s, "s", "requests in flight are averaged over it", settings.window, (replicas,)),
        ("floor_fraction", choice.floor_fraction, "fraction",
         "part of an hour's expected need that a schedule holds; 0 is no schedule", settings.floor, (replicas,)),
        ("schedule", schedule_text(rule.schedule), "",
         "replicas x hours of the week, from Monday on, that the schedule requests", settings.floor, (replicas,)),
        ("node_held_s", choice.node_held_s, "s", "how long a node that became empty is held", settings.node_held,
         (replicas,)),
    )  # fmt: skip
    return {
        f"scaling.{name}": Figure(
            name=f"scaling.{name}",
            value=value,
            unit=unit,
            formula=formula if stated is None or stated not in settings.stated else f"as stated; derived: {formula}",
            inputs=inputs if stated is None else (*inputs, stated),
        )
        for name, value, unit, formula, stated, inputs in rows
    }
