"""A measurement as a page: the replicas after each test, why it stopped, what it took, and what to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.tables import plain_table
from ullage.service.measuring.choose import Spend


class _Row(Protocol):
    @property
    def test(self) -> str: ...
    @property
    def shape(self) -> str: ...
    @property
    def rate_rps(self) -> float: ...
    @property
    def requests(self) -> int: ...
    @property
    def wall_s(self) -> float: ...
    @property
    def replicas(self) -> int: ...
    @property
    def low_replicas(self) -> int: ...
    @property
    def high_replicas(self) -> int: ...
    @property
    def slow_ratio(self) -> float: ...


class Measured(Protocol):
    """What the page shows of a measurement."""

    @property
    def service(self) -> str: ...
    @property
    def replica(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def before(self) -> _Row: ...
    @property
    def rows(self) -> Sequence[_Row]: ...
    @property
    def is_decided(self) -> bool: ...
    @property
    def stopped(self) -> str: ...
    @property
    def spent(self) -> Spend: ...
    @property
    def bound(self) -> Spend: ...
    @property
    def folder(self) -> str: ...
    @property
    def diff(self) -> str: ...


def measure_page(found: Measured) -> list[RenderableType]:
    last = found.rows[-1] if found.rows else found.before
    style = "bold green" if found.is_decided else "bold yellow"
    parts: list[RenderableType] = [
        Text.assemble(
            (f"{found.service}: {last.replicas} replicas", "bold"),
            f" ({last.low_replicas} to {last.high_replicas}) on nominal step times, ",
            ("decided" if found.is_decided else "undecided", style),
            f": {found.stopped}.",
        ),
        Text(f"{found.replica}, driven by {found.tool}.", style="dim"),
        "",
        _table(found),
        "",
        Text(_taken(found.spent, found.bound)),
    ]
    if found.diff:
        parts.append(Text(f"Results, calibration and a diff of the plan file are in {found.folder}; review plan.diff."))
    return parts


def _table(found: Measured) -> RenderableType:
    table = plain_table("", "after test", "req/s", "requests", "time", "replicas", "range", "step times within")
    for each in (found.before, *found.rows):
        load = ("", "", "")
        if each.requests:
            load = (f"{each.rate_rps:.3g}", f"{each.requests:,}", show(each.wall_s, "s"))
        known = f"x {each.slow_ratio:.3g}"
        table.add_row(each.test, *load, str(each.replicas), f"{each.low_replicas} to {each.high_replicas}", known)
    return table


def _taken(spent: Spend, bound: Spend) -> str:
    money = "no price, so cost not counted"
    if spent.usd is not None and bound.usd is not None:
        money = f"{spent.usd:.2f} of {bound.usd:g} USD"
    return (
        f"Used: {spent.wall_s / 60:.1f} of {bound.wall_s / 60:g} min, {spent.requests:,} of {bound.requests:,} "
        f"requests, {spent.tokens:,} of {bound.tokens:,} tokens, {money}."
    )
