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
        kept = [_read_back(each) for each in (old, new)]
        studied = any(each is not None and _is_studied(each) for each in kept)
        before = kept[0] or _planned(old, run, studied=studied)
        after = before if isinstance(before, Rejection) else kept[1] or _planned(new, run, studied=studied)
    if isinstance(before, Rejection):
        return before
    return after if isinstance(after, Rejection) else DifferenceAnswer(**vars(difference(before, after)))


def changed_since(old: PlanSource, plan: Plan, *, workers: int | None = None) -> DifferenceAnswer | Refusal:
    """What is different in a plan that was just made from an older one."""
    from ullage.planning.difference import difference
    from ullage.planning.record import record_of
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=plan.as_of, seed=plan.seed, workers=workers) as run:
        now = record_of(plan)
        before = _read_back(old) or _planned(old, run, studied=_is_studied(now))
    if isinstance(before, Rejection):
        return before
    return DifferenceAnswer(**vars(difference(before, now)))


def _read_back(source: PlanSource) -> PlanRecord | None:
    """The numbers that a JSON file holds; None where the source is a plan."""
    from ullage.files.plan_record import read_plan_record
    from ullage.load.texts import read_text

    if source is None or isinstance(source, Mapping):
        return None
    text = read_text(Path(source), fix="Give a plan file, or what ullage plan --json wrote.")
    return read_plan_record(text, file=str(source)) if text.lstrip().startswith("{") else None


def _planned(source: PlanSource, run: RunContext, *, studied: bool) -> PlanRecord | Refusal:
    """The numbers of a plan; its risk is studied where the other's was, so that the two hold the same."""
    from ullage.planning.record import record_of
    from ullage.verbs.plan import planned

    found = planned(source, run, studied=studied)
    return found if isinstance(found, Rejection) else record_of(found)


def _is_studied(record: PlanRecord) -> bool:
    return any(name.endswith("risk.shortfall_fraction") for name in record.figures)
