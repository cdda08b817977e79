"""Measured points beside a service curve, and what each load test says: as tables in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.quantity import show
from ullage.service.calibration.agreement import Agreement
from ullage.service.calibration.measured import MeasuredPoint


def measured_parts(
    measured: Sequence[MeasuredPoint], agreement: Agreement | None, *, right_rps: float
) -> list[RenderableType]:
    """The tables that go below the operating point, and a sentence for everything that disagrees.

    `right_rps` is the right end of the chart.
    """
    if not measured:
        return []
    parts: list[RenderableType] = ["", _points(measured)]
    anomalies = [sentence for each in measured for sentence in each.anomalies]
    other = [each.name for each in measured if not each.is_like_mix]
    if other:
        anomalies.append(
            "Measured with lengths other than the mix, so a distance from the curve is not an error: "
            f"{', '.join(other)}."
        )
    hidden = [each.name for each in measured if not _is_drawn(each, right_rps)]
    if hidden:
        anomalies.append(f"Not drawn (outside the chart, or no percentile of an SLO): {', '.join(hidden)}.")
    if agreement is not None and len(agreement.results) > 1:
        parts += ["", tests_table(agreement)]
        anomalies += agreement.disagreements
    return [*parts, *([""] if anomalies else []), *(Text(f"- {each}") for each in anomalies)]


def _is_drawn(point: MeasuredPoint, right_rps: float) -> bool:
    return point.use_ratio is not None and point.offered_rps is not None and point.offered_rps <= right_rps


def _points(measured: Sequence[MeasuredPoint]) -> Table:
    table = _table("Measured and simulated, the same tests", "test", "load", "latency", "measured", "simulated")
    for column in ("measured / simulated", "band", "verdict"):
        table.add_column(column, header_style="dim")
    for each in measured:
        load = "" if each.offered_rps is None else show(each.offered_rps, "req/s")
        if each.reason is not None:
            table.add_row(each.name, load, "", "", "", "", "", f"not simulated: it {each.reason}")
        for residual in each.residuals:
            table.add_row(
                each.name,
                load,
                f"{residual.latency} {residual.statistic}",
                show(residual.measured_s, "s"),
                show(residual.simulated_s, "s"),
                f"{residual.ratio:.2f}",
                f"{show(residual.low_s, 's')} to {show(residual.high_s, 's')}",
                Text("outside", style="yellow") if residual.is_outside else Text("inside", style="green"),
            )
    return table


def tests_table(agreement: Agreement) -> Table:
    """One line a test: its day, its kind, what it says, what it counts."""
    table = _table("Load tests, each fitted alone", "test", "day", "kind", "points", "decode steps", "prompts")
    for column in ("weight", "why"):
        table.add_column(column, header_style="dim")
    table.columns[0].overflow = "fold"
    # A column is too narrow for paths, which differ at their ends.
    names = [each.file.rpartition("/")[2] for each in agreement.results]
    for name, each in zip(names, agreement.results, strict=True):
        weighing = each.weighing
        table.add_row(
            name if names.count(name) == 1 else each.file,
            "" if weighing.day is None else weighing.day.isoformat(),
            f"{each.tool}, {weighing.kind}",
            str(each.points),
            f"{each.decode_ratio:.2f} x estimate",
            f"{each.prefill_ratio:.2f} x estimate",
            show(weighing.weight_fraction, "fraction"),
            weighing.reason,
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, header_style="dim")
    return table
