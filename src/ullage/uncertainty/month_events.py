"""Planned events in the months of a budget, beside the event that the plan's own fleet was sized for."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.evidence import number
from ullage.planning.document import Plan
from ullage.planning.pool_plan import PoolPlan
from ullage.workload.demand.events import Lift, lift_between
from ullage.workload.demand.stated import BusiestWeek, StatedShape


@dataclass(frozen=True, kw_only=True)
class MonthEvents:
    """What events do to each month, and what they did to the busiest hour that the plan was sized for.

    `own_ratios` are what they did to the mean rate of classes whose forecast has them in it.
    """

    lifts: tuple[Lift, ...]
    planned_ratio: float
    own_ratios: Mapping[str, float]

    @property
    def heights(self) -> NDArray[np.float64]:
        """The busiest of each month over the plan's own, growth apart."""
        return np.array([each.highest_ratio for each in self.lifts]) / self.planned_ratio


def month_events(
    plan: Plan, pool: PoolPlan, months: tuple[datetime.date, ...], measured: Collection[str]
) -> MonthEvents:
    """The lifts of these months, the last of which is where the budget ends. Classes in `measured` have a forecast."""
    events = plan.spec.events
    lifts = tuple(lift_between(events, first, until) for first, until in itertools.pairwise(months))
    end = plan.as_of + datetime.timedelta(seconds=number(plan.spec.policy.horizon))
    own = lift_between(events, plan.as_of, end)
    ratios = [
        max(1.0, own.highest_ratio)
        if each.name in measured
        else _stated(plan, each.name, each.model.weekly_growth_fraction)
        for each in pool.demand.classes
    ]
    return MonthEvents(
        lifts=lifts,
        planned_ratio=min(ratios, default=1.0),
        own_ratios=dict.fromkeys(measured, own.mean_ratio),
    )


def _stated(plan: Plan, name: str, weekly_growth: float) -> float:
    """How far an event raised the busiest week of a class above what growth alone makes of it."""
    shape = next((each.shape for each in plan.spec.demands if each.request_class.name == name), None)
    if shape is None or not shape.events:
        return 1.0
    horizon_s = number(plan.spec.policy.horizon)

    def busiest(given: StatedShape) -> BusiestWeek:
        return given.busiest(weekly_growth, horizon_s)

    return busiest(shape).ratio / busiest(StatedShape()).ratio
