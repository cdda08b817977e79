"""How far a fit to load tests may be off: its factors' joint spread, what the tests did not fit, and the way from them.

The spread of a predicted latency is made of three parts, as spreads of its logarithm:

    factors   the joint spread of the factors, as far as this latency depends on each: narrow after many points
    fit       how far the tested points lay from the fit, at least what repeats of one run differ by
    distance  for every doubling beyond what was tested, in sequences, KV tokens or prompt length

8 of 10 measurements lie within Student's quantile of that, so that few points widen it once more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.service.steps.work import Floats
from ullage.simulate.statistics import t_quantile

# From the errors of published sweeps that were predicted from one or two of their points (bench/accuracy.py).
DISTANCE_SPREADS: Mapping[str, float] = {"tpot": 0.03, "ttft": 0.07}


@dataclass(frozen=True, kw_only=True)
class FactorSpread:
    """The spread of the logarithms of the factors, and of what was measured around the fit, by latency.

    `degrees` are those of Student's distribution: the points, and what repeats of other runs are worth.
    """

    covariance: tuple[tuple[float, ...], ...]
    fit_spreads: Mapping[str, float]
    degrees: int

    def spread(self, latency: str, slopes: Floats, *, doublings: float = 0.0) -> float:
        """Of the logarithm of a latency with these derivatives by the factors, so far beyond what was tested."""
        kind = latency if latency in DISTANCE_SPREADS else "ttft"
        factors = float(slopes @ np.array(self.covariance) @ slopes)
        return math.sqrt(factors + self.fit_spreads[kind] ** 2 + (DISTANCE_SPREADS[kind] * doublings) ** 2)

    def ratio(self, latency: str, slopes: Floats, *, doublings: float = 0.0) -> float:
        """8 of 10 measurements lie between the prediction over this and the prediction times this."""
        return math.exp(t_quantile(0.9, self.degrees) * self.spread(latency, slopes, doublings=doublings))
