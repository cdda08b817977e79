"""An estimate of a plan in a fraction of a second: about how many replicas, devices, machines and dollars.

It goes through the plan's own stages as far as they take no time: demand, memory, step times, start, reserves, packing,
the price of a device-hour. The steady fleet is replaced by an estimate (service/curve/quick.py). Losses, limits,
scaling, the bill's other lines and the risk are not in it: the plan decides them.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ullage.errors import Rejection
from ullage.evidence import Figure, number
from ullage.fleet.risk.planning_point import PlanningPoint
from ullage.fleet.steady import SteadyFleet
from ullage.memory.budget import MemoryBudget
from ullage.planning.device_hours import device_hours
from ullage.planning.machines import on_machines
from ullage.planning.planned_for import planned_for, pool_memory, pool_steps
from ullage.planning.sides import pool_asked, pool_classes
from ullage.planning.spec import PlanSpec, PoolSpec
from ullage.prices.book import MissingPrice
from ullage.service.curve.curve import StablePoint, point_of
from ullage.service.curve.quick import QuickSize, quick_size
from ullage.service.curve.sizing import PoolSize
from ullage.service.stage import band_of, pool_bases
from ullage.service.trial.bases import Bases
from ullage.service.trial.search import LeastReplicas
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.startup.settings import StartSettings
from ullage.workload.demand.demand import Demand
from ullage.workload.demand.tools import saturated_tool


@dataclass(frozen=True, kw_only=True)
class SloUse:
    """What is used of an SLO's or an error budget's allowance at the highest load that was tried and met them all."""

    name: str
    missed_fraction: float
    allowed_fraction: float


@dataclass(frozen=True, kw_only=True)
class PoolEstimate:
    """About what a pool takes. `steady_replicas` lie between the two numbers beside it, reserves come on top.

    `usd` is a month of its devices at the price book's prices, without any other line; None where there is no price.
    """

    pool: str
    model: str
    device: str
    rate_rps: float
    steady_replicas: int
    low_replicas: int
    high_replicas: int
    reserve_replicas: int
    total_replicas: int
    devices: int
    nodes: int
    machine: str
    usd: float | None
    low_usd: float | None
    high_usd: float | None
    kv_tokens: int
    binding: str
    slos: tuple[SloUse, ...]


@dataclass(frozen=True, kw_only=True)
class PlanEstimate:
    """An estimate of every pool. `pending` are pools without an estimate before they are decided."""

    service: str
    as_of: datetime.date
    seed: int
    planning_rps: float
    total_replicas: int
    devices: int
    usd: float | None
    pools: tuple[PoolEstimate, ...]
    pending: tuple[str, ...]


def estimate_plan(
    spec: PlanSpec,
    *,
    as_of: datetime.date,
    seed: int,
    map: Any = map,  # noqa: A002
) -> PlanEstimate | Rejection:
    """The estimate, or a refusal that the plan would end with as well."""
    point, demand, _ = planned_for(spec)
    full = saturated_tool(spec.tools, demand)
    if full is not None:
        return full
    pools: list[PoolEstimate] = []
    pending: list[str] = []
    for pool in spec.pools:
        asked = pool_asked(spec, pool, demand)
        found = _pool(pool, spec, asked, point, seed=seed, map=map)
        if isinstance(found, Rejection):
            return found
        if found is None:
            pending.append(pool.name)
        else:
            pools.append(found)
    priced = [each.usd for each in pools if each.usd is not None]
    return PlanEstimate(
        service=spec.name,
        as_of=as_of,
        seed=seed,
        planning_rps=demand.planning_rps,
        total_replicas=sum(each.total_replicas for each in pools),
        devices=sum(each.devices for each in pools),
        usd=sum(priced) if priced and len(priced) == len(spec.pools) else None,
        pools=tuple(pools),
        pending=tuple(pending),
    )


def _pool(
    pool: PoolSpec,
    spec: PlanSpec,
    demand: Demand,
    point: PlanningPoint,
    *,
    seed: int,
    map: Any,  # noqa: A002
) -> PoolEstimate | Rejection | None:
    memory = pool_memory(pool)
    if isinstance(memory, Rejection):
        return memory
    step = pool_steps(pool, memory)
    classes = tuple(each.request_class for each in pool_classes(spec, pool, demand))
    planned = point.of_pool(band_of(step), demand)
    bases = pool_bases(
        step, memory, demand, classes,
        seed=seed, deadlines_s=spec.admission.deadlines_s(classes), band=planned.band,
    )  # fmt: skip
    rate_rps = demand.planning_rps / (1.0 - number(spec.policy.margin))
    size = quick_size(bases, rate_rps=rate_rps, seed=seed, map=map)
    steady = _steady(pool, bases, size, demand)
    if steady is None:
        return None
    steady = replace(steady, need=planned.need)
    ready = _ready(memory, pool, seed)
    sites = spec.sites.get(pool.device.name)
    placed = on_machines(pool, spec, memory.runtime.sharding, steady, ready, demand, sites=sites, seed=seed)
    if isinstance(placed, Rejection):
        return placed
    reserves, packing = placed
    usd = _device_usd(pool, spec, memory)
    devices, wide = packing.chosen.devices, size.replicas
    return PoolEstimate(
        pool=pool.name,
        model=pool.model.name,
        device=pool.device.name,
        rate_rps=rate_rps,
        steady_replicas=steady.replicas,
        low_replicas=min(size.low_replicas, steady.replicas),
        high_replicas=max(size.high_replicas, steady.replicas),
        reserve_replicas=reserves.replicas,
        total_replicas=steady.replicas + reserves.replicas,
        devices=devices,
        nodes=packing.chosen.nodes,
        machine=packing.chosen.shape.name,
        usd=None if usd is None else usd * devices,
        low_usd=None if usd is None else usd * devices * size.low_replicas / wide,
        high_usd=None if usd is None else usd * devices * size.high_replicas / wide,
        kv_tokens=memory.kv_tokens,
        binding=size.binding,
        slos=tuple(
            SloUse(name=each.name, missed_fraction=each.missed_fraction, allowed_fraction=each.allowed_fraction)
            for each in size.at.judged
        ),
    )


# The latest starts, kept for the same reasons as the budgets of planned_for.py.
_STARTS: list[tuple[MemoryBudget, StartSettings, int, TimeToReady]] = []
_MOST_STARTS = 8


def _ready(memory: MemoryBudget, pool: PoolSpec, seed: int) -> TimeToReady:
    """How a replica comes up, which its memory, its settings and the seed decide."""
    for kept, start, drawn_by, ready in tuple(_STARTS):
        if kept is memory and drawn_by == seed and start == pool.start:
            return ready
    found = time_to_ready(memory, pool.start, rng=np.random.default_rng(seed))
    _STARTS.append((memory, pool.start, seed, found))
    del _STARTS[:-_MOST_STARTS]
    return found


def _steady(pool: PoolSpec, bases: Bases, size: QuickSize, demand: Demand) -> SteadyFleet | None:
    """The estimate in the place of the decided fleet, so that reserves and machines are counted by the same rules."""
    trial = bases.conservative
    point = point_of(trial, size.at)
    if not isinstance(point, StablePoint):
        return None
    least = LeastReplicas(
        replicas=size.replicas,
        low_replicas=size.low_replicas,
        at=size.at,
        below=None,
        tested_replicas=size.tried_replicas,
        tested_rps=size.at.rate_rps,
    )
    devices = bases.nominal.replica.devices
    replicas = max(size.replicas, 0 if pool.least is None else int(number(pool.least)))
    figure = Figure(
        name="fleet.replicas",
        value=replicas,
        unit="replicas",
        formula="estimated from two windows of part of the pool; a full plan decides it",
        inputs=(demand.figures["demand.planning_rate"],),
    )
    return SteadyFleet(
        size=PoolSize(
            rate_rps=size.rate_rps,
            bases=bases,
            nominal=least,
            conservative=least,
            at_size=point,
            devices=devices,
            figures={},
        ),
        replicas=replicas,
        nominal_replicas=replicas,
        devices=replicas * devices,
        figures={figure.name: figure},
    )


def _device_usd(pool: PoolSpec, spec: PlanSpec, memory: MemoryBudget) -> float | None:
    """A device for a month, at the mix of purchases that the plan has; None without a price."""
    quotes = device_hours(spec, pool, replica_devices=memory.runtime.sharding.devices)
    if isinstance(quotes, MissingPrice):
        return None
    return spec.cost.period_hours * sum(each.share_fraction * each.usd_per_hour for each in quotes)
