"""A divided bill as a plain table for chargeback: one row for each owner and line, in USD that sum to the bill."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from ullage.cost.attribution.attribution import Attribution
from ullage.cost.attribution.dimensions import dimensions_of, group_tags
from ullage.cost.charges import Period
from ullage.foreign import csv_cell

_AFTER = ("kind", "line", "pool", "item", "usd", "rule", "basis", "evidence")


def chargeback_csv(attribution: Attribution, period: Period) -> str:
    """The file's text; a column for each dimension. Idle time and reserves are rows that nobody is charged for."""
    out = io.StringIO()
    columns = ("period_start", "period_end", *dimensions_of(attribution.choice.by), *_AFTER)
    writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    for owner in attribution.rows:
        for line, cents in zip(attribution.lines, owner.cents, strict=True):
            if not cents:
                continue
            cells = {
                "period_start": period.start.date().isoformat(),
                "period_end": period.end.date().isoformat(),
                **group_tags(attribution.choice.by, owner.name),
                "kind": "charged" if owner.is_group else owner.name,
                "line": line.name,
                "pool": line.pool,
                "item": line.item,
                "usd": str(Decimal(cents).scaleb(-2)),
                "rule": attribution.choice.rule,
                "basis": attribution.choice.basis.value,
                "evidence": "" if line.figure is None else str(line.figure.evidence),
            }
            writer.writerow({name: csv_cell(each) for name, each in cells.items()})
    return out.getvalue()
