"""How long the command line takes to start, in bare interpreter starts (`make bench-start`).

Wall time would count what else the machine does, so the CPU time of the child is taken, the least of several runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 5
BIN = Path(sys.executable).parent
# What one batch of starts takes together: os.times counts in hundredths of a second on Linux.
BATCH = 10
# At most so many bare starts, for what shows facts alone.
MOST_STARTS = {"ullage facts devices": 30.0}

JOBS = {
    "ullage --help": [str(BIN / "ullage"), "--help"],
    "ullage --version": [str(BIN / "ullage"), "--version"],
    "ullage plan --help": [str(BIN / "ullage"), "plan", "--help"],
    "ullage facts devices": [str(BIN / "ullage"), "facts", "devices"],
    "import ullage": [sys.executable, "-c", "import ullage"],
}


def cpu_s(command: list[str]) -> float:
    """The least CPU time of one start over several batches, with bytecode cached as an installed package has it."""
    joined = " ".join(f"'{part}'" for part in command)
    batch = ["sh", "-c", f"for i in $(seq {BATCH}); do {joined} > /dev/null; done"]
    least = float("inf")
    with tempfile.TemporaryDirectory() as cache:
        given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**given, "PYTHONPYCACHEPREFIX": cache}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        for _ in range(RUNS):
            before = os.times()
            subprocess.run(batch, check=True, env=environment)
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            least = min(least, used / BATCH)
    return least


def main() -> None:
    bare = cpu_s([sys.executable, "-c", "pass"])
    print("| command | CPU ms | bare starts | at most |\n|---|---|---|---|")
    print(f"| python -c pass | {bare * 1e3:.1f} | 1.0 | |")
    for name, command in JOBS.items():
        used, most = cpu_s(command), MOST_STARTS.get(name)
        wanted = "" if most is None else f"{most:g}"
        print(f"| {name} | {used * 1e3:.1f} | {used / bare:.1f} | {wanted} |")


if __name__ == "__main__":
    main()
