"""Odd machines: no HOME, a folder that cannot be written, warnings as errors, caches that are empty or damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ullage.errors import ExitCode

ULLAGE = ["-m", "ullage"]
MEMORY = ["memory", "llama-3.1-8b", "--device", "h100-sxm", "--json"]
# Draws from the smallest of the compiled functions: it is compiled in a second, by the same rules as all of them.
DRAW = """
import numpy as np
from ullage.workload.synthetic import stream
words = np.zeros(4, np.uint64)
stream._stir(np.uint64(1), words)
print(words)
"""


def python(*arguments: str, cwd: Path | None = None, **environment: str | None) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **{key: value for key, value in environment.items() if value is not None}}
    for key in (key for key, value in environment.items() if value is None):
        given.pop(key, None)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=given, cwd=cwd, check=False, timeout=300
    )


@pytest.mark.slow
def test_without_a_home_or_a_place_to_write() -> None:
    plain = python(*ULLAGE, *MEMORY)
    bare = python(*ULLAGE, *MEMORY, cwd=Path("/proc/self"), HOME=None, XDG_CACHE_HOME="/proc/none", TMPDIR="/proc/none")
    assert plain.returncode == bare.returncode == ExitCode.OK, bare.stderr
    assert bare.stdout == plain.stdout


@pytest.mark.slow
def test_warnings_may_be_errors(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{at},10,5\n" for at in range(50)))
    for asked in (MEMORY, ["profile", str(log), "--json"], ["facts", "devices"]):
        strict = python("-W", "error", *ULLAGE, *asked)
        assert strict.returncode == ExitCode.OK, strict.stderr


@pytest.mark.slow
def test_the_order_of_hashes_does_not_reach_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{at},10,5,{'ab'[at % 2]},{'xyz'[at % 3]}\n" for at in range(60))
    log.write_text(f"arrival_s,prompt_tokens,output_tokens,class,model\n{rows}")
    asked = ["profile", str(log), "--json", "--as-of", "2026-11-15"]
    first, second = (python(*ULLAGE, *asked, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.returncode == ExitCode.OK, first.stderr
    assert first.stdout == second.stdout


RARE = """
version: 1
service: rare
workload:
  classes: [{name: chat, rate: 1 req/day, longest_context: 8192, slo: {ttft_p95: 2s}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
"""
MEASURED = """
import re, sys
from pathlib import Path
from ullage.cli.app import run
ending = run(sys.argv[1:])
# Of this program alone: getrusage begins with what the process that started it held.
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(ending)
"""


@pytest.mark.slow
def test_a_request_a_day_takes_no_more_memory_than_other_plans(tmp_path: Path) -> None:
    """Years of quiet were simulated second by second once, in 5.7 GB."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(RARE)
    done = python("-c", MEASURED, "plan", str(plan), "--quick", "--quiet", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    assert int(done.stderr.splitlines()[-1]) < 2 << 20, "KiB"


def draw(cache: Path | str) -> str:
    done = python("-c", DRAW, NUMBA_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_processes_on_an_empty_cache_and_then_a_damaged_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(draw, [tmp_path, tmp_path])
    assert first == second
    for pattern, damage in (("*.nbi", b"\x80\x05not a pickle"), ("*.nbc", b"")):
        kept = list(tmp_path.rglob(pattern))
        assert kept
        for each in kept:
            each.write_bytes(damage)
        assert draw(tmp_path) == first
        assert all(each.read_bytes() != damage for each in tmp_path.rglob(pattern)), "the damage was mended"


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_or_has_no_place_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    # What numba says where neither the source's folder nor the user's can be written.
    nowhere = "from numba.core import caching; caching.CacheImpl._locator_classes = []\n"
    done = python("-c", nowhere + DRAW, NUMBA_CACHE_DIR=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout == draw(tmp_path / "file")
