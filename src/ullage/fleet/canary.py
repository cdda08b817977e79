"""How long a canary must run before it can be judged.

A share s of the requests goes to the new version. Its mean time per output token is compared with that of the rest; a
version slower by d is seen with power p, at a false alarm of a, once the canary has answered

    n  =  (z(1 - a) + z(p))^2 x (variation / d)^2 x (1 + s / (1 - s))

requests, the variation being deviation over mean of that time between requests. Requests are counted as independent:
what one replica does to all of its requests at once makes a real comparison take longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np

from ullage.evidence import Assumption, Figure, number
from ullage.fleet.choices import choice
from ullage.simulate.histogram import LogHistogram, bin_middles_s

SLOWDOWN = choice("rollout.canary_slowdown", 0.05, "fraction", "a slower version than this costs a machine in twenty")
POWER = choice("rollout.canary_power", 0.9, "fraction", "one slow version in ten may go undetected")
FALSE_ALARM = choice("rollout.canary_false_alarm", 0.05, "fraction", "one good version in twenty may be held back")
_RULE = (SLOWDOWN, POWER, FALSE_ALARM)


def variation(histograms: Iterable[LogHistogram]) -> float:
    """Deviation over mean of durations; 0 where there are none."""
    counts = LogHistogram.merged(histograms).counts.astype(np.float64)
    total = counts.sum()
    if not total:
        return 0.0
    middles = bin_middles_s(counts.size)
    mean = float((counts * middles).sum() / total)
    return math.sqrt(max(0.0, float((counts * middles**2).sum() / total) - mean**2)) / mean


def canary_figures(
    share: Assumption, rate: Figure, met: Figure, variation_ratio: float, *, inputs: tuple[Figure | Assumption, ...]
) -> dict[str, Figure]:
    """The traffic that a canary serves and how long it must run; `met` is the share of the rate that its hours have."""
    served = Figure(
        name="reserve.canary_rps",
        value=number(share) * number(met) * number(rate),
        unit="req/s",
        formula="share of the canary x demand in the hours of a rollout",
        inputs=(share, met, rate),
    )
    normal = NormalDist()
    scores = normal.inv_cdf(1.0 - number(FALSE_ALARM)) + normal.inv_cdf(number(POWER))
    beside = 1.0 + number(share) / (1.0 - number(share)) if number(share) < 1.0 else 1.0
    needed = Figure(
        name="reserve.canary_requests",
        value=max(1, math.ceil((scores * variation_ratio / number(SLOWDOWN)) ** 2 * beside)),
        unit="requests",
        formula=f"(z(1 - false alarm) + z(power))^2 x ({variation_ratio:.3g}, the variation of the time per output "
        "token in simulation, / slowdown)^2 x (1 + share / rest); requests are counted as independent",
        inputs=(share, *_RULE, *inputs),
    )
    lasts = Figure(
        name="reserve.canary_duration_s",
        value=number(needed) / number(served),
        unit="s",
        formula="requests / what the canary serves: until a version with the stated slowdown is detected",
        inputs=(needed, served),
    )
    return {each.name: each for each in (served, needed, lasts)}
