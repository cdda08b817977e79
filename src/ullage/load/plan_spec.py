"""A plan file as the value the core plans from: statements become assumptions, gaps become named defaults."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ullage.cost.quotes import PriceChoice
from ullage.errors import InputError, check_name, unknown_name
from ullage.evidence import Assumption, Evidence
from ullage.facts.catalogue import Catalogue
from ullage.facts.device import Device
from ullage.facts.engine import CAPACITY_POLICIES
from ullage.facts.model import Model
from ullage.facts.startup import STORAGES
from ullage.files.plan_file import ClassSection, PlanFile
from ullage.files.sections.admission import admission_of
from ullage.files.sections.ages import check_owners
from ullage.files.sections.claims import claims_of
from ullage.files.sections.class_shape import dated_events, event_inputs, rate_of_tokens, shape_of
from ullage.files.sections.cost import bought_of, cost_policy, offers_of, tasks_of
from ullage.files.sections.disaggregated import DisaggregatedSection
from ullage.files.sections.emit import emit_of
from ullage.files.sections.options import options_of
from ullage.files.sections.policy import utilisation_caps
from ullage.files.sections.pool import (
    APPROVED_CONCURRENCY,
    ENGINE,
    POOL,
    STORAGE,
    TENSOR_PARALLEL,
    HostCacheSection,
    PoolSection,
)
from ullage.files.sections.prices import prices_of
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.reliability import reserve_settings
from ullage.files.sections.routing import routing_of
from ullage.files.sections.scaling import scaling_of
from ullage.files.sections.sites import sites_of
from ullage.files.sections.tools import tools_of
from ullage.fleet.packing import chosen_shape, shapes_of
from ullage.fleet.reserves import ReserveSettings
from ullage.fleet.sites import Sites
from ullage.fleet.warm import FOLLOWS
from ullage.load.pool_cache import between_turns, host_cache
from ullage.load.traffic import grown_traffic
from ullage.memory.adapters import SLOWDOWN, TARGETS, Adapters
from ullage.memory.case import Approved
from ullage.memory.engine_report import EngineMemory
from ullage.memory.kv import cache_cost
from ullage.memory.settings import PREFIX_CACHES, RuntimeSettings, resolve
from ullage.memory.sharding import Sharding
from ullage.memory.speculation import Speculation, speculation
from ullage.planning.owners import Owners
from ullage.planning.sides import handover_s, prefill_side
from ullage.planning.spec import ClassDemand, PlanSpec, Policy, PoolSpec, slo_limits
from ullage.prices.book import PriceBook, is_own_price
from ullage.prices.packaged import book_of, packaged_book
from ullage.prices.price_list import PriceList
from ullage.scaling.settings import ScalingSettings
from ullage.service.calibration.aged import step_drift
from ullage.service.calibration.pool_step import NO_EVIDENCE, StepEvidence
from ullage.service.phase import DECODE_SHARE, OVERLAP, PoolSide, Side, side_name
from ullage.simulate.fleet import ROUTINGS
from ullage.startup.settings import MeasuredStart, StartSettings
from ullage.workload.classes import ClassRule, Metric, RequestClass, Slo
from ullage.workload.definitions import OUR_DEFINITIONS, Definitions, definitions_of
from ullage.workload.demand.ageing import grown_rate, rate_drift
from ullage.workload.demand.stated import StatedShape
from ullage.workload.demand.traffic import Traffic
from ullage.workload.synthetic.model import ClassModel, SyntheticModel


@dataclass(frozen=True, kw_only=True)
class LoadedPool:
    """What the names in one pool's section stand for."""

    model: Model
    device: Device
    reported: EngineMemory | None
    tested: StepEvidence = NO_EVIDENCE
    draft: Model | None = None
    starts: tuple[MeasuredStart, ...] = ()
    # The device of replicas that compute prompts alone, where it is another.
    prefill_device: Device | None = None


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What the names in the file stand for, pool by pool in the file's order."""

    pools: tuple[LoadedPool, ...]
    engines: Catalogue
    alternatives: tuple[Device, ...]
    traffic: Traffic | None = None
    synthetic: SyntheticModel | None = None
    startups: Catalogue | None = None
    operations: Catalogue | None = None
    prices: Catalogue | None = None
    price_lists: tuple[PriceList, ...] = ()
    as_of: datetime.date | None = None
    # What `options` names: devices by their names in the catalogue, variants by the model they stand in for.
    option_devices: tuple[str, ...] = ()
    option_models: Mapping[str, tuple[Model, ...]] = field(default_factory=dict)


def spec_of(file: PlanFile, loaded: Loaded, provenance: Provenance) -> PlanSpec:
    """The specification; a class named twice or an SLO that is none is an InputError."""
    names = [each.name for each in file.workload.classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                field="workload.classes", value=name, problem="appears twice", fix="Use each class name once."
            )
    if file.scaling.machines == "released" and file.warm.follows == "peak":
        raise InputError(
            field="scaling.machines",
            value="released",
            problem="releases machines, but warm.follows: peak keeps the fleet at its planned size",
            fix="Leave out one of the two.",
        )
    sections = file.every_pool
    routing = routing_of(file.routing, provenance)
    routing.check(names, [each.name or POOL for each in sections])
    ours = packaged_book() if loaded.prices is None else book_of(loaded.prices)
    book, buying = prices_of(file.prices, loaded.price_lists, ours, provenance, as_of=loaded.as_of)
    scaling = scaling_of(file.scaling, provenance)
    for name in buying.spot_classes:
        check_name(name, names, field="prices.spot_classes")
    pools = _pools(file, loaded, provenance)
    demands = _by_name(_demand(each, file, loaded, provenance) for each in file.workload.classes)
    return PlanSpec(
        name=file.service,
        traffic=grown_traffic(loaded.traffic, demands),
        demands=demands,
        events=dated_events(file.workload.events, provenance),
        pools=pools,
        policy=_policy(file, provenance),
        admission=admission_of(
            file.admission, {each.name: each.deadline for each in file.workload.classes}, provenance
        ),
        routing=routing,
        tools=tools_of(file.tools, tuple(names), provenance),
        sites=_sites(file, loaded, provenance),
        reserves=_following(
            scaling,
            reserve_settings(
                reliable=file.reliability,
                rollout=file.rollout,
                maintenance=file.maintenance,
                warm=file.warm,
                failover=file.failover,
                reserves=file.reserves,
                caps=utilisation_caps(file.policy.utilisation, provenance),
                provenance=provenance,
                catalogue=loaded.operations,
            ),
        ),
        scaling=scaling,
        prices=book,
        buying=_from_machines(pools, book, buying),
        cost=cost_policy(file.cost, provenance),
        tasks=tasks_of(file.cost, tuple(names), provenance),
        bought=bought_of(file.cost, cost_policy(file.cost, provenance), provenance),
        against=offers_of(file.cost, tuple(names), provenance),
        options=options_of(
            file.options,
            provenance,
            devices=loaded.option_devices,
            models=loaded.option_models,
            sites=_option_sites(file, loaded, provenance),
        ),
        emit=emit_of(file.emit, tuple(each.name or POOL for each in sections), provenance),
        claims=claims_of(file.claims, tuple(each.name or POOL for each in sections), provenance),
        owners=_owners(file, names),
    )


def _following(scaling: ScalingSettings, given: ReserveSettings) -> ReserveSettings:
    """Where machines are released the fleet follows demand, unless the file says that it does not."""
    if not scaling.releases_machines or given.warm.follows is not FOLLOWS:
        return given
    follows = replace(scaling.machines, name=FOLLOWS.name, value="demand")
    return replace(given, warm=replace(given.warm, follows=follows))


def _owners(file: PlanFile, classes: list[str]) -> Owners:
    pools = tuple(each.name or POOL for each in file.every_pool)
    check_owners(file.owners, list(PlanFile.model_fields), {"workload.classes": classes, "pools": pools})
    return Owners(by_key=file.owners, classes=tuple(classes), pools=pools)


def _by_name(demands: Iterable[ClassDemand]) -> tuple[ClassDemand, ...]:
    """Chance is drawn class by class, so that their order in the file would otherwise decide something."""
    return tuple(sorted(demands, key=lambda each: each.request_class.name))


def request_class(section: ClassSection) -> RequestClass:
    """A class as the workload knows it: its SLOs, and the rule that finds its requests in a trace."""
    return RequestClass(
        name=section.name,
        slos=tuple(_slo(section.name, slo_name, limit_s) for slo_name, limit_s in section.slo.items()),
        priority=section.priority,
        rule=None if section.match is None else ClassRule(**section.match.model_dump()),
        definitions=_definitions(section),
    )


def _definitions(section: ClassSection) -> Definitions:
    if section.definitions is None:
        return OUR_DEFINITIONS
    return definitions_of(section.definitions, field=f"workload.classes.{section.name}.definitions")


def _demand(section: ClassSection, file: PlanFile, loaded: Loaded, provenance: Provenance) -> ClassDemand:
    name = section.name
    found = request_class(section)
    model = None if loaded.synthetic is None else loaded.synthetic.named(name)
    shape = shape_of(
        section,
        provenance,
        is_traced=loaded.traffic is not None,
        has_lengths=loaded.traffic is not None and loaded.traffic.classes[name].lengths_from is None,
        is_forecast=loaded.traffic is not None and loaded.traffic.classes[name].forecast is not None,
        model=model,
        model_source=provenance.source,
        events=event_inputs(file.workload.events, provenance, horizon_s=file.policy.value("horizon")),
    )
    dated = _mean_rate(section, model, shape, loaded.traffic, provenance)
    growth = None if shape is None else shape.weekly_growth
    mean_rate = dated if provenance.as_of is None else grown_rate(dated, growth, provenance.as_of)
    return ClassDemand(
        request_class=found,
        pool=_serving(section, file),
        slo_limits=slo_limits(found, evidence=provenance.evidence, source=provenance.source),
        mean_rate=mean_rate,
        longest_context=provenance.says(f"{name}.longest_context", section.longest_context, "tokens"),
        shape=_aged_shape(name, shape, mean_rate, loaded.traffic, provenance),
        success=section.success,
        dated_rate=None if mean_rate is dated else dated,
    )


def _aged_shape(
    name: str, shape: StatedShape | None, mean_rate: Assumption, traffic: Traffic | None, provenance: Provenance
) -> StatedShape | None:
    """What is stated of a class, with what its rate has drifted by, and whether its trace's lengths are too old."""
    as_of = provenance.as_of
    if as_of is None:
        return shape
    # Where a trace is scaled to a stated rate, the trace still says how the rate moves, and its age counts.
    dated = mean_rate if traffic is None else replace(
        mean_rate, source=traffic.source, max_age=provenance.ages.age("trace")
    )  # fmt: skip
    drift = rate_drift(name, dated.past(as_of))
    is_old = traffic is not None and as_of - traffic.source.date > provenance.ages.age("lengths")
    if drift is None and not is_old:
        return shape
    return replace(shape or StatedShape(), drift=drift, has_old_lengths=is_old)


def _routed_to(file: PlanFile, request_class: str) -> tuple[str, ...]:
    """The pools on the route of a class, in order; none where it has no route."""
    found = next((each for each in file.routing if each.request_class == request_class), None)
    if found is None:
        return ()
    return (*(each.pool for each in found.shares), *(each.pool for each in found.escalation))


def _sites(file: PlanFile, loaded: Loaded, provenance: Provenance) -> dict[str, Sites]:
    """Where each device of the plan may stand; nothing where only the number of zones is known."""
    if file.sites is None:
        return {}
    if file.policy.zones is not None:
        problem = "conflicts with sites, which set it too"
        raise InputError(
            field="policy.zones", value=file.policy.zones, problem=problem, fix="Leave out one of the two."
        )
    known = [each.name for each in loaded.alternatives]
    for region in file.sites.regions:
        for name in (*region.quotas, *(name for zone in region.zones for name in zone.quotas)):
            check_name(name, known, field=f"sites.{region.name}.quotas")
    named = (one for each in loaded.pools for one in (each.device, each.prefill_device) if one is not None)
    return {each.name: sites_of(file.sites, each.name, provenance) for each in named}


def _option_sites(file: PlanFile, loaded: Loaded, provenance: Provenance) -> dict[str, Sites]:
    """Where any device may stand that could be chosen."""
    if file.sites is None:
        return {}
    return {each.name: sites_of(file.sites, each.name, provenance) for each in loaded.alternatives}


def _serving(section: ClassSection, file: PlanFile) -> str:
    """The pool that serves this class: the only one, the one it names, or the first of its route."""
    names = [each.name or POOL for each in file.every_pool]
    field = f"workload.classes.{section.name}.pool"
    routed = _routed_to(file, section.name)
    if routed and section.pool is not None:
        problem = "conflicts with a route, which sets it too"
        raise InputError(field=field, value=section.pool, problem=problem, fix="Leave out one of the two.")
    if routed:
        return routed[0]
    if section.pool is None and len(names) == 1:
        return names[0]
    if section.pool is None:
        fix = f"Name the pool that serves this class: {', '.join(names)}."
        raise InputError(field=field, value=None, problem="is missing, but there are several pools", fix=fix)
    check_name(section.pool, names, field=field)
    return section.pool


def _mean_rate(
    section: ClassSection,
    model: ClassModel | None,
    shape: StatedShape | None,
    traffic: Traffic | None,
    provenance: Provenance,
) -> Assumption:
    """The rate has one source: the trace, at its own rate or scaled to the stated one, or the file (a rate, users or
    tokens), or the synthetic model where the file states none."""
    field, name = f"workload.classes.{section.name}.rate", f"{section.name}.mean_rate"
    ways = [way for way in ("rate", "users", "tokens") if getattr(section, way) is not None]
    if len(ways) > 1:
        raise InputError(
            field=field, value=", ".join(ways), problem="are given together, but each sets the rate", fix="Give one."
        )
    if section.rate is not None:
        return provenance.says(name, section.rate, "req/s")
    if traffic is not None:
        rate = traffic.mean_rates_rps[section.name]
        said = Assumption(name=name, value=rate, unit="req/s", evidence=Evidence.MEASURED, source=traffic.source)
        return provenance.aged(said, kind="trace")
    if shape is not None and shape.users is not None:
        return provenance.says(name, shape.users.mean_rps, "req/s")
    if section.tokens is not None:
        return provenance.says(name, rate_of_tokens(section, shape), "req/s")
    if model is not None:
        return provenance.says(name, model.mean_rate_rps, "req/s")
    fix = "Give a rate such as 12 req/s or 50000 req/day, tokens, users, or a trace."
    raise InputError(field=field, value=None, problem="is missing", fix=fix)


def _slo(name: str, slo_name: str, limit_s: float) -> Slo:
    found = re.fullmatch(r"(ttft|tpot|itl|e2e)_p(\d+(?:\.\d+)?)", slo_name)
    if found is None or not 0 < float(found.group(2)) < 100:
        raise InputError(
            field=f"workload.classes.{name}.slo.{slo_name}",
            value=slo_name,
            problem="is not a metric and a percentile",
            fix="Write ttft, tpot, itl or e2e and a percentile between 0 and 100, for example ttft_p95.",
        )
    return Slo(metric=Metric(found.group(1)), percentile_fraction=float(found.group(2)) / 100, limit_s=limit_s)


def _coming_to(pool: str, file: PlanFile) -> list[ClassSection]:
    """The classes that a pool serves, alone or on a route."""
    found = [each for each in file.workload.classes if pool in (_routed_to(file, each.name) or (each.pool or pool,))]
    if not found:
        problem = "no class is served by it, nor routed to it"
        raise InputError(
            field="pools", value=pool, problem=problem, fix="Name it in a class or a route, or leave it out."
        )
    return found


def _pools(file: PlanFile, loaded: Loaded, provenance: Provenance) -> tuple[PoolSpec, ...]:
    """Every pool; one whose prefill and decode are apart is two, its sides."""
    found: list[PoolSpec] = []
    for section, named in zip(file.every_pool, loaded.pools, strict=True):
        pool = _pool(file, section, named, loaded, provenance)
        if section.disaggregated is None:
            found.append(pool)
        else:
            found += _sides(pool, section.disaggregated, named.prefill_device, provenance)
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            fix = "Rename the pools so that no side of one has the name of another."
            raise InputError(field="pools", value=name, problem="names two pools", fix=fix)
    return tuple(found)


def _sides(
    pool: PoolSpec, given: DisaggregatedSection, device: Device | None, provenance: Provenance
) -> tuple[PoolSpec, PoolSpec]:
    """The prefill side and the decode side of a pool; the pool's own settings are those of the decode side."""
    prefix = pool.choices[0].name.removesuffix(".model") + ".disaggregated"
    cache = resolve(pool.settings, pool.model, pool.device, pool.engines).cache
    phase = PoolSide(
        side=Side.DECODE,
        pool=pool.name,
        bytes_per_token=cache_cost(pool.model, cache).bytes_per_token,
        bandwidth=provenance.says(f"{prefix}.transfer", given.transfer, "bytes/s"),
        overlap=provenance.over(OVERLAP, given.overlap, name=f"{prefix}.overlap"),
        decode_share=provenance.over(DECODE_SHARE, given.decode_share, name=f"{prefix}.decode_share"),
        handover_s=handover_s(pool),
    )
    stated = given.prefill
    keys = {"device": "", "tensor_parallel": "devices", "token_budget": "tokens", "max_sequences": "sequences",
            "router": "", "instance": ""}  # fmt: skip
    said = [
        provenance.says(f"{prefix}.prefill.{key}", value, unit)
        for key, unit in keys.items()
        if (value := getattr(stated, key)) is not None
    ]
    instance = stated.instance or (pool.instance if device is None else None)
    chosen_shape(shapes_of(device or pool.device), instance)
    prefill = prefill_side(
        pool, device=device, tp=stated.tensor_parallel, step_tokens=stated.token_budget,
        max_sequences=stated.max_sequences,
        router=_known_or_none(stated.router, ROUTINGS, "pool.disaggregated.prefill.router"), instance=instance,
    )  # fmt: skip
    choices = (*pool.choices, *said, *phase.inputs)
    return (
        replace(
            prefill,
            name=side_name(pool.name, Side.PREFILL),
            choices=choices,
            phase=replace(phase, side=Side.PREFILL),
        ),
        replace(pool, name=side_name(pool.name, Side.DECODE), choices=choices, phase=phase),
    )


def _from_machines(pools: Sequence[PoolSpec], book: PriceBook, buying: PriceChoice) -> PriceChoice:
    """Where the file names every machine and no provider, devices are bought from those who sell these machines.

    A device that the user has a price for is bought at that price, whoever sells the machine.
    """
    if buying.providers or any(pool.instance is None for pool in pools):
        return buying
    sellers = {chosen_shape(shapes_of(pool.device), pool.instance).provider for pool in pools}
    offered = [book.devices.get(pool.device.name, ()) for pool in pools]
    is_priced = all(any(price.provider in sellers for price in prices) for prices in offered)
    is_own = any(map(is_own_price, chain(*offered))) or any(map(is_own_price, book.owned))
    return replace(buying, providers=tuple(sorted(sellers))) if is_priced and not is_own else buying


def _pool(file: PlanFile, pool: PoolSection, loaded: LoadedPool, shared: Loaded, provenance: Provenance) -> PoolSpec:
    name = pool.name or POOL
    prefix = "pool" if len(file.every_pool) == 1 else f"{name}.pool"
    engine = provenance.over(ENGINE, pool.engine, name=f"{prefix}.engine")
    tp = provenance.over(TENSOR_PARALLEL, pool.tensor_parallel, name=f"{prefix}.tensor_parallel")
    concurrency = provenance.over(
        APPROVED_CONCURRENCY, pool.approved_concurrency, name=f"{prefix}.approved_concurrency"
    )
    context = _context(pool, prefix, _coming_to(name, file))
    start = _start(pool, prefix, loaded, shared, provenance)
    # A machine that the device does not come in is better refused before anything is simulated.
    chosen_shape(shapes_of(loaded.device), pool.instance)
    least, most = (
        None if value is None else provenance.decides(f"{prefix}.{what}_replicas", value, "replicas")
        for what, value in (("least", pool.least_replicas), ("most", pool.most_replicas))
    )
    choices = (
        provenance.says(f"{prefix}.model", pool.model, ""),
        engine,
        provenance.may_say(f"{prefix}.engine_version", pool.engine_version, ""),
        provenance.says(f"{prefix}.device", pool.device, ""),
        tp,
        concurrency,
        provenance.may_say(f"{prefix}.instance", pool.instance, ""),
        provenance.may_say(f"{prefix}.prefix_cache", pool.prefix_cache, ""),
        provenance.may_say(f"{prefix}.router", pool.router, ""),
        provenance.may_say(f"{prefix}.router_refresh", pool.router_refresh, "s"),
        provenance.may_say(f"{prefix}.between_turns", pool.between_turns, ""),
        *(() if pool.host_cache is None else _tier(pool.host_cache, f"{prefix}.host_cache", provenance)),
        start.storage,
        start.bandwidth,
        least,
        most,
    )
    return PoolSpec(
        name=name,
        least=least,
        most=most,
        choices=tuple(each for each in choices if each is not None),
        model=loaded.model,
        device=loaded.device,
        settings=_settings(pool, context, loaded.draft, provenance),
        approved=Approved(context_tokens=context, sequences=int(concurrency.value)),
        start=start,
        reported=loaded.reported,
        tested=loaded.tested,
        engines=shared.engines,
        alternatives=shared.alternatives,
        instance=pool.instance,
        step_drift=_step_drift(loaded.tested, provenance),
    )


def _step_drift(tested: StepEvidence, provenance: Provenance) -> Assumption | None:
    """What steps may have changed by since their evidence was past its age; estimates have the age of their facts."""
    if provenance.as_of is None or tested.dated is None:
        return None
    return step_drift(provenance.as_of - tested.dated - provenance.ages.age("load_tests"))


def _start(pool: PoolSection, prefix: str, loaded: LoadedPool, shared: Loaded, provenance: Provenance) -> StartSettings:
    if pool.storage is not None and pool.storage not in STORAGES:
        raise unknown_name(field=f"{prefix}.storage", name=pool.storage, known=STORAGES)
    return StartSettings(
        storage=provenance.over(STORAGE, pool.storage, name=f"{prefix}.storage"),
        bandwidth=provenance.may_say(f"{prefix}.storage_bandwidth", pool.storage_bandwidth, "bytes/s"),
        measured=loaded.starts,
        sheets=shared.startups,
    )


def _context(pool: PoolSection, prefix: str, classes: list[ClassSection]) -> int:
    """The context that the engine is started for: an engine for more than any class may use sets memory aside in vain,
    and one for less would refuse what the class is allowed."""
    longest = max(classes, key=lambda each: each.longest_context)
    if pool.max_context is not None and pool.max_context < longest.longest_context:
        raise InputError(
            field=f"{prefix}.max_context",
            value=pool.max_context,
            problem=f"is less than the {longest.longest_context} tokens that {longest.name} may send",
            fix=f"Raise it, or lower workload.classes.{longest.name}.longest_context.",
        )
    return pool.max_context or longest.longest_context


def _policy(file: PlanFile, provenance: Provenance) -> Policy:
    found = provenance.filled(file.policy)
    if file.policy.margin is not None:
        found["margin"] = replace(found["margin"], decision=True)
    return Policy(**found)


def _settings(pool: PoolSection, context_tokens: int, draft: Model | None, provenance: Provenance) -> RuntimeSettings:
    return RuntimeSettings(
        source=provenance.source,
        evidence=provenance.evidence,
        engine=pool.value("engine"),
        version=pool.engine_version,
        sharding=Sharding(
            tp=pool.value("tensor_parallel"), pp=pool.value("pipeline_parallel"), ep=pool.value("expert_parallel")
        ),
        memory_fraction=pool.memory_fraction,
        step_tokens=pool.token_budget,
        max_sequences=pool.max_sequences,
        poll_steps=pool.poll_steps,
        batch_wait_steps=pool.batch_wait_steps,
        capacity_policy=_known_or_none(pool.capacity_policy, CAPACITY_POLICIES, "pool.capacity_policy"),
        conservativeness=pool.conservativeness,
        output_limit_tokens=pool.max_output,
        kv_dtype=pool.kv_dtype,
        max_context_tokens=context_tokens,
        speculation=_speculation(pool, draft, provenance),
        adapters=_adapters(pool, provenance),
        prefix_cache=_known_or_none(pool.prefix_cache, PREFIX_CACHES, "pool.prefix_cache"),
        router=_known_or_none(pool.router, ROUTINGS, "pool.router"),
        router_refresh_s=pool.router_refresh or 0.0,
        host_cache=host_cache(pool),
        between_turns=between_turns(pool),
    )


def _tier(given: HostCacheSection, name: str, provenance: Provenance) -> tuple[Assumption, ...]:
    return (
        provenance.says(f"{name}.bytes", given.bytes, "bytes"),
        provenance.says(f"{name}.bandwidth", given.bandwidth, "bytes/s"),
    )


def _known_or_none(name: str | None, known: Sequence[str], field: str) -> str | None:
    return None if name is None else check_name(name, known, field=field)


def _adapters(pool: PoolSection, provenance: Provenance) -> Adapters | None:
    given = pool.adapters
    if given is None:
        return None
    found = Adapters(slots=given.slots, rank_channels=given.rank, slowdown=provenance.over(SLOWDOWN, given.slowdown))
    targets = tuple(check_name(each, TARGETS, field="pool.adapters.targets") for each in given.targets)
    return replace(found, targets=targets) if targets else found


def _speculation(pool: PoolSection, draft: Model | None, provenance: Provenance) -> Speculation | None:
    given = pool.speculation
    if given is None:
        return None
    return speculation(
        given.method,
        given.tokens,
        acceptance=given.acceptance,
        tokens_per_step=given.accepted_per_step,
        draft=draft,
        source=provenance.source,
        evidence=provenance.evidence,
        field="pool.speculation",
    )
