"""What a plan does not guarantee: that prices and quotas stay as they are, and what else it cannot know."""

from __future__ import annotations

from dataclasses import dataclass

from ullage.evidence import Assumption
from ullage.planning.document import Plan

# Assumptions that others can change at any time, by the prefix of their names.
_OTHERS = {
    "price.": "that this price stays as it is",
    "quota.": "that this quota stays as it is, or that devices under it can be had",
}

_ALWAYS = (
    "that devices can be bought or rented on the day they are needed: lead times are as the vendor states them",
    "that the model answers well: task success is an input here, never a result",
    "that traffic keeps its shape beyond the horizon",
)


@dataclass(frozen=True, kw_only=True)
class NotGuaranteed:
    """One thing that is taken as true today; `rests_on` is the dated number it is about, where there is one."""

    what: str
    rests_on: Assumption | None = None


def not_guaranteed(plan: Plan) -> tuple[NotGuaranteed, ...]:
    """Every price and quota behind the plan, each with its age, and what has no figure."""
    dated = [
        NotGuaranteed(what=what, rests_on=each)
        for each in plan.assumptions
        for start, what in _OTHERS.items()
        if each.name.startswith(start) or f".{start}" in each.name
    ]
    return (*dated, *(NotGuaranteed(what=each) for each in _ALWAYS))
