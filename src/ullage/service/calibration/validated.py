"""Whether a pool's replica was validated by a load test: what was kept of it, and whether it is still of this replica.

`ullage validate --verdict` keeps a verdict with the configuration that was tested. A plan whose pool has another model,
device, parallelism, engine or version since is not validated by it, and says what changed.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import InputError
from ullage.memory.budget import MemoryBudget
from ullage.service.calibration.evidence import configuration_of
from ullage.service.calibration.validation import Validity

SCHEMA = "ullage.validate/"


@dataclass(frozen=True, kw_only=True)
class ValidationEvidence:
    """What one saved validation says: when, of which configuration, with which verdict and reasons."""

    file: str
    date: datetime.date
    verdict: Validity
    reasons: tuple[str, ...]
    configuration: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PoolValidity:
    """Whether a pool is validated, and in words: by which test, or why not."""

    pool: str
    is_validated: bool
    sentence: str


def validated_configuration(memory: MemoryBudget) -> dict[str, str | int]:
    """What a validation holds for: what a calibration does, and the engine's version."""
    return {**configuration_of(memory), "engine_version": memory.runtime.version or ""}


def validation_evidence(document: Mapping[str, Any], *, file: str) -> ValidationEvidence:
    """The evidence in a document, or an InputError that names what is wrong with it."""
    fix = "Give the file that ullage validate --verdict wrote."
    if not str(document.get("schema", "")).startswith(SCHEMA):
        raise InputError(field=f"{file}: schema", value=document.get("schema"), problem="is not known", fix=fix)
    try:
        day = document.get("tested_on") or document["as_of"]
        points = document["points"]
        return ValidationEvidence(
            file=file,
            date=datetime.date.fromisoformat(str(day)),
            verdict=Validity(document["verdict"]),
            reasons=tuple(dict.fromkeys(str(one["name"]) for each in points for one in each["reasons"])),
            configuration=dict(document["configuration"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(field=file, value=str(error), problem="is not a complete validation", fix=fix) from None


def pool_validity(pool: str, memory: MemoryBudget, kept: Sequence[ValidationEvidence]) -> PoolValidity:
    """The newest validation of this very configuration decides; without one, what the newest of another differs in."""
    if not kept:
        return PoolValidity(
            pool=pool, is_validated=False, sentence="not validated: no load test has been compared with this plan"
        )
    now = validated_configuration(memory)
    own = [each for each in kept if not _changed(each, now)]
    newest = max(own or kept, key=lambda each: each.date)
    if not own:
        changed = ", ".join(f"{name} {was}, now {is_now}" for name, was, is_now in _changed(newest, now))
        sentence = f"not validated: the test of {newest.date} was of another replica ({changed})"
        return PoolValidity(pool=pool, is_validated=False, sentence=sentence)
    if newest.verdict is Validity.VALIDATED:
        return PoolValidity(pool=pool, is_validated=True, sentence=f"validated on {newest.date}")
    why = f" ({', '.join(newest.reasons)})" if newest.reasons else ""
    sentence = f"not validated: the test of {newest.date} says {newest.verdict}{why}"
    return PoolValidity(pool=pool, is_validated=False, sentence=sentence)


def _changed(kept: ValidationEvidence, now: Mapping[str, str | int]) -> list[tuple[str, Any, str | int]]:
    return [
        (name, kept.configuration.get(name), value)
        for name, value in now.items()
        if kept.configuration.get(name) != value
    ]
