"""Load tests that verify a plan: what is sent is the plan's traffic, and scripts say what their files hold."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.emitted import emitted, mixes
from ullage import verbs
from ullage.emit.loadtests.traces import BLOCK_TOKENS, SGLANG_BLOCK_TOKENS
from ullage.readers.traces.open import open_trace
from ullage.workload.trace import Trace

TESTS = ("low", "operating", "above")
FAST = {"point.operating_rps": 6.0, "point.highest_rps": 9.0}


def made(figures: Mapping[str, float | str] | None = None, engine: str = "vllm") -> dict[str, str]:
    return {
        each.name.removeprefix("chat.loadtest."): each.text
        for each in emitted("loadtest", figures=figures, engine=engine)
    }


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def shapes(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def cache_hits(lines: list[dict[str, Any]], block_tokens: int) -> np.ndarray[Any, Any]:
    """Tokens of each prompt that an unbounded prefix cache holds already, block by block from the front."""
    held: set[tuple[int, ...]] = set()
    found = []
    for line in lines:
        ids = tuple(line["hash_ids"])
        hits = 0
        while hits < len(ids) and ids[: hits + 1] in held:
            hits += 1
        held.update(ids[: end + 1] for end in range(len(ids)))
        found.append(hits * block_tokens)
    return np.array(found)


@pytest.mark.parametrize("name", TESTS)
def test_a_trace_has_the_lengths_and_times_of_the_mix(name: str) -> None:
    files = made(FAST)
    lines, asked = rows(files[f"{name}.jsonl"]), shapes(files[f"{name}.csv"])
    test = next(each for each in yaml.safe_load(files["yaml"])["tests"] if each["name"] == name)
    assert [each["input_length"] for each in lines] == [int(each["prompt_tokens"]) for each in asked]
    assert [each["output_length"] for each in lines] == [int(each["output_tokens"]) for each in asked]
    assert [each["timestamp"] for each in lines] == [round(1000 * float(each["arrival_s"])) for each in asked]
    assert [each["timestamp"] for each in lines] == sorted(each["timestamp"] for each in lines)
    assert lines[-1]["timestamp"] < 1000 * test["span_s"]
    wanted = {"low": 0.6, "operating": 6.0, "above": 9.9}[name]
    assert test["rate_rps"] == pytest.approx(wanted)
    count = wanted * test["span_s"]
    assert abs(len(lines) - count) < 5 * math.sqrt(count)
    assert test["request_count"] == len(lines) == sum(test["classes"].values())
    drawn = mixes()["pool"](rate_rps=wanted, span_s=float(test["span_s"]), seed=0).requests
    assert [int(each["prompt_tokens"]) for each in asked] == drawn.prompt_tokens.tolist()


@pytest.mark.parametrize("name", TESTS)
def test_the_cache_is_hit_as_planned(name: str) -> None:
    files = made(FAST)
    lines, asked = rows(files[f"{name}.jsonl"]), shapes(files[f"{name}.csv"])
    wanted = np.array([int(each["cached_tokens"]) for each in asked])
    prompts = np.array([each["input_length"] for each in lines])
    assert all(len(each["hash_ids"]) == math.ceil(each["input_length"] / BLOCK_TOKENS) for each in lines)
    hits = cache_hits(lines, BLOCK_TOKENS)
    # Rounded to a block, and never the last block of a prompt; what nobody sent before is no hit yet.
    most = (-(-prompts // BLOCK_TOKENS) - 1) * BLOCK_TOKENS
    assert (hits <= np.minimum(wanted + BLOCK_TOKENS / 2, most)).all()
    assert hits.sum() / prompts.sum() == pytest.approx(wanted.sum() / prompts.sum(), abs=0.03)
    last = [each["hash_ids"][-1] for each in lines]
    assert len(set(last)) == len(last)


@pytest.mark.parametrize("name", TESTS)
def test_sglangs_own_trace_is_right_to_a_block(name: str) -> None:
    files = made(FAST)
    lines, asked = rows(files[f"{name}.sglang.jsonl"]), shapes(files[f"{name}.csv"])
    prompts = np.array([int(each["prompt_tokens"]) for each in asked])
    sent = np.array([SGLANG_BLOCK_TOKENS * len(each["hash_ids"]) for each in lines])
    assert (np.abs(sent - np.maximum(prompts, SGLANG_BLOCK_TOKENS)) <= SGLANG_BLOCK_TOKENS / 2).all()
    wanted = np.array([int(each["cached_tokens"]) for each in asked])
    hits = cache_hits(lines, SGLANG_BLOCK_TOKENS)
    # Prompts here are a few blocks long, of which the last is never shared.
    assert hits.sum() / sent.sum() == pytest.approx(wanted.sum() / prompts.sum(), abs=0.08)


def test_bursts_and_classes_are_the_mixs() -> None:
    files = made({"point.operating_rps": 12.0, "point.highest_rps": 12.0})
    asked = shapes(files["operating.csv"])
    chat = sum(each["class"] == "chat" for each in asked)
    assert chat / len(asked) == pytest.approx(0.75, abs=0.05)
    counts = np.histogram([float(each["arrival_s"]) for each in asked], bins=np.arange(0.0, 301.0, 15.0))[0]
    # A Poisson process has a variance of its mean; the mix varies by a quarter of its rate besides.
    assert counts.var() > 3 * counts.mean()


def test_a_shape_file_is_a_trace_of_our_own(tmp_path: Path) -> None:
    text = made()["operating.csv"]
    (tmp_path / "operating.csv").write_text(text)
    trace = open_trace([str(tmp_path / "operating.csv")])
    assert isinstance(trace, Trace)
    (found,) = trace.relation.aggregate(
        "count(*), sum(prompt_tokens), sum(output_tokens), sum(cached_tokens)"
    ).fetchall()
    asked = shapes(text)
    wanted = [sum(int(each[key]) for each in asked) for key in ("prompt_tokens", "output_tokens", "cached_tokens")]
    assert [int(each) for each in found] == [len(asked), *wanted]


@pytest.mark.parametrize("tool", ["guidellm", "vllm-bench", "sglang-bench", "aiperf"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_scripts_send_the_files_that_stand_beside_them(tool: str, engine: str) -> None:
    files = made(FAST, engine)
    text = files[f"{tool}.sh"].replace("\\\n", " ")
    commands = [shlex.split(line) for line in text.splitlines() if "$URL" in line and "results/" in line]
    assert len(commands) == len(TESTS)
    for name, words in zip(TESTS, commands, strict=True):
        read = [each for word in words for each in re.split(r'[=,"]', word) if each.endswith(".jsonl")]
        own = [each for each in read if not each.startswith("results/")]
        suffix = "sglang.jsonl" if tool == "sglang-bench" else "jsonl"
        assert own == [f"chat.loadtest.{name}.{suffix}"]
        lines = rows(files[f"{name}.{suffix}"])
        if "--num-prompts" in words:
            assert int(words[words.index("--num-prompts") + 1]) == len(lines)
        assert [word for word in words if "Qwen/Qwen3-32B" in word]
        assert [word for word in words if "$URL" in word]


def test_a_script_sends_nothing_to_an_address_that_nobody_named(tmp_path: Path) -> None:
    command, bare = ["sh", "-c", made()["guidellm.sh"]], {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Set URL to the address of one replica" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_limits_are_those_that_every_class_has_the_loosest_of_each() -> None:
    files = made(FAST)
    # chat: TTFT 1 s, TPOT 80 ms; coding: TTFT 3 s, E2E 30 s.
    assert "--goodput ttft:3000 \\" in files["vllm-bench.sh"]
    assert "--goodput time_to_first_token:3000 \\" in files["aiperf.sh"]
    asked = yaml.safe_load(files["inference-perf.yaml"])
    assert asked["report"]["goodput"]["constraints"] == {"ttft": 3.0}


def test_inference_perf_has_the_plans_moments_and_rates() -> None:
    files = made(FAST)
    asked = yaml.safe_load(files["inference-perf.yaml"])
    tests = yaml.safe_load(files["yaml"])["tests"]
    assert [each["rate"] for each in asked["load"]["stages"]] == [each["rate_rps"] for each in tests]
    assert [each["duration"] for each in asked["load"]["stages"]] == [each["span_s"] for each in tests]
    prefix = asked["data"]["shared_prefix"]
    largest = max(tests, key=lambda each: each["request_count"])
    total = prefix["system_prompt_len"] + prefix["question_len"]["mean"]
    assert total == pytest.approx(largest["mean_prompt_tokens"], abs=2.0)
    assert prefix["system_prompt_len"] / total == pytest.approx(largest["cached_fraction"], abs=0.01)
    assert prefix["output_len"]["mean"] == pytest.approx(largest["mean_output_tokens"], abs=0.1)


def test_a_test_costs_devices_times_minutes_times_price() -> None:
    for each in yaml.safe_load(made(FAST)["yaml"])["tests"]:
        assert each["device_minutes"] == pytest.approx(2 * each["span_s"] / 60, abs=0.06)
        assert each["usd"] == pytest.approx(2 * each["span_s"] / 3600 * 6.88, abs=0.006)
    cheap = yaml.safe_load(made({"price.h100-sxm.aws.us-east-1.p5.48xlarge.on-demand": 3.44})["yaml"])["tests"]
    dear = yaml.safe_load(made()["yaml"])["tests"]
    assert [2 * each["usd"] for each in cheap] == pytest.approx([each["usd"] for each in dear], abs=0.011)


def test_what_is_settled_shrinks_with_the_band() -> None:
    wide = " ".join(yaml.safe_load(made({"margin.evidence_ratio": 1.5})["yaml"])["settles"])
    assert "within a factor of about 1.1" in wide
    assert "about 10 of them are saved" in wide
    narrow = " ".join(yaml.safe_load(made({"margin.evidence_ratio": 1.05})["yaml"])["settles"])
    assert "already known within a factor of 1.05" in narrow
    assert "are saved" not in narrow


def test_the_verb_draws_the_plans_own_classes(tmp_path: Path) -> None:
    from emit.test_verb import PLAN
    from support.emitted import NAMES, document

    text = PLAN.replace("  trace: [not-there.csv]\n", "")
    (tmp_path / "plan.yaml").write_text(
        f"{text}emit:\n" + "".join(f"  {line}\n" for line in NAMES.strip().splitlines())
    )
    (tmp_path / "plan.json").write_text(json.dumps(document()))
    found = verbs.emit(tmp_path / "plan.yaml", ["loadtest"], stored=tmp_path / "plan.json")
    again = verbs.emit(tmp_path / "plan.yaml", ["loadtest"], stored=tmp_path / "plan.json")
    assert found == again
    files = {each.name: each.text for each in found.files}  # type: ignore[union-attr]
    classes = {each["class"] for each in shapes(files["chat.loadtest.operating.csv"])}
    assert classes == {"chat", "coding"}
