"""Compares the kernel's final state with the literal reference's, field by field."""

from __future__ import annotations

from typing import Any

import numpy as np

from ullage.simulate import kernel as k
from ullage.simulate import world as driver
from ullage.simulate.problem import Problem
from ullage.simulate.reference import Reference


def kernel_callback(run: Any) -> int:
    """Asks for one replica per three outstanding requests."""
    return -(-int(run.clock(k.G_SIG_OUTSTANDING)) // 3)


def reference_callback(run: Reference) -> int:
    serving = [each for each in run.replicas if each.state in (k.READY, k.DRAINING)]
    return -(-sum(each.outstanding for each in serving) // 3)


def differences(problem: Problem, reference: Reference, run: Any) -> list[str]:
    """What differs, in words; empty when the two runs are the same."""
    requests = [
        ("state", run.state), ("first_ps", np.where(run.first == 0, -1, run.first)), ("finish_ps", run.finished),
        ("admitted_ps", run.admitted), ("emitted", run.emitted), ("preemptions", run.preemptions),
        ("replica", run.replica),
    ]  # fmt: skip
    issued = reference.issued
    pairs: list[tuple[str, Any, Any]] = [(name, reference.column(name), got) for name, got in requests]
    if problem.closed:
        pairs.append(("arrival_ps", reference.column("arrival_ps")[:issued], run.arrival[:issued]))
    rows = run.rows
    replicas: list[tuple[str, list[int], int]] = [
        ("steps", [each.steps for each in reference.replicas], k.STEP),
        ("on_ps", [each.on_ps for each in reference.replicas], k.ON_PS),
        ("prefill_tokens", [each.prefill_tokens for each in reference.replicas], k.N_PREFILL),
        ("decode_tokens", [each.decode_tokens for each in reference.replicas], k.N_DECODE),
        ("preemptions of replica", [each.preemptions for each in reference.replicas], k.N_PREEMPTIONS),
        ("busy prefill", [each.busy_ps[0] for each in reference.replicas], k.B_PREFILL),
        ("busy decode", [each.busy_ps[1] for each in reference.replicas], k.B_DECODE),
        ("busy mixed", [each.busy_ps[2] for each in reference.replicas], k.B_MIXED),
        ("replica state", [each.state for each in reference.replicas], k.R_STATE),
    ]
    pairs += [(name, np.array(want), rows[:, column]) for name, want, column in replicas]
    emitted = rows[:, k.N_DECODE] - rows[:, k.N_CUT] + rows[:, k.N_FIRST]
    pairs.append(("emitted tokens", np.array([each.emitted for each in reference.replicas]), emitted))
    wanted = np.array(reference.samples, np.int64).reshape(-1, problem.replicas, 5)
    pairs += [
        ("counters", reference.counters, run.counters),
        ("histograms", reference.histograms, run.histograms),
        ("itl", reference.itl, run.itl),
        ("issued", np.array(issued), np.array(run.clock(k.G_ISSUED))),
        ("attempts", np.array(reference.attempts), np.array(run.clock(k.G_ATTEMPTS))),
        ("area", np.array(reference.area_ps), np.array(run.area_ps)),
        ("sojourn", np.array(reference.sojourn_ps), np.array(run.sojourn_ps)),
        ("end", np.array(reference.now_ps), np.array(run.clock(k.G_NOW))),
        ("samples", wanted, run.samples),
        ("controls", np.array(reference.controls, np.int64).reshape(-1, 4), run.controls[:, :4]),
    ]  # fmt: skip
    found = []
    for name, want, got in pairs:
        if want.shape != got.shape:
            found.append(f"{name}: shape {want.shape} against {got.shape}")
        elif not np.array_equal(want, got):
            where = np.argwhere(want != got)[:4].tolist()
            found.append(f"{name} at {where}: {[(want[tuple(p)], got[tuple(p)]) for p in where]}")
    # Shares are sums of floats taken in another order, so they agree to rounding and not to the bit.
    if not np.allclose(reference.shares, run.shares, rtol=1e-9, atol=1e-3):
        found.append(f"shares: {reference.shares.tolist()} against {run.shares.tolist()}")
    return found


def check_equal(problem: Problem, simulator: Any = driver) -> list[str]:
    reference = Reference(problem, reference_callback).run()
    return differences(problem, reference, simulator.run_problem(problem, kernel_callback))
