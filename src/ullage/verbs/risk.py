"""`risk`: a plan in, how often its fleet falls short, what moves it and what to measure first out."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, running, silent
from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.uncertainty.study import Study
    from ullage.verbs.answer import Refusal


@dataclass(frozen=True, kw_only=True, repr=False)
class RiskAnswer(VerbAnswer):
    """A plan and the study of its risk; `bad_hour_usd` is what an hour of shortfall costs, where that is stated."""

    plan: Plan
    study: Study
    bad_hour_usd: float | None

    def headlines(self) -> tuple[Headline, ...]:
        several = len(self.study.pools) > 1
        found = []
        for each in self.study.pools:
            who = f"{each.pool}." if several else ""
            chosen = "none" if each.chosen_replicas is None else each.chosen_replicas
            found += [
                Headline(name=f"{who}serving", value=each.replicas, unit="replicas"),
                Headline(name=f"{who}shortfall", value=each.risk.shortfall_fraction, unit="fraction"),
                Headline(name=f"{who}hours short", value=each.risk.hours_per_month, unit="h/month"),
                Headline(name=f"{who}at the chosen risk", value=chosen, unit="replicas"),
            ]
        return tuple(found)

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.risk_page import risk_page

        return risk_page(self.plan, self.study, self.bad_hour_usd)

    def printed(self) -> object:
        return self.study, tuple(self.study.figures.values())

    def dated(self) -> datetime.date:
        return self.plan.as_of

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        plan = self.plan
        return document(
            "risk",
            self.study,
            as_of=plan.as_of,
            seed=plan.seed,
            service=plan.spec.name,
            behind=tuple(self.study.figures.values()),
        )


def risk(
    source: PlanSource = None,
    *,
    bad_hour: str | float | None = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    run_on: str | None = None,
    progress: Progress = silent,
) -> RiskAnswer | Refusal:
    """Plan a service (the built-in example where it is None) and study the risk of its fleet.

    `bad_hour` is the price of an hour in which an SLO is violated for lack of replicas, such as `5000 USD`: the fleet
    of least expected cost is named for it. The chance to take is the plan's `policy.shortfall`. With `run_on`, such as
    `ray`, pools and the trials of each are jobs of a Ray cluster's workers.
    """
    from ullage.planning.work.estimate import STUDY_ROUNDS
    from ullage.uncertainty.study import study
    from ullage.verbs.plan import planned

    price = _usd(bad_hour)
    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, run_on=run_on, progress=progress) as run:
        found = planned(source, run, parse_changes(set, traffic), rounds=1.0 + STUDY_ROUNDS)
        if isinstance(found, Rejection):
            return found
        run.progress(0.7, "risk")
        return RiskAnswer(plan=found, study=study(found, map=run.map, jobs=run.jobs), bad_hour_usd=price)


def _usd(given: str | float | None) -> float | None:
    """Dollars as a number, or as people write them."""
    if given is None:
        return None
    text = str(given).upper().replace("USD", "").replace(",", "").strip()
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1e12:
        raise InputError(
            field="--bad-hour",
            value=given,
            problem="is not an amount of USD",
            fix="Give what an hour of violated SLOs costs, for example 5000 USD.",
        )
    return found
