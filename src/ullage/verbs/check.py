"""`check`: a plan in, the mistakes that were found in it out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import Rejection, check_name
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.checks.result import Checks
    from ullage.planning.document import Plan
    from ullage.verbs.answer import Refusal


# A plan and its checks, in plans (bench/RESULTS.md).
_ROUNDS = 1.25


@dataclass(frozen=True, kw_only=True, repr=False)
class Checked(VerbAnswer):
    """A plan, and what was found in it."""

    plan: Plan
    checks: Checks

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="mistakes", value=len(self.checks.mistakes)),
            Headline(name="looked for", value=len(self.checks.results), unit="kinds"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.check_page import check_page

        return check_page(self.plan, self.checks)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        plan = self.plan
        return document("check", self.checks, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name)


def check(
    source: PlanSource = None,
    names: Sequence[str] = (),
    *,
    rules: Sequence[str | Path] = (),
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Checked | Refusal:
    """Plan a service (the built-in example where it is None) and look for these mistakes, all by default.

    A check that is not known is an error before anything is planned. `rules` are files with autoscalers,
    whose faults are named from the YAML alone.
    """
    from ullage.planning.checks.checks import CHECKS, check_plan
    from ullage.planning.checks.rules import with_rules
    from ullage.readers.kubernetes import read_rules
    from ullage.verbs.plan import planned

    read = read_rules([Path(each) for each in rules]) if rules else ()
    for name in names:
        check_name(name, CHECKS, field="check")
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        found = planned(source, run, parse_changes(set, traffic), rounds=_ROUNDS)
        if isinstance(found, Rejection):
            return found
        run.progress(0.9, "checks")
        checks = check_plan(found, names, map=run.map)
        return Checked(plan=found, checks=with_rules(checks, found, [each.rule for each in read]))
