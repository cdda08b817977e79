"""The step model of a pool: on a calibration, on load tests, or estimated; and the band of each."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import pytest

from support.loadtest_samples import to_json, vllm_run
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.readers.loadtests import read_loadtest
from ullage.service.calibration.calibration import Residual
from ullage.service.calibration.evidence import LEAST_RATIO, evidence_of, held_out_band
from ullage.service.calibration.pool_step import StepEvidence, pool_step
from ullage.service.stage import band_of

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


@pytest.fixture(scope="module")
def memory() -> MemoryBudget:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=8192)
    found = memory_budget(find_model("llama-3.1-8b"), find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found


def residual(error: float, latency: str = "tpot", point: int = 0) -> Residual:
    return Residual(
        point=str(point), latency=latency, statistic="mean", measured_value=1.0, simulated_value=math.exp(error)
    )


def document(**changes: Any) -> dict[str, Any]:
    held_out = [
        {"point": str(point), "latency": "tpot", "measured_value": 1.0, "simulated_value": 1.1}
        for point in range(changes.pop("points", 0))
    ]
    configuration = {
        "model": "llama-3.1-8b",
        "device": "h100-sxm",
        "engine": "vllm",
        "tp": 1,
        "pp": 1,
        "ep": 1,
        "dp_attention": 1,
        "kv_dtype": "bf16",
        "points": len(held_out),
        "date": "2026-11-01",
    }
    return {
        "schema": "ullage.calibrate/2",
        "provenance": {**configuration, **changes},
        "calibration": {
            "factors": {"fixed_ratio": 1.5, "growth_ratio": 1.0, "prefill_ratio": 1.0, "request_ratio": 1.0},
            "held_out": held_out,
        },
    }


def test_without_evidence_it_is_the_estimate(memory: MemoryBudget) -> None:
    step = pool_step(memory)
    assert step.evidence is Evidence.ESTIMATED
    assert step.notes == ()


def test_a_calibration_scales_the_estimate(memory: MemoryBudget) -> None:
    tested = StepEvidence(calibrations=(evidence_of(document(), file="c.json"),))
    step, estimate = pool_step(memory, tested), pool_step(memory)
    assert step.evidence is Evidence.CALIBRATED
    assert step.step_s(sequences=1, kv_tokens=1) == pytest.approx(1.5 * estimate.step_s(sequences=1, kv_tokens=1))


def test_of_several_calibrations_the_pools_own_is_taken(memory: MemoryBudget) -> None:
    other, own = evidence_of(document(device="h200-sxm"), file="a"), evidence_of(document(), file="b")
    assert pool_step(memory, StepEvidence(calibrations=(other, own))).evidence is Evidence.CALIBRATED
    with pytest.raises(InputError, match=r"provenance\.device"):
        pool_step(memory, StepEvidence(calibrations=(other,)))
    with pytest.raises(InputError, match="same configuration"):
        pool_step(memory, StepEvidence(calibrations=(own, own)))


def test_load_tests_are_fitted_where_they_are_used(memory: MemoryBudget, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_bytes(to_json(vllm_run(1.0)))
    tested = StepEvidence(load_tests=((read_loadtest(file), SOURCE),))
    step = pool_step(memory, tested)
    assert step.evidence is Evidence.CALIBRATED
    assert "1 load-test points" in step.facts[0].source.what
    assert any("do not tell" in note for note in step.notes)
    # One sequence of the test takes 20 ms a token, against about 7 of the estimate.
    assert step.step_s(sequences=4, kv_tokens=1_000) > 1.3 * pool_step(memory).step_s(sequences=4, kv_tokens=1_000)


def test_load_tests_beside_a_calibration_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_bytes(to_json(vllm_run(1.0)))
    with pytest.raises(InputError, match="fits to load tests already"):
        StepEvidence(
            calibrations=(evidence_of(document(), file="c.json"),), load_tests=((read_loadtest(file), SOURCE),)
        )


def test_the_band_is_the_calibrations_own_from_three_points_on(memory: MemoryBudget) -> None:
    assert held_out_band([residual(0.1), residual(-0.1, point=1)]) is None
    # Three statistics of one point are one point.
    assert held_out_band([residual(0.1), residual(-0.1), residual(0.1)]) is None
    found = held_out_band([residual(0.1), residual(-0.1, point=1), residual(0.1, point=2)])
    assert found is not None
    # Student's 90th percentile with three points is 1.638.
    assert found.tpot_high_ratio == pytest.approx(math.exp(1.638 * 0.1), rel=1e-3)
    step = pool_step(memory, StepEvidence(calibrations=(evidence_of(document(points=3), file="c.json"),)))
    assert band_of(step).slow_ratio == pytest.approx(1.1**1.638, rel=1e-3)
    two = pool_step(memory, StepEvidence(calibrations=(evidence_of(document(points=2), file="c.json"),)))
    assert band_of(two).slow_ratio == 1.10


def test_more_points_of_the_same_error_are_believed_more() -> None:
    few, many = (held_out_band([residual(0.1, point=each) for each in range(count)]) for count in (3, 30))
    assert few is not None
    assert many is not None
    assert many.tpot_high_ratio < few.tpot_high_ratio


def test_a_lucky_fit_is_not_believed_beyond_what_repeats_differ_by() -> None:
    found = held_out_band([residual(0.0, point=each) for each in range(5)])
    assert found is not None
    assert found.tpot_high_ratio == LEAST_RATIO


PLAN = """
version: 1
service: chat
workload:
  classes:
    - {name: chat, rate: 1 req/s, longest_context: 8Ki, slo: {ttft_p95: 2s, tpot_p95: 200ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.mark.parametrize("how", ["load_tests: [bench.json]", "calibrations: [calibration.json]"])
def test_a_plan_file_points_to_them(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.json").write_bytes(to_json(vllm_run(1.0)))
    (tmp_path / "plan.yaml").write_text(f"{PLAN}evidence: {{{how}}}\n")
    replica = ["--model", "llama-3.1-8b", "--device", "h100-sxm"]
    out = ["--out", str(tmp_path / "calibration.json")]
    assert run(["calibrate", str(tmp_path / "bench.json"), *replica, *out]) == ExitCode.OK
    capsys.readouterr()
    plan = ["--plan", str(tmp_path / "plan.yaml"), "--span", "60s", "--json"]
    assert run(["simulate", *plan]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["step"]["evidence"] == "calibrated"


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.yaml").write_text(f"{PLAN}evidence: {{calibrations: [gone.json]}}\n")
    assert run(["plan", str(tmp_path / "plan.yaml")]) == ExitCode.WRONG_INPUT
    # A long path is truncated in the middle of its name.
    assert "gone.j" in capsys.readouterr().err
