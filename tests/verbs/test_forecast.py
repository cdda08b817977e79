"""`ullage forecast`: what it prints, what it refuses, and the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ullage import verbs
from ullage.cli.app import run
from ullage.errors import InputError
from ullage.load.typed import parse_event
from ullage.verbs.profile import profile, save_profile

MONDAY_EPOCH_S = 1_790_553_600  # 2026-09-28T00:00:00Z


def ending(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["forecast", *arguments, "--as-of", "2026-11-15", "--quiet"])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ending(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of two models, a request now and then, by day more than by night."""
    rng = np.random.default_rng(0)
    hours = np.arange(240)
    lines = ["timestamp,prompt_tokens,output_tokens,class"]
    for name, rate in (("chat", 60.0), ("code", 20.0)):
        counts = rng.poisson(rate * (1.0 + 0.7 * np.sin(2.0 * np.pi * (hours - 9) / 24)))
        at_s = np.repeat(hours * 3600.0, counts) + rng.random(int(counts.sum())) * 3600.0
        lines += [f"{MONDAY_EPOCH_S + each:.3f},100,50,{name}" for each in at_s]
    path = tmp_path_factory.mktemp("forecast") / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = {
    "arrival_s": "timestamp",
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "output_tokens",
    "class": "class",
}
MAP = tuple(word for ours, theirs in COLUMNS.items() for word in ("--column", f"{ours}={theirs}"))


@pytest.mark.slow
def test_a_trace_is_forecast_by_class_in_requests_and_tokens(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    found = answered(capsys, str(trace), "--horizon", "3d", *MAP)
    assert found["schema"] == "ullage.forecast/2"
    parts = {each["history"]["name"]: each for each in found["parts"]}
    assert set(parts) == {"all", "chat", "code"}
    chat = parts["chat"]
    assert len(chat["forecast"]["quantiles"]) == 72
    assert chat["forecast"]["mean"] == pytest.approx(60 / 3600, rel=0.1)
    assert chat["planning_rps"] > 1.4 * chat["forecast"]["mean"]
    assert chat["peak_minute_rps"] > chat["planning_rps"]
    assert chat["planning_tokens_per_s"] == pytest.approx(150 * chat["planning_rps"], rel=1e-6)
    assert chat["planning_active_tokens"] is None
    assert {each["kind"] for each in found["anomalies"]} >= {"cold_start"}


@pytest.mark.slow
def test_the_same_question_gives_the_same_bytes(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    question = (str(trace), "--horizon", "2d", *MAP, "--json")
    assert ending(capsys, *question) == ending(capsys, *question)


@pytest.mark.slow
def test_a_saved_profile_gives_the_forecast_of_its_trace(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "log.profile"
    save_profile(profile([trace], columns=COLUMNS), saved)
    from_trace = answered(capsys, str(trace), "--horizon", "3d", *MAP)
    from_profile = answered(capsys, str(saved), "--horizon", "3d")
    for ours, theirs in zip(from_profile["parts"], from_trace["parts"], strict=True):
        assert ours["forecast"]["quantiles"] == theirs["forecast"]["quantiles"]
        # A saved profile keeps nine digits of its figures.
        assert ours["peak_minute_rps"] == pytest.approx(theirs["peak_minute_rps"], rel=1e-7)
        assert ours["planning_tokens_per_s"] == pytest.approx(theirs["planning_tokens_per_s"], rel=1e-7)


def test_the_page_has_a_fan_a_table_scores_and_anomalies(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    code, out, _ = ending(capsys, str(trace), "--horizon", "7d", *MAP)
    assert code == 0
    for word in ("━", "░", "•", "now, and 7 d on", "To plan for", "seasonal naive", "in 80 % band", "Anomalies"):
        assert word in out
    assert "2026-10-08" in out
    assert max(len(line) for line in out.splitlines()) <= 110


def test_the_example_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "--horizon", "7d")
    assert [each["history"]["name"] for each in found["parts"]] == ["chat", "coding"]


@pytest.mark.slow
def test_a_planned_launch_raises_what_is_planned_for(capsys: pytest.CaptureFixture[str], trace: Path) -> None:
    plain = answered(capsys, str(trace), "--horizon", "3d", *MAP)
    launch = answered(capsys, str(trace), "--horizon", "3d", *MAP, "--event", "launch:2026-10-09:2026-10-10:3")
    assert launch["parts"][0]["planning_rps"] > 2.0 * plain["parts"][0]["planning_rps"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--horizon", "0s"), "horizon"),
        (("--horizon", "soon"), "--horizon"),
        (("--horizon", "3d", "--step", "7min"), "step"),
        (("--horizon", "3d", "--by", "modle"), "model"),
        (("--horizon", "3d", "--event", "launch"), "NAME:FROM:TO"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], trace: Path, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = ending(capsys, str(trace), *MAP, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_an_hour_of_traffic_is_too_short(capsys: pytest.CaptureFixture[str], shared_data: Path) -> None:
    code, _, err = ending(capsys, str(shared_data / "traces" / "azure2023_conv.parquet"))
    assert code == 2
    assert "too short to forecast from" in err


def test_dates_need_a_calendar() -> None:
    with pytest.raises(InputError, match="no calendar"):
        parse_event("launch:2026-12-01:2026-12-03:2", calendar=False)


def test_python_callers_get_the_value() -> None:
    found = verbs.forecast(horizon_s=86_400.0)
    assert found.parts[0].forecast.steps == 96
    assert found.parts[0].planning_rps >= found.parts[0].forecast.mean


@pytest.mark.slow
def test_a_published_fortnight_is_forecast_by_model(capsys: pytest.CaptureFixture[str], shared_data: Path) -> None:
    source = str(shared_data / "traces" / "servegen_client_rates.parquet")
    found = answered(capsys, source, "--horizon", "2d", "--step", "1h", "--by", "model")
    parts = {each["history"]["name"]: each for each in found["parts"]}
    assert 60.0 < parts["m-large"]["forecast"]["mean"] < 350.0
    assert parts["m-large"]["forecast"]["scores"]["observations"] > 48


@pytest.mark.parametrize(
    "arguments",
    [("--percentile", "100%"), ("--percentile", "0%"), ("--step", "1ms"), ("--horizon", "100000d")],
)
def test_what_no_forecast_can_say_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, str]
) -> None:
    code, out, err = ending(capsys, *arguments)
    assert (code, out) == (2, "")
    assert arguments[0].lstrip("-") in err
