"""`routing:` of a plan file: which models a class goes to, by shares or by escalation."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.errors import InputError
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Share
from ullage.files.sections.section import Name, Section
from ullage.workload.demand.routing import Route, RouteKind, RouteStep, Routing


class ShareSection(Section):
    """One pool of a class that is split."""

    pool: Name
    share: Annotated[Share, Field(description="Its part of the class's requests.")]
    success: Annotated[Share | None, Field(description="How often its model solves a task of the class.")] = None


class AttemptSection(Section):
    """One pool of an escalation, in order."""

    pool: Name
    goes_on: Annotated[
        Share | None, Field(description="The part of its answers after which the next pool is asked; not of the last.")
    ] = None
    success: Annotated[Share | None, Field(description="How often its model solves a task of the class.")] = None


class RouteSection(Section):
    """The route of one class: shares or an escalation."""

    request_class: Annotated[Name, Field(alias="class", description="A class of the workload.")]
    shares: Annotated[tuple[ShareSection, ...], Field(description="Pools side by side; shares add up to 100%.")] = ()
    escalation: Annotated[
        tuple[AttemptSection, ...], Field(description="Pools one after the other, the cheapest first.")
    ] = ()
    carries_answer: Annotated[
        bool | None, Field(description="Whether the next prompt of an escalation has the answer before it in it.")
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
                    part=_said(provenance, f"routing.{name}.{each.pool}.share", each.share),
                    success=_said(provenance, f"routing.{name}.{each.pool}.success", each.success),
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
                part=_said(provenance, f"routing.{name}.{each.pool}.goes_on", each.goes_on),
                success=_said(provenance, f"routing.{name}.{each.pool}.success", each.success),
            )
            for each in section.escalation
        ),
        # The next model sees what the first one saw, and not its mistakes.
        carries_answer=provenance.decides(
            f"routing.{name}.carries_answer", None if section.carries_answer is None else int(section.carries_answer),
            "", 0,
        ),
    )  # fmt: skip


def _said(provenance: Provenance, name: str, value: float | None) -> Assumption | None:
    return None if value is None else provenance.says(name, value, "fraction", 0.0)
