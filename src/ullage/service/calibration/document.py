"""A calibration as a small document: what was fitted to what, by which version, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ullage.errors import InputError
from ullage.service.calibration.calibration import Calibration, Residual
from ullage.service.calibration.next_test import NextTest
from ullage.service.steps.scaled import PARAMETERS, Factors

SCHEMA = "ullage.calibration/1"


@dataclass(frozen=True, kw_only=True)
class CalibrationProvenance:
    """What a calibration holds for, and where it comes from. It says nothing about another configuration."""

    model: str
    device: str
    engine: str
    tp: int
    pp: int
    ep: int
    dp_attention: int
    kv_dtype: str
    files: tuple[str, ...]
    points: int
    ullage_version: str
    date: str


def to_document(calibration: Calibration, provenance: CalibrationProvenance, wanted: NextTest | None) -> dict[str, Any]:
    """Plain values in a fixed order, for JSON."""
    return {
        "schema": SCHEMA,
        "provenance": {**asdict(provenance), "files": list(provenance.files)},
        "factors": {name: _round(getattr(calibration.factors, f"{name}_ratio")) for name in PARAMETERS},
        "ranges": [
            {
                "name": each.name,
                "low": _round(each.low_ratio),
                "high": _round(each.high_ratio),
                "identified": each.identified,
            }
            for each in calibration.parameters
        ],
        "residuals": [_residual(each) for each in calibration.residuals],
        "held_out": [_residual(each) for each in calibration.held_out],
        "not_identified": list(calibration.not_identified),
        "next_test": None if wanted is None else {**asdict(wanted), "gain_nats": _round(wanted.gain_nats)},
    }


def factors_of(document: Mapping[str, Any], *, file: str) -> Factors:
    """The factors of a document, or an InputError that names what is wrong with it."""
    if document.get("schema") != SCHEMA:
        fix = f"Make it anew with ullage calibrate; this version reads {SCHEMA}."
        raise InputError(field=f"{file}: schema", value=document.get("schema"), problem="is not known", fix=fix)
    given = document.get("factors")
    if not isinstance(given, Mapping) or set(given) != set(PARAMETERS):
        raise InputError(
            field=f"{file}: factors",
            value=given,
            problem=f"are not the four factors {', '.join(PARAMETERS)}",
            fix="Make it anew with ullage calibrate.",
        )
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 < value < 100:
            raise InputError(
                field=f"{file}: factors.{name}",
                value=value,
                problem="is not a factor between 0.01 and 100",
                fix="Make it anew with ullage calibrate.",
            )
    return Factors(**{f"{name}_ratio": float(value) for name, value in given.items()})


def _residual(residual: Residual) -> dict[str, Any]:
    return {
        "point": residual.point,
        "latency": residual.latency,
        "statistic": residual.statistic,
        "measured": _round(residual.measured_value),
        "simulated": _round(residual.simulated_value),
        "error": _round(residual.error_ratio - 1.0),
    }


def _round(value: float) -> float:
    """Six digits: enough for any use, few enough that the last bits of a machine do not show."""
    return float(f"{value:.6g}")
