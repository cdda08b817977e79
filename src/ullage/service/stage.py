"""From what a plan's earlier stages found to a curve, a point and a size.

step model + memory budget  ->  the replica: step times, KV blocks, the scheduler's limits
demand + SLOs           ->  the mix: the busy hour's classes, lengths, sessions and bursts
step model's evidence       ->  the band of step times, and with it the evidence margin
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.facts.efficiency import efficiencies
from ullage.memory.budget import MemoryBudget
from ullage.memory.host import replica_token_bytes
from ullage.memory.settings import OFF, RuntimeSettings, whole
from ullage.service.calibration.replay import CROWD_FRACTION, polling_s
from ullage.service.curve.curve import ServiceCurve, replica_curve
from ullage.service.curve.margin import NO_POLICY
from ullage.service.curve.point import OperatingPoint, replica_point
from ullage.service.replica import Replica, capacity_of
from ullage.service.steps.band import DEFAULT_BANDS, StepBand, step_band
from ullage.service.steps.coefficients import OTHER_LOAD, StepErrorBand
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.profile_table import KERNELS
from ullage.service.steps.scaled import PARAMETERS, Factors, ScaledStep
from ullage.service.steps.step_model import MeasuredRange, StepModel
from ullage.service.trial.bases import Bases, bases_of
from ullage.service.trial.mix import MixLoad, SessionTurns
from ullage.service.trial.trial import NOMINAL, Trial
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import DEFAULT_ROUTER
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand
from ullage.workload.synthetic.stream import BLOCK_TOKENS

# A step that says much of a replica in one number: 64 sequences of a thousand tokens.
_SHOWN_SEQUENCES, _SHOWN_KV_TOKENS = 64, 64_000


def scheduler_limits(memory: MemoryBudget) -> tuple[int, int]:
    """Sequences that may run and tokens that a step may compute; a budget that not every sequence fits is refused."""
    runtime = memory.runtime
    # Groups of data-parallel attention have the scheduler's limits each.
    groups = runtime.sharding.dp_attention
    sequences, budget = groups * whole(runtime.max_sequences), groups * whole(runtime.step_tokens)
    given = runtime.settings.speculation
    positions = sequences if given is None else sequences * given.positions
    if budget < positions:
        each = "" if given is None else f" at {given.positions} positions each"
        raise InputError(
            field="pool.token_budget",
            value=budget,
            problem=f"is below the {sequences} sequences that may run{each}, so not every one could decode in a step",
            fix="Raise pool.token_budget or lower pool.max_sequences; engines refuse this too.",
        )
    return sequences, budget


def replica_of(step: StepModel, memory: MemoryBudget) -> Replica:
    """One replica: what memory leaves for KV, what the engine's settings allow, and how long steps take."""
    runtime = memory.runtime
    given = runtime.settings.speculation
    sequences, budget = scheduler_limits(memory)
    # The scheduler counts in blocks of a power of two; layouts of hybrids are not, and lose less than a block by it.
    alone_s, each_s = polling_s(step, whole(runtime.poll_steps), runtime.settings.batch_wait_steps or 0)
    block = memory.kv_block_tokens if memory.kv_block_tokens.bit_count() == 1 else BLOCK_TOKENS
    host = runtime.settings.host_cache
    block_bytes = block * replica_token_bytes(runtime.settings, memory.stored_bytes_per_token)
    return Replica(
        engine=Engine(
            step=step.table(max_sequences=sequences, budget_tokens=budget, kv_tokens=memory.kv_tokens),
            kv_blocks=max(1, memory.kv_tokens // block),
            block_tokens=block,
            max_sequences=sequences,
            budget_tokens=budget,
            request_overhead_s=step.request_overhead_s + alone_s,
            crowd_overhead_s=CROWD_FRACTION * step.request_overhead_s + each_s,
            tokens_per_step=1.0 if given is None else given.rate_tokens,
            step_positions=1 if given is None else given.positions,
            host_blocks=memory.host.cached_kv_tokens // block,
            host_block_s=0.0 if host is None else block_bytes / host.bandwidth_bytes_per_s,
            capacity=capacity_of(runtime),
        ),
        devices=runtime.sharding.devices,
    )


def calibrated_step(
    step: StepModel,
    factors: Factors,
    source: Source,
    *,
    band: StepErrorBand | None = None,
    tested: MeasuredRange | None = None,
    spread: FactorSpread | None = None,
) -> StepModel:
    """The step model scaled to load tests of this very configuration, not below the device's floor.

    `band` is the calibration's own; without it, what calibrations in general leave. `tested` is the range that the
    tests covered, `spread` how far a prediction may be off at any load.
    """
    scaled = ScaledStep(times=step, factors=factors)
    found = tuple(
        Assumption(
            name=f"calibration.{name}_ratio",
            value=getattr(factors, f"{name}_ratio"),
            unit="ratio",
            evidence=Evidence.CALIBRATED,
            source=source,
        )
        for name in PARAMETERS
    )
    return replace(
        step,
        kind=f"calibrated {step.kind}",
        times=scaled,
        evidence=Evidence.CALIBRATED,
        request_overhead_s=scaled.request_overhead_s,
        band=step.band if band is None else band,
        measured=tested,
        spread=spread,
        # The estimate's coefficients have been replaced by what was measured; only the device's floor still holds.
        facts=found,
    )


def mix_of(
    demand: Demand, classes: Sequence[RequestClass], replica: Replica, settings: RuntimeSettings | None = None
) -> MixLoad:
    """The busy hour of the demand, as one replica sees it.

    A prefix counts as cached where a cache of one replica's size would still hold it after all the traffic of the
    service: a router that sends sessions back to their replica does better than this. Where the pool's `settings` have
    prefix caches simulated, hits are what those find, and where they state what becomes of KV between turns, turns come
    after answers.
    """
    return MixLoad(
        model=demand.busy_model,
        classes=tuple(classes),
        cache_blocks=-1.0
        if settings is not None and settings.prefix_cache == OFF
        else replica.engine.kv_tokens / BLOCK_TOKENS,
        chains=settings is not None and settings.simulates_prefixes,
        turns=None
        if settings is None or settings.between_turns is None
        else SessionTurns.on(replica.engine, settings.between_turns),
    )


def band_of(step: StepModel) -> StepBand:
    """How far this step model's times may be off: what a fit found on tests it had not seen, and what has drifted."""
    band = _own_band(step)
    return band if step.drift is None else band.widened(step.drift)


def _own_band(step: StepModel) -> StepBand:
    if step.evidence is Evidence.CALIBRATED and step.band.new == OTHER_LOAD:
        return step_band(
            step.evidence,
            fast_ratio=step.band.tpot_low_ratio,
            slow_ratio=step.band.tpot_high_ratio,
            source=step.facts[0].source,
            own=Evidence.CALIBRATED,
        )
    # What is assumed on top of an estimate, such as what neighbours cost, makes it no better.
    # A table of kernels has a band of its own, from published measurements.
    if step.evidence not in (Evidence.ESTIMATED, Evidence.ASSUMED) and step.band.new != KERNELS:
        return DEFAULT_BANDS[step.evidence]
    sheet = efficiencies().sheets.get(f"band-{step.band.new}")
    if sheet is None:
        return DEFAULT_BANDS[step.evidence]
    # A plan slows all steps by one ratio, and either latency may break its limit: the band is of the ratio with which
    # published sweeps would have been decided right, not of TPOT or of TTFT.
    fact = sheet.values["steps_high"]
    return step_band(
        step.evidence,
        fast_ratio=number(sheet.values["steps_low"]),
        slow_ratio=number(fact),
        source=fact.source,
        own=fact.evidence,
    )


def pool_bases(
    step: StepModel,
    memory: MemoryBudget,
    demand: Demand,
    classes: Sequence[RequestClass],
    *,
    seed: int,
    deadlines_s: Mapping[str, float] | None = None,
    band: StepBand | None = None,
) -> Bases:
    """One replica of the pool under its busy hour, on both step bases: what every stage after this one tries.

    `band` says how slow steps are taken to be; without it, as slow as one time in ten by the step model's own.
    """
    replica = replica_of(step, memory)
    trial = Trial(
        replica=replica,
        load_at=mix_of(demand, classes, replica, memory.runtime.settings),
        classes=tuple(classes),
        routing=memory.runtime.settings.router or DEFAULT_ROUTER,
        refresh_s=memory.runtime.settings.router_refresh_s,
        deadlines_s=deadlines_s or {},
    )
    return bases_of(trial, band or band_of(step), seed=seed)


def pool_curve(
    bases: Bases,
    *,
    seed: int,
    basis: str = NOMINAL,
    inputs: tuple[Figure | Assumption, ...] = (),
    map: Any = map,  # noqa: A002
) -> ServiceCurve:
    """The service curve of one replica of the pool under its busy hour."""
    return replica_curve(bases, seed=seed, basis=basis, inputs=inputs, map=map)


def pool_point(
    curve: ServiceCurve,
    step: StepModel,
    *,
    policy: Assumption = NO_POLICY,
    map: Any = map,  # noqa: A002
) -> OperatingPoint | Rejection:
    """The operating point of that curve, its evidence margin from the step model's own band."""
    return replica_point(curve, policy=policy, measured=step.measured, map=map)


def rests_on(
    step: StepModel, memory: MemoryBudget, demand: Demand, slo_limits: Sequence[Assumption]
) -> tuple[Figure | Assumption, ...]:
    """What every figure of a curve was computed from."""
    shown = Figure(
        name="curve.full_step_s",
        value=step.step_s(sequences=_SHOWN_SEQUENCES, kv_tokens=_SHOWN_KV_TOKENS),
        unit="s",
        formula=f"a decode step of {_SHOWN_SEQUENCES} sequences of 1,000 tokens, by the {step.kind} step model",
        inputs=step.facts,
        own_evidence=step.evidence,
    )
    traffic = [each for name, each in demand.figures.items() if name.endswith((".planning_rate", ".token_rate"))]
    runtime = memory.runtime
    return (
        shown,
        memory.figures["memory.kv_tokens"],
        runtime.max_sequences,
        runtime.step_tokens,
        *traffic,
        *slo_limits,
    )
