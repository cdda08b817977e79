"""How long a whole plan takes (`make bench-plan`): warm, on a fresh cache, and as traffic grows.

    python bench/plan.py            what jobs must take and take: one evaluation, a whole plan, large ones
    python bench/plan.py --cold     also with an empty compilation cache, as after a fresh install (minutes)
    python bench/plan.py --growth   also as traffic grows, and a week

CPU seconds are of the whole command, its start included. Plans of many sides are without the study of their risk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
RUNS = 3
FOUR_CLASSES = """\
version: 1
service: four classes
dated: 2026-11-15
workload:
  classes:
    - {{name: chat, rate: {chat} req/s, longest_context: 16384, slo: {{ttft_p95: 1s, tpot_p95: 80ms}}}}
    - {{name: coding, rate: {coding} req/s, longest_context: 32768, slo: {{ttft_p95: 3s, tpot_p95: 80ms}}}}
    - {{name: search, rate: {search} req/s, longest_context: 8192, slo: {{ttft_p95: 2s}}}}
    - {{name: batch, rate: {batch} req/s, longest_context: 16384, slo: {{e2e_p95: 10min}}, priority: 2}}
pool: {{model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}}
"""
DEEPSEEK = """\
version: 1
service: 2,000 requests a second
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 2000 req/s, longest_context: 16384, slo: {ttft_p95: 3s, tpot_p95: 100ms}}
pool: {model: deepseek-v3, device: h200-sxm, tensor_parallel: 8}
"""
SHARES = {"chat": 0.5, "coding": 0.15, "search": 0.25, "batch": 0.1}
WEEK_S = 7 * 86_400.0


def wall_s(command: list[str], *, runs: int = RUNS, **environment: str) -> tuple[float, float]:
    """The least wall time of the command, and the CPU time of that run."""
    found = []
    for _ in range(runs):
        before, started = os.times(), time.perf_counter()
        # Bytecode is cached, as an installed package has it.
        given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**given, **environment})
        took, after = time.perf_counter() - started, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        found.append((took, cpu))
    return min(found)


def plan_of(folder: Path, rate_rps: float) -> list[str]:
    """A command that plans four classes at a total rate."""
    file = folder / f"plan-{rate_rps:g}.yaml"
    file.write_text(FOUR_CLASSES.format(**{name: f"{share * rate_rps:.4g}" for name, share in SHARES.items()}))
    return [str(BIN / "ullage"), "plan", str(file), "--quick", "--quiet", "--json"]


def many_classes(classes: int) -> str:
    """One pool for many classes of different lengths' bounds, each with its own SLO."""
    lines = [
        f"    - {{name: class-{place}, rate: 1 req/s, longest_context: {4096 * (1 + place % 4)}, "
        f"slo: {{ttft_p95: {1 + place % 3}s, tpot_p95: 80ms}}}}"
        for place in range(classes)
    ]
    head = "version: 1\nservice: many classes\ndated: 2026-11-15\nworkload:\n  classes:\n"
    return head + "\n".join(lines) + "\npool: {model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}\n"


def many_pools(pools: int) -> str:
    """As many pools as classes, each class on its own."""
    classes = "".join(
        f"    - {{name: class-{place}, rate: {1 + place % 3} req/s, longest_context: 8192, "
        f"slo: {{ttft_p95: 1s, tpot_p95: 80ms}}, pool: pool-{place}}}\n"
        for place in range(pools)
    )
    each = "".join(f"  - {{name: pool-{place}, model: llama-3.1-8b, device: h100-sxm}}\n" for place in range(pools))
    return f"version: 1\nservice: many pools\ndated: 2026-11-15\nworkload:\n  classes:\n{classes}pools:\n{each}"


def plan_file(folder: Path, name: str, text: str) -> list[str]:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return [str(BIN / "ullage"), "plan", str(file), "--quick", "--quiet"]


def evaluation_cpu_s(runs: int = 5) -> float:
    """The least CPU time of one evaluation after the first: a chosen configuration from memory to bill, not decided.

    Demand, memory, step times, the probe of a replica, a window of every stratum on the chosen replicas, each figure
    with its interval, and what their devices cost in a month. Another number of replicas each time: which windows of
    the mix are heavy is known by then.
    """
    ended = subprocess.run([sys.executable, "-c", EVALUATION, str(runs)], check=True, capture_output=True, text=True)
    return float(ended.stdout)


EVALUATION = """
import datetime, sys, time
from dataclasses import replace
from ullage.load.pool import load_pool
from ullage.service.trial.decide import judge, sampled
from ullage.service.trial.strata import strata_of

def evaluated(replicas):
    pool = load_pool(None, as_of=datetime.date(2026, 11, 15))
    bases = pool.bases(0)
    trial, rate_rps = replace(bases.conservative, replicas=replicas), pool.demand.planning_rps
    strata = strata_of(trial.load_at, span_s=trial.span_s, seed=0, work_s=bases.conservative_probe.work_s)
    found = judge(trial, rate_rps, sampled(trial, rate_rps, strata, [1] * len(strata.weights)))
    goodput = found.sample.mean(lambda each: each.goodput_rps)
    usd = 730.0 * 3.0 * trial.replicas * trial.replica.devices
    return found.violated, goodput, usd / (3600.0 * 730.0 * goodput.low)

took = []
for place in range(1 + int(sys.argv[1])):
    started = time.process_time()
    evaluated(35 + place)
    took.append(time.process_time() - started)
print(min(took[1:]))
"""


def main() -> None:
    example = [str(BIN / "ullage"), "plan", "--quiet"]
    bare, _ = wall_s([sys.executable, "-c", "pass"])
    print(f"{os.cpu_count()} cores; a bare interpreter start takes {bare:.3f} s\n")
    print("| job | must | CPU s | wall s |\n|---|---|---|---|")

    def row(name: str, command: list[str], must: str, *, runs: int = 1, **environment: str) -> float:
        wall, cpu = wall_s(command, runs=runs, **environment)
        print(f"| {name} | {must} | {cpu:.2f} | {wall:.2f} |", flush=True)
        return cpu

    print(f"| one evaluation, memory to bill, not decided | 0.12 CPU s | {evaluation_cpu_s():.3f} | |", flush=True)
    quick = row("whole plan, built-in, without the risk study", [*example, "--quick"], "8 CPU s", runs=RUNS)
    row("whole plan, built-in, with it", example, f"{quick + 10.0:.1f} CPU s", runs=RUNS)
    if "--cold" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as cache:
            row("empty cache, whole plan", [*example, "--quick"], "40 s wall", NUMBA_CACHE_DIR=cache)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row("2,000 req/s of DeepSeek-V3 on 8 H200", plan_file(folder, "deepseek", DEEPSEEK), "15 CPU s")
        row("50 classes", plan_file(folder, "classes", many_classes(50)), "15 CPU s")
        row("20 pools", plan_file(folder, "pools", many_pools(20)), "15 CPU s")
        if "--growth" not in sys.argv[1:]:
            return
        row("four classes, 10 million requests a week", plan_of(folder, 10e6 / WEEK_S), "30 s wall")
        print("\n| four classes at | wall s | CPU s | against 3 req/s |\n|---|---|---|---|")
        least = None
        for rate in (3, 30, 300, 3000):
            wall, cpu = wall_s(plan_of(folder, rate), runs=1)
            least = least or wall
            print(f"| {rate} req/s | {wall:.2f} | {cpu:.2f} | {wall / least:.1f} |", flush=True)


if __name__ == "__main__":
    main()
