"""`portfolio`: many plans and what they share in; who stands where, what is given up first, who moves out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import Changes, SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.portfolio.limits import PoolNeed, PortfolioLimits
    from ullage.planning.portfolio.portfolio import Portfolio
    from ullage.planning.spec import PlanSpec
    from ullage.verbs.answer import Refusal

# Keys of a plan file that name things and move no size.
_NAMES = ("service", "dated", "emit", "claims")
MOST_DECIDED = 4
"""Whole plans that a portfolio makes where nobody says: each takes about as long as fifty first looks."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PortfolioAnswer(VerbAnswer):
    """A portfolio, and how its figures are known: `evaluated_services` first looks stand for all pools."""

    portfolio: Portfolio
    as_of: datetime.date
    seed: int
    evaluated_services: int
    services: int

    def headlines(self) -> tuple[Headline, ...]:
        found = self.portfolio
        return (
            Headline(name="pools", value=len(found.pools)),
            Headline(name="replicas", value=found.replicas, unit="replicas"),
            Headline(name="devices", value=found.devices, unit="devices"),
            Headline(name="a month", value=found.usd, unit="USD"),
            Headline(name="given up", value=sum(each.given_up_replicas for each in found.pools), unit="replicas"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.portfolio_page import portfolio_page

        return portfolio_page(self.portfolio, evaluated=self.evaluated_services)

    def dated(self) -> datetime.date:
        return self.as_of

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("portfolio", self, as_of=self.as_of, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class _Looked:
    """One service: its specification, and what its pools need; `like` is the service whose evaluation it shares."""

    spec: PlanSpec
    needs: tuple[PoolNeed, ...]
    like: str


def portfolio(
    plans: Sequence[PlanSource],
    *,
    quotas: str | Path | None = None,
    decide: int = MOST_DECIDED,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = silent,
) -> PortfolioAnswer | Refusal:
    """Place the pools of many plans under what they share: `quotas` is the file of it.

    Every service has a first look; equal ones share it. At most `decide` services on which the answer turns are planned
    whole. `set` and `traffic` change all of the plans.
    """
    from ullage.planning.portfolio.portfolio import plan_portfolio
    from ullage.verbs.answer import refusal

    if not plans:
        raise InputError(field="plans", value=None, problem="there is none", fix="Give one plan file or more.")
    if decide < 0:
        raise InputError(field="--decide", value=decide, problem="must be 0 or more", fix="Give for example 8.")
    limits = _limits(quotas)
    changes = parse_changes(set, traffic)
    with running(as_of=as_of, seed=seed, workers=workers, progress=progress) as run:
        looked = _looked(plans, changes, run)
        if isinstance(looked, Rejection):
            return refusal(looked)
        needs = [each for one in looked for each in one.needs]
        _check_names(needs, limits)
        known: dict[str, dict[str, PoolNeed] | None] = {}
        run.progress(0.8, "placing")
        found = plan_portfolio(
            needs, limits, decide=lambda need: _decided(need, looked, known, run), most_decided=decide, as_of=run.as_of
        )
        run.progress(1.0)
    if isinstance(found, Rejection):
        return refusal(found)
    evaluated = len({each.like for each in looked})
    return PortfolioAnswer(
        portfolio=found, as_of=run.as_of, seed=seed, evaluated_services=evaluated, services=len(looked)
    )


def _limits(quotas: str | Path | None) -> PortfolioLimits:
    from ullage.files.portfolio_file import read_portfolio_file
    from ullage.load.texts import read_text
    from ullage.planning.portfolio.limits import PortfolioLimits

    if quotas is None:
        return PortfolioLimits()
    file = Path(quotas)
    text = read_text(file, field="--quotas", fix="Give the file of what the services share.")
    return read_portfolio_file(text, file=str(file))


def _looked(plans: Sequence[PlanSource], changes: Changes, run: RunContext) -> list[_Looked] | Rejection:
    """A first look at every service; those whose files differ in names alone share one."""
    from ullage.load.plan import plan_document
    from ullage.planning.estimate import estimate_plan
    from ullage.planning.portfolio.needs import looked_needs

    like: dict[str, int] = {}
    keys = []
    for at, source in enumerate(plans):
        content = {k: v for k, v in plan_document(source, changes).content.items() if k not in _NAMES}
        # A path in a file is relative to it, so that two of them are equal in one folder alone.
        place = str(Path(source).parent.resolve()) if isinstance(source, str | Path) else ""
        key = json.dumps([content, place], sort_keys=True, default=str)
        like.setdefault(key, at)
        keys.append(key)
    first = sorted(like.values())
    done = 0

    def look(at: int) -> tuple[_Looked, tuple[str, ...]] | Rejection:
        nonlocal done
        spec = _spec(plans[at], changes, run)
        found = estimate_plan(spec, as_of=run.as_of, seed=run.seed)
        done += 1
        run.progress(0.02 + 0.75 * done / len(first), "first looks")
        if isinstance(found, Rejection):
            return found
        return _Looked(spec=spec, needs=looked_needs(spec, found), like=spec.name), found.pending

    results = dict(zip(first, run.map(look, first), strict=True))
    answer: list[_Looked] = []
    for at, key in enumerate(keys):
        result = results[like[key]]
        if isinstance(result, Rejection):
            return replace(result, reason=f"{_named(plans[at])}: {result.reason}")
        one, pending = result
        if pending:
            problem = f"of {', '.join(pending)} nothing can be said before it is planned"
            raise InputError(field="plan", value=_named(plans[at]), problem=problem, fix="Run ullage plan on it first.")
        answer.append(one if like[key] == at else _renamed(one, plans[at], changes))
    return answer


def _spec(source: PlanSource, changes: Changes, run: RunContext) -> PlanSpec:
    from ullage.load.plan import load_plan

    return load_plan(source, as_of=run.as_of, seed=run.seed, changes=changes)


def _renamed(one: _Looked, source: PlanSource, changes: Changes) -> _Looked:
    """The same service under another name."""
    from ullage.load.plan import plan_document

    name = str(plan_document(source, changes).content.get("service", one.spec.name))
    needs = tuple(replace(each, service=name, same_as=each.name) for each in one.needs)
    return _Looked(spec=replace(one.spec, name=name), needs=needs, like=one.like)


def _named(source: PlanSource) -> str:
    return str(source) if isinstance(source, str | Path) else "plan"


def _check_names(needs: Sequence[PoolNeed], limits: PortfolioLimits) -> None:
    from ullage.errors import unknown_name

    names = [each.name for each in needs]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise InputError(
            field="plans", value=twice, problem="is planned by two files", fix="Give each service its own name."
        )
    services = {each.service for each in needs}
    for name in limits.services:
        if name not in services:
            raise unknown_name(field="--quotas services", name=name, known=services)


def _decided(
    need: PoolNeed,
    looked: Sequence[_Looked],
    known: dict[str, dict[str, PoolNeed] | None],
    run: RunContext,
) -> PoolNeed | None:
    """The pool by the whole plan of its service; services that are alike are planned once."""
    from ullage.planning.pipeline import plan as run_pipeline
    from ullage.planning.portfolio.needs import decided_needs

    one = next(each for each in looked if each.spec.name == need.service)
    if one.like not in known:
        run.progress(0.8, f"planning {one.like}")
        found = run_pipeline(one.spec, as_of=run.as_of, seed=run.seed, map=run.map)
        by_pool = {each.pool: each for each in one.needs}
        known[one.like] = None if isinstance(found, Rejection) else decided_needs(found, by_pool)
    decided = known[one.like]
    if decided is None:
        return None
    return replace(decided[need.pool], service=need.service, same_as=need.same_as)
