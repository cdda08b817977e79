"""`ullage memory`: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ullage import verbs
from ullage.cli.app import run
from ullage.errors import InputError, Rejection
from ullage.memory.budget import MemoryBudget

DAY = datetime.date(2026, 11, 15)
LOG = """\
(APIServer pid=1) INFO 10-06 16:59:01 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.31.0
(EngineCore pid=326) INFO 10-06 17:00:11 [model_runner.py:407] Model loading took 15.0 GiB memory and 5.42 seconds
(EngineCore pid=326) INFO 10-06 17:00:33 [gpu_worker.py:692] Available KV cache memory: 56.21 GiB
(EngineCore pid=326) INFO 10-06 17:00:33 [kv_cache_utils.py:2464] GPU KV cache size: 460,496 tokens, \
Maximum concurrency for 131,072 tokens per request: 3.51x
"""


def ending(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["memory", *arguments, "--as-of", "2026-11-15"])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = ending(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_has_what_a_script_needs(capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(capsys, "llama-3.1-70b", "--device", "h100", "--tp", "4", "--context", "32k")
    assert found["schema"] == "ullage.memory/2"
    assert found["kv_bytes_per_token"] == 327_680 // 4
    assert found["kv_tokens"] == found["kv_blocks"] * found["kv_block_tokens"]
    assert sum(line["line_bytes"] for line in found["lines"]) == found["device_bytes"]
    assert all(line["evidence"] for line in found["lines"])
    stated = {each["name"]: each["value"] for each in found["assumptions"].values()}
    assert stated["context"] == 32_000
    assert stated["approved sequences"] == 1


def test_the_same_question_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    question = ("qwen3-30b-a3b", "--device", "h200", "--tp", "2", "--concurrency", "16", "--context", "8192", "--json")
    assert ending(capsys, *question) == ending(capsys, *question)


def test_the_page_shows_every_line_and_result(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ending(capsys, "llama-3.1-8b", "--device", "h100", "--no-color")
    assert code == 0
    for reported in (
        "weights",
        "KV cache",
        "activations",
        "safety margin",
        "KV tokens per replica",
        "sequences at once",
    ):
        assert reported in out
    assert "█" in out


def test_a_model_with_experts_says_how_much_of_it_a_token_passes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, sparse, _ = ending(capsys, "qwen3-30b-a3b", "--device", "h200", "--no-color")
    assert "30.5 billion parameters, 3.35 active per token" in sparse
    assert "active per token" not in ending(capsys, "llama-3.1-8b", "--device", "h100", "--no-color")[1]


def test_what_does_not_fit_ends_with_three_and_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ending(capsys, "llama-3.1-70b", "--device", "h100", "--tp", "2")
    assert (code, err) == (3, "")
    assert "Does not fit. KV cache:" in out
    assert "tp 4" in out
    code, out, _ = ending(capsys, "llama-3.1-70b", "--device", "h100", "--json")
    refused = json.loads(out)
    assert code == 3
    refused, figures = refused["refused"], refused["figures"]
    assert refused["reason"].startswith("weights: ")
    assert refused["remedies"]
    assert refused["figure"]["value"] > 0
    assert set(refused["figure"]["inputs"]) <= set(figures)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lama-3.1-8b", "--device", "h100"), "Did you mean"),
        (("llama-3.1-8b", "--device", "h300"), "Did you mean"),
        (("llama-3.1-8b", "--device", "h100", "--engine", "vlm"), "Did you mean"),
        (("llama-3.1-8b", "--device", "h100", "--tp", "3"), "does not divide the 32 query heads"),
        (("llama-3.1-8b", "--device", "h100", "--tp", "0"), "tp = 0"),
        (("llama-3.1-8b", "--device", "h100", "--tp", "4", "--ep", "4"), "splits experts, but"),
        (("llama-3.1-8b", "--device", "h100", "--context", "10M"), "is more than the 131072 tokens"),
        (("llama-3.1-8b", "--device", "h100", "--context", "many"), "--context"),
        (("llama-3.1-8b", "--device", "h100", "--memory-fraction", "1.2"), "--memory-fraction"),
        (("llama-3.1-8b", "--device", "h100", "--concurrency", "0"), "concurrency = 0"),
        (("llama-3.1-8b", "--device", "h100", "--kv-dtype", "fp7"), "KV dtype"),
        (("llama-3.1-8b", "--device", "h100", "--adapters", "8"), "SLOTS:RANK"),
        (("llama-3.1-8b", "--device", "h100", "--mig", "3g.50gb"), "is not a slice of h100-sxm"),
        (("llama-3.1-8b", "--device", "h100", "--explain", "memory.kv_token"), "memory.kv_tokens"),
        (("llama-3.1-8b", "--device", "h100", "--engine-log", "absent.log"), "cannot be read"),
    ],
)
def test_wrong_input_ends_with_two_and_says_how_to_mend_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = ending(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_log_replaces_estimates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(LOG)
    found = answered(capsys, "llama-3.1-8b", "--device", "a100-80gb-sxm", "--engine-log", str(log))
    lines = {line["name"]: line for line in found["lines"]}
    assert lines["weights"]["evidence"] == "measured"
    assert lines["weights"]["line_bytes"] == 15 * 2**30
    assert lines["weights"]["estimate"]["value"] == 16_060_522_496
    assert found["kv_tokens"] == 460_496
    assert found["runtime"]["version"] == "0.31.0"


def test_a_log_of_another_engine_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(LOG)
    code, _, err = ending(capsys, "llama-3.1-8b", "--device", "h100", "--engine", "sglang", "--engine-log", str(log))
    assert code == 2
    assert "not of sglang" in err


def test_a_log_that_does_not_fit_the_question_is_named_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "vllm.log"
    long = LOG + "'max_num_seqs': 64}\nMaximum concurrency for 1,048,576 tokens per request: 1.00x\n"
    for text, options, says in (
        (LOG, ("--device", "a100-80gb-sxm", "--kv-dtype", "fp8"), r"vllm.log:\d+ = '.* KV bytes per token'"),
        (long, ("--device", "a100-80gb-sxm", "--max-sequences", "32"), r"max sequences = 32: vllm.log:\d+ says 64"),
        (long, ("--device", "a100-80gb-sxm"), r"vllm.log:\d+ = 'a context of 1048576 tokens': .* another model"),
    ):
        log.write_text(text)
        code, _, err = ending(capsys, "llama-3.1-8b", *options, "--engine-log", str(log))
        assert code == 2
        assert re.search(says, err), err


def test_a_number_is_walked_back_to_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ending(capsys, "llama-3.1-8b", "--device", "h100", "--explain", "memory.kv_tokens")
    assert code == 0
    assert "memory.kv_pool_bytes" in out
    assert "source: " in out


def test_a_config_file_is_read_like_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    by_path = answered(capsys, str(tmp_path), "--device", "h100")
    by_name = answered(capsys, "llama-3.1-8b", "--device", "h100")
    for key in ("kv_bytes_per_token", "kv_tokens", "kv_blocks"):
        assert by_path[key] == by_name[key]


def test_the_python_verb_answers_alike() -> None:
    answer = verbs.memory("llama-3.1-8b", device="h100", max_context_tokens=8192, concurrency=32, as_of=DAY)
    assert isinstance(answer.found, MemoryBudget)
    assert answer.found.worst.sequences >= 32
    refused = verbs.memory("llama-3.1-8b", device="l4", as_of=DAY)
    assert isinstance(refused.found, Rejection)
    with pytest.raises(InputError, match="device"):
        verbs.memory("llama-3.1-8b", device="nothing-like-it", as_of=DAY)


def test_a_users_own_facts_lie_over_ours(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "h100-sxm.toml").write_text(
        """
source = "own"
[sources.own]
what = "our own machine"
where = "rack 7"
date = 2026-11-01
evidence = "measured"
[values]
memory = "60 GiB"
"""
    )
    found = answered(capsys, "llama-3.1-8b", "--device", "h100", "--facts", str(tmp_path))
    assert found["device_bytes"] == 60 * 2**30


def test_slices_hosts_adapters_and_offloads_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    whole = answered(capsys, "llama-3.1-8b", "--device", "h100", "--context", "8192")
    half = answered(capsys, "llama-3.1-8b", "--device", "h100", "--context", "8192", "--mig", "3g.40gb")
    assert half["device_bytes"] == whole["device_bytes"] // 2
    more = answered(
        capsys,
        *("llama-3.1-8b", "--device", "h100", "--context", "8192", "--adapters", "4:16", "--eager"),
        *("--kv-offload", "16GiB", "--host-memory", "64GiB", "--kv-dtype", "fp8", "--memory-fraction", "85%"),
    )
    lines = {line["name"]: line["line_bytes"] for line in more["lines"]}
    assert lines["adapters"] > 0
    assert lines["CUDA graphs"] == 0
    assert more["host"]["offloaded_kv_tokens"] == 16 * 2**30 // 65_536
    assert more["host"]["host_bytes"] == 64 * 2**30
