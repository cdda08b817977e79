"""The vLLM runs on H100 under open-loop load: calibrated on one workload, another one is predicted.

About 45 prompts are reused throughout with prefix caching on, so all but the last block of a prompt is a cache hit
once each has been seen. Sequences, token budget and KV blocks are stated with the requests; the real answer length is
the one requested.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from bench.published.cases import DATA
from bench.published.fit import Floats

from ullage.facts.device import find_device
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.readers.models import read_model
from ullage.service.calibration.calibration import Measurement, Target, fit_factors, scaled
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, Replayed, replay
from ullage.service.steps.scaled import Factors
from ullage.service.steps.step_model import StepModel, roofline_model

PROMPTS = 45
TIMEOUT_S = 300.0
# Llama-2-70B has the layers of Llama-3.1-70B and a smaller vocabulary.
CONFIGS = {
    "meta-llama/Llama-2-7b-hf": "inference-sim--llama-2-7b-hf",
    "meta-llama/Llama-2-70b-hf": "inference-sim--llama-3.1-70b-instruct",
}
VOCABULARY_TOKENS = 32_000
STATISTICS = (("tpot", "mean"), ("e2e", "mean"), ("e2e", "p99"), ("ttft", "mean"), ("ttft", "p90"), ("ttft", "p99"))


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenRun:
    """One run: the trial that repeats it, and what was measured."""

    name: str
    workload: str
    model: str
    tp: int
    trial: LoadTestReplay
    measured: Replayed

    def step_model(self) -> StepModel:
        model = read_model(DATA / "model_configs" / f"{CONFIGS[self.model]}_config.json")
        model = replace(model, vocabulary_tokens=VOCABULARY_TOKENS)
        device = find_device("h100-sxm")
        return roofline_model(model, device, sharding=Sharding(tp=self.tp), engine="vllm", cache=kv_dtype("fp16"))

    @property
    def measurement(self) -> Measurement:
        wanted = (("ttft", "mean"), ("ttft", "p50"), ("tpot", "p10"), ("tpot", "p50"), ("tpot", "p90"))
        return Measurement(
            name=self.name,
            trial=self.trial,
            targets=tuple(
                Target(latency=latency, statistic=which, value=self.measured.statistic(latency, which))
                for latency, which in wanted
            ),
        )


def open_runs() -> Iterator[OpenRun]:
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    with gzip.open(DATA / "measured" / "vllm_h100_requests.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["experiment"]].append(row)
    for name, requests in rows.items():
        yield _run(name, sorted(requests, key=lambda row: float(row["arrival_s"])))


def _run(name: str, rows: list[dict[str, str]]) -> OpenRun:
    first = rows[0]
    prompt = np.array([int(row["input_tokens"]) for row in rows], np.int32)
    # A request that failed has no counted prompt; it was as long as the others.
    prompt[prompt == 0] = int(np.median(prompt[prompt > 0]))
    output = np.array([int(row["output_len_requested"]) for row in rows], np.int32)
    block = int(first["block_size"])
    cached = (np.maximum(prompt - 1, 0) // block * block).astype(np.int32)
    cached[:PROMPTS] = 0
    good = np.array([row["error"] in ("", "0") for row in rows])
    ttft = np.array([float(row["ttft_s"] or "nan") for row in rows])[good]
    e2e = np.array([float(row["e2e_s"] or "nan") for row in rows])[good]
    return OpenRun(
        name=name,
        workload=name.rsplit("-", 1)[1],
        model=first["model"],
        tp=int(first["tp"]),
        trial=LoadTestReplay(
            prompt_tokens=prompt,
            output_tokens=output,
            cached_tokens=cached,
            arrival_s=np.array([float(row["arrival_s"]) for row in rows]),
            timeout_s=TIMEOUT_S,
            limits=EngineLimits(
                max_sequences=int(first["max_num_seqs"]),
                budget_tokens=int(first["max_num_batched_tokens"]),
                kv_tokens=int(first["kv_blocks"]) * block,
                block_tokens=block,
            ),
        ),
        measured=Replayed(
            ttft_s=ttft,
            tpot_s=(e2e - ttft) / np.maximum(output[good] - 1, 1),
            e2e_s=e2e,
            duration_s=float(rows[-1]["arrival_s"]),
            output_tokens=int(output[good].sum()),
            sent_count=len(rows),
        ),
    )


def predicted(run: OpenRun, factors: Factors | None) -> Replayed:
    step = run.step_model()
    return replay(step if factors is None else scaled(step, step.floor, factors), run.trial)


def factors_of(run: OpenRun) -> Factors:
    step = run.step_model()
    return fit_factors(step, step.floor, [run.measurement])


def log_errors(run: OpenRun, found: Replayed) -> Floats:
    """Simulated against measured, one value for each of `STATISTICS`."""
    ratios = [found.statistic(*each) / run.measured.statistic(*each) for each in STATISTICS]
    errors: Floats = np.log(ratios)
    return errors
