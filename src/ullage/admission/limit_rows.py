"""The rows of the limits' tables: each limit with its reason, the checks behind them, the backpressure signal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.admission.bounds import OWN_LIMIT, Bounds
from ullage.admission.clients import Clients, slos_met
from ullage.admission.deadlines import Deadline
from ullage.admission.policy import AdmissionPolicy
from ullage.admission.retries import NO_LIMITS, Protection
from ullage.evidence import number
from ullage.memory.budget import MemoryBudget
from ullage.service.trial.trial import Guard

# The gauge that counts what waits, by engine; a gateway that reads another counts the same requests.
WAITING_METRICS = {
    "vllm": "vllm:num_requests_waiting",
    "sglang": "sglang:num_queue_reqs",
    "tensorrt-llm": 'nv_trt_llm_request_metrics{request_type="waiting"}',
}


@dataclass(frozen=True, kw_only=True)
class LimitLine:
    """One limit of a replica and of the whole pool; None where it is only one of the two."""

    name: str
    replica_value: float | None
    pool_value: float | None
    unit: str
    why: str


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """One SLO in overload, with the limits or without them, for the requests that were answered."""

    protection: str
    offered_ratio: float
    class_name: str
    slo_name: str
    found_s: float
    limit_s: float
    is_kept: bool
    success_fraction: float

    @property
    def is_missed_with_limits(self) -> bool:
        return self.protection != NO_LIMITS and not self.is_kept


@dataclass(frozen=True, kw_only=True)
class Backpressure:
    """When to tell those who send to slow down, and when to refuse them; per replica."""

    metric: str
    warn_requests: int
    refuse_requests: int
    status: str
    retry_after_s: int


def overload_checks(
    clients: Clients, ways: Sequence[Protection], overload: float, offered_rps: float
) -> tuple[LimitCheck, ...]:
    """Every SLO in overload: with the limits, and without."""
    load = clients.steady(offered_rps)
    found = []
    for way in ways:
        outcome = clients.run(load, guard=way.guard, patient=True)
        for each in slos_met(clients, outcome):
            counts = outcome.of_class(each.class_name).counts
            found.append(
                LimitCheck(
                    protection=way.name,
                    offered_ratio=overload,
                    class_name=each.class_name,
                    slo_name=each.slo.name,
                    found_s=each.found_s,
                    limit_s=each.slo.limit_s,
                    is_kept=each.is_kept,
                    success_fraction=counts.success / max(counts.requests, 1),
                )
            )
    return tuple(found)


def limit_lines(
    bounds: Bounds,
    flags: Guard,
    deadlines: Mapping[str, Deadline],
    memory: MemoryBudget,
    *,
    capacity_rps: float,
    replicas: int,
    is_bounded: bool,
) -> tuple[LimitLine, ...]:
    """The limits as a table: replica, pool, and why; `is_bounded` where the engine can bound its queue."""
    guard = bounds.guard
    waiting = bounds.waiting_requests
    lines = [
        LimitLine(
            name="running, the engine's flag",
            replica_value=flags.running_requests,
            pool_value=None,
            unit="requests",
            why=_why_flag(flags, guard, is_bounded=is_bounded),
        ),
        LimitLine(
            name="running, in overload",
            replica_value=guard.running_requests,
            pool_value=guard.running_requests * replicas,
            unit="requests",
            why=bounds.binding if bounds.binding == OWN_LIMIT else f"more would violate {bounds.binding}",
        ),
        LimitLine(
            name="waiting, in overload",
            replica_value=waiting,
            pool_value=waiting * replicas,
            unit="requests",
            why="what is processed within the longest wait below",
        ),
        LimitLine(
            name="steady rate",
            replica_value=capacity_rps,
            pool_value=capacity_rps * replicas,
            unit="req/s",
            why="the highest load at which the pool meets every SLO, bursts included: what a rate limiter lets through",
        ),
        LimitLine(
            name="context",
            replica_value=min(memory.longest_context_tokens, memory.approved.context_tokens),
            pool_value=None,
            unit="tokens",
            why="what is approved and fits in memory",
        ),
    ]
    for name, limit_s in guard.first_token_s.items():
        bound_by = deadlines[name].bound_by
        lines.append(_age_line(f"{name}: first token", limit_s, f"a later one would violate {bound_by}"))
        lines.append(_age_line(f"{name}: wait, in overload", bounds.ages_s[name], "the same, less its prefill at p95"))
        lines.append(_age_line(f"{name}: wait, at any load", deadlines[name].latest_start_s, "deadline less the floor"))
    return tuple(lines)


def _why_flag(flags: Guard, guard: Guard, *, is_bounded: bool) -> str:
    if is_bounded and flags.waiting_requests is None:
        return "at any load: stricter flags lose more, at the planned load or in overload"
    if flags.running_requests == guard.running_requests:
        return "the same at any load"
    return "at any load: fewer would violate an SLO at the planned load, bursts included"


def _age_line(name: str, value_s: float, why: str) -> LimitLine:
    return LimitLine(name=name, replica_value=value_s, pool_value=None, unit="s", why=why)


def backpressure_of(
    bounds: Bounds, memory: MemoryBudget, policy: AdmissionPolicy, *, capacity_rps: float, planning_rps: float
) -> Backpressure:
    """The signal, its two thresholds, and how long those refused are to wait."""
    waiting = bounds.waiting_requests
    # A full queue beside the planned load: what the load leaves of the capacity works it off.
    left_rps = max(capacity_rps - planning_rps, 0.05 * capacity_rps)
    return Backpressure(
        metric=WAITING_METRICS.get(memory.runtime.engine, "requests that wait"),
        warn_requests=max(1, math.floor(number(policy.backpressure) * waiting)),
        refuse_requests=waiting,
        status="429 to a tenant above its share, 503 to everybody else",
        retry_after_s=max(1, math.ceil(min(waiting / left_rps, number(policy.recovery)))),
    )
