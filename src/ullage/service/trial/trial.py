"""A trial: one pool under load, and the only call of the simulator.

Replicas of one type behind a router, the mix they serve, the SLOs of its classes, the deadlines of its clients, and
the step times it is simulated with. Every stage that needs a pool's behaviour simulates it here: sizes, headroom,
limits, losses, drills, bills and load tests that are repeated. They differ in the load, in the fleet's events and in
what they read from the outcome.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ullage.errors import InputError, InternalError
from ullage.memory.settings import PREFIX_ROUTERS
from ullage.service.replica import Replica
from ullage.service.trial.mix import LoadAt, MixLoad, called
from ullage.service.trial.shared_runs import shared_run
from ullage.service.trial.strata import WARMUP_FRACTION
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import DEFAULT_ROUTER, Fleet
from ullage.simulate.load import Load, LoadClass, OpenLoop
from ullage.simulate.outcome import Outcome, RequestArrays
from ullage.simulate.simulation import simulate
from ullage.workload.classes import RequestClass

NOMINAL, CONSERVATIVE = "nominal", "conservative"
# A window holds the longest burst that is not yet the season (workload/synthetic/modulation.py).
WINDOW_S = 1024.0


def play(  # noqa: PLR0913 - the options of the simulator, passed on by name
    engines: Engine | Sequence[Engine],
    fleet: Fleet,
    load: Load,
    *,
    seed: int,
    until_s: float | None = None,
    warmup_s: float = 0.0,
    sample_s: float | None = None,
    gauges: bool = False,
    keep_requests: bool = False,
    attribution: bool = False,
    report: Callable[[float], None] | None = None,
) -> Outcome:
    """Simulate a load on a fleet. No other module calls the simulator (import contract).

    Samples are of every replica, or with `gauges` of the fleet as a whole.
    """
    return simulate(
        engines,
        fleet,
        load,
        seed=seed,
        until_s=until_s,
        warmup_s=warmup_s,
        sample_s=sample_s,
        samples=not gauges,
        gauges=gauges,
        keep_requests=keep_requests,
        attribution=attribution,
        report=report,
    )


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Limits of one replica, as an engine and the gateway in front of it apply them.

    `first_token_s` by class: a request without a token by then is taken down.
    """

    running_requests: int
    waiting_requests: int | None
    first_token_s: Mapping[str, float]

    def of(self, engine: Engine) -> Engine:
        """The engine with these limits. Priority scheduling belongs to them: without it the patient starve the rest."""
        return replace(
            engine,
            max_sequences=min(engine.max_sequences, self.running_requests),
            waiting_requests=self.waiting_requests,
            scheduling="priority",
        )


class TrialKey:
    """Values that are compared as they are, and hashed once: those of a mix of fifty classes are twenty thousand."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: tuple[object, ...]) -> None:
        self._values, self._hash = values, hash(values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TrialKey) and self._values == other._values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One pool of `replicas` of one type, the mix that `load_at` makes, and what its classes are held to.

    `deadlines_s` are when clients of a class give up; a request that ends by its deadline is lost, and counts against
    the error budget, `error_fraction`. `idle_error_fractions` are those that an idle replica loses too (answers longer
    than the deadline allows): no number of replicas serves them, so the budget is what load adds to them. `basis` says
    which step times the replica has. The router learns of loads and caches every `refresh_s`, or sees the present.
    """

    replica: Replica
    load_at: LoadAt
    classes: tuple[RequestClass, ...]
    replicas: int = 1
    span_s: float = WINDOW_S
    routing: str = DEFAULT_ROUTER
    refresh_s: float = 0.0
    error_fraction: float = 0.001
    deadlines_s: Mapping[str, float] = field(default_factory=dict)
    idle_error_fractions: Mapping[str, float] = field(default_factory=dict)
    basis: str = NOMINAL

    def __post_init__(self) -> None:
        if not any(each.slos for each in self.classes):
            raise InputError(
                field="classes",
                value=[each.name for each in self.classes],
                problem="none has an SLO, so every load would pass",
                fix="State at least one percentile, for example ttft_p95: 1s.",
            )

    @property
    def warmup_s(self) -> float:
        return WARMUP_FRACTION * self.span_s

    @property
    def fleet(self) -> Fleet:
        return self.routed(Fleet(replicas=self.replicas))

    def routed(self, fleet: Fleet, *, has_prefixes: bool = True) -> Fleet:
        """The same replicas and events behind this pool's router; one that goes by prefixes needs some."""
        if (fleet.routing, fleet.refresh_s) == (self.routing, self.refresh_s):
            return fleet
        if not has_prefixes and self.routing in PREFIX_ROUTERS:
            return replace(fleet, refresh_s=self.refresh_s)
        return replace(fleet, routing=self.routing, refresh_s=self.refresh_s)

    def with_steps(self, ratio: float) -> Trial:
        """The same pool with every step `ratio` times as long: conservative where that is longer."""
        if ratio == 1.0:
            return self
        return replace(self, replica=self.replica.slowed(ratio), basis=CONSERVATIVE if ratio > 1.0 else self.basis)

    def load(self, rate_rps: float, seed: int, *, span_s: float | None = None) -> OpenLoop:
        """The mix at a total rate; clients give up at their deadlines."""
        drawn = self.load_at(rate_rps=rate_rps, span_s=span_s or self.span_s, seed=seed)
        names = [each.name for each in drawn.requests.classes]
        missing = [each.name for each in self.classes if each.name not in names]
        if missing:
            raise InputError(
                field="classes",
                value=missing[0],
                problem=f"has an SLO, but the load has only {names}",
                fix="Use the same class names for the load and the SLOs.",
            )
        if not self.deadlines_s:
            return drawn
        given_up_s = tuple(
            (name, each_s - self.replica.request_overhead_s) for name, each_s in self.deadlines_s.items()
        )
        return drawn.with_classes(_with_deadlines(drawn.requests.classes, given_up_s))

    def play(
        self,
        load: Load,
        *,
        seed: int,
        guard: Guard | None = None,
        fleet: Fleet | None = None,
        engines: tuple[Engine, ...] = (),
        warmup_s: float | None = None,
        is_shared: bool = False,
        **kept: Any,
    ) -> Outcome:
        """Simulate a load on this pool, or on another fleet of the same replicas; `kept` is as in `play` above.

        A run that `is_shared` is remembered for pools that do the same under other names.
        """
        chosen = engines or (self.replica.engine,)
        served = self.routed(
            Fleet(replicas=self.replicas) if fleet is None else fleet, has_prefixes=load.requests.prefixes is not None
        )
        warmup_s = self.warmup_s if warmup_s is None else warmup_s

        def played() -> Outcome:
            limited = chosen if guard is None else tuple(guard.of(each) for each in chosen)
            return play(limited, served, load, seed=seed, warmup_s=warmup_s, **kept)

        if not is_shared or served.autoscaler is not None:
            return played()
        limits = None if guard is None else (guard.running_requests, guard.waiting_requests)
        own = self.replica
        kinds = tuple(own.key if each is own.engine else Replica(engine=each).key for each in chosen)
        terms = (kinds, limits, served, seed, warmup_s, tuple(sorted(kept.items())))
        return shared_run(load, terms, played)

    def allowed_error_fraction(self, class_name: str) -> float:
        return self.error_fraction + self.idle_error_fractions.get(class_name, 0.0)

    @cached_property
    def key(self) -> TrialKey:
        """Equal for trials that every seed answers alike; what was simulated once is then known.

        What classes are called is no part of it: of twenty pools with a class each many are one pool.
        """
        places = {name: str(place) for place, name in enumerate(self.mix_names)}
        mix = self.load_at if isinstance(self.load_at, MixLoad) else None
        # Most trials hold the classes of their mix to the mix's own SLOs, and those are part of it already.
        own = mix is not None and self.classes == mix.classes
        return TrialKey(
            (
                self.replica.key,
                self.load_at if mix is None else mix.nameless,
                None if own else tuple(called(each, places.get(each.name, each.name)) for each in self.classes),
                self.replicas,
                self.span_s,
                self.routing,
                self.refresh_s,
                tuple(sorted((places.get(name, name), each_s) for name, each_s in self.deadlines_s.items())),
            )
        )

    @property
    def mix_names(self) -> tuple[str, ...]:
        """What the classes of its mix are called, in the mix's order; nothing where the load is no mix."""
        return self.load_at.names if isinstance(self.load_at, MixLoad) else ()


@functools.lru_cache(maxsize=64)
def _with_deadlines(classes: tuple[LoadClass, ...], given_up_s: tuple[tuple[str, float], ...]) -> tuple[LoadClass, ...]:
    """The same classes for every window of a mix: fifty of them take a while to make."""
    after_s = dict(given_up_s)
    return tuple(
        replace(each, total_timeout_s=max(after_s[each.name], 1e-9)) if each.name in after_s else each
        for each in classes
    )


def requests_of(outcome: Outcome) -> RequestArrays:
    """The requests of a run that kept them."""
    if outcome.requests is None:
        raise InternalError(law="a run that asked for its requests has them", left=None, right=outcome.duration_s)
    return outcome.requests
