"""Successive halving on candidates whose scores are made up: close ones go on, lucky seeds do not win."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from ullage.errors import Rejection
from ullage.evidence import Evidence
from ullage.planning.options import ranking as options_ranking
from ullage.planning.options.ranking import dominates, ranked
from ullage.planning.options.trial import USD, CandidateResult
from ullage.simulate.statistics import Interval, mean_interval


class _Fit:
    def __init__(self, name: str, bound: float) -> None:
        self.candidate = type("Candidate", (), {"name": name})()
        self.bound = bound
        self.usd_per_hour: float | None = 1.0
        self.evidence = Evidence.ESTIMATED
        self.devices, self.fewest_replicas, self.inputs = 1, 1, ()


class _Trial:
    """Scores of every batch: a mean, luck that all share, and luck of its own."""

    def __init__(self, name: str, mean: float, *, own: float = 0.01, bound: float = 0.0, idle: bool = False) -> None:
        self.fit = _Fit(name, bound)
        shared = np.random.default_rng(0).normal(0.0, 0.5, 64)
        mine = np.random.default_rng(sum(name.encode())).normal(0.0, own, 64)
        self.scores = mean + shared + mine
        self.asked: list[int] = []
        self.is_idle_refused = idle

    def idle_refusal(self) -> Rejection | None:
        return cast("Rejection", object()) if self.is_idle_refused else None

    def measured(self, batches: int) -> CandidateResult:
        self.asked.append(batches)
        scores = tuple(self.scores[:batches].tolist())
        return measured(self.fit, scores)


def measured(fit: Any, scores: tuple[float, ...], **changes: Any) -> CandidateResult:
    return CandidateResult(
        **{
            "fit": fit,
            "batches": len(scores),
            "steady_replicas": 1,
            "reserve_replicas": 0,
            "paid_devices": 8,
            "success_fraction": 1.0,
            "headroom_fraction": 0.5,
            "score": mean_interval(scores),
            "unit": USD,
            "batch_scores": scores,
            "reserves": None,
            **changes,
        }
    )


@pytest.fixture(autouse=True)
def _made_up_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_ranking, "least_score", lambda fit: fit.bound)
    monkeypatch.setattr(options_ranking, "bound_refusal", lambda fit, *_: ("bound", fit.candidate.name))


def run(*trials: _Trial) -> tuple[list[str], list[str], dict[str, list[int]]]:
    places, refused = ranked(cast("Any", list(trials)), rounds=(4, 8, 16))
    return (
        [each.measured.name for each in places],
        [fit.candidate.name for fit, _ in refused],
        {each.fit.candidate.name: each.asked for each in trials},
    )


def test_shared_luck_does_not_blur_the_order() -> None:
    """Luck that moves every candidate by 0.5 does not hide differences of 0.1, because it is the same for all."""
    names, refused, asked = run(*(_Trial(f"c{number}", 10.0 + 0.1 * number) for number in range(8)))
    assert names == [f"c{number}" for number in range(8)]
    assert refused == []
    assert [asked[f"c{number}"][-1] for number in range(8)] == [16, 16, 8, 8, 4, 4, 4, 4]


def test_candidates_too_close_to_tell_go_on() -> None:
    _, _, asked = run(*(_Trial(f"c{number}", 10.0, own=0.2) for number in range(4)))
    assert [max(each) for each in asked.values()] == [16] * 4


def test_a_bound_above_the_best_is_refused_without_simulation() -> None:
    names, refused, asked = run(_Trial("good", 10.0, bound=5.0), _Trial("dear", 30.0, bound=20.0))
    assert (names, refused) == (["good"], ["dear"])
    assert asked["dear"] == []


def test_the_first_that_is_refused_when_idle_makes_room_for_the_next() -> None:
    names, refused, _ = run(_Trial("slow", 1.0, bound=0.5, idle=True), _Trial("good", 10.0, bound=5.0))
    assert (names, refused) == (["good"], ["slow"])


def test_candidates_without_a_price_stand_last() -> None:
    free = _Trial("free", 1.0)
    free.fit.usd_per_hour = None
    names, _, _ = run(free, _Trial("priced", 10.0))
    assert names == ["priced", "free"]


def test_one_dominates_the_other_only_if_no_worse_in_anything() -> None:
    base = measured(_Fit("base", 0.0), (1.0, 1.0))
    assert not dominates(base, base)
    cheaper = measured(
        _Fit("cheaper", 0.0), (0.5, 0.5), score=Interval(value=0.5, low=0.5, high=0.5, confidence_fraction=0.95)
    )
    assert dominates(cheaper, base)
    more = measured(_Fit("more", 0.0), (0.5, 0.5), paid_devices=16)
    assert not dominates(more, base)
    assert not dominates(base, more)
