"""`curve`: a plan file in, the service curve of one replica and its operating point out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.evidence import Assumption, Figure
    from ullage.memory.budget import MemoryBudget
    from ullage.service.calibration.agreement import Agreement
    from ullage.service.calibration.measured import MeasuredPoint
    from ullage.service.curve.curve import ServiceCurve
    from ullage.service.curve.point import OperatingPoint
    from ullage.service.curve.sensitivity import Tried
    from ullage.service.steps.step_model import StepModel
    from ullage.service.trial.bases import Bases
    from ullage.workload.classes import RequestClass, Slo
    from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class CurveInputs:
    """What a plan file says of one pool, as far as a curve needs it."""

    service: str
    replica: str
    step: StepModel
    memory: MemoryBudget
    demand: Demand
    classes: tuple[RequestClass, ...]
    slo_limits: tuple[Assumption, ...]
    deadlines_s: Mapping[str, float]
    as_of: datetime.date

    def bases(self, seed: int) -> Bases:
        """One replica of the pool under its busy hour, as a plan tries it."""
        from ullage.service.stage import pool_bases

        return pool_bases(self.step, self.memory, self.demand, self.classes, seed=seed, deadlines_s=self.deadlines_s)

    @property
    def inputs(self) -> tuple[Figure | Assumption, ...]:
        from ullage.service.stage import rests_on

        return rests_on(self.step, self.memory, self.demand, self.slo_limits)


@dataclass(frozen=True, kw_only=True)
class CurveAnswer:
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

    def find(self, name: str) -> Figure:
        """The figure of this name; an unknown one is answered with the nearest."""
        from ullage.errors import unknown_name

        figures = self.figures
        if name not in figures:
            raise unknown_name(field="--explain", name=name, known=figures)
        return figures[name]


def curve(
    file: Path | None = None,
    *,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: Path | None = None,
    beside: str | None = None,
    margin: str | None = None,
    what_if: bool = False,
    measured: Sequence[Path] = (),
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> CurveAnswer | Rejection:
    """Sweep the offered load of one replica of the pool in `file` (the built-in example's where it is None).

    `slos` such as `chat:ttft_p95=500ms` replace or add SLOs; `definitions` is the load tool whose latencies they
    are in, or `tpot=with_first_token` and the like; `calibration` is what `ullage calibrate` found for this
    configuration; `beside` is how busy other engines on the same devices are; `margin` is a share kept by policy. With
    `what_if`, other engine settings and other traffic are tried. `measured` are load tests of one such replica, by any
    tool: each is simulated as it was run and compared. `workers` is the number of threads; the answer does not depend
    on it.
    """
    from ullage.errors import Rejection
    from ullage.execute.pool import thread_map
    from ullage.service.curve.sensitivity import try_changes
    from ullage.service.stage import pool_curve, pool_point

    pool = load_pool(file, slos=slos, definitions=definitions, calibration=calibration, beside=beside, as_of=as_of)
    if isinstance(pool, Rejection):
        return pool
    policy = _policy(margin, pool.as_of)
    progress(0.05)
    with thread_map(workers=workers) as spread:
        found = pool_curve(pool.bases(seed), seed=seed, inputs=pool.inputs, map=spread)
        progress(0.4)
        point = pool_point(found, pool.step, policy=policy, map=spread)
        progress(0.7)
        tried = try_changes(found, map=spread) if what_if else ()
    points, agreed = _overlay(pool, found, measured) if measured else ((), None)
    progress(1.0)
    return CurveAnswer(pool=pool, curve=found, point=point, seed=seed, tried=tried, measured=points, agreement=agreed)


def _overlay(
    pool: CurveInputs, found: ServiceCurve, files: Sequence[Path]
) -> tuple[tuple[MeasuredPoint, ...], Agreement]:
    """The points of load tests beside the curve, and what each test says alone."""
    from ullage.readers.loadtests import read_loadtest
    from ullage.service.calibration.agreement import agreement
    from ullage.service.calibration.measured import measured_points
    from ullage.service.calibration.pool_step import engine_limits
    from ullage.service.stage import band_of
    from ullage.service.steps.step_model import replica_step

    memory = pool.memory
    tests = [read_loadtest(path) for path in files]
    limits = engine_limits(memory.runtime, memory.kv_tokens)
    sample = found.trial.load(found.saturation_rps, found.seed).requests
    points = measured_points(
        [
            (f"{path.stem} {point.name}", point)
            for path, test in zip(files, tests, strict=True)
            for point in test.points
        ],
        pool.step,
        limits,
        band=band_of(pool.step),
        classes=pool.classes,
        mix_tokens=(float(sample.prompt_tokens.mean()), float(sample.output_tokens.mean())),
    )
    estimate = replica_step(memory.model, memory.device, memory.runtime)
    return points, agreement(estimate, tests, limits)


def load_pool(
    file: Path | None,
    *,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: Path | None = None,
    beside: str | None = None,
    as_of: datetime.date | None = None,
) -> CurveInputs | Rejection:
    """The stages of a plan that come before a curve: demand, memory, step model."""
    from ullage.errors import Rejection
    from ullage.evidence import Evidence, Source, number
    from ullage.load.calibration import read_calibration
    from ullage.memory.budget import memory_budget
    from ullage.planning.spec import slo_limits
    from ullage.service.calibration.pool_step import StepEvidence, pool_step
    from ullage.verbs.plan import load_spec
    from ullage.workload.demand.demand import forecast_demand

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    spec = load_spec(file, as_of=day)
    asked = spec.pool
    demand = forecast_demand(
        spec.demands,
        horizon=spec.policy.horizon,
        percentile=spec.policy.planning_percentile,
        measured=None if spec.traffic is None else spec.traffic.classes,
    )
    memory = memory_budget(
        asked.model,
        asked.device,
        asked.settings,
        approved=asked.approved,
        reported=asked.reported,
        engines=asked.engines,
        devices=asked.alternatives,
    )
    if isinstance(memory, Rejection):
        return memory
    source = Source(what="stated by the user", where="--slo", date=day)
    stated = [
        replace(each, request_class=one, slo_limits=slo_limits(one, evidence=Evidence.STATED, source=source))
        for each, one in zip(spec.demands, slo_class([each.request_class for each in spec.demands], slos), strict=True)
    ]
    demands = stated if slos else spec.demands
    given = [] if calibration is None else [read_calibration(calibration)]
    tested = StepEvidence(calibrations=tuple(given)) if given else asked.tested
    return CurveInputs(
        service=spec.name,
        replica=f"{asked.model.name} on {memory.runtime.sharding.devices} x {asked.device.name}",
        step=_beside(pool_step(memory, tested), beside),
        memory=memory,
        demand=demand,
        classes=counted_as([each.request_class for each in demands], definitions),
        slo_limits=tuple(one for each in demands for one in each.slo_limits),
        deadlines_s={
            each.request_class.name: number(spec.admission.deadline_of(each.request_class.name)) for each in demands
        },
        as_of=day,
    )


def _beside(step: StepModel, busy: str | None) -> StepModel:
    """The step model beside other engines on its devices, which slow it; unchanged where none are named."""
    from ullage.service.steps.colocation import Neighbour, asks_of, beside, slow_ratio
    from ullage.units import FRACTION, parse

    if busy is None:
        return step
    others = [Neighbour(name="others", busy_fraction=parse(busy, FRACTION, field="--beside"))]
    return beside(step, slow_ratio(asks_of(step), others))


# ---- what people type ----------------------------------------------------------------------------------


def slo_class(classes: Sequence[RequestClass], texts: Sequence[str]) -> tuple[RequestClass, ...]:
    """The classes with SLOs replaced or added: `chat:ttft_p95=500ms`, or `ttft_p95=500ms` for every class."""
    from ullage.errors import unknown_name

    found = {each.name: each for each in classes}
    for text in texts:
        name, slo = _slo(text)
        if name is not None and name not in found:
            raise unknown_name(field="--slo", name=name, known=found)
        for each in found.values() if name is None else (found[name],):
            kept = tuple(one for one in each.slos if one.name != slo.name)
            found[each.name] = replace(each, slos=(*kept, slo))
    return tuple(found.values())


def counted_as(classes: Sequence[RequestClass], text: str | None) -> tuple[RequestClass, ...]:
    """The classes with their latencies counted as a tool does, or as `tpot=with_first_token,itl=per_request` says."""
    from ullage.errors import InputError
    from ullage.workload.definitions import definitions_of

    if text is None:
        return tuple(classes)
    given: str | dict[str, str] = text.strip()
    if "=" in text:
        pairs = [each.partition("=") for each in text.split(",")]
        if any(not value.strip() for _, _, value in pairs):
            raise InputError(
                field="--definitions",
                value=text,
                problem="is not LATENCY=COUNT",
                fix="Write a tool such as guidellm, or tpot=with_first_token,itl=per_request.",
            )
        given = {name.strip(): value.strip() for name, _, value in pairs}
    found = definitions_of(given, field="--definitions")
    return tuple(replace(each, definitions=found) for each in classes)


def _slo(text: str) -> tuple[str | None, Slo]:
    """The class (None: every class) and the SLO in `chat:ttft_p95=500ms`."""
    import re

    from ullage.errors import InputError
    from ullage.units import DURATION, parse
    from ullage.workload.classes import Metric, Slo

    found = re.fullmatch(r"(?:([a-z][a-z0-9-]*):)?(ttft|tpot|itl|e2e)_p(\d+(?:\.\d+)?)=(.+)", text.strip())
    if found is None:
        raise InputError(
            field="--slo",
            value=text,
            problem="is not CLASS:METRIC_pNN=DURATION",
            fix="Write for example chat:ttft_p95=500ms, or ttft_p95=500ms for every class.",
        )
    name, metric, percentile, limit = found.groups()
    limit_s = parse(limit, DURATION, field="--slo")
    return name, Slo(metric=Metric(metric), percentile_fraction=float(percentile) / 100, limit_s=limit_s)


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
