"""A reconciliation as a page that a team reads on Monday: planned beside observed, why they differ, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.reconcile.attribution import ErrorByCause
from ullage.reconcile.backtest import PlanBacktest
from ullage.reconcile.forecast_scores import WHOLE
from ullage.reconcile.inputs import InputVerdict
from ullage.reconcile.observed import ObservedInput
from ullage.reconcile.reconcile import Reconciliation, ScoreLine
from ullage.reconcile.refit import StepRefit
from ullage.reconcile.service_levels import Attained
from ullage.reconcile.updates import PlanUpdate
from ullage.report.quantity import counted, show
from ullage.report.tables import plain_table

_VERDICTS = {InputVerdict.HOLDS: "green", InputVerdict.DRIFTED: "red", InputVerdict.UNKNOWN: "dim"}
_ATTAINED = {Attained.MET: "green", Attained.VIOLATED: "red", Attained.UNDECIDED: "yellow"}


def reconcile_page(
    found: Reconciliation,
    updates: Sequence[PlanUpdate],
    elsewhere: Sequence[str],
    backtest: PlanBacktest | None = None,
) -> list[RenderableType]:
    """The verdict first, then the tables behind it."""
    state = "PAST TOLERANCES" if found.past else "within tolerances"
    title = (
        f"{found.service}: plan {found.plan[:12]} of {found.planned_on} against {found.start} to {found.end}: {state}"
    )
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [Text(f"- {each}") for each in found.past]
    parts += ["", _scorecard(found.scorecard), ""]
    if found.causes is not None:
        parts += [*_causes(found.causes, found.ran_replicas), ""]
    parts += [Text(f"Left out: {each}.", style="dim") for each in found.left_out]
    parts += [_inputs(found.inputs), "", *_refit(found.refit), *_service(found), "", *_forecast(found), ""]
    parts += [] if backtest is None else [_backtest(backtest), ""]
    parts += _changes(updates, elsewhere)
    notes = plain_table("What the data cannot decide", "kind", "quantity", "what")
    for each in found.notes:
        notes.add_row(str(each.kind), each.quantity, each.what)
    return [*parts, "", notes] if found.notes else parts


def _scorecard(lines: Sequence[ScoreLine]) -> Table:
    table = plain_table("Scorecard", "", "planned", "observed", "change", "")
    for each in lines:
        share = each.change_fraction
        table.add_row(
            each.what,
            _shown(each.planned_value, each.unit),
            _observed(each),
            "" if share is None else f"{100 * share:+.3g} %",
            each.note,
        )
    return table


def _observed(line: ScoreLine) -> str:
    if line.observed_value is None and line.low is None:
        return "not observed"
    middle = "" if line.observed_value is None else _shown(line.observed_value, line.unit)
    if line.low is None:
        return middle
    high = "more" if line.high is None else _shown(line.high, line.unit)
    return f"{middle} ({_shown(line.low, line.unit)} to {high})"


def _causes(causes: ErrorByCause, ran: float | None) -> list[RenderableType]:
    """What each cause is charged with; the last lines are the whole, and what ran beside what was needed."""
    table = plain_table("Error by cause", "cause", "replicas, in order", "by Shapley", "USD a month", "USD per success")
    for each in causes.shares:
        table.add_row(
            str(each.cause),
            f"{each.in_order.replicas:+.2f}",
            f"{each.shapley.replicas:+.2f}",
            _money(each.shapley.usd_per_month),
            _money(each.shapley.usd_per_success),
        )
    whole = causes.whole
    table.add_row(
        "total",
        f"{whole.replicas:+.2f}",
        f"{whole.replicas:+.2f}",
        _money(whole.usd_per_month),
        _money(whole.usd_per_success),
    )
    parts: list[RenderableType] = [table]
    planned, needed = causes.planned.replicas, causes.observed.replicas
    line = f"Planned {planned:.1f} replicas; the observed inputs need {needed:.1f}"
    scaling = "" if ran is None else f"; {ran:.1f} ran, {ran - needed:+.1f} relative to need (scaling)"
    parts.append(Text(f"{line}{scaling}."))
    how = "Evaluated: the highest load of one replica of this configuration, simulated, scales the planned fleet."
    return [*parts, Text(how, style="dim")]


def _inputs(rows: Sequence[ObservedInput]) -> Table:
    table = plain_table("Assumptions", "", "planned", "observed", "interval", "verdict", "")
    for each in rows:
        interval = (
            ""
            if each.low is None or each.high is None
            else f"{_shown(each.low, each.unit)} to {_shown(each.high, each.unit)}"
        )
        table.add_row(
            each.name,
            _shown(each.stated_value, each.unit),
            _shown(each.observed_value, each.unit),
            interval,
            Text(str(each.verdict), style=_VERDICTS[each.verdict]),
            each.why,
        )
    return table


def _refit(found: StepRefit | None) -> list[RenderableType]:
    if found is None:
        return []
    table = plain_table(
        "Step times fitted to production", "req/s per replica", "hours", "requests", "fitted", "checked"
    )
    for each in found.loads:
        held = f"{each.held_count} of {each.checked_count} percentiles in their buckets" if each.checked_count else ""
        table.add_row(
            f"{each.rate_rps:.3g}", f"{each.hours:.3g}", f"{each.requests:,.0f}", ", ".join(each.fitted), held
        )
    line = (
        f"Decode steps are {found.decode_ratio:.3g} times the plan's, prefill {found.prefill_ratio:.3g} times; at "
        f"these loads they are known to a factor of {found.slow_ratio:.3g}. --apply writes the calibration "
        "that a plan reads as evidence.calibrations."
    )
    return [table, Text(line), *(Text(f"Note that {each}.") for each in found.disagreements), ""]


def _service(found: Reconciliation) -> list[RenderableType]:
    table = plain_table("SLOs", "class", "SLO", "limit", "observed range", "over the limit", "")
    for each in found.slos:
        between = "not observed"
        if each.low_s is not None and each.high_s is not None:
            high = "more" if math.isinf(each.high_s) else show(each.high_s, "s")
            between = f"{show(each.low_s, 's')} and {high}"
        beyond = ""
        if each.beyond_low_fraction is not None and each.beyond_high_fraction is not None:
            beyond = f"{each.beyond_low_fraction:.2%} to {each.beyond_high_fraction:.2%}"
        state = Text(str(each.attained), style=_ATTAINED[each.attained])
        table.add_row(each.class_name, each.slo, show(each.limit_s, "s"), between, beyond, state)
    short, memory = found.shortfall, found.memory
    rate = memory.observed_preemptions_per_s
    seen = "not observed" if rate is None else f"{rate:.3g}/s observed"
    kills = "not observed" if memory.oom_kills is None else str(memory.oom_kills)
    hours = (
        f"Of {short.hours:.4g} hours {short.violated_hours:.3g} certainly violated an SLO, {short.undecided_hours:.3g} "
        f"are undecided; {short.above_plan_hours:.3g} were above the planning rate."
    )
    pressed = (
        f"Preemptions per replica: {memory.predicted_preemptions_per_s:.3g}/s predicted at the planning rate, {seen}; "
        f"out-of-memory kills: {kills}."
    )
    return [table, Text(hours), Text(pressed)]


def _forecast(found: Reconciliation) -> list[RenderableType]:
    table = plain_table("Forecast", "class", "week", "WAPE", "bias", "pinball", "CRPS", "in the 80 % band")
    for each in found.forecast:
        table.add_row(
            each.class_name,
            each.week,
            f"{each.wape_fraction:.1%}",
            f"{each.bias_fraction:+.1%}",
            f"{each.pinball_ratio:.3g}",
            f"{each.crps_ratio:.3g}",
            f"{each.coverage_fraction:.0%} ({each.coverage_low_fraction:.0%} to {each.coverage_high_fraction:.0%})",
        )
    risk, due = found.risk, found.cadence
    derived = "not known from so few days" if due.derived_s is None else show(due.derived_s, "s")
    came = "happened" if risk.happened else "did not happen"
    often = ", which is too rarely" if due.is_too_seldom else ""
    chance = (
        f"Risk of a shortfall: stated {risk.stated_fraction:.2%}, it {came}; over {risk.stretches} reconciliations "
        "so far "
        f"the Brier score is {risk.brier_ratio:.3g}, and the record supports {risk.recalibrated_fraction:.2%}."
    )
    age = (
        f"Forecast error moves the fleet by one replica after {derived}; the plan is reconciled every "
        f"{show(due.stated_s, 's')}{often}."
    )
    lines = [chance, age]
    if any(each.is_band_too_narrow for each in found.forecast if each.week == WHOLE):
        lines.append("The forecast's band was too narrow: fewer hours than stated lay inside it.")
    if found.stale:
        named = ", ".join(f"{each.name} ({each.age_days} d)" for each in found.stale[:5])
        lines.append(f"{counted(len(found.stale), 'assumption')} past their maximum age: {named}.")
    return [table, *(Text(each) for each in lines)]


def _backtest(found: PlanBacktest) -> Table:
    """What plans of the past would have done, by the percentile of demand that they were made for."""
    title = f"Backtest: {found.origins} plans of {show(found.period_s, 's')} each, from what was known then"
    table = plain_table(title, "percentile", "periods short", "hours short", "replicas", "idle", "USD")
    for each in found.rows:
        own = " (the plan's)" if abs(each.percentile - found.stated_percentile) < 1e-6 else ""
        table.add_row(
            f"{each.percentile:.3g}{own}",
            f"{each.short_periods} of {each.periods}",
            f"{each.short_hours} of {each.hours}",
            f"{each.mean_replicas:.3g}",
            f"{each.idle_fraction:.0%}",
            "-" if each.usd is None else f"{each.usd:,.0f}",
        )
    return table


def _changes(updates: Sequence[PlanUpdate], elsewhere: Sequence[str]) -> list[RenderableType]:
    if not updates and not elsewhere:
        return [Text("The plan file needs no change.")]
    table = plain_table("Proposed changes of the plan file", "key", "old", "new", "evidence")
    for each in updates:
        table.add_row(each.key, each.old, each.new, each.evidence)
    parts: list[RenderableType] = [table] if updates else []
    return [*parts, *(Text(f"Not a key of the plan file: {each}.") for each in elsewhere)]


def query_table(rows: Sequence[tuple[str, str]]) -> Table:
    table = plain_table("Range queries; each uses the step it contains", "file", "query")
    for name, query in rows:
        table.add_row(f"{name}.json", query)
    return table


def _shown(value: float | None, unit: str) -> str:
    if value is None or math.isnan(value):
        return "-"
    return show(value, unit)


def _money(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4g}"
