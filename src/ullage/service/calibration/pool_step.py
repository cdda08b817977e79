"""The step model of a pool on the best evidence there is: a calibration, load tests, a profile, or the estimate alone.

calibrations   fitted before by `ullage calibrate`; the one of this configuration is taken
load tests     fitted here, with the limits of the pool's own engine, to the profile or the estimate
profile        steps that were measured, in place of the estimate
none of them   the roofline, `estimated`
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.facts.device import find_device
from ullage.memory.budget import MemoryBudget
from ullage.service.calibration.evidence import CalibrationEvidence, engine_limits, is_of, with_calibration
from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.calibration.validated import ValidationEvidence
from ullage.service.calibration.whose import (
    SCALED,
    ReplicaUnderTest,
    differences,
    known_device,
    profile_differences,
    refuse,
)
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.steps.adapted import with_adapters
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.profile_table import ProfileTable
from ullage.service.steps.profiled import profiled_model
from ullage.service.steps.scaled import ScaledStep
from ullage.service.steps.speculative import speculating
from ullage.service.steps.step_model import StepModel, replica_step, roofline_model


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """Measured steps of a pool's replica, and where they are from."""

    table: ProfileTable
    source: Source


@dataclass(frozen=True, kw_only=True)
class StepEvidence:
    """What was measured of a pool's steps. `source` says where the load tests are from, and of which day.

    `validations` are those that were kept: they move no step, and say whether the plan was compared with a test.
    `cached_fraction`, `replicas` and `timeout_s` are what the user states of the load tests (repeats.py), `accepted`
    the anomalies that are known and accepted by name.
    """

    calibrations: tuple[CalibrationEvidence, ...] = ()
    load_tests: tuple[tuple[LoadTest, Source], ...] = ()
    profile: StepProfile | None = None
    cached_fraction: float | None = None
    replicas: int | None = None
    timeout_s: float | None = None
    accepted: tuple[str, ...] = ()
    validations: tuple[ValidationEvidence, ...] = ()

    @property
    def dated(self) -> datetime.date | None:
        """The day of the oldest of it; None where there is none."""
        sources = [each.source for each in self.calibrations] + [source for _, source in self.load_tests]
        sources += [] if self.profile is None else [self.profile.source]
        return min((each.date for each in sources), default=None)

    def __post_init__(self) -> None:
        if self.calibrations and self.profile is not None:
            raise InputError(
                field="evidence.step_profile",
                value=self.profile.source.where,
                problem="cannot be combined with calibrations, which are factors on the estimate, not on a profile",
                fix="Give the load tests in place of the calibrations: they are then fitted to the profile.",
            )
        if self.calibrations and self.load_tests:
            raise InputError(
                field="evidence.load_tests",
                value=[test.file for test, _ in self.load_tests],
                problem="cannot be combined with calibrations, which are already fits to load tests",
                fix="Give one of the two; ullage calibrate fits any number of tests together.",
            )


NO_EVIDENCE = StepEvidence()


def pool_step(memory: MemoryBudget, evidence: StepEvidence = NO_EVIDENCE) -> StepModel:
    """The step model of the replica that was budgeted."""
    estimate = replica_step(memory.model, memory.device, memory.runtime)
    if evidence.calibrations:
        found = with_calibration(estimate, memory, _own(evidence.calibrations, memory), accepted=evidence.accepted)
        return _as_run(found, memory)
    given = evidence.profile
    base = estimate if given is None else _profiled(estimate, memory, given, evidence.accepted)
    base = _as_run(base, memory)
    return _fitted(base, memory, evidence) if evidence.load_tests else base


def _profiled(estimate: StepModel, memory: MemoryBudget, given: StepProfile, accepted: Sequence[str]) -> StepModel:
    """The profile in the estimate's place, if it is of this replica."""
    replica = ReplicaUnderTest(
        model=memory.model,
        device=memory.device.name,
        engine=memory.runtime.engine,
        sharding=memory.runtime.sharding,
    )
    found = profile_differences(given.source.where, given.table.subject, replica)
    refuse(found, accepted, field="evidence.step_profile")
    step = profiled_model(given.table, like=estimate, source=given.source)
    return replace(step, anomalies=(*found, *step.anomalies))


def _as_run(step: StepModel, memory: MemoryBudget) -> StepModel:
    """Calibrations and profiles are of plain steps, which adapters slow down and speculation widens.

    Load tests ran as the pool does.
    """
    return speculating(with_adapters(step, memory.runtime), memory.model, memory.device, memory.runtime)


def _own(calibrations: Sequence[CalibrationEvidence], memory: MemoryBudget) -> CalibrationEvidence:
    """The one calibration of this configuration; the first where none is, which is then refused by name."""
    own = [each for each in calibrations if is_of(each, memory)]
    if len(own) > 1:
        raise InputError(
            field="evidence.calibrations",
            value=[each.file for each in own],
            problem="are of the same configuration and may disagree",
            fix="Calibrate once on the load tests of both.",
        )
    return own[0] if own else calibrations[0]


def _fitted(estimate: StepModel, memory: MemoryBudget, evidence: StepEvidence) -> StepModel:
    """The estimate scaled to load tests; those of another device or parallelism scale it and leave it an estimate."""
    tests = evidence.load_tests
    replica = ReplicaUnderTest(
        model=memory.model,
        device=memory.device.name,
        engine=memory.runtime.engine,
        sharding=memory.runtime.sharding,
    )
    found = [each for test, _ in tests for each in differences(test, replica)]
    moved = [each for each in found if each.name in SCALED and each.name not in evidence.accepted]
    refuse([each for each in found if each.name not in SCALED], evidence.accepted, field="evidence.load_tests")
    terms = RepeatTerms(
        limits=engine_limits(memory.runtime, memory.kv_tokens),
        replicas=evidence.replicas,
        cached_fraction=evidence.cached_fraction,
        timeout_s=evidence.timeout_s,
    )
    fitted = fit_tests(
        estimate if not moved else _as_tested(estimate, memory, tests),
        [(_stem(test.file), test) for test, _ in tests],
        terms,
        source=min((source for _, source in tests), key=lambda each: each.date),
        accepted=evidence.accepted,
        field="evidence.load_tests",
    )
    noted = tuple(each.sentence for each in found if each not in moved)
    step = replace(fitted.step, notes=(*noted, *fitted.step.notes), anomalies=(*found, *fitted.anomalies))
    return step if not moved else _scaled_from(estimate, step, moved)


def _as_tested(estimate: StepModel, memory: MemoryBudget, tests: Sequence[tuple[LoadTest, Source]]) -> StepModel:
    """The estimate of what was tested, for its factors; that of the replica where the files do not say it whole."""
    subject = next((point.subject for test, _ in tests for point in test.points), None)
    if subject is None:
        return estimate
    name = known_device(subject.hardware) or memory.device.name
    own = memory.runtime.sharding
    sharding = replace(own, tp=subject.tp or own.tp, pp=subject.pp or own.pp)
    runtime = memory.runtime
    return roofline_model(
        memory.model,
        find_device(name),
        sharding=sharding,
        engine=runtime.engine,
        version=runtime.version,
        cache=runtime.cache,
    )


def _scaled_from(estimate: StepModel, fitted: StepModel, moved: Sequence[EvidenceAnomaly]) -> StepModel:
    """An estimate that errs by the factors which tests of another configuration found, with an estimate's band."""
    assert isinstance(fitted.times, ScaledStep)
    times = ScaledStep(times=estimate, factors=fitted.times.factors)
    said = tuple(f"{each.sentence} The estimate is scaled by what it found, and remains an estimate." for each in moved)
    return replace(
        estimate,
        kind=f"{estimate.kind} scaled from tests of another configuration",
        times=times,
        request_overhead_s=times.request_overhead_s,
        facts=(*estimate.facts, *fitted.facts),
        notes=(*said, *fitted.notes),
        anomalies=fitted.anomalies,
    )


def _stem(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
