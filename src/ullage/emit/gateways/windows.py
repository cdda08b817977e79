"""Rates as gateways count them: so many in a window. A burst that the plan absorbs passes, a steady excess does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ullage.emit.request import EmitPool

# The largest number that Envoy's limits take.
MOST = 4_294_967_295
_BURST = "burst.queue_120s_ratio"


@dataclass(frozen=True, kw_only=True)
class RateWindow:
    """So many requests, or tokens, in a window of this name and length."""

    unit: str
    limit_count: int
    why: str


def rate_windows(pool: EmitPool, name: str) -> list[RateWindow]:
    """The steady rate over an hour, and as much more over a minute as the queues of the pool absorb for two.

    A rate so high that an hour of it is more than the gateway counts is bounded by the minute alone.
    """
    rate, per_s = pool.number(name), pool.real(name)
    burst = burst_ratio(pool)
    found = [
        RateWindow(
            unit="Minute",
            limit_count=_counted(per_s * 60.0 * burst),
            why=f"x 60 s x {burst:g}, the burst of {_BURST}: {rate.why}",
        ),
        RateWindow(unit="Hour", limit_count=_counted(per_s * 3600.0), why=f"x 3600 s: {rate.why}"),
    ]
    return [each for each in found if each.limit_count <= MOST]


def burst_ratio(pool: EmitPool) -> float:
    """How high a burst of two minutes may be that is absorbed by queues; never below the steady rate."""
    return max(1.0, pool.real(_BURST))


def _counted(amount: float) -> int:
    return max(1, math.floor(amount + 1e-6))


def in_flight(pool: EmitPool) -> int:
    """Requests that the serving replicas may hold: running by the engine's flag, waiting by the queue bound."""
    each = pool.whole("limit.engine_running_requests") + pool.whole("limit.replica_queue_requests")
    return each * pool.running_replicas


def in_flight_why(pool: EmitPool) -> str:
    return (
        f"(limit.engine_running_requests {pool.whole('limit.engine_running_requests')} + limit.replica_queue_requests "
        f"{pool.whole('limit.replica_queue_requests')}) x {pool.running_replicas} serving replicas"
    )


def longest_deadline_s(pool: EmitPool) -> tuple[float, str]:
    """The longest deadline of the pool's classes: what one timeout for all of them can be."""
    found = []
    for each in pool.classes:
        given = pool.find(f"{each.name}.deadline") or pool.number("admission.deadline")
        found.append((float(given.value), given.why))
    return max(found)
