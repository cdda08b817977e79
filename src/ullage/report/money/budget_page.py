"""A budget as a page: the sum in a sentence, the months with their band, why they differ, and months that are over."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.cost.budget.budget import Budget
from ullage.cost.budget.variance import VARIANCE_CAUSES
from ullage.report.quantity import counted, show_usd
from ullage.report.tables import bar, plain_table


def budget_parts(found: Budget) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(budget_sentence(found), style="bold"), "", _months(found), "", _causes(found)]
    if found.past:
        parts += ["", *_past(found)]
    return [*parts, *(Text(f"Note: {each}", style="dim") for each in found.notes), ""]


def budget_sentence(found: Budget) -> str:
    """The sum and its band, and how it lies beside as many months of today's bill."""
    first, last = found.months[0].month, found.months[-1].month
    change = found.usd / found.today_usd - 1.0 if found.today_usd else 0.0
    beside = f"{abs(100 * change):.3g} % {'more' if change > 0 else 'less'} than {counted(len(found.months), 'month')}"
    return (
        f"{show_usd(found.usd)} USD from {first:%Y-%m} to {last:%Y-%m} (P10 {show_usd(found.low_usd)}, P90 "
        f"{show_usd(found.high_usd)}), {beside} of today's bill."
    )


def _months(found: Budget) -> Table:
    fleet = "a fleet that follows demand" if found.follows else "a fixed fleet"
    title = f"Budget by month, {fleet}, {found.futures} futures"
    table = plain_table(title, "month", "P10", "P50", "P90", "M requests", "devices", "order", "by", "", "events")
    most = max(each.high_usd for each in found.months)
    for each in found.months:
        by = "" if each.order_by is None else each.order_by.isoformat()
        table.add_row(
            f"{each.month:%Y-%m}", show_usd(each.low_usd), show_usd(each.usd), show_usd(each.high_usd),
            f"{each.requests / 1e6:.3g}", f"{each.devices:.3g}", f"+{each.more_devices}" if each.more_devices else "",
            by, bar(each.usd, most), "; ".join(each.events),
        )  # fmt: skip
    table.add_row("sum", show_usd(found.low_usd), show_usd(found.usd), show_usd(found.high_usd), *[""] * 6)
    return table


def _causes(found: Budget) -> Table:
    title = "Why the median months differ from today's bill"
    table = plain_table(title, "cause", "USD")
    table.add_row("today's bill", show_usd(found.today_usd))
    for name, usd in found.causes.items():
        if usd:
            table.add_row(name, f"{'+' if usd > 0 else '-'}{show_usd(abs(usd))}")
    table.add_row("median months", show_usd(found.middle_usd))
    return table


def _past(found: Budget) -> list[RenderableType]:
    table = plain_table("Past months", "month", "planned", "paid", "variance", *VARIANCE_CAUSES)
    for each in found.past:
        planned = "not stored" if each.planned_usd is None else show_usd(each.planned_usd)
        off = "" if each.planned_usd is None else _signed(each.paid_usd - each.planned_usd)
        causes = [_signed(each.causes[name]) if name in each.causes else "" for name in VARIANCE_CAUSES]
        table.add_row(f"{each.month:%Y-%m}", planned, show_usd(each.paid_usd), off, *causes)
    return [table]


def _signed(usd: float) -> str:
    return f"{usd:+.3g}" if abs(usd) < 1000 else f"{'+' if usd > 0 else '-'}{show_usd(abs(usd))}"
