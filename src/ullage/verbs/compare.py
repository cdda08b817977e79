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
    from ullage.planning.differences.record import PlanRecord
    from ullage.planning.document import Plan
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
        kept = [_read_back(each) for each in (old, new)]
        studied = any(each is not None and _is_studied(each) for each in kept)
        before = kept[0] or _planned(old, run, studied=studied)
        if isinstance(before, Rejection):
            return before
        after = kept[1] or _planned(new, run, studied=studied)
        if isinstance(after, Rejection):
            return after
        same_seed = None
        if before.seed != after.seed and kept[1] is None:
            same_seed = _planned(new, replace(run, seed=before.seed), studied=studied)
    if isinstance(same_seed, Rejection):
        same_seed = None
    return DifferenceAnswer(**vars(difference(before, after, same_seed=same_seed)))


def changed_since(
    old: PlanSource, plan: Plan, *, at_seed: Callable[[int], Plan | Refusal], workers: int | None = None
) -> DifferenceAnswer | Refusal:
    """What is different in a plan that was just made from an older one; `at_seed` makes it again at the old one's."""
    from ullage.planning.differences.difference import difference
    from ullage.planning.differences.record import record_of
    from ullage.verbs.plan_answer import DifferenceAnswer

    with running(as_of=plan.as_of, seed=plan.seed, workers=workers) as run:
        now = record_of(plan)
        before = _read_back(old) or _planned(old, run, studied=_is_studied(now))
    if isinstance(before, Rejection):
        return before
    again = at_seed(before.seed) if before.seed != plan.seed else None
    same_seed = None if again is None or isinstance(again, Rejection) else record_of(again)
    return DifferenceAnswer(**vars(difference(before, now, same_seed=same_seed)))


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
    from ullage.planning.differences.record import record_of
    from ullage.verbs.plan import planned

    found = planned(source, run, studied=studied)
    return found if isinstance(found, Rejection) else record_of(found)


def _is_studied(record: PlanRecord) -> bool:
    return any(name.endswith("risk.shortfall_fraction") for name in record.figures)
