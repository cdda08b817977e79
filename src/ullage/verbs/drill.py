"""`drill`: a plan in; failures and overloads simulated on it, each with a verdict, out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection, check_name
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.planning.drills.result import Drills
    from ullage.verbs.answer import Refusal


# A plan and its drills, in plans (bench/RESULTS.md).
_ROUNDS = 1.4


@dataclass(frozen=True, kw_only=True, repr=False)
class Drilled(VerbAnswer):
    """A plan, and how it stood its drills."""

    plan: Plan
    drills: Drills

    def printed(self) -> object:
        return self.drills

    def dated(self) -> datetime.date:
        return self.plan.as_of

    def headlines(self) -> tuple[Headline, ...]:
        several = len(self.plan.pools) > 1
        return tuple(
            Headline(name=f"{each.pool}.{each.name}" if several else each.name, value=each.verdict.value)
            for each in self.drills.results
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.drill_page import drill_page

        return drill_page(self.plan, self.drills)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        plan = self.plan
        return document("drill", self.drills, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)


def drill(
    source: PlanSource = None,
    names: Sequence[str] = (),
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
    progress: Progress = silent,
) -> Drilled | Refusal:
    """Plan a service (the built-in example where it is None) and play these drills on it, all by default.

    A drill that is not known is an error before anything is planned. With `run_on`, such as `ray`, every drill is a job
    of a Ray cluster's workers.
    """
    from ullage.planning.drills.drills import DRILLS, run_drills
    from ullage.verbs.plan import planned

    for name in names:
        check_name(name, DRILLS, field="drill")
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, run_on=run_on, progress=progress) as run:
        found = planned(source, run, parse_changes(set, traffic), rounds=_ROUNDS)
        if isinstance(found, Rejection):
            return found
        run.progress(0.5, "drills")
        return Drilled(plan=found, drills=run_drills(found, names, map=run.map))
