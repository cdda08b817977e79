"""How long a whole plan takes (`make bench-plan`): warm, on a fresh cache, and as traffic grows.

    python bench/plan.py            warm, growth over two decades of traffic, and a week of ten million requests
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


def main() -> None:
    example = [str(BIN / "ullage"), "plan", "--quiet"]
    bare, _ = wall_s([sys.executable, "-c", "pass"])
    print(f"{os.cpu_count()} cores; a bare interpreter start takes {bare:.3f} s\n")
    print("| plan | wall s | CPU s | bare starts | aim |\n|---|---|---|---|---|")
    wall, cpu = wall_s(example)
    print(f"| built-in example, warm | {wall:.2f} | {cpu:.2f} | {wall / bare:.0f} | 6 s |")
    if "--cold" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as cache:
            wall, cpu = wall_s(example, runs=1, NUMBA_CACHE_DIR=cache)
        print(f"| built-in example, empty cache | {wall:.2f} | {cpu:.2f} | {wall / bare:.0f} | 40 s |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wall, cpu = wall_s(plan_of(folder, 10e6 / WEEK_S), runs=1)
        print(f"| four classes, 10 million requests a week | {wall:.2f} | {cpu:.2f} | {wall / bare:.0f} | 30 s |")
        print("\n| four classes at | wall s | CPU s | against 3 req/s |\n|---|---|---|---|")
        least = None
        for rate in (3, 10, 30, 100, 300):
            wall, cpu = wall_s(plan_of(folder, rate), runs=1)
            least = least or wall
            print(f"| {rate} req/s | {wall:.2f} | {cpu:.2f} | {wall / least:.1f} |")


if __name__ == "__main__":
    main()
