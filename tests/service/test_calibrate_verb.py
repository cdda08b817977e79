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


def files(folder: Path, *, same: bool = False) -> list[str]:
    """Two runs of one replica, the second slower, unless they are to be the same."""
    found = []
    for name, factor in (("low", 1.0), ("high", 1.0 if same else 1.5)):
        path = folder / f"{name}.json"
        path.write_bytes(to_json(vllm_run(factor)))
        found.append(str(path))
    return found


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert run(["calibrate", *files(tmp_path), *WHAT, "--json"]) == ExitCode.OK
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_a_token_faster_than_physics_refuses_the_test_unless_it_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["calibrate", *files(tmp_path)[:1], "--model", "llama-3.1-405b", "--device", "h100-sxm", "--tp", "8"]
    assert run(asked) == ExitCode.WRONG_INPUT
    said = " ".join(capsys.readouterr().err.split())
    assert "violates physics" in said
    assert "--accept physics" in said
    assert run([*asked, "--accept", "physics"]) == ExitCode.OK
    assert "violates physics" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--model", "llama-9"], ["--device", "h900"]])
def test_an_unknown_name_is_wrong_input(wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", *files(tmp_path), *WHAT, *wrong]) == ExitCode.WRONG_INPUT
    assert wrong[1] in capsys.readouterr().err


@pytest.mark.slow
def test_more_points_make_a_narrower_band(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One point leaves the band of an estimate's parts, more points that of their fit; the page says it."""
    widths = []
    for count in (1, 2):
        assert run(["calibrate", *files(tmp_path, same=True)[:count], *WHAT, "--json"]) == ExitCode.OK
        widths.append(json.loads(capsys.readouterr().out)["band"]["tpot_high_ratio"])
    assert 1.05 < widths[1] < widths[0]
    assert run(["calibrate", *files(tmp_path)[:1], *WHAT]) == ExitCode.OK
    assert "8 of 10 step times lie within" in " ".join(capsys.readouterr().out.split())


def test_a_test_of_another_model_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tiny.json"
    path.write_bytes(to_json(vllm_run(1.0, model_id="acme/tiny-70b")))
    assert run(["calibrate", str(path), *WHAT]) == ExitCode.WRONG_INPUT
    said = " ".join(capsys.readouterr().err.split())
    assert "acme/tiny-70b" in said
    assert "--accept model" in said
    assert run(["calibrate", str(path), *WHAT, "--accept", "model"]) == ExitCode.OK


@pytest.mark.slow
def test_simulate_gives_what_calibrate_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """To the last digit: both repeat the test by the same function, with the same lengths and arrivals."""
    out = tmp_path / "calibration.json"
    two = files(tmp_path)
    limits = ["--max-sequences", "48", "--kv-tokens", "100000", "--engine-version", "0.11.0"]
    assert run(["calibrate", *two, *WHAT, *limits, "--out", str(out), "--json"]) == ExitCode.OK
    printed = json.loads(capsys.readouterr().out)["calibration"]["residuals"]
    tests = [part for each in two for part in ("--load-test", each)]
    assert len(printed) == 4
    # The calibration keeps what was stated of the engine: stated again or not, it is the same replica.
    for again in (limits, []):
        assert run(["simulate", *tests, *WHAT, *again, "--calibration", str(out), "--json"]) == ExitCode.OK
        repeated = json.loads(capsys.readouterr().out)["predictions"]
        found = {
            (test["name"], each["latency"], each["statistic"]): each["predicted_s"]
            for test in repeated
            for each in test["latencies"]
        }
        for each in printed:
            assert found[each["point"], each["latency"], each["statistic"]] == each["simulated_value"]
    assert run(["simulate", *tests, *WHAT, "--max-sequences", "16", "--calibration", str(out)]) == ExitCode.OK
    said = " ".join(capsys.readouterr().out.split())
    assert "max_sequences 48 (here 16)" in said
    assert "that of the calibration's tests: engine_version 0.11.0, kv_tokens 100000" in said


def test_clients_are_simulated_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More clients wait longer, and requests that find their prompt cached shorter."""

    def ttft_s(*asked: str) -> float:
        lengths = ["--prompt-tokens", "2000", "--output-tokens", "50"]
        assert run(["simulate", *WHAT, *lengths, *asked, "--json"]) == ExitCode.OK
        (test,) = json.loads(capsys.readouterr().out)["predictions"]
        (found,) = [each for each in test["latencies"] if (each["latency"], each["statistic"]) == ("ttft", "mean")]
        assert found["low_s"] < found["predicted_s"] < found["high_s"]
        return float(found["predicted_s"])

    alone = ttft_s("--clients", "1")
    assert ttft_s("--clients", "32") > alone > ttft_s("--clients", "1", "--cached-share", "90%")
