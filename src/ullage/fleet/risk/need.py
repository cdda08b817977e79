"""The number of replicas that a pool may need, beside the one that it is planned with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from ullage.evidence import Assumption, Figure, number

_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class PlannedNeed:
    """How far the need of replicas may be off: the deviation of its logarithm, and the chance that is taken of it.

    `step_fraction` is the part of step times in all that may slow; `even_fraction` of the planning rate is the busiest
    hour at the median.
    """

    shortfall: Assumption
    deviation_fraction: float
    step_fraction: float
    even_fraction: float = 1.0
    rests: tuple[Figure | Assumption, ...]

    def beyond(self, planned: int, replicas: int) -> float:
        """The chance that more than so many are needed, where `planned` are needed at the planning point.

        The need there is a real number up to `planned`: half a replica less stands for it.
        """
        if replicas <= 0:
            return 1.0
        need = planned - 0.5
        if self.deviation_fraction <= 0.0:
            return 0.0 if replicas >= need else 1.0
        score = _NORMAL.inv_cdf(1.0 - number(self.shortfall)) + math.log(replicas / need) / self.deviation_fraction
        return 1.0 - _NORMAL.cdf(score)

    def shortfall_fraction(self, planned: int, up_chances: Sequence[float]) -> float:
        """The chance that fewer are up than are needed; `up_chances` by the number that is up."""
        return math.fsum(
            chance * self.beyond(planned, up) for up, chance in enumerate(up_chances) if chance > 0.0
        )  # fmt: skip
