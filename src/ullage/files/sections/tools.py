"""`tools:` of a plan file: what tasks wait for besides the model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from ullage.errors import InputError, check_name
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import DAY_S, Count, Duration, Number, Range, RequestRate, ShareOrNone
from ullage.files.sections.section import Key, Name, Section
from ullage.units import DURATION, FRACTION
from ullage.workload.demand.tools import DROPPED, KEPT, Tool, default

_NO_LIMIT = "no limit"
_Average = Annotated[Number, Range(least=1e-6, most=1e6)]


class ToolSection(Section):
    """One tool and how classes use it."""

    name: Annotated[Name, Key(means="Its name in figures.", still="It is a label in their names.")]
    classes: Annotated[
        tuple[Name, ...],
        Key(means="Classes whose tasks call it.", default="all of them", moves="tools.*.load_tasks_per_s"),
    ] = ()
    calls_per_task: Annotated[
        _Average | None,
        Key(
            means="Calls that a task makes on average.",
            default=partial(default, "*", "calls_per_task"),
            moves="tools.*.capacity_tasks_per_s",
        ),
    ] = None
    requests_per_task: Annotated[
        _Average | None,
        Key(
            means="Requests that a task makes on average.",
            default=partial(default, "*", "requests_per_task"),
            moves="tools.*.load_tasks_per_s",
        ),
    ] = None
    latency: Annotated[
        Duration | None,
        Range(least=1e-06, most=30 * DAY_S, dimension=DURATION),
        Key(
            means="How long a call takes on average.",
            default=partial(default, "*", "latency"),
            moves="tools.*.capacity_tasks_per_s",
        ),
    ] = None
    concurrency: Annotated[
        Count | None,
        Key(means="Concurrent calls that it handles.", default=_NO_LIMIT, moves="tools.*.capacity_tasks_per_s"),
    ] = None
    rate_limit: Annotated[
        RequestRate | None,
        Key(
            means="Calls that it handles per second, as 50 req/s.",
            default=_NO_LIMIT,
            moves="tools.*.capacity_tasks_per_s",
        ),
    ] = None
    error_rate: Annotated[
        ShareOrNone | None,
        Range(least=0.0, most=0.99, dimension=FRACTION),
        Key(
            means="Share of calls that fail and are retried.",
            default=partial(default, "*", "error_rate"),
            moves="tools.*.capacity_tasks_per_s",
        ),
    ] = None
    while_waiting: Annotated[
        str | None,
        Key(
            means="Whether a sequence keeps its KV while its tool runs.",
            default=partial(default, "*", "while_waiting"),
            moves="tools.*.recomputed_tokens_per_s",
            choices=(KEPT, DROPPED),
        ),
    ] = None


def tools_of(sections: tuple[ToolSection, ...], classes: tuple[str, ...], provenance: Provenance) -> tuple[Tool, ...]:
    """Every tool, with a sourced default for what was not stated; `classes` are those of the workload."""
    names = [each.name for each in sections]
    for name in names:
        if names.count(name) > 1:
            raise InputError(field="tools", value=name, problem="appears twice", fix="Use each name once.")
    return tuple(_tool(each, classes, provenance) for each in sections)


def _tool(section: ToolSection, classes: tuple[str, ...], provenance: Provenance) -> Tool:
    for name in section.classes:
        check_name(name, classes, field=f"tools.{section.name}.classes")

    def given(what: str) -> Assumption:
        return provenance.over(default(section.name, what), getattr(section, what))

    def limit(what: str, unit: str) -> Assumption | None:
        return provenance.may_say(f"tools.{section.name}.{what}", getattr(section, what), unit)

    return Tool(
        name=section.name,
        classes=section.classes or classes,
        calls_per_task=given("calls_per_task"),
        requests_per_task=given("requests_per_task"),
        latency=given("latency"),
        error_rate=given("error_rate"),
        while_waiting=given("while_waiting"),
        concurrency=limit("concurrency", "calls"),
        rate_limit=limit("rate_limit", "calls/s"),
    )
