"""What stands beside the options of a pool, of candidates that are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ullage.planning.options.options import _notes
from ullage.planning.options.ranking import Lead
from ullage.planning.options.trial import USD
from ullage.prices.book import MissingPrice

MISSING = MissingPrice(what="l40s", why="no price is given", fix="Give one.")


def candidate(name: str, device: str, *, quotes: object = None, model: str = "m", **more: Any) -> Any:
    """One place of the ranking: twice as dear and as unsure as it is told to be."""
    given = {
        "is_own": False,
        "speculation": None,
        "usd": 100.0,
        "reach": 1.0,
        "lead": Lead.CLEAR,
        "tested": 1e9,
        **more,
    }
    pool = SimpleNamespace(
        device=SimpleNamespace(name=device),
        model=SimpleNamespace(name=model),
        settings=SimpleNamespace(speculation=given["speculation"]),
    )
    usd, reach = given["usd"], given["reach"]
    return SimpleNamespace(
        lead=given["lead"],
        measured=SimpleNamespace(
            name=name,
            replicas=3,
            unit=USD,
            tested_score=given["tested"],
            score=SimpleNamespace(value=usd, low=usd - reach, high=usd + reach),
            fit=SimpleNamespace(quotes=quotes, candidate=SimpleNamespace(pool=pool, is_own=given["is_own"])),
        ),
    )


def test_prices_that_are_missing_are_said_once() -> None:
    dear = candidate("dear", "h100")
    assert _notes([dear]) == ()
    some = _notes([dear, candidate("one", "l40s", quotes=MISSING), candidate("two", "l40s", quotes=MISSING)])
    assert some == ("Candidates without a price come last, ranked by devices.", str(MISSING))
    none = _notes([candidate("one", "l40s", quotes=MISSING), candidate("two", "l40s", quotes=MISSING)])
    assert none == ("Not priced: candidates are ranked by devices paid for.", str(MISSING))


def test_what_cannot_be_told_apart_is_said() -> None:
    close = [candidate("one", "h100", lead=Lead.UNDECIDED), candidate("two", "h100")]
    assert _notes(close) == ("one and two are too close to call: another seed may swap them.",)
    assert _notes(close[:1]) == ()
    assert _notes([close[1], close[0]]) == ()


def test_devices_that_a_test_could_put_ahead_are_named() -> None:
    best, same = candidate("best", "h100"), candidate("same", "h100", tested=90.0)
    others = [candidate(f"other {each}", f"l40s-{each}", tested=90.0 + each) for each in range(5)]
    assert _notes([best, same]) == ()
    assert _notes([best, candidate("dear", "l40s", tested=100.0)]) == ()
    (said,) = _notes([best, same, *others])
    assert said.startswith("Test before choosing: a load test could put other 0, other 1, other 2 and 2 more ahead of")


def test_models_that_are_called_equal_are_said_to_be() -> None:
    both = _notes([candidate("one", "h100", model="b"), candidate("two", "h100", model="a")])
    assert both == ("You state that a and b answer equally well; Ullage does not check it.",)


@pytest.mark.parametrize(("usd", "verdict"), [(97.9, "pays off"), (98.1, "may not pay off")])
def test_speculation_pays_where_its_worst_is_better_than_the_best_without(usd: float, verdict: str) -> None:
    """100 without, give or take one, and as much with it, give or take one."""
    draft = SimpleNamespace(is_stated=False, rate_tokens=2.5)
    own, other = candidate("own", "h100", is_own=True), candidate("draft", "h100", speculation=draft, usd=usd)
    (said,) = _notes([own, other])
    assert said.startswith(f"draft: 3 -> 3 replicas, -2%; it {verdict} at this load. Measure first")
    assert "(2.50 is assumed" in said
    draft.is_stated = True
    assert "Measure first" not in _notes([own, other])[0]
    assert _notes([candidate("own", "h100", speculation=draft), other]) == ()
