"""What the last reconciliation of a service says, as a stage of its next plan."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.errors import NotGiven
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.reconcile.forecast_scores import ALL_CLASSES, WHOLE

NOT_RECONCILED = NotGiven(
    stage="reconcile",
    instead="Not reconciled yet: this plan has not been compared with production.",
    fix="Keep the plan with --keep, then run ullage reconcile with the same --ledger.",
)


@dataclass(frozen=True, kw_only=True)
class LastReconciled:
    """Figures of the last reconciliation of this service."""

    figures: Mapping[str, Figure]
    notes: tuple[str, ...] = ()


def last_reconciled(
    content: Mapping[str, Any] | None, *, digest: str = "", bands: Sequence[Assumption] = ()
) -> LastReconciled | NotGiven:
    """The stage from a kept reconciliation; without one, that it was not given.

    `bands` are what scores of earlier forecasts made those of this plan wider or narrower by.
    """
    if content is None:
        return NOT_RECONCILED
    day = datetime.date.fromisoformat(str(content["end"])[:10])
    source = Source(what=f"reconciliation {digest[:12]}", where=str(content["source"]), date=day)
    whole = next(
        (each for each in content["forecast"] if each["class_name"] == ALL_CLASSES and each["week"] == WHOLE), None
    )
    rows: list[tuple[str, float, str]] = []
    if whole is not None:
        rows += [
            ("forecast_wape_fraction", whole["wape_fraction"], "fraction"),
            ("forecast_bias_fraction", whole["bias_fraction"], "fraction"),
            ("forecast_coverage_fraction", whole["coverage_fraction"], "fraction"),
        ]
    if content.get("causes"):
        planned, observed = (content["causes"][each]["replicas"] for each in ("planned", "observed"))
        rows.append(("replicas_off", observed - planned, "replicas"))
    rows.append(("violated_hours", content["shortfall"]["violated_hours"], "h"))
    figures = {
        f"reconcile.{name}": Figure(
            name=f"reconcile.{name}", value=value, unit=unit, sources=(source,), own_evidence=Evidence.MEASURED
        )
        for name, value, unit in rows
    }
    drifted = [each["name"] for each in content["inputs"] if each["verdict"] == "drifted"]
    said = f"Drifted by {day.isoformat()}: {', '.join(drifted)}." if drifted else "Every observed assumption holds."
    widths = tuple(
        f"{each.name}: bands of the forecast are {number(each):.2f} times as wide as its own ({each.source.what})."
        for each in bands
    )
    return LastReconciled(figures=figures, notes=(said, *widths))
