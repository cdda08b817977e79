"""From a plan file to a specification: statements stay stated, gaps become named defaults, nothing is lost."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence
from ullage.load.plan import load_plan

AS_OF = datetime.date(2026, 11, 15)
LEAST = """\
version: 1
service: least
workload:
  classes:
    - {name: chat, rate: 8 req/s, longest_context: 8192, slo: {ttft_p95: 1s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def test_what_is_stated_is_stated_and_the_rest_is_assumed(tmp_path: Path) -> None:
    spec = load_plan(_file(tmp_path, LEAST), as_of=AS_OF)
    evidence = {each.name: each.evidence for each in spec.inputs}
    stated = {name for name, each in evidence.items() if each is Evidence.STATED}
    assert stated == {"chat.ttft_p95", "chat.mean_rate", "chat.longest_context", "pool.model", "pool.device"}
    assert all(each is Evidence.ASSUMED for name, each in evidence.items() if name not in stated)
    assert {"policy.horizon", "policy.zones", "pool.tensor_parallel", "pool.engine"} <= set(evidence)


def test_the_date_of_a_statement_is_the_files_own(tmp_path: Path) -> None:
    spec = load_plan(_file(tmp_path, LEAST + "dated: 2026-09-01\n"), as_of=AS_OF)
    assert spec.demands[0].mean_rate.source.date == datetime.date(2026, 9, 1)
    assert load_plan(_file(tmp_path, LEAST), as_of=AS_OF).demands[0].mean_rate.source.date == AS_OF


def test_the_example_is_nobodys_statement() -> None:
    assert {each.evidence for each in load_plan(None, as_of=AS_OF).inputs} == {Evidence.ASSUMED}


def test_a_plan_that_does_not_fit_is_refused_with_remedies(tmp_path: Path) -> None:
    found = verbs.plan(_file(tmp_path, LEAST.replace("llama-3.1-8b", "llama-3.1-70b")), as_of=AS_OF)
    assert isinstance(found, Rejection)
    assert found.stage == "memory"
    assert found.remedies


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("llama-3.1-8b", "llama-9", "model = 'llama-9': is not known. Did you mean"),
        ("h100-sxm", "h300", "pool.device = 'h300': is not known. Did you mean"),
        ("ttft_p95", "ttfb_p95", "workload.classes.chat.slo.ttfb_p95 = '1s': is not a metric and a percentile."),
        (
            "ttft_p95",
            "ttft_p100",
            "is not a metric and a percentile. Write ttft, tpot, itl or e2e and a percentile between 0 and 100",
        ),
        ("h100-sxm}", "h100-sxm, tensor_parallel: 3}", "pool.tensor_parallel = '3': does not divide"),
        (
            "slo: {ttft_p95: 1s}}",
            "slo: {ttft_p95: 1s}}\n    - {name: chat, rate: 1 req/s, longest_context: 100, slo: {ttft_p95: 1s}}",
            "workload.classes = 'chat': appears twice.",
        ),
        ("h100-sxm}", "h100-sxm}\nevidence: {engine_logs: [missing.log]}", "missing.log"),
        ("h100-sxm}", "h100-sxm}\nfacts: nowhere", "is not a directory"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in LEAST
    with pytest.raises(InputError) as caught:
        verbs.plan(_file(tmp_path, LEAST.replace(old, new)), as_of=AS_OF)
    assert message in str(caught.value)


def test_a_binary_file_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="is not text"):
        verbs.plan(tmp_path / "plan.yaml", as_of=AS_OF)


def test_paths_are_relative_to_the_plan_file(tmp_path: Path) -> None:
    overlay = tmp_path / "mine" / "devices"
    overlay.mkdir(parents=True)
    (overlay / "h100-sxm.toml").write_text(
        'source = "us"\n[sources.us]\nwhat = "our own rack"\nwhere = "inventory"\ndate = 2026-11-01\n'
        'evidence = "measured"\n[values]\nmemory = "70 GiB"\n'
    )
    spec = load_plan(_file(tmp_path, LEAST + "facts: mine\n"), as_of=AS_OF)
    assert spec.pool.device.memory_bytes == 70 * 2**30


def _week_of_requests(folder: Path) -> None:
    """Three weeks of an hourly clock: short prompts by day, long ones now and then."""
    start = datetime.datetime(2026, 10, 19, tzinfo=datetime.UTC)
    rows = ["arrival_time,prompt_tokens,output_tokens"]
    for minute in range(0, 21 * 24 * 60, 5):
        when = start + datetime.timedelta(minutes=minute)
        count = 3 if 8 <= when.hour < 20 else 1
        rows += [f"{when.isoformat()},{4000 if minute % 25 == 0 else 300 + minute % 50},{20 + minute % 90}"] * count
    (folder / "log.csv").write_text("\n".join(rows))


TRACED = """\
version: 1
service: traced
workload:
  trace: [log.csv]
  classes:
    - {name: short, longest_context: 8192, slo: {ttft_p95: 1s}, match: {below_prompt_tokens: 2000}}
    - {name: long, longest_context: 8192, slo: {ttft_p95: 3s}, match: {from_prompt_tokens: 2000}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.mark.slow
def test_a_trace_gives_rates_shapes_and_the_workload_stage(tmp_path: Path) -> None:
    _week_of_requests(tmp_path)
    found = verbs.plan(_file(tmp_path, TRACED), as_of=AS_OF, quick=True)
    assert not isinstance(found, Rejection)
    rates = {each.name: each for each in found.spec.inputs if each.name.endswith("mean_rate")}
    assert {each.evidence for each in rates.values()} == {Evidence.MEASURED}
    assert rates["long.mean_rate"].value == pytest.approx(float(rates["short.mean_rate"].value) / 4, rel=0.01)
    assert found.find("workload.requests").value == 21 * 12 * (12 * 3 + 12)
    assert found.find("demand.short.planning_rate").evidence is Evidence.MEASURED
    assert float(found.find("demand.short.planning_rate").value) > float(rates["short.mean_rate"].value)
    assert found.find("demand.long.prompt_p50").value == pytest.approx(4000, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (", match: {from_prompt_tokens: 2000}", "", "workload.classes = 'long': is not known."),
        ("log.csv", "none.csv", "names no file"),
        ("  trace: [log.csv]\n", "", "workload.classes.short.rate = None: is missing. Give a rate such as 12 req/s"),
    ],
)
def test_a_fault_with_a_trace_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    _week_of_requests(tmp_path)
    assert old in TRACED
    with pytest.raises(InputError) as caught:
        verbs.plan(_file(tmp_path, TRACED.replace(old, new)), as_of=AS_OF)
    assert message in str(caught.value)
