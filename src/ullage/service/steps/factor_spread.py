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
DISTANCE_SPREADS: Mapping[str, float] = {"tpot": 0.03, "ttft": 0.14}


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
        return math.hypot(self._of_factors(slopes), self._of_rest(latency, doublings))

    def ratio(self, latency: str, slopes: Floats, *, doublings: float = 0.0) -> float:
        """8 of 10 measurements lie between the prediction over this and the prediction times this."""
        return math.exp(self._quantile * self.spread(latency, slopes, doublings=doublings))

    def factors_log(self, slopes: Floats) -> float:
        """The part of that ratio's logarithm which the factors make, as far as the derivatives hold."""
        return self._quantile * self._of_factors(slopes)

    def bounded_ratio(self, latency: str, factors_log: float, *, doublings: float = 0.0) -> float:
        """The ratio where the factors make so much of it."""
        return math.exp(math.hypot(factors_log, self._quantile * self._of_rest(latency, doublings)))

    @property
    def ends(self) -> Floats:
        """How far the logarithm of each factor may be off either way, one time in ten."""
        found: Floats = self._quantile * np.sqrt(np.diag(np.array(self.covariance)))
        return found

    @property
    def _quantile(self) -> float:
        return t_quantile(0.9, self.degrees)

    def _of_factors(self, slopes: Floats) -> float:
        return math.sqrt(float(slopes @ np.array(self.covariance) @ slopes))

    def _of_rest(self, latency: str, doublings: float) -> float:
        kind = latency if latency in DISTANCE_SPREADS else "ttft"
        return math.hypot(self.fit_spreads[kind], DISTANCE_SPREADS[kind] * doublings)
