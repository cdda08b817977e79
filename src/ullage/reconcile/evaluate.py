"""The plan evaluated again with other inputs, at the least cost that is honest.

A whole plan takes tens of CPU seconds and there are 2^8 groups of inputs to try. What is simulated here is the highest
load at which one replica of the planned configuration meets every SLO, on nominal step times and on the same windows
for every evaluation; its ratio to that of the plan's own inputs scales the plan's steady replicas:

    steady = planned steady x traffic x capacity(planned inputs) / capacity(these inputs)
    lost   = steady x (planned failures x (repair + ready) + further restarts x ready)
    rise   = steepest rise of demand x ready / capacity of a replica
    needed = steady + lost + rise + the plan's other reserves

A pool evens out more than one replica does, about as much with the one mix as with the other. Several pools are
evaluated one by one, each with its own classes: replicas and bills add up, and so do the causes of their errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ullage.reconcile.expectation import HOURS_PER_MONTH, Expectation, ExpectedPool
from ullage.reconcile.inputs import DriftInputs
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import SCOUT
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import highest_load
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import probe
from ullage.workload.synthetic.model import SyntheticModel
from ullage.workload.synthetic.whatif import WhatIf, and_then, cache_hits, outputs, prompts, traffic

_YEAR_S = 365.25 * 86_400.0
# Replicas beyond this tell nothing more about a mean.
_MOST_PLAYED = 8


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What an evaluation comes to: the replicas that are needed, and their cost where there are prices."""

    replicas: float
    usd_per_month: float | None
    usd_per_success: float | None

    def minus(self, other: Needed) -> Needed:
        return Needed(
            replicas=self.replicas - other.replicas,
            usd_per_month=_difference(self.usd_per_month, other.usd_per_month),
            usd_per_success=_difference(self.usd_per_success, other.usd_per_success),
        )

    def plus(self, other: Needed, weight: float = 1.0) -> Needed:
        return Needed(
            replicas=self.replicas + weight * other.replicas,
            usd_per_month=_sum(self.usd_per_month, other.usd_per_month, weight),
            usd_per_success=_sum(self.usd_per_success, other.usd_per_success, weight),
        )


@dataclass(frozen=True, kw_only=True)
class PoolBill:
    """What a pool needs, and what it serves for it: these add up over pools, and the price of a success does not."""

    replicas: float
    usd_per_month: float | None
    successes_per_month: float

    @property
    def needed(self) -> Needed:
        month = self.usd_per_month
        return Needed(
            replicas=self.replicas,
            usd_per_month=month,
            usd_per_success=None if month is None else month / self.successes_per_month,
        )


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _sum(one: float | None, other: float | None, weight: float) -> float | None:
    return None if one is None or other is None else one + weight * other


class Evaluation:
    """A pool of a plan that can be asked again; what was simulated once is known."""

    def __init__(self, expected: Expectation, pool: ExpectedPool, bases: Bases, *, seed: int, map: Any = map) -> None:  # noqa: A002
        self._expected, self._pool, self._bases, self._seed, self._map = expected, pool, bases, seed, map
        self._capacities: dict[tuple[object, ...], float] = {}
        self._own_rps = 0.0

    def needed(self, inputs: DriftInputs) -> Needed:
        return self.bill(inputs).needed

    def bill(self, inputs: DriftInputs) -> PoolBill:
        pool, expected = self._pool, self._expected
        own = pool_inputs(inputs, expected, pool.name)
        steady, lost, rise = self._parts(own)
        replicas = steady + lost + rise + pool.replicas - sum(self._parts(DriftInputs()))
        classes = [each for each in expected.classes if each.pool == pool.name] or list(expected.classes)
        total_rps = sum(each.mean_rps for each in classes)
        planned = sum(each.mean_rps * each.failed_fraction for each in classes) / total_rps
        # Where all of them fail a success has no price; one in a thousand is left.
        failed = min(0.999, planned if inputs.failed_fraction is None else inputs.failed_fraction)
        price = expected.pool_usd_per_hour(pool)
        return PoolBill(
            replicas=replicas,
            usd_per_month=None if price is None else replicas * price * inputs.price_ratio * HOURS_PER_MONTH,
            successes_per_month=total_rps * own.traffic_ratio * (1.0 - failed) * HOURS_PER_MONTH * 3600.0,
        )

    def _parts(self, inputs: DriftInputs) -> tuple[float, float, float]:
        pool = self._pool
        slower = self.capacity_rps(DriftInputs()) / self.capacity_rps(inputs)
        steady = pool.steady_replicas * inputs.traffic_ratio * slower
        ready_s = pool.ready_s * inputs.ready_ratio
        gone = pool.failures_per_year * (pool.repair_s + ready_s) + inputs.more_failures_per_year * ready_s
        each_rps = pool.capacity_rps / pool.steady_replicas / slower
        rise = pool.rise_rps_per_s * inputs.traffic_ratio * pool.ready_high_s * inputs.ready_ratio / each_rps
        return steady, steady * gone / _YEAR_S, rise

    def capacity_rps(self, inputs: DriftInputs) -> float:
        """What one replica carries, by simulation; a replica that carries nothing is taken to carry a grid step."""
        key = (
            tuple(sorted(inputs.class_ratios.items())),
            inputs.prompt_ratio,
            inputs.output_ratio,
            inputs.cached_ratio,
            inputs.step_ratio,
        )
        if key not in self._capacities:
            trial = self.trial(inputs)
            scale = probe(trial.replica, trial.load_at, seed=self._seed)
            found = highest_load(
                trial,
                scale,
                seed=self._seed,
                effort=SCOUT,
                with_interval=False,
                near_rps=self._own_rps or None,
                map=self._map,
            )
            self._capacities[key] = max(found.rps, found.step_rps)
            self._own_rps = self._own_rps or self._capacities[key]
        return self._capacities[key]

    def trial(self, inputs: DriftInputs) -> Trial:
        """One replica on nominal steps under the mix with these inputs."""
        own = replace(self._bases.nominal, replicas=1)
        mix = own.load_at
        if isinstance(mix, MixLoad):
            own = replace(own, load_at=replace(mix, model=changed_model(mix.model, inputs)))
        return own.with_steps(inputs.step_ratio)

    def played(self, inputs: DriftInputs, *, rate_rps: float, replicas: int) -> PlayedMeans:
        """The planned replicas at an observed load: what their counters would show."""
        inputs = pool_inputs(inputs, self._expected, self._pool.name)
        count = max(1, min(_MOST_PLAYED, replicas))
        trial = replace(self.trial(inputs), replicas=count)
        load = trial.load(rate_rps * count / replicas, self._seed)
        found = trial.play(load, seed=self._seed)
        total = found.total
        gaps = [each for each in found.itl.values() if each.total_count]
        tokens = sum(each.total_count for each in gaps)
        return PlayedMeans(
            prompt_tokens=total.prompt_tokens / max(total.counts.requests, 1),
            output_tokens=total.output_tokens / max(total.counts.requests, 1),
            cached_fraction=total.cached_tokens / max(total.prompt_tokens, 1),
            itl_s=sum(each.mean_s * each.total_count for each in gaps) / tokens if tokens else float("nan"),
            tpot_s=total.tpot.mean_s,
            ttft_s=total.ttft.mean_s,
            preemptions_per_request=total.preemptions / max(total.counts.requests, 1),
        )

    def share_of(self, inputs: DriftInputs) -> tuple[float, float]:
        """The pool's share of all requests with these inputs, and of all replicas as planned."""
        expected, pool = self._expected, self._pool

        def rate_rps(name: str) -> float:
            own = [each.mean_rps for each in expected.classes if each.pool == name]
            return sum(own) * pool_inputs(inputs, expected, name).traffic_ratio

        rates = {each.name: rate_rps(each.name) for each in expected.pools}
        return rates[pool.name] / sum(rates.values()), pool.replicas / sum(each.replicas for each in expected.pools)


class ServiceEvaluation:
    """All pools of a plan, evaluated together: what they need adds up, and what they show is the mean of requests."""

    def __init__(self, pools: Sequence[Evaluation]) -> None:
        self.pools = tuple(pools)

    def needed(self, inputs: DriftInputs) -> Needed:
        bills = [each.bill(inputs) for each in self.pools]
        months = [each.usd_per_month for each in bills]
        known = [each for each in months if each is not None]
        whole = PoolBill(
            replicas=sum(each.replicas for each in bills),
            usd_per_month=sum(known) if len(known) == len(months) else None,
            successes_per_month=sum(each.successes_per_month for each in bills),
        )
        return whole.needed

    def played(self, inputs: DriftInputs, *, rate_rps: float, replicas: int) -> PlayedMeans:
        """Every pool at its share of the load; engines are asked together, so that one sees their means alone."""
        parts = []
        for each in self.pools:
            traffic, fleet = each.share_of(inputs)
            own = each.played(inputs, rate_rps=rate_rps * traffic, replicas=max(1, round(replicas * fleet)))
            parts.append((traffic, own))
        return _mean_played(parts)


def _mean_played(parts: Sequence[tuple[float, PlayedMeans]]) -> PlayedMeans:
    """Means over requests, and over tokens where a token is what is counted."""
    shares = [share for share, _ in parts]
    prompts = [share * each.prompt_tokens for share, each in parts]
    tokens = [share * max(each.output_tokens - 1.0, 0.0) for share, each in parts]

    def mean(name: str, weights: Sequence[float]) -> float:
        whole = sum(weights)
        pairs = zip(weights, parts, strict=True)
        return sum(weight * getattr(each, name) for weight, (_, each) in pairs) / whole if whole else float("nan")

    return PlayedMeans(
        prompt_tokens=mean("prompt_tokens", shares),
        output_tokens=mean("output_tokens", shares),
        cached_fraction=mean("cached_fraction", prompts),
        itl_s=mean("itl_s", tokens),
        tpot_s=mean("tpot_s", shares),
        ttft_s=mean("ttft_s", shares),
        preemptions_per_request=mean("preemptions_per_request", shares),
    )


def pool_inputs(inputs: DriftInputs, expected: Expectation, pool: str) -> DriftInputs:
    """The inputs of a service as one of its pools meets them: classes that grew elsewhere are not its own.

    What the shares of its classes do to the pool's whole traffic is traffic to it; the rest is its own mix.
    """
    own = [each for each in expected.classes if each.pool == pool]
    if not inputs.class_ratios or not own:
        return inputs
    ratios = {each.name: inputs.class_ratios.get(each.name, 1.0) for each in own}
    planned = sum(each.mean_rps for each in own)
    grown = sum(each.mean_rps * ratios[each.name] for each in own) / planned
    mix = {name: ratio / grown for name, ratio in ratios.items()} if len(own) > 1 else {}
    return replace(inputs, traffic_ratio=inputs.traffic_ratio * grown, class_ratios=mix)


@dataclass(frozen=True, kw_only=True)
class PlayedMeans:
    """Means of a simulated load, as the counters of an engine would give them."""

    prompt_tokens: float
    output_tokens: float
    cached_fraction: float
    itl_s: float
    tpot_s: float
    ttft_s: float
    preemptions_per_request: float


def changed_model(model: SyntheticModel, inputs: DriftInputs) -> SyntheticModel:
    """The mix with these inputs. The shares of classes change; their sum stays, since a load is asked for by rate."""
    changes: list[WhatIf] = []
    if inputs.class_ratios:
        changes += [traffic(ratio, of=name) for name, ratio in inputs.class_ratios.items()]
    if inputs.prompt_ratio != 1.0:
        changes.append(prompts(inputs.prompt_ratio))
    if inputs.output_ratio != 1.0:
        changes.append(outputs(inputs.output_ratio))
    if inputs.cached_ratio != 1.0:
        changes.append(cache_hits(inputs.cached_ratio))
    return and_then(model, *changes)
