"""Many replicas: how requests are routed to them, and how they come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ullage.errors import InputError, check_name

ROUTINGS = (
    "round_robin", "random", "power_of_two", "least_outstanding", "least_tokens", "least_kv", "sticky", "prefix_aware",
)  # fmt: skip

BETWEEN_TURNS = ("cached", "kept", "offloaded", "dropped")
"""What becomes of a session's KV until its next turn: it goes when others need the room, stays held, goes to host
memory, or goes."""

DEFAULT_ROUTER = "least_outstanding"
"""The default of most gateways."""


@dataclass(frozen=True, kw_only=True)
class RouterGuard:
    """When a sticky or prefix-aware router leaves its replica for the least loaded one.

    Where it has more than `requests` outstanding above the least loaded and more than `ratio` times as many; and, for a
    prefix-aware one, where it has less than `match_fraction` of the prompt. The defaults are those of SGLang's router
    (balance_abs_threshold 64, balance_rel_threshold 1.5, cache_threshold 0.3), which compares the most with the least
    loaded of all; here the replica in question is compared.
    """

    requests: int = 64
    ratio: float = 1.5
    match_fraction: float = 0.3

    def __post_init__(self) -> None:
        if self.requests < 0 or self.ratio < 0 or not 0.0 <= self.match_fraction <= 1.0:
            raise InputError(
                field="fleet.guard",
                value=(self.requests, self.ratio, self.match_fraction),
                problem="is negative, or the share of a match is not between 0 and 1",
                fix="Give, for example, requests=64, ratio=1.5, match_fraction=0.3.",
            )


@dataclass(frozen=True, kw_only=True)
class FleetEvent:
    """Something that happens to replicas at one time; several replicas at once are a node or a zone."""

    at_s: float
    kind: Literal["ready", "drain", "fail", "repair"]
    replicas: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What a control rule sees at a tick: sums over replicas that serve, and how many there are.

    `held_requests` wait for another attempt; `gauges` are the fleet's samples so far where the run takes them;
    `first_tokens(from_s, until_s, age_s)` gives the TTFTs of first tokens that came between two times, to requests that
    waited at most `age_s`.
    """

    at_s: float
    outstanding_requests: int
    waiting_requests: int
    tokens: int
    ready_replicas: int
    starting_replicas: int
    held_requests: int = 0
    gauges: Any = field(default=None, repr=False, compare=False)
    first_tokens: Callable[[float, float, float], Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a rule answers: replicas, and how long each of those that start now will take."""

    replicas: int
    starts_s: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Autoscaler:
    """A control tick that asks for replicas.

    The built-in rule tracks a target: so many outstanding requests (or resident and queued tokens) per replica,
    and removes replicas only when every tick of the last `window_ticks` asked for fewer. `rule` replaces it:
    it gets the signals and returns the replicas wanted, as a number or as `Wanted`. A new replica serves `ready_s`
    after it was requested, or when the rule says; a removed one drains. A minimum of 0 scales to zero:
    a request that then arrives fails, or is tried again as its `Retry` says.
    """

    period_s: float = 15.0
    ready_s: float = 120.0
    signal: Literal["outstanding", "tokens"] = "outstanding"
    target_per_replica: float = 32.0
    window_ticks: int = 1
    least_replicas: int = 1
    most_replicas: int = 1
    rule: Callable[[Signals], int | Wanted] | None = None

    def __post_init__(self) -> None:
        if self.period_s <= 0 or self.target_per_replica <= 0 or self.window_ticks < 1:
            raise InputError(
                field="autoscaler.period_s",
                value=self.period_s,
                problem="period, target and window must be above 0",
                fix="Give, for example, period_s=15, target_per_replica=32, window_ticks=20.",
            )
        if not 0 <= self.least_replicas <= self.most_replicas or self.most_replicas < 1:
            raise InputError(
                field="autoscaler.least_replicas",
                value=self.least_replicas,
                problem=f"must lie between 0 and most_replicas = {self.most_replicas}",
                fix="Give both bounds.",
            )


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Replicas behind a router. `replicas` is their number, or with several engines the number of each.

    `ready_replicas` of them (all, when None) serve from the start, the others when an event or the autoscaler
    starts them. With `refresh_s` above 0 the router's view of loads is renewed only that often. The loads it
    compares: outstanding requests (`power_of_two`, `least_outstanding`), prompt tokens of outstanding requests
    (`least_tokens`), KV tokens held plus tokens queued (`least_kv`). `sticky` sends a session to one replica and
    `prefix_aware` a request to the replica that has most of its prompt, both as far as `guard` lets them; with
    `refresh_s` they too know of loads and caches as of the last look.
    """

    replicas: int | tuple[int, ...] = 1
    routing: str = DEFAULT_ROUTER
    refresh_s: float = 0.0
    guard: RouterGuard = RouterGuard()
    ready_replicas: int | None = None
    events: tuple[FleetEvent, ...] = ()
    autoscaler: Autoscaler | None = None

    def __post_init__(self) -> None:
        check_name(self.routing, ROUTINGS, field="fleet.routing")
        if min(self.counts) < 0 or not 1 <= self.total_replicas <= 30_000:
            raise InputError(
                field="fleet.replicas", value=self.replicas, problem="must be 1 to 30000 in total", fix="Give a number."
            )
        for each in self.events:
            if each.at_s < 0 or any(not 0 <= r < self.total_replicas for r in each.replicas):
                raise InputError(
                    field="fleet.events",
                    value=each,
                    problem=f"is before time 0 or names a replica that is not among the {self.total_replicas}",
                    fix="Number replicas from 0.",
                )

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.replicas,) if isinstance(self.replicas, int) else self.replicas

    @property
    def total_replicas(self) -> int:
        return sum(self.counts)


def failure_events(
    domains: Iterable[tuple[int, ...]],
    *,
    mean_up_s: float,
    mean_down_s: float,
    until_s: float,
    rng: np.random.Generator,
) -> tuple[FleetEvent, ...]:
    """Failures and repairs of domains (a replica, a node's replicas, a zone's) with exponential times between.

    Every domain fails as a whole and independently of the others; overlapping failures of one replica (its node
    and its zone) keep it down until the last is repaired.
    """
    events = []
    for replicas in domains:
        now_s = float(rng.exponential(mean_up_s))
        while now_s < until_s:
            events.append(FleetEvent(at_s=now_s, kind="fail", replicas=replicas))
            now_s += float(rng.exponential(mean_down_s))
            events.append(FleetEvent(at_s=now_s, kind="repair", replicas=replicas))
            now_s += float(rng.exponential(mean_up_s))
    return tuple(sorted(events, key=lambda each: each.at_s))
