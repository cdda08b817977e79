"""`buy`: a plan in; the mix of terms, hours and spot of least expected cost out, with its regret."""

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

    from ullage.evidence import Assumption
    from ullage.load.plan import PlanSource
    from ullage.planning.document import Plan
    from ullage.uncertainty.buying import Buying
    from ullage.verbs.answer import Refusal

# A plan, and the capacity surface around it.
_ROUNDS = 2.0


@dataclass(frozen=True, kw_only=True, repr=False)
class BuyAnswer(VerbAnswer):
    """A plan, and how to buy it."""

    plan: Plan
    buying: Buying

    def headlines(self) -> tuple[Headline, ...]:
        pools = self.buying.pools
        now = sum(each.nodes for one in pools for each in one.order_now)
        return (
            Headline(name="committed now", value=now, unit="nodes"),
            Headline(name="expected", value=sum(each.chosen.usd for each in pools), unit="USD"),
            Headline(name="saved", value=sum(each.saved_usd for each in pools), unit="USD"),
            Headline(name="regret at most", value=sum(each.regret_usd for each in pools), unit="USD"),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.money.buy_page import buy_page

        return buy_page(self.buying)

    def printed(self) -> object:
        return self.buying

    def dated(self) -> datetime.date:
        return self.plan.as_of

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        plan = self.plan
        behind = tuple(self.buying.figures.values())
        return document("buy", self.buying, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name, behind=behind)


def buy(
    source: PlanSource = None,
    *,
    fleet: str = "following",
    months: int | None = None,
    regret: str | float | None = None,
    set: SetValues = (),  # noqa: A002
    traffic: str | float | None = None,
    as_of: datetime.date | None = None,
    seed: int = 0,
    limit: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> BuyAnswer | Refusal:
    """Plan a service (the built-in example where it is None) and say how to buy its nodes.

    The `fleet` follows the hours of the week, or is fixed within a month. `months` are looked at (by default as many as
    the longest term has, a year at least). `regret` is how much more than the best for it any world may cost, such as
    `10%`: demand three tenths lower or higher, list prices fallen as they have. Without it the least expected cost is
    chosen.
    """
    from ullage.uncertainty.buying import BuyingChoice, buying
    from ullage.verbs.answer import refusal
    from ullage.verbs.cost import follows_of
    from ullage.verbs.plan import planned

    with running(as_of=as_of, seed=seed, limit=limit, workers=workers, progress=progress) as run:
        allowed = None if regret is None else _regret(regret, run.as_of)
        choice = BuyingChoice(follows=follows_of(fleet), months=_months(months), most_regret=allowed)
        found = planned(source, run, parse_changes(set, traffic), rounds=_ROUNDS)
        if isinstance(found, Rejection):
            return found
        run.progress(0.7, "buying")
        bought = buying(found, choice, map=run.map)
        return refusal(bought) if isinstance(bought, Rejection) else BuyAnswer(plan=found, buying=bought)


def _months(given: int | None) -> int | None:
    from ullage.uncertainty.buying import LEAST_MONTHS, MOST_MONTHS

    if given is not None and not LEAST_MONTHS <= given <= MOST_MONTHS:
        raise InputError(
            field="--months",
            value=given,
            problem=f"must be {LEAST_MONTHS} to {MOST_MONTHS} months",
            fix="Give for example 12.",
        )
    return given


def _regret(given: str | float, as_of: datetime.date) -> Assumption:
    from ullage.evidence import Assumption, Evidence, Source
    from ullage.units import FRACTION, parse

    part = parse(given, FRACTION, field="--regret") if isinstance(given, str) else float(given)
    if not 0.0 <= part <= 10.0:
        raise InputError(field="--regret", value=given, problem="must be 0 or more", fix="Give for example 10%.")
    return Assumption(
        name="buy.most_regret",
        value=part,
        unit="fraction",
        evidence=Evidence.STATED,
        source=Source(what="the command line", where="--regret", date=as_of),
        decision=True,
    )
