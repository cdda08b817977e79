"""How earlier forecasts of a service scored, as an assumption of its next plan: bands wider or narrower than stated."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ullage.planning.spec import ClassDemand, PlanSpec

LEDGER_VARIABLE = "ULLAGE_LEDGER"


def with_scored_bands(spec: PlanSpec, *, as_of: datetime.date) -> PlanSpec:
    """The specification with what the ledger that `ULLAGE_LEDGER` names says of this service's forecasts until then.

    Without the variable no ledger is read: a plan depends on its inputs alone.
    """
    said = os.environ.get(LEDGER_VARIABLE, "")
    if not said or ("://" not in said and not Path(said).exists()):
        return spec
    kept = _kept(said, spec.name, as_of)
    if not kept:
        return spec
    return replace(spec, demands=tuple(_scored(each, kept) for each in spec.demands))


def _kept(address: str, service: str, as_of: datetime.date) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Scores of every stretch that ended by the day of the plan, with the day."""
    from ullage.ledger.body import EntryKind
    from ullage.ledger.ledger import opened

    with opened(address) as ledger:
        entries = ledger.entries(kind=EntryKind.FORECAST_SCORES, service=service)
        return [
            (each.as_of, ledger.body(each.digest).content["scores"])
            for each in entries
            if not each.removed_by and each.as_of <= as_of.isoformat()
        ]


def _scored(demand: ClassDemand, kept: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> ClassDemand:
    from ullage.evidence import Assumption, Evidence, Source
    from ullage.reconcile.expectation import BAND_RATIO
    from ullage.reconcile.forecast_scores import scored_band
    from ullage.workload.demand.stated import StatedShape

    name = demand.request_class.name
    found = scored_band([scores for _, scores in kept], name)
    if found is None:
        return demand
    wider = "wider" if found.ratio > 1.0 else "narrower"
    band = Assumption(
        name=f"{name}.{BAND_RATIO}",
        value=found.ratio,
        unit="ratio",
        evidence=Evidence.MEASURED,
        source=Source(
            what=f"bands of {found.stretches} forecasts compared with observations: made {wider} by as much",
            where="scores in the ledger",
            date=datetime.date.fromisoformat(max(day for day, _ in kept)),
        ),
        low=found.low_ratio,
        high=found.high_ratio,
    )
    return replace(demand, shape=replace(demand.shape or StatedShape(), band=band))
