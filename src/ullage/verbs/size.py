"""`size`: a plan and a rate in, the smallest pool that meets every SLO out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer, refusal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.load.pool import CurveInputs, PoolSides
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

        rate_from = "as stated" if self.is_rate_stated else "the plan's planning rate"
        return size_page(self.size, title=self.pool.replica, rate_from=rate_from)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        pool, behind = self.pool, self.size.figures.values()
        return document("size", self, as_of=pool.as_of, seed=self.seed, service=pool.service, behind=behind)


@dataclass(frozen=True, kw_only=True, repr=False)
class SidesSized(VerbAnswer):
    """The sizes of a pool's prefill and decode sides, and what both do together.

    `used_fraction` is the largest part used of what an SLO allows to miss, of `nearest`, both sides simulated together.
    """

    prefill_replica: str
    decode_replica: str
    prefill: PoolSize
    decode: PoolSize
    transfer_p95_s: float
    used_fraction: float
    nearest: str
    is_met: bool
    is_decided: bool
    is_rate_stated: bool
    service: str
    as_of: datetime.date
    seed: int

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="rate", value=self.decode.rate_rps, unit="req/s"),
            Headline(name="prefill side", value=self.prefill.conservative_replicas, unit="replicas"),
            Headline(name="decode side", value=self.decode.conservative_replicas, unit="replicas"),
            Headline(name="SLOs met together", value="yes" if self.is_met else "no"),
        )

    @property
    def verdict(self) -> str:
        """What both sides do together, in words."""
        met = "meet every SLO" if self.is_met else "violate an SLO"
        sure = "" if self.is_decided else ", undecided"
        return (
            f"Together {self.prefill.conservative_replicas} prefill and {self.decode.conservative_replicas} decode "
            f"replicas {met}{sure}: nearest to its limit is {self.nearest}, {self.used_fraction:.0%} of it used."
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.service.split_page import sized_page

        return sized_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("size", self, as_of=self.as_of, seed=self.seed, service=self.service)


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
) -> SizeAnswer | SidesSized | Refusal:
    """Size the pool of a plan (the built-in example's where it is None) for a total rate of its mix.

    Without `rate` it is the demand's planning rate. `slos` such as `chat:ttft_p95=500ms` replace or add SLOs;
    `definitions` is the load tool whose latencies they are in. A pool whose prefill and decode are apart is sized
    side by side, and both are then tried together.
    """
    from ullage.execute.limit import parse_limit
    from ullage.load.pool import PoolSides, load_sides
    from ullage.load.typed import parse_rate
    from ullage.service.curve.sizing import size_pool
    from ullage.workload.demand.rate import check_rate

    stated_rps = parse_rate(rate)
    if stated_rps is not None:
        check_rate("--rate", stated_rps, _MOST_RPS)
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        pool = load_sides(
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
        if isinstance(pool, PoolSides):
            sides = _sides(pool, stated_rps, run)
            return refusal(sides) if isinstance(sides, Rejection) else sides
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


def _sides(pool: PoolSides, stated_rps: float | None, run: RunContext) -> SidesSized | Rejection:
    """Each side as any pool is sized, and both together held to the limits of the whole."""
    from ullage.planning.sides import tried_together
    from ullage.service.curve.sizing import size_pool

    rate_rps = pool.demand.planning_rps if stated_rps is None else stated_rps
    sized, bases = [], []
    for part, side in ((0.4, pool.prefill), (0.8, pool.decode)):
        one = side.bases(run.seed)
        found = size_pool(one, rate_rps=rate_rps, seed=run.seed, map=run.map)
        if isinstance(found, Rejection):
            return found
        run.progress(part, "sizing")
        sized.append(found)
        bases.append(one)
    both = tried_together(
        pool.spec, pool.prefill_pool, pool.demand, (bases[0], bases[1]),
        (sized[0].conservative_replicas, sized[1].conservative_replicas),
        rate_rps=rate_rps, seed=run.seed, map=run.map,
    )  # fmt: skip
    run.progress(1.0)
    first = both.decision.first
    return SidesSized(
        prefill_replica=pool.prefill.replica,
        decode_replica=pool.decode.replica,
        prefill=sized[0],
        decode=sized[1],
        transfer_p95_s=both.transfer_p95_s,
        used_fraction=0.0 if first is None else first.use_fraction,
        nearest="none" if first is None else first.name,
        is_met=both.decision.passes,
        is_decided=both.decision.is_decided,
        is_rate_stated=stated_rps is not None,
        service=pool.spec.name,
        as_of=run.as_of,
        seed=run.seed,
    )
