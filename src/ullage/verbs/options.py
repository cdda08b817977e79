"""`options`: a plan in; candidates ranked and refused, a mix of devices and order-by dates out."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ullage.execute.run import running
from ullage.load.changes import SetValues, parse_changes

if TYPE_CHECKING:
    from ullage.load.plan import PlanSource
    from ullage.verbs.plan_answer import OptionsAnswer


def options(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> OptionsAnswer:
    """Compare what the pools of a plan could be made of; the built-in example's where there is none.

    The answer is the same bytes for one plan, date and seed, on however many `workers`.
    """
    from ullage.load.located import located
    from ullage.load.plan import load_plan, plan_document
    from ullage.planning.options.options import options as compare
    from ullage.verbs.plan_answer import OptionsAnswer

    with running(as_of=as_of, seed=seed, workers=workers) as run:
        changes = parse_changes(set, traffic)
        spec = load_plan(source, as_of=run.as_of, seed=seed, changes=changes)
        with located(lambda: plan_document(source, changes)):
            return OptionsAnswer(**vars(compare(spec, as_of=run.as_of, seed=seed, map=run.map)))
