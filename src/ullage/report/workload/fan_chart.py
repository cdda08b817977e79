"""A fan chart in characters: what was, then the band of what may come with its middle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from ullage.units import brief_number
from ullage.workload.forecast.forecast import Forecast
from ullage.workload.forecast.point_forecasts import DAY_S

HEIGHT = 12
MOST_COLUMNS = 84
# History is shown for about as long as the forecast, so that the eye has a season to compare with.
_HISTORY_SHARE = 0.45
_HOURS = (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 24, 48, 168, 336)
_PAST, _MIDDLE, _BAND, _PLANNED = "•", "━", "░", "╌"


def fan_chart(
    forecast: Forecast, *, planning: float, percentile_fraction: float, low: float = 0.1, high: float = 0.9
) -> list[Text]:
    """The chart, one line of text a row, the axis last. A dashed line is the rate that is planned for."""
    together = _together(forecast)
    least, middle, most = (_columns(forecast.at(each), together) for each in (low, 0.5, high))
    before = _before(forecast, together, int(middle.size * _HISTORY_SHARE / (1.0 - _HISTORY_SHARE)) + 1)
    top = max(float(np.nanmax(before, initial=0.0)), float(most.max()), planning, 1e-12)
    (planned,) = _rows(np.array([planning]), top)
    past, ahead = _rows(before, top), [_rows(each, top) for each in (least, middle, most)]
    lines = []
    for row in range(HEIGHT - 1, -1, -1):
        label = brief_number(top * (row + 1) / HEIGHT) if row in (HEIGHT - 1, HEIGHT // 2 - 1) else ""
        line = Text(f"{label:>9} ┤", style="dim")
        line.append("".join(_PAST if each == row else " " for each in past), style="not dim")
        line.append("│")
        for under, at, over in zip(*ahead, strict=True):
            if at == row:
                line.append(_MIDDLE, style="bold cyan not dim")
            elif row == planned:
                line.append(_PLANNED, style="yellow not dim")
            else:
                line.append(_BAND if under <= row <= over else " ", style="cyan")
        lines.append(line)
    key = f"{' ' * 11}{_PLANNED} {brief_number(planning)}: busiest step of the horizon, at {percentile_fraction:.4g}"
    return [*lines, *_axis(forecast, before.size, middle.size, together), Text(key, style="dim")]


def _together(forecast: Forecast) -> int:
    """Steps in a column: a divisor or a multiple of a day, so that the day's wave is not cut at changing places."""
    step_h = forecast.history.step_s / 3600.0
    wanted = max(1.0, forecast.steps / (MOST_COLUMNS * (1.0 - _HISTORY_SHARE)))
    return next((round(hours / step_h) for hours in _HOURS if hours / step_h >= wanted), round(wanted))


def _before(forecast: Forecast, together: int, most_columns: int) -> NDArray[np.float64]:
    """The mean of each of the last columns of the history; NaN where nothing was observed."""
    values = forecast.history.values
    columns = min(most_columns, values.size // together)
    past = values[values.size - columns * together :].reshape(-1, together)
    seen = ~np.isnan(past)
    means: NDArray[np.float64] = np.where(seen, past, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    return np.where(seen.any(axis=1), means, np.nan)


def _rows(values: NDArray[np.float64], top: float) -> list[int]:
    return [-1 if np.isnan(each) else min(HEIGHT - 1, int(each / top * HEIGHT)) for each in values]


def _axis(forecast: Forecast, past_columns: int, columns: int, together: int) -> list[Text]:
    past_days, next_days = (count * together * forecast.history.step_s / DAY_S for count in (past_columns, columns))
    first = f"{brief_number(past_days)} d before"
    gap = " " * max(1, past_columns - len(first))
    return [
        Text(f"{'0':>9} └{'─' * past_columns}┴{'─' * columns}", style="dim"),
        Text(f"{' ' * 11}{first}{gap}now, and {brief_number(next_days)} d on", style="dim"),
    ]


def _columns(values: NDArray[np.float64], together: int) -> NDArray[np.float64]:
    return np.array([values[at : at + together].mean() for at in range(0, values.size, together)])
