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
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
    quick: bool = False,
    progress: Progress = silent,
) -> PlanAnswer | Refusal:
    """Plan the service in `source`: a file, the same as a dict, or None for the built-in example.

    `set` changes keys of the plan, such as `{"pool.tensor_parallel": 4}`, and `traffic` all of its demand, such as
    `+30%`. `as_of` is the date on which ages are counted (today where it is None); together with `seed` it makes the
    answer the same bytes every time, on however many `workers`. `quick` leaves out the study of its risk. Work whose
    estimate is over `limit`, such as `cpu=10min,memory=8GiB`, is refused before it begins. With `run_on`, such as `ray`
    or `ray://head:10001`, what is worth the way goes to the workers of a Ray cluster.
    """
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, run_on=run_on, progress=progress) as run:
        return planned(source, run, parse_changes(set, traffic), studied=not quick)


def planned(
    source: PlanSource,
    run: RunContext,
    changes: Changes = NO_CHANGES,
    *,
    studied: bool = False,
    rounds: float = 1.0,
    played_days: float = 0.0,
) -> PlanAnswer | Refusal:
    """The plan of a source in a run that is under way; `studied` where its risk is asked for too.

    `rounds` is the work of the whole verb, in plans, and `played_days` are days of traffic that it simulates besides.
    """
    from ullage.load.located import located
    from ullage.load.plan import load_plan, plan_document

    run.progress(0.01, "reading")
    spec = load_plan(source, as_of=run.as_of, seed=run.seed, changes=changes)
    with located(lambda: plan_document(source, changes)):
        return plan_spec(spec, run, studied=studied, rounds=rounds, played_days=played_days)


def plan_spec(
    spec: PlanSpec, run: RunContext, *, studied: bool = False, rounds: float = 1.0, played_days: float = 0.0
) -> PlanAnswer | Refusal:
    """The plan of a specification: every stage, and those that work around it; work over the limit is refused."""
    from ullage.execute.limit import parse_limit
    from ullage.planning.pipeline import plan as run_pipeline
    from ullage.planning.work.estimate import STUDY_ROUNDS, over_limit
    from ullage.uncertainty.study import NOT_STUDIED, study
    from ullage.verbs.answer import refusal
    from ullage.verbs.ledger import last_of
    from ullage.verbs.plan_answer import PlanAnswer

    all_rounds = rounds + STUDY_ROUNDS if studied else rounds
    too_much = over_limit(spec, parse_limit(run.limit), rounds=all_rounds, played_days=played_days)
    if too_much is not None:
        return refusal(too_much)
    found = run_pipeline(spec, as_of=run.as_of, seed=run.seed, map=run.map, report=run.progress)
    if isinstance(found, Rejection):
        return refusal(found)
    run.progress(0.98, "risk")
    risk = study(found, map=run.map, jobs=run.jobs) if studied else NOT_STUDIED
    bands = [each.shape.band for each in spec.demands if each.shape is not None and each.shape.band is not None]
    return PlanAnswer(**vars(found.followed_by(uncertainty=risk, reconcile=last_of(spec.name, bands))))
