"""How far two pools are from published disaggregated runs (`python -m bench.disaggregated`).

Rows whose split of devices is stated are simulated as they were run: so many clients, prefill and decode devices apart.
A row states the parallelism of its decode replicas; that of its prefill replicas is taken as a node's, and the
bandwidth between them as the network of the devices. Nearly all rows are of one model family, and efficiencies are
fitted without it.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from bench.published.cases import DATA, DEVICES, ENGINES, NAMES, cache_dtype, published_model
from bench.published.fit import Floats, Solution
from bench.published.score import score, table
from bench.published.split_settings import SplitSettings, settings_of
from bench.speculation import LAYERS_FRACTION, acceptance, without_family

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.device import find_device
from ullage.facts.efficiency import efficiencies
from ullage.memory.kv import cache_cost, device_cache, kv_dtype
from ullage.memory.parameters import device_weights
from ullage.memory.sharding import Sharding
from ullage.readers.loadtests import read_bytes
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.prediction import PredictedLatency, predict
from ullage.service.calibration.repeats import RepeatTerms, measurement_of
from ullage.service.calibration.replay import ApartTest, EngineLimits
from ullage.service.disaggregated import HANDOVER_S, KvTransfer
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.steps.coefficients import band, generation_of
from ullage.service.steps.floor import Floor
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.speculative import PredictionLayers, SpeculativeStep
from ullage.service.steps.step_model import StepModel, device_rates
from ullage.service.steps.tables import StepTimes
from ullage.service.steps.work import replica_work
from ullage.simulate.fleet import DEFAULT_ROUTER

HEADER = ("rows", "n", "TPOT MAPE / median (bias) %", "TTFT MAPE / median (bias) %", "80 % band covers TPOT / TTFT")
OWN_ENGINES = {**ENGINES, "dynamo-trt": "tensorrt-llm", "dynamo-sglang": "sglang"}
OWN_DEVICES = {**DEVICES, "b300": "b300-sxm"}
NEWEST = datetime.date(2026, 4, 22)
MEMORY_FRACTION = 0.97
# What a device reaches of another node: its NIC of 400 Gbit/s.
BETWEEN_NODES_BYTES_PER_S = 50e9
# A NIC of 400 Gbit/s for each device of a replica, the usual of these machines; half of it is reached.
BANDWIDTH_BYTES_PER_S = 25e9
PREFILL_BUDGET_TOKENS = 16_384
MOST_SEQUENCES = 8192
# From so many sequences of a replica on, rows that state no attention parallelism have it data-parallel.
CROWDED_SEQUENCES = 128
MOST_REQUESTS = 12_000


@dataclass(frozen=True, kw_only=True)
class SplitRow:
    """One row: its configuration, its load and what was measured; `run` says of which version and day."""

    family: str
    precision: str
    device: str
    engine: str
    prefill: Sharding
    prefill_replicas: int
    decode: Sharding
    decode_replicas: int
    draft_tokens: int
    prompt_tokens: int
    output_tokens: int
    clients: int
    statistic: str
    ttft_s: float
    tpot_s: float
    age_years: float
    run: tuple[str, ...]
    half_by: tuple[object, ...]
    settings: SplitSettings | None = None

    @property
    def generation(self) -> str:
        return generation_of(find_device(self.device).architecture)

    @property
    def is_chosen_on(self) -> bool:
        """Whether the row's configuration is of the half that was looked at before anything was chosen."""
        return int(hashlib.sha256("|".join(map(str, self.half_by)).encode()).hexdigest(), 16) % 2 == 0

    @property
    def vendor(self) -> str:
        return find_device(self.device).vendor


def main() -> None:
    started = time.monotonic()
    solution = without_family()
    errors, inside, rows, reasons = [], [], [], Counter[str]()
    for row in split_rows():
        if isinstance(row, str):
            reasons[row] += 1
            continue
        try:
            found = predicted(estimate_of(row, solution), row, solution)
        except InputError as error:
            reasons[f"{error.field} {error.problem}"] += 1
            continue
        errors.append([log_error(each) for each in found])
        inside.append([bool(each.is_inside) for each in found])
        rows.append(row)
    print("\n".join(_scored(np.array(errors), np.array(inside), rows, reasons)))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


def log_error(latency: PredictedLatency) -> float:
    return float(np.log(latency.predicted_s / (latency.measured_s or np.nan)))


def split_rows() -> Iterator[SplitRow | str]:
    """The rows whose split is stated, or why one cannot be read."""
    with (DATA / "measured" / "inferencex_serving.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["disagg"] == "True" and float(row["prefill_gpus"] or 0) > 0:
                yield _row(row)


def _row(row: dict[str, str]) -> SplitRow | str:
    engine = OWN_ENGINES.get(row["engine"], row["engine"])
    statistic = "p50" if row["statistic"] == "as named" else "mean"
    if row["hardware"] not in OWN_DEVICES or (row["family"], row["precision"]) not in NAMES:
        return f"{row['hardware']} or {row['family']} in {row['precision']} is not known"
    if not row[f"ttft_{statistic}_ms"] or not row[f"tpot_{statistic}_ms"]:
        return f"states no {statistic} of TTFT and TPOT"
    device = OWN_DEVICES[row["hardware"]]
    prefill, decode = int(float(row["prefill_gpus"])), int(float(row["decode_gpus"]))
    clients = int(float(row["concurrency"]))
    settings = settings_of(_columns(row, engine, prefill, decode), clients=clients, day=row["measured_date"])
    guessed = _guessed(row, device, engine, prefill, decode)
    sides = guessed if settings is None else _stated(settings)
    return SplitRow(
        family=row["family"],
        precision=row["precision"],
        device=device,
        engine=engine,
        prefill=sides[0],
        prefill_replicas=prefill // sides[0].devices,
        decode=sides[1],
        decode_replicas=decode // sides[1].devices,
        draft_tokens=sides[2],
        prompt_tokens=int(row["isl"]),
        output_tokens=int(row["osl"]),
        clients=clients,
        statistic=statistic,
        ttft_s=float(row[f"ttft_{statistic}_ms"]) / 1e3,
        tpot_s=float(row[f"tpot_{statistic}_ms"]) / 1e3,
        age_years=_age_years(row["measured_date"]),
        run=(row["model"], row["engine_version"], row["measured_date"]),
        half_by=_half_by(row, device, engine, (prefill, decode), guessed),
        settings=settings,
    )


def _half_by(
    row: dict[str, str], device: str, engine: str, devices: tuple[int, int], guessed: tuple[Sharding, Sharding, int]
) -> tuple[object, ...]:
    """The configuration as it was known when the halves were made, so that they stay as they are."""
    prefill, decode = ((side.devices, whole // side.devices) for side, whole in zip(guessed[:2], devices, strict=True))
    lengths = int(row["isl"]), int(row["osl"])
    is_wide = guessed[1].dp_attention > 1
    return row["family"], row["precision"], device, engine, *prefill, *decode, is_wide, guessed[2], *lengths


def _columns(row: dict[str, str], engine: str, prefill: int, decode: int) -> dict[str, str]:
    """The row under the names that settings are found by."""
    return {
        "device": row["hardware"].removesuffix("_sxm"),
        "engine": engine,
        "precision": row["precision"],
        "prompt_tokens": row["isl"],
        "output_tokens": row["osl"],
        "speculation": row["spec_decode"],
        "prefill_devices": str(prefill),
        "decode_devices": str(decode),
    }


def _stated(settings: SplitSettings) -> tuple[Sharding, Sharding, int]:
    """Prefill, decode and drafted tokens as the run was configured."""
    first, second = (
        Sharding(tp=side.devices, ep=side.devices, dp_attention=side.ranks)
        for side in (settings.prefill, settings.decode)
    )
    return first, second, settings.draft_tokens


def _guessed(
    row: dict[str, str], device: str, engine: str, prefill: int, decode: int
) -> tuple[Sharding, Sharding, int]:
    """The same by what the row states, where no configuration of its run was found."""
    stated = int(float(row["tp"] or 1))
    each = stated if 1 < stated <= decode and decode % stated == 0 else decode
    crowded = int(float(row["concurrency"])) * each / decode >= CROWDED_SEQUENCES
    wide = row["dp_attn"] == "True" or (stated in (1, decode) and decode > 8) or (not row["dp_attn"] and crowded)
    drafted = 0 if row["spec_decode"] != "mtp" else 2 if engine == "sglang" else 1 if wide else 3
    own = _prefill_devices(row, device, prefill)
    return _sharding(own, wide=wide), _sharding(each, wide=wide), drafted


def _age_years(measured: str) -> float:
    """Before the newest rows; a row without a date is as new as they are."""
    return max(0.0, (NEWEST - datetime.date.fromisoformat(measured)).days / 365.25) if measured else 0.0


def _prefill_devices(row: dict[str, str], device: str, devices: int) -> int:
    """A node's where they divide into nodes, or else the fewest that hold the weights."""
    node = 4 if device.startswith("gb") else 8
    model, memory_bytes = published_model(row["family"], row["precision"]), find_device(device).memory_bytes
    fits = [
        size
        for size in range(1, devices + 1)
        if devices % size == 0
        and device_weights(model, _sharding(size, wide=True), mtp=False)[0].stored_bytes < 0.95 * memory_bytes
    ]
    return node if node in fits else min((size for size in fits if size & (size - 1) == 0), default=devices)


def _sharding(devices: int, *, wide: bool) -> Sharding:
    return Sharding(tp=devices, ep=devices, dp_attention=devices if wide else 1)


def predicted(step: StepModel, row: SplitRow, solution: Solution) -> tuple[PredictedLatency, PredictedLatency]:
    """TTFT and TPOT in the statistic the row names, each with its band, by what `simulate --load-test` calls."""
    asked = measurement_of(as_test(row).points[0], terms_of(row, solution))
    assert isinstance(asked, Measurement)
    found = {each.latency: each for each in predict(step, asked).latencies if each.measured_s is not None}
    if not np.isfinite(found["ttft"].predicted_s):
        raise InputError(field="row", value=row.clients, problem="no request fits the cache", fix="-")
    return found["ttft"], found["tpot"]


def as_test(*rows: SplitRow) -> LoadTest:
    """The rows as a file of InferenceX, read by its reader."""
    which = {"p50": "median", "mean": "mean"}
    points = [
        {
            "hw": row.device,
            "conc": row.clients,
            "tput_per_gpu": 0.0,
            "isl": row.prompt_tokens,
            "osl": row.output_tokens,
            "disagg": True,
            f"{which[row.statistic]}_ttft": row.ttft_s,
            f"{which[row.statistic]}_tpot": row.tpot_s,
        }
        for row in rows
    ]
    return read_bytes(json.dumps(points).encode(), file="sweep.json")


def terms_of(row: SplitRow, solution: Solution) -> RepeatTerms:
    """The split and the schedulers' limits, as somebody who ran the test would state them."""
    prefill, limits = (_side(row, solution, is_prefill=each) for each in (True, False))
    model, dtype = (
        published_model(row.family, row.precision),
        cache_dtype(row.family, row.precision, row.engine, row.device),
    )
    apart = ApartTest(
        prefill=prefill[0],
        prefill_floor=prefill[0].floor,
        prefill_limits=prefill[1],
        prefill_replicas=row.prefill_replicas,
        prefill_ranks=row.prefill.dp_attention,
        decode_replicas=row.decode_replicas,
        transfer=KvTransfer(
            bytes_per_token=cache_cost(model, kv_dtype(dtype)).bytes_per_token,
            bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S,
            handover_s=HANDOVER_S,
        ),
        prefill_routing=_prefill_routing(row),
        decode_routing=_in_turns(row),
    )
    return RepeatTerms(limits=limits[1], are_limits_stated=True, apart=apart)


def _prefill_routing(row: SplitRow) -> str:
    """By replicas in turns, and by ranks in turns too in SGLang; TensorRT-LLM gives the least busy rank the prompt."""
    if row.prefill.dp_attention == 1:
        return _in_turns(row)
    return DEFAULT_ROUTER if row.engine == "tensorrt-llm" and row.prefill_replicas == 1 else "round_robin"


def _in_turns(row: SplitRow) -> str:
    """In turns. Of several frontends each takes its own: with no more clients than frontends that comes to chance."""
    frontends = 1 if row.settings is None else row.settings.frontends
    return "random" if frontends > 1 and row.clients <= frontends else "round_robin"


def estimate_of(row: SplitRow, solution: Solution) -> StepModel:
    """What would be estimated of the replica that decodes, had this family never been seen."""
    return _side(row, solution, is_prefill=False)[0]


def _side(row: SplitRow, solution: Solution, *, is_prefill: bool) -> tuple[StepModel, EngineLimits]:
    """The estimate of a replica of one side, and its scheduler's limits."""
    sharding, values = row.prefill if is_prefill else row.decode, solution.efficiencies(row)  # type: ignore[arg-type]
    dtype = kv_dtype(cache_dtype(row.family, row.precision, row.engine, row.device))
    model, device = published_model(row.family, row.precision), find_device(row.device)
    rates = device_rates(device, sharding)
    if sharding.devices > 8 and not row.device.startswith("gb"):
        rates = replace(rates, link_bytes_per_s=BETWEEN_NODES_BYTES_PER_S)
    work = replica_work(model, sharding, dtype)
    roofline = Roofline(work=work, rates=rates, efficiencies=values)
    drafted = 0 if is_prefill else row.draft_tokens
    times: StepTimes = roofline
    if drafted:
        draft = PredictionLayers(roofline=roofline, layers_fraction=LAYERS_FRACTION)
        times = SpeculativeStep(times=roofline, roofline=roofline, draft_tokens=drafted, draft=draft)
    step = StepModel(
        kind="roofline",
        times=times,
        floor=Floor(work=work, rates=rates),
        evidence=Evidence.ESTIMATED,
        request_overhead_s=values.request_overhead_s,
        band=band(efficiencies().sheets["band-model"], "model"),
        facts=(),
    )
    return step, _limits(row, sharding, drafted, is_prefill=is_prefill)


def _limits(row: SplitRow, sharding: Sharding, drafted: int, *, is_prefill: bool) -> EngineLimits:
    """What bounds the scheduler of a replica: as it was configured, as far as that is known."""
    own = None if row.settings is None else row.settings.prefill if is_prefill else row.settings.decode
    ranks, kv_tokens = sharding.dp_attention, _kv_tokens(row, sharding, is_prefill=is_prefill)
    longest = row.prompt_tokens + row.output_tokens
    sequences = MOST_SEQUENCES
    if own is not None and own.kv_tokens is not None:
        kv_tokens = min(kv_tokens, ranks * max(own.kv_tokens, longest + 64))
    if own is not None and own.sequences is not None:
        sequences = min(sequences, ranks * own.sequences)
    if row.engine == "tensorrt-llm":
        sequences = min(sequences, max(1, kv_tokens // longest))
    of_rank = PREFILL_BUDGET_TOKENS if own is None or own.step_tokens is None else own.step_tokens
    return EngineLimits(
        max_sequences=sequences,
        budget_tokens=ranks * of_rank if is_prefill else sequences * (drafted + 1) + 64,
        kv_tokens=kv_tokens,
        tokens_per_step=acceptance()[drafted] if drafted else 1.0,
        step_positions=drafted + 1,
    )


def _kv_tokens(row: SplitRow, sharding: Sharding, *, is_prefill: bool) -> int:
    """What a replica's memory leaves for KV, at least one request."""
    model, device = published_model(row.family, row.precision), find_device(row.device)
    (weights,) = device_weights(model, sharding, mtp=False)
    (cost,) = device_cache(model, sharding, kv_dtype(cache_dtype(row.family, row.precision, row.engine, row.device)))
    free = MEMORY_FRACTION * device.memory_bytes - weights.stored_bytes
    if free <= 0:
        pool = "prefill" if is_prefill else "decode"
        fix = "Nothing: the row states so many devices."
        problem = f"the weights do not fit {sharding.devices} x {row.device} of the {pool} pool"
        raise InputError(field="memory", value=sharding.tp, problem=problem, fix=fix)
    return max(int(sharding.dp_attention * free / cost.bytes_per_token), row.prompt_tokens + row.output_tokens + 64)


def _scored(errors: Floats, inside: Floats, rows: list[SplitRow], reasons: Counter[str]) -> Iterator[str]:
    total = len(rows) + sum(reasons.values())
    missing = 100 * sum(reasons.values()) / total
    yield f"{total} rows state their split; {len(rows)} were simulated, {missing:.1f} % not."
    yield ""
    masks = {"**disaggregated**, all": np.ones(len(rows), bool)}
    for name in ("engine", "family", "device"):
        values = np.array([getattr(row, name) for row in rows])
        masks |= {f"- {member}": values == member for member in sorted(set(values))}
    masks["- speculative (MTP)"] = np.array([row.draft_tokens > 0 for row in rows])
    masks["- plain"] = ~masks["- speculative (MTP)"]
    masks["- the half that choices were made on"] = np.array([row.is_chosen_on for row in rows])
    masks["- **the other half**"] = ~masks["- the half that choices were made on"]
    yield from table(HEADER, [(name, *shown(errors[own], inside[own])) for name, own in masks.items()])
    if reasons:
        yield ""
        yield from table(("not simulated", "rows"), reasons.most_common())


def shown(errors: Floats, inside: Floats) -> tuple[object, ...]:
    """The columns of the rows that these are."""
    covered = f"{100 * inside[:, 1].mean():.0f} / {100 * inside[:, 0].mean():.0f} %"
    return len(errors), score(errors[:, 1]), score(errors[:, 0]), covered


if __name__ == "__main__":
    main()
