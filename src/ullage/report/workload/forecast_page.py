"""A forecast as a page in the terminal, and as JSON."""

from __future__ import annotations

import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.workload.fan_chart import fan_chart
from ullage.workload.anomalies import Severity
from ullage.workload.forecast.part_forecast import PartForecast, ServiceForecast
from ullage.workload.forecast.point_forecasts import DAY_S
from ullage.workload.forecast.scores import Scores

# Rows of the table of days; longer horizons are told by weeks.
_MOST_DAYS = 14
_MARK = {Severity.SERIOUS: ("!", "bold red"), Severity.CAUTION: ("*", "yellow"), Severity.NOTE: ("-", "dim")}


def forecast_page(found: ServiceForecast) -> list[RenderableType]:
    """The parts of the page, top to bottom."""
    page: list[RenderableType] = [_headline(found)]
    for part in found.parts:
        page += [
            "",
            Text(f"{part.history.name}, {part.history.series.unit}", style="bold"),
            *fan_chart(part.forecast, planning=part.planning_rps, percentile_fraction=found.percentile_fraction),
        ]
        page += ["", _ahead(part, found)]
    return [
        *page,
        "",
        _planning(found),
        "",
        _contest(found),
        "",
        _past(found),
        "",
        *_anomalies(found),
        *_closing(found),
    ]


def _headline(found: ServiceForecast) -> RenderableType:
    text = Text(f"Forecast of {found.source}", style="bold")
    first = found.parts[0].forecast
    days = first.history.values.size * first.history.step_s / DAY_S
    steps = f"{show(found.horizon_s, 's')} ahead in steps of {show(first.history.step_s, 's')}"
    text.append(f": {steps}, from {days:.3g} days of history", style="not bold")
    for anomaly in found.anomalies:
        # What may mislead a plan stands where a reader of two lines sees it.
        if anomaly.weight is Severity.SERIOUS:
            mark, style = _MARK[anomaly.weight]
            text.append(f"\n{mark} {anomaly.sentence}", style=style)
    return text


def _ahead(part: PartForecast, found: ServiceForecast) -> RenderableType:
    forecast = part.forecast
    by_week = forecast.horizon_s > _MOST_DAYS * DAY_S
    together = max(1, round((7 if by_week else 1) * DAY_S / forecast.history.step_s))
    low, middle, high = (forecast.at(fraction) for fraction in (0.1, 0.5, 0.9))
    fraction = found.percentile_fraction
    table = _table(
        "", "week of" if by_week else "day", "mean, 10 %", "50 %", "90 %", "busiest step, 50 %", f"{fraction:.4g}"
    )
    for at in range(0, forecast.steps, together):
        rows = slice(at, at + together)
        busiest = (forecast.busiest_between(at, min(at + together, forecast.steps), each) for each in (0.5, fraction))
        values = (low[rows].mean(), middle[rows].mean(), high[rows].mean(), *busiest)
        when = _when(forecast.start_s + at * forecast.history.step_s, forecast.start_s, found.calendar)
        table.add_row(when, *(show(float(value), "req/s") for value in values))
    return table


def _when(at_s: float, start_s: float, calendar: bool) -> str:
    if calendar:
        return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M")
    return f"day {(at_s - start_s) / DAY_S + 1:.3g}"


def _planning(found: ServiceForecast) -> RenderableType:
    title = (
        f"To plan for: the busiest step of the horizon, not exceeded with {found.percentile_fraction:.4g} probability"
    )
    table = _table(
        title, "class", "mean", "busiest observed", "busiest step", "peak minute", "tokens", "active tokens", "evidence"
    )
    for part in found.parts:
        table.add_row(
            part.history.name,
            show(part.forecast.mean, "req/s"),
            show(part.forecast.busiest_seen, "req/s"),
            show(part.planning_rps, "req/s"),
            _known(part.peak_minute_rps, "req/s"),
            _known(part.planning_tokens_per_s, "tokens/s"),
            _known(part.planning_active_tokens, "tokens", "needs durations"),
            "measured" if part.forecast.defensible(found.percentile_fraction) else "assumed",
        )
    return table


def _contest(found: ServiceForecast) -> RenderableType:
    table = _table(
        "Forecasters compared on the same past origins; the lowest pinball loss is used",
        "class",
        "forecaster",
        "pinball",
        "error",
        "in 80 % band",
        "",
    )
    for part in found.parts:
        for each in part.forecast.contest:
            table.add_row(
                part.history.name,
                each.name,
                f"{each.pinball_ratio:.4f}",
                f"{each.wape_fraction:.1%}",
                f"{each.held_fraction:.0%}",
                Text("used", style="bold") if each.name == part.forecast.model else "",
            )
    return table


def _past(found: ServiceForecast) -> RenderableType:
    title = "Backtest on held-out origins"
    table = _table(
        title, "class", "forecaster", "error", "bias", "pinball", "CRPS", "in 80 % band", "of", "95 % interval"
    )
    for part in found.parts:
        forecast = part.forecast
        for name, scores in ((forecast.model, forecast.scores), ("seasonal naive", forecast.naive_scores)):
            table.add_row(part.history.name, name, *_scores(scores))
    return table


def _scores(scores: Scores | None) -> tuple[str, ...]:
    if scores is None:
        return ("too few origins",)
    return (
        f"{scores.wape_fraction:.1%}",
        f"{scores.bias_fraction:+.1%}",
        f"{scores.pinball_ratio:.4f}",
        f"{scores.crps_ratio:.4f}",
        f"{scores.coverage_fraction:.1%}",
        f"{scores.observations:,}",
        f"{scores.coverage_low_fraction:.0%} to {scores.coverage_high_fraction:.0%}",
    )


def _anomalies(found: ServiceForecast) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for anomaly in found.anomalies:
        mark, style = _MARK[anomaly.weight]
        lines.append(Text(f"{mark} {anomaly.sentence}", style=style))
    return [Text("Anomalies", style="bold"), *lines, ""] if lines else []


def _closing(found: ServiceForecast) -> list[RenderableType]:
    return [
        Text(
            "Error is the sum of absolute errors over demand; pinball and CRPS are over the mean. "
            f"Seed {found.seed}. docs/explanation/demand.md explains how a forecast is made.",
            style="dim",
        )
    ]


def _known(value: float | None, unit: str, otherwise: str = "not known") -> RenderableType:
    return Text(otherwise, style="dim") if value is None else show(value, unit)


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column, header_style="dim")
    return table
