"""The step model of a pool: on a calibration, on load tests, or estimated; and the band of each."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from support.calibrations import calibration_document, spread
from support.loadtest_samples import to_json, vllm_run
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.evidence import Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.readers.loadtests import read_loadtest
from ullage.service.calibration.evidence import evidence_of
from ullage.service.calibration.pool_step import StepEvidence, pool_step
from ullage.service.stage import band_of

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


@pytest.fixture(scope="module")
def memory() -> MemoryBudget:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=8192)
    found = memory_budget(find_model("llama-3.1-8b"), find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found


def test_without_evidence_it_is_the_estimate(memory: MemoryBudget) -> None:
    step = pool_step(memory)
    assert step.evidence is Evidence.ESTIMATED
    assert step.notes == ()


def test_a_calibration_scales_the_estimate(memory: MemoryBudget) -> None:
    tested = StepEvidence(calibrations=(evidence_of(calibration_document(), file="c.json"),))
    step, estimate = pool_step(memory, tested), pool_step(memory)
    assert step.evidence is Evidence.CALIBRATED
    assert step.step_s(sequences=1, kv_tokens=1) == pytest.approx(1.5 * estimate.step_s(sequences=1, kv_tokens=1))


def test_of_several_calibrations_the_pools_own_is_taken(memory: MemoryBudget) -> None:
    other, own = (
        evidence_of(calibration_document(device="h200-sxm"), file="a"),
        evidence_of(calibration_document(), file="b"),
    )
    assert pool_step(memory, StepEvidence(calibrations=(other, own))).evidence is Evidence.CALIBRATED
    engine = evidence_of(calibration_document(engine="sglang"), file="c")
    with pytest.raises(InputError, match=r"provenance\.engine"):
        pool_step(memory, StepEvidence(calibrations=(engine,)))
    accepted = StepEvidence(calibrations=(engine,), accepted=("engine",))
    assert pool_step(memory, accepted).evidence is Evidence.CALIBRATED
    with pytest.raises(InputError, match="same configuration"):
        pool_step(memory, StepEvidence(calibrations=(own, own)))


def test_load_tests_are_fitted_where_they_are_used(memory: MemoryBudget, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_bytes(to_json(vllm_run(1.0)))
    tested = StepEvidence(load_tests=((read_loadtest(file), SOURCE),))
    step = pool_step(memory, tested)
    assert step.evidence is Evidence.CALIBRATED
    assert "1 load-test points" in step.facts[0].source.what
    assert any("do not identify" in note for note in step.notes)
    # One sequence of the test takes 20 ms a token, against about 7 of the estimate.
    assert step.step_s(sequences=4, kv_tokens=1_000) > 1.3 * pool_step(memory).step_s(sequences=4, kv_tokens=1_000)


def test_load_tests_beside_a_calibration_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_bytes(to_json(vllm_run(1.0)))
    with pytest.raises(InputError, match="already fits to load tests"):
        StepEvidence(
            calibrations=(evidence_of(calibration_document(), file="c.json"),),
            load_tests=((read_loadtest(file), SOURCE),),
        )


def with_spread(each: float, **changes: Any) -> dict[str, Any]:
    made = calibration_document(**changes)
    return {**made, "calibration": {**made["calibration"], "spread": spread(each)}}


def test_the_band_of_a_plan_is_the_calibrations_own(memory: MemoryBudget) -> None:
    """Factors that are known less make a wider band, and so does a replica that may run more than was tested."""

    def slow(document: dict[str, Any]) -> float:
        tested = StepEvidence(calibrations=(evidence_of(document, file="c.json"),))
        return band_of(pool_step(memory, tested)).slow_ratio

    known, guessed = slow(with_spread(0.01)), slow(with_spread(0.2))
    assert 1.05 < known < guessed
    little = {**with_spread(0.01), "tested": {"sequences": 2, "kv_tokens": 2_500, "prefill_tokens": 1_000}}
    assert slow(little) > known


@pytest.mark.parametrize("change", [{"device": "h200-sxm"}, {"tp": 2}])
def test_tests_of_another_device_scale_an_estimate_and_leave_it_one(
    memory: MemoryBudget, change: dict[str, Any]
) -> None:
    step = pool_step(memory, StepEvidence(calibrations=(evidence_of(calibration_document(**change), file="c.json"),)))
    estimate = pool_step(memory)
    assert step.evidence is Evidence.ESTIMATED
    assert step.band == estimate.band
    assert step.step_s(sequences=1, kv_tokens=1) == pytest.approx(1.5 * estimate.step_s(sequences=1, kv_tokens=1))
    assert any("remains an estimate" in note for note in step.notes)


PLAN = """
version: 1
service: chat
workload:
  classes:
    - {name: chat, rate: 1 req/s, longest_context: 8Ki, slo: {ttft_p95: 2s, tpot_p95: 200ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.mark.slow
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


def test_what_was_wrong_with_the_tests_of_a_fit_is_told_to_whoever_uses_it() -> None:
    given = {**calibration_document(), "anomalies": [{"sentence": "Two tests disagree."}, {"name": "other"}, 3]}
    assert evidence_of(given, file="c.json").notes == ("Two tests disagree.",)
    assert evidence_of(calibration_document(), file="c.json").notes == ()
