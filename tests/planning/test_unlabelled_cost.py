"""A cost without what it holds for, on a bill and a claim that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.planned import AS_OF, read
from ullage.planning.checks import cost
from ullage.planning.checks.cost import unlabelled_cost
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
