"""`shadow`: a plan, a rule and yesterday's production in; the rule simulated, compared with what ran, out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.planning.pool_plan import PoolPlan
    from ullage.readers.kubernetes.autoscaler_rules import ReadRule
    from ullage.reconcile.observation import Observation
    from ullage.reconcile.shadow import ShadowedPool
    from ullage.verbs.answer import Refusal


@dataclass(frozen=True, kw_only=True, repr=False)
class ShadowAnswer(VerbAnswer):
    """Rules in the shadow of the live autoscaler, on production's own traffic."""

    service: str
    found: ShadowedPool
    as_of: datetime.date
    seed: int

    def headlines(self) -> tuple[Headline, ...]:
        best = min(self.found.rules, key=lambda each: (not each.is_met, each.replica_hours))
        return (
            Headline(name="live", value=round(self.found.live_hours, 1), unit="h"),
            Headline(name=best.name, value=round(best.replica_hours, 1), unit="h"),
        )

    def dated(self) -> datetime.date:
        return self.as_of

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.shadow_page import shadow_page

        return shadow_page(self.found)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("shadow", self, as_of=self.as_of, seed=self.seed, service=self.service)


def shadow(
    plan: PlanSource = None,
    *,
    rules: Sequence[str | Path] = (),
    files: Sequence[str | Path] = (),
    prometheus: str | None = None,
    http_config: str | Path | None = None,
    names: str | Path | None = None,
    from_: str | None = None,
    until: str | None = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> ShadowAnswer | Refusal:
    """Play scaling rules on what production had between two times, beside what the live autoscaler did.

    Production is a Prometheus server, or files of its answers to range queries, as for `reconcile`. `rules` are
    autoscalers as kubectl prints them; without any, it is the rule that the plan proposes.
    """
    from ullage.readers.kubernetes import read_rules
    from ullage.readers.prometheus.settings import read_metric_names
    from ullage.verbs.plan import planned
    from ullage.verbs.reconcile import observed_production
    from ullage.verbs.scale import require_known

    if (prometheus is None) == (not files):
        fix = "Give --prometheus URL, or files that hold answers to range queries."
        raise InputError(field="production", value=None, problem="must have one source", fix=fix)
    present = read_rules([Path(each) for each in rules]) if rules else ()
    for each in present:
        require_known(each)
    table = read_metric_names(None if names is None else Path(names))
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        # Production first: a wrong file or address need not wait for a plan.
        seen = observed_production(prometheus, [Path(each) for each in files], http_config, table, from_, until, run)
        run.progress(0.4, "plan")
        found = planned(plan, run, parse_changes(set, traffic))
        if isinstance(found, Rejection):
            return found
        run.progress(0.7, "rules")
        return ShadowAnswer(service=found.spec.name, found=_shadowed(found, seen, present), as_of=run.as_of, seed=seed)


def _shadowed(plan: Plan, seen: Observation, present: Sequence[ReadRule]) -> ShadowedPool:
    """The only pool of the plan: production's arrivals are those of a whole service."""
    from ullage.reconcile.shadow import shadow_pool
    from ullage.scaling.stage import scaling_pool

    if len(plan.pools) > 1:
        raise InputError(
            field="--plan",
            value=[each.spec.name for each in plan.pools],
            problem="has several pools, and monitoring counts the arrivals of all of them together",
            fix="Give a plan of the pool that is scaled, and metrics of it alone.",
        )
    pool: PoolPlan = plan.pools[0]
    scaled = scaling_pool(
        pool.demand, pool.steady_fleet, pool.reserves, pool.time_to_ready, settings=plan.spec.scaling,
    )  # fmt: skip
    own = pool.scaling.rule
    rules = [each.rule for each in present] or [own]
    return shadow_pool(pool.spec.name, seen, scaled, pool.demand.busy_model, rules, seed=plan.seed)
