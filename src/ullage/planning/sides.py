"""Pools whose prefill and decode are apart: the demand of each side, and whether both together meet the SLOs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Figure, number
from ullage.facts.device import Device
from ullage.memory.settings import PREFIX_ROUTERS
from ullage.memory.sharding import Sharding
from ullage.planning.spec import ClassDemand, PlanSpec, PoolSpec
from ullage.service.both_sides import BothSides, decide_both
from ullage.service.calibration.pool_step import NO_EVIDENCE
from ullage.service.disaggregated import HANDOVER_S, SplitPools
from ullage.service.phase import PoolSide, Side, side_class, side_demand
from ullage.service.stage import mix_of
from ullage.simulate.fleet import DEFAULT_ROUTER
from ullage.workload.demand.demand import Demand
from ullage.workload.demand.routing import pool_demand

if TYPE_CHECKING:
    from ullage.planning.pool_plan import PoolPlan
    from ullage.service.trial.bases import Bases


_NOT_SIMULATED = (
    "Not simulated for disaggregated pools: failures of one side while the other runs, transfers that queue for a "
    "link, prompts recomputed where a decode replica runs out of cache. Reserves, losses and scaling are each side's "
    "own."
)


def prefill_side(
    pool: PoolSpec,
    *,
    device: Device | None = None,
    tp: int | None = None,
    step_tokens: int | None = None,
    max_sequences: int | None = None,
    router: str | None = None,
    instance: str | None = None,
) -> PoolSpec:
    """The pool's replica as one that computes prompts alone: what is not given is the pool's; a prompt needs no drafts.

    What was measured of the pool's replica holds for it only where nothing is different; a calibration to tests of both
    sides holds for the prefill replica of those.
    """
    own = pool.settings.sharding
    sharding = own if tp is None else resharded(own, tp)
    settings = replace(
        pool.settings,
        sharding=sharding,
        speculation=None,
        step_tokens=step_tokens or pool.settings.step_tokens,
        max_sequences=max_sequences or pool.settings.max_sequences,
        router=router or pool.settings.router,
    )
    tested = replace(pool.tested, calibrations=tuple(each.of_prefill for each in pool.tested.calibrations))
    found = replace(
        pool,
        settings=settings,
        device=device or pool.device,
        least=None,
        most=None,
        instance=instance,
        tested=tested,
    )
    if (settings, found.device.name) == (pool.settings, pool.device.name):
        return found
    return replace(
        found,
        settings=replace(settings, logged={}),
        reported=None,
        tested=replace(tested, load_tests=()) if tested.calibrations else NO_EVIDENCE,
        start=replace(pool.start, measured=()),
    )


def handover_s(pool: PoolSpec) -> float:
    """What a request spends between two engines: as published runs have it, times what a calibration found."""
    sharding = pool.settings.sharding
    own = {"model": pool.model.name, "device": pool.device.name, "tp": sharding.tp, "pp": sharding.pp}
    found = (
        each.factors.request_ratio
        for each in pool.tested.calibrations
        if all(each.configuration.get(name) == value for name, value in own.items())
    )
    return HANDOVER_S * next(found, 1.0)


def resharded(own: Sharding, tp: int) -> Sharding:
    """The same kind of parallelism over another number of devices."""
    return replace(
        own, tp=tp, ep=tp if own.ep > 1 else 1, dp_attention=min(own.dp_attention, tp) if own.dp_attention > 1 else 1
    )


def pool_asked(spec: PlanSpec, pool: PoolSpec, demand: Demand) -> Demand:
    """The part of the service's demand that one pool, or one side of a pool, serves."""
    whole = pool_demand(demand, spec.routing, pool.whole, spec.own_pools)
    return whole if pool.phase is None else side_demand(whole, pool.phase)


def pool_classes(spec: PlanSpec, pool: PoolSpec, demand: Demand) -> tuple[ClassDemand, ...]:
    """The classes of a pool with their SLOs; those of a side with the limits that are its own."""
    served = spec.served_by(pool.name)
    return served if pool.phase is None else side_classes(served, pool.phase, demand)


def side_classes(served: Sequence[ClassDemand], phase: PoolSide, demand: Demand) -> tuple[ClassDemand, ...]:
    traffic = {each.name: each for each in demand.classes}
    return tuple(
        replace(
            each,
            request_class=side_class(each.request_class, phase, phase.sent_at(traffic[each.request_class.name])),
            slo_limits=(*each.slo_limits, *phase.inputs),
        )
        for each in served
    )


@dataclass(frozen=True, kw_only=True)
class SidesTogether:
    """Every pool of the plan that is apart, its two sides simulated together at the planning rate."""

    pools: Mapping[str, BothSides]
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(said for name, each in self.pools.items() for said in _notes(name, each))


def _notes(name: str, found: BothSides) -> list[str]:
    pools, decision = found.pools, found.decision
    first = decision.first
    said = f"{name}: {pools.prefill_replicas} prefill + {pools.decode_replicas} decode replicas together"
    nearest = "" if first is None else f"; nearest to its limit is {first.name}, {first.use_fraction:.0%} of it used"
    verdict = "meet every SLO" if decision.is_decided else "seem to meet every SLO, undecided"
    return [
        f"{said} {verdict} after {decision.windows} windows with {found.basis} step times{nearest}.",
        _NOT_SIMULATED,
    ]


def sides_together(
    spec: PlanSpec,
    demand: Demand,
    pools: Sequence[PoolPlan],
    replicas: Mapping[str, Figure],
    *,
    seed: int,
    map: Any = map,  # noqa: A002
) -> SidesTogether | Rejection | None:
    """Whether the planned sides of every pool that is apart meet its SLOs together; None where no pool is apart.

    `replicas` are the figures of the steady replicas of every pool, as the plan names them.
    """
    found: dict[str, BothSides] = {}
    figures: dict[str, Figure] = {}
    for prefill in pools:
        if prefill.spec.phase is None or prefill.spec.phase.side is not Side.PREFILL:
            continue
        name = prefill.spec.whole
        decode = next(each for each in pools if each.spec.whole == name and each is not prefill)
        whole = pool_demand(demand, spec.routing, name, spec.own_pools)
        one = tried_together(
            spec, prefill.spec, whole, (prefill.bases, decode.bases),
            (prefill.steady_fleet.replicas, decode.steady_fleet.replicas), seed=seed, map=map,
        )  # fmt: skip
        sized = (replicas[prefill.spec.name], replicas[decode.spec.name])
        own = together_figures(name, one, prefill.spec.phase, sized) | limit_figures(spec, prefill.spec, whole)
        if one.decision.violated:
            return violated_together(name, one, own)
        found[name] = one
        figures |= own
    return SidesTogether(pools=found, figures=figures) if found else None


def tried_together(
    spec: PlanSpec,
    prefill: PoolSpec,
    whole: Demand,
    sides: tuple[Bases, Bases],
    replicas: tuple[int, int],
    *,
    rate_rps: float | None = None,
    seed: int,
    map: Any = map,  # noqa: A002
) -> BothSides:
    """So many replicas of both sides under the whole's traffic, held to the whole's limits.

    Without a rate it is what a plan sizes for.
    """
    assert prefill.phase is not None
    first, second = (each.nominal for each in sides)
    classes = tuple(each.request_class for each in spec.served_by(prefill.name)) or tuple(
        each.request_class for each in spec.served_by(prefill.whole)
    )
    pair = SplitPools(
        prefill=first.replica,
        prefill_replicas=replicas[0],
        decode=second.replica,
        decode_replicas=replicas[1],
        transfer=prefill.phase.transfer,
        prefill_routing=_without_prefixes(first.routing),
        decode_routing=_without_prefixes(second.routing),
    )
    at_rps = rate_rps or whole.planning_rps / (1.0 - number(spec.policy.margin))
    return decide_both(pair, mix_of(whole, classes, first.replica), classes, sides, rate_rps=at_rps, seed=seed, map=map)


def _without_prefixes(routing: str) -> str:
    """Both sides together are simulated with stated hits: a router that goes by prefixes has none to go by."""
    return DEFAULT_ROUTER if routing in PREFIX_ROUTERS else routing


def violated_together(name: str, found: BothSides, figures: Mapping[str, Figure]) -> Rejection:
    what = found.decision.violated[0]
    return Rejection(
        stage="disaggregated",
        reason=f"{found.pools.prefill_replicas} prefill and {found.pools.decode_replicas} decode replicas of {name} "
        f"each meet their part of every limit, and together violate {what}",
        figure=figures[f"disaggregated.{name}.used_fraction"],
        remedies=(
            Remedy(
                change="a larger pool.disaggregated.decode_share",
                effect="more prefill replicas, more time between tokens",
            ),
            Remedy(change="a faster pool.disaggregated.transfer", effect="a shorter KV transfer"),
        ),
    )


def limit_figures(spec: PlanSpec, prefill: PoolSpec, whole: Demand) -> dict[str, Figure]:
    """Of every limit on TTFT, the part that is the prefill side's."""
    assert prefill.phase is not None
    inputs = prefill.phase.inputs
    stated = {each.request_class.name: each.slo_limits for each in spec.served_by(prefill.name)}
    found = (
        Figure(
            name=f"disaggregated.{prefill.whole}.{each.request_class.name}.{slo.name}_prefill_s",
            value=slo.limit_s,
            unit="s",
            formula="limit x (1 - decode share) - the transfer of a prompt at the SLO's percentile",
            inputs=(*stated[each.request_class.name], *inputs),
        )
        for each in side_classes(spec.served_by(prefill.name), prefill.phase, whole)
        for slo in each.request_class.slos
    )
    return {each.name: each for each in found}


def together_figures(
    name: str, found: BothSides, phase: PoolSide, sized: Sequence[Figure | Assumption]
) -> dict[str, Figure]:
    """What the KV's way takes, and how near both sides together come to what an SLO allows."""
    first = found.decision.first
    made = (
        Figure(
            name=f"disaggregated.{name}.transfer_p95_s",
            value=found.transfer_p95_s,
            unit="s",
            formula=f"{phase.handover_s:.4g} s + prompt tokens at p95 x {phase.bytes_per_token:.6g} bytes / bandwidth "
            "x (1 - overlap)",
            inputs=(phase.bandwidth, phase.overlap),
        ),
        Figure(
            name=f"disaggregated.{name}.used_fraction",
            value=0.0 if first is None else first.use_fraction,
            unit="fraction",
            formula="the largest part used of what an SLO allows to miss, both sides simulated together at the "
            "planning rate",
            inputs=(*sized, *phase.inputs),
        ),
    )
    return {each.name: each for each in made}
