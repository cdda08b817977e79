"""Step times that were measured a while ago: how far engines have drifted since then."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

from ullage.evidence import Assumption, Evidence, Source, number, weakened
from ullage.facts.efficiency import efficiencies
from ullage.service.steps.step_model import StepModel

_YEAR = datetime.timedelta(days=365.25)
# Of a step, kernels outside a graph drift less than overheads and more than reads of memory, which do not.
_DRIFT = "prefill_drift"


def step_drift(past: datetime.timedelta) -> Assumption | None:
    """What steps may have changed by since their evidence was past its age, as a deviation; None where it is not.

    Releases make engines faster, and a service is upgraded some time: unlike a level that wanders, this adds up.
    """
    if past <= datetime.timedelta():
        return None
    a_year = efficiencies().sheets["shared"].values[_DRIFT]
    return Assumption(
        name="evidence.step_drift",
        value=math.log(number(a_year)) * (past / _YEAR),
        unit="ratio",
        evidence=Evidence.ASSUMED,
        source=Source(
            what=f"{number(a_year):.3g} times a year, as published tests of engine versions find it for kernels; "
            f"{past.days} days past its maximum age",
            where=a_year.source.where,
            date=a_year.source.date,
        ),
    )


def aged_steps(step: StepModel, drift: Assumption) -> StepModel:
    """The step model of evidence past its age: as fast as it was found, and known by less."""
    facts = tuple(replace(each, evidence=weakened(each.evidence)) for each in step.facts)
    return replace(step, facts=(*facts, drift), drift=drift)
