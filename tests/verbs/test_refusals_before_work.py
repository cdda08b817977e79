"""What is typed wrong to emit, scenarios, ledger and reconcile is told before any work, and nothing is touched."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from support.emitted import NAMES, document
from ullage.cli.app import run
from ullage.errors import ExitCode

PLAN = """
version: 1
service: made by hand
workload:
  classes:
    - {name: chat, rate: 20 req/s, longest_context: 16384, slo: {ttft_p95: 1s, tpot_p95: 80ms}}
    - {name: coding, rate: 4 req/s, longest_context: 32768, slo: {ttft_p95: 3s, e2e_p95: 30s}, priority: 1}
pool: {model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
emit:
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN + "".join(f"  {line}\n" for line in NAMES.strip().splitlines()))
    Path("plan.json").write_text(json.dumps(document()))
    Path("short").write_text("x")
    Path("empty").write_text("")
    Path("list.yaml").write_text("- 1\n")
    Path("line.json").write_text("{}\n")
    Path("manifests").mkdir()
    Path("manifests/binary.yaml").write_bytes(bytes(range(256)))
    with sqlite3.connect("other.sqlite") as other:
        other.execute("CREATE TABLE customers (name TEXT)")
    other.close()
    return tmp_path


EMIT = "emit plan.yaml --plan plan.json --target keda"
TYPED = [
    ("emit plan.yaml --target keda --plan nowhere.json", "file = 'nowhere.json': no such file"),
    (f"{EMIT} --out short", "--out = 'short': is not a folder"),
    (f"{EMIT} --out short/below", "lies in no existing folder"),
    (f"{EMIT} --diff manifests", "--diff = 'manifests/binary.yaml': is not text"),
    (f"{EMIT} --diff nowhere", "--diff = 'nowhere': is not a folder"),
    ("scenarios plan.yaml --own x:pool.modle=1", "is not a known key"),
    ("scenarios plan.yaml --own x:traffic=lots", "--own = 'lots': is not a change of traffic"),
    ("scenarios plan.yaml --own x:traffic=+1% --own x:traffic=+2%", "names two scenarios"),
    ("ledger --ledger short", "ledger = 'short': is not a ledger"),
    ("ledger --ledger empty", "ledger = 'empty': is empty"),
    ("ledger --ledger manifests", "ledger = 'manifests': is a folder"),
    ("ledger --ledger other.sqlite", "is a database of something else: it holds customers"),
    ("ledger import line.json --ledger other.sqlite", "line.json:1 = '{}\\n': is not an entry"),
    ("ledger import nowhere --ledger new.sqlite", "import = 'nowhere': no such file"),
    ("ledger import line.json --ledger new.sqlite", "nothing was imported"),
    ("ledger import empty --ledger short", "ledger = 'short': is not a ledger"),
    ("reconcile nowhere.json --plan plan.yaml", "file = 'nowhere.json': no such file"),
    ("reconcile line.json --plan plan.yaml", "is not the answer to a range query"),
    ("reconcile line.json --names list.yaml", "list.yaml = '- 1\\n': is not a mapping"),
    ("reconcile line.json --names manifests/binary.yaml", "is not text"),
    ("reconcile --queries --from 2026-11-08 --until 2026-11-01", "--until = '2026-11-01': is not after --from"),
]


@pytest.mark.parametrize(("typed", "said"), TYPED, ids=[typed for typed, _ in TYPED])
def test_what_is_typed_wrong_is_told_at_once_and_nothing_is_touched(
    typed: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {each: each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}
    assert run([*typed.split(" "), *([] if typed.startswith("ledger") else ["--quiet"])]) == ExitCode.WRONG_INPUT
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert said in found.err
    assert {each: each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()} == before


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scaling.threshold_requests", -4, "is below 0.001"),
        ("scaling.threshold_requests", float("inf"), "garbles scaling.threshold_requests"),
        ("scaling.least_replicas", 99, "scaling.most_replicas = 45.0: is below 99"),
        ("scaling.most_replicas", 0, "is below 12"),
        ("scaling.down_window_s", 1e9, "is above 3600"),
        ("scaling.window_s", 0, "is below 1"),
    ],
)
def test_a_stored_plan_that_no_plan_says_makes_no_file(
    name: str, value: float, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = document()
    stored["figures"][name]["value"] = value
    (folder / "plan.json").write_text(json.dumps(stored))
    assert run([*EMIT.split(" "), "--out", "new", "--quiet"]) == ExitCode.WRONG_INPUT
    assert said in capsys.readouterr().err
    assert not (folder / "new").exists()
