"""Published rate sweeps of one configuration, each run with the trial that repeats it.

llm-d's benchmark kept its requests: prompt and answer lengths, when each was sent, what each waited. The KubeCon runs
of inference-perf kept summaries by stage, with the deployment's manifest and the client's configuration beside them.
What a sweep does not state comes from its lower half or from physics, never from the runs to be predicted:

- engine settings are the defaults of the version
- a device that is not named is the one of the catalogue whose estimate lies nearest to the lowest rate's TPOT
- KV capacity is the memory budget's, and at least what ran at once in the lower half
- llm-d's chats repeat their own history, and every rate repeats the chats of the last. How much of a prompt was a hit
  is read from the lowest rate: TTFT grows with a prompt's length, and where it grows less than the estimate of
  computing it all, the rest was cached
"""

from __future__ import annotations

import csv
import datetime
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from bench.published.cases import DATA

from ullage.errors import InputError
from ullage.evidence import Source
from ullage.facts.device import Device, find_device
from ullage.facts.model import LayerGroup, Model
from ullage.facts.model_sheet import find_model
from ullage.memory.case import Case
from ullage.memory.settings import RuntimeSettings, whole
from ullage.memory.sharding import Sharding
from ullage.readers.loadtests import read_loadtest
from ullage.readers.models.quantisation import FP8
from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, measurement_of
from ullage.service.calibration.replay import EngineLimits
from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.steps.step_model import StepModel, replica_step

# Devices that a run on an unnamed one may have used: what clouds rented out in 2025.
LIKELY_DEVICES = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "l40s", "l4", "a10g")
# vLLM's release of the month of the llm-d runs, whose own version is not recorded.
LLMD_VLLM = "0.8.5"
SHARED_PROMPTS = 100
BLOCK_TOKENS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepRun:
    """One rate: what was measured, and the trial that repeats it on one replica."""

    rate_rps: float
    ttft_p95_s: float
    tpot_p95_s: float
    measurement: Measurement
    point: Point
    terms: RepeatTerms


@dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """Runs of one configuration by rising rate, and its step model before any calibration."""

    name: str
    step: StepModel
    runs: tuple[SweepRun, ...]


@dataclass(frozen=True, kw_only=True)
class NoSweep:
    name: str
    reason: str


def sweeps() -> Iterator[Sweep | NoSweep]:
    """Every llm-d and KubeCon sweep that is at hand, or why it cannot be simulated."""
    yield from _llmd_sweeps()
    yield from _kubecon_sweeps()


@dataclass(frozen=True, kw_only=True)
class _Server:
    """What ran: enough to estimate its steps and bound its scheduler."""

    model: Model
    device: Device
    settings: RuntimeSettings

    @property
    def step(self) -> StepModel:
        return replica_step(self.model, self.device, self._case.outcome().runtime)

    @property
    def limits(self) -> EngineLimits:
        outcome = self._case.outcome()
        runtime = outcome.runtime
        return EngineLimits(
            max_sequences=whole(runtime.max_sequences),
            budget_tokens=whole(runtime.step_tokens),
            kv_tokens=max(outcome.kv_tokens, 1),
            block_tokens=BLOCK_TOKENS,
        )

    @property
    def _case(self) -> Case:
        return Case(model=self.model, device=self.device, settings=self.settings)


# ---- llm-d ---------------------------------------------------------------------------------------------


def _llmd_sweeps() -> Iterator[Sweep | NoSweep]:
    groups: dict[tuple[str, str], dict[float, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(DATA / "measured" / "llmd_requests.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            groups[row["experiment"], row["workload"]][float(row["offered_qps"])].append(row)
    for (experiment, workload), by_rate in groups.items():
        name = f"llm-d {'/'.join(experiment.split('/')[-2:])} {workload}"
        try:
            yield _llmd_sweep(name, by_rate)
        except InputError as error:
            yield NoSweep(name=name, reason=str(error))


def _llmd_sweep(name: str, by_rate: dict[float, list[dict[str, str]]]) -> Sweep | NoSweep:
    first = next(iter(by_rate.values()))[0]
    replicas = int(first["replicas"])
    points = [(rate, _llmd_point(rows, replicas)) for rate, rows in sorted(by_rate.items())]
    model = _model(first["model"])
    settings = _settings(tp=int(first["tp"] or 1), version=LLMD_VLLM)
    server = _Server(model=model, device=_device(first["gpu"], model, settings, points[0][1]), settings=settings)
    share = _hit_fraction(points[0][1].requests, server.step)
    held = max(_most_held_tokens(point.requests) for _, point in points[: half_of(len(points))])
    return _sweep(name, server, [(rate, _with_hits(point, share)) for rate, point in points], least_kv_tokens=held)


def half_of(runs: int) -> int:
    """How many of a sweep's rates are its lower half."""
    return max(1, runs // 2)


def _hit_fraction(requests: Sequence[MeasuredRequest], step: StepModel) -> float:
    """The share of a prompt that was not computed, from how TTFT grows with its length on a replica with no queue."""
    lengths = np.array([each.prompt_tokens or 0 for each in requests], np.float64)
    waits = np.array([each.ttft_s or 0.0 for each in requests])
    if np.ptp(lengths) < lengths.mean() / 2:
        return 0.0
    measured = float(np.polyfit(lengths, waits, 1)[0])
    low, high = np.percentile(lengths, (10, 90))
    low_s, high_s = step.prefill_s(np.array([low, high]))
    return float(np.clip(1.0 - measured * (high - low) / (high_s - low_s), 0.0, 1.0))


def _with_hits(point: Point, share: float) -> Point:
    return replace(
        point,
        requests=tuple(
            replace(each, cached_tokens=int(share * (each.prompt_tokens or 0)) // BLOCK_TOKENS * BLOCK_TOKENS)
            for each in point.requests
        ),
    )


def _most_held_tokens(requests: Sequence[MeasuredRequest]) -> int:
    """The most tokens that requests in decode held at one moment: the cache had room for them."""
    first = np.array([(each.sent_s or 0.0) + (each.ttft_s or 0.0) for each in requests])
    end = np.array([(each.sent_s or 0.0) + (each.e2e_s or 0.0) for each in requests])
    prompt = np.array([each.prompt_tokens or 0 for each in requests])
    output = np.array([each.output_tokens or 0 for each in requests])
    most = 0.0
    for moment in end:
        inside = (first <= moment) & (end >= moment)
        made = output * np.clip((moment - first) / np.maximum(end - first, 1e-9), 0.0, 1.0)
        most = max(most, float((prompt + made)[inside].sum()))
    return int(most)


def _llmd_point(rows: Sequence[dict[str, str]], replicas: int) -> Point:
    """The requests that one of several replicas behind a router gets in turn; percentiles are of all of them."""
    ordered = sorted(rows, key=lambda row: float(row["launch_time"]))
    start_s = float(ordered[0]["launch_time"])
    requests = tuple(
        MeasuredRequest(
            status=Status.OK,
            sent_s=float(row["launch_time"]) - start_s,
            ttft_s=float(row["ttft_s"]),
            e2e_s=float(row["ttft_s"]) + float(row["generation_time_s"]),
            prompt_tokens=int(row["prompt_tokens"]),
            output_tokens=int(row["generation_tokens"]),
        )
        for row in ordered
        if int(row["generation_tokens"]) > 0
    )
    ttft = np.array([each.ttft_s for each in requests])
    tpot = np.array([each.tpot_s for each in requests if each.tpot_s is not None])
    return Point(
        name=f"{first_rate(ordered)} req/s",
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=Loop.TRACE),
        duration_s=None,
        completed_count=len(requests[::replicas]),
        failed_count=0,
        latencies=(_summary(Definition.TTFT, ttft), _summary(Definition.TPOT, tpot)),
        requests=requests[::replicas],
    )


def first_rate(rows: Sequence[dict[str, str]]) -> str:
    return rows[0]["offered_qps"]


def _summary(definition: Definition, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> LatencySummary:
    at = ((0.5, float(np.percentile(values, 50))), (0.95, float(np.percentile(values, 95))))
    return LatencySummary(definition=definition, mean_s=float(values.mean()), percentiles=at)


# ---- KubeCon -------------------------------------------------------------------------------------------


def _kubecon_sweeps() -> Iterator[Sweep | NoSweep]:
    folder = DATA / "loadtests" / "inference-perf"
    client = yaml.safe_load((folder / "config.yaml").read_text())
    is_even = client["load"]["type"] == "constant"
    for manifest in sorted((folder / "kubecon-na-2025").glob("*/manifests.yaml")):
        name = f"KubeCon {manifest.parent.name}"
        try:
            yield _kubecon_sweep(name, manifest, is_even=is_even)
        except InputError as error:
            yield NoSweep(name=name, reason=str(error))


def _kubecon_sweep(name: str, manifest: Path, *, is_even: bool) -> Sweep | NoSweep:
    text = manifest.read_text()
    flags = dict(re.findall(r"--([a-z_-]+)(?:[= ]([^\s\"]+))?", text))
    model_name = re.findall(r"name: MODEL_ID\s+value: (\S+)", text)[0]
    settings = _settings(
        tp=int(flags.get("tensor-parallel-size") or 1),
        version=re.findall(r"vllm-openai:v([\d.]+)", text)[0],
        memory_fraction=float(flags.get("gpu_memory_utilization") or flags.get("gpu-memory-utilization") or 0.9),
        max_sequences=int(flags["max-num-seqs"]) if flags.get("max-num-seqs") else None,
        max_context_tokens=int(flags["max-model-len"]) if flags.get("max-model-len") else None,
    )
    device = find_device(re.findall(r"gke-accelerator: (\S+)", text)[0])
    server = _Server(model=_model(model_name), device=device, settings=settings)
    points = []
    for stage in sorted(manifest.parent.glob("results/stage_*_lifecycle_metrics.json")):
        (point,) = read_loadtest(stage).points
        # Requests that the client sent late are part of a rate that was not kept: as run, they come when they are due.
        point = replace(point, load=replace(point.load, even=is_even))
        if "enable-prefix-caching" in flags:
            point = replace(point, tokens=_all_cached(point.tokens))
        points.append((float(point.load.offered_rps or 0.0), point))
    return _sweep(name, server, sorted(points, key=lambda each: each[0]))


def _all_cached(tokens: Tokens) -> Tokens:
    """The client sends a hundred prompts over and over: with prefix caching all but the last block is a hit."""
    prompt = (tokens.prompt_lengths.mean_tokens if tokens.prompt_lengths else None) or 0.0
    share = (prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS / prompt if prompt > 1 else 0.0
    return replace(tokens, cached_prompt_tokens=share * (tokens.prompt_tokens or 0.0))


# ---- both ----------------------------------------------------------------------------------------------


def _sweep(
    name: str, server: _Server, points: Sequence[tuple[float, Point]], *, least_kv_tokens: int = 0
) -> Sweep | NoSweep:
    limits = replace(server.limits, kv_tokens=max(server.limits.kv_tokens, least_kv_tokens))
    runs = []
    for rate_rps, point in points:
        terms = RepeatTerms(limits=limits)
        found = measurement_of(point, terms)
        ttft, tpot = point.latency(Definition.TTFT), point.latency(Definition.TPOT)
        if isinstance(found, NotRepeatable) or ttft is None or tpot is None:
            reason = found.reason if isinstance(found, NotRepeatable) else "states no TTFT or no TPOT"
            return NoSweep(name=name, reason=f"{point.name} {reason}")
        targets = {each.latency: each.value for each in found.targets}
        # TPOT by chunks is scaled to tokens: its percentiles are off by the factor its mean is off by.
        ratio = targets["tpot"] / (tpot.middle_s or targets["tpot"])
        runs.append(
            SweepRun(
                rate_rps=rate_rps,
                ttft_p95_s=ttft.at(0.95) or 0.0,
                tpot_p95_s=(tpot.at(0.95) or 0.0) * ratio,
                measurement=found,
                point=point,
                terms=terms,
            )
        )
    return Sweep(name=name, step=server.step, runs=tuple(runs))


def _settings(
    *,
    tp: int,
    version: str,
    memory_fraction: float | None = None,
    max_sequences: int | None = None,
    max_context_tokens: int | None = None,
) -> RuntimeSettings:
    return RuntimeSettings(
        source=Source(what="the run's own files", where="published", date=datetime.date(2025, 11, 1)),
        engine="vllm",
        version=version,
        sharding=Sharding(tp=tp),
        memory_fraction=memory_fraction,
        max_sequences=max_sequences,
        max_context_tokens=max_context_tokens,
    )


def _model(name: str) -> Model:
    """The model of the catalogue; a suffix that names fp8 puts its matrices into fp8."""
    plain = re.sub(r"-(FP8|fp8)([-_]\w+)*$", "", name)
    last = plain.rsplit("/", 1)[-1]
    model = _first_known(plain, last, f"meta-llama/{last}")
    return model if plain == name else in_fp8(model)


def _first_known(*names: str) -> Model:
    for name in names[:-1]:
        try:
            return find_model(name)
        except InputError:
            continue
    return find_model(names[-1])


def in_fp8(model: Model) -> Model:
    """The same model with its matrices in fp8, as a checkpoint quantised after training has them."""
    formats = dict.fromkeys(("attention_in", "attention_out", "dense", "routed", "shared"), FP8)
    groups = (
        LayerGroup(layer=replace(group.layer, formats=replace(group.layer.formats, **formats)), layers=group.layers)
        for group in model.layers
    )
    return replace(model, layers=tuple(groups))


def _device(name: str, model: Model, settings: RuntimeSettings, lowest: Point) -> Device:
    if name != "unknown":
        return find_device(name)
    tpot = lowest.latency(Definition.TPOT)
    measured_s = (tpot.middle_s if tpot is not None else None) or 1.0

    def miss(device: Device) -> float:
        step = _Server(model=model, device=device, settings=settings).step
        return abs(float(np.log(step.step_s(sequences=1, kv_tokens=1000) / measured_s)))

    return min((find_device(each) for each in LIKELY_DEVICES), key=miss)
