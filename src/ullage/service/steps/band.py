"""How far step times may be off, by class of evidence: the band that conservative step times are taken from."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, number, weakened

_TENTH = NormalDist().inv_cdf(0.9)
_STUDY = Source(
    what="feasibility study of step models on published serving measurements",
    where="docs/explanation/operating-point.md",
    date=datetime.date(2026, 11, 15),
)
_STATED = Source(what="stated by the user", where="step times", date=datetime.date(2026, 11, 15))


@dataclass(frozen=True, kw_only=True)
class StepBand:
    """Where 8 of 10 true step times lie, as multiples of the model's, for one class of evidence.

    `planned` is how slow steps are taken in a plan, where its risk says so; the slow ratio is then that one.
    """

    evidence: Evidence
    fast_ratio: float
    slow_ratio: float
    assumption: Assumption
    planned: Figure | None = None

    def widened(self, drift: Assumption) -> StepBand:
        """The band of what has drifted since it was measured: both add in squares, of logarithms."""
        moved = _TENTH * number(drift)
        fast, slow = (math.hypot(math.log(each), moved) for each in (self.fast_ratio, self.slow_ratio))
        own = self.assumption
        source = replace(own.source, what=f"{own.source.what}; widened by {drift.name}: {drift.source.what}")
        return replace(
            self,
            evidence=weakened(self.evidence),
            fast_ratio=math.exp(-fast),
            slow_ratio=math.exp(slow),
            assumption=replace(
                own,
                value=math.exp(slow),
                low=math.exp(-fast),
                high=math.exp(slow),
                evidence=weakened(own.evidence),
                source=source,
            ),
        )

    def __post_init__(self) -> None:
        if not 0.0 < self.fast_ratio <= 1.0 <= self.slow_ratio:
            raise InputError(
                field="band",
                value=(self.fast_ratio, self.slow_ratio),
                problem="does not hold the model itself, ratio 1",
                fix="Give a ratio of at most 1 and one of at least 1.",
            )

    @property
    def slow_input(self) -> Figure | Assumption:
        """What the slow ratio comes from."""
        return self.assumption if self.planned is None else self.planned

    @property
    def reason(self) -> str:
        """Why steps are taken to be so slow."""
        if self.planned is None:
            return f"one time in ten they are {self.slow_ratio:.3g} times as long"
        return f"at the chosen risk they are assumed {self.slow_ratio:.3g} times as long"


def step_band(
    evidence: Evidence, *, fast_ratio: float, slow_ratio: float, source: Source, own: Evidence = Evidence.MEASURED
) -> StepBand:
    """A band from accuracy tables or from a calibration's own held-out error; one that excludes 1 is drawn up to it."""
    fast, slow = min(1.0, fast_ratio), max(1.0, slow_ratio)
    return StepBand(
        evidence=evidence,
        fast_ratio=fast,
        slow_ratio=slow,
        assumption=Assumption(
            name=f"evidence.{evidence}.slow_step_ratio",
            value=slow,
            unit="ratio",
            evidence=own,
            source=source,
            low=fast,
            high=slow,
        ),
    )


def _default(evidence: Evidence, ratio: float, source: Source = _STUDY) -> StepBand:
    return step_band(evidence, fast_ratio=1.0 / ratio, slow_ratio=ratio, source=source, own=Evidence.ASSUMED)


# The default without an accuracy table. From the study's errors of TPOT, near full load the step time: the median
# absolute error times 1.9 is the 90th percentile of a normal one. Repeats of one run differ by 1.6 to 3.5 % (measured);
# two measured points leave a median of 5.1 % (calibrated), one point 8.7 % (profiled: one scalar is right, the rest is
# modelled), none 16.0 % for a model that the fit had not seen (estimated).
DEFAULT_BANDS: Mapping[Evidence, StepBand] = {
    Evidence.STATED: _default(Evidence.STATED, 1.0, _STATED),
    Evidence.MEASURED: _default(Evidence.MEASURED, 1.05),
    Evidence.CALIBRATED: _default(Evidence.CALIBRATED, 1.10),
    Evidence.PROFILED: _default(Evidence.PROFILED, 1.17),
    Evidence.ESTIMATED: _default(Evidence.ESTIMATED, 1.30),
    Evidence.ASSUMED: _default(Evidence.ASSUMED, 1.30),
}
