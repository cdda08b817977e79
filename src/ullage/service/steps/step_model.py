"""The step model: how long one engine iteration takes, on what evidence, and in which range.

    roofline   `estimated`    work over rates, with fitted efficiencies            roofline.py
    grid       `profiled`     measured steps, as ratios to the roofline             grid.py, profiled.py
    any of them, scaled to the user's load tests: `calibrated`                     calibration.py

Whatever the kind, no step is faster than the floor of the device (floor.py), and all of them become the same integer
tables for the simulator (tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure
from ullage.facts.device import Device
from ullage.facts.efficiency import efficiencies
from ullage.facts.model import Model
from ullage.memory.kv import KvDtype
from ullage.memory.settings import Runtime
from ullage.memory.sharding import Sharding
from ullage.service.steps.coefficients import (
    ENGINE_NAMES,
    Coefficients,
    StepErrorBand,
    band,
    coefficients,
    engine_age_years,
)
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.floor import Floor
from ullage.service.steps.nearness import EXACT, nearness
from ullage.service.steps.roofline import Rates, Roofline
from ullage.service.steps.scaled import PARAMETERS, CorrectedStep
from ullage.service.steps.tables import StepTimes, step_table
from ullage.service.steps.work import Floats, replica_work
from ullage.simulate.engine import StepTable

_PRECISIONS = ("bf16", "fp8", "fp4", "int8")


@dataclass(frozen=True, kw_only=True)
class MeasuredRange:
    """What a model was measured in: up to so many sequences, and so many KV tokens, and prompt tokens a step."""

    sequences: int
    kv_tokens: int
    prefill_tokens: int

    def covers(self, *, sequences: float, kv_tokens: float, prefill_tokens: float = 0) -> bool:
        return sequences <= self.sequences and kv_tokens <= self.kv_tokens and prefill_tokens <= self.prefill_tokens


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """What the first step of a test takes longer in an engine that was not warmed up: it compiles and tunes kernels.

    `full_s` is that of a first step that reaches the token budget, which meets more of them, and `first_s` that of any
    other.
    """

    first_s: float = 0.0
    full_s: float = 0.0

    def of(self, *, is_full: bool) -> float:
        return max(self.full_s, self.first_s) if is_full else self.first_s


NO_COLD_START = ColdStart()


@dataclass(frozen=True, kw_only=True)
class StepModel:
    """Step times with their floor, evidence, band and range. `measured` is None for what was never measured here.

    `request_overhead_s` is what a request spends outside the engine's steps before its first token. `spread` is how far
    a fit to load tests may be off at any load; `anomalies` are what is wrong with the evidence, worst first. `drift` is
    what steps may have changed by since the evidence was past its maximum age. `cold_start` is what the first step of
    the fitted tests took longer: tests are repeated with it, and replicas in production are warm.
    """

    kind: str
    times: StepTimes
    floor: Floor
    evidence: Evidence
    request_overhead_s: float
    band: StepErrorBand
    facts: tuple[Assumption, ...]
    measured: MeasuredRange | None = None
    spread: FactorSpread | None = None
    notes: tuple[str, ...] = ()
    anomalies: tuple[EvidenceAnomaly, ...] = ()
    drift: Assumption | None = None
    cold_start: ColdStart = NO_COLD_START

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return np.maximum(self.times.decode_s(sequences, kv_tokens), self.floor.decode_s(sequences, kv_tokens))

    def prefill_s(self, tokens: Floats) -> Floats:
        return np.maximum(self.times.prefill_s(tokens), self.floor.prefill_s(tokens))

    @property
    def pair_s(self) -> float:
        # A profile's prefill times have the pairs inside them; their floor would count them twice.
        return 0.0 if self.times.pair_s == 0.0 else max(self.times.pair_s, self.floor.pair_s)

    def step_s(self, *, sequences: float, kv_tokens: float, prefill_tokens: float = 0, pairs: float = 0) -> float:
        """One step of decoding sequences, their KV tokens, new prompt tokens, and the pairs these are compared in."""
        decode = float(self.decode_s(np.array([float(sequences)]), np.array([float(kv_tokens)]))[0])
        if prefill_tokens <= 0:
            return decode
        return decode + float(self.prefill_s(np.array([float(prefill_tokens)]))[0]) + pairs * self.pair_s

    def table(self, *, max_sequences: int, budget_tokens: int, kv_tokens: int) -> StepTable:
        return step_table(self, max_sequences=max_sequences, budget_tokens=budget_tokens, kv_tokens=kv_tokens)

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Three steps that say most: one sequence, a decode batch, and a prompt of 1,000 tokens."""
        steps: dict[str, tuple[str, dict[str, int]]] = {
            "step.decode_1_s": ("one sequence of 1,000 tokens", {"sequences": 1, "kv_tokens": 1_000}),
            "step.decode_64_s": ("64 sequences of 1,000 tokens", {"sequences": 64, "kv_tokens": 64_000}),
            "step.prefill_1000_s": (
                "a prompt of 1,000 tokens",
                {"sequences": 0, "kv_tokens": 0, "prefill_tokens": 1_000, "pairs": 500_000},
            ),
        }
        return {
            name: Figure(
                name=name,
                value=self.step_s(**step),
                unit="s",
                formula=f"{what}, by the {self.kind} step model, not below the device's floor",
                inputs=self.facts,
                own_evidence=self.evidence,
            )
            for name, (what, step) in steps.items()
        }


def replica_step(model: Model, device: Device, runtime: Runtime) -> StepModel:
    """The roofline of a model on a device as an engine runs it, as its nearest published configurations correct it."""
    sharding, engine = runtime.sharding, runtime.engine
    estimate = roofline_model(
        model, device, sharding=sharding, engine=engine, version=runtime.version, cache=runtime.cache
    )
    near = nearness(model, device=device.name, engine=ENGINE_NAMES.get(engine, engine), sharding=sharding)
    if near.kind is None:
        return estimate
    own = band(efficiencies().sheets[f"band-{near.kind}"], near.kind)
    if near.kind != EXACT:
        return replace(estimate, band=own, notes=near.notes)
    times = CorrectedStep(times=estimate, factors=near.factors)
    facts = tuple(
        Assumption(
            name=f"nearness.{name}_ratio",
            value=getattr(near.factors, f"{name}_ratio"),
            unit="ratio",
            evidence=Evidence.ESTIMATED,
            source=near.fits[0].source,
        )
        for name in PARAMETERS
    )
    return replace(
        estimate,
        kind="roofline corrected by published measurements",
        times=times,
        request_overhead_s=times.request_overhead_s,
        band=own,
        facts=(*estimate.facts, *facts),
        notes=near.notes,
    )


def roofline_model(
    model: Model,
    device: Device,
    *,
    sharding: Sharding,
    engine: str,
    cache: KvDtype,
    version: str | None = None,
    given: Coefficients | None = None,
) -> StepModel:
    """The estimated step model; `given` replaces the packaged efficiencies. Without a version the engine is new."""
    years = engine_age_years(engine, version)
    found = given or coefficients(engine, device.architecture, vendor=device.vendor, years=years)
    work = replica_work(model, sharding, cache)
    rates = device_rates(device, sharding)
    return StepModel(
        kind="roofline",
        times=Roofline(work=work, rates=rates, efficiencies=found.values),
        floor=Floor(work=work, rates=rates),
        evidence=Evidence.ESTIMATED,
        request_overhead_s=found.values.request_overhead_s,
        band=found.band,
        facts=(*device_facts(device), *found.facts),
    )


def device_rates(device: Device, sharding: Sharding) -> Rates:
    """Peak rates; a replica of several devices needs to know their link."""
    link = device.link_bandwidth_bytes_per_s or _number_or_none(device.pcie_bandwidth)
    if link is None and sharding.tp > 1:
        raise InputError(
            field="device",
            value=device.name,
            problem=f"states no link, and tp = {sharding.tp} needs all-reduces",
            fix="Add link_bandwidth to its sheet: docs/howto/add-a-device.md.",
        )
    compute = {each: rate for each in _PRECISIONS if (rate := device.dense_rate_flops(each)) is not None}
    return Rates(
        memory_bytes_per_s=device.memory_bandwidth_bytes_per_s,
        compute_flops=compute,
        link_bytes_per_s=link or 0.0,
    )


def device_facts(device: Device) -> tuple[Assumption, ...]:
    optional = (device.link_bandwidth,)
    return (
        device.memory_bandwidth,
        *device.dense_rates.values(),
        *(fact for fact in optional if fact is not None),
    )


def _number_or_none(fact: Assumption | None) -> float | None:
    return None if fact is None or isinstance(fact.value, str) else float(fact.value)
