"""Margins between the highest load that passes and the load to run at: each named, each with its reason, none twice.

- **bursts**: what the demand's bursts cost. The mix is simulated with its bursts and, same seeds, as a Poisson process;
  the difference is this margin. It is already inside the highest load and is shown, not taken off again.
- **evidence**: what the step model may be wrong by. Every step is made as slow as 1 in 10 cases would be for this class
  of evidence, the highest load is found again, and the difference is taken off.
- **policy**: what the user decides to keep beyond that. 0 unless stated: reserves for failures, rollouts and growth are
  lines of their own in a plan, and a factor here would count them twice.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source

_STUDY = Source(
    what="feasibility study of step models on published serving measurements",
    where="docs/explanation/operating-point.md",
    date=datetime.date(2026, 11, 15),
)
_STATED = Source(what="stated by the user", where="step times", date=datetime.date(2026, 11, 15))


@dataclass(frozen=True, kw_only=True)
class StepBand:
    """Where 8 of 10 true step times lie, as multiples of the model's, for one class of evidence."""

    evidence: Evidence
    fast_ratio: float
    slow_ratio: float
    assumption: Assumption

    def __post_init__(self) -> None:
        if not 0.0 < self.fast_ratio <= 1.0 <= self.slow_ratio:
            raise InputError(
                field="band",
                value=(self.fast_ratio, self.slow_ratio),
                problem="does not hold the model itself, ratio 1",
                fix="Give a ratio of at most 1 and one of at least 1.",
            )


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


# Where no accuracy table is at hand. From the study's errors of TPOT, which near full load is the step time: the median
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

NO_POLICY = Assumption(
    name="policy.margin",
    value=0.0,
    unit="fraction",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="no margin of policy unless stated: reserves are lines of their own",
        where="docs/explanation/operating-point.md",
        date=datetime.date(2026, 11, 15),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Margin:
    """One line between the highest load and the operating point.

    `is_inside` says that the highest load already contains it, so that it is shown but not taken off.
    """

    name: str
    share_fraction: float
    reason: str
    is_inside: bool = False
