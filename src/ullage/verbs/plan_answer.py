"""What the planning verbs hand back: a plan, the options for its pools, the difference of two plans."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.cost.bill import Bill
from ullage.evidence import number
from ullage.planning.differences.difference import Difference
from ullage.planning.document import Plan
from ullage.planning.options.options import Options
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.evidence import Assumption, Figure

# What a plan is known by: figure and what it is called in one line.
_HEADLINES = {
    "demand.planning_rate": "busiest hour, {percentile}",
    "fleet.total_replicas": "replicas",
    "packing.nodes": "machines",
    "packing.devices": "devices",
}


def bill_headlines(bill: Bill | None) -> list[Headline]:
    """What a bill is known by. Without a price for devices its sum is another quantity, under another name, that
    nobody compares with a whole bill; and there is no cost of a success."""
    if bill is None:
        return []
    whole = {"bill.total_usd": "a month", "bill.per_success_usd": "per success"}
    known = whole if bill.is_of_devices else {"bill.total_usd": "a month, devices not priced"}
    return [
        Headline(name=said, value=figure.value, unit=figure.unit)
        for name, said in known.items()
        if (figure := bill.figures.get(name)) is not None
    ]


def plan_headlines(plan: Plan) -> tuple[Headline, ...]:
    """The few figures by which a plan is known."""
    several, percentile = len(plan.pools) > 1, f"p{100 * number(plan.point.percentile):g}"
    figures = {figure.name: figure for figure in plan.figures}
    found = [Headline(name="verdict", value=plan.verdict.value)]
    for pool in ("", *(f"{each.spec.name}." for each in plan.pools if several)):
        found += [
            Headline(name=f"{pool}{said.format(percentile=percentile)}", value=figure.value, unit=figure.unit)
            for name, said in _HEADLINES.items()
            if (figure := figures.get(f"{pool}{name}")) is not None
        ]
    bill = next((each.answer for each in plan.stages if isinstance(each.answer, Bill)), None)
    return (*found, *bill_headlines(bill))


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanAnswer(VerbAnswer, Plan):
    """A finished plan."""

    def dated(self) -> datetime.date:
        return self.as_of

    def explained(self, name: str) -> Figure | Assumption:
        return self.find(name)

    def headlines(self) -> tuple[Headline, ...]:
        return plan_headlines(self)

    def page(self) -> list[RenderableType]:
        from ullage.report.plan.page import plan_page

        return plan_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.plan.json_document import plan_json

        return plan_json(self)


@dataclass(frozen=True, kw_only=True, repr=False)
class OptionsAnswer(VerbAnswer, Options):
    """Candidates ranked and refused, a mix of devices, and order-by dates."""

    def dated(self) -> datetime.date:
        return self.as_of

    def headlines(self) -> tuple[Headline, ...]:
        several = len(self.pools) > 1
        found = []
        for each in self.pools:
            who = f"{each.pool}." if several else ""
            found.append(Headline(name=f"{who}best", value="none" if each.best is None else each.best.name))
            found += [
                Headline(name=f"{who}{name.removeprefix('option.')}", value=figure.value, unit=figure.unit)
                for name, figure in each.figures.items()
            ]
        return tuple(found)

    def page(self) -> list[RenderableType]:
        from ullage.report.decisions.options_page import options_page

        return options_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("options", self, as_of=self.as_of, seed=self.seed)


@dataclass(frozen=True, kw_only=True, repr=False)
class DifferenceAnswer(VerbAnswer, Difference):
    """What changed between two plans, and why."""

    def headlines(self) -> tuple[Headline, ...]:
        return (
            Headline(name="changed inputs", value=len(self.inputs)),
            Headline(name="changed figures", value=len(self.figures)),
        )

    def page(self) -> list[RenderableType]:
        from ullage.report.plan.difference import difference_page

        return difference_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("compare", self)
