"""Rows of the published closed-loop measurements, each with the trial that repeats it.

A row is asked as a user would ask it of `ullage simulate`: by the names, degrees, lengths and clients that it states,
and, where `has_flags`, with what the project's own start scripts tell the engine. Memory, scheduler, lengths and
trial then come from the functions that `simulate` calls; nothing here knows more than the row and those scripts.
"""

from __future__ import annotations

import csv
import datetime
import functools
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.published.recipes import Launch, Recipe, recipe_of

from ullage.errors import InputError, Rejection
from ullage.evidence import number
from ullage.facts.device import Device, find_device
from ullage.facts.efficiency import efficiencies
from ullage.facts.model import Model
from ullage.load.names import load_model
from ullage.load.pool import ReplicaChoice, load_replica
from ullage.memory.budget import MemoryBudget
from ullage.memory.sharding import Sharding
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.repeats import repeatable
from ullage.service.calibration.replay import LoadTestReplay
from ullage.service.served import ServedPool
from ullage.service.steps.coefficients import engine_age_years, generation_of
from ullage.service.steps.floor import Floor
from ullage.service.steps.roofline import Rates
from ullage.service.steps.step_model import device_rates
from ullage.service.steps.work import ReplicaWork, replica_work
from ullage.verbs.simulate import LoadChoice, clients_test, repeat_terms

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
TRAINED_UNTIL = datetime.date(2026, 3, 1)
LEAST_FRACTION = 0.8
MEMORY_FRACTION = 0.95
TODAY = datetime.date(2026, 11, 16)
NEWEST = datetime.date(2026, 4, 22)
"""The day of the newest row; the estimate of an engine of today is that of an engine of then."""
TRAINED_AGE_YEARS = (NEWEST - TRAINED_UNTIL).days / 365.25

DEVICES = {
    "b200": "b200-sxm", "b200_sxm": "b200-sxm", "b300_sxm": "b300-sxm", "gb200": "gb200", "h100_sxm": "h100-sxm",
    "h100": "h100-sxm", "h200": "h200-sxm", "h200_sxm": "h200-sxm", "mi300x": "mi300x", "mi325x": "mi325x",
    "mi355x": "mi355x",
}  # fmt: skip
NAMES = {
    ("deepseek-v3", "fp8"): "deepseek-ai/DeepSeek-R1",
    ("deepseek-v3", "fp4"): "nvidia/DeepSeek-R1-NVFP4",
    ("gpt-oss", "fp4"): "openai/gpt-oss-120b",
    ("llama-3", "fp8"): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("llama-3", "fp4"): "nvidia/Llama-3.1-70B-Instruct-FP4",
    ("minimax-m2", "fp8"): "MiniMaxAI/MiniMax-M2.5",
    ("minimax-m2", "fp4"): "nvidia/MiniMax-M2.5-NVFP4",
}
"""The checkpoint that was served: a row names the model and the precision, and a user types the repository."""
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
    measured: str
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
    replica: ReplicaChoice
    load: LoadChoice
    work: ReplicaWork
    rates: Rates
    trial: LoadTestReplay

    @property
    def run_key(self) -> tuple[object, ...]:
        """Equal for rows whose simulations are the same, whatever the coefficients."""
        return self.replica, self.load, self.statistic

    @property
    def era(self) -> str:
        """Which side of the date that a forecast of newer rows is made from."""
        is_late = _years(self.measured) <= TRAINED_AGE_YEARS
        return f"from {TRAINED_UNTIL}" if is_late else f"before {TRAINED_UNTIL}"

    @property
    def with_default_flags(self) -> Case:
        """The same row as somebody would ask for it who knows nothing of the scheduler's flags."""
        return self.asked(replace(self.replica, **asdict(Recipe(memory_fraction=self.replica.memory_fraction))))

    @property
    def as_data_parallel(self) -> Case:
        """The same row with attention data-parallel over all its devices: each has the cache of its own sequences."""
        return self.asked(replace(self.replica, dp_attention=self.replica.tp))

    def asked(self, replica: ReplicaChoice) -> Case:
        """The same row of another replica."""
        work, rates, trial = simulated_as(replica, self.load)
        return replace(self, replica=replica, work=work, rates=rates, trial=trial)

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
    if (row["family"], row["precision"]) not in NAMES:
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
    prompt, output, clients = int(row["isl"]), int(row["osl"]), int(float(row["concurrency"]))
    statistic = "p50" if row["statistic"] == "as named" else "mean"
    key = (family, precision, device, engine, sharding, prompt, output, clients, statistic)
    version = _version(engine, row["engine_version"], row["measured_date"])
    recipe = recipe_of(
        Launch(
            family=family,
            precision=precision,
            device=device,
            generation=generation_of(_device(device).architecture),
            engine=engine,
            tp=sharding.tp,
            prompt_tokens=prompt,
            output_tokens=output,
            clients=clients,
            day=datetime.date.fromisoformat(row["measured_date"]) if row["measured_date"] else NEWEST,
        )
    )
    replica = ReplicaChoice(
        model=NAMES[family, precision],
        device=row["hardware"],
        engine=row["engine"],
        engine_version=version,
        tp=sharding.tp,
        ep=sharding.ep,
        **asdict(recipe),
        max_context_tokens=prompt + output,
    )
    load = LoadChoice(prompt_tokens=prompt, output_tokens=output, clients=clients)
    work, rates, trial = simulated_as(replica, load)
    return Case(
        key=key,
        configuration=(*key[:7], row["model"], row["engine_version"], row["statistic"], row["measured_date"]),
        family=family,
        device=device,
        generation=generation_of(_device(device).architecture),
        vendor=_device(device).vendor,
        engine=engine,
        precision=precision,
        measured=row["measured_date"],
        age_years=engine_age_years(engine, version),
        source="origin not named" if "inferred" in row["statistic"] else "InferenceX",
        apart=row["apart"],
        statistic=statistic,
        has_median="verified against" in row["statistic"],
        ttft_s=float(row[f"ttft_{statistic}_ms"]) / 1e3,
        tpot_s=float(row[f"tpot_{statistic}_ms"]) / 1e3,
        concurrency=clients,
        prompt_tokens=prompt,
        output_tokens=output,
        replica=replica,
        load=load,
        work=work,
        rates=rates,
        trial=trial,
    )


def _version(engine: str, stated: str, measured: str) -> str | None:
    """The version that a row states or, where it states a day alone, the newest of the versions that were tested then.

    None is the newest of all, as for whoever asks without a version.
    """
    if re.match(r"v?\d+\.\d", stated.rpartition(":")[2]):
        return stated
    sheet = efficiencies().sheets.get(f"engine-{engine}")
    if sheet is None:
        return None
    years, ages = _years(measured), sheet.rows["ages"]
    nearest = min(ages, key=lambda row: abs(number(row.values["years"]) - years))
    if years < abs(number(nearest.values["years"]) - years):
        return None
    return nearest.texts["versions"].rpartition(" to ")[2]


def _years(measured: str) -> float:
    """How long before the newest rows a row was measured; a row without a date is as new as they are."""
    if not measured:
        return 0.0
    return max(0.0, (NEWEST - datetime.date.fromisoformat(measured)).days / 365.25)


def _devices(row: dict[str, str], experts: int) -> int:
    """The export multiplies tensor by expert parallelism, so that the square of ep says that ep devices do both."""
    stated = int(float(row["gpus_repaired"] or row["n_gpus"]))
    is_exported = row["statistic"] != "as named"
    return experts if is_exported and stated == experts * experts else stated


@functools.cache
def simulated_as(replica: ReplicaChoice, load: LoadChoice) -> tuple[ReplicaWork, Rates, LoadTestReplay]:
    """What `ullage simulate` makes of the replica and the clients, before step times are known."""
    memory = _memory(replica)
    runtime = memory.runtime
    found = repeatable(clients_test(load), repeat_terms(load, memory, ServedPool()))
    assert isinstance(found, Measurement)
    work = replica_work(memory.model, runtime.sharding, runtime.cache)
    return work, device_rates(memory.device, runtime.sharding), found.trial


@functools.cache
def _memory(replica: ReplicaChoice) -> MemoryBudget:
    found = load_replica(replica, None, as_of=TODAY)
    if isinstance(found, Rejection):
        raise InputError(field=found.stage, value=replica.model, problem=found.reason, fix="Leave the row out.")
    return found[0]


@functools.cache
def _device(name: str) -> Device:
    return find_device(name)


@functools.cache
def published_model(family: str, precision: str) -> Model:
    return load_model(NAMES[family, precision])


def cache_dtype(family: str, precision: str, engine: str, device: str) -> str:
    """fp8 where checkpoint or the newest script say so."""
    stated = published_model(family, precision).kv_dtype
    if stated is not None:
        return stated
    recipes = engine == "sglang" and generation_of(_device(device).architecture) == "blackwell"
    return "fp8" if engine == "tensorrt-llm" or family == "minimax-m2" or recipes else "bf16"
