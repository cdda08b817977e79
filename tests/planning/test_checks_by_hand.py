"""Costs without what they hold for, and assumptions past their age, on parts that are made up."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from support.planned import AS_OF, read
from ullage.planning.checks import cost
from ullage.planning.checks.cost import stale_assumptions, unlabelled_cost
from ullage.planning.checks.result import CheckSeverity


def unit(**changes: Any) -> Any:
    given = {"per": "success", "of": "", "dates": (AS_OF,), "region": "eu-1", "model": "m", "usd": 0.5, **changes}
    return SimpleNamespace(**given)


def said(
    monkeypatch: pytest.MonkeyPatch, *units: Any, success: tuple[str, ...] = ("yes", "yes"), claim: Any = None
) -> Any:
    """What is found of a service of two classes."""
    demands = [
        SimpleNamespace(request_class=SimpleNamespace(name=name), success=each)
        for name, each in zip(("chat", "batch"), success, strict=True)
    ]
    subject: Any = SimpleNamespace(spec=SimpleNamespace(claims=SimpleNamespace(cost=claim), demands=demands))
    monkeypatch.setattr(cost, "_bill", lambda _: SimpleNamespace(units=units) if units else None)
    return [(each.weight, each.sentence) for each in unlabelled_cost(subject).anomalies]


def test_a_cost_that_says_what_it_holds_for_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    other = unit(of="chat", region="", dates=())
    assert said(monkeypatch, other, unit(per="token", region=""), unit()) == []
    assert said(monkeypatch) == []


@pytest.mark.parametrize(
    ("changes", "lacking"), [({"dates": ()}, "date"), ({"region": ""}, "region"), ({"model": ""}, "model")]
)
def test_what_a_cost_lacks_is_named(changes: dict[str, Any], lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ((severity, sentence),) = said(monkeypatch, unit(**changes))
    assert severity is CheckSeverity.MISTAKE
    assert f"a success have no {lacking}" in sentence


def test_a_success_that_is_not_defined_and_a_price_of_any_region_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    ((severity, sentence),) = said(monkeypatch, unit(), success=("", "yes"))
    assert severity is CheckSeverity.WARNING
    assert sentence.startswith("1 of 2 classes do not define success (chat)")
    ((severity, sentence),) = said(monkeypatch, unit(region="aws, any region"))
    assert severity is CheckSeverity.WARNING
    assert sentence.endswith("a price without a region: aws, any region")


def test_a_claim_says_what_it_holds_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = SimpleNamespace(missing=("date", "region"), per_success=read("claims.cost", 2.0, "USD"))
    ((severity, sentence),) = said(monkeypatch, claim=claim)
    assert severity is CheckSeverity.MISTAKE
    assert sentence.startswith("2")
    assert "a success are claimed without date and region" in sentence
    claim.missing = ()
    assert said(monkeypatch, claim=claim) == []


def test_the_oldest_of_what_is_past_its_age_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def aged(name: str, days: int) -> Any:
        return SimpleNamespace(name=name, age=lambda _: timedelta(days=days), max_age=timedelta(days=90))

    monkeypatch.setattr(cost, "_whose", lambda *_: ", of chat")
    old, older, fresh = aged("old", 100), aged("older", 200), aged("fresh", 3)
    plan = SimpleNamespace(as_of=AS_OF, stale=(old, older), assumptions=(old, older, fresh))
    subject: Any = SimpleNamespace(plan=plan)
    (found,) = stale_assumptions(subject).anomalies
    assert found.weight is CheckSeverity.MISTAKE
    assert found.sentence == (
        "2 of 3 assumptions are past their maximum age, oldest older: 200 days old, and 90 are allowed, of chat"
    )
    plan.stale = ()
    sound = stale_assumptions(subject)
    assert (sound.anomalies, sound.compared) == ((), "0 of 3 assumptions are past their age")
