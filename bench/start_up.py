"""How long the command line takes to start, in bare interpreter starts (`make bench-start`).

Wall time would count what else the machine does, so the CPU time of the child is taken, the least of several runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUNS = 15
BIN = Path(sys.executable).parent

JOBS = {
    "ullage --help": [str(BIN / "ullage"), "--help"],
    "ullage --version": [str(BIN / "ullage"), "--version"],
    "ullage plan --help": [str(BIN / "ullage"), "plan", "--help"],
    "ullage plan --json": [str(BIN / "ullage"), "plan", "--json", "--quiet"],
    "ullage facts devices": [str(BIN / "ullage"), "facts", "devices"],
    "import ullage": [sys.executable, "-c", "import ullage"],
}


def cpu_s(command: list[str]) -> float:
    """The least CPU time of the command over several runs."""
    least = float("inf")
    for _ in range(RUNS):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        least = min(least, used)
    return least


def main() -> None:
    # os.times counts in hundredths of a second on Linux, so several starts are timed together.
    batch = 10
    bare = cpu_s(["sh", "-c", f"for i in $(seq {batch}); do {sys.executable} -c pass; done"]) / batch
    print(f"| command | CPU ms | bare starts |\n|---|---|---|\n| python -c pass | {bare * 1e3:.1f} | 1.0 |")
    for name, command in JOBS.items():
        joined = " ".join(f"'{part}'" for part in command)
        used = cpu_s(["sh", "-c", f"for i in $(seq {batch}); do {joined} > /dev/null; done"]) / batch
        print(f"| {name} | {used * 1e3:.1f} | {used / bare:.1f} |")


if __name__ == "__main__":
    main()
