"""The step model of a pool on the best evidence there is: a calibration, load tests, a profile, or the estimate alone.

calibrations   fitted before by `ullage calibrate`; the one of this configuration is taken
load tests     fitted here, with the limits of the pool's own engine, to the profile or the estimate
profile        steps that were measured, in place of the estimate
none of them   the roofline, `estimated`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.budget import MemoryBudget
from ullage.memory.settings import Runtime, whole
from ullage.service.calibration.agreement import Weighing, agreement, weighings
from ullage.service.calibration.calibration import Measurement, calibrate
from ullage.service.calibration.evidence import CalibrationEvidence, held_out_band, is_of, with_calibration
from ullage.service.calibration.repeats import NotRepeatable, measurement_of
from ullage.service.calibration.replay import EngineLimits
from ullage.service.calibration.tested_range import range_tested
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.stage import calibrated_step
from ullage.service.steps.grid import GridStep
from ullage.service.steps.step_model import MeasuredRange, StepModel, profiled_model, replica_step


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """Measured steps of a pool's replica, and the range they were measured in."""

    grid: GridStep
    measured: MeasuredRange
    source: Source


@dataclass(frozen=True, kw_only=True)
class StepEvidence:
    """What was measured of a pool's steps. `source` says where the load tests are from, and of which day."""

    calibrations: tuple[CalibrationEvidence, ...] = ()
    load_tests: tuple[tuple[LoadTest, Source], ...] = ()
    profile: StepProfile | None = None

    def __post_init__(self) -> None:
        if self.calibrations and self.profile is not None:
            raise InputError(
                field="evidence.step_profile",
                value=self.profile.source.where,
                problem="is given beside calibrations, which are factors on the estimate and not on a profile",
                fix="Give the load tests in place of the calibrations: they are then fitted to the profile.",
            )
        if self.calibrations and self.load_tests:
            raise InputError(
                field="evidence.load_tests",
                value=[test.file for test, _ in self.load_tests],
                problem="is given beside calibrations, which are fits to load tests already",
                fix="Give one of the two; ullage calibrate fits any number of tests together.",
            )


NO_EVIDENCE = StepEvidence()


def pool_step(memory: MemoryBudget, evidence: StepEvidence = NO_EVIDENCE) -> StepModel:
    """The step model of the replica that was budgeted."""
    estimate = replica_step(memory.model, memory.device, memory.runtime)
    if evidence.calibrations:
        return with_calibration(estimate, memory, _own(evidence.calibrations, memory))
    base = estimate
    if evidence.profile is not None:
        given = evidence.profile
        base = profiled_model("grid", given.grid, like=estimate, measured=given.measured, source=given.source)
    return _fitted(base, memory, evidence.load_tests) if evidence.load_tests else base


def engine_limits(runtime: Runtime, kv_tokens: int) -> EngineLimits:
    """The scheduler's limits of a whole replica: groups of data-parallel attention have them each."""
    groups = runtime.sharding.dp_attention
    return EngineLimits(
        max_sequences=whole(runtime.max_sequences) * groups,
        budget_tokens=whole(runtime.step_tokens) * groups,
        kv_tokens=max(kv_tokens, 1),
    )


def measurements_of(
    tests: Sequence[tuple[str, LoadTest]], limits: EngineLimits
) -> tuple[list[Measurement], list[NotRepeatable]]:
    """The points that can be repeated and the others; points of several files may have one name, so the file's leads.

    Nothing here is left to chance but the arrivals of tests that kept none, and they are the same every time.
    """
    rng = np.random.default_rng(0)
    found = [
        _weighed(measurement_of(replace(point, name=f"{name} {point.name}"), limits, rng=rng), weighing)
        for (name, test), weighing in zip(tests, weighings([test for _, test in tests]), strict=True)
        for point in test.points
    ]
    used = [each for each in found if isinstance(each, Measurement)]
    left_out = [each for each in found if isinstance(each, NotRepeatable)]
    if not used:
        reasons = "; ".join(f"{each.point} {each.reason}" for each in left_out) or "the files hold no points"
        raise InputError(
            field="load tests",
            value=[name for name, _ in tests],
            problem=f"no point can be repeated: {reasons}",
            fix="Run ullage calibrate --inspect FILE to see what was read.",
        )
    return used, left_out


def _weighed(found: Measurement | NotRepeatable, weighing: Weighing) -> Measurement | NotRepeatable:
    if isinstance(found, NotRepeatable):
        return found
    return replace(found, weight_fraction=weighing.weight_fraction)


def _own(calibrations: Sequence[CalibrationEvidence], memory: MemoryBudget) -> CalibrationEvidence:
    """The one calibration of this configuration; the first where none is, which is then refused by name."""
    own = [each for each in calibrations if is_of(each, memory)]
    if len(own) > 1:
        raise InputError(
            field="evidence.calibrations",
            value=[each.file for each in own],
            problem="are of the same configuration, and may say different things",
            fix="Calibrate once on the load tests of both.",
        )
    return own[0] if own else calibrations[0]


def _fitted(estimate: StepModel, memory: MemoryBudget, tests: Sequence[tuple[LoadTest, Source]]) -> StepModel:
    named = [(_stem(test.file), test) for test, _ in tests]
    used, left_out = measurements_of(named, engine_limits(memory.runtime, memory.kv_tokens))
    found = calibrate(estimate, estimate.floor, used)
    oldest = min((source for _, source in tests), key=lambda each: each.date)
    source = replace(oldest, what=f"fit to {len(used)} load-test points")
    notes = [f"{each.point} was left out of the fit: it {each.reason}." for each in left_out]
    if len(tests) > 1:
        limits = engine_limits(memory.runtime, memory.kv_tokens)
        notes += agreement(estimate, [test for test, _ in tests], limits).disagreements
    if found.not_identified:
        notes.append(
            f"The load tests do not tell: {', '.join(found.not_identified)}. ullage calibrate says what would."
        )
    step = calibrated_step(estimate, found.factors, source, band=held_out_band(found.held_out))
    step = replace(step, measured=range_tested(step, used))
    return replace(step, notes=tuple(notes))


def _stem(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
