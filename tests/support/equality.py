"""Compares the kernel's final state with the literal reference's, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from support.reference import COLUMNS, Block, Reference, ReferenceReplica
from ullage.simulate import world as driver
from ullage.simulate.kernel import codes as k
from ullage.simulate.kernel.records import fields_of
from ullage.simulate.kernel.state import GaugeRow
from ullage.simulate.problem import Problem

_GAUGES = tuple(fields_of(GaugeRow))


def kernel_callback(run: Any) -> int:
    """Asks for one replica per three outstanding requests."""
    return -(-int(run.clock.signal_outstanding) // 3)


def reference_callback(run: Reference) -> int:
    serving = [each for each in run.replicas if each.state in (k.READY, k.DRAINING)]
    return -(-sum(each.outstanding for each in serving) // 3)


def differences(problem: Problem, reference: Reference, run: Any) -> list[str]:
    """What differs, in words; empty when the two runs are the same."""
    world = run.world
    requests = [
        ("state", run.state), ("first_ps", np.where(world.first_ps == 0, -1, world.first_ps)),
        ("outside_ps", world.outside_ps if world.has_outside else np.zeros(world.request_count, np.int64)),
        ("finish_ps", world.finish_ps), ("admitted_ps", world.admitted_ps), ("emitted", run.emitted),
        ("preemptions", world.preemptions), ("replica", run.replica),
    ]  # fmt: skip
    pairs: list[tuple[str, Any, Any]] = [(name, reference.column(name), got) for name, got in requests]
    if problem.closed or problem.turns.is_used:
        came = np.where(run.state == k.UNSEEN, -1, world.arrival_ps)
        pairs.append(("arrival_ps", reference.column("arrival_ps"), came))
    for name, field in {
        "steps": "step", "on_ps": "on_ps", "prefill_tokens": "prefill_tokens", "decode_tokens": "decode_tokens",
        "preemptions": "preemptions", "state": "state",
    }.items():  # fmt: skip
        pairs.append((f"replica {name}", _of_replicas(reference, name), run.replicas[field]))
    if problem.prefixes.is_used:
        names: tuple[str, ...] = ("peak_blocks", "evicted_blocks")
        if world.has_host:
            names = (*names, "hosted_blocks", "loaded_blocks", "dropped_blocks")
        pairs += [(f"replica {name}", _of_replicas(reference, name), run.replicas[name]) for name in names]
        nodes = range(problem.prefixes.size.size)
        tiers: list[tuple[str, Callable[[ReferenceReplica], Iterable[Block]], Any]] = [
            ("caches", lambda each: each.held | set(each.kept), world.cached),
            *([("hosts", lambda each: each.host, world.hosted)] if world.has_host else []),
        ]
        for name, blocks_of, rows in tiers:
            there = np.array([[sum(b[0] == n for b in blocks_of(each)) for n in nodes] for each in reference.replicas])
            pairs.append((f"blocks in {name}", there, rows["blocks"].reshape(there.shape)))
            # Who holds a node is an index of the caches, kept for the router that asks.
            if name == "caches" and world.routing == k.PREFIX_AWARE:
                pairs.append(("holders of nodes", np.count_nonzero(there, axis=0), world.nodes["holders"]))
    busy = np.array([each.busy_ps for each in reference.replicas])
    for kind, field in enumerate(("prefill_busy_ps", "decode_busy_ps", "mixed_busy_ps")):
        pairs.append((f"replica {field}", busy[:, kind], run.replicas[field]))
    emitted = run.replicas.decode_tokens - run.replicas.cut_tokens + run.replicas.first_tokens
    controls = np.array(reference.controls, np.int64).reshape(-1, 4)
    pairs += [
        ("emitted tokens", _of_replicas(reference, "emitted"), emitted),
        ("counters", reference.counters, _matrix(run.counters, *COLUMNS)),
        ("histograms", reference.histograms, run.histograms),
        ("itl", reference.itl, run.itl),
        ("issued", np.array(reference.issued), np.array(run.clock.issued + run.clock.followed)),
        ("attempts", np.array(reference.attempts), np.array(run.clock.attempts)),
        ("area", np.array(reference.area_ps), np.array(run.area_ps)),
        ("sojourn", np.array(reference.sojourn_ps), np.array(run.sojourn_ps)),
        ("end", np.array(reference.now_ps), np.array(run.clock.now_ps)),
        ("samples", np.array(reference.samples, np.int64).reshape(-1, problem.replicas, 5),
         _matrix(run.samples, "running", "waiting", "kv_tokens", "busy_ps", "state")),
        ("gauges", np.array(reference.gauges, np.int64).reshape(-1, len(_GAUGES)), _matrix(run.gauges, *_GAUGES)),
        ("starts", np.array(reference.starts), np.array(run.clock.starts)),
        ("controls", controls, _matrix(run.controls, "at_ps", "signal", "ready", "starting")),
    ]  # fmt: skip
    found = []
    for name, want, got in pairs:
        if want.shape != got.shape:
            found.append(f"{name}: shape {want.shape} against {got.shape}")
        elif not np.array_equal(want, got):
            where = np.argwhere(want != got)[:4].tolist()
            found.append(f"{name} at {where}: {[(want[tuple(p)], got[tuple(p)]) for p in where]}")
    # Shares are sums of floats taken in another order, so they agree to rounding and not to the bit.
    shares = _matrix(run.shares, "busy_ps", "kv_token_ps")
    if not np.allclose(reference.shares, shares, rtol=1e-9, atol=1e-3):
        found.append(f"shares: {reference.shares.tolist()} against {shares.tolist()}")
    return found


def _of_replicas(reference: Reference, name: str) -> Any:
    return np.array([getattr(each, name) for each in reference.replicas])


def _matrix(records: Any, *names: str) -> Any:
    """Fields of records side by side, on a last axis."""
    return np.stack([records[name] for name in names], axis=-1)


def check_equal(problem: Problem, simulator: Any = driver) -> list[str]:
    reference = Reference(problem, reference_callback).run()
    return differences(problem, reference, simulator.KernelRun(problem).finish(kernel_callback))
