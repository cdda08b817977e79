"""The admission limits as they are printed: limits, rates, what is shed first, retries, and bursts as bars."""

from __future__ import annotations

import math
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from ullage.admission.bursts import HEIGHTS, LENGTHS_S
from ullage.admission.limits import AdmissionLimits
from ullage.admission.retries import BUDGET, LIMITS, LIMITS_AND_BUDGET, NO_LIMITS
from ullage.report.quantity import show
from ullage.report.tables import plain_table

_BAR = 32
_RECOVERS = "Recovers: after a burst of twice the capacity, longer than clients wait, SLOs are met again in time."
_WAYS = {"queue": "█", "hot": "▓", "warm": "▒", "scale-up": "░"}


def admission_parts(answer: AdmissionLimits) -> list[RenderableType]:
    """Everything a gateway needs to be told, and why."""
    parts: list[RenderableType] = [_limits(answer), "", _rates(answer)]
    if answer.tenants:
        parts += ["", _tenants(answer)]
    parts += ["", _shed(answer), _backpressure(answer), "", _hops(answer), "", _proofs(answer)]
    parts += ["", _overload(answer), "", _retries(answer)]
    parts += [Text(_RECOVERS, style="dim"), "", *_bursts(answer)]
    return [*parts, *(Text(f"Note: {note}") for note in answer.notes)]


def _limits(answer: AdmissionLimits) -> RenderableType:
    table = plain_table("Admission limits", "limit", "a replica", "the pool", "why")
    for line in answer.lines:
        pool = "" if line.pool_value is None else show(line.pool_value, line.unit)
        alone = "" if line.replica_value is None else show(line.replica_value, line.unit)
        table.add_row(line.name, alone, pool, line.why)
    return table


def _rates(answer: AdmissionLimits) -> RenderableType:
    table = plain_table("Rates by class, of the pool", "class", "planned", "admitted up to", "tokens", "if alone")
    for each in answer.rates:
        table.add_row(
            each.class_name,
            show(each.planning_rps, "req/s"),
            show(each.rate_rps, "req/s"),
            show(each.tokens_per_s, "tokens/s"),
            show(each.alone_rps, "req/s"),
        )
    return table


def _tenants(answer: AdmissionLimits) -> RenderableType:
    table = plain_table("Rates by tenant, of the pool", "tenant", "sends", "gets", "fair share", "tokens")
    for each in answer.tenants:
        table.add_row(
            each.tenant,
            show(each.wanted_rps, "req/s"),
            show(each.granted_rps, "req/s"),
            show(each.rate_rps, "req/s"),
            show(each.tokens_per_s, "tokens/s"),
        )
    return table


def _shed(answer: AdmissionLimits) -> RenderableType:
    table = plain_table("Shed in this order", "", "what", "when", "status")
    for step in answer.shed:
        table.add_row(str(step.rank), step.what, step.when, step.answer)
    return table


def _backpressure(answer: AdmissionLimits) -> Text:
    signal = answer.backpressure
    return Text(
        f"Backpressure: slow senders down while {signal.metric} of a replica is at {signal.warn_requests} or above, "
        f"reject at {signal.refuse_requests} ({signal.status}), Retry-After {signal.retry_after_s} s."
    )


def _hops(answer: AdmissionLimits) -> RenderableType:
    names = list(answer.deadlines)
    table = plain_table("Reject a request when its remaining time is less than", "hop", *names, "covers")
    for hop in dict.fromkeys(each.hop for each in answer.hops):
        found = {each.class_name: each for each in answer.hops if each.hop == hop}
        table.add_row(hop, *(show(found[name].least_remaining_s, "s") for name in names), found[names[0]].holds)
    table.add_row("deadline", *(show(answer.deadlines[name].deadline_s, "s") for name in names), "its whole deadline")
    return table


def _overload(answer: AdmissionLimits) -> RenderableType:
    ratio = answer.checks[0].offered_ratio if answer.checks else 0.0
    title = f"At {ratio:.3g} times capacity, simulated"
    table = plain_table(title, "SLO", "limit", "with limits", "without", "successes with", "without")
    limited = [each for each in answer.checks if each.protection == LIMITS]
    bare = {(each.class_name, each.slo_name): each for each in answer.checks if each.protection == NO_LIMITS}
    for each in limited:
        other = bare[each.class_name, each.slo_name]
        table.add_row(
            f"{each.class_name} {each.slo_name}",
            show(each.limit_s, "s"),
            Text(_latency(each.found_s), style="green" if each.is_kept else "red"),
            Text(_latency(other.found_s), style="green" if other.is_kept else "red"),
            _share(each.success_fraction),
            _share(other.success_fraction),
        )
    return table


def _proofs(answer: AdmissionLimits) -> RenderableType:
    table = plain_table(
        "Verified by simulation, at multiples of the planned load",
        "enforced by",
        "load",
        "succeed",
        "refused",
        "SLOs violated",
    )
    for each in answer.proofs:
        missed = ", ".join(each.missed) or "none"
        table.add_row(
            each.enforced_by,
            f"{each.load_ratio:g}",
            _share(each.success_fraction),
            _share(each.refused_fraction),
            Text(missed, style="red" if each.missed else "green"),
        )
    return table


def _latency(found_s: float) -> str:
    """
    >>> _latency(0.25), _latency(float("nan"))
    ('250 ms', '-')
    """
    return show(found_s, "s") if math.isfinite(found_s) else "-"


def _retries(answer: AdmissionLimits) -> RenderableType:
    ways = (NO_LIMITS, BUDGET, LIMITS, LIMITS_AND_BUDGET)
    table = plain_table("Attempts per request, and share of requests that succeed", "load", *ways[:-1], "both")
    for load, found in groupby(answer.retries, key=lambda each: each.load):
        cells = {each.protection: f"{each.amplification_ratio:.2f}, {_share(each.success_fraction)}" for each in found}
        table.add_row(load, *(cells[way] for way in ways))
    recovers = {each.protection: each for each in answer.recoveries}
    table.add_row(
        "recovers up to",
        *(show(recovers[way].recovers_rps * answer.replicas, "req/s") for way in ways),
    )
    return table


def _bursts(answer: AdmissionLimits) -> list[RenderableType]:
    """A row for each length: the bar is what the queue absorbs, its tail what each way adds to that."""
    table = plain_table("Burst budget: the highest burst absorbed, in planning rates", "length", "", *_WAYS)
    for length_s in LENGTHS_S:
        heights = {way: answer.burst_ratio(way, length_s) for way in _WAYS}
        cells = (f"{height:.2f}" if height else "none" for height in heights.values())
        table.add_row(show(length_s, "s"), _bar(heights), *cells)
    legend = ", ".join(f"{mark} {way}" for way, mark in _WAYS.items())
    more = f"Bars run from the planning rate to {HEIGHTS[-1]:.3g} times it, the highest tried: {legend}."
    return [table, Text(more, style="dim")]


def _share(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _bar(heights: dict[str, float]) -> str:
    drawn = ""
    for way, height in sorted(heights.items(), key=lambda each: each[1]):
        cells = round(_BAR * max(0.0, height - 1.0) / (HEIGHTS[-1] - 1.0))
        drawn += _WAYS[way] * (cells - len(drawn))
    return drawn
