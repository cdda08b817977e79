"""Own devices beside providers, as parts of a page: a sentence, the classes both ways, and where a base would stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.report.evidence_style import evidence_text
from ullage.report.money.bill_page import money
from ullage.report.quantity import counted, show, show_usd
from ullage.report.tables import plain_table

if TYPE_CHECKING:
    from ullage.cost.provider.host_or_buy import HostOrBuy
    from ullage.cost.provider.spill import SpillLevel
    from ullage.planning.billing.spilled import SpilledPool

_WEEK_MINUTES = 10_080


def host_or_buy_parts(rows: Sequence[HostOrBuy], mixes: Sequence[SpilledPool]) -> list[RenderableType]:
    """Nothing where nothing was compared."""
    if not rows:
        return []
    parts: list[RenderableType] = ["", *(Text(_said(each)) for each in rows), _classes(rows)]
    if mixes:
        parts += ["", *(Text(_mixed(each)) for each in mixes), _mixes(mixes)]
    return parts


def _said(row: HostOrBuy) -> str:
    own, bought = money(float(row.own.value)), money(float(row.bought.value))
    better, part = ("host", row.more_fraction) if row.is_own_cheaper else ("buy", -row.more_fraction)
    beside = f"{show(abs(part), 'fraction')} {'more' if row.is_own_cheaper else 'less'}"
    said = f"{row.class_name}: {better}. A successful task costs {own} USD here and {bought} at {row.offer} ({beside})"
    if row.even_requests is None:
        return f"{said}; hosting is not cheaper at any volume."
    return f"{said}; break-even is at {row.even_requests:,.0f} requests a month, and this is {row.requests:,.0f}."


def _classes(rows: Sequence[HostOrBuy]) -> Table:
    table = plain_table(
        "Host or buy, USD per successful task",
        "class", "against", "host", "buy", "cheaper", "succeed here / there", "break-even", "rate limits", "evidence",
    )  # fmt: skip
    for each in rows:
        even = "never" if each.even_requests is None else f"{each.even_requests:,.0f} a month"
        if each.even_requests and each.capacity_requests and each.even_requests > each.capacity_requests:
            even += f", above the {each.capacity_requests:,.0f} it is sized for"
        shares = (each.own_success_fraction, each.bought_success_fraction)
        table.add_row(
            each.class_name, each.offer, money(float(each.own.value)), money(float(each.bought.value)),
            "host" if each.is_own_cheaper else "buy", " / ".join(show(one, "fraction") for one in shares), even,
            _limits(each), evidence_text(each.bought.evidence),
        )  # fmt: skip
    return table


def _limits(row: HostOrBuy) -> str:
    if row.refused_fraction is None or row.limited_minutes is None:
        return "not stated"
    if not row.limited_minutes:
        return "not reached"
    share = show(row.limited_minutes / _WEEK_MINUTES, "fraction")
    return f"reached in {share} of minutes: {show(row.refused_fraction, 'fraction')} refused"


def _mixed(each: SpilledPool) -> str:
    own, chosen = each.own, each.chosen
    if chosen.base_replicas == own.base_replicas:
        return f"{each.pool}: keep all {counted(own.base_replicas, 'replica')}; no mix with {each.offer} costs less."
    less = show(each.saved_usd / own.usd, "fraction") if own.usd else "0 %"
    if not chosen.base_replicas:
        return f"{each.pool}: send all of it to {each.offer}: {show_usd(chosen.usd)} USD a month, {less} less."
    tried = "" if each.tried_replicas is None else ", confirmed by simulating the base"
    return (
        f"{each.pool}: keep {chosen.base_replicas} of {counted(own.base_replicas, 'replica')} and send peaks to "
        f"{each.offer}: {show_usd(chosen.usd)} USD a month, {less} less than all of them{tried}; "
        f"{show(chosen.bought_fraction, 'fraction')} of requests go there, "
        f"{show(chosen.refused_fraction, 'fraction')} are refused."
    )


def _mixes(mixes: Sequence[SpilledPool]) -> Table:
    table = plain_table(
        "Base on own replicas, peaks to a provider: USD a month, devices and tokens alone",
        "pool", "against", "", "replicas", "own", "bought", "together", "per success", "sent there", "refused",
    )  # fmt: skip
    for each in mixes:
        levels: dict[str, SpillLevel] = {"all own": each.own, "all bought": each.bought}
        if each.is_mixed:
            levels["chosen mix"] = each.chosen
        for name, level in levels.items():
            table.add_row(
                each.pool, each.offer, name, str(level.base_replicas), money(level.own_usd), money(level.bought_usd),
                money(level.usd), money(level.per_success_usd), show(level.bought_fraction, "fraction"),
                show(level.refused_fraction, "fraction"),
            )  # fmt: skip
    return table
