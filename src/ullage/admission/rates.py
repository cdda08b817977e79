"""Rates by class and by tenant, and the order in which work is shed.

Classes share the pool by the engine time their requests take, not by their number: one request for code may cost as
much as three chats. When all ask for their planning rate at once, what is left of the capacity is theirs in
proportion; when the capacity is less than that, it is given by priority, and inside a priority by max-min fairness.
Either way the shares add up to the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.admission.fair_share import by_priority, max_min
from ullage.admission.policy import AdmissionPolicy
from ullage.evidence import number
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand


@dataclass(frozen=True, kw_only=True)
class ClassRate:
    """What one class may send. `alone_rps` is what the pool would carry of it if no other class sent anything.

    `shed_from_ratio` and `shed_wholly_ratio` say at which multiple of the planned traffic its requests begin to be
    refused, and at which no place is left for it; None: never, it is the last one.
    """

    class_name: str
    priority: int
    planning_rps: float
    rate_rps: float
    tokens_per_s: float
    alone_rps: float
    busy_s: float
    shed_from_ratio: float
    shed_wholly_ratio: float | None


@dataclass(frozen=True, kw_only=True)
class TenantRate:
    """What one tenant may send. `rate_rps` is its fair share under full contention; `granted_rps` is what
    it gets of what it sends at the planning rate."""

    tenant: str
    wanted_rps: float
    granted_rps: float
    rate_rps: float
    tokens_per_s: float


@dataclass(frozen=True, kw_only=True)
class ShedStep:
    """One step of shedding. Steps are taken in order, each only while the ones before it are not enough."""

    rank: int
    what: str
    when: str
    answer: str


def class_rates(
    demand: Demand, classes: Sequence[RequestClass], busy_s: Mapping[str, float], *, capacity_rps: float
) -> tuple[ClassRate, ...]:
    """Share a pool that carries `capacity_rps` of the planned mix."""
    traffic = {each.name: each for each in demand.classes}
    planned = {each.name: traffic[each.name].planning_rps for each in classes}
    total_rps = sum(planned.values())
    # Engine time per second that the pool gives at its capacity, in the proportions of the plan.
    time_s = {name: max(busy_s[name], 1e-12) for name in planned}
    wanted = [planned[each.name] * time_s[each.name] for each in classes]
    capacity = capacity_rps / total_rps * sum(wanted)
    shares = by_priority(capacity, wanted, wanted, [each.priority for each in classes])
    left = max(0.0, capacity - sum(shares))
    shares = tuple(share + left * want / sum(wanted) for share, want in zip(shares, wanted, strict=True))
    found = []
    for each, share in zip(classes, shares, strict=True):
        before = sum(want for one, want in zip(classes, wanted, strict=True) if one.priority < each.priority)
        upto = sum(want for one, want in zip(classes, wanted, strict=True) if one.priority <= each.priority)
        rate_rps = share / time_s[each.name]
        found.append(
            ClassRate(
                class_name=each.name,
                priority=each.priority,
                planning_rps=planned[each.name],
                rate_rps=rate_rps,
                tokens_per_s=rate_rps * request_tokens(demand, each.name),
                alone_rps=capacity / time_s[each.name],
                busy_s=time_s[each.name],
                shed_from_ratio=capacity / upto,
                shed_wholly_ratio=capacity / before if before > 0.0 else None,
            )
        )
    return tuple(found)


def tenant_rates(demand: Demand, policy: AdmissionPolicy, *, capacity_rps: float) -> tuple[TenantRate, ...]:
    """Share the pool among the tenants that were stated, in requests of the planned mix."""
    tenants = policy.tenants
    if not tenants:
        return ()
    most = [number(each.most) * capacity_rps for each in tenants]
    weights = [number(each.weight) for each in tenants]
    wanted = [number(each.share) * demand.planning_rps for each in tenants]
    entitled = max_min(capacity_rps, most, weights)
    granted = max_min(capacity_rps, [min(*pair) for pair in zip(wanted, most, strict=True)], weights)
    rates = {each.name: each.planning_rps for each in demand.classes}
    tokens = sum(rate * request_tokens(demand, name) for name, rate in rates.items()) / sum(rates.values())
    return tuple(
        TenantRate(
            tenant=each.name,
            wanted_rps=wanted[place],
            granted_rps=granted[place],
            rate_rps=entitled[place],
            tokens_per_s=entitled[place] * tokens,
        )
        for place, each in enumerate(tenants)
    )


def shed_order(
    rates: Sequence[ClassRate], tenants: Sequence[TenantRate], *, retry_budget: float
) -> tuple[ShedStep, ...]:
    """What goes first: work that is already lost, then repetitions, then the greedy, then the least urgent."""
    steps = [
        ("requests that cannot finish before their deadline", "at any load", "504"),
        (f"retries beyond {retry_budget:.0%} of requests", "at any load", "429"),
    ]
    if tenants:
        steps.append(("requests of a tenant above its share", "while anything waits", "429"))
    for each in sorted(rates, key=lambda one: -one.priority):
        wholly = "" if each.shed_wholly_ratio is None else f", completely from {each.shed_wholly_ratio:.3g}"
        steps.append(
            (
                f"{each.class_name} (priority {each.priority})",
                f"from {each.shed_from_ratio:.3g} times the planned traffic{wholly}",
                "503",
            )
        )
    return tuple(
        ShedStep(rank=place + 1, what=what, when=when, answer=answer)
        for place, (what, when, answer) in enumerate(steps)
    )


def request_tokens(demand: Demand, name: str) -> float:
    """The mean tokens of prompt and answer of a class."""
    return float(demand.figures[f"demand.{name}.request_tokens"].value)
