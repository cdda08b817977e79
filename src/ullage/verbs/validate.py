"""`validate`: load tests and a plan in; the prediction for each test, and whether it holds, out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import ExitCode, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer, refusal
from ullage.verbs.calibrate_fit import StatedTest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs
    from ullage.service.calibration.validation import PlannedReplica, ValidatedPoint, Validity
    from ullage.service.steps.step_model import StepModel
    from ullage.verbs.answer import Refusal


@dataclass(frozen=True, kw_only=True, repr=False)
class Validation(VerbAnswer):
    """Each point of the load tests as it was predicted and scored, and the verdict of all of them together.

    `cached_fraction` is the share of prompt tokens that the plan counts as cached, `tested_on` the day of the newest
    test where a file states one. `configuration` is what the plan's replica is: kept with it, the verdict holds for
    that one alone.
    """

    service: str
    replica: str
    step: StepModel
    cached_fraction: float
    verdict: Validity
    tested_on: datetime.date | None
    configuration: Mapping[str, str | int]
    points: tuple[ValidatedPoint, ...]
    as_of: datetime.date
    seed: int

    @property
    def inside_count(self) -> int:
        return sum(each.inside_count for each in self.points)

    @property
    def statistic_count(self) -> int:
        return sum(len(each.statistics) for each in self.points)

    @property
    def exit_code(self) -> ExitCode:
        """What the verdict is to a shell."""
        from ullage.service.calibration.validation import Validity

        return {
            Validity.VALIDATED: ExitCode.OK,
            Validity.NOT_VALIDATED: ExitCode.REFUSED,
            Validity.CANNOT_TELL: ExitCode.UNDECIDED,
        }[self.verdict]

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="verdict", value=str(self.verdict)),
            Headline(name="inside their bands", value=f"{self.inside_count} of {self.statistic_count}"),
        )

    def dated(self) -> datetime.date:
        return self.as_of

    def page(self) -> list[RenderableType]:
        from ullage.report.service.validation_page import validation_page

        return validation_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("validate", self, as_of=self.as_of, seed=self.seed, service=self.service)


def validate(
    files: Sequence[str | Path],
    *,
    plan: PlanSource = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    calibration: str | Path | None = None,
    stated: StatedTest = StatedTest(),  # noqa: B008 - frozen
    as_of: datetime.date | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Validation | Refusal:
    """Predict load tests from a plan before their latencies are looked at, and score every statistic they state.

    `plan` is the plan file whose first pool was tested (the built-in example where it is None), `calibration` a step
    model in place of the plan's. `stated` is what the files do not say, as for `calibrate`; what it accepts by name
    (model, device, engine, parallelism, precision) is no difference.
    """
    from ullage.load.pool import load_pool

    # A test is one sequence of events: there is nothing in it for a second core.
    with running(as_of=as_of, seed=seed, workers=1, progress=progress) as run:
        found = load_pool(
            plan, calibration=calibration, as_of=run.as_of, seed=seed, changes=parse_changes(set, traffic)
        )
        if isinstance(found, Rejection):
            return refusal(found)
        run.progress(0.2, "load tests")
        return _validated([Path(each) for each in files], found, stated, run.as_of, seed)


def _validated(
    files: Sequence[Path], pool: CurveInputs, stated: StatedTest, day: datetime.date, seed: int
) -> Validation:
    from ullage.load.evidence import load_tests, test_names
    from ullage.service.calibration.agreement import day_of
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.repeats import RepeatTerms
    from ullage.service.calibration.validated import validated_configuration
    from ullage.service.calibration.validation import together, validate_point
    from ullage.service.calibration.whose import ReplicaUnderTest, differences

    memory, planned = pool.memory, planned_replica(pool, seed)
    replica = ReplicaUnderTest(
        model=memory.model, device=memory.device.name, engine=memory.runtime.engine, sharding=memory.runtime.sharding
    )
    terms = RepeatTerms(
        limits=engine_limits(memory.runtime, memory.kv_tokens),
        replicas=stated.replicas,
        cached_fraction=stated.cached_fraction,
        timeout_s=stated.timeout_s,
    )
    tests = load_tests(files)
    points = []
    for name, test in zip(test_names(tests), tests, strict=True):
        others = [each for each in differences(test, replica) if each.name not in stated.accepted]
        named = (replace(each, name=f"{name} {each.name}") for each in test.points)
        points += [validate_point(planned, each, terms, others=others) for each in named]
    days = [found for each in tests if (found := day_of(each.run_at)) is not None]
    return Validation(
        service=pool.service,
        replica=pool.replica,
        step=pool.step,
        cached_fraction=planned.cached_fraction,
        verdict=together(points),
        tested_on=max(days, default=None),
        configuration=validated_configuration(memory),
        points=tuple(points),
        as_of=day,
        seed=seed,
    )


def planned_replica(pool: CurveInputs, seed: int) -> PlannedReplica:
    """The step model of a plan's replica, and the share of its mix's prompts that its cache holds."""
    from ullage.service.calibration.validation import PlannedReplica

    drawn = pool.drawn(seed)
    cached = 0 if drawn.cached_tokens is None else int(drawn.cached_tokens.sum())
    return PlannedReplica(step=pool.step, cached_fraction=cached / int(drawn.prompt_tokens.sum()))
