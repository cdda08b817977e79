"""Measured step profiles: a CSV of ours, Dynamo's sweep, and AIConfigurator through a stand-in of its package."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.readers.profiles import aiconfigurator, read_profile_rows
from ullage.readers.profiles.aiconfigurator import ProfileQuery, profile_rows
from ullage.service.steps.profile_table import read_profile

REPLICA = ["--model", "llama-3.1-8b", "--device", "h100-sxm"]
LOAD = ["--prompt-tokens", "500", "--output-tokens", "50", "--rate", "2", "--span", "60s", "--json"]
CSV = (
    "kind,sequences,kv_tokens,tokens,duration_s\n"
    "decode,1,1000,0,0.02\ndecode,64,64000,0,0.04\nprefill,0,0,100,0.03\nprefill,0,0,1000,0.09\n"
)


class Engine:
    """Steps of 10 ms and a little; the package answers in milliseconds."""

    def predict_decode_latency(self, sequences: int, context_tokens: int, output_tokens: int) -> float:
        return 10.0 + 0.1 * sequences + 1e-5 * sequences * context_tokens

    def predict_prefill_latency(self, sequences: int, tokens: int) -> float:
        return 10.0 + 0.05 * tokens


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A stand-in for aiconfigurator-core that knows one model; what it was asked for is kept."""
    asked: list[tuple[Any, ...]] = []

    class EngineHandle:
        @staticmethod
        def compile(model: str, system: str, backend: str, **cuts: int) -> Engine:
            asked.append((model, system, backend, cuts))
            if model != "meta-llama/Llama-3.1-8B-Instruct":
                raise RuntimeError(f"no config of {model}")
            return Engine()

    modules = {
        name: types.ModuleType(name)
        for name in ("aiconfigurator_core", "aiconfigurator_core.sdk", "aiconfigurator_core.sdk.engine")
    }
    modules["aiconfigurator_core.sdk.engine"].__dict__["EngineHandle"] = EngineHandle
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(aiconfigurator, "installed_version", lambda: "0.12.0")
    return asked


def simulated(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert run(["simulate", *REPLICA, *LOAD, *more]) == ExitCode.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_package_is_asked_in_its_own_names(package: list[tuple[Any, ...]]) -> None:
    names = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct")
    rows = profile_rows(ProfileQuery(model_names=names, device="h100-sxm", engine="tensorrt-llm", tp=4, ep=2))
    assert package[-1][:3] == ("meta-llama/Llama-3.1-8B-Instruct", "h100_sxm", "trtllm")
    assert package[-1][3]["tp_size"] == 4
    assert (package[-1][3]["moe_tp_size"], package[-1][3]["moe_ep_size"]) == (2, 2)
    grid, measured = read_profile(rows)
    assert measured.sequences == 256
    assert grid.prefill[0][1] == pytest.approx(0.0132)


def test_simulate_on_it_is_profiled(package: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, "--step-profile", "aiconfigurator")
    assert found["step"]["evidence"] == "profiled"
    # A step of one or two sequences takes a little over 10 ms by the stand-in.
    assert found["served"]["classes"][0]["latencies"]["tpot"]["quantiles_s"]["0.5"] == pytest.approx(0.0105, rel=0.2)


def test_what_it_does_not_know_is_named(package: list[tuple[Any, ...]]) -> None:
    with pytest.raises(InputError, match="no config of nobody/none"):
        profile_rows(ProfileQuery(model_names=["nobody/none"], device="h100-sxm", engine="vllm"))
    with pytest.raises(InputError, match="mi300x"):
        profile_rows(ProfileQuery(model_names=["nobody/none"], device="mi300x", engine="vllm"))


def test_without_the_package_its_installation_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(InputError, match="pip install aiconfigurator-core"):
        profile_rows(ProfileQuery(model_names=["a/b"], device="h100-sxm", engine="vllm"))


def test_a_csv_of_steps_takes_the_place_of_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "steps.csv"
    file.write_text(CSV)
    found = simulated(capsys, "--step-profile", str(file))
    assert found["step"]["evidence"] == "profiled"
    assert found["served"]["classes"][0]["latencies"]["tpot"]["quantiles_s"]["0.5"] == pytest.approx(0.021, rel=0.1)


def test_a_plan_file_may_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "steps.csv").write_text(CSV)
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nservice: chat\nworkload:\n  classes:\n"
        "    - {name: chat, rate: 1 req/s, longest_context: 8Ki, slo: {ttft_p95: 2s}}\n"
        "pool: {model: llama-3.1-8b, device: h100-sxm}\nevidence: {step_profile: steps.csv}\n"
    )
    assert run(["simulate", "--plan", str(tmp_path / "plan.yaml"), "--span", "60s", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["step"]["evidence"] == "profiled"


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "has no rows"), ("kind,sequences\ndecode\n", "more or fewer cells"), ("a,b\n1,2\n", "columns")],
)
def test_a_file_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "steps.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_profile(read_profile_rows(file, field="--step-profile"))


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *REPLICA, *LOAD, "--step-profile", "gone.csv"]) == ExitCode.WRONG_INPUT
    assert "gone.csv" in capsys.readouterr().err
