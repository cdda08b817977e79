"""`ullage simulate`: traces, plans and plain loads on named and calibrated replicas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.loadtest_samples import to_json, vllm_run
from ullage.cli.app import run
from ullage.errors import ExitCode

REPLICA = ["--model", "llama-3.1-8b", "--device", "h100-sxm"]
PLAIN = ["--prompt-tokens", "500", "--output-tokens", "50", "--span", "60s"]


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "--json", "--as-of", "2026-11-15"]) == ExitCode.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def quantile(found: dict[str, Any], latency: str, fraction: str) -> float:
    return float(found["served"]["classes"][0]["latencies"][latency]["quantiles_s"][fraction])


def trace(folder: Path) -> str:
    """Two hundred requests, two a second, of two classes."""
    rows = "".join(f"{k / 2},{300 + k},{20 + k % 7},{'chat' if k % 2 else 'code'}\n" for k in range(200))
    path = folder / "trace.csv"
    path.write_text(f"arrival_s,prompt_tokens,output_tokens,class\n{rows}")
    return str(path)


def test_a_trace_is_replayed_as_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, trace(tmp_path), *REPLICA, "--slo", "chat:ttft_p95=1s")
    assert found["served"]["requests"] == 200
    assert found["step"]["evidence"] == "estimated"
    by_class = {each["name"]: each for each in found["served"]["classes"]}
    assert by_class["chat"]["counts"]["requests"] == by_class["code"]["counts"]["requests"] == 100
    assert by_class["chat"]["slo_limits"][0]["is_kept"]
    assert by_class["code"]["slo_limits"] == []
    assert by_class["chat"]["prompt_tokens"] == sum(300 + k for k in range(1, 200, 2))


def test_twice_the_traffic_is_twice_the_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path)
    assert asked(capsys, path, *REPLICA, "--traffic", "x2")["served"]["requests"] == 400
    assert asked(capsys, path, *REPLICA, "--span", "50s")["served"]["requests"] == 100


def test_a_plain_load_comes_evenly_or_by_chance(capsys: pytest.CaptureFixture[str]) -> None:
    even = asked(capsys, *REPLICA, *PLAIN, "--rate", "4 req/s", "--arrivals", "constant")
    chance = asked(capsys, *REPLICA, *PLAIN, "--rate", "4 req/s")
    assert even["served"]["requests"] == 240
    assert chance["served"]["requests"] != 240
    assert quantile(even, "ttft", "0.99") < quantile(chance, "ttft", "0.99")


def test_the_same_seed_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (
        json.dumps(asked(capsys, *REPLICA, *PLAIN, "--rate", "4 req/s", "--seed", seed)) for seed in ("1", "1", "2")
    )
    assert first == again != other


def test_a_calibrated_replica_is_as_slow_as_it_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test, saved = tmp_path / "slow.json", tmp_path / "calibration.json"
    test.write_bytes(to_json(vllm_run(3.0)))
    assert run(["calibrate", str(test), *REPLICA, "--out", str(saved)]) == ExitCode.OK
    capsys.readouterr()
    load = [*REPLICA, *PLAIN, "--rate", "2 req/s"]
    estimated, calibrated = asked(capsys, *load), asked(capsys, *load, "--calibration", str(saved))
    assert calibrated["step"]["evidence"] == "calibrated"
    factors = json.loads(saved.read_text())["calibration"]["factors"]
    slower = quantile(calibrated, "tpot", "0.5") / quantile(estimated, "tpot", "0.5")
    assert (slower > 1) == (factors["fixed_ratio"] > 1)


def test_a_calibration_of_another_engine_is_refused_and_of_another_device_scales(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test, saved = tmp_path / "one.json", tmp_path / "calibration.json"
    test.write_bytes(to_json(vllm_run(1.0)))
    assert run(["calibrate", str(test), *REPLICA, "--out", str(saved)]) == ExitCode.OK
    wrong = [*REPLICA, "--engine", "sglang", *PLAIN, "--rate", "2 req/s", "--calibration", str(saved)]
    assert run(["simulate", *wrong]) == ExitCode.WRONG_INPUT
    assert "provenance.engine" in capsys.readouterr().err
    other = ["--model", "llama-3.1-8b", "--device", "h200-sxm", *PLAIN, "--rate", "2 req/s"]
    found = asked(capsys, *other, "--calibration", str(saved))
    assert found["step"]["evidence"] == "estimated"
    assert "scaled" in found["step"]["kind"]


def test_without_arguments_the_example_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--span", "60s", "--replicas", "40", "--routing", "least_tokens")
    assert {each["name"] for each in found["served"]["classes"]} == {"chat", "coding"}
    assert found["pool"]["replicas"] == 40
    assert all(each["holds"] for each in found["served"]["laws"])


def test_an_overload_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    load = [*REPLICA, *PLAIN, "--rate", "400 req/s", "--slo", "ttft_p95=500ms"]
    assert run(["simulate", *load]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "not sustained" in page
    assert "violated" in page
    limited = asked(capsys, *load, "--queue-limit", "10", "--timeout", "2s")
    assert limited["served"]["classes"][0]["counts"]["shed"] > 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([*REPLICA], "nothing to serve"),
        ([*REPLICA, *PLAIN], "--rate"),
        ([*REPLICA, "--prompt-tokens", "5", "--rate", "1 req/s"], "--output-tokens"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--arrivals", "bursty"], "poisson, constant"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--routing", "nearest"], "least_kv"),
        (["--model", "llama-3.1-8b", *PLAIN, "--rate", "1 req/s"], "--device"),
        ([*REPLICA, *PLAIN, "--rate", "1e9 req/s"], "50,000,000"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--calibration", "absent.json"], "absent.json"),
        (["absent.csv", *REPLICA], "absent.csv"),
        ([*REPLICA, *PLAIN, "--rate", "0 req/s"], "--rate = 0.0: must be greater than 0"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--span", "0s"], "--span = 0.0: must be greater than 0"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--traffic", "-100%"], "--traffic = '-100%': leaves no traffic"),
        ([*REPLICA, *PLAIN, "--rate", "1 req/s", "--traffic", "nan"], "--traffic = 'nan': is not a change of traffic"),
    ],
)
def test_what_is_wrong_is_named(wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *wrong]) == ExitCode.WRONG_INPUT
    assert said in capsys.readouterr().err


def test_a_replica_that_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    big = ["--model", "llama-3.1-405b", "--device", "h100-sxm", *PLAIN, "--rate", "1 req/s"]
    assert run(["simulate", *big]) == ExitCode.REFUSED
    assert "KV cache" in capsys.readouterr().out


HEADED = ["--model", "mimo-7b", "--device", "h100-sxm"]


def test_speculation_shortens_answers_of_an_idle_replica(capsys: pytest.CaptureFixture[str]) -> None:
    load = [*PLAIN, "--rate", "0.5 req/s"]
    plain = asked(capsys, *HEADED, *load)
    drafted = asked(capsys, *HEADED, *load, "--speculation", "mtp:1:1.8")
    assert quantile(drafted, "tpot", "0.5") < 0.75 * quantile(plain, "tpot", "0.5")
    # A chunk of a stream is a step, and a wide one is longer.
    assert quantile(drafted, "itl", "0.5") > quantile(plain, "itl", "0.5")


def test_prefill_apart_is_compared_on_the_same_devices(capsys: pytest.CaptureFixture[str]) -> None:
    split = ["--replicas", "2", "--prefill", "1", "--transfer", "50 GB/s", "--slo", "all:tpot_p95=30ms"]
    found = asked(capsys, *REPLICA, *PLAIN, "--rate", "4 req/s", *split)
    assert found["devices"] == 3
    assert found["asked"]["name"] == "1 prefill + 2 decode"
    assert [each["name"] for each in found["others"]] == ["2 prefill + 1 decode"]
    assert found["together"]["name"] == "3 colocated"
    assert run(["simulate", *REPLICA, *PLAIN, "--rate", "4 req/s", *split, "--quiet"]) == ExitCode.OK
    assert "does not pay" in capsys.readouterr().out.replace("\n", " ")


def test_limits_and_routers_of_each_side_are_heard(capsys: pytest.CaptureFixture[str]) -> None:
    def ttft_s(prefill: str, *more: str) -> float:
        split = ["--replicas", "2", "--prefill", prefill, "--transfer", "50 GB/s"]
        return float(asked(capsys, *REPLICA, *PLAIN, "--rate", "120 req/s", *split, *more)["asked"]["ttft_p95_s"])

    plain = ttft_s("2")
    assert ttft_s("2:sequences=1") > plain
    assert ttft_s("2:routing=random") > plain
    assert ttft_s("2:routing=least_outstanding", "--routing", "random") != plain


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (["--prefill", "1"], "--transfer"),
        (["--transfer", "1 GB/s"], "--transfer"),
        (["--prefill", "1", "--transfer", "1 GB/s", "--clients", "3"], "--clients"),
        (["--prefill", "1", "--transfer", "1 GB/s", "--timeout", "3s"], "--prefill"),
        (["--speculation", "mtp:1:1.8"], "speculation.method"),
        (["--speculation", "draft:2:1.5"], "--speculation.draft"),
        (["--prefill", "1:width=3", "--transfer", "1 GB/s"], "--prefill"),
        (["--prefill", "0", "--transfer", "1 GB/s"], "--prefill"),
        (["--prefill", "1:sequences=0", "--transfer", "1 GB/s"], "--prefill"),
        (["--prefill", "1:routing=sticky", "--transfer", "1 GB/s"], "--prefill"),
        (["--prefill", "1", "--transfer", "1 GB/s", "--routing", "prefix_aware"], "--routing"),
    ],
)
def test_a_prefill_pool_or_a_draft_that_cannot_be_is_refused(
    wrong: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *REPLICA, *PLAIN, "--rate", "4 req/s", *wrong]) == ExitCode.WRONG_INPUT
    assert field in capsys.readouterr().err
