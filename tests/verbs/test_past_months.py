"""Months that a ledger keeps bills of: what was planned, what was paid, and why, out of what was kept."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from ullage.ledger.body import EntryBody, EntryKind
from ullage.ledger.ledger import opened
from ullage.verbs.past_months import past_months

AT = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
START, END = "2026-10-01T00:00:00+00:00", "2026-10-31T10:00:00+00:00"
HOURS = 730.0


def _kept(
    kind: EntryKind, as_of: str, content: dict[str, Any], summary: str = "kept", service: str = "desk"
) -> EntryBody:
    return EntryBody(kind=kind, service=service, as_of=as_of, summary=summary, content=content)


def _plan(as_of: str, usd: float | None) -> EntryBody:
    content = {
        "expectation": {
            "usd_per_month": usd,
            "pools": [{"steady_replicas": 8, "replicas": 10}],
            "classes": [{"name": "chat"}, {"name": "code"}],
        },
        "document": {"figures": {f"demand.{name}.mean_rate": {"value": 1.0} for name in ("chat", "code")}},
    }
    return _kept(EntryKind.PLAN, as_of, content)


def _bill(paid: float) -> EntryBody:
    return _kept(EntryKind.BILL, "2026-10-31", {"start": START, "end": END, "paid_usd": paid})


def _seen(replicas: float, by_class: dict[str, list[float | None]]) -> EntryBody:
    content = {
        "levels": {"replicas": [replicas, None, replicas]},
        "arrivals_by_class": by_class,
        "counted": {"arrivals": [2.0 * HOURS * 3600.0]},
    }
    return _kept(EntryKind.OBSERVATION, "2026-10-31", content, summary=f"{START} to {END} from prometheus")


def _ledger(tmp_path: Path, *bodies: EntryBody) -> str:
    place = str(tmp_path / "ledger.sqlite")
    with opened(place, create=True) as ledger:
        ledger.keep_all(bodies, at=AT)
    return place


def test_the_plan_of_that_time_is_what_was_planned(tmp_path: Path) -> None:
    place = _ledger(tmp_path, _plan("2026-09-20", 10_000.0), _plan("2026-11-01", 99_000.0), _bill(12_000.0))
    (found,) = past_months(place, "desk", {})
    assert found.month == datetime.date(2026, 10, 1)
    assert found.planned_usd == pytest.approx(10_000.0)
    assert found.paid_usd == 12_000.0
    assert found.causes == {}, "production was not kept"
    assert past_months(place, "another", {}) == ()


def test_a_bill_without_a_plan_or_a_price_is_only_what_was_paid(tmp_path: Path) -> None:
    (found,) = past_months(_ledger(tmp_path, _bill(5.0)), "desk", {})
    assert found.planned_usd is None
    (unpriced,) = past_months(_ledger(tmp_path, _plan("2026-09-20", None)), "desk", {})
    assert unpriced.planned_usd is None


def test_variance_is_by_cause_and_sums(tmp_path: Path) -> None:
    # 8 + 2 replicas at 10,000 USD: a replica costs 1,000. Twice the requests came, and 14 replicas ran for 21,000.
    by_class: dict[str, list[float | None]] = {name: [2.0 * HOURS * 3600.0, None] for name in ("chat", "code")}
    place = _ledger(tmp_path, _plan("2026-09-20", 10_000.0), _bill(21_000.0), _seen(14.0, by_class))
    (found,) = past_months(place, "desk", {"chat": 1.0, "code": 3.0})
    assert found.causes == pytest.approx(
        {"volume": 8_000.0, "mix": 0.0, "efficiency": -4_000.0, "reserve": 0.0, "price": 7_000.0}, abs=1e-6
    )
    assert sum(found.causes.values()) == pytest.approx(found.paid_usd - 10_000.0)


def test_without_a_label_classes_came_as_planned(tmp_path: Path) -> None:
    place = _ledger(tmp_path, _plan("2026-09-20", 10_000.0), _bill(10_000.0), _seen(10.0, {}))
    (found,) = past_months(place, "desk", {"chat": 1.0, "code": 3.0})
    assert {name: round(usd, 6) for name, usd in found.causes.items() if round(usd, 6)} == {}
