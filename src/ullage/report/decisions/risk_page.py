"""The study of risk as a page: what the fleet risks, what others would, what moves it, what to measure first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.evidence import number
from ullage.planning.answer.bridge import NOMINAL
from ullage.planning.document import Plan
from ullage.report.quantity import counted, show, show_usd
from ullage.report.tables import plain_table
from ullage.uncertainty.drivers import SobolDriver
from ullage.uncertainty.pool_study import PoolStudy, Quantiles, least_regret
from ullage.uncertainty.study import WORDS, Study


def risk_page(plan: Plan, study: Study, bad_hour_usd: float | None = None) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for each in study.pools:
        parts += [*_pool(plan, each, bad_hour_usd, several=len(study.pools) > 1), ""]
    return [*parts, *(Text(f"Note: {each}", style="dim") for each in study.notes)]


def _pool(plan: Plan, found: PoolStudy, bad_hour_usd: float | None, *, several: bool) -> Iterator[RenderableType]:
    of = f" of {found.pool}" if several else ""
    yield Text(f"Risk{of}: {plan.spec.name}, {counted(found.replicas, 'serving replica')}", style="bold")
    yield Text(
        f"Chance that the busiest hour needs more replicas than are up: {_percent(found.risk.shortfall_fraction)} "
        f"(± {_percent(2.0 * found.risk.error_fraction)}); {found.risk.hours_per_month:.3g} h a month short of "
        "capacity."
    )
    chosen = found.chosen_replicas
    keeps = "no number of replicas meets it" if chosen is None else f"{counted(chosen, 'replica')} would do"
    yield Text(f"Target: {_percent(number(found.shortfall))} (policy.shortfall); {keeps}.")
    yield ""
    yield _range_table(found)
    yield ""
    yield _fleet_table(found)
    if found.lines:
        yield ""
        yield _line_table(found)
    yield ""
    yield from _drivers(found)
    if found.measurements:
        yield ""
        yield _information_table(found)
    yield ""
    yield from _break_evens(found)
    if found.regrets:
        yield ""
        yield from _regret(found, bad_hour_usd)


def _range_table(found: PoolStudy) -> Table:
    table = plain_table("Range", "of", "p10", "p50", "p90")
    rows: tuple[tuple[str, Quantiles | None], ...] = (
        ("replicas that the busiest hour needs", found.needed),
        ("USD a month of that need", found.usd),
        ("USD per success of the planned fleet", found.per_success_usd),
        ("hours with enough capacity", found.attainment),
    )
    for name, quantiles in rows:
        if quantiles is not None:
            values = (quantiles.low, quantiles.value, quantiles.high)
            table.add_row(name, *(_shown(each, quantiles.unit) for each in values))
    return table


def _shown(value: float, unit: str) -> str:
    if unit == "USD":
        return show_usd(value)
    return f"{100.0 * value:.4g} %" if unit == "fraction" else show(value, "")


def _fleet_table(found: PoolStudy) -> Table:
    table = plain_table("Fleets, one machine apart", "serving replicas", "shortfall", "hours a month", "")
    for each in found.machines:
        here = "as planned" if each.replicas == found.replicas else ""
        share = _percent(each.shortfall_fraction)
        table.add_row(str(each.replicas), share, f"{each.hours_per_month:.3g}", here)
    for target, replicas in sorted(found.fleets.items(), reverse=True):
        table.add_row("none" if replicas is None else str(replicas), _percent(target), "", "smallest that meets it")
    return table


def _line_table(found: PoolStudy) -> Table:
    whole = sum(found.lines.values())
    title = f"Smallest fleet for {_percent(number(found.shortfall))}, by cause, each added to those above it"
    table = plain_table(title, "cause", "replicas")
    for name, replicas in found.lines.items():
        sign = "" if name == NOMINAL else "- " if replicas < 0 else "+ "
        table.add_row(name, f"{sign}{abs(replicas)}")
    table.add_row("total", str(whole))
    return table


def _drivers(found: PoolStudy) -> Iterator[RenderableType]:
    for what, drivers in (
        ("cost", found.cost_drivers),
        ("replicas", found.replica_drivers),
        ("shortfall", found.shortfall_drivers),
    ):
        if drivers:
            yield Text(f"Drivers of the variance in {what}: {'; '.join(driver_words(each) for each in drivers[:5])}.")


def driver_words(driver: SobolDriver) -> str:
    """What a driver explains by itself, its interval, and with others where that is more."""
    alone = max(0.0, driver.first_fraction)
    low, high = max(0.0, driver.first_low_fraction), max(0.0, driver.first_high_fraction)
    said = f"{WORDS.get(driver.name, driver.name)} explains {100 * alone:.0f} % ({100 * low:.0f} to {100 * high:.0f})"
    more = driver.total_fraction - alone
    return f"{said}, {100 * min(1.0, driver.total_fraction):.0f} with others" if more > 0.05 else said


def _information_table(found: PoolStudy) -> Table:
    table = plain_table(
        "What a measurement is expected to change, at the same risk",
        "measurement", "price", "replicas now", "expected", "p10 to p90", "saves a month", "risk",
    )  # fmt: skip
    for each in found.measurements:
        table.add_row(
            each.measurement.what,
            "not stated" if each.measurement.usd is None else f"{show_usd(each.measurement.usd)} USD",
            str(each.now_replicas),
            f"{each.expected_replicas:.1f}",
            f"{each.low_replicas} to {each.high_replicas}",
            "-" if each.saves_usd is None else f"{show_usd(each.saves_usd)} USD",
            f"{_percent(each.hopeless_fraction)} that no fleet meets the target" if each.hopeless_fraction else "",
        )
    return table


def _break_evens(found: PoolStudy) -> Iterator[RenderableType]:
    said = []
    for each in found.break_evens:
        name = WORDS.get(each.name, each.name)
        said.append(f"{name} beyond x4" if each.ratio is None else f"{name} x{each.ratio:.3g}")
    yield Text(
        f"Break-even, one input at a time, in the median busiest hour: {', '.join(said)}."
        if found.surface.axes
        else "One replica carries the load many times over: nothing comes near its limit."
    )


def _regret(found: PoolStudy, bad_hour_usd: float | None) -> Iterator[RenderableType]:
    table = plain_table(
        "What the last machine is worth",
        "serving replicas",
        "USD a month",
        "hours short",
        "worth it if a bad hour costs",
    )
    for each in found.regrets:
        worth = "-" if each.worth_from_usd is None else f"{show_usd(each.worth_from_usd)} USD or more"
        table.add_row(str(each.replicas), show_usd(each.usd), f"{each.hours_per_month:.3g}", worth)
    yield table
    if bad_hour_usd is not None:
        best = least_regret(found.regrets, bad_hour_usd)
        yield Text(
            f"At {show_usd(bad_hour_usd)} USD a bad hour, {counted(best.replicas, 'replica')} cost least: "
            f"{show_usd(best.usd + bad_hour_usd * best.hours_per_month)} USD a month including the expected bad hours."
        )


def _percent(fraction: float) -> str:
    return f"{100.0 * fraction:.2g} %"
