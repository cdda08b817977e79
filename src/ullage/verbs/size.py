"""`size`: a plan and a rate in, the least pool that meets every SLO out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer, refusal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs
    from ullage.service.curve.sizing import PoolSize
    from ullage.verbs.answer import Refusal


# A large pool is simulated as a part of it, so that a size may be asked beyond what a plan plays request by request.
_MOST_RPS = 1e6


@dataclass(frozen=True, kw_only=True, repr=False)
class SizeAnswer(VerbAnswer):
    """The size, and what it was asked of."""

    pool: CurveInputs
    size: PoolSize
    is_rate_stated: bool
    seed: int

    def dated(self) -> datetime.date:
        return self.pool.as_of

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="rate", value=self.size.rate_rps, unit="req/s"),
            Headline(name="size", value=self.size.conservative_replicas, unit="replicas"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.curve_page import size_page

        rate_from = "as stated" if self.is_rate_stated else "the plan's busiest hour"
        return size_page(self.size, title=self.pool.replica, rate_from=rate_from)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        pool, behind = self.pool, self.size.figures.values()
        return document("size", self, as_of=pool.as_of, seed=self.seed, service=pool.service, behind=behind)


def size(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    rate: str | None = None,
    slos: Sequence[str] = (),
    definitions: str | None = None,
    calibration: str | Path | None = None,
    beside: str | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> SizeAnswer | Refusal:
    """Size the pool of a plan (the built-in example's where it is None) for a total rate of its mix.

    Without `rate` it is the demand's planning rate. `slos` such as `chat:ttft_p95=500ms` replace or add SLOs;
    `definitions` is the load tool whose latencies they are in.
    """
    from ullage.execute.limit import parse_limit
    from ullage.load.pool import load_pool
    from ullage.load.typed import parse_rate
    from ullage.service.curve.sizing import size_pool
    from ullage.workload.demand.demand import check_rate

    stated_rps = parse_rate(rate)
    if stated_rps is not None:
        check_rate("--rate", stated_rps, _MOST_RPS)
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
        run.progress(0.05, "sizing")
        found = size_pool(
            pool.bases(seed),
            rate_rps=pool.demand.planning_rps if stated_rps is None else stated_rps,
            seed=seed,
            inputs=pool.inputs,
            map=run.map,
        )
        run.progress(1.0)
    if isinstance(found, Rejection):
        return refusal(found)
    return SizeAnswer(pool=pool, size=found, is_rate_stated=stated_rps is not None, seed=seed)
