"""A service curve in characters: how much of its tightest limit each load uses, with its band and its landmarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from ullage.service.calibration.measured import MeasuredPoint
from ullage.service.curve.curve import ServiceCurve, StablePoint
from ullage.units import brief_number

HEIGHT = 12
COLUMNS = 84
_MIDDLE, _BAND, _TRIED, _UNSTABLE, _LIMIT, _MEASURED = "━", "░", "●", "▓", "╌", "◆"
# Beyond this multiple of a limit it no longer matters by how much it is missed.
_MOST_RATIO = 10.0


@dataclass(frozen=True, kw_only=True)
class LimitUse:
    """The share of the tightest limit that one load uses, and the ends of its interval."""

    offered_rps: float
    low_ratio: float
    ratio: float
    high_ratio: float


def uses(curve: ServiceCurve) -> tuple[LimitUse, ...]:
    """Each sustained load by the SLO that is closest to its limit, or furthest beyond it."""
    return tuple(use for each in curve.stable if (use := _use(curve, each)) is not None)


def _use(curve: ServiceCurve, point: StablePoint) -> LimitUse | None:
    found = [
        (interval.value / slo.limit_s, interval.low / slo.limit_s, interval.high / slo.limit_s)
        for each in curve.trial.classes
        for slo in each.slos
        if (interval := point.latencies[each.name].get(slo.name)) is not None
    ]
    if not found:
        return None
    ratio, low, high = max(found)
    return LimitUse(offered_rps=point.offered_rps, low_ratio=low, ratio=ratio, high_ratio=high)


def curve_chart(
    curve: ServiceCurve, marks: Mapping[str, float | None], measured: Sequence[MeasuredPoint] = ()
) -> list[Text]:
    """The chart, one text a row: the axis, then a row that points at `marks` (a letter and its load).

    Measured points lie over everything; one beyond the right end is not drawn.
    """
    drawn = uses(curve)
    right_rps = max(each.offered_rps for each in curve.points)
    if not drawn or right_rps <= 0.0:
        return []
    columns = (np.arange(COLUMNS) + 0.5) * right_rps / COLUMNS
    loads = [each.offered_rps for each in drawn]
    low, middle, high = (
        np.exp(np.interp(columns, loads, np.log([min(_MOST_RATIO, max(1e-3, one)) for one in values])))
        for values in (
            [each.low_ratio for each in drawn],
            [each.ratio for each in drawn],
            [each.high_ratio for each in drawn],
        )
    )
    bottom = min(0.1, float(low.min()))
    inside = (columns >= loads[0] * 0.999) & (columns <= loads[-1] * 1.001)
    rows = [[_row(float(value), bottom) for value in line] for line in (low, middle, high)]
    tried = {min(COLUMNS - 1, int(each.offered_rps / right_rps * COLUMNS)) for each in drawn}
    edge_rps = curve.unstable[0].offered_rps if curve.unstable else math.inf
    dots = _dots(measured, right_rps, bottom)
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        line = Text(_label(row, bottom), style="dim")
        for column in range(COLUMNS):
            if (column, row) in dots:
                line.append(_MEASURED, style="bold magenta not dim")
            elif columns[column] >= edge_rps:
                line.append(_UNSTABLE, style="red")
            elif inside[column] and rows[1][column] == row:
                line.append(_TRIED if column in tried else _MIDDLE, style="bold cyan not dim")
            elif inside[column] and rows[0][column] <= row <= rows[2][column]:
                line.append(_BAND, style="cyan")
            else:
                line.append(_LIMIT if row == _row(1.0, bottom) else " ")
        lines.append(line)
    return [*lines, *_axis(marks, right_rps)]


def _dots(measured: Sequence[MeasuredPoint], right_rps: float, bottom: float) -> set[tuple[int, int]]:
    return {
        (min(COLUMNS - 1, int(each.offered_rps / right_rps * COLUMNS)), _row(min(each.use_ratio, _MOST_RATIO), bottom))
        for each in measured
        if each.offered_rps is not None and each.use_ratio is not None and each.offered_rps <= right_rps
    }


def _row(ratio: float, bottom: float) -> int:
    share = math.log(max(ratio, bottom) / bottom) / math.log(_MOST_RATIO / bottom)
    return min(HEIGHT - 1, int(share * (HEIGHT - 1) + 0.5))


def _label(row: int, bottom: float) -> str:
    known = {_row(1.0, bottom): "limit", HEIGHT - 1: "10 x", 0: f"{bottom:.2g} x"}
    return f"{known.get(row, ''):>9} ┤"


def _axis(marks: Mapping[str, float | None], right_rps: float) -> list[Text]:
    pointers = [" "] * COLUMNS
    for letter, load_rps in marks.items():
        if load_rps is not None and load_rps <= right_rps:
            place = min(COLUMNS - 1, int(load_rps / right_rps * COLUMNS))
            # Two marks in one column stand side by side.
            pointers[place if pointers[place] == " " else min(COLUMNS - 1, place + 1)] = letter
    end = f"{brief_number(right_rps)} req/s a replica"
    return [
        Text(f"{' ' * 9} └{'─' * COLUMNS}", style="dim"),
        Text(f"{' ' * 11}{''.join(pointers)}", style="bold"),
        Text(f"{' ' * 11}0{end:>{COLUMNS - 1}}", style="dim"),
    ]


def legend(letters: Sequence[tuple[str, str]], *, has_measured: bool = False) -> Text:
    shown = [(_MEASURED, "measured"), *letters] if has_measured else letters
    text = "   ".join(f"{letter} {meaning}" for letter, meaning in shown)
    return Text(f"{_TRIED} load tried   {_BAND} 95 % interval   {_UNSTABLE} not sustained   {text}", style="dim")
