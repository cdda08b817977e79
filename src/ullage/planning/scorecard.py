"""The scorecard of a pool: what the planned fleet does at the planning rate, on the step basis it was sized with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.evidence import Evidence, Figure
from ullage.fleet.steady import SteadyFleet
from ullage.service.curve.curve import StablePoint
from ullage.workload.demand.demand import Demand, MeasuredClass


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """The planned pool at the planning rate, per replica."""

    at_plan: StablePoint
    figures: Mapping[str, Figure]


def scorecard(steady: SteadyFleet, demand: Demand, *, measured: Mapping[str, MeasuredClass]) -> Scorecard:
    """Read off the decided pool what operations will watch."""
    point = steady.size.at_size
    return Scorecard(
        at_plan=point,
        figures={**_figures(point, steady, steady.size.devices), **_forecast_errors(demand, measured)},
    )


def _forecast_errors(demand: Demand, measured: Mapping[str, MeasuredClass]) -> dict[str, Figure]:
    """How far the forecasts were off where they could be tested; a class without a tested forecast has none."""
    tested = [(each.name, measured[each.name]) for each in demand.classes if each.name in measured]
    return {
        name: Figure(
            name=name,
            value=scores.wape_fraction,
            unit="fraction",
            formula="",
            sources=(found.source,),
            own_evidence=Evidence.MEASURED,
        )
        for each, found in tested
        for name in (f"score.{each}.forecast_wape_fraction",)
        if found.forecast is not None and (scores := found.forecast.scores) is not None
    }


def _figures(point: StablePoint, steady: SteadyFleet, devices: int) -> dict[str, Figure]:
    replicas = steady.figures["fleet.replicas"]
    at_plan = "the planned replicas simulated at the planning rate"
    rows: tuple[tuple[str, float, str, str, tuple[Figure, ...]], ...] = (
        ("service_time_s", point.service_time.value, "s", f"mean end-to-end time, {at_plan}", (replicas,)),
        (
            "planned_goodput_per_replica_rps",
            point.goodput.value,
            "req/s",
            f"successes per replica, {at_plan}",
            (replicas,),
        ),
        (
            "planned_goodput_per_device_rps",
            point.goodput.value / devices,
            "req/s",
            f"the same / {devices}",
            (replicas,),
        ),
        ("active_tokens", point.active_tokens.value, "tokens", f"mean KV tokens per replica, {at_plan}", (replicas,)),
        (
            "kv_peak_fraction",
            point.kv_peak_fraction,
            "fraction",
            f"fullest KV cache of any replica, {at_plan}",
            (replicas,),
        ),
        (
            "cached_fraction",
            point.cached.value,
            "fraction",
            f"share of prompt tokens found in prefix caches, {at_plan}",
            (replicas,),
        ),
        ("queue_requests", point.waiting.value, "requests", f"mean waiting per replica, {at_plan}", (replicas,)),
        ("queue_age_s", point.queue_age.value, "s", f"p95 wait for the first step, {at_plan}", (replicas,)),
    )
    return {
        f"score.{name}": Figure(name=f"score.{name}", value=value, unit=unit, formula=formula, inputs=inputs)
        for name, value, unit, formula, inputs in rows
    }
