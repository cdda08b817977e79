"""`routing:` of a plan file: which models a class goes to, by shares or by escalation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.errors import InputError
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Share
from ullage.files.sections.section import Key, Name, Section, ours
from ullage.workload.demand.routing import Route, RouteKind, RouteStep, Routing

CARRIES_ANSWER = ours(
    "routing.carries_answer",
    0,
    "",
    "the next model sees the original prompt, not the first one's mistakes",
    decision=True,
)
_SUCCESS = Key(
    means="How often its model solves a task of the class.",
    default="unknown, and so is the cost of a solved task",
    moves="routing.*.success_blind_fraction",
)


class ShareSection(Section):
    """One pool of a class that is split."""

    pool: Annotated[Name, Key(means="A pool of the plan.", moves="routing.*.planning_rate")]
    share: Annotated[Share, Key(means="Its share of the class's requests.", moves="routing.*.planning_rate")]
    success: Annotated[Share | None, _SUCCESS] = None


class AttemptSection(Section):
    """One pool of an escalation, in order."""

    pool: Annotated[Name, Key(means="A pool of the plan.", moves="routing.*.planning_rate")]
    goes_on: Annotated[
        Share | None,
        Key(
            means="The share of its answers after which the next pool is tried; not for the last.",
            default="none, of the last",
            moves="routing.*.attempts_per_task",
        ),
    ] = None
    success: Annotated[Share | None, _SUCCESS] = None


class RouteSection(Section):
    """The route of one class: shares or an escalation."""

    request_class: Annotated[
        Name, Field(alias="class"), Key(means="A class of the workload.", moves="routing.*.planning_rate")
    ]
    shares: Annotated[tuple[ShareSection, ...], Key(means="Pools side by side; shares add up to 100%.")] = ()
    escalation: Annotated[tuple[AttemptSection, ...], Key(means="Pools one after the other, the cheapest first.")] = ()
    carries_answer: Annotated[
        bool | None,
        Key(
            means="Whether the next prompt of an escalation includes the previous answer.",
            default=CARRIES_ANSWER,
            moves="bill.per_million_input_tokens_usd",
        ),
    ] = None


def routing_of(sections: tuple[RouteSection, ...], provenance: Provenance) -> Routing:
    """All routes, every part an assumption by the name of its class and pool."""
    return Routing(routes=tuple(_route(each, provenance) for each in sections))


def _route(section: RouteSection, provenance: Provenance) -> Route:
    name = section.request_class
    if bool(section.shares) == bool(section.escalation):
        raise InputError(
            field=f"routing.{name}",
            value=None if not section.shares else [each.pool for each in section.shares],
            problem="needs either shares or an escalation",
            fix="Give shares: [{pool: a, share: 70%}, ...] or escalation: [{pool: a, goes_on: 20%}, {pool: b}].",
        )
    if section.shares:
        return Route(
            request_class=name,
            kind=RouteKind.SHARES,
            steps=tuple(
                RouteStep(
                    pool=each.pool,
                    part=provenance.may_say(f"routing.{name}.{each.pool}.share", each.share, "fraction"),
                    success=provenance.may_say(f"routing.{name}.{each.pool}.success", each.success, "fraction"),
                )
                for each in section.shares
            ),
        )
    return Route(
        request_class=name,
        kind=RouteKind.ESCALATION,
        steps=tuple(
            RouteStep(
                pool=each.pool,
                part=provenance.may_say(f"routing.{name}.{each.pool}.goes_on", each.goes_on, "fraction"),
                success=provenance.may_say(f"routing.{name}.{each.pool}.success", each.success, "fraction"),
            )
            for each in section.escalation
        ),
        carries_answer=provenance.over(
            CARRIES_ANSWER,
            None if section.carries_answer is None else int(section.carries_answer),
            name=f"routing.{name}.carries_answer",
        ),
    )
