"""What a plan file says of a class's traffic beyond its rate, as the demand stage takes it."""

from __future__ import annotations

import datetime
import re

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.files.plan_file import ClassSection, EventSection
from ullage.files.sections.provenance import Provenance
from ullage.workload.demand.stated import StatedShape
from ullage.workload.synthetic.model import ClassModel

# What a trace says too, and better; of the second two only one that is long enough to be forecast from.
_OF_A_TRACE = ("prompt", "output")
_OF_A_FORECAST = ("weekly_growth", "peak_hour")


def shape_of(
    section: ClassSection,
    provenance: Provenance,
    *,
    has_lengths: bool,
    is_forecast: bool,
    model: ClassModel | None,
    model_source: Source | None,
    events: tuple[Assumption, ...],
) -> StatedShape | None:
    """The shape that was stated, or None where nothing was; beside a trace it would contradict what was measured."""
    field = f"workload.classes.{section.name}"
    told = (*(_OF_A_TRACE if has_lengths else ()), *(_OF_A_FORECAST if is_forecast else ()))
    for name in told:
        value = getattr(section, name)
        if value is not None:
            problem = "is given beside a trace, which says it too"
            raise InputError(field=f"{field}.{name}", value=value, problem=problem, fix="Leave out one of the two.")
    found = StatedShape(
        model=model,
        model_source=model_source,
        weekly_growth=provenance.may_say(f"{section.name}.weekly_growth", section.weekly_growth, "fraction"),
        peak_hour=provenance.may_say(f"{section.name}.peak_hour_ratio", section.peak_hour, "ratio"),
        prompt=_lengths(section, "prompt", provenance),
        output=_lengths(section, "output", provenance),
        events=() if is_forecast else events,
    )
    return None if found == StatedShape() else found


def _lengths(section: ClassSection, side: str, provenance: Provenance) -> dict[float, Assumption] | None:
    stated: dict[str, int] | None = getattr(section, side)
    if stated is None:
        return None
    found = {}
    for name, tokens in stated.items():
        percentile = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", name)
        if percentile is None or not 0 < float(percentile.group(1)) < 100:
            raise InputError(
                field=f"workload.classes.{section.name}.{side}",
                value=name,
                problem="is not a percentile",
                fix="Write for example {p50: 1200, p95: 6000}.",
            )
        if tokens >= section.longest_context:
            raise InputError(
                field=f"workload.classes.{section.name}.{side}.{name}",
                value=tokens,
                problem=f"leaves no room in the class's longest context of {section.longest_context} tokens",
                fix="Raise longest_context, or give shorter lengths.",
            )
        fraction = float(percentile.group(1)) / 100
        found[fraction] = provenance.says(f"{section.name}.{side}_{name}", tokens, "tokens")
    if not found:
        raise InputError(
            field=f"workload.classes.{section.name}.{side}", value="{}", problem="is empty", fix="Give at least p50."
        )
    return found


def event_inputs(
    events: tuple[EventSection, ...], provenance: Provenance, *, horizon_s: float
) -> tuple[Assumption, ...]:
    """The events that touch the horizon, each as the ratio of demand it brings."""
    start = provenance.source.date
    end = start + datetime.timedelta(seconds=horizon_s)
    for each in events:
        if each.until <= each.first:
            raise InputError(
                field=f"workload.events.{each.name}",
                value=each.until.isoformat(),
                problem="ends before it begins",
                fix="Give in `to` the day after the last.",
            )
    return tuple(
        Assumption(
            name=f"event.{each.name}.demand_ratio",
            value=each.demand,
            unit="ratio",
            evidence=Evidence.STATED,
            source=provenance.source,
        )
        for each in events
        if each.first < end and each.until > start
    )
