"""Dates of a plan file: none in the future, and an event that nothing follows is listed with the reason."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from support.planned import planned
from ullage.errors import InputError
from ullage.load.plan import load_plan
from ullage.planning.answer.verdict import warnings

AS_OF = datetime.date(2026, 11, 15)
PLAN = {
    "version": 1,
    "service": "chat",
    "dated": "2026-11-10",
    "workload": {"classes": [{"name": "chat", "rate": "4 req/s", "longest_context": 8192, "slo": {"ttft_p95": "2s"}}]},
    "pool": {"model": "llama-3.1-8b", "device": "h100-sxm"},
}
LATE = "2026-12-24"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("dated", LATE),
        ("sites", {"dated": LATE, "regions": [{"name": "r", "zones": [{"name": "a"}]}]}),
        ("prices", {"exchange": {"EUR": {"rate": "1.1", "dated": LATE}}}),
        ("prices", {"own": {"devices": [{"device": "l4", "provider": "x", "price": "1 USD/h", "dated": LATE}]}}),
        ("claims", {"cost": {"per_success": "1 USD", "dated": LATE}}),
    ],
)
def test_a_date_after_the_day_of_planning_is_refused(key: str, said: object) -> None:
    with pytest.raises(InputError, match=rf"plan: {key}.* = '{LATE}': is after the day of planning, 2026-11-15"):
        load_plan({**PLAN, key: said}, as_of=AS_OF)


def event(first: str, until: str) -> dict[str, object]:
    workload = {**PLAN["workload"], "events": [{"name": "sale", "from": first, "to": until, "demand": 3}]}  # type: ignore[dict-item]
    return {**PLAN, "workload": workload}


@pytest.mark.parametrize(
    ("first", "until", "reason"),
    [
        ("2020-01-01", "2020-01-05", "lies before the horizon, 2026-11-15 to 2026-12-15, and moves nothing"),
        ("2027-01-01", "2027-01-05", "lies after the horizon, 2026-11-15 to 2026-12-15, and moves nothing"),
        ("2026-11-01", "2026-11-10", "lies before the horizon"),
        # Between the day that the file is dated and the day of planning.
        ("2026-11-10", "2026-11-15", "lies before the horizon"),
    ],
)
def test_an_event_outside_the_horizon_is_listed_with_the_reason(first: str, until: str, reason: str) -> None:
    spec = load_plan(event(first, until), as_of=AS_OF)
    (listed,) = [each for each in spec.inputs if each.name == "event.sale.left_out"]
    assert listed.value == f"{first} to {until}"
    assert reason in listed.source.what
    made = planned()
    shown = warnings(replace(made, spec=replace(made.spec, pools=spec.pools)))
    assert any("event.sale" in each and reason in each for each in shown)


@pytest.mark.parametrize("day", ["2026-11-15", "2026-11-20", "2026-12-12"])
def test_an_event_inside_it_is_used_and_not_listed(day: str) -> None:
    """The horizon begins on the day of planning: the last of these is after 30 days from the date of the file."""
    until = datetime.date.fromisoformat(day) + datetime.timedelta(days=2)
    names = {each.name for each in load_plan(event(day, until.isoformat()), as_of=AS_OF).inputs}
    assert "event.sale.demand_ratio" in names
    assert "event.sale.left_out" not in names
