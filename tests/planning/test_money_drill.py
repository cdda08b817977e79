"""Half of the traffic for the whole fleet, on a bill that is made up: when it fails, and in which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.planned import read
from ullage.cost.lines.line import Behaviour
from ullage.planning.drills import money
from ullage.planning.drills.money import MOST_RISE_FRACTION, VOLUME_RATIO, economics_drill
from ullage.planning.drills.result import DrillVerdict


def scenario(*unpriced: str, usd: float | None = 1.0) -> Any:
    """A success costs a dollar, and three quarters of the bill are fixed."""
    lines = [SimpleNamespace(usd=30.0, behaviour=Behaviour.FIXED)]
    lines += [SimpleNamespace(usd=10.0, behaviour=each) for each in Behaviour if each is not Behaviour.FIXED][:1]
    figures = {} if usd is None else {"bill.per_success_usd": read("bill.per_success_usd", usd, "USD")}
    bill = SimpleNamespace(
        figures=figures, lines=lines, total_usd=40.0, unpriced=[SimpleNamespace(name=each) for each in unpriced]
    )
    return SimpleNamespace(bill=bill)


@pytest.mark.parametrize("beyond", [0.0, 0.01])
def test_a_success_may_cost_so_much_more_at_half_the_traffic(beyond: float, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1.0 + MOST_RISE_FRACTION
    asked = []

    def at_volume(given: object, bill: object, ratio: float) -> Any:
        asked.append((given, bill, ratio))
        return SimpleNamespace(figures={"bill.per_success_usd": read("half", most + beyond, "USD")})

    monkeypatch.setattr(money, "_at_volume", at_volume)
    monkeypatch.setattr(money, "_device_hour_usd", lambda _: None)
    case = scenario("tool_apis", "tool_apis", "egress")
    found = economics_drill(case)
    assert asked == [(case, case.bill, VOLUME_RATIO)]
    assert VOLUME_RATIO == 0.5
    assert found.verdict is (DrillVerdict.FAILS if beyond else DrillVerdict.PASSES)
    assert found.before is case.bill.figures["bill.per_success_usd"]
    assert found.during is not None
    assert found.during.value == most + beyond
    assert found.wanted == f"at most {most:.3g} USD"
    assert found.played == (
        "Half of the traffic arrives, 75.0% of the bill is fixed. Not in either: tool apis, egress."
    )
    assert bool(found.change) == bool(beyond)


def test_without_a_price_nothing_is_played() -> None:
    unpriced: Any = SimpleNamespace(bill=None)
    for case in (scenario(usd=None), unpriced):
        found = economics_drill(case)
        assert (found.verdict, found.played) == (DrillVerdict.NOT_PLAYED, "Nothing is priced. Give prices.")
