"""Planted bugs: each changes one line of the kernel, and the comparison with the reference must catch it.

The mutants run uncompiled on tiny problems. `ULLAGE_MUTANTS=compiled` (`make mutants`) compiles each of them too.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.equality import differences, kernel_callback, reference_callback
from support.scenarios import covering_rows, scenario
from ullage.simulate import kernel, world
from ullage.simulate.problem import Problem
from ullage.simulate.reference import Reference

COMPILED = os.environ.get("ULLAGE_MUTANTS") == "compiled"
MOST_PROBLEMS = 640
LONGEST_HANG_S = 4

# name: (line, planted line). Every line must occur in kernel.py; the first occurrence is changed.
MUTANTS = {
    "an arrival does not cut the plan": ("m[row + BLOCKED] = 1 if m[row + Q_COUNT] > 0 else 0", "m[row + BLOCKED] = 1"),
    "the tie goes to the higher replica": ("takes = theirs < best + (p & 1)", "takes = theirs < best + 1 - (p & 1)"),
    "a preemption does not hold back admission": (
        "if m[row + Q_COUNT] > 0 and not preempted:",
        "if m[row + Q_COUNT] > 0:",
    ),
    "a step after a preemption is planned too far": (
        "    if preempted:\n        steps = 1",
        "    if False:\n        steps = 1",
    ),
    "a plan runs past its table segment": (
        "steps = min(steps, (((g + 1) << segment) - kv_tokens + n - 1) // n)",
        "steps = min(steps, (((g + 1) << segment) - kv_tokens + n) // n + 1)",
    ),
    "a plan runs one step into a full cache": ("fit = 1 + (rounds << shift)", "fit = 2 + (rounds << shift)"),
    "blocks are not rounded up": ("total += q[at + p] * (-(step + 1 + p) & mask)", "total += 0"),
    "the phase of a sequence is off by one": (
        "q[phases_of(m, row) + ((target - m[row + STEP]) & mask)] += 1",
        "q[phases_of(m, row) + ((target + 1 - m[row + STEP]) & mask)] += 1",
    ),
    "a decode does not use the budget": ("budget = m[e + TOKEN_BUDGET] - decodes", "budget = m[e + TOKEN_BUDGET]"),
    "a prefix hit is forgotten": ("done = cached_of(m, q, i)", "done = 0"),
    "one sequence too many": (
        "while budget > 0 and sequences < m[e + MAX_SEQUENCES]:",
        "while budget > 0 and sequences <= m[e + MAX_SEQUENCES]:",
    ),
    "the queue holds one more": (
        "elif m[row + Q_COUNT] >= m[e + QUEUE_BOUND]:",
        "elif m[row + Q_COUNT] > m[e + QUEUE_BOUND]:",
    ),
    "a request one token too large is let in": (
        "if tokens + output[i] - 1 > m[e + BLOCKS] << m[e + BLOCK_SHIFT]:",
        "if tokens + output[i] - 2 > m[e + BLOCKS] << m[e + BLOCK_SHIFT]:",
    ),
    "the first-token deadline also ends what has its first token": (
        "m[spot(m, A_FIRST, i)] == 0 and t >= begun + m[limits + TTFT_TIMEOUT]",
        "t >= begun + m[limits + TTFT_TIMEOUT]",
    ),
    "a deadline is seen one boundary late": (
        "            mark_request(m, q, i, t)\n            when = NEVER",
        "            mark_request(m, q, i, t + 10**9 + 3)\n            when = NEVER",
    ),
    "a retry has no deadlines": (
        "        if m[limits + which] < NEVER:\n            push_timer(",
        "        if False:\n            push_timer(",
    ),
    "the retry budget is not drawn on": ("m[G_BUCKET] -= 1000", "m[G_BUCKET] -= 0"),
    "the back-off does not grow": ("wait = wait * m[X_GROWTH] // 1000", "wait = wait"),
    "a preempted request goes to the tail of the queue": (
        "    after = np.int64(q[at])\n    if m[engine_of(m, row) + PRIORITY] == 1:",
        "    after = -1\n    before = np.int64(q[at + 1])\n    if m[engine_of(m, row) + PRIORITY] == 1:",
    ),
    "the victim is the most urgent": (
        "if is_before(m, q, arrival, np.int64(q[worst + S_REQUEST]), request_in(q, slot)):",
        "if is_before(m, q, arrival, request_in(q, slot), np.int64(q[worst + S_REQUEST])):",
    ),
    "a starved decode ends on time": ("put_on_wheel(m, q, row, slot, fin + 1)", "put_on_wheel(m, q, row, slot, fin)"),
    "a failure spares the step under way": (
        "whole = steps_until(m[row + T0], m[row + D0], m[row + INC], m[row + PLANNED], t) - 1",
        "whole = steps_until(m[row + T0], m[row + D0], m[row + INC], m[row + PLANNED], t)",
    ),
    "a replica is up after the first of two repairs": (
        "if m[row + DOWN_CAUSES] == 0:",
        "if m[row + DOWN_CAUSES] >= 0:",
    ),
    "queued tokens are not counted": ("load = kv_now(m, row, t) + m[row + Q_TOKENS]", "load = kv_now(m, row, t)"),
    "the router sees the present in spite of its refresh": (
        "        if m[X_REFRESH] > 0:\n            load = m[row + SEEN]",
        "        if False:\n            load = m[row + SEEN]",
    ),
    "round robin takes the same replica twice": (
        "if m[at + middle] > m[G_LAST]:",
        "if m[at + middle] >= m[G_LAST]:",
    ),
    "scale-down forgets its window": (
        "for back in range(1, min(m[X_WINDOW], m[G_CONTROLS] + 1)):",
        "for back in range(1, min(1, m[G_CONTROLS] + 1)):",
    ),
    "think time is skipped": ("t + m[spot(m, A_THINK, i)], RANK_CLIENT", "t, RANK_CLIENT"),
    "the decode's time share is given to no one": ("f[sums + 2] += np.float64(span) / n", "f[sums + 2] += 0.0"),
}


@functools.cache
def expected(number: int) -> tuple[Problem, Reference]:
    """A problem and the reference's answer, shared by all mutants; the event budget bounds a mutant that loops."""
    rows = covering_rows()
    problem = scenario(dict(rows[number % len(rows)]), 5000 + number, most_requests=16)
    return replace(problem, most_events=20_000), Reference(problem, reference_callback).run()


def make_simulator(source: str, folder: Path) -> Any:
    """The driver on top of a changed kernel."""
    if not COMPILED:
        begin, end = source.index("from numba import njit"), source.index("NEVER = 2**62")
        stub = "def njit(*args, **given):\n    return args[0] if args else (lambda function: function)\n\n\n"
        stub += "def overload(*args, **given):\n    return lambda function: function\n\n\n"
        source = source[:begin] + stub + source[end:]
    path = folder / "mutant.py"
    path.write_text(source)
    mutant = _load("mutant", path)
    driver: Any = _load("mutant_world", Path(world.__file__))
    driver.k = mutant
    return driver


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_caught(simulator: Any) -> bool:
    for number in range(MOST_PROBLEMS):
        problem, reference = expected(number)
        try:
            with alarm(LONGEST_HANG_S * (10 if COMPILED else 1)):
                found = differences(problem, reference, simulator.run_problem(problem, kernel_callback))
        except Exception:  # noqa: BLE001 - a mutant may break in any way; breaking is being caught
            return True
        if found:
            return True
    return False


def test_the_kernel_itself_passes_uncompiled(tmp_path: Path) -> None:
    simulator = make_simulator(Path(kernel.__file__).read_text(), tmp_path)
    for number in range(64):
        problem, reference = expected(number)
        assert not differences(problem, reference, simulator.run_problem(problem, kernel_callback))


def test_growing_logs_and_settling_often_change_nothing(tmp_path: Path) -> None:
    """Paths that tiny problems do not reach by themselves: full logs and timers, settled accounts, carried sums."""
    source = Path(kernel.__file__).read_text()
    for line, small in (("SETTLE_STEPS = 1 << 16", "SETTLE_STEPS = 3"), ("CARRY = 1 << 62", "CARRY = 1 << 10")):
        assert line in source
        source = source.replace(line, small)
    simulator = make_simulator(source, tmp_path)
    simulator._LOG_ROWS = 1
    simulator._TIMERS = 9
    for number in range(96):
        problem, reference = expected(number)
        assert not differences(problem, reference, simulator.run_problem(problem, kernel_callback))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_caught(name: str, tmp_path: Path) -> None:
    before, after = MUTANTS[name]
    source = Path(kernel.__file__).read_text()
    assert before in source, f"the line to change is gone: {before}"
    assert is_caught(make_simulator(source.replace(before, after, 1), tmp_path)), f"{name}: not caught"
