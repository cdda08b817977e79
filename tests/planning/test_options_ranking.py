"""Successive halving on candidates whose scores are made up: close ones go on, lucky seeds do not win."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ullage.errors import Rejection
from ullage.evidence import Evidence
from ullage.planning.options import ranking as options_ranking
from ullage.planning.options.ranking import Lead, _lead, dominates, ranked
from ullage.planning.options.trial import USD, CandidateResult
from ullage.service.trial.decide import Effort
from ullage.simulate.statistics import Interval

ROUNDS = (Effort(most_windows=4), Effort(most_windows=8), Effort(most_windows=16))


class _Fit:
    def __init__(self, name: str, bound: float, *, device: str = "a") -> None:
        self.candidate = SimpleNamespace(name=name, pool=SimpleNamespace(device=SimpleNamespace(name=device)))
        self.bound = bound
        self.usd_per_hour: float | None = 1.0
        self.evidence = Evidence.ESTIMATED
        self.devices, self.fewest_replicas, self.inputs = 1, 1, ()


class _Trial:
    """A score by round: an interval that ends at the mean and narrows as windows are added."""

    def __init__(self, name: str, mean: float, *, width: float = 0.0, bound: float = 0.0, idle: bool = False) -> None:
        self.fit = _Fit(name, bound)
        self.mean, self.width = mean, width
        self.asked: list[int] = []
        self.is_idle_refused = idle

    def idle_refusal(self) -> Rejection | None:
        return cast("Rejection", object()) if self.is_idle_refused else None

    def measured(self, effort: Effort) -> CandidateResult:
        self.asked.append(effort.most_windows)
        return measured(self.fit, self.mean, width=self.width * ROUNDS[0].most_windows / effort.most_windows)

    def looked(self, effort: Effort) -> tuple[CandidateResult, int | None]:
        return self.measured(effort), None

    def goes_on_from(self, start: int | None) -> None:
        assert start is None


def measured(fit: Any, score: float, *, width: float = 0.0, **changes: Any) -> CandidateResult:
    return CandidateResult(
        **{
            "fit": fit,
            "steady_replicas": 1,
            "reserve_replicas": 0,
            "paid_devices": 8,
            "success_fraction": 1.0,
            "headroom_fraction": 0.5,
            "score": Interval(value=score, low=score - width, high=score, confidence_fraction=0.95),
            "tested_score": score,
            "unit": USD,
            "reserves": None,
            **changes,
        }
    )


@pytest.fixture(autouse=True)
def _made_up_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_ranking, "least_score", lambda fit: fit.bound)
    monkeypatch.setattr(options_ranking, "bound_refusal", lambda fit, *_: ("bound", fit.candidate.name))


def run(*trials: _Trial) -> tuple[list[str], list[str], dict[str, list[int]]]:
    places, refused = ranked(cast("Any", list(trials)), rounds=ROUNDS)
    return (
        [each.measured.name for each in places],
        [fit.candidate.name for fit, _ in refused],
        {each.fit.candidate.name: each.asked for each in trials},
    )


def test_half_of_those_that_are_decided_go_on_each_round() -> None:
    names, refused, asked = run(*(_Trial(f"c{number}", 10.0 + 0.1 * number) for number in range(8)))
    assert names == [f"c{number}" for number in range(8)]
    assert refused == []
    assert [asked[f"c{number}"][-1] for number in range(8)] == [16, 16, 8, 8, 4, 4, 4, 4]


def test_candidates_whose_numbers_are_undecided_go_on_until_they_are() -> None:
    """Intervals of 0.5 hide differences of 0.1 in the first round, and those of 0.125 only some in the last."""
    _, _, asked = run(*(_Trial(f"c{number}", 10.0 + 0.1 * number, width=0.5) for number in range(4)))
    assert [max(each) for each in asked.values()] == [16] * 4
    places, _ = ranked(cast("Any", [_Trial("a", 10.0, width=0.5), _Trial("b", 10.1, width=0.5)]), rounds=ROUNDS)
    assert places[0].lead is Lead.UNDECIDED
    places, _ = ranked(cast("Any", [_Trial("a", 10.0, width=0.2), _Trial("b", 10.1, width=0.2)]), rounds=ROUNDS)
    assert [each.lead for each in places] == [Lead.CLEAR, Lead.LAST]


def test_a_lead_that_weak_evidence_makes_is_one_that_a_test_could_reverse() -> None:
    """10 against 11, which would be 9 if steps were as estimated: of another device that is no clear lead."""
    best = measured(_Fit("best", 0.0), 10.0)
    for device, tested, lead in (("b", 9.0, Lead.TESTABLE), ("b", 10.5, Lead.CLEAR), ("a", 9.0, Lead.CLEAR)):
        other = measured(_Fit("other", 0.0, device=device), 11.0, tested_score=tested)
        assert _lead(best, other) is lead
    assert _lead(best, measured(_Fit("other", 0.0), 10.0)) is Lead.UNDECIDED


def test_a_bound_above_the_best_is_refused_without_simulation() -> None:
    names, refused, asked = run(_Trial("good", 10.0, bound=5.0), _Trial("dear", 30.0, bound=20.0))
    assert (names, refused) == (["good"], ["dear"])
    assert asked["dear"] == []


def test_the_only_one_left_is_decided_as_a_plan_decides_it() -> None:
    _, _, asked = run(_Trial("good", 10.0, bound=5.0), _Trial("dear", 30.0, bound=20.0))
    assert asked["good"] == [4, 16]
    _, _, asked = run(_Trial("good", 10.0), _Trial("worse", 30.0))
    assert asked == {"good": [4, 4, 16], "worse": [4]}


def test_the_first_that_is_refused_when_idle_makes_room_for_the_next() -> None:
    names, refused, _ = run(_Trial("slow", 1.0, bound=0.5, idle=True), _Trial("good", 10.0, bound=5.0))
    assert (names, refused) == (["good"], ["slow"])


def test_candidates_without_a_price_stand_last() -> None:
    free = _Trial("free", 1.0)
    free.fit.usd_per_hour = None
    names, _, _ = run(free, _Trial("priced", 10.0))
    assert names == ["priced", "free"]


def test_one_dominates_the_other_only_if_no_worse_in_anything() -> None:
    base = measured(_Fit("base", 0.0), 1.0)
    assert not dominates(base, base)
    assert dominates(measured(_Fit("cheaper", 0.0), 0.5), base)
    more = measured(_Fit("more", 0.0), 0.5, paid_devices=16)
    assert not dominates(more, base)
    assert not dominates(base, more)
