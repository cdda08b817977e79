"""Speed and size of the simulator, from the product's own kernel: `python bench/simulate.py [--week] [--growth]`.

Times are CPU time, best of several runs, the set-up of a run's arrays included. Beside them stand the literal
reference and, where ../shared is present, the throw-away prototype, run in the same process on the same streams.
The engine is a Llama-8B on one H100 as a roofline: a step takes 5 ms plus the longer of compute (27.1 us a token)
and memory traffic (4.8 ms plus 39 ns a KV token).
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ullage.simulate.compile import compile_problem
from ullage.simulate.engine import Engine, StepTable
from ullage.simulate.fleet import Autoscaler, Fleet
from ullage.simulate.laws import check_laws
from ullage.simulate.load import LoadClass, OpenLoop, Requests
from ullage.simulate.problem import NEVER_PS, Problem
from ullage.simulate.world import KernelRun

FIXED_PS, TOKEN_PS, PAIR_PS, WEIGHTS_PS, KV_PS = 5_000_000_000, 27_100_000, 884, 4_776_000_000, 39_127
PROTOTYPE = Path(__file__).resolve().parents[2] / "shared" / "prototype" / "des"
SUPPORT = Path(__file__).resolve().parents[1] / "tests"
WEEK_S = 604_800.0
WEEK_REQUESTS = 44_000_000


def engine(*, table: bool) -> Engine:
    """One affine segment, or the roofline on a grid of 8192 KV tokens."""
    batch = np.arange(257)[:, None]
    edges = np.arange(65 if table else 2)[None, :] << 13
    times = FIXED_PS + np.maximum(TOKEN_PS * batch, WEIGHTS_PS + KV_PS * edges)
    slope = (times[:, 1:] - times[:, :-1]) >> 13 if table else np.full((257, 1), KV_PS)
    step = StepTable(
        decode_base_ps=times[:, :-1].astype(np.int64), decode_slope_ps=slope.astype(np.int64),
        token_base_ps=np.array([FIXED_PS]), token_slope_ps=np.array([TOKEN_PS]), pair_ps=float(PAIR_PS),
        kv_segment_tokens=1 << 13 if table else 1 << 40, combine="longer",
    )  # fmt: skip
    return Engine(step=step, kv_blocks=25_700)


def stream(count: int, rate_rps: float, seed: int = 0) -> OpenLoop:
    gaps = np.random.default_rng(seed).exponential(1e12 / rate_rps, count)
    requests = Requests(prompt_tokens=np.full(count, 1000, np.int32), output_tokens=np.full(count, 200, np.int32))
    return OpenLoop(requests=requests, arrival_ps=np.cumsum(gaps).astype(np.int64))


def plain_problem(load: OpenLoop, replicas: int) -> Problem:
    """What the prototype does: arrivals, batching, KV, routing; first-token and end times kept."""
    made = compile_problem(
        [engine(table=False)], Fleet(replicas=replicas), load, seed=0, until_s=None, warmup_s=0.0, sample_s=None,
        keep_requests=False, attribution=False, most_events=2**60,
    )  # fmt: skip
    return replace(made, histograms=False)


def full_problem(load: OpenLoop, replicas: int, *, sample_s: float = 60.0, attribution: bool = False) -> Problem:
    """Deadlines, the step table, a control tick, histograms, samples."""
    limits = (LoadClass(ttft_timeout_s=30, total_timeout_s=300, ttft_slo_s=1.0, tpot_slo_s=0.05),)
    load = replace(load, requests=replace(load.requests, classes=limits))
    scaler = Autoscaler(
        period_s=15, ready_s=120, target_per_replica=24, window_ticks=20, least_replicas=max(1, replicas // 2),
        most_replicas=replicas,
    )  # fmt: skip
    return compile_problem(
        [engine(table=True)], Fleet(replicas=replicas, autoscaler=scaler), load, seed=0, until_s=None, warmup_s=0.0,
        sample_s=sample_s, keep_requests=False, attribution=attribution, most_events=2**60,
    )  # fmt: skip


def cpu_s(work: Callable[[], object], runs: int = 3) -> float:
    """Best of several runs, in CPU seconds."""
    best = float("inf")
    for _ in range(runs):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def run_s(problem: Problem, runs: int = 3) -> float:
    return cpu_s(lambda: KernelRun(problem).finish(), runs)


def capacity_rps() -> float:
    """Requests per second of one replica that always has work."""
    load = stream(20_000, 1e9)
    run = KernelRun(replace(plain_problem(load, 1), keep_requests=True)).finish()
    ends = np.sort(run.world.finish_ps)
    return float(10_000 / ((ends[15_000] - ends[5_000]) / 1e12))


def prototype() -> Any:
    if not PROTOTYPE.is_dir():
        return None
    sys.path.insert(0, str(PROTOTYPE))
    sys.dont_write_bytecode = True
    os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.mkdtemp(prefix="prototype-cache-"))
    return importlib.import_module("fleet2")


def prototype_s(module: Any, load: OpenLoop, replicas: int) -> float:
    terms = np.array([FIXED_PS, TOKEN_PS, PAIR_PS, WEIGHTS_PS, KV_PS, 0], np.int64)
    limits = {"MS": 256, "M": 8192, "NB": 25_700, "B": 16, "Q": 10**9, "sp": terms}
    tokens = load.requests
    return cpu_s(
        lambda: module.run(load.arrival_ps, tokens.prompt_tokens, tokens.output_tokens, limits, R=replicas, policy=1)
    )


def show(label: str, spent_s: float, count: int, against_s: float | None, reference_ns: float | None = None) -> None:
    ns = spent_s / count * 1e9
    beside = "" if against_s is None else f"  {ns / (against_s / count * 1e9):5.2f}x the prototype"
    slower = "" if reference_ns is None else f"  the literal reference takes {reference_ns / ns:,.0f}x as long"
    print(f"{label:62s} {ns:7.0f} ns/request{beside}{slower}", flush=True)


def reference_ns(load_fraction: float, rate_rps: float) -> float:
    count = 150
    load = stream(count, load_fraction * rate_rps)
    problem = plain_problem(load, 1)
    sys.path.append(str(SUPPORT))
    from support.reference import Reference

    return cpu_s(lambda: Reference(problem).run(), runs=1) / count * 1e9


def speed_table(count: int) -> None:
    peak_rps = capacity_rps()
    module = prototype()
    print(f"one replica serves {peak_rps:.1f} requests a second at most; {count:,} requests of 1000/200 tokens")
    for fraction in (0.3, 0.6, 0.9, 1.1):
        load = stream(count, fraction * peak_rps)
        problem = plain_problem(load, 1)
        against = prototype_s(module, load, 1) if module else None
        spent = run_s(problem)
        literal = reference_ns(fraction, peak_rps) if fraction in (0.3, 0.9) else None
        show(f"1 replica, load {fraction:.0%}", spent, count, against, literal)
    load = stream(count, 0.6 * peak_rps * 100)
    against = prototype_s(module, load, 100) if module else None
    show("100 replicas, least outstanding, load 60%", run_s(plain_problem(load, 100)), count, against)
    show("  + deadlines, table, control tick, samples, histograms", run_s(full_problem(load, 100)), count, None)
    attributed = full_problem(load, 100, attribution=True)
    show("  + attribution of busy time and KV to classes", run_s(attributed), count, None)


def growth(most: int) -> None:
    peak_rps = capacity_rps()
    print("growth with requests: 1 replica, load 60 %, all features")
    count = 10_000
    while count <= most:
        problem = full_problem(stream(count, 0.6 * peak_rps), 1)
        show(f"  {count:>11,} requests", run_s(problem, 2), count, None)
        count *= 10
    print("growth with replicas: load 60 %, all features, 300,000 requests")
    for replicas in (1, 3, 10, 30, 100, 300, 1000):
        problem = full_problem(stream(300_000, 0.6 * peak_rps * replicas), replicas)
        show(f"  {replicas:>5} replicas", run_s(problem, 2), 300_000, None)


def week(count: int) -> None:
    """A diurnal week on 100 replicas with all features, the making of the stream included.

    A second thread makes the stream in pieces while the kernel simulates what is there.
    """
    base_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin_wall, begin_cpu = time.perf_counter(), time.process_time()
    arrival = np.full(count, NEVER_PS, np.int64)
    prompt, output = np.ones(count, np.int32), np.ones(count, np.int32)
    output[0] = 4000  # the longest output is needed before the stream is there
    made, wake = [0], threading.Condition()

    def make() -> None:
        rng = np.random.default_rng(1)
        grid = np.linspace(0.0, WEEK_S, 7 * 24 * 60 + 1)
        rate = 1 + 0.7 * np.sin(2 * np.pi * grid / 86_400 - 2)
        passed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(grid))])
        passed *= WEEK_S / passed[-1]
        clock, piece = 0.0, 1 << 20
        for at in range(0, count, piece):
            size = min(piece, count - at)
            gaps = np.cumsum(rng.standard_exponential(size)) * (WEEK_S / count) + clock
            clock = float(gaps[-1])
            arrival[at : at + size] = np.interp(gaps, passed, grid) * 1e12
            prompt[at : at + size] = np.clip(rng.lognormal(np.log(1000) - 0.5, 1.0, size), 1, 16_000)
            output[at : at + size] = np.clip(rng.lognormal(np.log(200) - 0.32, 0.8, size), 1, 4000)
            with wake:
                made[0] = at + size
                wake.notify()

    template = full_problem(stream(2, 1.0), 100)
    problem = replace(template, arrival_ps=arrival, prompt_tokens=prompt, output_tokens=output)
    run = KernelRun(problem)
    maker = threading.Thread(target=make)
    maker.start()
    ready = 0
    while ready < count:
        with wake:
            while made[0] == ready:
                wake.wait()
            ready = made[0]
        if ready < count:
            run.advance(int(arrival[ready - 1]))
    maker.join()
    run.finish()
    check_laws(run)
    wall_s, spent_s = time.perf_counter() - begin_wall, time.process_time() - begin_cpu
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = int(run.counters["success"].sum() + run.counters["late"].sum())
    print(
        f"week of {count:,} requests, 100 replicas, all features, stream included: {wall_s:.1f} s wall, {spent_s:.1f}"
        f" CPU-s, {(peak_kb - base_kb) * 1024 / count:.0f} B a request, {done / count:.2%} completed,"
        f" {int(run.clock.events):,} events",
        flush=True,
    )


def first_result() -> None:
    """A new process: numba's cache warm, then empty."""
    code = (
        "import numpy as np, ullage.simulate as s;"
        "e = s.Engine(step=s.StepTable.affine(step_s=.01), kv_blocks=999);"
        "l = s.poisson(rate_rps=1, requests=99, prompt_tokens=9, output_tokens=9, rng=np.random.default_rng(1));"
        "s.simulate(e, s.Fleet(), l, seed=1)"
    )
    for label, folder in (("warm", None), ("cold", tempfile.mkdtemp(prefix="cold-cache-"))):
        environment = dict(os.environ) if folder is None else {**os.environ, "NUMBA_CACHE_DIR": folder}
        if folder is None:
            environment.pop("NUMBA_CACHE_DIR", None)
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        wall_s = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"first result in a new process, {label} cache: {wall_s:.1f} s wall, {spent_s:.1f} CPU-s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=300_000, help="requests of each row of the table")
    parser.add_argument("--week", action="store_true", help="also the week of 44 million requests (3 GB)")
    parser.add_argument("--growth", action="store_true", help="also growth with requests and replicas")
    given = parser.parse_args()
    speed_table(given.requests)
    first_result()
    if given.growth:
        growth(WEEK_REQUESTS if given.week else 1_000_000)
    if given.week:
        week(WEEK_REQUESTS)


if __name__ == "__main__":
    main()
