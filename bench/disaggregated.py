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
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from bench.published.cases import DATA, DEVICES, ENGINES, LEAST_FRACTION, NAMES, cache_dtype, published_model
from bench.published.fit import Floats, Solution
from bench.published.score import score, table
from bench.speculation import LAYERS_FRACTION, acceptance, without_family

from ullage.errors import InputError
from ullage.facts.device import find_device
from ullage.memory.kv import cache_cost, device_cache, kv_dtype
from ullage.memory.parameters import device_weights
from ullage.memory.sharding import Sharding
from ullage.service.calibration.replay import CROWD_FRACTION, uniform_lengths
from ullage.service.disaggregated import HANDOVER_S, KvTransfer, SplitPools, SplitTraffic, rank_of, serve_split_clients
from ullage.service.replica import Replica
from ullage.service.steps.coefficients import generation_of
from ullage.service.steps.roofline import Efficiencies, Roofline
from ullage.service.steps.speculative import PredictionLayers, SpeculativeStep
from ullage.service.steps.step_model import device_rates
from ullage.service.steps.tables import StepTimes, step_table
from ullage.service.steps.work import replica_work
from ullage.simulate.engine import Engine

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
# With fewer clients for each rank of a prefill replica the ranks seldom have work at once, and are taken as one queue.
CLIENTS_PER_RANK = 4


@dataclass(frozen=True, kw_only=True)
class SplitRow:
    """One row: its configuration, its load and what was measured."""

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

    @property
    def generation(self) -> str:
        return generation_of(find_device(self.device).architecture)

    @property
    def is_chosen_on(self) -> bool:
        """Whether the row's configuration is of the half that was looked at before anything was chosen."""
        configuration = (
            self.family, self.precision, self.device, self.engine, self.prefill.devices, self.prefill_replicas,
            self.decode.devices, self.decode_replicas, self.decode.dp_attention > 1, self.draft_tokens,
            self.prompt_tokens, self.output_tokens,
        )  # fmt: skip
        return int(hashlib.sha256("|".join(map(str, configuration)).encode()).hexdigest(), 16) % 2 == 0

    @property
    def vendor(self) -> str:
        return find_device(self.device).vendor


def main() -> None:
    started = time.monotonic()
    solution = without_family()
    errors, rows, reasons = [], [], Counter[str]()
    for row in split_rows():
        if isinstance(row, str):
            reasons[row] += 1
            continue
        try:
            found = simulate_row(row, solution)
        except InputError as error:
            reasons[f"{error.field} {error.problem}"] += 1
            continue
        errors.append(np.log(found) - np.log((row.ttft_s, row.tpot_s)))
        rows.append(row)
    print("\n".join(_scored(np.array(errors), rows, reasons)))
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


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
    stated = int(float(row["tp"] or 1))
    each = stated if 1 < stated <= decode and decode % stated == 0 else decode
    crowded = int(float(row["concurrency"])) * each / decode >= CROWDED_SEQUENCES
    wide = row["dp_attn"] == "True" or (stated in (1, decode) and decode > 8) or (not row["dp_attn"] and crowded)
    own = _prefill_devices(row, device, prefill)
    speculates = row["spec_decode"] == "mtp"
    return SplitRow(
        family=row["family"],
        precision=row["precision"],
        device=device,
        engine=engine,
        prefill=_sharding(own, wide=wide),
        prefill_replicas=prefill // own,
        decode=_sharding(each, wide=wide),
        decode_replicas=decode // each,
        draft_tokens=0 if not speculates else 2 if engine == "sglang" else 1 if wide else 3,
        prompt_tokens=int(row["isl"]),
        output_tokens=int(row["osl"]),
        clients=int(float(row["concurrency"])),
        statistic=statistic,
        ttft_s=float(row[f"ttft_{statistic}_ms"]) / 1e3,
        tpot_s=float(row[f"tpot_{statistic}_ms"]) / 1e3,
        age_years=_age_years(row["measured_date"]),
    )


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


def simulate_row(row: SplitRow, solution: Solution) -> tuple[float, float]:
    """TTFT and TPOT in the statistic the row names."""
    efficiencies = solution.efficiencies(row)  # type: ignore[arg-type]
    longest = row.prompt_tokens + row.output_tokens
    dtype = cache_dtype(row.family, row.precision, row.engine, row.device)
    model = published_model(row.family, row.precision)
    ranks = row.prefill.dp_attention
    ranks = ranks if row.clients >= CLIENTS_PER_RANK * ranks * row.prefill_replicas else 1
    pools = SplitPools(
        prefill=_replica(row, row.prefill, dtype, efficiencies, longest=longest, is_prefill=True, ranks=ranks),
        prefill_replicas=row.prefill_replicas,
        prefill_ranks=ranks,
        decode=_replica(row, row.decode, dtype, efficiencies, longest=longest, is_prefill=False),
        decode_replicas=row.decode_replicas,
        transfer=KvTransfer(
            bytes_per_token=cache_cost(model, kv_dtype(dtype)).bytes_per_token,
            bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S,
            handover_s=HANDOVER_S,
        ),
    )
    count = min(row.clients * 10, max(MOST_REQUESTS, 5 * row.clients))
    rng = np.random.default_rng(7)
    traffic = SplitTraffic(
        arrival_s=np.zeros(count),
        prompt_tokens=uniform_lengths(row.prompt_tokens, count, least_fraction=LEAST_FRACTION, rng=rng),
        output_tokens=uniform_lengths(row.output_tokens, count, least_fraction=LEAST_FRACTION, rng=rng),
    )
    found = serve_split_clients(pools, traffic, clients=row.clients, seed=0)
    values = (found.ttft_s, found.tpot_s)
    if not np.isfinite(found.end_s).any():
        raise InputError(field="row", value=row.clients, problem="no request fits the cache", fix="-")
    return tuple(float(np.nanmean(each) if row.statistic == "mean" else np.nanpercentile(each, 50)) for each in values)  # type: ignore[return-value]


def _replica(
    row: SplitRow,
    sharding: Sharding,
    dtype: str,
    efficiencies: Efficiencies,
    *,
    longest: int,
    is_prefill: bool,
    ranks: int = 1,
) -> Replica:
    model, device = published_model(row.family, row.precision), find_device(row.device)
    rates = device_rates(device, sharding)
    if sharding.devices > 8 and not row.device.startswith("gb"):
        rates = replace(rates, link_bytes_per_s=BETWEEN_NODES_BYTES_PER_S)
    roofline = Roofline(
        work=replica_work(model, sharding, kv_dtype(dtype)),
        rates=rates,
        efficiencies=efficiencies,
    )
    (weights,) = device_weights(model, sharding, mtp=False)
    (cost,) = device_cache(model, sharding, kv_dtype(dtype))
    free = MEMORY_FRACTION * device.memory_bytes - weights.stored_bytes
    if free <= 0:
        pool = "prefill" if is_prefill else "decode"
        fix = "Nothing: the row states so many devices."
        problem = f"the weights do not fit {sharding.devices} x {row.device} of the {pool} pool"
        raise InputError(field="memory", value=sharding.tp, problem=problem, fix=fix)
    kv_tokens = max(int(sharding.dp_attention * free / cost.bytes_per_token), longest + 64)
    drafted = 0 if is_prefill else row.draft_tokens
    times: StepTimes = roofline
    if drafted:
        draft = PredictionLayers(roofline=roofline, layers_fraction=LAYERS_FRACTION)
        times = SpeculativeStep(times=roofline, roofline=roofline, draft_tokens=drafted, draft=draft)
    sequences = min(row.clients, MOST_SEQUENCES)
    if row.engine == "tensorrt-llm":
        sequences = min(sequences, max(1, kv_tokens // longest))
    budget = sharding.dp_attention * PREFILL_BUDGET_TOKENS if is_prefill else sequences * (drafted + 1) + 64
    budget = max(budget, sequences)
    whole = Replica(
        engine=Engine(
            step=step_table(
                times, max_sequences=sequences, budget_tokens=budget, kv_tokens=min(kv_tokens, sequences * longest)
            ),
            kv_blocks=kv_tokens // 16,
            max_sequences=sequences,
            budget_tokens=budget,
            request_overhead_s=efficiencies.request_overhead_s,
            crowd_overhead_s=CROWD_FRACTION * efficiencies.request_overhead_s,
            tokens_per_step=acceptance()[drafted] if drafted else 1.0,
            step_positions=drafted + 1,
        ),
        devices=sharding.devices,
    )
    return whole if ranks == 1 else rank_of(whole, times, ranks)


def _scored(errors: Floats, rows: list[SplitRow], reasons: Counter[str]) -> Iterator[str]:
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
    shown = [(name, int(own.sum()), score(errors[own, 1]), score(errors[own, 0])) for name, own in masks.items()]
    yield from table(("rows", "n", "TPOT MAPE / median (bias) %", "TTFT MAPE / median (bias) %"), shown)
    if reasons:
        yield ""
        yield from table(("not simulated", "rows"), reasons.most_common())


if __name__ == "__main__":
    main()
