"""`ullage calibrate` with a model and a device: two files in, a calibration and the next test out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.loadtest_samples import to_json, vllm_run
from ullage.cli.app import run
from ullage.errors import ExitCode
from ullage.service.calibration.document import factors_of

WHAT = ["--model", "llama-3.1-8b", "--device", "h100-sxm"]


def files(folder: Path) -> list[str]:
    """Two runs of one replica, the second slower."""
    found = []
    for name, factor in (("low", 1.0), ("high", 1.5)):
        path = folder / f"{name}.json"
        path.write_bytes(to_json(vllm_run(factor)))
        found.append(str(path))
    return found


def test_two_files_give_a_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "calibration.json"
    assert run(["calibrate", *files(tmp_path), *WHAT, "--out", str(out)]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "2 points" in page
    assert "vllm bench serve --model llama-3.1-8b" in page
    document = json.loads(out.read_text())
    assert factors_of(document, file="calibration.json").fixed_ratio > 0
    assert document["provenance"]["files"] == ["low.json", "high.json"]
    points = {each["point"].split()[0] for each in document["calibration"]["residuals"]}
    assert points == {"low", "high"}
    assert {each["point"].split()[0] for each in document["calibration"]["held_out"]} == points


def test_the_same_files_give_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert run(["calibrate", *files(tmp_path), *WHAT, "--json"]) == ExitCode.OK
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_a_token_faster_than_physics_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = files(tmp_path)[:1]
    assert run(["calibrate", *one, "--model", "llama-3.1-405b", "--device", "h100-sxm", "--tp", "8"]) == ExitCode.OK
    assert "violates physics" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--model", "llama-9"], ["--device", "h900"]])
def test_an_unknown_name_is_wrong_input(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", *files(tmp_path), *WHAT, *wrong]) == ExitCode.WRONG_INPUT
    assert wrong[1] in capsys.readouterr().err


def test_from_three_points_on_the_page_says_how_far_to_trust_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = files(tmp_path)
    third = tmp_path / "middle.json"
    third.write_bytes(to_json(vllm_run(1.2)))
    assert run(["calibrate", *two, *WHAT]) == ExitCode.OK
    assert "8 of 10 step times" not in capsys.readouterr().out
    assert run(["calibrate", *two, str(third), *WHAT]) == ExitCode.OK
    assert "8 of 10 step times lie within" in capsys.readouterr().out
