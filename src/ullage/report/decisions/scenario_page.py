"""Scenarios as one table: each a whole plan in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show_usd
from ullage.report.tables import plain_table


def scenario_page(service: str, rows: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    table = plain_table(
        f"Scenarios of {service}, each a whole plan with its reserves",
        "scenario", "replicas", "machines", "devices", "USD a month", "per success", "in this future",
    )  # fmt: skip
    for row in rows:
        if row["replicas"] is None:
            table.add_row(row["name"], "refused", "", "", "", "", f"{row['what']}: {row['refused']}")
            continue
        usd, each = row["usd"], row["per_success_usd"]
        table.add_row(
            row["name"],
            str(row["replicas"]),
            str(row["machines"]),
            str(row["devices"]),
            "not priced" if usd is None else show_usd(usd),
            "" if each is None else show_usd(each),
            row["what"],
        )
    note = (
        "Best, base and worst are typical draws at the 10th, 50th and 90th percentile of need; in "
        "each, demand, steps, lengths and cached share are known, so there is no margin for them."
    )
    return [table, "", Text(f"Note: {note}", style="dim")]
