"""`compare`: two plans in, what changed and why out."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.errors import Rejection
    from ullage.planning.difference import Difference
    from ullage.planning.document import Plan
    from ullage.planning.record import PlanRecord


def compare(
    old: Path, new: Path, *, as_of: datetime.date | None = None, seed: int = 0, workers: int | None = None
) -> Difference | Rejection:
    """Compare two plans, each a plan file (planned now) or what `ullage plan --json` wrote (read back)."""
    from ullage.errors import Rejection
    from ullage.planning.difference import difference

    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    before, after = (load_record(each, as_of=day, seed=seed, workers=workers) for each in (old, new))
    if isinstance(before, Rejection):
        return before
    return after if isinstance(after, Rejection) else difference(before, after)


def changed_since(old: Path, plan: Plan) -> Difference | Rejection:
    """What is different in a plan that was just made from an older one."""
    from ullage.errors import Rejection
    from ullage.planning.difference import difference
    from ullage.planning.record import record_of

    before = load_record(old, as_of=plan.as_of, seed=plan.seed)
    return before if isinstance(before, Rejection) else difference(before, record_of(plan))


def load_record(file: Path, *, as_of: datetime.date, seed: int, workers: int | None = None) -> PlanRecord | Rejection:
    """The numbers of a plan: read back where the file is JSON, planned where it is a plan file."""
    from ullage.errors import InputError, Rejection
    from ullage.files.plan_record import read_plan_record
    from ullage.planning.record import record_of
    from ullage.verbs.plan import plan

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = (getattr(error, "strerror", None) or "is not text").lower()
        fix = "Give a plan file, or what ullage plan --json wrote."
        raise InputError(field="file", value=str(file), problem=problem, fix=fix) from None
    if text.lstrip().startswith("{"):
        return read_plan_record(text, file=str(file))
    found = plan(file, as_of=as_of, seed=seed, workers=workers)
    return found if isinstance(found, Rejection) else record_of(found)
