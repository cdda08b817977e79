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
from dataclasses import dataclass

from ullage.evidence import Assumption, Evidence, Source

NO_POLICY = Assumption(
    name="policy.margin",
    value=0.0,
    unit="fraction",
    evidence=Evidence.ASSUMED,
    source=Source(
        what="no policy margin unless stated: reserves are separate lines",
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
