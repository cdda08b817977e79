"""Load tests as a page: what was offered, what was measured, each latency by its definition, and anomalies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ullage.report.quantity import show
from ullage.service.loadtests.goodput import Goodput
from ullage.service.loadtests.loadtest import (
    Definition,
    GoodputLimits,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
)
from ullage.units import brief_number
from ullage.workload.anomalies import Severity

_STYLE = {Severity.SERIOUS: "bold red", Severity.CAUTION: "yellow", Severity.NOTE: "dim"}
_SHOWN = (0.5, 0.9, 0.95, 0.99)
UNKNOWN = "-"


def loadtests_page(found: Sequence[tuple[LoadTest, tuple[tuple[Goodput, ...], ...]]]) -> list[RenderableType]:
    """The parts of the page, file by file, point by point."""
    parts: list[RenderableType] = []
    for loadtest, goodputs in found:
        parts += [_headline(loadtest), *_anomalies(loadtest.anomalies)]
        for point, mine in zip(loadtest.points, goodputs, strict=True):
            parts += ["", *_point(point, mine)]
        parts.append("")
    return parts[:-1]


def _headline(loadtest: LoadTest) -> RenderableType:
    text = Text(loadtest.file, style="bold")
    version = f" {loadtest.tool_version}" if loadtest.tool_version else ""
    form = f", {loadtest.format_version}" if loadtest.format_version else "" if version else ", version not stated"
    count = len(loadtest.points)
    text.append(f": {loadtest.tool}{version}{form}; {count} point{'s' if count != 1 else ''}", style="not bold")
    return text


def _point(point: Point, goodputs: tuple[Goodput, ...]) -> Iterator[RenderableType]:
    yield Text.assemble((point.name, "bold"), f": {load_in_words(point.load)}")
    subject = _subject(point.subject)
    if subject:
        yield f"  {subject}"
    yield Padding(_counts(point), (0, 0, 0, 2))
    if point.latencies or point.client_delay is not None:
        yield Padding(_latencies(point), (0, 0, 0, 2))
    yield from (Padding(line, (0, 0, 0, 2)) for line in _goodput_lines(point, goodputs))
    yield from _anomalies(point.anomalies)


def load_in_words(load: OfferedLoad) -> str:
    """The load as a sentence would say it."""
    cap = load.concurrency_cap_count
    at_most = f", at most {cap} at once" if cap is not None else ""
    if load.loop is Loop.CLOSED:
        return "closed loop, " + ("clients not stated" if cap is None else f"{cap} client{'s' if cap != 1 else ''}")
    if load.loop is Loop.BURST:
        return f"all requests at once{at_most}"
    if load.loop is Loop.TRACE:
        return f"arrivals of a trace{at_most}"
    law = ", evenly spaced" if load.even else ", Poisson" if load.burstiness_ratio == 1.0 else ""
    offered = "rate not stated" if load.offered_rps is None else f"{brief_number(load.offered_rps, 4)} req/s offered"
    return f"open loop, {offered}{law}{at_most}"


def _subject(subject: LoadTestSubject) -> str:
    devices = f"{subject.devices} x {subject.hardware}" if subject.devices and subject.hardware else subject.hardware
    parallel = ", ".join(
        f"{name} {value}" for name, value in (("tp", subject.tp), ("pp", subject.pp), ("ep", subject.ep)) if value
    )
    engine = " ".join(each for each in (subject.engine, subject.engine_version) if each)
    parts = (subject.model, subject.precision, devices, parallel, engine, subject.dataset, *subject.notes)
    return "; ".join(each for each in parts if each)


def _counts(point: Point) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("requests", _requests(point))
    table.add_row("rate", _rates(point))
    table.add_row("tokens", _tokens(point))
    return table


def _requests(point: Point) -> str:
    parts = [f"{_known(point.completed_count)} ok", f"{_known(point.failed_count)} failed"]
    if point.unfinished_count:
        parts.append(f"{point.unfinished_count} unfinished")
    kept = f"; {len(point.requests):,} kept in the file" if point.requests else ""
    return f"{', '.join(parts)} in {_known(point.duration_s, 's')}{kept}"


def _rates(point: Point) -> str:
    parts = [f"{_known(point.achieved_rps, 'req/s')} achieved"]
    if point.sent_rps is not None:
        parts.append(f"{_known(point.sent_rps, 'req/s')} sent")
    if point.little_concurrency_count is not None:
        parts.append(f"{_known(point.little_concurrency_count)} in flight (rate x mean E2E)")
    return ", ".join(parts)


def _tokens(point: Point) -> str:
    tokens = point.tokens
    parts = [f"prompt {_known(point.mean_prompt_tokens)}", f"output {_known(point.mean_output_tokens)} on average"]
    if tokens.cached_prompt_tokens is not None and tokens.prompt_tokens:
        parts.append(f"{show(tokens.cached_prompt_tokens / tokens.prompt_tokens, 'fraction')} of prompts cached")
    if tokens.counted_by is not None:
        parts.append(f"counted by the {tokens.counted_by}")
    if tokens.nominal_output_tokens is not None:
        parts.append(f"nominal {_known(tokens.nominal_prompt_tokens)} / {_known(tokens.nominal_output_tokens)}")
    return ", ".join(parts)


def _latencies(point: Point) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("latency")
    for title in ("mean", *(f"p{fraction * 100:g}" for fraction in _SHOWN)):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("definition")
    for each in (*point.latencies, *((point.client_delay,) if point.client_delay is not None else ())):
        values = (_known(value, "s") for value in (each.mean_s, *(each.at(fraction) for fraction in _SHOWN)))
        table.add_row(_latency_name(each), *values, Text(each.definition.formula, style="dim"))
    return table


def _latency_name(latency: LatencySummary) -> str:
    if latency.definition is Definition.CLIENT_DELAY:
        return "client delay"
    name = "NTPOT" if latency.definition is Definition.NTPOT else str(latency.definition.metric).upper()
    return name if str(latency.seen_by) == "client" else f"{name} ({latency.seen_by})"


def _goodput_lines(point: Point, goodputs: tuple[Goodput, ...]) -> Iterator[str]:
    stated = point.stated_goodput
    if stated is not None:
        parts = [] if stated.rps is None else [f"{_known(stated.rps, 'req/s')}"]
        if stated.attained_fraction is not None:
            parts.append(f"{show(stated.attained_fraction, 'fraction')} of those {stated.denominator}")
        if stated.verdict is not None:
            parts.append(stated.verdict)
        yield (
            f"goodput as reported by the tool: {', '.join(parts)}; limits {_limits(stated.limits)}; "
            f"a one-token answer counts as {stated.single_token}"
        )
    for each in goodputs:
        rate = f", {_known(each.rps, 'req/s')}" if each.rps is not None else ", of the requests kept"
        share = UNKNOWN if each.attained_fraction is None else show(each.attained_fraction, "fraction")
        yield (
            f"goodput recounted by the rule of {each.rule.name}: {each.good_count:,} of {each.judged_count:,} "
            f"{each.rule.denominator} ({share}){rate}; limits {_limits(each.rule.limits)}"
        )


def _limits(limits: GoodputLimits | None) -> str:
    if limits is None or not limits.given:
        return "not stored in the file"
    return ", ".join(f"{name} {show(limit_s, 's')}" for name, limit_s in limits.given.items())


def _anomalies(anomalies: Sequence[PointAnomaly]) -> Iterator[RenderableType]:
    for each in anomalies:
        line = Text.assemble((f"{each.weight.value} {each.flag}: ", _STYLE[each.weight]), each.sentence)
        yield Padding(line, (0, 0, 0, 2))


def _known(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else show(value, unit)
