"""`portfolio`: many plans and their shared limits in; placement, what is dropped first and what moves out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection, check_name
from ullage.execute.run import Progress, RunContext, running, silent
from ullage.load.changes import Changes, SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.load.plan import PlanSource
    from ullage.planning.portfolio.limits import PoolNeed, PortfolioLimits
    from ullage.planning.portfolio.portfolio import Portfolio
    from ullage.verbs.answer import Refusal

# Keys of a plan file that name things and move no size.
_NAMES = ("service", "dated", "emit", "claims")
# Services in a batch: progress is told after each, and a batch keeps many workers busy.
_AT_ONCE = 64
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
            Headline(name="dropped", value=sum(each.given_up_replicas for each in found.pools), unit="replicas"),
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
class _Service:
    """One plan; `first_index` is the place of the first of those that differ from it in names alone."""

    source: PlanSource
    name: str
    first_index: int
    needs: tuple[PoolNeed, ...] = ()


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
    run_on: str | None = None,
    progress: Progress = silent,
) -> PortfolioAnswer | Refusal:
    """Place the pools of many plans under what they share: `quotas` is the file of it.

    Every service has a first look; equal ones share it. At most `decide` services on which the answer turns are planned
    whole. `set` and `traffic` change all of the plans. With `run_on`, such as `ray` or `ray://head:10001`, services are
    looked at and planned by the workers of a Ray cluster; the answer is the same bytes.
    """
    from ullage.planning.portfolio.portfolio import plan_portfolio
    from ullage.verbs.answer import refusal

    if not plans:
        raise InputError(field="plans", value=None, problem="there is none", fix="Give one plan file or more.")
    if decide < 0:
        raise InputError(field="--decide", value=decide, problem="must be 0 or more", fix="Give for example 8.")
    limits = _limits(quotas)
    changes = parse_changes(set, traffic)
    with running(as_of=as_of, seed=seed, workers=workers, run_on=run_on, progress=progress) as run:
        services = _looked(plans, changes, run)
        if isinstance(services, Rejection):
            return refusal(services)
        needs = [each for one in services for each in one.needs]
        _check_names(needs, limits)
        run.progress(0.8, "placing")
        found = plan_portfolio(
            needs,
            limits,
            decide=lambda asked: _decided(asked, services, changes, run),
            most_decided=decide,
            as_of=run.as_of,
        )
        run.progress(1.0)
    if isinstance(found, Rejection):
        return refusal(found)
    return PortfolioAnswer(
        portfolio=found,
        as_of=run.as_of,
        seed=seed,
        evaluated_services=len({each.first_index for each in services}),
        services=len(services),
    )


def _limits(quotas: str | Path | None) -> PortfolioLimits:
    from ullage.files.portfolio_file import read_portfolio_file
    from ullage.load.texts import read_text
    from ullage.planning.portfolio.limits import PortfolioLimits

    if quotas is None:
        return PortfolioLimits()
    file = Path(quotas)
    text = read_text(file, field="--quotas", fix="Give the file of shared limits.")
    return read_portfolio_file(text, file=str(file))


def _services(plans: Sequence[PlanSource], changes: Changes) -> list[_Service]:
    """Every plan by name, and which of them are alike."""
    from ullage.load.plan import plan_document

    like: dict[str, int] = {}
    found = []
    for at, source in enumerate(plans):
        content = plan_document(source, changes).content
        # A path in a file is relative to it, so that two of them are equal in one folder alone.
        place = str(Path(source).parent.resolve()) if isinstance(source, str | Path) else ""
        sizes = {key: value for key, value in content.items() if key not in _NAMES}
        first = like.setdefault(json.dumps([sizes, place], sort_keys=True, default=str), at)
        found.append(_Service(source=source, name=str(content.get("service", _named(source))), first_index=first))
    return found


def _looked(plans: Sequence[PlanSource], changes: Changes, run: RunContext) -> list[_Service] | Rejection:
    """A first look at every service; those whose files differ in names alone share one."""
    services = _services(plans, changes)
    first = sorted({each.first_index for each in services})
    look = partial(_look, changes=changes, as_of=run.as_of, seed=run.seed)
    looks: dict[int, tuple[PoolNeed, ...]] = {}
    for begin in range(0, len(first), _AT_ONCE):
        part = first[begin : begin + _AT_ONCE]
        for at, found in zip(part, run.map(look, [plans[each] for each in part]), strict=True):
            if isinstance(found, Rejection):
                return replace(found, reason=f"{_named(plans[at])}: {found.reason}")
            looks[at] = found
        run.progress(0.02 + 0.75 * len(looks) / len(first), "first looks")
    return [
        replace(each, needs=looks[at] if each.first_index == at else _named_so(looks[each.first_index], each.name))
        for at, each in enumerate(services)
    ]


def _look(source: PlanSource, *, changes: Changes, as_of: datetime.date, seed: int) -> tuple[PoolNeed, ...] | Rejection:
    """One service, from its source to what its pools need: all that a worker elsewhere has to know."""
    from ullage.load.plan import load_plan
    from ullage.planning.estimate import estimate_plan
    from ullage.planning.portfolio.needs import looked_needs

    spec = load_plan(source, as_of=as_of, seed=seed, changes=changes)
    found = estimate_plan(spec, as_of=as_of, seed=seed)
    if isinstance(found, Rejection):
        return found
    if found.pending:
        problem = f"of {', '.join(found.pending)} nothing can be said before it is planned"
        raise InputError(field="plan", value=_named(source), problem=problem, fix="Run ullage plan on it first.")
    return looked_needs(spec, found)


def _named_so(needs: tuple[PoolNeed, ...], name: str) -> tuple[PoolNeed, ...]:
    """The same pools of a service of this name, which say whose look they share."""
    return tuple(replace(each, service=name, same_as=each.name) for each in needs)


def _named(source: PlanSource) -> str:
    return str(source) if isinstance(source, str | Path) else "plan"


def _check_names(needs: Sequence[PoolNeed], limits: PortfolioLimits) -> None:

    names = [each.name for each in needs]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise InputError(
            field="plans", value=twice, problem="is planned by two files", fix="Give each service its own name."
        )
    services = {each.service for each in needs}
    for name in limits.services:
        check_name(name, services, field="--quotas services")


def _decided(
    asked: Sequence[PoolNeed], services: Sequence[_Service], changes: Changes, run: RunContext
) -> list[PoolNeed | None]:
    """Pools by the whole plans of their services; services that are alike are planned once."""
    of = {need.service: each for each in services for need in each.needs}
    first = sorted({of[each.service].first_index for each in asked})
    if first:
        run.progress(0.85, f"planning {len(first)} services whole")
    whole = partial(_whole, changes=changes, as_of=run.as_of, seed=run.seed)
    pairs = [(services[at].source, services[at].needs) for at in first]
    plans = dict(zip(first, run.map(whole, pairs), strict=True))
    found: list[PoolNeed | None] = []
    for need in asked:
        by_pool = plans[of[need.service].first_index]
        found.append(
            None if by_pool is None else replace(by_pool[need.pool], service=need.service, same_as=need.same_as)
        )
    return found


def _whole(
    given: tuple[PlanSource, tuple[PoolNeed, ...]], *, changes: Changes, as_of: datetime.date, seed: int
) -> dict[str, PoolNeed] | None:
    """What the whole plan of a service decides of its pools; None where it refuses."""
    from ullage.load.plan import load_plan
    from ullage.planning.pipeline import plan as run_pipeline
    from ullage.planning.portfolio.needs import decided_needs

    source, needs = given
    found = run_pipeline(load_plan(source, as_of=as_of, seed=seed, changes=changes), as_of=as_of, seed=seed)
    return None if isinstance(found, Rejection) else decided_needs(found, {each.pool: each for each in needs})
