"""Time to ready from a plan file: storage, its rate, logs beside the file, and facts of one's own."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.load.plan import load_plan
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.planning.spec import PlanSpec
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady, time_to_ready

AS_OF = datetime.date(2026, 11, 15)
LEAST = """\
version: 1
service: least
workload:
  classes:
    - {name: chat, rate: 8 req/s, longest_context: 8192, slo: {ttft_p95: 1s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
LOG = """\
(APIServer pid=1) INFO 06-05 06:00:00 [api_server.py:1] vLLM API server version 0.22.0
(EngineCore pid=2) INFO 06-05 06:00:30 [runner.py:2] Model loading took 15.0 GiB memory and 20.0 seconds
(EngineCore pid=2) INFO 06-05 06:00:50 [core.py:3] init engine (profile, warmup) took 20.0 s
(APIServer pid=1) INFO 06-05 06:01:00 [api_server.py:4] Starting vLLM server on http://0.0.0.0:8000
"""


def spec_of(folder: Path, pool: str = "", rest: str = "") -> PlanSpec:
    path = folder / "plan.yaml"
    path.write_text(LEAST.replace("h100-sxm}", f"h100-sxm{pool}}}") + rest)
    return load_plan(path, as_of=AS_OF)


def ready_of(spec: PlanSpec) -> TimeToReady:
    pool = spec.pool
    memory = memory_budget(pool.model, pool.device, pool.settings, approved=pool.approved)
    assert isinstance(memory, MemoryBudget)
    return time_to_ready(memory, pool.start, rng=np.random.default_rng(0))


def test_the_default_storage_is_listed_as_assumed(tmp_path: Path) -> None:
    storage = next(each for each in spec_of(tmp_path).inputs if each.name == "pool.storage")
    assert (storage.value, storage.evidence) == ("shared-filesystem", Evidence.ASSUMED)


def test_storage_and_its_rate_are_stated(tmp_path: Path) -> None:
    slow = ready_of(spec_of(tmp_path, ", storage: object-store"))
    fast = ready_of(spec_of(tmp_path, ", storage: object-store, storage_bandwidth: 8 GB/s"))
    assert fast.level(Level.COLD).p50_s < slow.level(Level.COLD).p50_s
    assert fast.figures["ready.weights_p50_s"].value == pytest.approx(16.06 / 8, rel=1e-2)
    names = {each.name for each in spec_of(tmp_path, ", storage_bandwidth: 8 GB/s").inputs}
    assert "pool.storage_bandwidth" in names


def test_a_log_beside_the_plan_file_wins(tmp_path: Path) -> None:
    (tmp_path / "start.log").write_text(LOG)
    found = ready_of(spec_of(tmp_path, rest="evidence: {startup_logs: [start.log]}\n"))
    assert found.figures["ready.boot_p50_s"].value == pytest.approx(20.0, rel=1e-3)
    assert found.figures["ready.boot_p50_s"].evidence is Evidence.MEASURED
    replaced = {name for name in found.figures if name.startswith("ready.default.")}
    assert replaced == {f"ready.default.{phase}_p50_s" for phase in ("boot", "weights", "warmup")}


def test_facts_of_ones_own_lie_over_ours(tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "startups"
    folder.mkdir(parents=True)
    (folder / "platform.toml").write_text(
        'source = "us"\n[sources.us]\nwhat = "our node pool"\nwhere = "ops"\ndate = 2026-11-01\n'
        'evidence = "measured"\n[[phases]]\nphase = "node"\n'
        'value = { value = "70 s", low = "60 s", high = "90 s" }\n'
    )
    found = ready_of(spec_of(tmp_path, rest="facts: mine\n"))
    assert found.figures["ready.node_p50_s"].value == pytest.approx(70.0, rel=1e-3)
    assert found.figures["ready.node_p50_s"].evidence is Evidence.MEASURED


@pytest.mark.parametrize(
    ("pool", "rest", "message"),
    [
        (", storage: network-disc", "", "pool.storage = 'network-disc': is not known. Did you mean network-disk"),
        (", storage_bandwidth: 8", "", "pool.storage_bandwidth = '8'"),
        (", storage_bandwidth: 0 GB/s", "", "must be greater than 0"),
        ("", "evidence: {startup_logs: [missing.log]}\n", "missing.log"),
        ("", "evidence: {startup_log: [missing.log]}\n", "Did you mean startup_logs"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, pool: str, rest: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        spec_of(tmp_path, pool, rest)
    assert message in str(caught.value)
