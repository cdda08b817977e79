"""What the products or tenants of a log make necessary of a pool: it is sized again for some of them at a time.

A party is a part of what classes ask for, at its own hours and of its own lengths. A fleet without it is that of the
plan's classes with its requests taken out of the log: in the busiest hour of those that remain each class asks for as
much less as the log shows, and its lengths and cached share are moved by as much as those of the log are. With nobody
taken out the traffic is the plan's own, whatever the log's age and size are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.cost.attribution.attribution import TokenWeights
from ullage.cost.attribution.causation import Causation, causation
from ullage.cost.attribution.usage import UsageLog, sorted_groups
from ullage.planning.billing.caused import PartLoad, part_replicas, planning_rates_rps
from ullage.planning.pool_plan import PoolPlan
from ullage.service.trial.mix import MixLoad
from ullage.workload.synthetic.model import FRACTIONS, ClassModel, LengthModel, ReuseModel, SyntheticModel

# Fewer say nothing of how much of a class a party is.
LEAST_REQUESTS = 100
# Of fewer requests of a class the lengths are those of the class, and an hour with fewer is not told from the others.
_LEAST_LENGTHS, _LEAST_IN_HOUR = 30, 100
_MOST_RANKED = 100_000
_HOUR_S, _DAY_HOURS, _WEEK_HOURS = 3600.0, 24, 168

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Why it cannot be told what the parties of a log make necessary."""

    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}. {self.fix}"


def caused_by_parties(
    pool: PoolPlan,
    log: UsageLog,
    by: str,
    *,
    known: Sequence[str] | None = None,
    seed: int,
    map: Any = map,  # noqa: A002
) -> Causation | Unknown:
    """The steady replicas of the pool by who made the requests of this log, which are the pool's own."""
    mix = pool.steady_fleet.size.bases.conservative.load_at
    if not isinstance(mix, MixLoad):
        return Unknown(reason="the traffic of the pool is no mix of classes", fix="State classes in the plan file.")
    traffic = party_traffic(log, by, known, mix)
    if isinstance(traffic, Unknown):
        return traffic
    rates_rps, work_s = planning_rates_rps(pool, mix), pool.steady_fleet.size.probe.work_s
    whole = traffic.tokens.sum()

    def needed(names: frozenset[str]) -> float:
        some = np.array([each in names for each in traffic.names])
        load = part_of(traffic, mix, some, rates_rps, work_s)
        return part_replicas(pool, load, share=float(traffic.tokens[some].sum() / whole), seed=seed, map=map)

    there = {name: float(traffic.tokens[place].sum()) for place, name in enumerate(traffic.names)}
    return causation({name: each for name, each in there.items() if each > 0.0}, needed, are_told_apart=True)


@dataclass(frozen=True, kw_only=True)
class PartyTraffic:
    """The log's requests, with the places of the party and of the class of each, and its hour of the week or the day.

    `seen_hours` is how often the log holds each of these hours.
    """

    log: UsageLog
    names: tuple[str, ...]
    party: Ints
    of_class: Ints
    hour: Ints
    seen_hours: Ints
    classes: int

    @cached_property
    def token_weight(self) -> Floats:
        weights, cached = TokenWeights(), np.minimum(self.log.cached_tokens, self.log.prompt_tokens)
        output = self.log.output_tokens * weights.output_ratio
        found: Floats = self.log.prompt_tokens - cached * (1.0 - weights.cached_ratio) + output
        return found

    @cached_property
    def requests(self) -> Floats:
        """By party, class and hour, of one such hour."""
        return self._counted(np.ones(self.log.requests))

    @cached_property
    def tokens(self) -> Floats:
        """Weighted tokens by party, class and hour: what decides which hour is the busiest."""
        return self._counted(self.token_weight)

    def _counted(self, weights: Floats) -> Floats:
        shape = (len(self.names), self.classes, self.seen_hours.size)
        place = np.ravel_multi_index((self.party, self.of_class, self.hour), shape)
        found = np.bincount(place, weights=weights, minlength=int(np.prod(shape))).reshape(shape)
        each_hour: Floats = found / np.maximum(self.seen_hours, 1)
        return each_hour

    def asked(self, some: Bools) -> Floats:
        """By class, the requests of these parties in their busiest hour and in the log, one row each.

        Where their hours hold too few to be told apart, the log is all there is.
        """
        requests = self.requests[some].sum(axis=0)
        found = np.stack([requests.sum(axis=1)] * 2)
        if requests.sum(axis=0).mean() >= _LEAST_IN_HOUR:
            found[0] = requests[:, int(self.tokens[some].sum(axis=(0, 1)).argmax())]
        return found


def party_traffic(log: UsageLog, by: str, known: Sequence[str] | None, mix: MixLoad) -> PartyTraffic | Unknown:
    of_class = _classes(log, mix.names)
    if of_class is None:
        return Unknown(
            reason="the log does not say which class a request is of",
            fix=f"Give it a class column with {', '.join(mix.names)}, or the plan's classes a match.",
        )
    log, of_class = log.where(of_class >= 0), of_class[of_class >= 0]
    if log.requests < LEAST_REQUESTS:
        return Unknown(
            reason=f"{log.requests} requests of the pool's classes are too few", fix=f"Give {LEAST_REQUESTS} or more."
        )
    names, party = sorted_groups(log, by, known)
    hour, seen_hours = _hours(log)
    return PartyTraffic(
        log=log, names=tuple(names), party=party, of_class=of_class, hour=hour, seen_hours=seen_hours,
        classes=len(mix.names),
    )  # fmt: skip


def _classes(log: UsageLog, names: Sequence[str]) -> Ints | None:
    """The place of each request's class among those of the pool, -1 where it has none of them."""
    if len(names) == 1:
        return np.zeros(log.requests, np.int64)
    labels = log.labels.get("class")
    if labels is None or not {*names} <= {*labels.names}:
        return None
    moved = np.array([*(names.index(each) if each in names else -1 for each in labels.names), -1], dtype=np.int64)
    found: Ints = moved[labels.places]
    return found


def _hours(log: UsageLog) -> tuple[Ints, Ints]:
    """Hours of the week in a log of one, hours of the day in a log of one; a shorter one is an hour as a whole."""
    if log.arrival_s is None:
        return np.zeros(log.requests, np.int64), np.ones(1, np.int64)
    since = ((log.arrival_s - log.arrival_s.min()) // _HOUR_S).astype(np.int64)
    span = int(since.max(initial=0)) + 1
    period = _WEEK_HOURS if span >= _WEEK_HOURS else _DAY_HOURS if span >= _DAY_HOURS else 1
    # An hour as a whole is seen once, however long it is.
    return since % period, np.bincount(np.arange(span if period > 1 else 1) % period, minlength=period)


def part_of(
    traffic: PartyTraffic, mix: MixLoad, some: Bools, rates_rps: Mapping[str, float], work_s: Mapping[str, float]
) -> PartLoad:
    """The plan's classes with the requests of these parties alone."""
    asked, all_asked = traffic.asked(some), traffic.asked(np.ones_like(some))
    # Few requests say of what part of the log they are, and of no hour.
    is_hourly = not np.array_equal(asked[0], asked[1])
    models: list[ClassModel] = []
    rate_rps = busy = 0.0
    for place, model in enumerate(mix.model.classes):
        # A class that nobody asks for in the busiest hour is divided as it is over all hours.
        row = 0 if is_hourly and all_asked[0, place] > 0 else 1
        ratio = float(asked[row, place] / max(all_asked[row, place], 1.0))
        if ratio <= 0.0:
            continue
        of_class = traffic.of_class == place
        is_own = of_class & some[traffic.party]
        models.append(replace(_moved(model, traffic.log, is_own, of_class), mean_rate_rps=model.mean_rate_rps * ratio))
        heavier = traffic.token_weight[is_own].mean() / max(traffic.token_weight[of_class].mean(), 1e-9)
        rate_rps += rates_rps[model.name] * ratio
        busy += rates_rps[model.name] * ratio * work_s.get(model.name, 0.0) * float(heavier)
    part = mix.part({each.name for each in models})
    return PartLoad(
        mix=replace(part, model=SyntheticModel(classes=tuple(models))), rate_rps=rate_rps, busy_fraction=busy
    )


def _moved(model: ClassModel, log: UsageLog, is_own: Bools, of_class: Bools) -> ClassModel:
    """The class with lengths and cached share moved as far as those of its own requests are from all of its log."""
    own = int(is_own.sum())
    if own < _LEAST_LENGTHS or own == int(of_class.sum()):
        return model
    some, every = log.where(is_own), log.where(of_class)
    lengths = LengthModel(
        prompt_tokens=_quantiles(model.lengths.prompt_tokens, some.prompt_tokens, every.prompt_tokens),
        output_tokens=_quantiles(model.lengths.output_tokens, some.output_tokens, every.output_tokens),
        rank_correlation_ratio=_rank_correlation(some.prompt_tokens, some.output_tokens),
    )
    cached = every.cached_tokens.sum() / max(every.prompt_tokens.sum(), 1.0)
    ratio = some.cached_tokens.sum() / max(some.prompt_tokens.sum(), 1.0) / cached if cached else 1.0
    reuse: ReuseModel = replace(
        model.reuse,
        **{
            each: tuple(min(1.0, one * float(ratio)) for one in getattr(model.reuse, each))
            for each in ("first_turn_fractions", "later_turn_fractions")
        },
    )
    return replace(model, lengths=lengths, reuse=reuse)


def _quantiles(planned: Sequence[float], some: Floats, every: Floats) -> tuple[float, ...]:
    """The plan's lengths times how far the own ones are from all, never longer than the plan's longest."""
    ratios = np.quantile(some, FRACTIONS) / np.maximum(np.quantile(every, FRACTIONS), 1.0)
    moved = np.minimum(np.array(planned) * ratios, planned[-1])
    return tuple(np.maximum.accumulate(moved).tolist())


def _rank_correlation(prompt: Floats, output: Floats) -> float:
    """Spearman's, by the first of very many."""
    ranks = [np.argsort(np.argsort(each[:_MOST_RANKED], kind="stable")) for each in (prompt, output)]
    spread = np.corrcoef(ranks[0], ranks[1])[0, 1]
    return float(np.clip(spread, -0.99, 0.99)) if np.isfinite(spread) else 0.0
