"""`options`: a plan in; candidates ranked and refused, a mix of devices and order-by dates out."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ullage.execute.run import running
from ullage.load.changes import SetValues, parse_changes

if TYPE_CHECKING:
    from ullage.load.plan import PlanSource
    from ullage.verbs.answer import Refusal
    from ullage.verbs.plan_answer import OptionsAnswer


# The work of one candidate, in plans (bench/RESULTS.md).
_ROUNDS_OF_CANDIDATE = 0.11


def options(
    source: PlanSource = None,
    *,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
) -> OptionsAnswer | Refusal:
    """Compare what the pools of a plan could be made of; the built-in example's where there is none.

    The answer is the same bytes for one plan, date and seed, on however many `workers`. With `run_on`, such as `ray`,
    every candidate is a job of a Ray cluster's workers.
    """
    from ullage.execute.limit import parse_limit
    from ullage.load.located import located
    from ullage.load.plan import load_plan, plan_document
    from ullage.planning.options.candidates import candidates_of
    from ullage.planning.options.options import options as compare
    from ullage.planning.work.estimate import over_limit
    from ullage.verbs.answer import refusal
    from ullage.verbs.plan_answer import OptionsAnswer

    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, run_on=run_on) as run:
        changes = parse_changes(set, traffic)
        spec = load_plan(source, as_of=run.as_of, seed=seed, changes=changes)
        most = max(len(candidates_of(each, spec.options, book=spec.prices, buying=spec.buying)) for each in spec.pools)
        too_much = over_limit(spec, parse_limit(run.limit), rounds=_ROUNDS_OF_CANDIDATE * most)
        if too_much is not None:
            return refusal(too_much)
        with located(lambda: plan_document(source, changes)):
            return OptionsAnswer(**vars(compare(spec, as_of=run.as_of, seed=seed, map=run.map, jobs=run.jobs)))
