"""A saved calibration as evidence: which configuration it holds for, what it found, and how far to trust it.

`evidence_of(document)` reads a calibration.json; `with_calibration(step, memory, evidence)` puts it into the step model
of a replica, which must be the configuration that was tested. The band of what comes out is the calibration's own: how
far each point lay from a fit to the others. That takes at least three points, and one that happens to fit another
does not prove much, so small numbers of points count by Student's distribution.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.budget import MemoryBudget
from ullage.service.calibration.calibration import Residual
from ullage.service.calibration.document import factors_of
from ullage.service.calibration.tested_range import range_of
from ullage.service.stage import calibrated_step
from ullage.service.steps.coefficients import OTHER_LOAD, StepErrorBand
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import MeasuredRange, StepModel
from ullage.simulate.statistics import t_quantile

LEAST_POINTS = 3
"""With two points, what is left out is predicted from a single one: the error of another question."""
LEAST_RATIO = 1.03
"""Repeats of one run differ by 1.6 to 3.5 %; a fit that claims less has been lucky."""


@dataclass(frozen=True, kw_only=True)
class CalibrationEvidence:
    """What one calibration.json says. `band` is None where its points are too few to tell.

    `tested` is the range that its load tests covered, where the file says so.
    """

    file: str
    configuration: Mapping[str, Any]
    factors: Factors
    source: Source
    band: StepErrorBand | None
    tested: MeasuredRange | None = None


def evidence_of(document: Mapping[str, Any], *, file: str) -> CalibrationEvidence:
    """The evidence in a document, or an InputError that names what is wrong with it."""
    factors = factors_of(document, file=file)
    given = document.get("provenance")
    fitted = document["calibration"]
    provenance: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    try:
        day = datetime.date.fromisoformat(str(provenance.get("date")))
    except ValueError:
        fix = "Make it anew with ullage calibrate."
        raise InputError(
            field=f"{file}: provenance.date", value=provenance.get("date"), problem="is not a date", fix=fix
        ) from None
    return CalibrationEvidence(
        file=file,
        configuration=provenance,
        factors=factors,
        source=Source(what=f"calibration on {provenance.get('points')} load-test points", where=file, date=day),
        band=_document_band(fitted.get("held_out")),
        tested=range_of(document.get("tested")),
    )


def is_of(evidence: CalibrationEvidence, memory: MemoryBudget) -> bool:
    """Whether this very configuration was tested."""
    return all(evidence.configuration.get(name) == value for name, value in _configuration(memory).items())


def with_calibration(step: StepModel, memory: MemoryBudget, evidence: CalibrationEvidence) -> StepModel:
    """The step model scaled to load tests of this very configuration; one of another is refused by name."""
    for name, value in _configuration(memory).items():
        found = evidence.configuration.get(name)
        if found != value:
            raise InputError(
                field=f"{evidence.file}: provenance.{name}",
                value=found,
                problem=f"is not the replica's {value}, and a calibration says nothing about another configuration",
                fix="Calibrate on load tests of this configuration.",
            )
    return calibrated_step(step, evidence.factors, evidence.source, band=evidence.band, tested=evidence.tested)


def _configuration(memory: MemoryBudget) -> dict[str, str | int]:
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


def held_out_band(held_out: Sequence[Residual]) -> StepErrorBand | None:
    """Where 8 of 10 points that were not tested lie, from those that were left out in turn; None for too few."""
    return _band([(each.latency, each.point, -math.log(each.error_ratio)) for each in held_out])


def _document_band(held_out: Any) -> StepErrorBand | None:
    if not isinstance(held_out, list):
        return None
    errors: list[tuple[str, str, float]] = []
    for each in held_out:
        if not isinstance(each, Mapping):
            continue
        measured, simulated = each.get("measured_value"), each.get("simulated_value")
        if isinstance(measured, int | float) and isinstance(simulated, int | float) and measured > 0 < simulated:
            errors.append((str(each.get("latency")), str(each.get("point")), math.log(measured / simulated)))
    return _band(errors)


def _band(errors: Sequence[tuple[str, str, float]]) -> StepErrorBand | None:
    """The band of TPOT decides near full load; TTFT of a closed loop has its queue in it, so it is kept apart."""
    tpot, ttft = _by_point(errors, "tpot"), _by_point(errors, "ttft")
    if len(tpot) < LEAST_POINTS:
        return None
    slow = _ratio(tpot)
    late = _ratio(ttft) if len(ttft) >= LEAST_POINTS else slow
    return StepErrorBand(
        new=OTHER_LOAD, tpot_low_ratio=1 / slow, tpot_high_ratio=slow, ttft_low_ratio=1 / late, ttft_high_ratio=late
    )


def _by_point(errors: Sequence[tuple[str, str, float]], latency: str) -> list[float]:
    """One error for each point: several statistics of one latency are not several points."""
    found: dict[str, list[float]] = {}
    for name, point, error in errors:
        if name == latency:
            found.setdefault(point, []).append(error)
    return [math.sqrt(sum(each**2 for each in one) / len(one)) for one in found.values()]


def _ratio(errors: Sequence[float]) -> float:
    spread = math.sqrt(sum(each**2 for each in errors) / len(errors))
    return max(LEAST_RATIO, math.exp(t_quantile(0.9, len(errors)) * spread))
