"""`plan`: a plan in, the whole chain out."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ullage.errors import Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import NO_CHANGES, Changes, SetValues, parse_changes

if TYPE_CHECKING:
    from ullage.load.plan import PlanSource
    from ullage.planning.spec import PlanSpec
    from ullage.verbs.answer import Refusal
    from ullage.verbs.plan_answer import PlanAnswer


def plan(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
) -> PlanAnswer | Refusal:
    """Plan the service in `source`: a file, the same as a dict, or None for the built-in example.

    `set` changes keys of the plan, such as `{"pool.tensor_parallel": 4}`, and `traffic` all of its demand, such as
    `+30%`. `as_of` is the date on which ages are counted (today where it is None); together with `seed` it makes the
    answer the same bytes every time, on however many `workers`.
    """
    with running(as_of=as_of, seed=seed, workers=workers, progress=progress) as run:
        return planned(source, run, parse_changes(set, traffic))


def planned(source: PlanSource, run: RunContext, changes: Changes = NO_CHANGES) -> PlanAnswer | Refusal:
    """The plan of a source in a run that is under way."""
    from ullage.load.located import located
    from ullage.load.plan import load_plan, plan_document

    run.progress(0.01, "reading")
    spec = load_plan(source, as_of=run.as_of, seed=run.seed, changes=changes)
    with located(lambda: plan_document(source, changes)):
        return plan_spec(spec, run)


def plan_spec(spec: PlanSpec, run: RunContext) -> PlanAnswer | Refusal:
    """The plan of a specification: every stage, and those that work around it."""
    from ullage.planning.pipeline import plan as run_pipeline
    from ullage.uncertainty.study import study
    from ullage.verbs.answer import refusal
    from ullage.verbs.ledger import last_of
    from ullage.verbs.plan_answer import PlanAnswer

    found = run_pipeline(spec, as_of=run.as_of, seed=run.seed, map=run.map, report=run.progress)
    if isinstance(found, Rejection):
        return refusal(found)
    return PlanAnswer(**vars(found.followed_by(uncertainty=study(spec), reconcile=last_of(spec.name))))
