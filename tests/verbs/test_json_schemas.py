"""Every verb's `--json` is what its published schema says."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.json_schemas import FOLDER, VERBS, text_of, verb_schema
from support.loadtest_samples import to_json, vllm_run
from ullage.cli import help as command_line
from ullage.cli.app import run
from ullage.errors import ExitCode

Printer = Callable[..., dict[str, Any]]
# What `ullage profile --synthesize` prints, and a refusal of any verb, have a schema but no verb of their own.
BESIDE = {"synthetic", "refusal"}
SMALL = """
version: 1
service: small
dated: 2026-11-15
workload:
  classes: [{name: chat, rate: 6 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: aws, region: us-east-1, purchase: on-demand}
options: {devices: [h100-sxm, l40s], tensor_parallel: [1], lead_times: {months: 1}}
"""
RUNNING = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: pool}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: engine
          args: [serve, meta-llama/Llama-3.1-8B]
          resources: {limits: {nvidia.com/gpu: 1}}
"""


@functools.cache
def validator(verb: str) -> jsonschema.Draft202012Validator:
    schema = verb_schema(verb)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printer:
    """What a verb prints, held to its schema."""

    def ask(verb: str, *arguments: str, code: int = ExitCode.OK, schema: str = "") -> dict[str, Any]:
        assert run([verb, *arguments]) == code, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        validator(schema or verb).validate(found)
        return found

    return ask


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One place for all: where a plan file lies is part of what its plan says about its sources."""
    file = tmp_path_factory.mktemp("small") / "plan.yaml"
    file.write_text(SMALL)
    return str(file)


PLAIN = ("--json", "--as-of", "2026-11-15")
QUIET = (*PLAIN, "--quiet")


def test_every_verb_that_prints_json_has_a_schema() -> None:
    with_json = {
        verb
        for verb in command_line.VERBS
        if "json"
        in inspect.signature(
            importlib.import_module(f"ullage.cli.{command_line.MODULES.get(verb, verb)}").command
        ).parameters
    }
    assert with_json == set(VERBS) - BESIDE


@pytest.mark.parametrize("verb", VERBS)
def test_a_published_schema_is_the_one_of_the_types(verb: str) -> None:
    published = FOLDER / f"{verb}.schema.json"
    assert published.is_file(), "run: make schemas"
    assert published.read_text() == text_of(verb), "run: make schemas"


def test_no_schema_is_left_of_a_verb_that_went() -> None:
    assert {each.name.removesuffix(".schema.json") for each in FOLDER.glob("*")} == set(VERBS)


@pytest.mark.parametrize("kind", ["devices", "models", "engines", "startups", "efficiencies", "operations", "prices"])
def test_facts(printed: Printer, kind: str) -> None:
    assert printed("facts", kind, *PLAIN)["sheets"]


def test_memory_its_refusal_and_its_explanation(printed: Printer) -> None:
    budget = printed("memory", "llama-3.1-8b", "--device", "h100-sxm", *PLAIN)
    assert set(budget["lines"][0]) >= {"name", "line_bytes", "evidence"}
    assert {line["figure"] for line in budget["lines"]} <= set(budget["figures"])
    refused = printed("memory", "llama-3.1-70b", "--device", "h100-sxm", *PLAIN, code=ExitCode.REFUSED)
    assert refused["refused"]["remedies"]
    explained = printed("memory", "llama-3.1-8b", "--device", "h100-sxm", "--explain", "memory.kv_tokens", *PLAIN)
    assert "memory.kv_tokens" in explained["figures"]


@pytest.mark.slow
def test_a_profile_and_what_is_made_from_it(printed: Printer, tmp_path: Path) -> None:
    rows = (f"{at / 4},{100 + at * 7 % 900},{10 + at * 3 % 90},{'ok' if at % 9 else 'failed'}" for at in range(4000))
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,status", *rows]))
    assert printed("profile", str(log), *QUIET)["whole"]["requests"] == 4000
    arguments = ("--synthesize", "--quiet", "--as-of", "2026-11-15")
    assert printed("profile", str(log), *arguments, schema="synthetic")["matches"]


def test_a_forecast(printed: Printer) -> None:
    part = printed("forecast", "--horizon", "1d", *QUIET)["parts"][0]["forecast"]
    assert len(part["quantiles"]) == part["steps"]
    assert {len(row) for row in part["quantiles"]} == {len(part["fractions"])}


def test_load_tests_and_a_calibration(printed: Printer, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(to_json(vllm_run(1.0)))
    assert printed("calibrate", str(file), "--inspect", "--json")["loadtests"][0]["loadtest"]["points"]
    found = printed("calibrate", str(file), "--model", "llama-3.1-8b", "--device", "h100-sxm", "--json")
    assert found["provenance"]["points"] == 1


def test_a_simulation_in_which_nothing_was_answered(printed: Printer) -> None:
    """A latency that no request came to is null, and the schema says so."""
    replica = ("--model", "llama-3.1-8b", "--device", "h100-sxm", "--kv-tokens", "64")
    load = ("--prompt-tokens", "500", "--output-tokens", "50", "--rate", "2 req/s", "--span", "10s")
    found = printed("simulate", *replica, *load, "--slo", "ttft_p95=1s", *QUIET)
    (only,) = found["served"]["classes"]
    assert only["counts"]["oversize"] == only["counts"]["requests"] > 0
    assert only["latencies"]["ttft"]["mean_s"] is None


@pytest.mark.slow
def test_a_curve_a_size_and_their_refusals(printed: Printer, small: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(to_json(vllm_run(1.0, request_rate=1.0, max_concurrency=None)))
    curve = printed("curve", small, "--sensitivity", "--measured", str(file), *QUIET)
    assert {name for part in (curve["curve"], curve["point"]) for name in part["figures"]} <= set(curve["figures"])
    assert printed("curve", small, "--explain", "point.operating_rps", *QUIET)["explained"] == "point.operating_rps"
    assert printed("size", small, *QUIET)["size"]["replicas"] >= 1
    changed = printed("size", small, "--set", "pool.tensor_parallel=2", *QUIET)["what_if"]
    assert changed["changes"] == ["pool.tensor_parallel=2"]
    assert changed["headlines"]
    tight = ("--slo", "ttft_p50=1ms", *QUIET)
    assert printed("curve", small, *tight, code=ExitCode.REFUSED)["point"]["remedies"]
    assert printed("size", small, *tight, code=ExitCode.REFUSED)["refused"]["stage"]


@pytest.mark.slow
def test_a_plan_and_what_is_asked_of_it(printed: Printer, small: str, tmp_path: Path) -> None:
    plan = printed("plan", small, *QUIET)
    known = {*plan["figures"], *plan["assumptions"]}
    for table in ("input_sheet", "questions", "scorecard"):
        for row in plan[table]:
            assert known >= set(row["figures"]), row["what"]
            assert row["figures"] or row["missing"], row["what"]
    assert known >= {name for stage in plan["stages"] for name in stage["figures"]}
    assert known >= {each["rests_on"] for each in plan["not_guaranteed"] if each["rests_on"]}
    assert known >= {name for each in plan["figures"].values() for name in each.get("inputs", ())}
    assert known >= set(_names(plan["summary"]))
    assert printed("plan", small, "--explain", "fleet.replicas", *QUIET)["explained"] == "fleet.replicas"
    old = tmp_path / "old.json"
    old.write_text(json.dumps(plan))
    more = tmp_path / "more.yaml"
    more.write_text(SMALL.replace("6 req/s", "9 req/s"))
    assert [each["name"] for each in printed("compare", str(old), str(more), *QUIET)["inputs"]] == ["chat.mean_rate"]
    assert printed("plan", str(more), "--diff", str(old), *QUIET, schema="compare")["figures"]


def _names(summary: Any) -> list[str]:
    """The names of all figures in a summary."""
    if isinstance(summary, list):
        return [name for each in summary for name in _names(each)]
    if not isinstance(summary, dict):
        return []
    own = [summary["name"]] if {"value", "evidence"} <= set(summary) else []
    return [*own, *(name for each in summary.values() for name in _names(each))]


@pytest.mark.slow
def test_a_refused_plan_has_the_one_shape_of_a_refusal(printed: Printer, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(SMALL.replace("ttft_p95: 2s", "ttft_p95: 2s, tpot_p95: 0.1ms"))
    found = [printed(verb, str(file), *QUIET, code=ExitCode.REFUSED) for verb in ("plan", "cost", "drill", "check")]
    assert all(each == found[0] for each in found)
    validator("refusal").validate(found[0])


def test_a_portfolio(printed: Printer, small: str, tmp_path: Path) -> None:
    shared = tmp_path / "quotas.yaml"
    regions = "[{name: east, quotas: {h100-sxm: 1}}, {name: west, quotas: {h100-sxm: 0}}]"
    shared.write_text(f"version: 1\nregions: {regions}\n")
    found = printed("portfolio", small, "--quotas", str(shared), "--decide", "0", *QUIET)["portfolio"]
    assert found["given_up"] == ["small/pool"]
    assert sum(each["replicas"] + each["given_up_replicas"] for each in found["pools"]) == sum(
        each["need"]["replicas"] for each in found["pools"]
    )


@pytest.mark.slow
def test_a_bill_drills_checks_options_and_what_runs(printed: Printer, small: str, tmp_path: Path) -> None:
    bill = printed("cost", small, "--commit", "1y-no-upfront", "--marginal", "--before", small, *QUIET)
    assert sum(line["cents"] or 0 for line in bill["bill"]["lines"]) == round(100 * bill["bill"]["total_usd"])
    assert {line["figure"] for line in bill["bill"]["lines"]} - {None} <= set(bill["figures"])
    drilled = printed("drill", small, "quota", *QUIET)
    assert [each["name"] for each in drilled["results"]] == ["quota"]
    assert printed("check", small, *QUIET)["mistakes"] == []
    assert printed("options", small, *QUIET)["pools"][0]["ranking"]
    (bought,) = printed("buy", small, "--months", "12", *QUIET)["pools"]
    assert bought["chosen"]["usd"] <= 1.01 * min(each["usd"] for each in bought["rules"])
    (studied,) = printed("risk", small, "--bad-hour", "100 USD", *QUIET)["pools"]
    assert sum(studied["lines"].values()) == studied["fleets"]["0.05"]
    rows = printed("scenarios", small, "--own", "launch: traffic=x3", *QUIET)["rows"]
    assert [each["name"] for each in rows] == ["planned", "best", "base", "worst", "launch"]
    assert rows[1]["replicas"] <= rows[3]["replicas"] <= rows[4]["replicas"]
    running = tmp_path / "running.yaml"
    running.write_text(RUNNING)
    assert printed("brownfield", str(running), "--plan", small, *QUIET)["running"]["pools"]
