"""A calibration to tests of two pools: made, used by `simulate`, and taken by both sides of a plan."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from support.calibrations import FACTORS, calibration_document
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.evidence import Evidence
from ullage.load.plan import load_plan
from ullage.memory.budget import MemoryBudget
from ullage.planning.planned_for import pool_memory, pool_steps
from ullage.service.calibration.evidence import evidence_of
from ullage.service.disaggregated import HANDOVER_S
from ullage.service.stage import band_of

AS_OF = datetime.date(2026, 11, 15)
SPLIT = {
    "prefill_replicas": 1,
    "device": "h100-sxm",
    "tp": 2,
    "pp": 1,
    "ep": 1,
    "dp_attention": 1,
    "decode_replicas": 2,
    "transfer_bytes_per_s": 25e9,
    "overlapped_fraction": 0.0,
}
POOLS = ["--model", "llama-3.1-8b", "--device", "h100-sxm", "--replicas", "2", "--prefill", "1:tp=2"]
POOLS += ["--transfer", "25GB/s"]


def document(**more: Any) -> dict[str, Any]:
    factors = {**FACTORS, "request_ratio": 2.0}
    return {**calibration_document(factors), "split": {**SPLIT, **more}}


def sweep(folder: Path) -> Path:
    """Two loads of two pools, as InferenceX writes them."""
    shape = {"hw": "h100", "tput_per_gpu": 0.0, "isl": 2000, "osl": 60, "disagg": True}
    rows = [
        {**shape, "conc": 2, "mean_ttft": 0.22, "mean_tpot": 0.009},
        {**shape, "conc": 12, "mean_ttft": 0.4, "mean_tpot": 0.01},
    ]
    path = folder / "both.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.slow
def test_simulate_gives_what_calibrate_printed_of_two_pools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = str(sweep(tmp_path)), str(tmp_path / "c.json")
    assert run(["calibrate", file, *POOLS, "--out", out, "--json"]) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert made["split"] == SPLIT
    assert run(["simulate", "--load-test", file, *POOLS, "--calibration", out, "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    found = {
        (test["name"], each["latency"], each["statistic"]): each
        for test in told["predictions"]
        for each in test["latencies"]
    }
    for each in made["calibration"]["residuals"]:
        again = found[each["point"], each["latency"], each["statistic"]]
        # Ends and arrivals of clients settle to a hundred-thousandth of the run.
        assert again["predicted_s"] == pytest.approx(each["simulated_value"], rel=1e-4)
        assert again["low_s"] < again["predicted_s"] < again["high_s"]
    assert "1 prefill replica (tp=2 on h100-sxm) and 2 decode replicas, 25 GB/s" in told["replica"]
    made_up = ["--prompt-tokens", "2000", "--output-tokens", "60", "--rate", "2/s", "--span", "1min"]
    assert run(["simulate", *made_up, *POOLS, "--calibration", out, "--json"]) == ExitCode.OK
    served = json.loads(capsys.readouterr().out)
    assert run(["simulate", *made_up, *POOLS, "--json"]) == ExitCode.OK
    estimated = json.loads(capsys.readouterr().out)
    # What was measured here is slower than the estimate, on either side.
    for latency in ("ttft_p95_s", "tpot_p95_s"):
        assert served["asked"][latency] > estimated["asked"][latency]


def spec_of(folder: Path, given: dict[str, Any], **pool: Any) -> Any:
    (folder / "c.json").write_text(json.dumps(given))
    return load_plan(
        {
            "version": "1",
            "service": "small",
            "workload": {
                "classes": [
                    {
                        "name": "chat",
                        "rate": "2 req/s",
                        "longest_context": "4096",
                        "slo": {"ttft_p95": "2s", "tpot_p95": "60ms"},
                    }
                ]
            },
            "pool": {
                "model": "llama-3.1-8b",
                "device": "h100-sxm",
                "disaggregated": {"transfer": "10GB/s", "prefill": {"tensor_parallel": 2}},
                "evidence": {"calibrations": [str(folder / "c.json")]},
                **pool,
            },
            "prices": {"provider": "aws"},
        },
        as_of=AS_OF,
    )


def steps_of(spec: Any) -> dict[str, Any]:
    found = {}
    for pool in spec.pools:
        memory = pool_memory(pool)
        assert isinstance(memory, MemoryBudget)
        found[pool.name] = pool_steps(pool, memory)
    return found


def test_both_sides_of_a_plan_are_calibrated_by_tests_of_both(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, document())
    steps = steps_of(spec)
    assert [each.evidence for each in steps.values()] == [Evidence.CALIBRATED, Evidence.CALIBRATED]
    # A prompt errs as first tokens do, which is more than a token does.
    assert band_of(steps["pool-prefill"]).slow_ratio == steps["pool-prefill"].band.ttft_high_ratio
    assert [each.phase.transfer.handover_s for each in spec.pools] == pytest.approx([HANDOVER_S * 2.0] * 2)


@pytest.mark.parametrize("given", [calibration_document(), document(tp=4)])
def test_a_prefill_side_that_was_not_tested_stays_an_estimate(given: dict[str, Any], tmp_path: Path) -> None:
    steps = steps_of(spec_of(tmp_path, given))
    assert steps["pool-decode"].evidence is Evidence.CALIBRATED
    assert steps["pool-prefill"].evidence is Evidence.ESTIMATED
    assert "remains an estimate" in " ".join(steps["pool-prefill"].notes)


@pytest.mark.parametrize("wrong", [{"tp": "2"}, {"transfer_bytes_per_s": None}, {"decode_replicas": True}])
def test_a_damaged_split_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="split"):
        evidence_of(document(**wrong), file="c.json")


def test_a_plan_says_how_to_use_a_test_of_two_pools(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, document(), evidence={"load_tests": [str(sweep(tmp_path))]})
    decode = next(each for each in spec.pools if each.name == "pool-decode")
    memory = pool_memory(decode)
    assert isinstance(memory, MemoryBudget)
    with pytest.raises(InputError, match="the split is not stated") as refused:
        pool_steps(decode, memory)
    assert "ullage calibrate FILE --prefill" in refused.value.fix
    assert "evidence.calibrations" in refused.value.fix
