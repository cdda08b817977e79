"""Plans that a session keeps: an answer is worked out once, and the answer to another question is another."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from support import kept_plans
from support.kept_plans import KeptWindows, typed_environment
from support.mixes import small_trial
from ullage.planning import pipeline


def test_what_was_asked_once_is_not_worked_out_again(tmp_path: Path) -> None:
    worked: list[object] = []

    def work(spec: object, *, seed: int, report: object = None) -> tuple[object, int]:
        assert report is not None
        worked.append((spec, seed))
        return spec, seed

    asked = kept_plans._kept(work, tmp_path)
    assert [asked("a", seed=0, report=print), asked("a", seed=0, report=len)] == [("a", 0)] * 2
    assert worked == [("a", 0)]
    assert [asked("a", seed=1, report=print), asked("b", seed=0, report=print)] == [("a", 1), ("b", 0)]
    assert len(worked) == 3


@pytest.mark.fresh
def test_outside_everything_is_worked_out() -> None:
    before = pipeline.plan
    with kept_plans.kept_plans():
        assert pipeline.plan is not before
    assert pipeline.plan is before


def test_inside_is_every_other_test() -> None:
    assert hasattr(pipeline.plan, "__wrapped__")


def test_a_window_is_found_by_another_process_and_by_equal_values_alone(tmp_path: Path) -> None:
    trial, equal, other = small_trial(), small_trial(), replace(small_trial(), span_s=99.0)
    KeptWindows(tmp_path)[trial.key, 4.0, 7] = "a window"
    elsewhere = KeptWindows(tmp_path)
    # A hash is worked out beside the fields, and differs from process to process.
    hash(equal.load_at)
    assert elsewhere.get((equal.key, 4.0, 7)) == "a window"
    assert elsewhere.get((equal.key, 4.0, 8)) is None
    assert elsewhere.get((equal.key, 4.5, 7)) is None
    assert elsewhere.get((other.key, 4.0, 7)) is None


def test_a_load_that_is_more_than_values_is_remembered_here_alone(tmp_path: Path) -> None:
    trial = replace(small_trial(), load_at=lambda **_: None)  # type: ignore[arg-type]
    here = KeptWindows(tmp_path)
    here[trial.key, 4.0, 7] = "a window"
    assert here.get((trial.key, 4.0, 7)) == "a window"
    assert KeptWindows(tmp_path).get((trial.key, 4.0, 7)) is None


@pytest.mark.slow
def test_the_typed_command_is_the_program() -> None:
    shown = subprocess.run(["ullage", "--version"], capture_output=True, text=True, env=typed_environment(), check=True)
    assert shown.stdout.startswith("ullage ")
