"""Arrangements of the same devices side by side: prefill and decode apart in some split, or colocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ullage.service.disaggregated import Floats, SplitPools, SplitTraffic, serve_split
from ullage.service.replica import Replica
from ullage.service.trial.trial import play
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import OpenLoop, Requests
from ullage.workload.classes import Metric, RequestClass


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """What one arrangement made of the traffic. A good request was served within every limit of its class."""

    name: str
    prefill_replicas: int
    decode_replicas: int
    devices: int
    ttft_p50_s: float
    ttft_p95_s: float
    tpot_p50_s: float
    tpot_p95_s: float
    e2e_p95_s: float
    good_fraction: float
    has_limits: bool
    prefill_busy_fraction: float
    decode_busy_fraction: float


def split_arrangement(
    pools: SplitPools, traffic: SplitTraffic, classes: Sequence[RequestClass], class_of: Any, *, seed: int
) -> Arrangement:
    found = serve_split(pools, traffic, seed=seed)
    return _arrangement(
        f"{pools.prefill_replicas} prefill + {pools.decode_replicas} decode",
        (found.ttft_s, found.tpot_s, found.e2e_s),
        classes,
        class_of,
        replicas=(pools.prefill_replicas, pools.decode_replicas),
        devices=pools.devices,
        busy=(found.prefill.utilisation_fraction, found.decode.utilisation_fraction),
    )


def colocated(
    replica: Replica,
    replicas: int,
    traffic: SplitTraffic,
    classes: Sequence[RequestClass],
    class_of: Any,
    *,
    seed: int,
) -> Arrangement:
    """The same traffic on replicas that do both."""
    requests = Requests(
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=traffic.output_tokens,
        cached_tokens=traffic.cached_tokens,
    )
    load = OpenLoop(requests=requests, arrival_s=traffic.arrival_s)
    outcome = play(replica.engine, Fleet(replicas=replicas), load, seed=seed, keep_requests=True)
    found = outcome.requests
    assert found is not None
    done = found.output_tokens >= traffic.output_tokens
    first_s = np.where(done, found.first_token_s, np.nan)
    end_s = np.where(done, found.end_s, np.nan)
    later = np.maximum(traffic.output_tokens - 1, 1)
    latencies = (
        first_s - traffic.arrival_s + found.outside_s,
        np.where(traffic.output_tokens > 1, (end_s - first_s) / later, np.nan),
        end_s - traffic.arrival_s + found.outside_s,
    )
    busy = outcome.utilisation_fraction
    return _arrangement(
        f"{replicas} colocated",
        latencies,
        classes,
        class_of,
        replicas=(0, replicas),
        devices=replicas * replica.devices,
        busy=(busy, busy),
    )


def _arrangement(
    name: str,
    latencies: tuple[Floats, Floats, Floats],
    classes: Sequence[RequestClass],
    class_of: Any,
    *,
    replicas: tuple[int, int],
    devices: int,
    busy: tuple[float, float],
) -> Arrangement:
    ttft_s, tpot_s, e2e_s = latencies
    good = np.isfinite(e2e_s)
    for place, each in enumerate(classes):
        own = class_of == place
        for slo in each.slos:
            # Gaps between tokens are not kept by request; their mean is what a request alone can be held to.
            values = {Metric.TTFT: ttft_s, Metric.E2E: e2e_s}.get(slo.metric, tpot_s)
            # An answer of one token has no time per later token, and misses none.
            good &= ~own | (np.nan_to_num(values, nan=0.0) <= slo.limit_s)
    return Arrangement(
        name=name,
        prefill_replicas=replicas[0],
        decode_replicas=replicas[1],
        devices=devices,
        ttft_p50_s=float(np.nanpercentile(ttft_s, 50)),
        ttft_p95_s=float(np.nanpercentile(ttft_s, 95)),
        tpot_p50_s=float(np.nanpercentile(tpot_s, 50)),
        tpot_p95_s=float(np.nanpercentile(tpot_s, 95)),
        e2e_p95_s=float(np.nanpercentile(e2e_s, 95)),
        good_fraction=float(good.mean()),
        has_limits=any(each.slos for each in classes),
        prefill_busy_fraction=busy[0],
        decode_busy_fraction=busy[1],
    )
