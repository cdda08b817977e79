"""Dates of a plan file beside the day of planning: none lies in the future, an event outside the horizon is named."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ullage.errors import InputError
from ullage.evidence import Assumption, Source

if TYPE_CHECKING:
    from ullage.files.plan_file import PlanFile
    from ullage.files.sections.provenance import Provenance
    from ullage.files.sections.section import Section
    from ullage.workload.demand.traffic import Traffic

_DATED = "dated"


def check_dates(read: PlanFile, as_of: datetime.date) -> None:
    """What is dated after the day of planning has no age: its date is a slip, or the day is."""
    for path, day in _dates(read):
        if day > as_of:
            raise InputError(
                field=path,
                value=day.isoformat(),
                problem=f"is after the day of planning, {as_of.isoformat()}",
                fix="Correct the date, or give the day of planning by --as-of.",
            )


def left_out_events(read: PlanFile, provenance: Provenance, traffic: Traffic | None) -> tuple[Assumption, ...]:
    """The events that do not touch the horizon and so move nothing, each with the reason."""
    horizon_s = read.policy.value("horizon")
    start, end = provenance.horizon(horizon_s)
    if traffic is not None and any(each.forecast is not None for each in traffic.classes.values()):
        # A forecast goes on from the end of its log.
        last = traffic.profile.coverage.last_time
        start = start if last is None else datetime.datetime.fromisoformat(last).date()
        end = start + datetime.timedelta(seconds=horizon_s)
    said = []
    for each in read.workload.events:
        if each.first < end and each.until > start:
            continue
        side = "before" if each.until <= start else "after"
        moved = "nothing" if side == "before" else "nothing but its month in a budget"
        what = f"lies {side} the horizon, {start.isoformat()} to {end.isoformat()}, and moves {moved}"
        said.append(
            Assumption(
                name=f"event.{each.name}.left_out",
                value=f"{each.first.isoformat()} to {each.until.isoformat()}",
                unit="",
                evidence=provenance.evidence,
                source=_because(provenance, what),
            )
        )
    return tuple(said)


def _because(provenance: Provenance, what: str) -> Source:
    return replace(provenance.source, what=what)


def _dates(section: Section, prefix: str = "") -> Iterator[tuple[str, datetime.date]]:
    """Every `dated` of a section and of those in it, by its dotted key."""
    from ullage.files.sections.section import Section

    for name, field in type(section).model_fields.items():
        value, key = getattr(section, name), f"{prefix}{field.alias or name}"
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else ()
        if name == _DATED and isinstance(value, datetime.date):
            yield key, value
        elif isinstance(value, Section):
            yield from _dates(value, f"{key}.")
        for place, each in entries:
            if isinstance(each, Section):
                yield from _dates(each, f"{key}.{place}.")
