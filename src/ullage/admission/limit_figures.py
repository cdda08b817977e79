"""The limits as figures: each number with what it was read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage.admission.policy import AdmissionPolicy
from ullage.admission.proof import ENGINE_ALONE, WITH_GATEWAY
from ullage.admission.retries import BUDGET, LIMITS, LIMITS_AND_BUDGET, NO_LIMITS, burst_length_s
from ullage.evidence import Assumption, Figure, number
from ullage.memory.budget import MemoryBudget
from ullage.service.curve.curve import ServiceCurve
from ullage.startup.phases import Level
from ullage.startup.ready import TimeToReady
from ullage.workload.demand.demand import Demand

if TYPE_CHECKING:
    from ullage.admission.limits import AdmissionLimits

_SHORT = {NO_LIMITS: "bare", BUDGET: "budget_alone", LIMITS: "limited", LIMITS_AND_BUDGET: "budgeted"}

_SHORT_WAY = {ENGINE_ALONE: "engine", WITH_GATEWAY: "gateway"}

Inputs = tuple[Figure | Assumption, ...]


class _LimitFigures:
    """Figures by name, in the order in which they are made."""

    def __init__(self) -> None:
        self.made: dict[str, Figure] = {}

    def __call__(self, name: str, value: int | float | str, unit: str, formula: str, inputs: Inputs) -> Figure:
        self.made[name] = Figure(name=name, value=value, unit=unit, formula=formula, inputs=inputs)
        return self.made[name]


def limit_figures(
    found: AdmissionLimits,
    curve: ServiceCurve,
    demand: Demand,
    memory: MemoryBudget,
    ready: TimeToReady,
    policy: AdmissionPolicy,
    fleet: tuple[Figure, ...],
) -> dict[str, Figure]:
    """Every number that a plan prints of the limits."""
    make = _LimitFigures()
    rate = _capacity(make, found, curve, memory, policy, fleet)
    _by_class(make, found, curve, demand, memory, policy, rate)
    _by_tenant(make, found, policy, rate, demand)
    _retries(make, found, curve, demand, policy, rate)
    _bursts(make, found, demand, ready, policy, rate)
    return make.made


def _capacity(
    make: _LimitFigures,
    found: AdmissionLimits,
    curve: ServiceCurve,
    memory: MemoryBudget,
    policy: AdmissionPolicy,
    fleet: tuple[Figure, ...],
) -> Figure:
    running = make(
        "limit.replica_concurrency",
        found.running_requests,
        "requests",
        f"most sequences at which a replica that is never idle meets its SLOs; bound by {found.bounds.binding}",
        curve.inputs,
    )
    make(
        "limit.engine_running_requests",
        found.flags.running_requests,
        "requests",
        "least limit on running sequences with which the planned load, bursts included, meets every SLO, simulated",
        (running, *fleet),
    )
    for each in found.proofs:
        make(
            f"limit.{_SHORT_WAY[each.enforced_by]}_success_at_{each.load_ratio:g}",
            each.success_fraction,
            "fraction",
            f"requests that meet every limit at {each.load_ratio:g} times the planned load, {each.enforced_by}",
            (running, *fleet),
        )
    waiting = make(
        "limit.replica_queue_requests",
        found.waiting_requests,
        "requests",
        "requests completed per second at the concurrency limit x the longest time to a first token",
        (running, policy.overload),
    )
    times = f"x {found.replicas} replicas"
    if found.flags.waiting_requests is not None:
        make(
            "limit.engine_queue_requests",
            found.flags.waiting_requests,
            "requests",
            "least bound on waiting requests, from that of overload up, with which the planned load meets every SLO, "
            "simulated",
            (waiting, *fleet),
        )
    make("limit.pool_concurrency", found.running_requests * found.replicas, "requests", times, (running, *fleet))
    make("limit.pool_queue_requests", found.waiting_requests * found.replicas, "requests", times, (waiting, *fleet))
    make(
        "limit.queue_age_s",
        min(found.bounds.ages_s.values()),
        "s",
        "the shortest wait of any class",
        (waiting,),
    )
    context = memory.figures["memory.longest_context_tokens"]
    make("limit.context_tokens", found.context_tokens, "tokens", "what is approved and fits in memory", (context,))
    signal = found.backpressure
    warned = (waiting, policy.backpressure)
    make("limit.backpressure_requests", signal.warn_requests, "requests", f"of {signal.metric}, per replica", warned)
    rate = make(
        "limit.pool_rate_rps",
        found.pool_rate_rps,
        "req/s",
        "highest load at which the pool meets every SLO, bursts included, simulated",
        (*curve.inputs, *fleet),
    )
    drained = "time to drain a full queue on top of the planned load"
    make("limit.retry_after_s", signal.retry_after_s, "s", drained, (waiting, rate))
    return rate


def _by_class(
    make: _LimitFigures,
    found: AdmissionLimits,
    curve: ServiceCurve,
    demand: Demand,
    memory: MemoryBudget,
    policy: AdmissionPolicy,
    rate: Figure,
) -> None:
    for each in found.rates:
        name, deadline = each.class_name, found.deadlines[each.class_name]
        planned = demand.figures[f"demand.{name}.planning_rate"]
        tokens = demand.figures[f"demand.{name}.request_tokens"]
        own = make(
            f"limit.{name}.rate_rps",
            each.rate_rps,
            "req/s",
            "its share of the pool's engine time / engine time of one request; unplanned capacity is shared",
            (rate, planned),
        )
        spent = "rate x mean tokens of a request"
        make(f"limit.{name}.tokens_per_s", each.tokens_per_s, "tokens/s", spent, (own, tokens))
        make(f"limit.{name}.alone_rps", each.alone_rps, "req/s", "where no other class sends anything", (rate,))
        first = make(
            f"limit.{name}.first_token_s",
            found.bounds.guard.first_token_s[name],
            "s",
            f"latest at which requests answered in overload meet {deadline.bound_by}, simulated",
            (*curve.inputs, policy.overload, *deadline.bound_by_inputs),
        )
        less = "latest first token less prefill at p95 in a full replica"
        make(f"limit.{name}.queue_age_s", found.bounds.ages_s[name], "s", less, (first,))
        floor = make(
            f"limit.{name}.floor_s",
            deadline.floor_s,
            "s",
            "prefill and decode of the median request on a nearly idle replica, simulated",
            curve.inputs,
        )
        never = "deadline less the floor: older requests finish too late even on an idle replica"
        make(f"limit.{name}.latest_start_s", deadline.latest_start_s, "s", never, (deadline.stated, floor))
        context = min(found.context_tokens, next(t.longest_context_tokens for t in demand.classes if t.name == name))
        fits = (memory.figures["memory.longest_context_tokens"],)
        make(f"limit.{name}.context_tokens", context, "tokens", "its longest context, if it fits", fits)


def _by_tenant(
    make: _LimitFigures, found: AdmissionLimits, policy: AdmissionPolicy, rate: Figure, demand: Demand
) -> None:
    given = {each.name: each for each in policy.tenants}
    for each in found.tenants:
        tenant = given[each.tenant]
        fair = make(
            f"limit.tenant.{each.tenant}.rate_rps",
            each.rate_rps,
            "req/s",
            "weighted max-min fair share of the pool, at most its own limit",
            (rate, tenant.weight, tenant.most),
        )
        asked = (fair, tenant.share, demand.figures["demand.planning_rate"])
        make(
            f"limit.tenant.{each.tenant}.granted_rps",
            each.granted_rps,
            "req/s",
            "what it is granted of its demand at the planning rate",
            asked,
        )
        spent = "rate x mean tokens of a request of the mix"
        make(f"limit.tenant.{each.tenant}.tokens_per_s", each.tokens_per_s, "tokens/s", spent, (fair,))


def _retries(
    make: _LimitFigures,
    found: AdmissionLimits,
    curve: ServiceCurve,
    demand: Demand,
    policy: AdmissionPolicy,
    rate: Figure,
) -> None:
    clients = (*curve.inputs, *policy.retry_inputs)
    for each in found.retries:
        name = f"retry.{each.load}_{_SHORT[each.protection]}_ratio"
        loads: Inputs = (policy.overload,) if each.load == "overload" else (demand.figures["demand.planning_rate"],)
        budget: Inputs = (policy.retry_budget,) if each.protection in (BUDGET, LIMITS_AND_BUDGET) else ()
        formula = f"attempts / requests at the {each.load} load, {each.protection}, simulated"
        make(name, each.amplification_ratio, "ratio", formula, (*clients, *loads, *budget))
    burst_s = burst_length_s(policy, found.classes)
    for recovery in found.recoveries:
        make(
            f"retry.recovers_{_SHORT[recovery.protection]}_rps",
            recovery.recovers_rps * found.replicas,
            "req/s",
            f"highest load at which the pool recovers in time after {burst_s:.3g} s of twice its capacity, "
            f"{recovery.protection}, simulated",
            (rate, *policy.retry_inputs, policy.recovery),
        )
    for replay in found.replays:
        short, simulated = _SHORT[replay.protection], (*clients, demand.figures["demand.planning_rate"])
        said = f"{replay.until_s - replay.from_s:.3g} s of twice the capacity, {replay.protection}, simulated"
        share, most = replay.success_fraction, max(replay.waiting_requests) / replay.replicas
        make(f"replay.{short}_success_fraction", share, "fraction", f"requests in time of those in {said}", simulated)
        make(f"replay.{short}_queue_requests", most, "requests", f"longest queue of a replica in {said}", simulated)
        if replay.back_after_s is not None:
            back = f"until half of what the SLOs require is met again for good, after {said}"
            make(f"replay.{short}_back_s", replay.back_after_s, "s", back, (*simulated, policy.recovery))
    make("retry.budget_fraction", number(policy.retry_budget), "fraction", "as decided", (policy.retry_budget,))


def _bursts(
    make: _LimitFigures,
    found: AdmissionLimits,
    demand: Demand,
    ready: TimeToReady,
    policy: AdmissionPolicy,
    rate: Figure,
) -> None:
    planned = demand.figures["demand.planning_rate"]
    starts = {"hot": Level.HOT, "warm": Level.WARM, "scale-up": Level.COLD}
    for each in found.bursts:
        joins: Inputs = ()
        if each.absorber in starts:
            joins = (ready.figures[f"ready.{starts[each.absorber]}_p90_s"], policy.scale_delay, policy.warm)
        name = f"burst.{each.absorber.replace('-', '_')}_{each.length_s:.0f}s_ratio"
        formula = f"highest burst of {each.length_s:.0f} s, by {each.absorber}, at which the hour's SLOs are met"
        make(
            name,
            each.height_ratio,
            "ratio",
            formula,
            (rate, planned, policy.slo_window, policy.first_token_timeout, *joins),
        )
