"""The quiet part of the week: when versions change and nodes are patched, and how much of the load is left then."""

from __future__ import annotations

import math

import numpy as np

from ullage.evidence import Assumption, Figure
from ullage.workload.demand.demand import Demand

_HOUR_S = 3600.0


def quiet_fraction(demand: Demand, span_s: float) -> float:
    """The busiest hour of the quietest stretch of the week that is this long, in parts of the week's busiest hour."""
    week = np.sum(
        [np.array(each.model.season) * each.planning_rps / max(each.model.season) for each in demand.classes], axis=0
    )
    hours = min(week.size, max(1, math.ceil(span_s / _HOUR_S - 1e-9)))
    # A stretch may run over the end of the week into its beginning.
    around = np.concatenate((week, week[: hours - 1]))
    highest = np.lib.stride_tricks.sliding_window_view(around, hours).max(axis=1)
    return float(highest.min() / week.max())


def quiet_demand(name: str, demand: Demand, span: Assumption, stated: Assumption | None) -> Figure:
    """The most that planned work of this length meets, as a share of the planning rate: as stated, or the quietest."""
    inputs = (demand.figures["demand.planning_rate"], span)
    if stated is not None:
        return Figure(
            name=name, value=float(stated.value), unit="fraction", formula="as stated", inputs=(*inputs, stated)
        )
    return Figure(
        name=name,
        value=quiet_fraction(demand, float(span.value)),
        unit="fraction",
        formula="busiest hour of the week's quietest period of this length / the week's busiest hour",
        inputs=inputs,
    )
