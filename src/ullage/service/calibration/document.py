"""A calibration as a small document: what was fitted to what, by which version, and how far to trust it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ullage.errors import InputError
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import PARAMETERS, Factors
from ullage.service.steps.step_model import ColdStart

SCHEMA = "ullage.calibrate/2"


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


@dataclass(frozen=True, kw_only=True)
class SplitUnderTest:
    """The pools of tests whose prefill and decode were apart: device and parallelism are those of a prefill replica.

    The provenance of the calibration has those of the replica that decodes.
    """

    prefill_replicas: int
    device: str
    tp: int
    pp: int
    ep: int
    dp_attention: int
    decode_replicas: int
    transfer_bytes_per_s: float
    overlapped_fraction: float

    @property
    def prefill_configuration(self) -> dict[str, str | int]:
        """What of the provenance is otherwise for the replica that computes prompts."""
        return {
            "device": self.device,
            "tp": self.tp,
            "pp": self.pp,
            "ep": self.ep,
            "dp_attention": self.dp_attention,
        }

    @property
    def words(self) -> str:
        """The split, as part of a sentence."""
        own = f"{self.prefill_replicas} prefill replica{'' if self.prefill_replicas == 1 else 's'}"
        decode = f"{self.decode_replicas} decode replica{'' if self.decode_replicas == 1 else 's'}"
        sends = f"{self.transfer_bytes_per_s / 1e9:.4g} GB/s between them"
        return f"{own} (tp={self.tp} on {self.device}) and {decode}, {sends}"


@dataclass(frozen=True, kw_only=True)
class StatedEngine:
    """What the user stated of the engine that was tested; None is the engine's default.

    Whoever uses the calibration takes these with it: the factors were fitted on the estimate of this version, and
    TTFT near saturation is that of these limits.
    """

    engine_version: str | None = None
    kv_tokens: int | None = None
    max_sequences: int | None = None
    budget_tokens: int | None = None
    poll_steps: int | None = None
    batch_wait_steps: int | None = None
    capacity_policy: str | None = None
    output_limit_tokens: int | None = None

    @property
    def stated(self) -> dict[str, str | int]:
        """What was stated, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


NOTHING_STATED = StatedEngine()


def engine_of(document: Mapping[str, Any], *, file: str) -> StatedEngine:
    """The engine that a document states; documents of earlier versions state none of it."""
    given = document.get("stated_engine")
    if given is None:
        return NOTHING_STATED
    texts = ("engine_version", "capacity_policy")
    known = {each.name: str if each.name in texts else int for each in fields(StatedEngine)}
    if not isinstance(given, Mapping) or not all(
        value is None or type(value) is known.get(name) for name, value in given.items()
    ):
        fix = "Make it again with ullage calibrate."
        raise InputError(field=f"{file}: stated_engine", value=given, problem="is not an engine's settings", fix=fix)
    return StatedEngine(**{name: value for name, value in given.items() if name in known})


def split_of(document: Mapping[str, Any], *, file: str) -> SplitUnderTest | None:
    """The two pools that a document's tests ran on; None where one replica did both."""
    given = document.get("split")
    if given is None:
        return None
    kinds = {"int": (int,), "float": (int, float), "str": (str,)}
    known = {each.name: kinds[str(each.type)] for each in fields(SplitUnderTest)}
    if not isinstance(given, Mapping) or not all(type(given.get(name)) in kind for name, kind in known.items()):
        fix = "Make it again with ullage calibrate."
        raise InputError(field=f"{file}: split", value=given, problem="does not state two pools", fix=fix)
    return SplitUnderTest(**{name: given[name] for name in known})


def spread_of(document: Mapping[str, Any], *, file: str) -> FactorSpread:
    """How far its predictions may be off, or an InputError that names what is wrong with it."""
    given = document["calibration"].get("spread")
    try:
        spread = FactorSpread(
            covariance=tuple(tuple(float(value) for value in row) for row in given["covariance"]),
            fit_spreads={name: float(given["fit_spreads"][name]) for name in ("tpot", "ttft")},
            degrees=int(given["degrees"]),
        )
        is_whole = [len(row) for row in spread.covariance] == [len(PARAMETERS)] * len(PARAMETERS) and spread.degrees > 0
        is_whole = is_whole and bool(np.isfinite(np.array(spread.covariance)).all())
    except (TypeError, KeyError, ValueError):
        is_whole = False
    if not is_whole:
        fix = "Make it again with ullage calibrate."
        raise InputError(field=f"{file}: spread", value=given, problem="does not state the error of the fit", fix=fix)
    return spread


def cold_start_of(document: Mapping[str, Any], *, file: str) -> ColdStart:
    """What the first step of its tests took longer; nothing in documents of earlier versions."""
    given = document["calibration"].get("cold_start", {})
    values: list[Any] = [given.get(name, 0.0) for name in ("first_s", "full_s")] if isinstance(given, Mapping) else []
    if not values or not all(type(value) in (int, float) and 0.0 <= value < math.inf for value in values):
        fix = "Make it again with ullage calibrate."
        raise InputError(
            field=f"{file}: calibration.cold_start", value=given, problem="is not two times of 0 s or more", fix=fix
        )
    return ColdStart(first_s=float(values[0]), full_s=float(values[1]))


def factors_of(document: Mapping[str, Any], *, file: str) -> Factors:
    """The factors of a document, or an InputError that names what is wrong with it."""
    if document.get("schema") != SCHEMA:
        fix = f"Make it again with ullage calibrate; this version reads {SCHEMA}."
        raise InputError(field=f"{file}: schema", value=document.get("schema"), problem="is not known", fix=fix)
    fitted = document.get("calibration")
    given = fitted.get("factors") if isinstance(fitted, Mapping) else None
    names = [f"{name}_ratio" for name in PARAMETERS]
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise InputError(
            field=f"{file}: factors",
            value=given,
            problem=f"are not the five factors {', '.join(names)}",
            fix="Make it again with ullage calibrate.",
        )
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.01 < value < 100:
            raise InputError(
                field=f"{file}: factors.{name}",
                value=value,
                problem="is not a factor between 0.01 and 100",
                fix="Make it again with ullage calibrate.",
            )
    return Factors(**{name: float(value) for name, value in given.items()})
