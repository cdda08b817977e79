"""The closed loop in simulated time: a rule, its signals, the platform that starts replicas, and the pool itself.

The simulator stops at every control tick; the rule reads what was scraped by then and says how many replicas it wants,
the platform how long each start takes. Every number that is printed of a rule was counted in such a run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InternalError
from ullage.scaling.rules import Controller, ScalingRule
from ullage.scaling.signals import ReplicaTerms, SignalReader, SignalTerms
from ullage.scaling.supply import CapacityLimits, StartRecord, StartTimes, Supply
from ullage.service.trial.trial import Trial
from ullage.simulate.fleet import Autoscaler, Fleet, Signals, Wanted
from ullage.simulate.load import PS_PER_S, OpenLoop, Retry
from ullage.simulate.outcome import Controls, Gauges, Outcome, RequestArrays
from ullage.workload.classes import Metric, RequestClass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# An activator that holds requests asks again this often, and for as long as an attempt may be repeated.
_HELD_TRIES = 255
_LOST_DRAWS = 1 << 15


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalingTraffic:
    """One stretch of traffic: requests from time 0 on, of which those before `counted_s` only fill the pool.

    `name` says which day or trace it is, `week_s` when in the week it begins, `seed` draws what is left to chance.
    """

    name: str
    load: OpenLoop
    span_s: float
    counted_s: float = 0.0
    week_s: float = 0.0
    seed: int = 0

    @cached_property
    def digest(self) -> bytes:
        """The same for the same requests at the same times, whatever it and its classes are called."""
        made, requests = hashlib.blake2b(digest_size=16), self.load.requests
        classes = [replace(each, name="") for each in requests.classes]
        made.update(repr((self.span_s, self.counted_s, self.week_s, self.seed, classes, self.load.retry)).encode())
        for name in ("prompt_tokens", "output_tokens", "cached_tokens", "cancel_after_s", "class_of", "tenant_of"):
            found = getattr(requests, name)
            made.update(name.encode() if found is None else found.tobytes())
        made.update(self.arrival_s.tobytes())
        return made.digest()

    @property
    def arrival_s(self) -> Floats:
        found = self.load.arrival_s
        if found is None:
            assert self.load.arrival_ps is not None
            found = self.load.arrival_ps / PS_PER_S
        return np.asarray(found, np.float64)

    def rates_rps(self, width_s: float) -> Floats:
        """Requests a second, stretch by stretch."""
        bins = max(1, math.ceil(self.span_s / width_s))
        counts = np.bincount(np.minimum(self.arrival_s // width_s, bins - 1).astype(np.int64), minlength=bins)
        return counts / width_s

    def faster(self, ratio: float, rng: Generator) -> ScalingTraffic:
        """The same rates on ramps that are so many times as steep: time is compressed and requests thinned."""
        kept = rng.random(self.load.requests.count) < 1.0 / ratio
        load = replace(
            self.load,
            requests=self.load.requests.part(kept),
            arrival_s=self.arrival_s[kept] / ratio,
            arrival_ps=None,
        )
        return replace(
            self, name=f"{self.name}, ramps x{ratio:g}", load=load, span_s=self.span_s / ratio,
            counted_s=self.counted_s / ratio,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class ScalingPool:
    """The pool that is scaled: one replica's trial, what it carries within the SLOs, how it starts, what may run."""

    trial: Trial
    each_rps: float
    starts: StartTimes
    limits: CapacityLimits
    signals: SignalTerms = field(default_factory=SignalTerms)
    outage_s: tuple[float, float] | None = None

    @property
    def classes(self) -> tuple[RequestClass, ...]:
        return self.trial.classes

    @property
    def ttft_limit_s(self) -> float:
        """The loosest limit on the first token; a minute where no class has one."""
        limits = [slo.limit_s for each in self.classes for slo in each.slos if slo.metric is Metric.TTFT]
        return max(limits, default=60.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopRun:
    """One rule on one stretch of traffic, as it went."""

    rule: ScalingRule
    traffic: ScalingTraffic
    outcome: Outcome
    asked: Ints
    starts: tuple[StartRecord, ...]

    @property
    def controls(self) -> Controls:
        if self.outcome.controls is None:
            raise InternalError(law="a run with a rule has control ticks", left=None, right=self.rule.name)
        return self.outcome.controls

    @property
    def gauges(self) -> Gauges:
        if self.outcome.gauges is None:
            raise InternalError(law="a run that asked for gauges has them", left=None, right=self.rule.name)
        return self.outcome.gauges

    @property
    def requests(self) -> RequestArrays:
        if self.outcome.requests is None:
            raise InternalError(law="a run that asked for its requests has them", left=None, right=self.rule.name)
        return self.outcome.requests

    @property
    def replica_hours(self) -> float:
        """Hours that replicas held their devices: while they started, served and drained."""
        rows = self.gauges
        inside = (rows.at_s > self.traffic.counted_s) & (rows.at_s <= self.traffic.span_s)
        held = (rows.ready + rows.starting + rows.draining)[inside]
        return float(held.mean()) * (self.traffic.span_s - self.traffic.counted_s) / 3600.0 if held.size else 0.0


def run_rule(rule: ScalingRule, pool: ScalingPool, traffic: ScalingTraffic, *, start_replicas: int) -> LoopRun:
    """Play a rule on a stretch of traffic, beginning with so many ready replicas."""
    limits = pool.limits
    seeds = np.random.SeedSequence((traffic.seed, 77)).spawn(2)
    supply = Supply(pool.starts, limits, np.random.default_rng(seeds[0]), outage_s=pool.outage_s)
    least, most = rule.bounds
    most = min(each for each in (most, limits.most_replicas, 20_000) if each > 0)
    sample_s = _sample_s(rule, pool.signals)
    reader = SignalReader(
        terms=replace(pool.signals, scrape_s=max(pool.signals.scrape_s, sample_s)) if sample_s > 2.0
        else replace(pool.signals, scrape_s=sample_s, delay_s=min(pool.signals.delay_s, sample_s)),
        replica=_replica_terms(pool),
        sample_s=sample_s,
        lost=_lost(pool.signals, np.random.default_rng(seeds[1])),
    )  # fmt: skip
    first = min(max(start_replicas, least, 0 if least == 0 else 1), most)
    controller = Controller(rule, reader, replicas=first, week_s=traffic.week_s)
    asked: list[int] = []
    last_change_s = -math.inf

    def decide(seen: Signals) -> Wanted:
        nonlocal last_change_s
        before = controller.replicas
        wanted = controller.decide(seen)
        limited = _limited(wanted, before, limits, seen.at_s - last_change_s)
        if limited != before:
            last_change_s = seen.at_s
        controller.replicas = limited
        asked.append(limited)
        supply_now = seen.ready_replicas + seen.starting_replicas
        used = supply_now + (int(seen.gauges[-1]["draining"]) if len(seen.gauges) else 0)
        more = max(0, min(limited, most) - supply_now)
        return Wanted(replicas=min(limited, most), starts_s=supply.starts(more, now_s=seen.at_s, used=used))

    scaler = Autoscaler(
        period_s=rule.period_s, ready_s=pool.starts.cold_p90_s, least_replicas=min(1, least), most_replicas=most,
        rule=decide,
    )  # fmt: skip
    outcome = pool.trial.play(
        _held(traffic.load, pool) if least == 0 else traffic.load,
        seed=traffic.seed,
        fleet=Fleet(replicas=most, ready_replicas=first, autoscaler=scaler),
        warmup_s=traffic.counted_s,
        until_s=traffic.span_s,
        sample_s=sample_s,
        gauges=True,
        keep_requests=True,
    )
    return LoopRun(
        rule=rule, traffic=traffic, outcome=outcome, asked=np.array(asked, np.int64), starts=tuple(supply.records)
    )


def _sample_s(rule: ScalingRule, terms: SignalTerms) -> float:
    """Knative's queue proxies report every second; whatever is scraped is sampled when it is scraped."""
    return 1.0 if rule.period_s < 5.0 else min(terms.scrape_s, rule.period_s)


def _limited(wanted: int, before: int, limits: CapacityLimits, since_s: float) -> int:
    """The platform's own bounds on a rule: a minimum, a maximum, a largest step, a rest between changes."""
    most = limits.most_replicas or wanted
    found = min(max(wanted, min(limits.least_replicas, before)), max(most, 1))
    if found != before and since_s < limits.cooldown_s:
        return before
    if limits.step_replicas:
        found = min(max(found, before - limits.step_replicas), before + limits.step_replicas)
    return found


def _held(load: OpenLoop, pool: ScalingPool) -> OpenLoop:
    """What arrives while no replica is there is held in front of the pool, and tried again until one is."""
    pause_s = max(1.0, 2.0 * pool.starts.cold_s[99] / _HELD_TRIES)
    retry = Retry(most_attempts=_HELD_TRIES, backoff_s=pause_s, growth_ratio=1.0, on_shed=False, on_timeout=False)
    return replace(load, retry=retry)


def _replica_terms(pool: ScalingPool) -> ReplicaTerms:
    engine = pool.trial.replica.engine
    return ReplicaTerms(
        kv_tokens=engine.kv_tokens,
        max_sequences=engine.max_sequences,
        ttft_limit_s=pool.ttft_limit_s,
        budget_tokens=engine.budget_tokens,
        each_rps=pool.each_rps,
    )


def _lost(terms: SignalTerms, rng: Generator) -> NDArray[np.bool_] | None:
    return None if terms.missing_fraction == 0.0 else rng.random(_LOST_DRAWS) < terms.missing_fraction


def needed_replicas(
    traffic: ScalingTraffic, each_rps: float, *, width_s: float = 60.0, smooth_s: float = 300.0
) -> tuple[Floats, Ints]:
    """When each minute begins, and the replicas that the traffic around it needs."""
    rates = traffic.rates_rps(width_s)
    wide = min(rates.size, max(1, round(smooth_s / width_s)))
    mean = np.convolve(rates, np.ones(wide), mode="same") / np.convolve(np.ones(rates.size), np.ones(wide), mode="same")
    needed = np.maximum(1, np.ceil(np.maximum(mean, 0.0) / each_rps - 1e-9)).astype(np.int64)
    return np.arange(rates.size, dtype=np.float64) * width_s, needed


def first_replicas(traffic: ScalingTraffic, each_rps: float, most: int) -> int:
    """What a fleet that had followed until now would have at the beginning."""
    _, needed = needed_replicas(traffic, each_rps)
    return int(min(max(1, needed[:5].max()), most))


def in_order(rules: Sequence[ScalingRule]) -> dict[str, ScalingRule]:
    """By name; the first of several of one name stays."""
    found: dict[str, ScalingRule] = {}
    for each in rules:
        found.setdefault(each.name, each)
    return found
