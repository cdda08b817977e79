"""Drills with too much load: an overload, clients that retry, a tool that is back after an outage."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ullage.admission.clients import MOST_REPLICAS, Clients, clients_of, step_load
from ullage.admission.retries import (
    BACK_FRACTION,
    BURST_RATIO,
    LIMITS_AND_BUDGET,
    Protection,
    burst_length_s,
    protections,
    slo_met_fraction,
)
from ullage.evidence import number
from ullage.planning.drills.result import DrillResult, DrillVerdict, counted, first_of
from ullage.planning.drills.scenario import RUNS, DrillAttainment, PoolScenario, arrival_s, least_of
from ullage.service.trial.scenario import Scenario
from ullage.service.trial.trial import Guard, requests_of
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import Fleet, FleetEvent
from ullage.simulate.load import PS_PER_S, OpenLoop, Retry
from ullage.workload.demand.demand import ClassTraffic
from ullage.workload.demand.tools import KEPT, Tool

_SETTLED_S, _JUDGED_S = 60.0, 60.0
OVERLOAD_S = 300.0
# A queue that the SLOs still allow after minutes has long outgrown them by then.
LONG_OVERLOAD_S = 1800.0


# ---- queue collapse -------------------------------------------------------------------------------------------


def collapse_drill(scenario: PoolScenario) -> DrillResult:
    """More comes than the replicas can do; as many requests must succeed as at the planning rate.

    What is beyond the fleet may be refused. A queue that takes it all in answers everybody too late: the fleet is
    full, and its successes are gone.
    """
    limits = scenario.pool.admission_limits
    guard = limits.bounds.guard
    ratio, pace_rps = number(scenario.spec.admission.overload), _pace_rps(scenario)
    base_rps = scenario.planning_rps / scenario.replicas
    burst_rps = max(ratio * pace_rps, base_rps)
    overload = _Overload(
        clients=_clients(scenario),
        retry=scenario.spec.admission.retry(budget_fraction=number(scenario.spec.admission.retry_budget)),
        base_rps=base_rps,
        burst_rps=burst_rps,
    )
    before, during = overload.goodput(guard)
    least_rps = slo_met_fraction(scenario.classes, scenario.spec.admission) * min(base_rps, pace_rps)

    def change() -> str:
        for running in _fewer(guard.running_requests):
            if overload.goodput(replace(guard, running_requests=running))[1] >= least_rps:
                return (
                    f"at most {running} running requests a replica in place of {guard.running_requests}, "
                    "until step times are measured"
                )
        return "none of the tighter limits tried: reject by rate, before requests reach a replica"

    passes = during >= least_rps
    return DrillResult(
        name="queue-collapse",
        title="queue collapse",
        pool=scenario.pool.spec.name,
        verdict=DrillVerdict.PASSES if passes else DrillVerdict.FAILS,
        figure="successes per replica",
        before=scenario.figure(
            "queue-collapse.before_rps", before, "req/s", "successes at the planning rate, simulated"
        ),
        during=scenario.figure(
            "queue-collapse.during_rps",
            during,
            "req/s",
            f"successes at {ratio:.3g} times capacity, behind the admission limits, simulated",
            *(figure for figure in limits.figures.values() if figure.name == "limit.running_requests"),
        ),
        wanted=f"{least_rps:.3g} req/s",
        played=(
            f"{ratio:.3g} times capacity arrives for {OVERLOAD_S / 60:g} min, {burst_rps:.3g} req/s a "
            f"replica, behind the plan's limits. {overload.without(guard)}"
        ),
        change="" if passes else change(),
    )


@dataclass(frozen=True, kw_only=True)
class _Overload:
    """More than the replicas can do, for a while: who asks, and how much before and during it, per replica."""

    clients: Clients
    retry: Retry
    base_rps: float
    burst_rps: float

    def goodput(self, by: Guard | None, length_s: float = OVERLOAD_S) -> tuple[float, float]:
        """Successes a second and replica before and during the overload."""
        end_s = _SETTLED_S + length_s
        load = step_load(
            self.clients,
            base_rps=self.base_rps,
            burst_rps=self.burst_rps,
            at_s=_SETTLED_S,
            length_s=length_s,
            span_s=end_s,
        )
        found = requests_of(self.clients.run(load, guard=by, retry=self.retry, from_s=0.0, keep_requests=True))
        good = found.outcome == 0
        return (
            _share(good, found.arrival_s, 0.0, _SETTLED_S) * self.base_rps,
            _share(good, found.arrival_s, _SETTLED_S, end_s) * self.burst_rps,
        )

    def without(self, guard: Guard) -> str:
        """What would succeed with no limits; where that is more, whether the queue has only not grown enough yet."""
        behind_rps, open_rps = self.goodput(guard)[1], self.goodput(None)[1]
        succeeds = f"Without them {open_rps:.3g} req/s succeed"
        if open_rps <= behind_rps:
            return f"{succeeds}."
        bare, behind = (self.goodput(each, LONG_OVERLOAD_S)[1] for each in (None, guard))
        if bare < behind:
            return (
                f"{succeeds}: so short a queue is still within the SLOs. In an overload of {LONG_OVERLOAD_S / 60:g} "
                f"min {bare:.3g} req/s succeed without them, {behind:.3g} req/s behind them."
            )
        return (
            f"{succeeds}: the SLOs allow a wait as long as clients wait before they give up, which bounds the queue by "
            f"itself. Limits refuse at once what would have waited: {1.0 - behind_rps / open_rps:.1%} of the successes."
        )


def _fewer(running: int) -> list[int]:
    """Tighter limits to try: ever fewer."""
    tried = [running * 3 // 4, running // 2, running // 3, running // 4, running // 8]
    return sorted({max(1, each) for each in tried if each < running}, reverse=True)


def _pace_rps(scenario: PoolScenario) -> float:
    """What a replica completes at its limits."""
    return scenario.pool.admission_limits.bounds.pace.throughput_rps


def _clients(scenario: PoolScenario, replicas: int = MOST_REPLICAS) -> Clients:
    """Of a few of the pool's replicas: in overload all are full, and a large pool does what a small one does."""
    return clients_of(scenario.pool.service_curve, scenario.spec.admission, replicas=min(replicas, scenario.replicas))


def _share(good: NDArray[np.bool_], at_s: NDArray[np.float64], from_s: float, until_s: float) -> float:
    inside = (at_s >= from_s) & (at_s < until_s)
    return float(good[inside].mean()) if bool(inside.any()) else 0.0


# ---- retry storm ----------------------------------------------------------------------------------------------


def storm_drill(scenario: PoolScenario) -> DrillResult:
    """A burst longer than clients wait, all of whom ask again; the burst ends, and SLOs must be met again.

    Nothing is broken and the load is the planned one, yet wasted work that is retried can keep a
    pool full for ever.
    """
    policy, limits = scenario.spec.admission, scenario.pool.admission_limits
    clients = _clients(scenario, 4)
    length_s = burst_length_s(policy, scenario.classes)
    judged_s = _SETTLED_S + length_s + number(policy.recovery)
    burst_rps = BURST_RATIO * _pace_rps(scenario)

    def back(way: Protection, more: int = 0) -> tuple[float, float]:
        """The share of successes before the burst, and of those who come when the pool should be back."""
        base_rps = scenario.planning_rps / (scenario.replicas + more)
        load = step_load(
            clients,
            base_rps=base_rps,
            burst_rps=max(burst_rps, base_rps),
            at_s=_SETTLED_S,
            length_s=length_s,
            span_s=judged_s + _JUDGED_S,
        )
        found = requests_of(clients.run(load, guard=way.guard, retry=way.retry, from_s=0.0, keep_requests=True))
        good = found.outcome == 0
        return (
            _share(good, found.arrival_s, 0.0, _SETTLED_S),
            _share(good, found.arrival_s, judged_s, judged_s + _JUDGED_S),
        )

    ways = protections(limits.bounds.guard, policy)
    planned = next(each for each in ways if each.name == LIMITS_AND_BUDGET)
    least = BACK_FRACTION * slo_met_fraction(scenario.classes, policy)
    before, after = back(planned)
    bare = back(ways[0])[1]

    def change() -> str:
        budget = replace(planned, retry=policy.retry(budget_fraction=0.1))
        found = []
        if number(policy.retry_budget) > 0.1 and back(budget)[1] >= least:
            found.append("admission: {retry_budget: 10%}")
        more = scenario.least_more(lambda extra: back(planned, extra)[1] >= least)
        if more is not None:
            found.append(f"{counted(more, 'more replica')} behind the router")
        return first_of(found) or "shed until the queue is empty: no change tried lets the pool recover"

    passes = after >= least
    return DrillResult(
        name="retry-storm",
        title="retry storm",
        pool=scenario.pool.spec.name,
        verdict=DrillVerdict.PASSES if passes else DrillVerdict.FAILS,
        figure="successes among requests",
        before=scenario.figure(
            "retry-storm.before_fraction", before, "fraction", "successes at the planning rate, simulated"
        ),
        during=scenario.figure(
            "retry-storm.during_fraction",
            after,
            "fraction",
            "successes once the pool should have recovered, retries and limits as planned, simulated",
            *policy.retry_inputs,
            policy.retry_budget,
        ),
        wanted=f"{100 * least:.3g} %",
        played=(
            f"{BURST_RATIO:g} times capacity arrives for {length_s:.3g} s, clients try up to "
            f"{int(number(policy.attempts))} times; judged {number(policy.recovery) / 60:.3g} min after it. Without "
            f"limits and retry budget {bare:.1%} succeed then."
        ),
        change="" if passes else change(),
    )


# ---- tool outage ----------------------------------------------------------------------------------------------

OUTAGE_S, WATCHED_S = 600.0, 300.0
# Clients that poll a tool do so every few seconds to once a minute; half a minute is what they need to be back.
RETURN_S = 30.0
_SPREADS = (2, 4, 8, 16, 32)


def tool_drill(scenario: PoolScenario) -> DrillResult:
    """A tool is down: tasks wait for it, hold their KV where that is kept, and all come back when it is up again."""
    names = {each.name for each in scenario.classes}
    tools = [each for each in scenario.spec.tools if names & set(each.classes)]
    if not tools:
        return DrillResult(
            name="tool-outage",
            title="tool outage",
            pool=scenario.pool.spec.name,
            verdict=DrillVerdict.NOT_PLAYED,
            played="No class of this pool uses a tool.",
        )
    tool = max(tools, key=lambda each: _share_of(each) * sum(one.planning_rps for one in _users(scenario, each)))
    return _outage_of(scenario, tool)


def _outage_of(scenario: PoolScenario, tool: Tool) -> DrillResult:
    users = {each.name for each in _users(scenario, tool)}
    calls_rps = _share_of(tool) * sum(each.planning_rps for each in _users(scenario, tool))
    backlog = calls_rps * OUTAGE_S
    span = scenario.span(OUTAGE_S + WATCHED_S)
    back_s = span.hit_s + OUTAGE_S
    # A tool that is back takes what it can take beside the calls that come anyway; it may never catch up.
    spare_rps = max(tool.capacity_calls_per_s - calls_rps, 1e-9)
    return_s = min(max(RETURN_S, backlog / spare_rps), span.end_s - back_s)
    held = backlog * _context_tokens(scenario, users) if tool.while_waiting.value == KEPT else 0.0

    def load(seed: int, over_s: float) -> OpenLoop:
        calm = scenario.calm(seed, span.run_s)
        at_s = arrival_s(calm)
        rng = np.random.default_rng((seed, 4))
        names = [each.name for each in calm.requests.classes]
        class_of = calm.requests.class_of
        mine = np.isin(names, list(users))[class_of if class_of is not None else np.zeros(at_s.size, np.int64)]
        waits = mine & (at_s >= span.hit_s) & (at_s < back_s) & (rng.random(at_s.size) < _share_of(tool))
        return _moved(calm, np.where(waits, back_s + over_s * rng.random(at_s.size), at_s))

    def play(over_s: float, *, kept_tokens: float, runs: int = 1) -> DrillAttainment:
        fleet, engines = _with_held(scenario, kept_tokens, from_s=span.hit_s, until_s=back_s)
        setup = Scenario(fleet=fleet, engines=engines, load_of=lambda seed: load(seed, over_s))
        return scenario.play(setup, span, runs=runs)

    def change() -> str:
        found = []
        if held and play(return_s, kept_tokens=0.0).holds:
            found.append(f"while_waiting: dropped for {tool.name}")
        spread = least_of(
            lambda place: play(return_s * _SPREADS[place - 1], kept_tokens=held).holds, most=len(_SPREADS)
        )
        if spread is not None:
            over_s = return_s * _SPREADS[spread - 1]
            found.append(f"let at most {backlog / over_s:.3g} waiting tasks/s back in, over {over_s / 60:.3g} min")
        return (
            first_of(found) or "refuse new tasks while the tool is down: the backlog exceeds what the fleet can absorb"
        )

    waiting = f"{counted(round(backlog), 'request')} waiting" + (f", holding {held:,.0f} KV tokens" if held else "")
    return scenario.judged(
        "tool-outage",
        "tool outage",
        play(return_s, kept_tokens=held, runs=RUNS),
        played=(
            f"{tool.name} is down for {OUTAGE_S / 60:g} min: {waiting}, all back within {return_s:.3g} s of its end. "
            "Latency counts from when a request reaches the fleet."
        ),
        change=change,
        beside=tool.inputs,
    )


def _users(scenario: PoolScenario, tool: Tool) -> list[ClassTraffic]:
    return [each for each in scenario.pool.demand.classes if each.name in tool.classes]


def _share_of(tool: Tool) -> float:
    """The part of its classes' requests that come after a call: a task's calls over its requests, at most all."""
    return min(1.0, number(tool.calls_per_task) / number(tool.requests_per_task))


def _context_tokens(scenario: PoolScenario, users: set[str]) -> float:
    """The mean context of a request that waits, weighed by how often its class comes."""
    mine = [each for each in scenario.pool.demand.classes if each.name in users]
    total = sum(each.planning_rps for each in mine)
    means = [sum(float(side.mean()) for side in each.model.lengths.pairs()) for each in mine]
    return sum(each.planning_rps * mean for each, mean in zip(mine, means, strict=True)) / total if total else 0.0


def _with_held(
    scenario: PoolScenario, held_tokens: float, *, from_s: float, until_s: float
) -> tuple[Fleet, tuple[Engine, ...]]:
    """The fleet with so many KV tokens held by those who wait: the half of them that is there on average."""
    whole, engine = scenario.replicas, scenario.replica.engine
    if not held_tokens:
        return Fleet(replicas=whole), (engine,)
    longest = scenario.pool.memory.approved.context_tokens
    left = max(longest, round(engine.kv_tokens - 0.5 * held_tokens / whole))
    small = replace(engine, kv_blocks=max(1, left // engine.block_tokens))
    full, cut = tuple(range(whole)), tuple(range(whole, 2 * whole))
    events = (
        FleetEvent(at_s=from_s, kind="ready", replicas=cut),
        FleetEvent(at_s=from_s, kind="drain", replicas=full),
        FleetEvent(at_s=until_s, kind="ready", replicas=full),
        FleetEvent(at_s=until_s, kind="drain", replicas=cut),
    )
    return Fleet(replicas=(whole, whole), ready_replicas=whole, events=events), (engine, small)


def _moved(load: OpenLoop, at_s: NDArray[np.float64]) -> OpenLoop:
    """The same requests at other times, in order again."""
    order = np.argsort(at_s, kind="stable")
    arrival_ps = np.rint(at_s[order] * PS_PER_S).astype(np.int64)
    return replace(load, arrival_ps=arrival_ps, requests=load.requests.part(order))
