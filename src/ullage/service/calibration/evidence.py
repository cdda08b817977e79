"""A saved calibration as evidence: which configuration it holds for, what it found, and how far to trust it.

`evidence_of(document)` reads a calibration.json; `with_calibration(step, memory, evidence)` puts it into the step model
of a replica. The band of what comes out is the calibration's own: how well its factors are known, how well it fits, and
how far the replica's loads lie beyond those that were tested.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.budget import MemoryBudget
from ullage.memory.settings import Runtime, whole
from ullage.service.calibration.document import (
    NOTHING_STATED,
    SplitUnderTest,
    StatedEngine,
    cold_start_of,
    engine_of,
    factors_of,
    split_of,
    spread_of,
)
from ullage.service.calibration.prediction import fit_band
from ullage.service.calibration.replay import EngineLimits
from ullage.service.calibration.tested_range import range_of
from ullage.service.replica import capacity_of
from ullage.service.stage import calibrated_step
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import NO_COLD_START, ColdStart, MeasuredRange, StepModel

_SCALED = ("device", "tp", "pp", "ep", "dp_attention")


@dataclass(frozen=True, kw_only=True)
class CalibrationEvidence:
    """What one calibration.json says. `tested` is the range that its load tests covered, where the file says so.

    `split` are the pools of tests whose prefill and decode were apart. `is_of_prefill` says that this is the evidence
    as it holds for the replica that computes prompts.
    """

    file: str
    configuration: Mapping[str, Any]
    factors: Factors
    source: Source
    spread: FactorSpread
    tested: MeasuredRange | None = None
    cold_start: ColdStart = NO_COLD_START
    notes: tuple[str, ...] = ()
    engine: StatedEngine = NOTHING_STATED
    split: SplitUnderTest | None = None
    is_of_prefill: bool = False

    @property
    def of_prefill(self) -> CalibrationEvidence:
        """What it says of the replica that computes prompts; tests of one replica say it of that one."""
        if self.split is None:
            return self
        return replace(
            self,
            configuration={**self.configuration, **self.split.prefill_configuration},
            is_of_prefill=True,
            # The scheduler's limits that were stated are those of the replica that decodes.
            engine=StatedEngine(engine_version=self.engine.engine_version),
        )


def evidence_of(document: Mapping[str, Any], *, file: str) -> CalibrationEvidence:
    """The evidence in a document, or an InputError that names what is wrong with it."""
    factors = factors_of(document, file=file)
    given = document.get("provenance")
    provenance: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    try:
        day = datetime.date.fromisoformat(str(provenance.get("date")))
    except ValueError:
        fix = "Make it again with ullage calibrate."
        raise InputError(
            field=f"{file}: provenance.date", value=provenance.get("date"), problem="is not a date", fix=fix
        ) from None
    return CalibrationEvidence(
        file=file,
        configuration=provenance,
        factors=factors,
        source=Source(what=f"calibration on {provenance.get('points')} load-test points", where=file, date=day),
        spread=spread_of(document, file=file),
        tested=range_of(document.get("tested")),
        cold_start=cold_start_of(document, file=file),
        notes=_notes(document.get("anomalies")),
        engine=engine_of(document, file=file),
        split=split_of(document, file=file),
    )


def _notes(anomalies: Any) -> tuple[str, ...]:
    """What was wrong with the tests when they were fitted: whoever uses the fit is told too."""
    given = anomalies if isinstance(anomalies, list) else []
    return tuple(str(each["sentence"]) for each in given if isinstance(each, Mapping) and "sentence" in each)


def is_of(evidence: CalibrationEvidence, memory: MemoryBudget) -> bool:
    """Whether this very configuration was tested."""
    return all(evidence.configuration.get(name) == value for name, value in configuration_of(memory).items())


def with_calibration(
    step: StepModel, memory: MemoryBudget, evidence: CalibrationEvidence, *, accepted: Sequence[str] = ()
) -> StepModel:
    """The step model scaled to load tests of this configuration.

    Tests of another device or parallelism scale the estimate and leave it one; those of another model, engine or cache
    dtype are refused unless accepted by name.
    """
    moved = []
    for name, value in configuration_of(memory).items():
        found = evidence.configuration.get(name)
        if found == value or name in accepted:
            continue
        if name not in _SCALED:
            raise InputError(
                field=f"{evidence.file}: provenance.{name}",
                value=found,
                problem=f"is not the replica's {value}; a calibration says nothing about another configuration",
                fix=f"Calibrate on load tests of this configuration, or accept it by name: {name}.",
            )
        moved.append(f"{name} = {found} was tested, but the replica has {name} = {value}")
    times = ScaledStep(times=step, factors=evidence.factors)
    if moved:
        said = f"{evidence.file}: {'; '.join(moved)}. The estimate is scaled by it, and remains an estimate."
        return replace(
            step,
            kind=f"{step.kind} scaled from tests of another configuration",
            times=times,
            request_overhead_s=times.request_overhead_s,
            notes=(said,),
            anomalies=(EvidenceAnomaly(name="parallelism", sentence=said),),
        )
    tested, spread = evidence.tested, evidence.spread
    band = None
    if tested is not None:
        limits = engine_limits(memory.runtime, memory.kv_tokens)
        band = fit_band(times, spread, tested, most_sequences=limits.max_sequences, most_kv_tokens=limits.kv_tokens)
        if evidence.is_of_prefill:
            # Its steps are prompts, and these err as first tokens do.
            band = replace(band, tpot_low_ratio=band.ttft_low_ratio, tpot_high_ratio=band.ttft_high_ratio)
    made = calibrated_step(step, evidence.factors, evidence.source, band=band, tested=tested, spread=spread)
    made = replace(made, cold_start=evidence.cold_start)
    return replace(made, notes=(*evidence.notes, *_apart(evidence), *_otherwise(evidence, memory)))


def _apart(evidence: CalibrationEvidence) -> tuple[str, ...]:
    """That prompts and answers were measured on different replicas, which a replica that does both is not."""
    if evidence.split is None:
        return ()
    said = f"{evidence.file} was fitted to tests of disaggregated pools: {evidence.split.words}"
    return (f"{said}. The factor on prompt tokens is that of the prefill replicas.",)


def _otherwise(evidence: CalibrationEvidence, memory: MemoryBudget) -> tuple[str, ...]:
    """How the replica is run otherwise than the engine was that was tested, as far as that was stated."""
    runtime = memory.runtime
    here = {
        "engine_version": runtime.version,
        "kv_tokens": memory.kv_tokens,
        "max_sequences": whole(runtime.max_sequences),
        "budget_tokens": whole(runtime.step_tokens),
        "poll_steps": whole(runtime.poll_steps),
        "batch_wait_steps": runtime.settings.batch_wait_steps or 0,
    }
    tested = evidence.engine.stated
    found = [
        f"{name} {tested[name]} (here {value})" for name, value in here.items() if tested.get(name, value) != value
    ]
    if not found:
        return ()
    said = f"{evidence.file} was fitted to tests with {', '.join(found)}"
    return (f"{said}: its factors correct the estimate of that engine.",)


def engine_limits(runtime: Runtime, kv_tokens: int) -> EngineLimits:
    """The scheduler's limits of a whole replica: groups of data-parallel attention have them each."""
    groups, given = runtime.sharding.dp_attention, runtime.settings.speculation
    return EngineLimits(
        max_sequences=whole(runtime.max_sequences) * groups,
        budget_tokens=whole(runtime.step_tokens) * groups,
        kv_tokens=max(kv_tokens, 1),
        poll_steps=whole(runtime.poll_steps),
        batch_wait_steps=runtime.settings.batch_wait_steps or 0,
        capacity=capacity_of(runtime),
        tokens_per_step=1.0 if given is None else given.rate_tokens,
        step_positions=1 if given is None else given.positions,
    )


def configuration_of(memory: MemoryBudget) -> dict[str, str | int]:
    """What a calibration holds for, by the names of its provenance."""
    runtime, sharding = memory.runtime, memory.runtime.sharding
    return {
        "model": memory.model.name,
        "device": memory.device.name,
        "engine": runtime.engine,
        "tp": sharding.tp,
        "pp": sharding.pp,
        "ep": sharding.ep,
        "dp_attention": sharding.dp_attention,
        "kv_dtype": runtime.cache.name,
    }
