"""MLPerf submissions: a system's Offline rate calibrates it, its Server and Interactive rates are to be predicted.

A submission states the system and the rates, not how the engine was set. What is missing follows rules that hold for
all of them: weights in the narrowest dtype the device computes in, KV in fp8, the least tensor parallelism at which
weights leave room for a cache, replicas side by side on all devices, and the token budget and number of sequences that
give the highest rate, because submitters tune exactly that. Lengths are the benchmark's own, with answers scaled to
the tokens a sample that the log states.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np
from bench.published.cases import DATA, MEMORY_FRACTION
from bench.published.sweeps import in_fp8

from ullage.errors import InputError
from ullage.facts.device import Device, find_device
from ullage.facts.model import LayerGroup, Model
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import device_cache, kv_dtype
from ullage.memory.parameters import device_weights
from ullage.memory.sharding import Sharding
from ullage.readers.models.quantisation import NVFP4
from ullage.service.calibration.calibration import Measurement, Target, fit_factors
from ullage.service.calibration.replay import CROWD_FRACTION, Counts, EngineLimits, LoadTestReplay, RequestTimes
from ullage.service.steps.floored import scaled
from ullage.service.steps.step_model import StepModel, roofline_model
from ullage.service.steps.tables import step_table
from ullage.simulate import Engine, Fleet, OpenLoop, Requests
from ullage.simulate.simulation import simulate

MODELS = {
    "llama2-70b": ("llama-2-70b", "mlperf_llama2_70b_openorca"),
    "llama3.1-70b": ("llama-3.1-70b", "mlperf_llama2_70b_openorca"),
    "mixtral-8x7b": ("mixtral-8x7b", "mlperf_mixtral"),
    "llama3.1-405b": ("llama-3.1-405b", "mlperf_llama31_405b"),
    "llama3.1-8b": ("llama-3.1-8b", "mlperf_llama31_8b_cnndm"),
    "deepseek-r1": ("deepseek-r1", "mlperf_deepseek_r1"),
}
"""The benchmark's name, ours, and its lengths."""

DEVICES = (
    (r"\bh100[ -]nvl", "h100-nvl"),
    (r"\bh100-pcie", "h100-pcie"),
    (r"\bh100-sxm", "h100-sxm"),
    (r"\bh200-sxm", "h200-sxm"),
    (r"\bb200-sxm", "b200-sxm"),
    (r"\bgb200", "gb200"),
    (r"\bgb300", "gb300"),
    (r"\bgh200.* 96gb", "gh200-96gb"),
    (r"\bmi300x", "mi300x"),
    (r"\bmi325x", "mi325x"),
    (r"\bmi355x", "mi355x"),
    (r"\bl40s", "l40s"),
    (r"\ba100-sxm-80gb", "a100-80gb-sxm"),
)
"""What a submission calls its accelerator, and our sheet of it."""

POWER_CAPPED = "MaxQ"
"""So NVIDIA marks systems that run below the power, and so below the rates, of the data sheet."""

WEIGHTS_FRACTION = 0.6
MOST_SEQUENCES = 2048
BUDGETS = (512, 2048, 8192)
SEQUENCES = (64, 128, 256, 512, 1024, 2048)
# MLPerf runs for ten minutes at least, and answers each of 24,576 samples in the larger benchmarks.
RUN_S = 600.0
OFFLINE_SAMPLES = 24_576
# More replicas behind the router than this change the rate of one of them by less than a step of the search.
MOST_REPLICAS = 2
STEPS = 8
UNBOUNDED_RATIO = 3.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One scenario of a system: the rate that was reached under p99 limits."""

    scenario: str
    rate_rps: float
    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """One system and model: what it does Offline, and what is to be predicted."""

    name: str
    benchmark: str
    device: str
    generation: str
    replicas: int
    step: StepModel
    limits: EngineLimits
    offline_rps: float
    prompt_tokens: Counts
    output_tokens: Counts
    wanted: tuple[Wanted, ...]

    @property
    def is_power_capped(self) -> bool:
        return POWER_CAPPED in self.name

    @property
    def offline(self) -> Measurement:
        """One replica's share of the Offline run: everything is there at the start."""
        share_rps = self.offline_rps / self.replicas
        count = int(max(share_rps * RUN_S, OFFLINE_SAMPLES / self.replicas))
        prompt, output = self.drawn(count, seed=1)
        return Measurement(
            name="Offline",
            trial=LoadTestReplay(
                prompt_tokens=prompt, output_tokens=output, limits=self.limits, arrival_s=np.zeros(count, np.float64)
            ),
            targets=(Target(latency="rate", statistic="mean", value=share_rps * float(output.mean())),),
        )

    def drawn(self, count: int, *, seed: int) -> tuple[Counts, Counts]:
        picked = np.random.default_rng(seed).integers(0, self.prompt_tokens.size, count)
        return self.prompt_tokens[picked], self.output_tokens[picked]


@dataclass(frozen=True, kw_only=True)
class NoSubmission:
    name: str
    reason: str


def submissions() -> Iterator[Submission | NoSubmission]:
    """Every system with an Offline rate and another one under limits, each system and model once."""
    for (name, benchmark), rows in _by_system().items():
        if "offline" not in rows or len(rows) < 2:
            continue
        try:
            yield _submission(name, benchmark, rows)
        except InputError as error:
            yield NoSubmission(name=f"{name} {benchmark}", reason=f"{error.field} {error.problem}")


def _by_system() -> dict[tuple[str, str], dict[str, dict[str, str]]]:
    """Rows by scenario. llama2-70b is listed at two accuracies, mostly from one run: the last one counts."""
    found: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    with (DATA / "measured" / "mlperf_llm_logs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            benchmark = re.sub(r"-(99\.9|99|fp8.*|edge)$", "", row["model"].replace("_", "."))
            key = (f"{row['round']} {row['submitter']} {row['system']}", benchmark)
            scenario = row["scenario"].lower()
            valid = row["result_valid"] == "VALID" and (row["offline_tokens_s"] or row["ttft_limit_ms"])
            if valid and scenario in ("offline", "server", "interactive"):
                found.setdefault(key, {})[scenario] = row
    return found


def _submission(name: str, benchmark: str, rows: dict[str, dict[str, str]]) -> Submission:
    offline = rows["offline"]
    if benchmark not in MODELS:
        raise InputError(field="benchmark", value=benchmark, problem="has no TTFT and TPOT", fix="")
    known, dataset = MODELS[benchmark]
    device = _device(offline["accelerator"])
    model = _narrow(find_model(known), device)
    devices = int(offline["accelerators_per_node"]) * int(offline["nodes"])
    sharding = _sharding(model, device, devices)
    cache = kv_dtype("fp8")
    engine = "tensorrt-llm" if "TensorRT" in offline["framework"] else "vllm"
    (cost,) = device_cache(model, sharding, cache)
    free = MEMORY_FRACTION * device.memory_bytes - _weight_bytes(model, sharding)
    prompt, output = _lengths(dataset)
    mean_tokens = float(offline["offline_tokens_s"]) / float(offline["offline_samples_s"])
    return Submission(
        name=name,
        benchmark=benchmark,
        device=device.name,
        generation=device.architecture,
        replicas=devices // sharding.devices,
        step=roofline_model(model, device, sharding=sharding, engine=engine, cache=cache),
        limits=EngineLimits(
            max_sequences=MOST_SEQUENCES, budget_tokens=max(BUDGETS), kv_tokens=int(free / cost.bytes_per_token)
        ),
        offline_rps=float(offline["offline_samples_s"]),
        prompt_tokens=prompt,
        output_tokens=np.maximum(1, np.rint(output * (mean_tokens / output.mean()))).astype(np.int32),
        wanted=tuple(
            Wanted(
                scenario=scenario,
                rate_rps=float(row["server_completed_samples_s"]),
                ttft_s=float(row["ttft_limit_ms"]) / 1e3,
                tpot_s=float(row["tpot_limit_ms"]) / 1e3,
            )
            for scenario, row in sorted(rows.items())
            if scenario != "offline"
        ),
    )


def _device(name: str) -> Device:
    kinds = {sheet for pattern, sheet in DEVICES if re.search(pattern, name.lower())}
    if len(kinds) != 1:
        problem = "are of several kinds" if kinds else "are not in the catalogue"
        raise InputError(field="devices", value=name, problem=problem, fix="")
    return find_device(kinds.pop())


def _narrow(model: Model, device: Device) -> Model:
    """Weights in the narrowest dtype the device computes in; a checkpoint that is quantised stays as it is."""
    if model.is_quantised:
        return model
    if device.dense_rate_flops("fp4") is not None:
        formats = dict.fromkeys(("attention_in", "attention_out", "dense", "routed", "shared"), NVFP4)
        groups = (
            LayerGroup(layer=replace(each.layer, formats=replace(each.layer.formats, **formats)), layers=each.layers)
            for each in model.layers
        )
        return replace(model, layers=tuple(groups))
    return in_fp8(model) if device.dense_rate_flops("fp8") is not None else model


def _sharding(model: Model, device: Device, devices: int) -> Sharding:
    for tp in (1, 2, 4, 8):
        cut = Sharding(tp=tp)
        if devices % tp == 0 and _weight_bytes(model, cut) <= WEIGHTS_FRACTION * device.memory_bytes:
            return cut
    raise InputError(field="devices", value=devices, problem="hold the weights in no way that is tried", fix="")


def _weight_bytes(model: Model, sharding: Sharding) -> float:
    return max(each.stored_bytes for each in device_weights(model, sharding, mtp=False))


@functools.cache
def _lengths(dataset: str) -> tuple[Counts, Counts]:
    rows = (
        duckdb.connect()
        .execute(
            f"select prompt_tokens, output_tokens from '{DATA}/traces/length_datasets.parquet' "
            f"where starts_with(dataset, '{dataset}') and output_tokens > 0"
        )
        .fetchnumpy()
    )
    return np.asarray(rows["prompt_tokens"], np.int32), np.asarray(rows["output_tokens"], np.int32)


# ---- prediction ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Predicted:
    rate_rps: float
    budget_tokens: int
    max_sequences: int


def calibrated(submission: Submission) -> RequestTimes:
    """The step model after one number: the Offline rate."""
    step = submission.step
    return scaled(step, step.floor, fit_factors(step, step.floor, [submission.offline]))


def predicted(submission: Submission, wanted: Wanted, times: RequestTimes, *, is_bounded: bool = True) -> Predicted:
    """The highest rate within the limits, over budgets of tokens and then over numbers of sequences.

    Offline is the most that a system was seen to do; bounded, no rate under limits is predicted beyond it.
    """

    def highest(budget_tokens: int, max_sequences: int) -> Predicted:
        start = Predicted(rate_rps=0.0, budget_tokens=budget_tokens, max_sequences=max_sequences)
        return again(submission, wanted, times, start, is_bounded=is_bounded)

    best = max((highest(budget, 512) for budget in BUDGETS), key=_rate)
    return max(best, *(highest(best.budget_tokens, each) for each in SEQUENCES if each != 512), key=_rate)


def again(
    submission: Submission, wanted: Wanted, times: RequestTimes, settings: Predicted, *, is_bounded: bool = True
) -> Predicted:
    """The highest rate within the limits with the engine set as it was."""
    limits = submission.limits
    budget_tokens = max(settings.budget_tokens, settings.max_sequences)
    engine = Engine(
        step=step_table(
            times, max_sequences=settings.max_sequences, budget_tokens=budget_tokens, kv_tokens=limits.kv_tokens
        ),
        kv_blocks=limits.kv_tokens // limits.block_tokens,
        block_tokens=limits.block_tokens,
        max_sequences=settings.max_sequences,
        budget_tokens=budget_tokens,
        request_overhead_s=times.request_overhead_s,
        crowd_overhead_s=CROWD_FRACTION * times.request_overhead_s,
    )
    low, high = 0.0, submission.offline_rps * (1.0 if is_bounded else UNBOUNDED_RATIO)
    if _keeps(submission, wanted, engine, high):
        return replace(settings, rate_rps=high)
    for _ in range(STEPS):
        middle = (low + high) / 2
        passes = _keeps(submission, wanted, engine, middle)
        low, high = (middle, high) if passes else (low, middle)
    return replace(settings, rate_rps=low)


def _rate(found: Predicted) -> float:
    return found.rate_rps


def _keeps(submission: Submission, wanted: Wanted, engine: Engine, rate_rps: float) -> bool:
    replicas = min(submission.replicas, MOST_REPLICAS)
    share_rps = rate_rps * replicas / submission.replicas
    count = max(int(share_rps * RUN_S), 500)
    prompt, output = submission.drawn(count, seed=2)
    gaps = np.random.default_rng(3).exponential(1.0 / share_rps, count)
    load = OpenLoop(requests=Requests(prompt_tokens=prompt, output_tokens=output), arrival_s=np.cumsum(gaps))
    fleet = Fleet(replicas=replicas, routing="least_outstanding")
    total = simulate(engine, fleet, load, seed=0, attribution=False).total
    first, rest = total.ttft.quantile_s(0.99), total.tpot.quantile_s(0.99)
    return bool(first <= wanted.ttft_s and rest <= wanted.tpot_s)
