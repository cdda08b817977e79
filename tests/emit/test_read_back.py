"""Emitted objects read back by the reader of a cluster's objects are the plan's own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.emitted import emitted, pool
from ullage.emit.scale_rule import scale_rule
from ullage.readers.kubernetes import read_running


def written(folder: Path, *targets: str, engine: str = "vllm", **asked: object) -> list[Path]:
    files = emitted(*targets, engine=engine, **asked)  # type: ignore[arg-type]
    for each in files:
        (folder / each.name).write_text(each.text)
    return [folder / each.name for each in files]


@pytest.mark.parametrize("scaler", ["keda", "hpa"])
def test_a_deployment_and_its_autoscaler_read_back(scaler: str, tmp_path: Path) -> None:
    files = [each for each in written(tmp_path, "deployment", scaler) if "adapter" not in each.name]
    (found,) = read_running(files).pools
    rule = scale_rule(pool())
    assert (found.name, found.kind, found.engine, found.model) == ("chat", "Deployment", "vllm", "Qwen/Qwen3-32B")
    assert found.devices_per_replica == 2
    assert (found.least_replicas, found.most_replicas) == (rule.least, rule.most) == (12, 45)
    assert (found.surge, found.unavailable) == ("6", "0")
    assert found.settings == {
        "served_name": "qwen3-32b",
        "tensor_parallel": "2",
        "max_context": "32768",
        "max_sequences": "32",
        "token_budget": "8192",
        "kv_dtype": "auto",
        "prefix_cache": "on",
    }


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_other_engines_read_back(engine: str, tmp_path: Path) -> None:
    (found,) = read_running(written(tmp_path, "deployment", engine=engine)).pools
    assert (found.engine, found.model, found.replicas) == (engine, "Qwen/Qwen3-32B", 41)
    assert {found.settings[key] for key in ("max_sequences",)} == {"32"}
    assert found.settings["tensor_parallel"] == "2"
    assert found.settings["max_context"] == "32768"


def test_a_group_of_pods_reads_back(tmp_path: Path) -> None:
    (found,) = read_running(written(tmp_path, "leaderworkerset", sharding={"tp": 8, "pp": 2})).pools
    assert (found.kind, found.replicas, found.devices_per_replica) == ("LeaderWorkerSet", 41, 16)
    assert (found.surge, found.unavailable) == ("6", "0")
    assert found.settings["pipeline_parallel"] == "2"


@pytest.mark.parametrize("target", ["production-stack", "kserve", "kserve-llm"])
def test_services_and_charts_read_back(target: str, tmp_path: Path) -> None:
    (found,) = read_running(written(tmp_path, target)).pools
    rule = scale_rule(pool())
    assert (found.name, found.engine, found.model) == ("chat", "vllm", "Qwen/Qwen3-32B")
    assert (found.devices_per_replica, found.settings["tensor_parallel"]) == (2, "2")
    assert (found.settings["max_sequences"], found.settings["token_budget"]) == ("32", "8192")
    assert (found.least_replicas, found.most_replicas) == (rule.least, rule.most)
    assert found.rule is not None
