"""`curve`: a plan file in, the service curve of one replica and its operating point out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer, refusal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs
    from ullage.service.calibration.agreement import Agreement
    from ullage.service.calibration.measured import MeasuredPoint
    from ullage.service.curve.curve import ServiceCurve
    from ullage.service.curve.point import OperatingPoint
    from ullage.service.curve.sensitivity import Tried
    from ullage.verbs.answer import Refusal


@dataclass(frozen=True, kw_only=True, repr=False)
class CurveAnswer(VerbAnswer):
    """The curve of one replica, and the point on it or the reason why there is none.

    `measured` are the points of the load tests that were asked for; `agreement` is what the tests say one by one.
    """

    pool: CurveInputs
    curve: ServiceCurve
    point: OperatingPoint | Rejection
    seed: int
    tried: tuple[Tried, ...] = ()
    measured: tuple[MeasuredPoint, ...] = ()
    agreement: Agreement | None = None

    @property
    def figures(self) -> dict[str, Figure]:
        """Those of the curve and of the point, or the one that refused it."""
        from ullage.errors import Rejection

        point = self.point
        own = {point.figure.name: point.figure} if isinstance(point, Rejection) else point.figures
        return {**self.curve.figures, **own}

    def dated(self) -> datetime.date:
        return self.pool.as_of

    def headlines(self) -> tuple[Headline, ...]:
        if isinstance(self.point, Rejection):
            return (Headline(name="operating point", value=f"refused: {self.point.reason}"),)
        return tuple(
            Headline(name=name.removeprefix("point."), value=each.value, unit=each.unit)
            for name, each in self.point.figures.items()
            if name in ("point.operating_rps", "point.highest_rps")
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.curve_page import curve_page

        return curve_page(
            self.curve,
            self.point,
            self.tried,
            title=self.pool.replica,
            measured=self.measured,
            agreement=self.agreement,
        )

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        pool, behind = self.pool, self.figures.values()
        return document("curve", self, as_of=pool.as_of, seed=self.seed, service=pool.service, behind=behind)


def curve(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: str | Path | None = None,
    beside: str | None = None,
    margin: str | None = None,
    sensitivity: bool = False,
    measured: Sequence[str | Path] = (),
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> CurveAnswer | Refusal:
    """Sweep the offered load of one replica of a plan's pool (the built-in example's where it is None).

    `slos` such as `chat:ttft_p95=500ms` replace or add SLOs; `definitions` is the load tool whose latencies they
    are in, or `tpot=with_first_token` and the like; `calibration` is what `ullage calibrate` found for this
    configuration; `beside` is how busy other engines on the same devices are; `margin` is a share kept by policy. With
    `sensitivity`, other engine settings and other traffic are tried, one at a time. `measured` are load tests of one
    such replica, by any tool: each is simulated as it was run and compared. `workers` is the number of threads; the
    answer does not depend on it.
    """
    from ullage.execute.limit import parse_limit
    from ullage.load.pool import load_pool
    from ullage.service.curve.sensitivity import try_changes
    from ullage.service.stage import pool_curve, pool_point

    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        pool = load_pool(
            source,
            slos=slos,
            definitions=definitions,
            calibration=calibration,
            beside=beside,
            as_of=run.as_of,
            seed=seed,
            changes=parse_changes(set, traffic),
            limit=parse_limit(run.limit),
        )
        if isinstance(pool, Rejection):
            return refusal(pool)
        policy = _policy(margin, pool.as_of)
        run.progress(0.05, "service curve")
        found = pool_curve(pool.bases(seed), seed=seed, inputs=pool.inputs, map=run.map)
        run.progress(0.4, "operating point")
        point = pool_point(found, pool.step, policy=policy, map=run.map)
        run.progress(0.7, "sensitivity" if sensitivity else "")
        tried = try_changes(found, map=run.map) if sensitivity else ()
        points, agreed = _overlay(pool, found, [Path(each) for each in measured]) if measured else ((), None)
        run.progress(1.0)
    return CurveAnswer(pool=pool, curve=found, point=point, seed=seed, tried=tried, measured=points, agreement=agreed)


def _overlay(
    pool: CurveInputs, found: ServiceCurve, files: Sequence[Path]
) -> tuple[tuple[MeasuredPoint, ...], Agreement]:
    """The points of load tests beside the curve, and what each test says alone."""
    from ullage.load.evidence import load_tests
    from ullage.service.calibration.agreement import agreement
    from ullage.service.calibration.evidence import engine_limits
    from ullage.service.calibration.measured import measured_points
    from ullage.service.calibration.repeats import RepeatTerms
    from ullage.service.steps.step_model import replica_step

    memory = pool.memory
    tests = load_tests(files)
    terms = RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens))
    sample = found.trial.load(found.saturation_rps, found.seed).requests
    points = measured_points(
        [(f"{Path(test.file).stem} {point.name}", point) for test in tests for point in test.points],
        pool.step,
        terms,
        classes=pool.classes,
        mix_tokens=(float(sample.prompt_tokens.mean()), float(sample.output_tokens.mean())),
    )
    estimate = replica_step(memory.model, memory.device, memory.runtime)
    return points, agreement(estimate, tests, terms)


def _policy(margin: str | None, day: datetime.date) -> Assumption:
    from ullage.evidence import Assumption, Evidence, Source
    from ullage.service.curve.margin import NO_POLICY
    from ullage.units import FRACTION, parse

    if margin is None:
        return NO_POLICY
    return Assumption(
        name=NO_POLICY.name,
        value=parse(margin, FRACTION, field="--margin"),
        unit="fraction",
        evidence=Evidence.STATED,
        source=Source(what="stated by the user", where="--margin", date=day),
    )
