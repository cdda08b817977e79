"""What a plan file says of a class's traffic beyond its rate, as the demand stage takes it."""

from __future__ import annotations

import re
from dataclasses import replace

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source, number
from ullage.files.plan_file import ClassSection, EventSection
from ullage.files.sections.class_traffic import ACTIVE, CANCELLED_AFTER, DAYS, HOURS, TURNS
from ullage.files.sections.provenance import Provenance
from ullage.workload.demand.events import DatedEvent
from ullage.workload.demand.outcomes import ClassOutcomes
from ullage.workload.demand.stand_in import built_in_like
from ullage.workload.demand.stated import StatedShape, with_lengths
from ullage.workload.demand.users import StatedUsers
from ullage.workload.synthetic.model import ClassModel

# What a trace says too, and better; of the second two only one that is long enough to be forecast from.
_OF_A_TRACE = ("prompt", "output")
_OF_A_LOG = ("users", "tokens")
_OF_A_FORECAST = ("weekly_growth", "peak_hour")

# Another name of p50 where lengths are stated.
_MEDIAN = "median"


def shape_of(
    section: ClassSection,
    provenance: Provenance,
    *,
    is_traced: bool,
    has_lengths: bool,
    is_forecast: bool,
    model: ClassModel | None,
    model_source: Source | None,
    events: tuple[tuple[Assumption, tuple[float, float]], ...],
) -> StatedShape | None:
    """The shape that was stated, or None where nothing was; beside a trace it would contradict what was measured."""
    field = f"workload.classes.{section.name}"
    told = (
        *(_OF_A_LOG if is_traced else ()),
        *(_OF_A_TRACE if has_lengths else ()),
        *(_OF_A_FORECAST if is_forecast else ()),
    )
    for name in told:
        value = getattr(section, name)
        if value is not None:
            problem = "conflicts with a trace, which sets it too"
            raise InputError(field=f"{field}.{name}", value=value, problem=problem, fix="Leave out one of the two.")
    found = StatedShape(
        model=model,
        model_source=model_source,
        weekly_growth=provenance.may_say(f"{section.name}.weekly_growth", section.weekly_growth, "fraction"),
        peak_hour=provenance.may_say(f"{section.name}.peak_hour_ratio", section.peak_hour, "ratio"),
        prompt=_lengths(section, "prompt", provenance),
        output=_lengths(section, "output", provenance),
        events=() if is_forecast else tuple(event for event, _ in events),
        event_spans_s=() if is_forecast else tuple(span_s for _, span_s in events),
        cached=provenance.may_say(f"{section.name}.cached_fraction", section.cached_fraction, "fraction"),
        outcomes=outcomes_of(section, provenance),
        users=None if is_traced else users_of(section, provenance),
    )
    if found.users is not None and found.peak_hour is None:
        peak = provenance.says(f"{section.name}.peak_hour_ratio", found.users.peak_ratio, "ratio")
        found = replace(found, peak_hour=peak)
    return None if found == StatedShape() else found


def outcomes_of(section: ClassSection, provenance: Provenance) -> ClassOutcomes | None:
    """How requests end, where the file states any of it."""
    stated = section.outcomes
    if stated is None:
        return None
    name = f"{section.name}.outcomes"
    shares = {each: provenance.says(f"{name}.{each}", getattr(stated, each) or 0.0, "fraction")
              for each in ("refused", "failed", "cancelled")}  # fmt: skip
    after = provenance.over(CANCELLED_AFTER, stated.cancelled_after, name=f"{name}.cancelled_after")
    used = (after,) if number(shares["cancelled"]) > 0.0 and stated.aborts else ()
    return ClassOutcomes(
        refused_fraction=number(shares["refused"]),
        failed_fraction=number(shares["failed"]),
        cancelled_fraction=number(shares["cancelled"]),
        written_fraction=number(after) if stated.aborts else 1.0,
        inputs=(*shares.values(), *used),
    )


def users_of(section: ClassSection, provenance: Provenance) -> StatedUsers | None:
    """Users in place of a rate."""
    stated = section.users
    if stated is None:
        return None
    name = f"{section.name}.users"
    if (stated.concurrent is None) == (stated.seats is None):
        raise InputError(
            field=f"workload.classes.{section.name}.users",
            value=stated.concurrent,
            problem="needs either concurrent users or seats",
            fix="Give concurrent: 200, or seats: 2000 with active: 10%.",
        )
    working = stated.concurrent
    if working is None and stated.seats is not None:
        active = provenance.over(ACTIVE, stated.active, name=f"{name}.active")
        working = stated.seats * number(active)
    assert working is not None
    return StatedUsers(
        working=provenance.says(f"{name}.concurrent", working, "users"),
        think=provenance.says(f"{name}.think_time", stated.think_time, "s"),
        answer=provenance.says(f"{name}.answer_time", stated.answer_time or _allowed_s(section), "s"),
        turns=provenance.over(TURNS, stated.turns, name=f"{name}.turns"),
        hours_a_day=provenance.over(HOURS, stated.hours, name=f"{name}.hours"),
        days_a_week=provenance.over(DAYS, stated.days, name=f"{name}.days"),
    )


def _allowed_s(section: ClassSection) -> float:
    """What the SLOs allow for a typical answer: users wait no longer than that, so that the rate is not too low."""
    limits = {slo.partition("_")[0]: limit_s for slo, limit_s in section.slo.items()}
    if "e2e" in limits:
        return limits["e2e"]
    stated = section.output or {}
    built_in = built_in_like(section.name, section.longest_context).lengths.output_tokens[5]
    typical = stated.get("p50") or stated.get(_MEDIAN) or built_in
    return limits.get("ttft", 0.0) + float(typical) * limits.get("tpot", limits.get("itl", 0.0))


def _lengths(section: ClassSection, side: str, provenance: Provenance) -> dict[float, Assumption] | None:
    stated: dict[str, int] | None = getattr(section, side)
    if stated is None:
        return None
    found = {}
    for name, tokens in stated.items():
        percentile = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", "p50" if name == _MEDIAN else name)
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
        if fraction in found:
            raise InputError(
                field=f"workload.classes.{section.name}.{side}.{name}",
                value=tokens,
                problem="states the same percentile twice",
                fix="Keep one of them: median is p50.",
            )
        found[fraction] = provenance.says(f"{section.name}.{side}_p{percentile.group(1)}", tokens, "tokens")
    if not found:
        raise InputError(
            field=f"workload.classes.{section.name}.{side}", value="{}", problem="is empty", fix="Give at least p50."
        )
    return found


def dated_events(events: tuple[EventSection, ...], provenance: Provenance) -> tuple[DatedEvent, ...]:
    """The events by date; one that ends before it begins is an InputError."""
    for each in events:
        if each.until <= each.first:
            raise InputError(
                field=f"workload.events.{each.name}",
                value=each.until.isoformat(),
                problem="ends before it begins",
                fix="Give in `to` the day after the last.",
            )
    return tuple(
        DatedEvent(
            first=each.first,
            until=each.until,
            ratio=Assumption(
                name=f"event.{each.name}.demand_ratio",
                value=each.demand,
                unit="ratio",
                evidence=Evidence.STATED,
                source=provenance.source,
            ),
        )
        for each in events
    )


def event_inputs(
    events: tuple[EventSection, ...], provenance: Provenance, *, horizon_s: float
) -> tuple[tuple[Assumption, tuple[float, float]], ...]:
    """The events that touch the horizon, each as the ratio of demand it brings and its times after its start."""
    start, end = provenance.horizon(horizon_s)
    return tuple(
        (each.ratio, ((each.first - start).total_seconds(), (each.until - start).total_seconds()))
        for each in dated_events(events, provenance)
        if each.first < end and each.until > start
    )


def rate_of_tokens(section: ClassSection, shape: StatedShape | None) -> float:
    """Requests a second from tokens a second: over the mean tokens of a request, by its stated or assumed lengths."""
    assert section.tokens is not None
    model = built_in_like(section.name, section.longest_context)
    if shape is not None and (shape.prompt is not None or shape.output is not None):
        model = with_lengths(model, shape, longest_tokens=section.longest_context)
    prompts, outputs = model.lengths.pairs()
    return section.tokens / float(prompts.mean() + outputs.mean())
