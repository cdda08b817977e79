"""Traffic to try rules on: days of the plan's week at the scale that is planned for, and rates of one's own.

A day is drawn from the demand's own model (season, bursts, lengths, sessions), with the busiest hour of the week at the
planning rate, so that a rule is tried on what the fixed fleet is sized for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ullage.scaling.loop import ScalingTraffic
from ullage.service.trial.mix import MixLoad, simulated_class
from ullage.service.trial.trial import Trial
from ullage.simulate.load import OpenLoop, Requests
from ullage.workload.demand.demand import Demand
from ullage.workload.synthetic.model import SyntheticModel, synthesised
from ullage.workload.synthetic.stream import Stream

DAY_S = 86_400.0
HOUR_S = 3600.0
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Requests that came before midnight are still in the pool: a quarter of an hour of them.
LEAD_S = 900.0

Floats = NDArray[np.float64]


def planned_week(demand: Demand) -> SyntheticModel:
    """The demand's model with every class's busiest hour at its planning rate, without growth inside the week."""
    hours = (np.arange(168, dtype=np.float64) + 0.5) * HOUR_S
    found = []
    for each in demand.classes:
        calm = replace(each.model, weekly_growth_fraction=0.0)
        busiest = float(calm.rate_at(hours).max())
        found.append(replace(calm, mean_rate_rps=calm.mean_rate_rps * each.planning_rps / busiest))
    return SyntheticModel(classes=tuple(found))


def times_traffic(model: SyntheticModel, ratio: float) -> SyntheticModel:
    """The same traffic at so many times its rate."""
    if ratio == 1.0:
        return model
    return SyntheticModel(
        classes=tuple(replace(each, mean_rate_rps=each.mean_rate_rps * ratio) for each in model.classes)
    )


def mean_week(demand: Demand) -> SyntheticModel:
    """The demand's model at its mean over the horizon: the week that a month is billed for."""
    return SyntheticModel(
        classes=tuple(
            replace(each.model, weekly_growth_fraction=0.0, mean_rate_rps=each.mean_rps, launches=())
            for each in demand.classes
        )
    )


def hourly_rates(model: SyntheticModel) -> Floats:
    """The expected rate of every hour of the week, all classes together."""
    hours = (np.arange(168, dtype=np.float64) + 0.5) * HOUR_S
    return np.asarray(np.sum([each.rate_at(hours) for each in model.classes], axis=0), np.float64)


def telling_days(rates: Floats) -> tuple[int, ...]:
    """The day with the busiest hour, and the quietest day: where a rule runs out, and where it saves."""
    by_day = rates.reshape(7, 24)
    busiest, quietest = int(np.argmax(by_day.max(axis=1))), int(np.argmin(by_day.sum(axis=1)))
    return (busiest,) if busiest == quietest else (busiest, quietest)


def planned_day(
    model: SyntheticModel, trial: Trial, day: int, *, seed: int, from_hour: int = 0, hours: int = 24, week: str = ""
) -> ScalingTraffic:
    """A day of the week, or some hours of it, drawn from a seed; a quarter of an hour before it fills the pool.

    `week` names it among other draws.
    """
    span_s = hours * HOUR_S
    rng = np.random.default_rng((seed, day, 21))
    # Time 0 of a model is a Monday, so that the lead of a Monday is a Sunday's evening.
    start_s = (day if day + from_hour else 7) * DAY_S + from_hour * HOUR_S - LEAD_S
    stream = synthesised(model, span_s=span_s + LEAD_S, start_s=start_s, rng=rng)
    return ScalingTraffic(
        name=f"{DAYS[day]}{f' of {week}' if week else ''}",
        load=load_of(stream, trial),
        span_s=span_s + LEAD_S,
        counted_s=LEAD_S,
        week_s=start_s,
        seed=seed,
    )


def rated(
    name: str, rates_rps: Sequence[float], width_s: float, model: SyntheticModel, trial: Trial, *, seed: int
) -> ScalingTraffic:
    """Requests of a model's shape and bursts that arrive at given rates, one for each stretch of `width_s`."""
    rng = np.random.default_rng((seed, 22))
    rates = np.asarray(rates_rps, np.float64)
    span_s = rates.size * width_s
    highest, total_rps = float(rates.max()), sum(each.mean_rate_rps for each in model.classes)
    level = SyntheticModel(
        classes=tuple(
            replace(
                each,
                mean_rate_rps=each.mean_rate_rps * highest / total_rps,
                season=(1.0,) * len(each.season),
                weekly_growth_fraction=0.0,
                launches=(),
            )
            for each in model.classes
        )
    )
    stream = synthesised(level, span_s=span_s, rng=rng)
    at = np.minimum(stream.arrival_ps / 1e12 // width_s, rates.size - 1).astype(np.int64)
    kept = rng.random(stream.requests) < rates[at] / highest
    return ScalingTraffic(name=name, load=load_of(stream.where(kept), trial), span_s=span_s, seed=seed)


def steep_hours(rates: Floats, day: int, hours: int = 8) -> int:
    """The hour of the day from which so many hours hold its steepest rise and as much of its busiest as fits."""
    own = rates.reshape(7, 24)[day]
    rise = int(np.argmax(np.diff(own)))
    return int(min(max(0, rise - 1), 24 - hours))


def falling_hours(rates: Floats, day: int, hours: int = 8) -> int:
    """The hour of the day from which so many hours hold its steepest fall, from before it begins."""
    own = rates.reshape(7, 24)[day]
    fall = int(np.argmin(np.diff(own)))
    return int(min(max(0, fall - 1), 24 - hours))


def search_stretches(model: SyntheticModel, trial: Trial, *, seed: int, hours: int) -> tuple[ScalingTraffic, ...]:
    """What a rule is chosen on: hours of three weeks, each of its own seed.

    The steepest rise of the day with the busiest hour, where a rule is late; that day's steepest fall, where it holds
    too much; and the rise of another day, the one with the busiest hour of the rest, so that no one morning decides.
    """
    rates = hourly_rates(model)
    busiest, other = _busiest_days(rates)
    return tuple(
        planned_day(model, trial, day, seed=seed + place, from_hour=first, hours=hours, week=f"week {place}")
        for place, (day, first) in enumerate(
            (
                (busiest, steep_hours(rates, busiest, hours)),
                (busiest, falling_hours(rates, busiest, hours)),
                (other, steep_hours(rates, other, hours)),
            ),
            start=1,
        )
    )


def searched_days(model: SyntheticModel, trial: Trial, *, seed: int) -> tuple[ScalingTraffic, ...]:
    """The whole days that those hours belong to."""
    busiest, other = _busiest_days(hourly_rates(model))
    return tuple(
        planned_day(model, trial, day, seed=seed + place, week=f"week {place}")
        for place, day in enumerate((busiest, busiest, other), start=1)
    )


def _busiest_days(rates: Floats) -> tuple[int, int]:
    """The day with the busiest hour, and the one with the busiest hour of the rest."""
    by_peak = np.argsort(-rates.reshape(7, 24).max(axis=1), kind="stable")
    return int(by_peak[0]), int(by_peak[1])


def load_of(stream: Stream, trial: Trial) -> OpenLoop:
    """The stream as the pool's own load: its classes, its cache, its clients' deadlines."""
    mix = trial.load_at
    assert isinstance(mix, MixLoad)
    served = stream.served_by_cache(mix.cache_blocks)
    own = {each.name: each for each in mix.classes}
    classes = []
    for name in served.class_names:
        made = simulated_class(own[name])
        deadline_s = trial.deadlines_s.get(name)
        if deadline_s is not None:
            made = replace(made, total_timeout_s=max(deadline_s - trial.replica.request_overhead_s, 1e-9))
        classes.append(made)
    return OpenLoop(
        requests=Requests(
            prompt_tokens=served.prompt_tokens,
            output_tokens=served.output_tokens,
            cached_tokens=np.minimum(served.cached_tokens, served.prompt_tokens - 1),
            classes=tuple(classes),
            class_of=served.class_index,
        ),
        arrival_ps=served.arrival_ps,
    )
