"""Simulated services whose demand is known to its last hour: a log to forecast from, and the months that followed.

A level wanders from day to day, another comes back to its mean, weeks have days and weekends, demand grows or shrinks,
and counts are noisier than chance. Nothing of it is drawn by the laws that a forecast or a budget assumes.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from support import bills
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.budget.budget import Budget, MonthFuture, budget_of
from ullage.cost.budget.month_bill import MonthFleet, month_lines
from ullage.cost.service_use import ServiceUse
from ullage.prices.purchase import HOURS_PER_MONTH
from ullage.uncertainty.buying import months_on
from ullage.uncertainty.forecast_months import month_rates
from ullage.uncertainty.study import PRICE_DEVIATION
from ullage.workload.forecast.demand_series import DemandSeries
from ullage.workload.forecast.forecast import forecast

MONTHS = 3
_STEPS = round(HOURS_PER_MONTH)
_REPLICAS = 40
_FUTURES = 128


@dataclass(frozen=True, kw_only=True, eq=False)
class DemandWorld:
    history: NDArray[np.float64]
    months_rps: NDArray[np.float64]
    list_ratios: NDArray[np.float64]


def demand_world(rng: Generator) -> DemandWorld:
    weeks = int(rng.choice([6, 10, 16]))
    hours = np.arange(weeks * 168 + MONTHS * _STEPS)
    season = 1.0 + 0.5 * rng.uniform(0.3, 1.0) * np.sin(2.0 * np.pi * (hours - 8) / 24.0)
    season = season * np.where((hours // 24) % 7 >= 5, rng.uniform(0.5, 1.0), 1.0)
    days = hours[-1] // 24 + 1
    walk = np.cumsum(rng.uniform(0.005, 0.02) * rng.standard_normal(days))
    own, noise = np.zeros(days), rng.uniform(0.02, 0.08) * rng.standard_normal(days)
    for day in range(1, days):
        own[day] = 0.6 * own[day - 1] + noise[day]
    level = np.exp(rng.uniform(-0.01, 0.02) * hours / 168.0 + (walk + own)[hours // 24])
    mean = rng.uniform(1.0, 20.0) * season * level * rng.gamma(400.0, 1.0 / 400.0, hours.size)
    rates = rng.poisson(mean * 3600.0) / 3600.0
    first = weeks * 168
    months = rates[first:].reshape(MONTHS, _STEPS).mean(axis=1)
    # On record a list has moved after half a year in a tenth of cases, downwards by a quarter or more.
    fell = rng.random(MONTHS) < 0.1 / 6.0
    ratios = np.asarray(np.cumprod(np.where(fell, 1.0 - rng.uniform(0.1, 0.44, MONTHS), 1.0)), np.float64)
    return DemandWorld(history=rates[:first], months_rps=months, list_ratios=ratios)


def world_bill() -> Bill:
    """A month of forty replicas, and what requests cost beside them."""
    use = ServiceUse(
        service="world",
        pools=(bills.pool(replicas=_REPLICAS, reserves={"failure": 4.0}),),
        classes=(bills.traffic(),),
        tools=(),
    )
    return monthly_bill(use, bills.quotes(), bills.policy())


def fleet(ratio: float) -> Mapping[str, MonthFleet]:
    return {"main": MonthFleet(steady_replicas=np.ceil(_REPLICAS * ratio), mean_replicas=None, stranded_devices=0.0)}


def world_budget(world: DemandWorld, bill: Bill, rng: Generator) -> Budget:
    """The budget from the log alone; its month of reference is the last one of the log."""
    series = DemandSeries(name="chat", unit="req/s", start_s=0.0, step_s=3600.0, values=world.history)
    found = forecast(series, horizon_s=MONTHS * HOURS_PER_MONTH * 3600.0, rng=rng)
    rates = month_rates(found, MONTHS, futures=_FUTURES, rng=rng)
    assert rates is not None
    ratios = rates / world.history[-_STEPS:].mean()
    listed = np.exp(float(PRICE_DEVIATION.value) * rng.standard_normal(_FUTURES))
    return budget_of(bill, [_month(ratios[:, at], at, listed) for at in range(MONTHS)], follows=False, inputs=())


def _month(ratios: NDArray[np.float64], at: int, listed: NDArray[np.float64]) -> MonthFuture:
    middle = float(np.median(ratios))
    return MonthFuture(
        month=months_on(datetime.date(2026, 11, 16), at + 1),
        ratios=tuple({"chat": float(each)} for each in ratios),
        fleets=tuple(fleet(float(each)) for each in ratios),
        list_ratios=listed,
        held={},
        expected_ratios={"chat": middle},
        expected_fleets=fleet(middle),
        expected_list_ratio=1.0,
    )


def real_usd(world: DemandWorld, bill: Bill) -> list[float]:
    """What each month came to, its fleet sized by the same rule."""
    found = []
    for rate, listed in zip(world.months_rps, world.list_ratios, strict=True):
        ratio = float(rate / world.history[-_STEPS:].mean())
        _, _, lines = month_lines(bill, {"chat": ratio}, fleet(ratio), list_ratio=float(listed))
        found.append(sum(each.usd for each in lines))
    return found
