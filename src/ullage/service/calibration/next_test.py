"""Which load test to run next: the one that would narrow most what a calibration leaves open.

Each candidate is simulated at the calibrated factors; how its TTFT and TPOT would move with each factor says how much
it would tell. The gain is the shrinkage of the factors' joint uncertainty (log determinant), in nats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.errors import check_name
from ullage.foreign import shell_word
from ullage.service.calibration.calibration import ERROR_SPREADS, Calibration, Measurement, Target, sensitivity
from ullage.service.calibration.replay import (
    PROMPTS_PER_CLIENT,
    ApartTest,
    EngineLimits,
    LoadTestReplay,
    RequestTimes,
    uniform_lengths,
)
from ullage.service.steps.floor import Floor
from ullage.service.steps.scaled import PARAMETERS

# Closed loops at these concurrencies, with these prompt and output lengths: short enough to run in minutes.
CONCURRENCIES = (1, 8, 32, 128)
SHAPES = ((1024, 128), (128, 1024), (8192, 128))


@dataclass(frozen=True, kw_only=True)
class NextTest:
    """A test worth running. `command` is for the tool the user has, without its address and model."""

    clients: int
    prompt_tokens: int
    output_tokens: int
    requests: int
    gain_nats: float
    command: str


def next_test(
    times: RequestTimes,
    floor: Floor,
    calibration: Calibration,
    limits: EngineLimits,
    *,
    model: str,
    tool: str = "vllm",
    apart: ApartTest | None = None,
) -> NextTest:
    """The candidate with the largest gain; `apart` are the two pools that it would run on, where there are two."""
    check_name(tool, COMMANDS, field="tool")
    logs = np.array([calibration.factors.log(name) for name in PARAMETERS])
    precision = np.linalg.inv(np.array(calibration.spread.covariance))
    best: tuple[float, int, int, int] | None = None
    for prompt, output in SHAPES:
        for clients in CONCURRENCIES:
            if clients > limits.max_sequences or prompt + output > limits.kv_tokens:
                continue
            _, slopes = sensitivity(times, floor, logs, _candidate(prompt, output, clients, limits, apart))
            weighted = slopes / np.array([[ERROR_SPREADS["ttft"]], [ERROR_SPREADS["tpot"]]])
            more = np.linalg.slogdet(precision + weighted.T @ weighted)[1] - np.linalg.slogdet(precision)[1]
            if best is None or more / 2 > best[0]:
                best = (more / 2, prompt, output, clients)
    if best is None:
        best = (0.0, limits.kv_tokens // 2, max(1, limits.kv_tokens // 4), 1)
    gain, prompt, output, clients = best
    requests = clients * PROMPTS_PER_CLIENT
    return NextTest(
        clients=clients,
        prompt_tokens=prompt,
        output_tokens=output,
        requests=requests,
        gain_nats=float(gain),
        command=COMMANDS[tool](shell_word(model), prompt, output, clients, requests),
    )


def _candidate(prompt: int, output: int, clients: int, limits: EngineLimits, apart: ApartTest | None) -> Measurement:
    rng = np.random.default_rng(0)
    count = clients * PROMPTS_PER_CLIENT
    trial = LoadTestReplay(
        prompt_tokens=uniform_lengths(prompt, count, least_fraction=1.0, rng=rng),
        output_tokens=uniform_lengths(output, count, least_fraction=1.0, rng=rng),
        limits=limits,
        clients=clients,
        apart=apart,
    )
    targets: Sequence[Target] = [Target(latency=each, statistic="mean", value=1.0) for each in ("ttft", "tpot")]
    return Measurement(name="candidate", trial=trial, targets=tuple(targets))


def _vllm(model: str, prompt: int, output: int, clients: int, requests: int) -> str:
    return (
        f"vllm bench serve --model {model} --dataset-name random --random-input-len {prompt} "
        f"--random-output-len {output} --ignore-eos --max-concurrency {clients} --num-prompts {requests} --save-result"
    )


def _sglang(model: str, prompt: int, output: int, clients: int, requests: int) -> str:
    return (
        f"python -m sglang.bench_serving --backend sglang --model {model} --dataset-name random "
        f"--random-input-len {prompt} --random-output-len {output} --random-range-ratio 1 "
        f"--max-concurrency {clients} --num-prompts {requests} --output-file result.jsonl"
    )


def _guidellm(model: str, prompt: int, output: int, clients: int, requests: int) -> str:
    return (
        f"guidellm benchmark --model {model} --rate-type concurrent --rate {clients} --max-requests {requests} "
        f"--data prompt_tokens={prompt},output_tokens={output} --output-path result.json"
    )


def _aiperf(model: str, prompt: int, output: int, clients: int, requests: int) -> str:
    return (
        f"aiperf profile --model {model} --concurrency {clients} --request-count {requests} "
        f"--synthetic-input-tokens-mean {prompt} --output-tokens-mean {output} --extra-inputs ignore_eos:true"
    )


COMMANDS: dict[str, Callable[[str, int, int, int, int], str]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
}
