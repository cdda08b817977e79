"""A plan made again with one thing changed: more demand, tighter SLOs, one more nine, no prefix cache."""

from __future__ import annotations

from dataclasses import replace

from ullage.evidence import Assumption
from ullage.fleet.choices import choice
from ullage.memory.settings import OFF, PREFIX_ROUTERS, RuntimeSettings
from ullage.planning.spec import ClassDemand, PlanSpec, slo_limits

_THREE_NINES = 0.999


def with_demand_times(spec: PlanSpec, ratio: float) -> PlanSpec:
    """Every class's demand times so much, whether it was stated or measured: as many more users of the same kind."""
    return replace(
        spec,
        demands=tuple(replace(each, mean_rate=_times(each.mean_rate, ratio)) for each in spec.demands),
        traffic=None if spec.traffic is None else spec.traffic.times(ratio),
    )


def with_slos_times(spec: PlanSpec, ratio: float) -> PlanSpec:
    """Every limit of every class times so much."""
    return replace(spec, demands=tuple(_with_slos(each, ratio) for each in spec.demands))


def with_one_more_nine(spec: PlanSpec) -> PlanSpec:
    """A tenth of the unavailability: 99.9 % becomes 99.99 %."""
    reliability = spec.reserves.reliability
    target = reliability.availability or choice("reliability.availability", _THREE_NINES, "fraction", "a usual target")
    better = replace(target, value=1.0 - (1.0 - float(target.value)) / 10.0, low=None, high=None)
    return replace(spec, reserves=replace(spec.reserves, reliability=replace(reliability, availability=better)))


def with_no_prefix_cache(spec: PlanSpec) -> PlanSpec:
    """Every prompt is computed whole, on devices and in routers that know of no cache."""
    return replace(spec, pools=tuple(replace(each, settings=_without_cache(each.settings)) for each in spec.pools))


def _without_cache(settings: RuntimeSettings) -> RuntimeSettings:
    return replace(
        settings,
        prefix_cache=OFF,
        router=None if settings.router in PREFIX_ROUTERS else settings.router,
        host_cache=None,
        # Turns still come after answers, and find nothing of what was before them.
        between_turns=None if settings.between_turns is None else "cached",
    )


def _times(given: Assumption, ratio: float) -> Assumption:
    return replace(given, value=float(given.value) * ratio, low=None, high=None)


def _with_slos(demand: ClassDemand, ratio: float) -> ClassDemand:
    slos = tuple(replace(slo, limit_s=slo.limit_s * ratio) for slo in demand.request_class.slos)
    changed = replace(demand.request_class, slos=slos)
    if not demand.slo_limits:
        return replace(demand, request_class=changed)
    like = demand.slo_limits[0]
    return replace(
        demand, request_class=changed, slo_limits=slo_limits(changed, evidence=like.evidence, source=like.source)
    )
