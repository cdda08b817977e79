"""First use by the tutorial (`make bench-stranger`): from a wheel to an emitted file in a bare environment.

A fresh virtual environment with nothing in it, a home that holds nothing, no cache of compiled code and no download
that was kept: the wheel is installed with what it needs, a plan file is begun, planned, given the names that
the refusal of `ullage emit` lists, and written out as manifests.
Where packages come from is this machine's own setting. At most ten minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_S = 600.0
DIST = Path(__file__).resolve().parents[1] / "dist"
# What package tools need to reach packages is left; everything else of this session is not.
KEPT = ("PATH", "PIP_", "SSL_", "HTTP", "NO_PROXY", "no_proxy", "http")
# As the refusal of `ullage emit` without it suggests, for the model of this plan.
NAMES = """
emit:
  namespace: llm
  workloads:
    pool:
      name: chat
      model: meta-llama/Llama-3.1-8B-Instruct
      selector: {app: chat}
      port: 8000
      container: engine
      image: vllm/vllm-openai:v0.32.0
      device_resource: nvidia.com/gpu
      series: {namespace: llm}
  prometheus: http://prometheus.monitoring.svc:9090
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", type=Path, help="default: the newest in dist (make wheel)")
    asked = parser.parse_args()
    wheel = asked.wheel or max(DIST.glob("*.whl"), key=lambda each: each.stat().st_mtime, default=None)
    if wheel is None:
        print("no wheel in dist: run make wheel first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        environment = {**kept, "HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache", "PIP_NO_CACHE_DIR": "1"}
        ullage = f"{folder}/venv/bin/ullage"
        steps = {
            "python -m venv": [sys.executable, "-m", "venv", f"{folder}/venv"],
            "pip install": [f"{folder}/venv/bin/pip", "install", "--quiet", str(wheel.resolve())],
            "ullage plan, the built-in example": [ullage, "plan", "--quiet"],
            "ullage init": [ullage, "init", "--model", "llama-3.1-8b", "--device", "l40s", "--quiet"],
            "ullage plan plan.yaml --json": [ullage, "plan", "plan.yaml", "--json", "--quiet"],
            "ullage emit": [
                ullage,
                "emit",
                "plan.yaml",
                "--plan",
                "plan.json",
                "--target",
                "deployment,keda,pdb",
                "--out",
                "manifests",
                "--quiet",
            ],
        }
        print("| step | s | CPU s |\n|---|---|---|", flush=True)
        begun, spent_s = time.perf_counter(), 0.0
        for name, command in steps.items():
            before, at = os.times(), time.perf_counter()
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                print(
                    f"{name} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr
                )
                return 1
            if "--json" in command:
                (Path(folder) / "plan.json").write_text(done.stdout)
            if "init" in command:
                plan = Path(folder) / "plan.yaml"
                plan.write_text(plan.read_text() + NAMES)
            after = os.times()
            own_s = after.children_user + after.children_system - before.children_user - before.children_system
            spent_s += own_s
            print(f"| {name} | {time.perf_counter() - at:.0f} | {own_s:.0f} |", flush=True)
        took_s = time.perf_counter() - begun
        files = sorted(each.name for each in (Path(folder) / "manifests").rglob("*") if each.is_file())
    print(f"| in all | {took_s:.0f} | {spent_s:.0f} |\n\n{len(files)} files: {', '.join(files)}")
    print(f"{took_s / 60:.1f} minutes, at most {MOST_S / 60:.0f}")
    return 0 if took_s <= MOST_S and files else 1


if __name__ == "__main__":
    sys.exit(main())
