"""Plans that a session keeps: an answer is worked out once, and the answer to another question is another."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support import kept_plans
from support.kept_plans import typed_environment
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


def test_outside_everything_is_worked_out() -> None:
    before = pipeline.plan
    with kept_plans.kept_plans():
        assert pipeline.plan is not before
    assert pipeline.plan is before


@pytest.mark.slow
def test_the_typed_command_is_the_program() -> None:
    shown = subprocess.run(["ullage", "--version"], capture_output=True, text=True, env=typed_environment(), check=True)
    assert shown.stdout.startswith("ullage ")
