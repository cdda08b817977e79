"""A plan as one document: the answer first, then what each stage found, by the names of its figures.

Every figure and assumption is listed once, under its name; tables refer to them, so that the graph stays a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ullage.errors import NotGiven
from ullage.evidence import Assumption, Figure
from ullage.planning.answer.answer import Answer, answer
from ullage.planning.document import Plan, Stage
from ullage.planning.margins import MarginRow, Margins
from ullage.planning.not_guaranteed import NotGuaranteed, not_guaranteed
from ullage.planning.reserve_parts import FleetParts, fleet_parts
from ullage.planning.sheets import INPUT_SHEET, QUESTIONS, SCORECARD, SheetRow, rows
from ullage.planning.sun import SunSaving, following_the_sun
from ullage.report.encode import document
from ullage.report.plan.series import PlanSeries, plan_series
from ullage.workload.classes import RequestClass


@dataclass(frozen=True, kw_only=True)
class StageEntry:
    """One stage by its figures and notes; `missing` says why it has none. A stage of the whole service has no pool."""

    name: str
    pool: str
    status: Literal["built", "not given"]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    missing: NotGiven | None


@dataclass(frozen=True, kw_only=True)
class PlanDocument:
    """What is printed of a plan. `margins` are listed by pool; that of a single pool has no name."""

    summary: Answer
    classes: tuple[RequestClass, ...]
    inputs: tuple[Assumption, ...]
    stages: tuple[StageEntry, ...]
    input_sheet: tuple[SheetRow, ...]
    questions: tuple[SheetRow, ...]
    margins: Mapping[str, tuple[MarginRow, ...]]
    scorecard: tuple[SheetRow, ...]
    fleet_parts: tuple[FleetParts, ...]
    following_the_sun: tuple[SunSaving, ...]
    not_guaranteed: tuple[NotGuaranteed, ...]
    series: PlanSeries


def plan_json(plan: Plan) -> dict[str, Any]:
    """What `ullage plan --json` prints."""
    summary = answer(plan)
    value = PlanDocument(
        summary=summary,
        classes=plan.spec.classes,
        inputs=plan.spec.inputs,
        stages=tuple(_entry(each) for each in plan.stages),
        input_sheet=rows(plan, INPUT_SHEET),
        questions=rows(plan, QUESTIONS),
        margins={each.pool: each.answer.rows for each in plan.stages if isinstance(each.answer, Margins)},
        scorecard=rows(plan, SCORECARD),
        fleet_parts=fleet_parts(plan),
        following_the_sun=following_the_sun(plan),
        not_guaranteed=not_guaranteed(plan),
        series=plan_series(plan),
    )
    behind: tuple[Figure | Assumption, ...] = (*plan.spec.inputs, *plan.figures, *summary.figures.values())
    return document("plan", value, as_of=plan.as_of, seed=plan.seed, service=plan.spec.name, behind=behind)


def _entry(stage: Stage) -> StageEntry:
    missing = stage.answer if isinstance(stage.answer, NotGiven) else None
    return StageEntry(
        name=stage.name,
        pool=stage.pool,
        status="built" if missing is None else "not given",
        figures=tuple(stage.figures.values()),
        notes=stage.notes,
        missing=missing,
    )
