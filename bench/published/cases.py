"""Rows of the published closed-loop measurements, each with the trial that repeats it.

KV capacity is not published. It is taken as 95 % of the device's memory less the weights: nobody runs a sweep on
a replica that is short of cache on purpose. TensorRT-LLM admits a request only when its longest answer fits, so its
sequences are capped accordingly.
"""

from __future__ import annotations

import csv
import datetime
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ullage.errors import InputError
from ullage.facts.device import Device, find_device
from ullage.facts.model import LayerGroup, Model
from ullage.memory.kv import device_cache, kv_dtype
from ullage.memory.parameters import device_weights
from ullage.memory.sharding import Sharding
from ullage.readers.models import read_model
from ullage.readers.models.quantisation import NVFP4
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, uniform_lengths
from ullage.service.steps.coefficients import generation_of
from ullage.service.steps.floor import Floor
from ullage.service.steps.roofline import Rates
from ullage.service.steps.step_model import device_rates
from ullage.service.steps.work import ReplicaWork, replica_work

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
TRAINED_UNTIL = datetime.date(2026, 3, 1)
PER_CLIENT = 10
LEAST_FRACTION = 0.8
MEMORY_FRACTION = 0.95
BUDGET_TOKENS = 8192
NEWEST = datetime.date(2026, 4, 22)
"""The day of the newest row; the estimate of an engine of today is that of an engine of then."""
TRAINED_AGE_YEARS = (NEWEST - TRAINED_UNTIL).days / 365.25

DEVICES = {
    "b200": "b200-sxm", "b200_sxm": "b200-sxm", "b300_sxm": "b300-sxm", "gb200": "gb200", "h100_sxm": "h100-sxm",
    "h100": "h100-sxm", "h200": "h200-sxm", "h200_sxm": "h200-sxm", "mi300x": "mi300x", "mi325x": "mi325x",
    "mi355x": "mi355x",
}  # fmt: skip
CONFIGS = {
    ("deepseek-v3", "fp8"): "deepseek-ai--DeepSeek-R1",
    ("deepseek-v3", "fp4"): "nvidia--DeepSeek-V3.1-NVFP4",
    ("gpt-oss", "fp4"): "openai--gpt-oss-120b",
    ("llama-3", "fp8"): "nvidia--Llama-3.1-70B-Instruct-FP8",
    ("llama-3", "fp4"): "nvidia--Llama-3.1-70B-Instruct-FP8",
    ("minimax-m2", "fp8"): "MiniMaxAI--MiniMax-M2.5",
    ("minimax-m2", "fp4"): "nvidia--MiniMax-M2.5-NVFP4",
}
ENGINES = {"trtllm": "tensorrt-llm"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One row: where it belongs, what was measured, and what is needed to simulate it. Rows of one `key` repeat it."""

    key: tuple[object, ...]
    configuration: tuple[object, ...]
    family: str
    device: str
    generation: str
    vendor: str
    engine: str
    precision: str
    age_years: float
    source: str
    apart: str
    statistic: str
    has_median: bool
    ttft_s: float
    tpot_s: float
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    work: ReplicaWork
    rates: Rates
    trial: LoadTestReplay

    @property
    def era(self) -> str:
        """Which side of the date that a forecast of newer rows is made from."""
        return f"from {TRAINED_UNTIL}" if self.age_years <= TRAINED_AGE_YEARS else f"before {TRAINED_UNTIL}"

    @property
    def with_default_flags(self) -> Case:
        """The same row as somebody would ask for it who knows nothing of the scheduler's flags."""
        kv_tokens = self.trial.limits.kv_tokens
        trial = _trial(self.prompt_tokens, self.output_tokens, self.concurrency, kv_tokens, Recipe(), self.engine)
        return replace(self, key=(*self.key, "default flags"), trial=trial)

    @property
    def floor(self) -> Floor:
        return Floor(work=self.work, rates=self.rates)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A row that could not become a case."""

    apart: str
    reason: str


def serving_cases() -> Iterator[Case | LeftOut]:
    """Every row of the InferenceX sample, in file order."""
    with (DATA / "measured" / "inferencex_serving.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            reason = _unreadable(row)
            try:
                yield LeftOut(apart=row["apart"], reason=reason) if reason else _case(row)
            except InputError as error:
                yield LeftOut(apart=row["apart"], reason=f"{error.field} {error.problem}")


def _unreadable(row: dict[str, str]) -> str:
    if row["hardware"] not in DEVICES:
        return f"device {row['hardware']} is not in the catalogue"
    if (row["family"], row["precision"]) not in CONFIGS:
        return f"no config of {row['model']} in {row['precision'] or 'a precision that is not stated'}"
    name = "p50" if row["statistic"] == "as named" else "mean"
    if not row[f"ttft_{name}_ms"] or not row[f"tpot_{name}_ms"]:
        return f"states no {name} of TTFT and TPOT"
    if not row["isl"] or not row["osl"] or not row["concurrency"]:
        return "states no lengths or no concurrency"
    if float(row["tpot_" + name + "_ms"]) <= 0 or float(row["ttft_" + name + "_ms"]) <= 0:
        return "a latency of 0"
    return ""


def _case(row: dict[str, str]) -> Case:
    experts = int(float(row["ep"] or 1))
    devices = _devices(row, experts)
    sharding = Sharding(tp=devices, ep=experts if devices % experts == 0 else 1)
    family, precision, engine = row["family"], row["precision"], ENGINES.get(row["engine"], row["engine"])
    device = DEVICES[row["hardware"]]
    cache = cache_dtype(family, precision, engine, device)
    prompt, output, clients = int(row["isl"]), int(row["osl"]), int(float(row["concurrency"]))
    statistic = "p50" if row["statistic"] == "as named" else "mean"
    kv_tokens = _kv_tokens(family, precision, device, sharding, cache)
    key = (family, precision, device, engine, sharding, prompt, output, clients, statistic)
    return Case(
        key=key,
        configuration=(*key[:7], row["model"], row["engine_version"], row["statistic"], row["measured_date"]),
        family=family,
        device=device,
        generation=generation_of(_device(device).architecture),
        vendor=_device(device).vendor,
        engine=engine,
        precision=precision,
        age_years=_age_years(row["measured_date"]),
        source="origin not named" if "inferred" in row["statistic"] else "InferenceX",
        apart=row["apart"],
        statistic=statistic,
        has_median="verified against" in row["statistic"],
        ttft_s=float(row[f"ttft_{statistic}_ms"]) / 1e3,
        tpot_s=float(row[f"tpot_{statistic}_ms"]) / 1e3,
        concurrency=clients,
        prompt_tokens=prompt,
        output_tokens=output,
        work=_work(family, precision, sharding, cache),
        rates=device_rates(_device(device), sharding),
        trial=_trial(
            prompt,
            output,
            clients,
            kv_tokens,
            _recipe(family, precision, device, engine, sharding.tp, prompt, clients),
            engine,
        ),
    )


def _age_years(measured: str) -> float:
    """How long before the newest rows a row was measured; a row without a date is as new as they are."""
    if not measured:
        return 0.0
    return max(0.0, (NEWEST - datetime.date.fromisoformat(measured)).days / 365.25)


def _devices(row: dict[str, str], experts: int) -> int:
    """The export multiplies tensor by expert parallelism, so that the square of ep says that ep devices do both."""
    stated = int(float(row["gpus_repaired"] or row["n_gpus"]))
    is_exported = row["statistic"] != "as named"
    return experts if is_exported and stated == experts * experts else stated


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of the scheduler that InferenceX's scripts state and its rows do not."""

    budget_tokens: int = BUDGET_TOKENS
    poll_steps: int = 1


def _recipe(family: str, precision: str, device: str, engine: str, tp: int, prompt: int, clients: int) -> Recipe:
    """As benchmarks/*.sh of github.com/SemiAnalysisAI/InferenceX start the engine (read 2026-11-15).

    TensorRT-LLM has room for one prompt and one token of each client in a step. SGLang on Blackwell looks for new
    requests every 10 steps, from 16 clients on every 30.
    """
    if family == "deepseek-v3" and engine == "tensorrt-llm":
        return Recipe(budget_tokens=(clients + prompt + 127) // 64 * 64)
    if engine == "sglang" and generation_of(_device(device).architecture) == "blackwell":
        if precision == "fp8" and tp == 4:
            return Recipe(poll_steps=10)
        poll_steps = 30 if clients >= 16 else 10
        if precision == "fp8":
            return Recipe(budget_tokens=32_768, poll_steps=poll_steps)
        return Recipe(budget_tokens=16_384, poll_steps=poll_steps)
    return Recipe()


@functools.cache
def _trial(prompt: int, output: int, clients: int, kv_tokens: int, recipe: Recipe, engine: str) -> LoadTestReplay:
    rng = np.random.default_rng(7)
    count = clients * PER_CLIENT
    reserves = engine == "tensorrt-llm"
    admitted = min(clients, max(1, kv_tokens // (prompt + output))) if reserves else clients
    return LoadTestReplay(
        prompt_tokens=uniform_lengths(prompt, count, least_fraction=LEAST_FRACTION, rng=rng),
        output_tokens=uniform_lengths(output, count, least_fraction=LEAST_FRACTION, rng=rng),
        limits=EngineLimits(
            max_sequences=admitted,
            budget_tokens=recipe.budget_tokens,
            kv_tokens=kv_tokens,
            poll_steps=recipe.poll_steps,
        ),
        clients=clients,
    )


@functools.cache
def _device(name: str) -> Device:
    return find_device(name)


@functools.cache
def published_model(family: str, precision: str) -> Model:
    model = read_model(DATA / "model_configs" / f"{CONFIGS[family, precision]}_config.json")
    if (family, precision) != ("llama-3", "fp4"):
        return model
    # No config of the fp4 checkpoint is published here: the fp8 one with every matrix in NVFP4.
    formats = dict.fromkeys(("attention_in", "attention_out", "dense"), NVFP4)
    groups = (
        LayerGroup(layer=replace(group.layer, formats=replace(group.layer.formats, **formats)), layers=group.layers)
        for group in model.layers
    )
    return replace(model, layers=tuple(groups))


def cache_dtype(family: str, precision: str, engine: str, device: str) -> str:
    """fp8 where checkpoint, engine or recipe say so, as vLLM's for MiniMax and SGLang's on Blackwell do."""
    stated = published_model(family, precision).kv_dtype
    if stated is not None:
        return stated
    recipes = engine == "sglang" and generation_of(_device(device).architecture) == "blackwell"
    return "fp8" if engine == "tensorrt-llm" or family == "minimax-m2" or recipes else "bf16"


@functools.cache
def _work(family: str, precision: str, sharding: Sharding, cache: str) -> ReplicaWork:
    return replica_work(published_model(family, precision), sharding, kv_dtype(cache))


@functools.cache
def _kv_tokens(family: str, precision: str, device: str, sharding: Sharding, cache: str) -> int:
    model = published_model(family, precision)
    weights = max(each.stored_bytes for each in device_weights(model, sharding, mtp=False))
    (cost,) = device_cache(model, sharding, kv_dtype(cache))
    free = MEMORY_FRACTION * _device(device).memory_bytes - weights
    return max(int(free / cost.bytes_per_token), BUDGET_TOKENS)


def as_data_parallel(case: Case) -> Case:
    """The same row with attention data-parallel over all its devices: each has the cache of its own sequences."""
    family, precision, device, engine, sharding, *_ = case.key
    assert isinstance(sharding, Sharding)
    own = replace(sharding, dp_attention=sharding.tp)
    cache = cache_dtype(str(family), str(precision), str(engine), str(device))
    kv_tokens = sharding.tp * _kv_tokens(str(family), str(precision), str(device), own, cache)
    admitted = case.concurrency
    if engine == "tensorrt-llm":
        admitted = min(admitted, max(1, kv_tokens // (case.prompt_tokens + case.output_tokens)))
    limits = replace(
        case.trial.limits,
        kv_tokens=kv_tokens,
        max_sequences=admitted,
        budget_tokens=sharding.tp * case.trial.limits.budget_tokens,
    )
    return replace(
        case,
        work=_work(str(family), str(precision), own, cache),
        rates=device_rates(_device(str(device)), own),
        trial=replace(case.trial, limits=limits),
    )
