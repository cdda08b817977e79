"""The volume of months to come, where demand was measured: the forecast's middle, and how levels have wandered so far.

A forecast of hours is tested on its own past, which is too short to test months on. What months may be off by is read
off the weeks of the history: how fast their level grew, with its error, and how far it wanders from week
to week once the noise that the next week takes back is left out. Few weeks say little of that, so they are joined with
what is assumed of any service (`WANDER`), which counts as eight of them.

    log rate[month] = log middle[month] + level + growth error x weeks ahead + wander x sqrt(weeks ahead)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.evidence import number
from ullage.prices.purchase import HOURS_PER_MONTH
from ullage.workload.demand.ageing import WANDER
from ullage.workload.demand.events import DatedEvent
from ullage.workload.forecast.demand_series import event_factors
from ullage.workload.forecast.forecast import Forecast
from ullage.workload.synthetic.model import WEEK_S

Floats = NDArray[np.float64]

_MONTH_S = HOURS_PER_MONTH * 3600.0
_MONTH_WEEKS = _MONTH_S / WEEK_S
# What is assumed of any service counts as so many weeks of history.
_ASSUMED_WEEKS = 8.0
# A forecaster's level is the mean of some weeks: on average it is as old as half of them.
_LAG_WEEKS = 1.5


def month_rates(
    forecast: Forecast, months: int, *, futures: int, rng: Generator, events: Sequence[DatedEvent] = ()
) -> Floats | None:
    """The mean rate of each month (a column) in each future (a row); None where the forecast ends before the last.

    The events that the forecast was made with are taken out again: a month of a budget begins with the calendar's.
    """
    steps = round(_MONTH_S / forecast.history.step_s)
    if forecast.steps < months * steps:
        return None
    middle = ordinary(forecast, events)[: months * steps].reshape(months, steps).mean(axis=1)
    weekly = _weekly_logs(forecast)
    changes = np.diff(weekly)
    wander = math.sqrt(_weekly_variance(changes))
    known = max(1, changes.size)
    ahead = _LAG_WEEKS + (np.arange(months) + 0.5) * _MONTH_WEEKS
    freedom = known + _ASSUMED_WEEKS
    growth = wander / math.sqrt(freedom)
    scale = np.sqrt(freedom / rng.chisquare(freedom, (futures, 1)))
    walk = np.cumsum(rng.standard_normal((futures, months)) * np.sqrt(np.diff(ahead, prepend=0.0)), axis=1)
    slopes = rng.standard_normal((futures, 1)) * ahead
    return np.asarray(middle * np.exp(scale * (wander * walk + growth * slopes)))


def ordinary(forecast: Forecast, events: Sequence[DatedEvent]) -> Floats:
    """The forecast's median by step without these events."""
    at_s = forecast.start_s + forecast.history.step_s * np.arange(forecast.steps, dtype=np.float64)
    return np.asarray(forecast.at(0.5) / event_factors([each.on_record for each in events], {}, at_s))


def _weekly_logs(forecast: Forecast) -> Floats:
    """The logarithm of each whole week's mean rate, oldest first; weeks with nothing in them are left out."""
    history = forecast.history
    size = max(1, round(WEEK_S / history.step_s))
    count = history.values.size // size
    if count == 0:
        return np.zeros(0)
    weeks = np.nanmean(history.values[history.values.size - count * size :].reshape(count, size), axis=1)
    return np.asarray(np.log(weeks[weeks > 0.0]))


def _weekly_variance(changes: Floats) -> float:
    """Of a level's steps from week to week, its own and the assumed ones together.

    The variance of changes holds noise twice, once with each sign: adding both neighbours' covariance takes it out.
    """
    assumed = number(WANDER) ** 2 / _MONTH_WEEKS
    if changes.size < 2:
        return assumed
    off = changes - changes.mean()
    # Changes that go with their neighbours make their own mean move along: two of them are spent on it.
    left = max(1, changes.size - 2)
    own = (float(np.square(off).sum()) + 2.0 * float((off[1:] * off[:-1]).sum())) / left
    lasting = max(own, 0.25 * float(np.square(off).mean()))
    return (changes.size * lasting + _ASSUMED_WEEKS * assumed) / (changes.size + _ASSUMED_WEEKS)
