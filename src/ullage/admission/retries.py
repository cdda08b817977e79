"""What retries make of an overload, and whether a pool comes back from one by itself.

Every refusal and every timeout is retried. At a load that a pool carries with ease the answers to a burst may all
be too late, their work wasted and retried, and that alone keeps the pool full long after the burst:
it stays down although nothing is wrong with it (a metastable failure). The experiment is that burst. Below some load
the pool recovers, above it does not, and a bound on waiting and on retries moves that load.

    burst     twice the pool's capacity, until the queue is longer than clients wait
    recovered so many of the requests that come `recovery` later are a success again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ullage.admission.bounds import last_passing
from ullage.admission.clients import Clients, step_load
from ullage.admission.policy import AdmissionPolicy, Success
from ullage.evidence import number
from ullage.service.trial.trial import Guard
from ullage.simulate.load import Retry
from ullage.simulate.outcome import Outcome
from ullage.workload.classes import RequestClass

NO_LIMITS, BUDGET, LIMITS, LIMITS_AND_BUDGET = "no limits", "retry budget", "limits", "limits and retry budget"
BURST_RATIO = 2.0
# Clients who wait for longer than this fill no pool with work that is thrown away; the burst need not outlast them.
LONGEST_BURST_S = 1800.0
# Loads are tried at sixteenths of capacity.
STEPS = 16
# Four replicas are a pool with a router; a storm is long, and its runs are the dearest of the stage.
MOST_REPLICAS = 4
# Half of the successes that SLOs require are back: a pool that is still down has next to none.
BACK_FRACTION = 0.5
_SETTLED_S, _JUDGED_S = 30.0, 60.0


@dataclass(frozen=True, kw_only=True)
class RetryLoad:
    """One load with retries. `amplification_ratio` is attempts by requests."""

    load: str
    protection: str
    offered_rps: float
    amplification_ratio: float
    success_fraction: float


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Up to which load, per replica and as a share of capacity, a pool recovers from the burst by itself."""

    protection: str
    recovers_rps: float
    capacity_fraction: float


@dataclass(frozen=True, kw_only=True)
class Protection:
    """The limits between clients and replicas."""

    name: str
    guard: Guard | None
    retry: Retry


def protections(guard: Guard, policy: AdmissionPolicy) -> tuple[Protection, Protection, Protection, Protection]:
    """Nothing, a budget of retries, the limits, and both."""
    free, bounded = policy.retry(), policy.retry(budget_fraction=number(policy.retry_budget))
    return (
        Protection(name=NO_LIMITS, guard=None, retry=free),
        Protection(name=BUDGET, guard=None, retry=bounded),
        Protection(name=LIMITS, guard=guard, retry=free),
        Protection(name=LIMITS_AND_BUDGET, guard=guard, retry=bounded),
    )


def retry_loads(
    clients: Clients,
    ways: Sequence[Protection],
    loads_rps: Sequence[tuple[str, float]],
    map: Any = map,  # noqa: A002
) -> tuple[RetryLoad, ...]:
    """Attempts and successes at steady loads, under each protection."""
    cases = [(name, rate_rps, way) for name, rate_rps in loads_rps for way in ways]

    def run(case: tuple[str, float, Protection]) -> RetryLoad:
        name, rate_rps, way = case
        outcome = clients.run(clients.steady(rate_rps), guard=way.guard, retry=way.retry)
        return RetryLoad(
            load=name,
            protection=way.name,
            offered_rps=rate_rps,
            amplification_ratio=amplification(outcome),
            success_fraction=success_fraction(outcome),
        )

    return tuple(map(run, cases))


def recoveries(
    clients: Clients,
    ways: Sequence[Protection],
    capacity_rps: float,
    map: Any = map,  # noqa: A002
) -> tuple[Recovery, ...]:
    """For each protection the highest load, up to capacity, at which the pool is back in time."""

    def search(way: Protection) -> Recovery:
        found = last_passing(
            STEPS, lambda place: recovers(clients, way, (place + 1) / STEPS * capacity_rps, capacity_rps)
        )
        share = (found + 1) / STEPS
        return Recovery(protection=way.name, recovers_rps=share * capacity_rps, capacity_fraction=share)

    return tuple(map(search, ways))


def recovers(clients: Clients, way: Protection, base_rps: float, capacity_rps: float) -> bool:
    """Whether the pool is back `recovery` after the burst."""
    length_s = burst_length_s(clients.policy, clients.classes)
    judged_from_s = _SETTLED_S + length_s + number(clients.policy.recovery)
    load = step_load(
        clients,
        base_rps=base_rps,
        burst_rps=BURST_RATIO * capacity_rps,
        at_s=_SETTLED_S,
        length_s=length_s,
        span_s=judged_from_s + _JUDGED_S,
    )
    outcome = clients.run(load, guard=way.guard, retry=way.retry, from_s=judged_from_s)
    return success_fraction(outcome) >= BACK_FRACTION * slo_met_fraction(clients.classes, clients.policy)


def burst_length_s(policy: AdmissionPolicy, classes: Sequence[RequestClass]) -> float:
    """At twice the capacity the queue grows by a second every second: half as long again as clients wait."""
    waits = [number(policy.first_token_timeout), *(number(policy.deadline_of(each.name)) for each in classes)]
    return min(1.5 * min(waits) / (BURST_RATIO - 1.0), LONGEST_BURST_S)


def slo_met_fraction(classes: Sequence[RequestClass], policy: AdmissionPolicy) -> float:
    """The least share of successes that is compatible with every SLO being kept: misses of one do not hide in
    those of another."""
    shares = []
    for each in classes:
        if policy.of_class(each.name).success is not Success.SLOS:
            continue
        worst = {slo.metric: 1.0 - slo.percentile_fraction for slo in each.slos}
        for slo in each.slos:
            worst[slo.metric] = min(worst[slo.metric], 1.0 - slo.percentile_fraction)
        shares.append(1.0 - sum(worst.values()))
    return max(0.1, min(shares, default=1.0))


def amplification(outcome: Outcome) -> float:
    counts = outcome.total.counts
    return 1.0 + counts.retried / max(counts.requests, 1)


def success_fraction(outcome: Outcome) -> float:
    counts = outcome.total.counts
    return counts.success / max(counts.requests, 1)
