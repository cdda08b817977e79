"""Measured step profiles: a CSV of ours, Dynamo's sweep, and packages of kernel tables, by a stand-in and for real."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.readers.profiles import kernel_tables, packages, read_profile_rows
from ullage.readers.profiles.kernel_tables import KernelQuery, NoKernelsError, kernel_rows
from ullage.readers.profiles.packages import package_rows
from ullage.service.steps.profile_table import KERNELS, read_profile

REPLICA = ["--model", "llama-3.1-8b", "--device", "h100-sxm"]
LOAD = ["--prompt-tokens", "500", "--output-tokens", "50", "--rate", "2", "--span", "60s", "--json"]
CSV = (
    "kind,sequences,kv_tokens,tokens,duration_s\n"
    "decode,1,1000,0,0.02\ndecode,64,64000,0,0.04\nprefill,0,0,100,0.03\nprefill,0,0,1000,0.09\n"
)
PEERS = Path(__file__).resolve().parents[3] / ".venv-peers"


class Engine:
    """Steps of 7.5 ms and a little; the packages answer in milliseconds. `isl` has the prefix inside it."""

    def __init__(self, *, has_prefill: bool) -> None:
        self.has_prefill = has_prefill

    def predict_decode_latency(self, sequences: int, context_tokens: int, output_tokens: int) -> float:
        return 7.5 + 0.03 * sequences + 3e-5 * sequences * context_tokens

    def predict_prefill_latency(self, sequences: int, isl: int, prefix: int) -> float:
        assert isl > prefix
        if not self.has_prefill:
            raise RuntimeError("no such kernel")
        return 6.0 + 0.03 * (isl - prefix) + 1e-7 * prefix * (isl - prefix)


@pytest.fixture(params=["aiconfigurator", "aisimulate"])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[tuple[Any, ...]]]:
    """A stand-in for either package that knows one model; what it was asked for is kept."""
    asked: list[tuple[Any, ...]] = []

    class EngineHandle:
        @staticmethod
        def compile(model: str, system: str, backend: str, **given: Any) -> Engine:
            asked.append((model, system, backend, given))
            if model != "meta-llama/Llama-3.1-8B-Instruct":
                raise RuntimeError(f"no config of {model}")
            return Engine(has_prefill=backend != "trtllm" or "fmha_quant_mode" in given)

    core = f"{request.param}_core"
    modules = {name: types.ModuleType(name) for name in (core, f"{core}.sdk", f"{core}.sdk.engine")}
    modules[f"{core}.sdk.engine"].__dict__["EngineHandle"] = EngineHandle
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(packages, "version", lambda _: "0.12.0")
    return request.param, asked


def simulated(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert run(["simulate", *REPLICA, *LOAD, *more]) == ExitCode.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def tpot_s(found: dict[str, Any]) -> float:
    return float(found["served"]["classes"][0]["latencies"]["tpot"]["quantiles_s"]["0.5"])


def test_a_package_is_asked_in_its_own_names(package: tuple[str, list[tuple[Any, ...]]]) -> None:
    name, asked = package
    names = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct")
    found = read_profile(
        kernel_rows(name, KernelQuery(model_names=names, device="h100-sxm", engine="tensorrt-llm", tp=4, ep=2))
    )
    assert asked[-1][:3] == ("meta-llama/Llama-3.1-8B-Instruct", "h100_sxm", "trtllm")
    assert asked[-1][3]["tp_size"] == 4
    assert (asked[-1][3]["moe_tp_size"], asked[-1][3]["moe_ep_size"]) == (2, 2)
    # Prefill kernels of the checkpoint's own precision were not there, and were asked for at 16 bits.
    assert found.grid.prefill
    assert found.timed == KERNELS
    assert (found.subject.hardware, found.subject.engine, found.subject.tp) == ("h100-sxm", "tensorrt-llm", 4)
    assert found.measured.sequences == 512


def test_simulate_on_a_package_is_profiled(
    package: tuple[str, list[tuple[Any, ...]]], capsys: pytest.CaptureFixture[str]
) -> None:
    found, estimated = simulated(capsys, "--step-profile", package[0]), simulated(capsys)
    assert found["step"]["evidence"] == "profiled"
    assert estimated["step"]["evidence"] == "estimated"
    # Half-way, as a ratio, between the estimate and a little over 7.5 ms.
    assert tpot_s(found) == pytest.approx((tpot_s(estimated) * 0.0077) ** 0.5, rel=0.05)


def test_what_a_package_does_not_know_is_named(package: tuple[str, list[tuple[Any, ...]]]) -> None:
    nobody = KernelQuery(model_names=["nobody/none"], device="h100-sxm", engine="vllm")
    with pytest.raises(NoKernelsError, match="no config of nobody/none"):
        kernel_rows(package[0], nobody)
    with pytest.raises(InputError, match=r"no steps of nobody/none on h100-sxm: no config"):
        package_rows(package[0], nobody, field="--step-profile")
    with pytest.raises(InputError, match="mi300x"):
        package_rows(
            package[0], KernelQuery(model_names=["a/b"], device="mi300x", engine="vllm"), field="--step-profile"
        )


def test_without_a_package_its_installation_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *REPLICA, *LOAD, "--step-profile", "aisimulate"]) == ExitCode.WRONG_INPUT
    assert "pip install aisimulate" in capsys.readouterr().err


@pytest.mark.parametrize("name", kernel_tables.PACKAGES)
@pytest.mark.slow
def test_the_real_package_answers_by_the_script(name: str) -> None:
    """In the environment that `make bench-peers` makes: twice the devices make steps shorter, and not by half."""
    python = PEERS / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment of {name}; `python -m bench.profiles {name}` makes it")
    steps = {}
    for tp in (1, 2):
        arguments = ["--package", name, "--model", "Qwen/Qwen3-32B", "--device", "h100-sxm", "--engine", "vllm"]
        done = subprocess.run(
            [python, str(kernel_tables.__file__), *arguments, "--tp", str(tp)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = read_profile(csv.DictReader(io.StringIO(done.stdout)))
        assert (found.subject.model, found.subject.tp, found.timed) == ("Qwen/Qwen3-32B", tp, KERNELS)
        assert found.grid.prefill
        steps[tp] = np.array([each.duration_s for each in found.grid.decode])
    assert (steps[2] < steps[1]).all()
    assert (steps[2] > 0.45 * steps[1]).all()


def test_a_csv_of_steps_takes_the_place_of_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "steps.csv"
    file.write_text(CSV)
    found = simulated(capsys, "--step-profile", str(file))
    assert found["step"]["evidence"] == "profiled"
    # 20 ms, and the prompts of others in between.
    assert tpot_s(found) == pytest.approx(0.0225, rel=0.1)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("model", "Qwen/Qwen3-32B", "tested the model Qwen/Qwen3-32B"),
        ("device", "a100-80gb-sxm", "ran on a100-80gb-sxm"),
        ("engine", "sglang", "tested sglang"),
        ("tp", "4", "ran with tp = 4"),
        ("ep", "2", "ran with ep = 2"),
        ("precision", "fp8", "tested fp8 weights"),
    ],
)
def test_a_profile_of_another_replica_is_refused(
    column: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rest = CSV.splitlines()
    file = tmp_path / "steps.csv"
    file.write_text("\n".join([f"{head},{column}", *(f"{row},{value}" for row in rest)]))
    assert run(["simulate", *REPLICA, *LOAD, "--step-profile", str(file)]) == ExitCode.WRONG_INPUT
    assert f"step profile {said}" in " ".join(capsys.readouterr().err.split())


def test_a_plan_file_may_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "steps.csv").write_text(CSV)
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nservice: chat\nworkload:\n  classes:\n"
        "    - {name: chat, rate: 1 req/s, longest_context: 8Ki, slo: {ttft_p95: 2s}}\n"
        "pool: {model: llama-3.1-8b, device: h100-sxm}\nevidence: {step_profile: steps.csv}\n"
    )
    assert run(["simulate", "--plan", str(tmp_path / "plan.yaml"), "--span", "60s", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["step"]["evidence"] == "profiled"


@pytest.mark.parametrize("kind", ["npz", "json"])
def test_a_folder_of_dynamo(kind: str, tmp_path: Path) -> None:
    prefill = {"prefill_isl": [100.0, 1000.0], "prefill_ttft": [20.0, 90.0]}
    decode = {"x_kv_usage": [0.1, 0.5], "y_context_length": [500.0, 500.0], "z_itl": [9.0, 14.0]}
    if kind == "npz":
        for name, arrays in (("prefill", prefill), ("decode", {**decode, "max_kv_tokens": [100_000.0]})):
            folder = tmp_path / f"selected_{name}_interpolation"
            folder.mkdir()
            save: Any = np.savez
            save(folder / "raw_data.npz", **{key: np.array(each) for key, each in arrays.items()})
    else:
        (tmp_path / "prefill_raw_data.json").write_text(json.dumps(prefill))
        (tmp_path / "decode_raw_data.json").write_text(json.dumps({**decode, "max_kv_tokens": 100_000}))
    found = read_profile(read_profile_rows(tmp_path, field="--step-profile"))
    decodes, prompts = found.grid.decode, found.grid.prefill
    assert [(each.sequences, each.kv_tokens) for each in decodes] == [(20, 10_000), (100, 50_000)]
    assert [each.duration_s for each in decodes] == pytest.approx([0.009, 0.014])
    assert [(each.tokens, each.prefix_tokens) for each in prompts] == [(100, 0), (1_000, 0)]
    assert [each.duration_s for each in prompts] == pytest.approx([0.02, 0.09])
    assert found.is_client


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("steps.csv", "", "has no rows"),
        ("steps.csv", "kind,sequences\ndecode\n", "more or fewer cells"),
        ("steps.csv", "a,b\n1,2\n", "columns"),
        ("raw_data.npz", "PK not a zip", "cannot be read"),
        ("steps.json", "{", "is not JSON"),
        ("steps.json", "[1]", "no points"),
        ("steps.json", '{"z_itl": [1], "x_kv_usage": [1, 2], "y_context_length": [1]}', "as many values"),
        ("steps.json", '{"z_itl": [1], "x_kv_usage": [1], "y_context_length": [1]}', "max_kv_tokens"),
    ],
)
def test_a_file_that_is_none_is_refused(name: str, content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        read_profile(read_profile_rows(file, field="--step-profile"))


def test_a_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="selected_prefill_interpolation"):
        read_profile_rows(tmp_path, field="--step-profile")


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *REPLICA, *LOAD, "--step-profile", "gone.csv"]) == ExitCode.WRONG_INPUT
    assert "gone.csv" in capsys.readouterr().err
