"""Live sessions against a running service: how long a move takes, what ten times the load gets, whether memory grows.

    python -m bench.serve [--sessions 50] [--every 10] [--seconds 600] [--storm-seconds 20]

Each session moves a slider every ten seconds: traffic, a class's rate, an SLO, the device or the cached share, each on
a grid of a few positions, so that some moves are equal, as they are on a page. Every move asks for a first look and for
the decided plan, which takes the place of the session's older one. Then each session moves ten times as often.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from support.services import ALICE, RunningService, running_service, token_file

MOVES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("workload.classes.chat.rate", tuple(f"{each} req/s" for each in range(4, 34, 2))),
    ("workload.classes.coding.rate", tuple(f"{each} req/s" for each in range(2, 14, 1))),
    ("workload.classes.chat.slo.ttft_p95", ("600ms", "800ms", "1s", "1500ms", "2s", "3s")),
    ("workload.classes.chat.cached_fraction", tuple(f"{each}%" for each in range(0, 80, 10))),
    ("pool.device", ("h100-sxm", "h200-sxm")),
    ("policy.shortfall", ("1%", "2%", "5%", "10%")),
)


async def session(
    client: httpx.AsyncClient, name: str, every_s: float, until_s: float, seen: list[tuple[int, float]], seed: str
) -> None:
    draw = random.Random(f"{seed} {name}")
    state: dict[str, str] = {}
    await asyncio.sleep(draw.uniform(0.0, every_s))
    while time.monotonic() < until_s:
        key, values = draw.choice(MOVES)
        # A page moves one slider at a time and keeps the last two moves.
        state = {**dict(list(state.items())[-1:]), key: draw.choice(values)}
        begun_s = time.perf_counter()
        answer = await client.post("/v1/evaluate", json={"set": state, "session": name})
        seen.append((answer.status_code, time.perf_counter() - begun_s))
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1
        await asyncio.sleep(max(0.0, every_s - (time.perf_counter() - begun_s)))


async def load(service: RunningService, *, sessions: int, every_s: float, seconds: float, seed: str) -> list[Any]:
    seen: list[tuple[int, float]] = []
    limits = httpx.Limits(max_connections=sessions * 2)
    headers = {"authorization": f"Bearer {ALICE}"}
    async with httpx.AsyncClient(
        base_url=service.url, headers=headers, limits=limits, timeout=60.0, trust_env=False
    ) as client:
        until_s = time.monotonic() + seconds
        await asyncio.gather(*(session(client, f"tab{each}", every_s, until_s, seen, seed) for each in range(sessions)))
    return seen


def resident_bytes(pid: int) -> int:
    """Of the service itself; its tasks end with their requests."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def kept_bytes(service: RunningService) -> int:
    """Answers of jobs that ended, which are kept up to a bound: what grows beside them is a leak."""
    with service.client() as client:
        found = re.search(r"^ullage_serve_result_bytes (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def told(what: str, seen: list[tuple[int, float]]) -> None:
    good = sorted(seconds for status, seconds in seen if status == 200)
    statuses = {status: sum(1 for each, _ in seen if each == status) for status in sorted({each for each, _ in seen})}
    if len(good) < 2:
        print(f"| {what} | {len(seen)} | {statuses} | | | |", flush=True)
        return
    cuts = statistics.quantiles(good, n=100, method="inclusive")
    print(f"| {what} | {len(seen)} | {statuses} | {cuts[49]:.3f} | {cuts[94]:.3f} | {good[-1]:.3f} |", flush=True)


def cpu_seconds(count: int) -> list[float]:
    """Of a first look as the service gives it, in a fork of a warm process, from the fork to the bytes of the answer:
    what it takes on cores that others use as well. What the fork copies of its parent's memory is in it."""
    from ullage.serve.children import warm_up
    from ullage.serve.tasks import perform

    warm_up()
    gc.freeze()
    draw, found = random.Random("cpu"), []
    for _ in range(count):
        key, values = draw.choice(MOVES)
        request = {"as_of": "2026-11-16", "plan": None, "set": {key: draw.choice(values)}, "traffic": None, "seed": 0}
        child = os.fork()
        if child == 0:
            kind, _ = perform({"verb": "evaluate", "request": request}, lambda _fraction, _stage="", /: None)
            os._exit(0 if kind == "answer" else 1)
        _, status, used = os.wait4(child, 0)
        assert status == 0, f"{key}: no answer"
        found.append(used.ru_utime + used.ru_stime)
    return sorted(found)


def busy_cores(seconds: float = 2.0) -> float:
    """How many cores others keep busy while this program waits."""

    def busy() -> float:
        fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")

    before = busy()
    time.sleep(seconds)
    return (busy() - before) / seconds


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--sessions", type=int, default=50)
    arguments.add_argument("--every", type=float, default=10.0)
    arguments.add_argument("--seconds", type=float, default=600.0)
    arguments.add_argument("--parts", type=int, default=5, help="How often the memory is looked at.")
    arguments.add_argument("--storm-seconds", type=float, default=20.0)
    given = arguments.parse_args()
    print(f"cores: {os.cpu_count()}, kept busy by others: {busy_cores():.1f}", flush=True)
    cpu = cpu_seconds(40)
    print(f"CPU s of a first look in a process of its own: {statistics.median(cpu):.3f}, p95 {cpu[37]:.3f}", flush=True)
    folder = Path(tempfile.mkdtemp())
    begun_s = time.monotonic()
    with running_service(folder, "--token-file", str(token_file(folder)), is_warm=False) as service:
        print(f"listening after {time.monotonic() - begun_s:.2f} s", flush=True)
        with service.client() as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.1)
            print(f"warm after {time.monotonic() - begun_s:.2f} s", flush=True)
            alone = []
            for place in range(20):
                asked = {"set": {"workload.classes.chat.rate": f"{10.5 + place} req/s"}, "decide": False}
                start_s = time.perf_counter()
                alone.append((client.post("/v1/evaluate", json=asked).status_code, time.perf_counter() - start_s))
        print("| | moves | by status | p50 s | p95 s | most s |\n|---|---|---|---|---|---|")
        told("one at a time, nothing shared", alone)
        before = resident_bytes(service.process.pid)
        for part in range(given.parts):
            seconds = given.seconds / given.parts
            seen = asyncio.run(
                load(service, sessions=given.sessions, every_s=given.every, seconds=seconds, seed=str(part))
            )
            told(f"{given.sessions} sessions, one move each {given.every:g} s, part {part + 1}", seen)
            now = resident_bytes(service.process.pid)
            kept = kept_bytes(service) / 2**20
            print(f"resident {before / 2**20:.0f} -> {now / 2**20:.0f} MiB, kept answers {kept:.1f} MiB", flush=True)
        storm = asyncio.run(
            load(service, sessions=given.sessions, every_s=given.every / 10, seconds=given.storm_seconds, seed="storm")
        )
        told("ten times as many", storm)
        print(f"resident {resident_bytes(service.process.pid) / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
