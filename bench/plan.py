"""How long a whole plan takes (`make bench-plan`): warm, on a fresh cache, and as traffic grows.

    python bench/plan.py            warm, large and many-sided plans, growth of traffic, a week
    python bench/plan.py --cold     also with an empty compilation cache, as after a fresh install (minutes)

The baseline of each run is what a spreadsheet would do in its place: the bare start of the interpreter.
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
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
        took, after = time.perf_counter() - started, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        found.append((took, cpu))
    return min(found)


def plan_of(folder: Path, rate_rps: float) -> list[str]:
    """A command that plans four classes at a total rate."""
    file = folder / f"plan-{rate_rps:g}.yaml"
    file.write_text(FOUR_CLASSES.format(**{name: f"{share * rate_rps:.4g}" for name, share in SHARES.items()}))
    return [str(BIN / "ullage"), "plan", str(file), "--quiet", "--json"]


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
    return [str(BIN / "ullage"), "plan", str(file), "--quiet"]


def main() -> None:
    example = [str(BIN / "ullage"), "plan", "--quiet"]
    bare, _ = wall_s([sys.executable, "-c", "pass"])
    print(f"{os.cpu_count()} cores; a bare interpreter start takes {bare:.3f} s\n")
    print("| plan | wall s | CPU s | bare starts | must |\n|---|---|---|---|---|")

    def row(name: str, command: list[str], must: str, *, runs: int = 1, **environment: str) -> None:
        wall, cpu = wall_s(command, runs=runs, **environment)
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {wall / bare:.0f} | {must} |", flush=True)

    row("built-in example, warm", example, "8 CPU s", runs=RUNS)
    if "--cold" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as cache:
            row("built-in example, empty cache", example, "40 s wall", NUMBA_CACHE_DIR=cache)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row("2,000 req/s of DeepSeek-V3 on 8 H200", plan_file(folder, "deepseek", DEEPSEEK), "15 CPU s")
        row("fifty classes", plan_file(folder, "classes", many_classes(50)), "15 CPU s")
        row("twenty pools", plan_file(folder, "pools", many_pools(20)), "15 CPU s")
        row("four classes, 10 million requests a week", plan_of(folder, 10e6 / WEEK_S), "30 s wall")
        print("\n| four classes at | wall s | CPU s | against 3 req/s |\n|---|---|---|---|")
        least = None
        for rate in (3, 30, 300, 3000):
            wall, cpu = wall_s(plan_of(folder, rate), runs=1)
            least = least or wall
            print(f"| {rate} req/s | {wall:.2f} | {cpu:.2f} | {wall / least:.1f} |", flush=True)


if __name__ == "__main__":
    main()
