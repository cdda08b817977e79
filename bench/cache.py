"""The prefix cache against published LRU shares, and what routers make of a published trace (`python bench/cache.py`).

Mooncake's conversations carry a hash for each block of 512 tokens. One replica that serves one request at a time is LRU
alone: its shares of blocks are compared with those of notes that count them offline. Then the trace is served by eight
replicas behind several routers, with the caches that a model and a device leave.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from ullage import verbs
from ullage.load.pool import ReplicaChoice
from ullage.load.traffic import open_requests
from ullage.service.served import ServedPool
from ullage.simulate import Engine, Fleet, OpenLoop, Prefixes, Requests, StepTable, simulate
from ullage.verbs.simulate import LoadChoice
from ullage.workload.synthetic.replay import replayed
from ullage.workload.synthetic.stream import Stream

TRACE = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces" / "mooncake_conversation.parquet"
PUBLISHED = {1000: 0.045, 5000: 0.110, 10_000: 0.211, 50_000: 0.355}
REPLICA = ReplicaChoice(model="llama-3.1-8b", device="h100-sxm")
SPAN_S = 1200.0
ROUTERS = ("round_robin", "least_outstanding", "sticky", "prefix_aware")


def main() -> int:
    if not TRACE.exists():
        print(f"{TRACE.name} is absent: published traces are not part of the repository")
        return 0
    trace = open_requests((str(TRACE),), columns={}, zone="", field="trace", problem="", fix="")
    worst = _shares(replayed(trace))
    _routers()
    print(f"\nlargest difference from a published share: {worst:.1f} points (target: 1.0)")
    return int(worst > 1.0)


def _shares(stream: Stream) -> float:
    assert stream.parent is not None
    assert stream.shared_tokens is not None
    requests = Requests(
        prompt_tokens=stream.prompt_tokens,
        output_tokens=np.ones(stream.requests, np.int32),
        prefixes=Prefixes(parent=stream.parent, shared_tokens=stream.shared_tokens, keeps_answers=False),
    )
    load = OpenLoop(requests=requests, arrival_ps=stream.arrival_ps)
    blocks = float(np.ceil(stream.prompt_tokens / 512).sum())
    worst = 0.0
    print("| cache, blocks of 512 | published share | simulated share |\n|---|---|---|")
    for size, published in PUBLISHED.items():
        step = StepTable.affine(step_s=1e-9, max_sequences=1)
        engine = Engine(step=step, kv_blocks=size, block_tokens=512, max_sequences=1, budget_tokens=1 << 20)
        found = simulate(engine, Fleet(), load, seed=0, attribution=False).total.cached_tokens / 512 / blocks
        worst = max(worst, 100.0 * abs(found - published))
        print(f"| {size:,} | {published:.1%} | {found:.1%} |")
    return worst


def _routers() -> None:
    print("\n| router | prompt tokens found | TTFT p50 / p95 | busy | CPU s |\n|---|---|---|---|---|")
    for routing, refresh_s in (*((each, 0.0) for each in ROUTERS), ("prefix_aware", 30.0)):
        begun_s = time.process_time()
        pool = ServedPool(replicas=8, routing=routing, refresh_s=refresh_s)
        found = verbs.simulate(LoadChoice(traces=(str(TRACE),), span_s=SPAN_S), replica=REPLICA, pool=pool)
        served = found.served  # type: ignore[union-attr]
        ttft = served.classes[0].latencies["ttft"].quantiles_s
        said = routing if not refresh_s else f"{routing}, knowledge {refresh_s:g} s old at most"
        print(
            f"| {said} | {served.hits.share_fraction:.1%} | {ttft[0.5]:.2f} / {ttft[0.95]:.2f} s | "
            f"{served.busy_fraction:.0%} | {time.process_time() - begun_s:.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
