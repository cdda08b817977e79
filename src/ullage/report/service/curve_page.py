"""A service curve with its operating point, and a pool's size: as a page in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.errors import Rejection
from ullage.report.quantity import counted, show
from ullage.report.refusal import refusal_page
from ullage.report.service.curve_chart import curve_chart, legend, uses
from ullage.report.service.curve_measured import measured_parts
from ullage.service.calibration.agreement import Agreement
from ullage.service.calibration.measured import MeasuredPoint
from ullage.service.curve.curve import ServiceCurve, StablePoint
from ullage.service.curve.point import OperatingPoint
from ullage.service.curve.sensitivity import Tried
from ullage.service.curve.sizing import PoolSize
from ullage.simulate.statistics import Interval
from ullage.units import brief_number


def curve_page(
    curve: ServiceCurve,
    point: OperatingPoint | Rejection,
    tried: Sequence[Tried] = (),
    *,
    title: str,
    measured: Sequence[MeasuredPoint] = (),
    agreement: Agreement | None = None,
) -> list[RenderableType]:
    """The chart, the loads, the point and its margins; measured points where there are some."""
    marks: dict[str, float | None] = {"K": curve.knee_rps}
    if isinstance(point, OperatingPoint):
        marks = {"P": point.operating_rps, "H": point.highest.rps, **marks}
    letters = [("P", "operating point"), ("H", "highest that passes"), ("K", "knee")]
    return [
        Text.assemble((title, "bold"), ": how much of its tightest limit each load uses"),
        "",
        *curve_chart(curve, marks, measured),
        legend([each for each in letters if marks.get(each[0]) is not None], has_measured=bool(measured)),
        "",
        _loads(curve),
        "",
        *(refusal_page(point) if isinstance(point, Rejection) else _point(point)),
        *(["", _tried(tried)] if tried else []),
        *measured_parts(measured, agreement, right_rps=max(each.offered_rps for each in curve.points)),
    ]


def size_page(size: PoolSize, *, title: str, rate_from: str) -> list[RenderableType]:
    """The number first, then what it rests on."""
    decided = "decided" if size.low_replicas == size.high_replicas else f"undecided from {size.low_replicas} on"
    headline = Text(counted(size.conservative_replicas, "replica"), style="bold")
    headline.append(f" of {title} for {show(size.rate_rps, 'req/s')} ({rate_from}); {decided}.", style="not bold")
    devices = size.conservative_replicas * size.devices
    at = size.at_size
    table = _table("", "", "value")
    for name, value in (
        ("devices", f"{devices}"),
        ("violated with one fewer", size.binding),
        ("load per replica", show(at.offered_rps, "req/s")),
        ("goodput per device", show(at.goodput.value / size.devices, "req/s")),
        ("KV in use", show(at.kv_use.value, "fraction")),
        ("p95 time before admission", show(at.queue_age.value, "s")),
    ):
        table.add_row(name, value)
    return [
        headline,
        Text(
            f"At conservative step times, {size.band.slow_ratio:.3g} x nominal: the factor at the chosen risk for "
            "evidence "
            f"that is {size.band.evidence}. At nominal step times {counted(size.replicas, 'replica')} would do."
        ),
        *(Text(f"Note: {note}") for note in size.notes),
        "",
        table,
        "",
        _latencies(at),
    ]


def _loads(curve: ServiceCurve) -> RenderableType:
    table = _table("Loads on one replica", "offered", "goodput", "of limit", "running", "KV", "preempted", "verdict")
    share = {each.offered_rps: each for each in uses(curve)}
    for each in curve.points:
        offered = show(each.offered_rps, "req/s")
        if isinstance(each, StablePoint):
            used = share.get(each.offered_rps)
            table.add_row(
                offered,
                _spread(each.goodput, "req/s"),
                "" if used is None else f"{brief_number(used.ratio, 2)} x",
                brief_number(each.running.value),
                show(each.kv_use.value, "fraction"),
                show(each.preemptions.value, "fraction"),
                _verdict(each),
            )
        else:
            table.add_row(offered, "", "", "", "", "", Text(f"not sustained: {each.instability.reason}", style="red"))
    return table


def _verdict(point: StablePoint) -> Text:
    wide = "" if point.is_decided else f" (intervals still wide after {point.windows} runs)"
    if point.passes:
        return Text(f"passes{wide}", style="green")
    return Text(f"violates {', '.join(point.violated)}{wide}", style="yellow")


def _point(point: OperatingPoint) -> list[RenderableType]:
    headline = Text("Operating point: ", style="bold")
    headline.append(f"{show(point.operating_rps, 'req/s')} a replica", style="bold")
    headline.append(
        f", goodput {show(point.goodput_per_device_rps, 'req/s')} a device; "
        f"above {show(point.highest.rps, 'req/s')} it violates {point.highest.binding}.",
        style="not bold",
    )
    parts: list[RenderableType] = [headline, "", _margins(point), "", _latencies(point.at_point)]
    notes = [*point.anomalies, *([point.next_test] if point.next_test else [])]
    return [*parts, *([""] if notes else []), *(Text(f"- {each}") for each in notes)]


def _margins(point: OperatingPoint) -> RenderableType:
    table = _table("From the highest load to the operating point", "", "share", "leaves", "why")
    interval = point.highest.interval
    found = f"another seed would find {show(interval.low, 'req/s')} to {show(interval.high, 'req/s')} (95 %)"
    table.add_row("highest that passes", "", show(point.highest.rps, "req/s"), found)
    left = point.highest.rps
    for each in point.margins:
        left *= 1.0 if each.is_inside else 1.0 - each.share_fraction
        inside = "inside" if each.is_inside else show(left, "req/s")
        table.add_row(each.name, show(each.share_fraction, "fraction"), inside, each.reason)
    return table


def _tried(tried: Sequence[Tried]) -> RenderableType:
    title = f"What-ifs, one at a time; the highest load that passes is {show(tried[0].base_rps, 'req/s')}"
    table = _table(title, "", "change", "highest", "", "violated next")
    for each in tried:
        moved = f"{each.change_fraction:+.0%}" if each.is_difference else "no change"
        table.add_row(each.kind, each.change, show(each.highest_rps, "req/s"), moved, each.binding)
    return table


def _latencies(point: StablePoint) -> RenderableType:
    table = _table(f"At {show(point.offered_rps, 'req/s')} a replica", "class", "latency", "p50", "p95", "p99")
    for name, found in point.latencies.items():
        for metric in ("ttft", "tpot", "itl", "e2e"):
            shown = [found.get(f"{metric}_p{each}") for each in (50, 95, 99)]
            table.add_row(name, metric, *("" if each is None else _spread(each, "s") for each in shown))
    return table


def _spread(interval: Interval, unit: str) -> str:
    half = (interval.high - interval.low) / 2
    return f"{show(interval.value, unit)} ± {show(half, unit)}" if half > 0 else show(interval.value, unit)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, style=None, header_style="dim")
    return table


# ---- JSON ----------------------------------------------------------------------------------------------
