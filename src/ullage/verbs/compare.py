"""`compare`: two plans in, what changed and why out."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> DifferenceAnswer | Refusal:
    """Compare two plans, each a plan (planned now) or the file that `ullage plan --json` wrote (read back)."""
    from ullage.planning.differences.difference import difference
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        before = _record(old, run)
        if isinstance(before, Rejection):
            return before
        after = _record(new, run)
        if isinstance(after, Rejection):
            return after
        same_seed = None
        if before.seed != after.seed and not _saved_text(new):
            same_seed = _record(new, replace(run, seed=before.seed))
    if isinstance(same_seed, Rejection):
        same_seed = None
    return DifferenceAnswer(**vars(difference(before, after, same_seed=same_seed)))


def changed_since(
    old: PlanSource, plan: Plan, *, at_seed: Callable[[int], Plan | Refusal], workers: int | None = None
) -> DifferenceAnswer | Refusal:
    """What is different in a plan that was just made from an older one; `at_seed` makes it again at the old one's."""
    from ullage.planning.differences.difference import difference
    from ullage.planning.record import record_of
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=plan.as_of, seed=plan.seed, workers=workers) as run:
        before = _record(old, run)
    if isinstance(before, Rejection):
        return before
    again = at_seed(before.seed) if before.seed != plan.seed else None
    same_seed = None if again is None or isinstance(again, Rejection) else record_of(again)
    return DifferenceAnswer(**vars(difference(before, record_of(plan), same_seed=same_seed)))


def _record(source: PlanSource, run: RunContext) -> PlanRecord | Refusal:
    """The numbers of a plan: read back where the file is JSON, planned where it is a plan."""
    from ullage.files.plan_record import read_plan_record
    from ullage.planning.record import record_of
    from ullage.verbs.plan import planned

    saved = _saved_text(source)
    if saved:
        return read_plan_record(saved, file=str(source))
    found = planned(source, run)
    return found if isinstance(found, Rejection) else record_of(found)


def _saved_text(source: PlanSource) -> str:
    """The text of a plan that was saved as JSON; empty where the source is a plan to make."""
    from ullage.load.texts import read_text

    if source is None or isinstance(source, Mapping):
        return ""
    text = read_text(Path(source), fix="Give a plan file, or what ullage plan --json wrote.")
    return text if text.lstrip().startswith("{") else ""
