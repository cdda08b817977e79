"""Traffic that was stated or seen a while ago: what it has grown by since, and how far its level has wandered.

A stated growth begins on the day of the rate: a rate of eight weeks ago that grows 2 % a week is 17 % higher today. A
level wanders as a random walk does, so that its deviation grows with the root of time, and adds to what the rate may
be off by anyway in squares, as independent errors do.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from statistics import NormalDist

from ullage.evidence import Assumption, Evidence, Source, number

_WEEK = datetime.timedelta(weeks=1)
_LARGEST_POWER = 700.0  # of e, in a float
_MONTH = datetime.timedelta(days=365.25 / 12.0)

WANDER = Assumption(
    name="months.wander",
    value=0.05,
    unit="ratio",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="default of Ullage: the level of demand wanders by this deviation of its logarithm a month, in addition "
        "to the forecast error over the plan's "
        "horizon",
        where="docs/howto/buy-nodes.md",
        date=datetime.date(2026, 11, 16),
    ),
    low=0.02,
    high=0.15,
)


def grown_ratio(weekly_growth: float, since: datetime.timedelta) -> float:
    """What a rate has become of itself since it was stated or seen; nothing grows backwards from a later day.

    >>> round(grown_ratio(0.02, datetime.timedelta(weeks=8)), 4)
    1.1717
    """
    power = max(since / _WEEK, 0.0) * math.log1p(weekly_growth)
    return math.exp(min(power, _LARGEST_POWER))


def grown_rate(said: Assumption, growth: Assumption | None, as_of: datetime.date) -> Assumption:
    """A rate on the day of planning, where its growth is stated; its source and age stay those of the older rate."""
    since = said.age(as_of)
    if growth is None or since <= datetime.timedelta() or not number(growth):
        return said
    what = (
        f"{said.source.what}; {number(said):.4g} {said.unit} on {said.source.date.isoformat()}, grown "
        f"{100 * number(growth):.3g} % a week since"
    )
    value = number(said) * grown_ratio(number(growth), since)
    return replace(said, value=value, low=None, high=None, source=replace(said.source, what=what))


def rate_drift(name: str, past: datetime.timedelta) -> Assumption | None:
    """What a class's rate may have drifted by since it was past its age; None where it is not.

    >>> found = rate_drift("chat", datetime.timedelta(days=365.25 / 3.0))
    >>> None if found is None else round(number(found), 3)
    0.1
    """
    if past <= datetime.timedelta():
        return None
    root = math.sqrt(past / _MONTH)
    assert WANDER.low is not None
    assert WANDER.high is not None
    return replace(
        WANDER,
        name=f"{name}.rate_drift",
        value=number(WANDER) * root,
        low=WANDER.low * root,
        high=WANDER.high * root,
        source=replace(
            WANDER.source, what=f"{WANDER.source.what}; for {past.days} days past its maximum age, with their root"
        ),
        max_age=None,
    )


def drifted_rps(
    middle_rps: float,
    planning_rps: float,
    percentile_fraction: float,
    drift: Assumption | None,
    band: Assumption | None = None,
) -> float:
    """A percentile of a rate with what it has drifted by in it, its middle as it was.

    `band` is how wide the bands of earlier forecasts would have had to be, over what they were.

    >>> from ullage.evidence import Source
    >>> drift = rate_drift("chat", datetime.timedelta(days=365.25 / 3.0))
    >>> own = math.exp(NormalDist().inv_cdf(0.95) * 0.2)
    >>> round(math.log(drifted_rps(1.0, own, 0.95, drift)) / NormalDist().inv_cdf(0.95), 4)
    0.2236
    """
    if drift is None and band is None:
        return planning_rps
    own = math.log(planning_rps / middle_rps) * (1.0 if band is None else number(band))
    if drift is None:
        return middle_rps * math.exp(own)
    score = NormalDist().inv_cdf(percentile_fraction)
    return middle_rps * math.exp(math.copysign(math.hypot(own, score * number(drift)), score))
