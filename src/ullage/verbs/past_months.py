"""Past months from a ledger: what was paid, what was planned for them, and why they differ."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.cost.budget.variance import MonthFacts, PastMonth, variance

if TYPE_CHECKING:
    from ullage.ledger.ledger import Ledger

_MONTH_HOURS = 730.0


def past_months(place: str | Path, service: str, weights: Mapping[str, float]) -> tuple[PastMonth, ...]:
    """Every bill of the service that was kept with `reconcile --paid --keep`, oldest first.

    `weights` are what a request of each class takes of a replica, so that another mix of classes can be told from more
    requests. Where production was not kept beside the bill, only the sums are known.
    """
    from ullage.ledger.body import EntryKind
    from ullage.ledger.ledger import opened
    from ullage.verbs.ledger import ledger_address

    with opened(ledger_address(place)) as ledger:
        found = [
            _past(ledger, ledger.body(each.digest).content, service, weights)
            for each in ledger.entries(kind=EntryKind.BILL, service=service)
            if not each.removed_by
        ]
    return tuple(sorted(found, key=lambda each: each.month))


def _past(ledger: Ledger, bill: Mapping[str, Any], service: str, weights: Mapping[str, float]) -> PastMonth:
    start, end = (datetime.datetime.fromisoformat(bill[name]) for name in ("start", "end"))
    hours = (end - start).total_seconds() / 3600.0
    month = (start + (end - start) / 2).date().replace(day=1)
    planned = _planned(ledger, service, start.date(), hours)
    paid = float(bill["paid_usd"])
    if planned is None:
        return PastMonth(month=month, planned_usd=None, paid_usd=paid, causes={})
    real = _real(ledger, service, f"{bill['start']} to {bill['end']}", planned, hours, paid)
    causes = {} if real is None else variance(planned, real, weights)
    return PastMonth(month=month, planned_usd=planned.usd, paid_usd=paid, causes=causes)


def _planned(ledger: Ledger, service: str, day: datetime.date, hours: float) -> MonthFacts | None:
    """What the last plan that was kept by that day said of so many hours; of none before it, the first after."""
    from ullage.ledger.body import EntryKind

    entries = [each for each in ledger.entries(kind=EntryKind.PLAN, service=service) if not each.removed_by]
    before = [each for each in entries if each.as_of <= day.isoformat()]
    if not entries:
        return None
    content = ledger.body((before or entries[-1:])[0].digest).content
    expected, figures = content["expectation"], content["document"]["figures"]
    if expected["usd_per_month"] is None:
        return None
    steady = sum(each["steady_replicas"] for each in expected["pools"])
    every = sum(each["replicas"] for each in expected["pools"])
    return MonthFacts(
        requests={
            name: float(figures[f"demand.{name}.mean_rate"]["value"]) * hours * 3600.0
            for name in (each["name"] for each in expected["classes"])
            if f"demand.{name}.mean_rate" in figures
        },
        serving_replica_hours=steady * hours,
        reserve_replica_hours=(every - steady) * hours,
        usd=float(expected["usd_per_month"]) * hours / _MONTH_HOURS,
    )


def _real(ledger: Ledger, service: str, span: str, planned: MonthFacts, hours: float, paid: float) -> MonthFacts | None:
    """What production did in the same span; which replicas stood by is not seen, so as many as planned did."""
    from ullage.ledger.body import EntryKind

    entries = ledger.entries(kind=EntryKind.OBSERVATION, service=service)
    kept = next((each for each in entries if each.summary.startswith(span) and not each.removed_by), None)
    if kept is None:
        return None
    seen = ledger.body(kept.digest).content
    replicas = _known(seen["levels"].get("replicas"))
    by_class = {name: sum(_known(each)) for name, each in seen["arrivals_by_class"].items()}
    whole = sum(_known(seen["counted"].get("arrivals")))
    # Without a label the classes came as planned, all of them times as much.
    requests = by_class or {name: whole * each / planned.total for name, each in planned.requests.items()}
    if not replicas or not sum(requests.values()):
        return None
    every = sum(replicas) / len(replicas) * hours
    reserve = min(planned.reserve_replica_hours, every)
    return MonthFacts(requests=requests, serving_replica_hours=every - reserve, reserve_replica_hours=reserve, usd=paid)


def _known(values: list[float | None] | None) -> list[float]:
    return [each for each in values or [] if each is not None]
