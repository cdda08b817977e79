"""The range of load tests: more load and longer prompts widen it, and a point beyond it says extrapolated."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from support.loadtest_samples import to_json, vllm_run
from ullage.cli.app import run
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.report.encode import to_json as encoded
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay
from ullage.service.calibration.tested_range import range_of, range_tested
from ullage.service.curve.point import OperatingPoint
from ullage.service.steps.step_model import StepModel, roofline_model
from ullage.verbs.curve import CurveAnswer, curve

LIMITS = EngineLimits(max_sequences=64, budget_tokens=2048, kv_tokens=400_000)


@pytest.fixture(scope="module")
def step() -> StepModel:
    cache = kv_dtype("bf16")
    return roofline_model(
        find_model("llama-3.1-8b"), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=cache
    )


def closed(clients: int, prompt: int = 500) -> Measurement:
    count = 4 * clients
    trial = LoadTestReplay(
        prompt_tokens=np.full(count, prompt, np.int32),
        output_tokens=np.full(count, 100, np.int32),
        limits=LIMITS,
        clients=clients,
    )
    return Measurement(name=str(clients), trial=trial, targets=())


def test_a_closed_loop_covers_its_clients_up_to_the_engines_limit(step: StepModel) -> None:
    found = range_tested(step, [closed(4), closed(32)])
    assert found.sequences == 32
    assert found.kv_tokens == pytest.approx(32 * 550, rel=0.01)
    assert found.prefill_tokens == 500
    assert range_tested(step, [closed(500)]).sequences == LIMITS.max_sequences


def test_more_tests_never_narrow_the_range(step: StepModel) -> None:
    few, more = range_tested(step, [closed(8)]), range_tested(step, [closed(8), closed(2, prompt=5_000)])
    assert more.covers(sequences=few.sequences, kv_tokens=few.kv_tokens, prefill_tokens=few.prefill_tokens)
    assert more.prefill_tokens == LIMITS.budget_tokens


def test_an_open_loop_covers_what_little_says(step: StepModel) -> None:
    trial = LoadTestReplay(
        prompt_tokens=np.full(200, 500, np.int32),
        output_tokens=np.full(200, 100, np.int32),
        limits=LIMITS,
        arrival_s=np.arange(200) / 10.0,
    )
    found = range_tested(step, [Measurement(name="10 a second", trial=trial, targets=())])
    alone_s = step.step_s(sequences=8, kv_tokens=8 * 550) * 100
    assert found.sequences == pytest.approx(10.0 * alone_s, rel=0.3, abs=1.5)


def test_a_saved_range_is_read_back_and_a_missing_one_is_none(step: StepModel) -> None:
    found = range_tested(step, [closed(4)])
    assert range_of(encoded(found)) == found
    assert range_of(None) is None
    assert range_of({"sequences": 4}) is None


@pytest.mark.slow
def test_a_point_beyond_the_calibrations_tests_says_extrapolated(tmp_path: Path) -> None:
    """Four clients with short prompts say nothing about the sequences of the built-in example's point."""
    test, saved = tmp_path / "test.json", tmp_path / "calibration.json"
    test.write_bytes(to_json(vllm_run(1.0)))
    shape = ["--model", "qwen3-32b", "--device", "h100-sxm", "--tp", "2"]
    assert run(["calibrate", str(test), *shape, "--out", str(saved)]) == 0
    # One point far from the example's load has a wide band, which the example's own SLOs leave no room for.
    loose = ("chat:ttft_p95=5s", "coding:ttft_p95=10s")
    found = curve(calibration=saved, slos=loose, as_of=datetime.date(2026, 11, 15))
    assert isinstance(found, CurveAnswer)
    assert isinstance(found.point, OperatingPoint)
    assert found.point.is_extrapolated
    assert any(each.startswith("extrapolated") for each in found.point.anomalies)
