"""`compare`: two plans in, what changed and why out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import Rejection
from ullage.execute.run import Progress, RunContext, running, silent

if TYPE_CHECKING:
    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.planning.record import PlanRecord
    from ullage.verbs.answer import Refusal
    from ullage.verbs.plan_answer import DifferenceAnswer


def compare(
    old: PlanSource,
    new: PlanSource,
    *,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
) -> DifferenceAnswer | Refusal:
    """Compare two plans, each a plan (planned now) or the file that `ullage plan --json` wrote (read back)."""
    from ullage.planning.difference import difference
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=as_of, seed=seed, workers=workers, progress=progress) as run:
        before = _record(old, run)
        after = before if isinstance(before, Rejection) else _record(new, run)
    if isinstance(before, Rejection):
        return before
    return after if isinstance(after, Rejection) else DifferenceAnswer(**vars(difference(before, after)))


def changed_since(old: PlanSource, plan: Plan, *, workers: int | None = None) -> DifferenceAnswer | Refusal:
    """What is different in a plan that was just made from an older one."""
    from ullage.planning.difference import difference
    from ullage.planning.record import record_of
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=plan.as_of, seed=plan.seed, workers=workers) as run:
        before = _record(old, run)
    if isinstance(before, Rejection):
        return before
    return DifferenceAnswer(**vars(difference(before, record_of(plan))))


def _record(source: PlanSource, run: RunContext) -> PlanRecord | Refusal:
    """The numbers of a plan: read back where the file is JSON, planned where it is a plan."""
    from ullage.files.plan_record import read_plan_record
    from ullage.load.texts import read_text
    from ullage.planning.record import record_of
    from ullage.verbs.plan import planned

    if source is not None and not isinstance(source, Mapping):
        text = read_text(Path(source), fix="Give a plan file, or what ullage plan --json wrote.")
        if text.lstrip().startswith("{"):
            return read_plan_record(text, file=str(source))
    found = planned(source, run)
    return found if isinstance(found, Rejection) else record_of(found)
