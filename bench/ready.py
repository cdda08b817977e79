"""Time to ready: how the default of each phase follows from published start-ups, and how well it predicts them.

    python bench/ready.py

Needs the published data set beside the repository. Prints, for each phase, the fit and what `facts/startups`
holds; then every logged start predicted by a fit that has not seen its host; then starts that others published.

A start is a cell: host, model, engine, devices, cache. Repeats of a cell count once, by their median, and a host
counts once per model: nine starts of one machine are one machine. The growth with devices is fitted within hosts,
because the hosts with most devices are also the slowest; the spread is that between hosts, with Student's factor
for how few they are. What others claim of nodes, images, network disks and object stores is rounded and in ranges
already, and is taken with its plain spread: Student's factor on four claims would span two decades.
"""

from __future__ import annotations

import csv
import datetime
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import find_device
from ullage.facts.startup import STORAGES, startup_facts
from ullage.load.names import load_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.startup.settings import StartSettings
from ullage.startup.spread import Spread

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "measured"
GIB = 2.0**30

# Checkpoint sizes as the logs state them ("Checkpoint size: 60.77 GiB").
CHECKPOINT_BYTES = {"gpt-oss-120b": 60.77 * GIB, "minimax-m2.5-nvfp4": 130.28 * GIB, "dsv4": 805.33 * GIB}
# The logs of all starts below this say that the compiled graph was loaded from the cache; no other start is near it.
CACHED_BELOW_S = 10.0
DRAWS = 20_000
RIVAL_S = 180.0
WIDEST = 3.74  # vLLM's warm-up: what stands for a spread that one host cannot tell
# One-sided 90 % of Student's t by degrees of freedom.
STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One phase of one start, or a rate of reading weights."""

    host: str
    devices: int
    value: float


@dataclass(frozen=True, kw_only=True)
class Start:
    """One logged start. `phases` are in seconds; `storage` is empty where the weights came from two places."""

    host: str
    model: str
    engine: str
    devices: int
    storage: str
    phases: dict[str, float]
    total_s: float | None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A lognormal: median on one device, growth per doubling of devices, p90 over the median."""

    hosts: int
    median: float
    per_doubling: float
    spread: float

    def at(self, devices: int) -> float:
        return float(self.median * self.per_doubling ** math.log2(devices))


# Phases that others published, outside the data set: engine, phase, devices, seconds, where.
PUBLISHED = (
    ("vllm", "compile", 1, 4.6 + 14.8, "vllm PR 11005, Llama-3-8B"),
    ("vllm", "compile", 8, 15.0 + 70.0, "vllm issue 19824, Llama-70B FP8"),
    ("vllm", "compile", 1, 10.0 + 42.0, "tensorfuse.io, Llama-3.1-8B on L40S"),
    ("vllm", "compile", 1, 43.0, "vllm issue 44881, Qwen3.6-35B-A3B on RTX 5090"),
    ("vllm", "compile_cached", 1, 7.51, "vllm issue 20264"),
    ("vllm", "compile_cached", 1, 10.0 + 13.0, "tensorfuse.io, Llama-3.1-8B on L40S"),
    ("vllm", "compile_cached", 1, 5.0, "vllm issue 44881, Qwen3.6-35B-A3B on RTX 5090"),
    ("vllm", "graphs", 1, 15.0, "vllm PR 11005, Llama-3-8B"),
    ("vllm", "graphs", 8, 60.0, "vllm issue 19824, Llama-70B FP8"),
    ("vllm", "graphs", 1, 17.0, "vllm issue 20264"),
    ("vllm", "graphs", 1, 54.0, "tensorfuse.io, Llama-3.1-8B on L40S"),
    ("vllm", "warmup", 1, 39.3 - 4.6 - 14.8 - 15.0, "vllm PR 11005, Llama-3-8B"),
    ("vllm", "warmup", 1, 34.11 - 7.51 - 17.0, "vllm issue 20264"),
)
# Rates of reading weights that others published, in bytes/s.
PUBLISHED_RATES = (
    ("page-cache", 72.66e9 / 10.0, "vllm issue 19824, Llama-70B FP8"),
    ("network-disk", 16.06e9 / 47.99, "NVIDIA Run:ai blog, safetensors from gp3"),
    ("streamed", 16.06e9 / 14.34, "NVIDIA Run:ai blog, streamer from gp3"),
    ("streamed", 16.06e9 / 7.53, "NVIDIA Run:ai blog, streamer from io2"),
    ("streamed", 2.0e9, "llm-d PR 2489, restore from GCS"),
    ("object-store", 51.75 * GIB / 62.0, "kaito issue 2325, download and load"),
    ("object-store", 16.06e9 / (61.0 + 33.0), "tensorfuse.io, download, then load"),
)
# What happens outside the engine: phase, seconds, where. A range that somebody states stands by its middle.
PUBLISHED_PLATFORM = (
    ("node", 284.0 + 126.0 + 7.0, "kaito issue 2325, A100 on AKS"),
    ("node", 45.0, "tensorfuse-examples issue 1"),
    ("node", 210.0, "vllm issue 41893: 2 to 5 minutes"),
    ("node", 300.0, "backend-engineering-essentials 30068: 2 to 8 minutes"),
    ("node", 450.0, "Microsoft Q&A 12767836: 5 to 10 minutes, A100 on AKS"),
    ("image", 101.0, "kaito issue 2325, 5.6 GB"),
    ("image", 20.0, "tensorfuse-examples issue 1, 15 GB, loaded lazily"),
    ("image", 300.0, "vllm issue 41893: about 5 minutes"),
    ("image", 120.0, "karpenter PR 1476, 10 GB: a couple of minutes"),
    ("container", 22.75, "GloriaXimingLu/inferencex-profiling: container start to first line, with a pip install"),
    ("container", 27.5, "vllm issue 20264: 25 to 30 s that no line explains"),
    ("container", 16.0, "vllm issue 44881: container to engine config"),
    ("wake", 0.26, "vLLM sleep mode blog, level 1, smaller model"),
    ("wake", 0.82, "vLLM sleep mode blog, level 1, larger model"),
    ("wake", 0.85, "vLLM sleep mode blog, level 2, smaller model"),
    ("wake", 2.58, "vLLM sleep mode blog, level 2, larger model"),
    ("wake", 2.5, "llm-d fast-model-actuation issue 445, Llama-3.1-8B: 2 to 3 s"),
    ("wake", 4.0, "llm-d PR 2492, Qwen3-32B on H100"),
)


def read_starts(folder: Path) -> list[Start]:
    with (folder / "startup_from_server_logs.csv").open() as file:
        return [_start(row) for row in csv.DictReader(file)]


def _start(row: dict[str, str]) -> Start:
    def seconds(key: str) -> float | None:
        return float(row[key]) if row[key] else None

    host = row["source_repo"].split("/")[0]
    model = next(name for name in CHECKPOINT_BYTES if name in row["model"])
    engine = "sglang" if "sglang" in row["source_file"] else "vllm"
    total_s = seconds("first_to_ready_s")
    phases = {
        "weights": seconds("model_load_max_s" if engine == "vllm" else "load_weights_max_s"),
        "graphs": seconds("graph_capture_max_s"),
    }
    compile_s, init_s = seconds("compile_max_s"), seconds("engine_init_max_s")
    if compile_s is not None:
        phases["compile_cached" if compile_s < CACHED_BELOW_S else "compile"] = compile_s
    if init_s is not None and compile_s is not None:
        phases["warmup"] = init_s - compile_s - (phases["graphs"] or 0.0)
    if total_s is not None and phases["weights"] is not None and (engine == "sglang" or init_s is not None):
        phases["boot"] = total_s - phases["weights"] - (init_s if init_s is not None else phases["graphs"] or 0.0)
    known = {name: value for name, value in phases.items() if value is not None}
    return Start(
        host=host,
        model=model,
        engine=engine,
        devices=int(row["tp"]),
        storage=_storage(host, known.get("weights")),
        phases=known,
        total_s=total_s,
    )


def _storage(host: str, weights_s: float | None) -> str:
    """The two clusters read from NFS; the single machine read its network disk once, then from memory."""
    if host != "GloriaXimingLu" or weights_s is None:
        return "shared-filesystem"
    return "network-disk" if weights_s > 80 else "page-cache" if weights_s < 20 else ""


def cells(starts: Iterable[Start], phase: str, *, rate: bool = False) -> list[Point]:
    """The median of each cell: seconds of a phase, or the rate of reading weights."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for start in starts:
        if phase in start.phases:
            seconds = start.phases[phase]
            value = CHECKPOINT_BYTES[start.model] / seconds if rate else seconds
            found[f"{start.host} {start.model} {start.engine}", start.model, start.devices].append(value)
    return [Point(host=key[0], devices=key[2], value=statistics.median(values)) for key, values in found.items()]


def fit(points: Sequence[Point], *, grows: bool = True, claims: bool = False) -> Fit:
    """Growth within hosts, median and spread between them; the spread of one host is not known."""
    by_host: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for point in points:
        by_host[point.host].append((math.log2(point.devices), math.log(point.value)))
    slope = max(_slope_within(by_host.values()), 0.0) if grows else 0.0
    levels = [statistics.fmean(y - slope * x for x, y in host) for host in by_host.values()]
    hosts = len(levels)
    factor = 1.2816 if claims else math.sqrt(1 + 1 / hosts) * STUDENT[max(hosts - 2, 0)]
    deviation = statistics.stdev(levels) * factor if hosts > 1 else math.nan
    return Fit(
        hosts=hosts,
        median=math.exp(statistics.fmean(levels)),
        per_doubling=math.exp(slope),
        spread=math.exp(deviation),
    )


def _slope_within(hosts: Iterable[Sequence[tuple[float, float]]]) -> float:
    over, under = 0.0, 0.0
    for host in hosts:
        centre_x, centre_y = (statistics.fmean(each) for each in zip(*host, strict=True))
        over += sum((x - centre_x) * (y - centre_y) for x, y in host)
        under += sum((x - centre_x) ** 2 for x, _ in host)
    return over / under if under else 0.0


def phase_points(starts: Sequence[Start], engine: str, phase: str) -> list[Point]:
    """What is known of a phase: the logs' cells, and what others published, each its own host."""
    logged = cells([start for start in starts if start.engine == engine], phase)
    published = [
        Point(host=where, devices=devices, value=value)
        for of, name, devices, value, where in PUBLISHED
        if of == engine and name == phase
    ]
    return [*logged, *published]


def rate_points(starts: Sequence[Start], storage: str) -> list[Point]:
    logged = cells([start for start in starts if start.storage == storage], "weights", rate=True)
    published = [Point(host=where, devices=1, value=value) for kind, value, where in PUBLISHED_RATES if kind == storage]
    return [*logged, *_load_benchmark(storage), *published]


def _load_benchmark(storage: str) -> list[Point]:
    """The ServerlessLLM benchmark: safetensors from memory ("cached") and from local NVMe ("random")."""
    test = {"page-cache": "cached", "local-nvme": "random"}.get(storage)
    sizes = {"opt-6.7b": 13.3e9, "Qwen3-32B": 65.52e9, "Distill-Qwen-32B": 65.53e9, "Llama-3.1-8B": 16.06e9}
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (DATA / "model_load_times.csv").open() as file:
        for row in csv.DictReader(file):
            if row["test"] == test and row["loader"] == "safetensors":
                size = next(value for name, value in sizes.items() if name in row["model"])
                found[row["hardware"], row["model"]].append(size / float(row["load_s"]))
    return [Point(host=f"{key[0]} {key[1]}", devices=1, value=statistics.median(each)) for key, each in found.items()]


def platform_points(phase: str) -> list[Point]:
    return [Point(host=where, devices=1, value=value) for name, value, where in PUBLISHED_PLATFORM if name == phase]


def repeat_spread(starts: Sequence[Start]) -> float:
    """p90 over the median when the same host starts the same thing again, over all phases but weights."""
    found: dict[tuple[str, str, str, int, str], list[float]] = defaultdict(list)
    for start in starts:
        for phase, value in start.phases.items():
            if phase != "weights":
                found[start.host, start.model, start.engine, start.devices, phase].append(math.log(value))
    several = [each for each in found.values() if len(each) > 1]
    squares = sum(sum((value - statistics.fmean(each)) ** 2 for value in each) for each in several)
    return math.exp(1.2816 * math.sqrt(squares / sum(len(each) - 1 for each in several)))


ENGINE_PHASES = {"vllm": ("boot", "compile", "compile_cached", "graphs", "warmup"), "sglang": ("boot", "graphs")}
PLATFORM_PHASES = ("node", "image", "container", "wake")
CLAIMED = ("node", "image", "container", "wake", "network-disk", "object-store")


def print_fits(starts: Sequence[Start]) -> None:
    print("| phase | hosts | median | p90 / median | per doubling | stored median | stored p90 |")
    print("|---|---|---|---|---|---|---|")
    for engine, phases in ENGINE_PHASES.items():
        facts = startup_facts(engine)
        for phase in phases:
            found = fit(phase_points(starts, engine, phase))
            stored = facts.phases[phase]
            _print_fit(f"{engine} {phase}", found, "s", stored.value_s, stored.high_s, stored.per_doubling_ratio)
    facts = startup_facts("vllm")
    for phase in PLATFORM_PHASES:
        stored = facts.phases[phase]
        _print_fit(
            phase, fit(platform_points(phase), grows=False, claims=True), "s", stored.value_s, stored.high_s, None
        )
    for storage in STORAGES:
        rate = facts.bandwidths[storage]
        found = fit(rate_points(starts, storage), grows=False, claims=storage in CLAIMED)
        _print_fit(storage, found, "GB/s", float(rate.value) / 1e9, float(rate.high or 0) / 1e9, None, scale=1e9)
    print(f"\nRepeats on one host: p90 / median {repeat_spread(starts):.2f}; stored {facts.repeat_spread_ratio:.2f}.\n")


def _print_fit(
    name: str, found: Fit, unit: str, value: float, high: float, grows: float | None, *, scale: float = 1.0
) -> None:
    growth = f"{found.per_doubling:.2f} (stored {grows:.2f})" if grows is not None else "-"
    print(
        f"| {name} | {found.hosts} | {found.median / scale:.3g} {unit} | {found.spread:.2f} | {growth} "
        f"| {value:.3g} {unit} | {high:.3g} {unit} |"
    )


def print_correlation(starts: Sequence[Start]) -> None:
    """Whether a start that boots slowly also captures, warms up and compiles slowly: its deviations from the fit."""
    names = ("boot", "graphs", "warmup", "compile")
    fits = {name: fit(phase_points(starts, "vllm", name)) for name in names}
    whole = [start for start in starts if all(name in start.phases for name in names)]
    deviations = [[math.log(start.phases[name] / fits[name].at(start.devices)) for start in whole] for name in names]
    print(f"Correlation of the deviations of {len(whole)} starts from the fit:\n")
    print(f"| | {' | '.join(names)} |")
    print("|---|---|---|---|---|")
    for name, row in zip(names, np.atleast_2d(np.corrcoef(deviations)), strict=True):
        print(f"| {name} | {' | '.join(f'{each:.2f}' for each in row)} |")


def predict(seen: Sequence[Start], start: Start, *, rate_given: bool = False) -> tuple[float, float, float] | None:
    """p10, p50, p90 of first line to ready, from starts that leave this one out; published phases stay in.

    As in the stage, boot, graphs and warm-up share one draw. A spread that nothing seen can tell stands at the
    widest that is known. `rate_given` says that the user knows what the storage gives. None where nothing is left
    to predict from, or the weights came from two places.
    """
    names = [name for name in start.phases if name != "weights"]
    points = {name: phase_points(seen, start.engine, name) for name in names}
    if not start.storage or "weights" not in start.phases or not all(points.values()):
        return None
    fits = {name: fit(each) for name, each in points.items()}
    widest = max((each.spread for each in fits.values() if not math.isnan(each.spread)), default=WIDEST)
    rng = np.random.default_rng(0)
    host = rng.standard_normal(DRAWS)
    total = np.zeros(DRAWS)
    for name, each in fits.items():
        middle, spread = each.at(start.devices), widest if math.isnan(each.spread) else each.spread
        drawn = host if name in ("boot", "graphs", "warmup") else rng.standard_normal(DRAWS)
        total += Spread(low_s=middle / spread, median_s=middle, high_s=middle * spread).at(drawn)
    rates = rate_points(seen, start.storage)
    if not rates:
        return None
    rate = fit(rates, grows=False, claims=start.storage in CLAIMED)
    middle = start.phases["weights"] if rate_given else CHECKPOINT_BYTES[start.model] / rate.median
    spread = startup_facts("vllm").repeat_spread_ratio if rate_given else rate.spread
    spread = widest if math.isnan(spread) else spread
    weights = Spread(low_s=middle / spread, median_s=middle, high_s=middle * spread)
    total += weights.at(rng.standard_normal(DRAWS))
    low, middle, high = (float(each) for each in np.quantile(total, (0.1, 0.5, 0.9)))
    return low, middle, high


def print_held_out(
    starts: Sequence[Start], title: str, leave: Callable[[Start, Start], bool], *, rate_given: bool = False
) -> None:
    print(f"\nPredicted without {title}:\n")
    print("| host | model | engine | devices | logged s | p10 | p50 | p90 | error |")
    print("|---|---|---|---|---|---|---|---|---|")
    errors, rivals, learnt, inside, left_out = [], [], [], 0, 0
    for start in _one_of_each_cell(starts):
        seen = [other for other in starts if not leave(other, start)]
        found = predict(seen, start, rate_given=rate_given)
        if found is None or start.total_s is None:
            left_out += 1
            continue
        low, middle, high = found
        errors.append(middle / start.total_s - 1)
        rivals.append(RIVAL_S / start.total_s - 1)
        learnt.append(_mean_of_hosts_s(seen) / start.total_s - 1)
        inside += low <= start.total_s <= high
        print(
            f"| {start.host} | {start.model} | {start.engine} | {start.devices} | {start.total_s:.0f} "
            f"| {low:.0f} | {middle:.0f} | {high:.0f} | {errors[-1]:+.0%} |"
        )
    size = statistics.median(abs(each) for each in errors)
    print(f"\n{len(errors)} cells: median size of the error {size:.0%}, {inside} of them between p10 and p90.")
    rival = statistics.median(abs(each) for each in rivals)
    print(f"The constant of {RIVAL_S:g} s that llm-d's KEDA script assumes: {rival:.0%}.")
    fair = statistics.median(abs(each) for each in learnt)
    print(f"A constant learnt from the same starts, the geometric mean of their hosts: {fair:.0%}.")
    print(f"{left_out} left out: nothing else to predict them from, or weights from two places.")


def _mean_of_hosts_s(starts: Iterable[Start]) -> float:
    """The geometric mean over hosts of that of each host's starts: a constant that has seen what the fit has seen."""
    by_host: dict[str, list[float]] = defaultdict(list)
    for start in starts:
        if start.total_s is not None:
            by_host[start.host].append(math.log(start.total_s))
    return math.exp(statistics.fmean(statistics.fmean(each) for each in by_host.values()))


def _one_of_each_cell(starts: Sequence[Start]) -> list[Start]:
    found: dict[tuple[object, ...], list[Start]] = defaultdict(list)
    for start in starts:
        if start.total_s is not None:
            state = "cached" if "compile_cached" in start.phases else "graphs" if "graphs" in start.phases else ""
            found[start.host, start.model, start.engine, start.devices, start.storage, state].append(start)
    return [sorted(each, key=lambda one: one.total_s or 0.0)[len(each) // 2] for each in found.values()]


def print_from_one_start(starts: Sequence[Start]) -> None:
    """Each repeat of a cell, predicted from the cell's first start alone: what one log is worth."""
    found: dict[tuple[object, ...], list[Start]] = defaultdict(list)
    for start in starts:
        if start.total_s is not None and start.storage:
            state = tuple(sorted(start.phases))
            found[start.host, start.model, start.engine, start.devices, start.storage, state].append(start)
    ratios = [(other.total_s or 0.0) / (first.total_s or 1.0) for first, *others in found.values() for other in others]
    errors = [1 / each - 1 for each in ratios]
    spread = startup_facts("vllm").repeat_spread_ratio
    inside = sum(1 / spread <= each <= spread for each in ratios)
    print(
        f"\nPredicted from one log of the same host and model: {len(errors)} repeats, median size of the error "
        f"{statistics.median(abs(each) for each in errors):.0%}, largest {max(abs(each) for each in errors):.0%}, "
        f"{inside} within the stored spread of repeats."
    )


# Whole starts that others published: what, model, device, tp, storage, level, seconds, where.
WHOLE = (
    (
        "27B on A100, AKS, downloaded",
        "qwen3.5-27b",
        "a100-80gb-sxm",
        1,
        "object-store",
        Level.COLD,
        873.0,
        "kaito 2325",
    ),
    ("gpt-oss-120b on 4 A100, AKS", "gpt-oss-120b", "a100-80gb-sxm", 4, "network-disk", Level.COLD, 600.0, "MS Q&A"),
    ("Qwen3-32B on H100, launcher", "qwen3-32b", "h100-sxm", 2, "shared-filesystem", Level.WARM, 85.3, "llm-d PR 2492"),
    ("Llama-3.1-8B, launcher", "llama-3.1-8b", "h100-sxm", 1, "shared-filesystem", Level.WARM, 65.0, "FMA issue 445"),
    ("Qwen3-32B on H100, asleep", "qwen3-32b", "h100-sxm", 2, "shared-filesystem", Level.HOT, 4.0, "llm-d PR 2492"),
    ("Llama-3.1-8B, asleep", "llama-3.1-8b", "h100-sxm", 1, "shared-filesystem", Level.HOT, 2.5, "FMA issue 445"),
)


def print_whole() -> None:
    print("\nWhole starts that others published, by the stage itself:\n")
    print("| start | level | published s | p10 | p50 | p90 | where |")
    print("|---|---|---|---|---|---|---|")
    inside = 0
    for what, model, device, tp, storage, level, seconds, where in WHOLE:
        found = _stage(model, device, tp, storage).level(level)
        low, middle, high = (found.quantile_s(each) for each in (0.1, 0.5, 0.9))
        inside += low <= seconds <= high
        print(f"| {what} | {level} | {seconds:g} | {low:.0f} | {middle:.0f} | {high:.0f} | {where} |")
    print(f"\n{inside} of {len(WHOLE)} between p10 and p90. A launcher has imported the engine before it is asked.")


def _stage(model: str, device: str, tp: int, storage: str) -> TimeToReady:
    source = Source(what="bench/ready.py", where="bench/ready.py", date=datetime.date(2026, 11, 15))
    settings = RuntimeSettings(
        source=source, engine="vllm", sharding=Sharding(tp=tp), max_context_tokens=4096, memory_fraction=0.95
    )
    memory = memory_budget(load_model(model), find_device(device), settings)
    assert isinstance(memory, MemoryBudget), memory
    where = Assumption(name="storage", value=storage, unit="", evidence=Evidence.STATED, source=source)
    return time_to_ready(memory, StartSettings(storage=where), rng=np.random.default_rng(0))


def main() -> int:
    if not DATA.is_dir():
        print("The published data set is not beside the repository; nothing to compare with.", file=sys.stderr)
        return 1
    starts = read_starts(DATA)
    print_fits(starts)
    print_correlation(starts)
    print_held_out(starts, "its own cell", _same_cell)
    print_held_out(starts, "its host", lambda other, start: other.host == start.host)
    print_held_out(
        starts,
        "its host, the rate of its storage given",
        lambda other, start: other.host == start.host,
        rate_given=True,
    )
    print_from_one_start(starts)
    print_whole()
    return 0


def _same_cell(other: Start, start: Start) -> bool:
    return (other.host, other.model, other.engine, other.devices) == (
        start.host,
        start.model,
        start.engine,
        start.devices,
    )


if __name__ == "__main__":
    raise SystemExit(main())
