"""A pool's month, simulated in pieces: what every class used and what failed, at each level of the week's load.

The fleet is sized for its busiest hour and paid for in all of them. Most hours are calmer, so the hours of the week are
sorted into levels of equal length, each level is simulated at its own rates on the planned replicas, and the month is
their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from ullage.cost.attribution.usage import GroupUse, grouped_run, merged_groups
from ullage.cost.service_use import SECONDS_PER_HOUR, ClassUse, Named
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import tested_pool
from ullage.service.trial.trial import Trial
from ullage.simulate.load import Requests
from ullage.simulate.outcome import Outcome
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand

# Four levels: the busiest six hours of a day, the calmest six, and two between.
LEVELS = 4
# A level is run for so many requests; a share of one in a hundred is then known to a tenth of itself.
_LEVEL_REQUESTS = 10_000
_LONGEST_S, _SHORTEST_S = 7200.0, 120.0


@dataclass(frozen=True, kw_only=True)
class LevelOutcome:
    """One level: its share of the hours, and the run at its rates; of very many replicas a part was run."""

    hours_fraction: float
    pool_fraction: float = 1.0
    span_s: float
    requests: Requests
    outcome: Outcome


def level_runs(demand: Demand, trial: Trial, *, seed: int, map: Any = map) -> tuple[LevelOutcome, ...]:  # noqa: A002
    """The planned replicas, as the trial has them, or a part of very many, at every level of the week."""
    rates = level_rates_rps(demand)
    return tuple(map(lambda level: _run(demand, trial, rates[:, level], seed=seed + level), range(rates.shape[1])))


def hourly_rates_rps(demand: Demand) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Each class's mean rate in each hour of the week: rows are classes, columns hours."""
    seasons = np.array([np.asarray(each.model.season) / np.mean(each.model.season) for each in demand.classes])
    hourly: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = seasons * np.array(
        [[each.mean_rps] for each in demand.classes]
    )
    return hourly


def hourly_replicas(demand: Demand, steady_replicas: float) -> tuple[float, ...]:
    """What each hour of the week needs of a fleet that is sized for the planning rate."""
    rates = hourly_rates_rps(demand).sum(axis=0)
    return tuple((steady_replicas * np.minimum(1.0, rates / demand.planning_rps)).tolist())


def level_rates_rps(demand: Demand) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Each class's mean rate in each level, calmest first: rows are classes, columns levels of as many hours."""
    hourly = hourly_rates_rps(demand)
    order = np.argsort(hourly.sum(axis=0), kind="stable")
    return np.stack([hourly[:, part].mean(axis=1) for part in np.array_split(order, LEVELS)], axis=1)


def _run(
    demand: Demand, trial: Trial, rates_rps: np.ndarray[tuple[int, ...], np.dtype[np.float64]], *, seed: int
) -> LevelOutcome:
    total = max(float(rates_rps.sum()), 1e-9)
    trial, rate_rps = tested_pool(trial, total, trial.replicas)
    span_s = float(np.clip(_LEVEL_REQUESTS / rate_rps, _SHORTEST_S, _LONGEST_S))
    model = replace(
        demand.model,
        classes=tuple(
            replace(each.model, mean_rate_rps=max(float(rate), 1e-9))
            for each, rate in zip(demand.classes, rates_rps, strict=True)
        ),
    )
    mix = trial.load_at
    level = replace(trial, load_at=replace(mix, model=model) if isinstance(mix, MixLoad) else mix)
    load = level.load(rate_rps, seed, span_s=span_s)
    outcome = level.play(load, seed=seed, warmup_s=0.0, keep_requests=True, attribution=True, is_shared=True)
    return LevelOutcome(
        hours_fraction=1.0 / LEVELS,
        pool_fraction=rate_rps / total,
        span_s=span_s,
        requests=load.requests,
        outcome=outcome,
    )


def month_groups(
    runs: Sequence[LevelOutcome], by: str, *, period_hours: float, model: str = "", rng: Generator | None = None
) -> tuple[GroupUse, ...]:
    """The groups of a dimension over the period: every level's, times the hours it stands for."""
    return merged_groups(
        [
            _scaled(each, run.hours_fraction * period_hours * SECONDS_PER_HOUR / (run.span_s * run.pool_fraction))
            for each in grouped_run(run.requests, run.outcome, by, model=model, rng=rng)
        ]
        for run in runs
    )


def _scaled(group: GroupUse, ratio: float) -> GroupUse:
    def times(value: float | None) -> float | None:
        return None if value is None else value * ratio

    return replace(
        group,
        requests=group.requests * ratio,
        successes=group.successes * ratio,
        prompt_tokens=group.prompt_tokens * ratio,
        output_tokens=group.output_tokens * ratio,
        cached_tokens=group.cached_tokens * ratio,
        gpu_s=times(group.gpu_s),
        failed_gpu_s=times(group.failed_gpu_s),
        kv_token_s=times(group.kv_token_s),
        moment_s=times(group.moment_s),
    )


def _without_failures(group: GroupUse, success_fraction: float) -> GroupUse:
    """Of what was served in time, the rest failed or was given up: its work is lost like that of any failure."""
    failed_s = None
    if group.failed_gpu_s is not None and group.gpu_s is not None:
        failed_s = group.gpu_s - (group.gpu_s - group.failed_gpu_s) * success_fraction
    return replace(group, successes=group.successes * success_fraction, failed_gpu_s=failed_s)


def class_uses(
    groups: Sequence[GroupUse],
    demand: Demand,
    classes: Sequence[RequestClass],
    *,
    pool: str,
    period_hours: float,
    criteria: Mapping[str, str] | None = None,
    basis: Sequence[Named] = (),
) -> tuple[ClassUse, ...]:
    """The classes of a pool in the period. The number of requests is the demand's mean; the run says the rest.

    `criteria` are the owner's words for what a success is; the limits of the class are part of it in any case.
    """
    slo_class = {each.name: each for each in classes}
    simulated = {each.name: each for each in groups}
    found = []
    for each in demand.classes:
        requests = each.mean_rps * period_hours * SECONDS_PER_HOUR
        run = simulated.get(each.name)
        ratio = requests / run.requests if run is not None and run.requests else 0.0
        used = _without_failures(_scaled(run, ratio), each.outcomes.success_fraction) if run is not None else None
        found.append(
            ClassUse(
                name=each.name,
                pool=pool,
                requests=requests,
                successes=used.successes if used else 0.0,
                prompt_tokens=used.prompt_tokens if used else 0.0,
                output_tokens=used.output_tokens if used else 0.0,
                cached_tokens=used.cached_tokens if used else 0.0,
                gpu_s=used.gpu_s if used else 0.0,
                failed_gpu_s=used.failed_gpu_s if used else 0.0,
                caused_devices=run.caused_devices if run is not None else None,
                criterion=_criterion(slo_class[each.name], (criteria or {}).get(each.name, "")),
                basis=(each.figures[f"demand.{each.name}.mean_rate"], *basis),
            )
        )
    return tuple(found)


def _criterion(slo_class: RequestClass, words: str) -> str:
    limits = ", ".join(str(slo) for slo in slo_class.slos)
    within = f"answered within the limits of {slo_class.name}: {limits}" if limits else f"{slo_class.name} answered"
    return f"{words}, {within}" if words else within
