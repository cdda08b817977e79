"""What features cost the kernel: `python -m bench.kernel_cost [--before REVISION] [--pairs 30] [--seconds 1.0]`.

Each row is the median, over interleaved pairs of runs, of the CPU time with a feature over that of the same requests
without it. `--before` also builds the simulator of a git revision from source and times it against this one with every
feature off. Both halves of a pair repeat their run until about `--seconds` of CPU time have passed.
"""

from __future__ import annotations

import argparse
import importlib
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.simulate import capacity_rps, engine, stream

from ullage.service.disaggregated import KvTransfer, SplitPools, SplitTraffic, serve_split
from ullage.service.replica import Replica
from ullage.simulate import CapacityPolicy, Engine, Fleet, OpenLoop, Prefixes, Turns, simulate
from ullage.simulate.compile import compile_problem
from ullage.simulate.engine import PolicyName
from ullage.simulate.world import KernelRun

ROOT = Path(__file__).resolve().parents[1]
TERMS: dict[str, Any] = {
    "seed": 0, "until_s": None, "warmup_s": 0.0, "sample_s": None, "keep_requests": False, "attribution": False,
    "most_events": 2**60,
}  # fmt: skip
Work = Callable[[], object]


SECONDS = [1.0]


def spent_s(work: Work, runs: int) -> float:
    begin = time.process_time()
    for _ in range(runs):
        work()
    return time.process_time() - begin


def ratio(label: str, with_it: Work, without: Work, *, pairs: int) -> float:
    """Prints and returns the median of the pairs' ratios; which of a pair comes first takes turns."""
    with_it()
    without()
    runs = max(1, round(SECONDS[0] / spent_s(without, 1)))
    found = []
    for number in range(pairs):
        if number % 2:
            more, less = spent_s(with_it, runs), spent_s(without, runs)
        else:
            less, more = spent_s(without, runs), spent_s(with_it, runs)
        found.append(more / less)
    middle = statistics.median(found)
    quarter = statistics.quantiles(found, n=4) if pairs > 1 else [middle] * 3
    print(f"{label:58s} {middle:5.2f} times  (middle half {quarter[0]:.2f} to {quarter[2]:.2f})", flush=True)
    return middle


def kernel(given: Engine, fleet: Fleet, load: OpenLoop) -> Work:
    problem = compile_problem([given], fleet, load, **TERMS)
    return lambda: KernelRun(problem).finish()


def earlier(revision: str, folder: Path) -> Any:
    """The simulator of a revision as a package of its own, in this process."""
    command = ["git", "-C", str(ROOT), "archive", revision, "src/ullage/simulate"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(folder / "files", filter="data")
    package = folder / "earlier"
    (folder / "files/src/ullage").rename(package)
    (package / "__init__.py").touch()
    for path in package.rglob("*.py"):
        path.write_text(path.read_text().replace("ullage.simulate", "earlier.simulate"))
    sys.path.insert(0, str(folder))
    return importlib.import_module("earlier.simulate.compile"), importlib.import_module("earlier.simulate.world")


def against(revision: str, folder: Path, rate_rps: float, count: int, pairs: int) -> None:
    compiling, world = earlier(revision, folder)
    old, new = importlib.import_module("earlier.simulate"), engine(table=True)
    step = old.StepTable(**vars(new.step))
    terms = {"kv_blocks": new.kv_blocks}
    for fraction in (0.4, 0.9):
        load = stream(count, fraction * rate_rps)
        requests = old.Requests(prompt_tokens=load.requests.prompt_tokens, output_tokens=load.requests.output_tokens)
        before = compiling.compile_problem(
            [old.Engine(step=step, **terms)], old.Fleet(), old.OpenLoop(requests=requests, arrival_ps=load.arrival_ps),
            **TERMS,
        )  # fmt: skip
        ratio(
            f"all off against {revision}, load {fraction:.0%}",
            kernel(new, Fleet(), load),
            lambda before=before: world.KernelRun(before).finish(),  # type: ignore[misc]
            pairs=pairs,
        )


def sessions(load: OpenLoop, turns: int) -> OpenLoop:
    """Turns that begin like the one before, from sessions that take turns at random."""
    count = load.requests.count
    rng = np.random.default_rng(3)
    session = rng.integers(0, max(1, count // turns), count)
    parent = np.full(count, -1)
    last: dict[int, int] = {}
    for i, each in enumerate(session.tolist()):
        parent[i] = last.get(each, -1)
        last[each] = i
    shared = np.where(parent >= 0, 800, 0)
    return replace(load, requests=replace(load.requests, prefixes=Prefixes(parent=parent, shared_tokens=shared)))


def speculation(rate_rps: float, count: int, pairs: int) -> None:
    plain = replace(engine(table=True), max_sequences=128)
    wide = replace(plain, tokens_per_step=2.4, step_positions=4)
    for fraction in (0.3, 0.8):
        load = stream(count, fraction * rate_rps)
        ratio(
            f"speculation, load {fraction:.0%}", kernel(wide, Fleet(), load), kernel(plain, Fleet(), load), pairs=pairs
        )


def policies(rate_rps: float, count: int, pairs: int) -> None:
    """At a load that memory allows, and with a cache that answers fill."""
    names: tuple[PolicyName, ...] = ("new_token_ratio", "guaranteed_no_evict", "max_utilization")
    for label, blocks, fraction in (("memory to spare", 25_700, 0.9), ("memory short", 3_000, 0.35)):
        plain = replace(engine(table=True), kv_blocks=blocks)
        load = stream(count, fraction * rate_rps)
        for name in names:
            given = replace(plain, capacity=CapacityPolicy(name=name))
            ratio(f"{name}, {label}", kernel(given, Fleet(), load), kernel(plain, Fleet(), load), pairs=pairs)
    plain = engine(table=True)
    long = replace(plain, capacity=CapacityPolicy(name="new_token_ratio", output_limit_tokens=16_384))
    load = stream(count, 0.9 * rate_rps)
    ratio("new_token_ratio, max_tokens above its clip", kernel(long, Fleet(), load), kernel(plain, Fleet(), load),
          pairs=pairs)  # fmt: skip


def prefixes(rate_rps: float, count: int, pairs: int) -> None:
    given = engine(table=True)
    load = stream(count, 0.6 * rate_rps)
    ratio(
        "prefix cache, 1 replica", kernel(given, Fleet(), sessions(load, 8)), kernel(given, Fleet(), load), pairs=pairs
    )
    load = stream(count, 0.6 * rate_rps * 10)
    plain = kernel(given, Fleet(replicas=10), load)
    for name in ("sticky", "prefix_aware"):
        routed = kernel(given, Fleet(replicas=10, routing=name), sessions(load, 8))
        ratio(f"prefix cache and router {name}, 10 replicas", routed, plain, pairs=pairs)
    caches = kernel(given, Fleet(replicas=10), sessions(load, 8))
    ratio("  of which the cache without the router", caches, plain, pairs=pairs)


def tiers(rate_rps: float, count: int, pairs: int) -> None:
    """A cache that is too small with a tier in host memory, and sessions whose turns wait for their answers."""
    given = replace(engine(table=True), kv_blocks=4_000)
    hosted = replace(given, host_blocks=40_000, host_block_s=1e-5)
    load = sessions(stream(count, 0.3 * rate_rps), 8)
    own = load.requests.prefixes
    assert own is not None
    plain = kernel(given, Fleet(), load)
    ratio("host memory, beside a prefix cache", kernel(hosted, Fleet(), load), plain, pairs=pairs)
    waits = np.random.default_rng(4).exponential(10.0, count)
    for between in ("cached", "kept", "offloaded"):
        turns = Turns(follows=own.parent, think_s=waits, between=between)
        waiting = replace(load, requests=replace(load.requests, turns=turns))
        # Beside the same requests at the times at which they then came: turns that wait are another load.
        found = simulate(hosted, Fleet(), waiting, seed=0, keep_requests=True).requests
        assert found is not None
        order = np.argsort(found.arrival_s, kind="stable")
        same = OpenLoop(requests=load.requests.part(order), arrival_s=found.arrival_s[order])
        label = f"turns after answers, {between}, beside a prefix cache"
        ratio(label, kernel(hosted, Fleet(), waiting), kernel(hosted, Fleet(), same), pairs=pairs)


def apart(rate_rps: float, count: int, pairs: int) -> None:
    """Two pools of two against one of four, per request kept, as the trial does it."""
    load = stream(count, 1.6 * rate_rps)
    one = Replica(engine=engine(table=True))
    transfer = KvTransfer(bytes_per_token=131_072.0, bandwidth_bytes_per_s=50e9)
    pools = SplitPools(prefill=one, prefill_replicas=2, decode=one, decode_replicas=2, transfer=transfer)
    assert load.arrival_ps is not None
    traffic = SplitTraffic(
        arrival_s=load.arrival_ps / 1e12, prompt_tokens=load.requests.prompt_tokens,
        output_tokens=load.requests.output_tokens,
    )  # fmt: skip
    ratio(
        "prefill and decode apart, 2 + 2 replicas",
        lambda: serve_split(pools, traffic, seed=0),
        lambda: simulate(one.engine, Fleet(replicas=4), load, seed=0, keep_requests=True),
        pairs=pairs,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", help="also against the simulator of this revision")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of a run, roughly")
    parser.add_argument("--requests", type=int, default=60_000, help="requests of one run")
    parser.add_argument("--only", choices=("before",), help="without the rows of single features")
    given = parser.parse_args()
    rate_rps = capacity_rps()
    SECONDS[0] = given.seconds
    print(
        f"{given.pairs} pairs of about {given.seconds:g} s, {given.requests:,} requests of 1000/200 tokens a run",
        flush=True,
    )
    if given.before:
        with tempfile.TemporaryDirectory() as folder:
            against(given.before, Path(folder), rate_rps, given.requests, given.pairs)
    for part in () if given.only == "before" else (policies, speculation, prefixes, tiers, apart):
        part(rate_rps, given.requests, given.pairs)


if __name__ == "__main__":
    main()
