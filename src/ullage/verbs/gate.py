"""`gate`: measurements before and after a change in; whether steps take longer, and the effect on replicas, out."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import ExitCode, InputError, Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer, refusal
from ullage.verbs.calibrate_fit import StatedTest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs
    from ullage.service.calibration.step_change import MixedRequest, StepDifference
    from ullage.service.steps.step_model import StepModel
    from ullage.verbs.answer import Refusal

DEFAULT_TOLERANCE_FRACTION = 0.05
"""What repeats of one run differ by, twice: less than this is not worth a stopped rollout."""


@dataclass(frozen=True, kw_only=True)
class ReplicasMeant:
    """What a difference means for a plan: replicas with the steps of either side, nominal, and their price.

    `low_replicas` and `high_replicas` are those of after at the ends of the interval. `usd` is of the difference, over
    `period_hours`; None where the plan has no price.
    """

    before_replicas: int
    after_replicas: int
    low_replicas: int
    high_replicas: int
    usd: float | None
    period_hours: float


@dataclass(frozen=True, kw_only=True, repr=False)
class GateAnswer(VerbAnswer):
    """The difference between two fits of a plan's replica, and what it means for the plan."""

    service: str
    replica: str
    before: str
    after: str
    request: MixedRequest
    difference: StepDifference
    meant: ReplicasMeant | None
    as_of: datetime.date
    seed: int

    @property
    def exit_code(self) -> ExitCode:
        """What the verdict is to a shell: only what is slower stops a rollout."""
        from ullage.service.calibration.step_change import StepVerdict

        stops = {StepVerdict.SLOWER: ExitCode.REFUSED, StepVerdict.CANNOT_TELL: ExitCode.UNDECIDED}
        return stops.get(self.difference.verdict, ExitCode.OK)

    def headlines(self) -> tuple[Headline, ...]:
        found = self.difference
        change = Headline(name="device time per request", value=f"{found.whole.ratio - 1.0:+.1%}")
        return (Headline(name="verdict", value=str(found.verdict)), change)

    def dated(self) -> datetime.date:
        return self.as_of

    def page(self) -> list[RenderableType]:
        from ullage.report.service.gate_page import gate_page

        return gate_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("gate", self, as_of=self.as_of, seed=self.seed, service=self.service)


def gate(
    before: str | Path,
    after: str | Path,
    *,
    plan: PlanSource = None,
    tolerance_fraction: float = DEFAULT_TOLERANCE_FRACTION,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    stated: StatedTest = StatedTest(),  # noqa: B008 - frozen
    quick: bool = False,
    limit: str | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
) -> GateAnswer | Refusal:
    """Compare the replica of a plan before and after a change of its engine, flags, driver or quantisation.

    Each side is a calibration, a load test of any tool, or a folder of load tests. `quick` leaves out what the
    difference means in replicas, which takes two searches. Load tests of both sides are read by the same `stated`
    terms; what differs between plan and files, such as a version's precision, is accepted by name.
    """
    from ullage.execute.limit import parse_limit
    from ullage.load.pool import load_pool
    from ullage.service.calibration.step_change import step_difference

    if not 0.0 < tolerance_fraction < 1.0:
        raise InputError(
            field="--tolerance",
            value=tolerance_fraction,
            problem="must be above 0 and below 1",
            fix="Give for example 5%.",
        )
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        changes = parse_changes(set, traffic)
        pool = load_pool(plan, as_of=run.as_of, seed=seed, changes=changes, limit=parse_limit(run.limit))
        if isinstance(pool, Rejection):
            return refusal(pool)
        one, other = (
            _side(Path(each), pool, stated, run, field) for each, field in ((before, "BEFORE"), (after, "AFTER"))
        )
        run.progress(0.3, "replicas")
        meant, replicas = None, 1
        if not quick:
            sized = [_replicas(pool, each, run) for each in (one, other)]
            refused = next((each for each in sized if isinstance(each, Rejection)), None)
            if refused is not None:
                return refusal(refused)
            replicas = int(sized[0])  # type: ignore[arg-type]
        request = _request(pool, one, replicas, seed)
        found = step_difference(one, other, request, tolerance_fraction=tolerance_fraction)
        if not quick:
            meant = _meant(plan, (replicas, int(sized[1])), found, run, changes)  # type: ignore[arg-type]
    return GateAnswer(
        service=pool.service,
        replica=pool.replica,
        before=str(before),
        after=str(after),
        request=request,
        difference=found,
        meant=meant,
        as_of=run.as_of,
        seed=seed,
    )


def _side(path: Path, pool: CurveInputs, stated: StatedTest, run: RunContext, field: str) -> StepModel:
    """The step model of the pool's replica on what was measured on one side."""
    from ullage.bounded import first_bytes
    from ullage.evidence import Source
    from ullage.load.evidence import load_tests, read_calibration
    from ullage.service.calibration.document import SCHEMA
    from ullage.service.calibration.pool_step import StepEvidence, pool_step

    if not path.exists():
        raise InputError(field=field, value=str(path), problem="does not exist", fix="Give a file or a folder.")
    if path.is_file() and SCHEMA in first_bytes(path, 200).decode(errors="replace"):
        evidence = StepEvidence(calibrations=(read_calibration(path, field=field),), accepted=stated.accepted)
        return pool_step(pool.memory, evidence)
    source = Source(what="load tests", where=path.name, date=run.as_of)
    evidence = StepEvidence(
        load_tests=tuple((each, source) for each in load_tests([path])),
        cached_fraction=stated.cached_fraction,
        replicas=stated.replicas,
        timeout_s=stated.timeout_s,
        accepted=stated.accepted,
    )
    return pool_step(pool.memory, evidence)


def _replicas(pool: CurveInputs, step: StepModel, run: RunContext) -> int | Rejection:
    """The least replicas for the plan's traffic with these steps, taken as they are."""
    from ullage.service.curve.sizing import size_pool

    bases = replace(pool, step=step, band=replace(pool.band, slow_ratio=1.0)).bases(run.seed)
    sized = size_pool(bases, rate_rps=pool.demand.planning_rps, seed=run.seed, map=run.map)
    return sized if isinstance(sized, Rejection) else sized.replicas


def _request(pool: CurveInputs, step: StepModel, replicas: int, seed: int) -> MixedRequest:
    from ullage.service.calibration.step_change import mixed_request
    from ullage.service.stage import scheduler_limits

    drawn = pool.drawn(seed)
    return mixed_request(
        step,
        prompt_tokens=float(drawn.prompt_tokens.mean()),
        cached_tokens=0.0 if drawn.cached_tokens is None else float(drawn.cached_tokens.mean()),
        output_tokens=float(drawn.output_tokens.mean()),
        rate_rps=pool.demand.planning_rps / replicas,
        most=scheduler_limits(pool.memory)[0],
    )


def _meant(
    plan: PlanSource, replicas: tuple[int, int], found: StepDifference, run: RunContext, changes: Any
) -> ReplicasMeant:
    from ullage.load.pool_money import replica_period_usd

    usd, hours = replica_period_usd(plan, as_of=run.as_of, seed=run.seed, changes=changes)
    before, after = replicas
    ends = (found.whole.low_ratio / found.whole.ratio, found.whole.high_ratio / found.whole.ratio)
    return ReplicasMeant(
        before_replicas=before,
        after_replicas=after,
        low_replicas=max(1, math.floor(after * ends[0])),
        high_replicas=math.ceil(after * ends[1]),
        usd=None if usd is None else usd * (after - before),
        period_hours=hours,
    )
