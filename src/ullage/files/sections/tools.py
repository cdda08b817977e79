"""`tools:` of a plan file: what tasks wait for besides the model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, RequestRate, Share
from ullage.files.sections.section import Count, Name, Section
from ullage.workload.demand.tools import DROPPED, KEPT, Tool, default

_Number = Annotated[float, Field(gt=0)]


class ToolSection(Section):
    """One tool and how classes use it."""

    name: Name
    classes: Annotated[
        tuple[Name, ...], Field(description="Classes whose tasks call it; all where none is named.")
    ] = ()
    calls_per_task: Annotated[_Number | None, Field(description="Calls that a task makes on average.")] = None
    requests_per_task: Annotated[_Number | None, Field(description="Requests that a task makes on average.")] = None
    latency: Annotated[Duration | None, Field(description="How long a call takes on average.")] = None
    concurrency: Annotated[Count | None, Field(description="Calls that it takes at once.")] = None
    rate_limit: Annotated[RequestRate | None, Field(description="Calls that it takes a second, as 50 req/s.")] = None
    error_rate: Annotated[Share | None, Field(description="Share of calls that fail and are made again.")] = None
    while_waiting: Annotated[
        str | None,
        Field(
            description="Whether a sequence keeps its KV while its tool runs.",
            json_schema_extra={"enum": [KEPT, DROPPED, None]},
        ),
    ] = None


def tools_of(sections: tuple[ToolSection, ...], classes: tuple[str, ...], provenance: Provenance) -> tuple[Tool, ...]:
    """Every tool, with a sourced default for what was not stated; `classes` are those of the workload."""
    names = [each.name for each in sections]
    for name in names:
        if names.count(name) > 1:
            raise InputError(field="tools", value=name, problem="is named twice", fix="Give each tool its own name.")
    return tuple(_tool(each, classes, provenance) for each in sections)


def _tool(section: ToolSection, classes: tuple[str, ...], provenance: Provenance) -> Tool:
    for name in section.classes:
        if name not in classes:
            raise unknown_name(field=f"tools.{section.name}.classes", name=name, known=classes)

    def given(what: str) -> Assumption:
        return provenance.over(default(section.name, what), getattr(section, what))

    def limit(what: str, unit: str) -> Assumption | None:
        value = getattr(section, what)
        return None if value is None else provenance.says(f"tools.{section.name}.{what}", value, unit, 0)

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
