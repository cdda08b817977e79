"""A validation as a page: the verdict, what differs, and every statistic beside its prediction."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.tables import plain_table
from ullage.service.calibration.validation import ValidatedPoint, Validity
from ullage.service.steps.step_model import StepModel

_STYLES = {Validity.VALIDATED: "green", Validity.NOT_VALIDATED: "red", Validity.CANNOT_TELL: "yellow"}


class Validated(Protocol):
    """What the page shows of a validation."""

    @property
    def service(self) -> str: ...
    @property
    def replica(self) -> str: ...
    @property
    def step(self) -> StepModel: ...
    @property
    def cached_fraction(self) -> float: ...
    @property
    def verdict(self) -> Validity: ...
    @property
    def tested_on(self) -> datetime.date | None: ...
    @property
    def points(self) -> Sequence[ValidatedPoint]: ...
    @property
    def inside_count(self) -> int: ...
    @property
    def statistic_count(self) -> int: ...


def validation_page(found: Validated) -> list[RenderableType]:
    day = "" if found.tested_on is None else f", tested on {found.tested_on}"
    parts: list[RenderableType] = [
        Text.assemble(
            (f"The plan for {found.service} is ", "bold"),
            (str(found.verdict), f"bold {_STYLES[found.verdict]}"),
            f"{day}: {found.inside_count} of {found.statistic_count} statistics lie within their 80 % bands.",
        ),
        Text(
            f"{found.replica}, by the {found.step.kind} step model ({found.step.evidence}), "
            f"{show(found.cached_fraction, 'fraction')} of prompt tokens cached in the plan.",
            style="dim",
        ),
    ]
    for point in found.points:
        parts += ["", _point(point)]
        parts += [Text(f"  {each.sentence}") for each in point.reasons]
    return parts


def _point(point: ValidatedPoint) -> RenderableType:
    count = "" if point.requests is None else f", {point.requests:,} requests"
    title = f"{point.name}{count}: {point.verdict}"
    table = plain_table(title, "statistic", "predicted", "low", "high", "measured", "ratio", "")
    for each in point.statistics:
        where = Text("inside", style="green") if each.is_inside else Text("outside", style="red")
        if each.is_beyond:
            where = Text("beyond twice the band", style="bold red")
        shown = [
            show(value, each.unit)
            for value in (each.predicted_value, each.low_value, each.high_value, each.measured_value)
        ]
        table.add_row(each.name, *shown, f"{each.ratio:.2f}", where)
    return table
