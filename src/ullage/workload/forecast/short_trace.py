"""A trace that is too short to forecast from: what it still shows, and how far its rate may be from the week's.

Twenty minutes of log know the lengths, the bursts and the rate of twenty minutes. They know neither season nor growth,
nor which hour of the week they are: that is added to the rate's own uncertainty instead of being guessed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity

# How far the mean that a user states may be off, as the deviation of its logarithm: a fifth up or down in one case of
# three. With a trace long enough the forecast's own past errors take its place.
RATE_DEVIATION = 0.2


def short_deviation(season: NDArray[np.float64], logged_s: float) -> float:
    """How far the rate of a log this long lies from the week's mean, as the deviation of its logarithm.

    The mean over `logged_s` may start at any hour of the week: the spread of those means over the season is added in
    squares to what a stated mean may be off by.

    >>> short_deviation(np.ones(168), 1200.0)
    0.2
    """
    hours = min(season.size, max(1, round(logged_s / 3600.0))) if math.isfinite(logged_s) else season.size
    around = np.concatenate([[0.0], np.cumsum(np.concatenate([season, season]))])
    means = (around[hours : hours + season.size] - around[: season.size]) / hours
    return math.hypot(RATE_DEVIATION, float(np.log(np.maximum(means, 1e-9)).std()))


def too_short(name: str, logged_s: float) -> Anomaly:
    """The warning for a class whose demand rests on a short log."""
    length = f"{logged_s / 60.0:.0f} minutes" if logged_s < 7200.0 else f"{logged_s / 3600.0:.1f} hours"
    return Anomaly(
        kind=AnomalyKind.COLD_START,
        weight=Severity.SERIOUS,
        sentence=(
            f"The log of {name} is {length} long, too short to forecast from: rate, lengths and bursts are its own, "
            "season and growth are assumed from the built-in profile, and its rate may be that of any hour of the week."
        ),
        touches=("forecast",),
    )
