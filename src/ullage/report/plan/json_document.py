"""A plan, a refusal or an explanation as JSON: versioned, and the same bytes for the same input.

Figures refer to their inputs by name, and every name is listed once, so that the graph stays a graph.
"""

from __future__ import annotations

import json
from typing import Any

from ullage.errors import NotBuilt, NotGiven, Rejection
from ullage.evidence import Assumption, Figure, Source, each_once
from ullage.planning.document import Plan, Stage
from ullage.planning.margins import Margins
from ullage.planning.not_guaranteed import NotGuaranteed, not_guaranteed
from ullage.planning.sheets import INPUT_SHEET, QUESTIONS, SCORECARD, SheetRow, rows
from ullage.planning.spec import ClassDemand

SCHEMA = "ullage.plan/1"


def to_text(value: dict[str, Any]) -> str:
    """Keys in the order they were written, numbers as Python prints them, nothing that is not JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "service": plan.spec.name,
        "as_of": plan.as_of.isoformat(),
        "seed": plan.seed,
        "verdict": plan.verdict.value,
        "classes": [_class(demand) for demand in plan.spec.demands],
        "inputs": [each.name for each in plan.spec.inputs],
        "stages": [_stage(stage) for stage in plan.stages],
        "input_sheet": [_row(row) for row in rows(plan, INPUT_SHEET)],
        "questions": [_row(row) for row in rows(plan, QUESTIONS)],
        "margins": _margins(plan),
        "scorecard": [_row(row) for row in rows(plan, SCORECARD)],
        "not_promised": [_not_guaranteed(each) for each in not_guaranteed(plan)],
        **_graph((*plan.spec.inputs, *plan.figures)),
    }


def rejection_json(rejection: Rejection) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "verdict": "refused",
        "stage": rejection.stage,
        "reason": rejection.reason,
        "figure": rejection.figure.name,
        "remedies": [{"change": each.change, "effect": each.effect} for each in rejection.remedies],
        **_graph((rejection.figure,)),
    }


def explanation_json(root: Figure | Assumption) -> dict[str, Any]:
    return {"schema": SCHEMA, "explained": root.name, **_graph((root,))}


def _class(demand: ClassDemand) -> dict[str, Any]:
    return {
        "name": demand.request_class.name,
        "priority": demand.request_class.priority,
        "slos": [
            {"metric": str(slo.metric), "percentile_fraction": slo.percentile_fraction, "limit_s": slo.limit_s}
            for slo in demand.request_class.slos
        ],
    }


def _stage(stage: Stage) -> dict[str, Any]:
    if isinstance(stage.answer, NotBuilt):
        return {**_which(stage), "status": "not built", "gives": stage.answer.gives}
    if isinstance(stage.answer, NotGiven):
        return {**_which(stage), "status": "not given", "instead": stage.answer.instead, "fix": stage.answer.fix}
    figures = [each.name for each in stage.figures.values()]
    return {**_which(stage), "status": "built", "figures": figures, "notes": list(stage.notes)}


def _row(row: SheetRow) -> dict[str, Any]:
    return {
        "what": row.what,
        "figures": [each.name for each in row.figures],
        "missing": list(row.missing),
        "evidence": None if row.evidence is None else str(row.evidence),
        "least_sure_of": None if row.weakest is None else row.weakest.name,
        "defaulted": row.is_defaulted,
    }


def _margins(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            **({"pool": stage.pool} if stage.pool else {}),
            "where": row.where,
            "why": row.reason,
            "size": {"value": row.size.value, "unit": row.size.unit},
            "costs": None if row.cost is None else {"value": row.cost.value, "unit": row.cost.unit},
            "evidence": str(row.size.evidence),
        }
        for stage in plan.stages
        if isinstance(stage.answer, Margins)
        for row in stage.answer.rows
    ]


def _not_guaranteed(each: NotGuaranteed) -> dict[str, Any]:
    return {"what": each.what, "rests_on": None if each.rests_on is None else each.rests_on.name}


def _which(stage: Stage) -> dict[str, Any]:
    return {"stage": stage.name, **({"pool": stage.pool} if stage.pool else {})}


def _graph(roots: tuple[Figure | Assumption, ...]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    assumptions: dict[str, Any] = {}
    sources: list[Source] = []
    for each in each_once(roots):
        if isinstance(each, Source):
            if each not in sources:
                sources.append(each)
        elif isinstance(each, Figure):
            figures[each.name] = _figure(each)
        else:
            assumptions[each.name] = _assumption(each)
    return {
        "figures": dict(sorted(figures.items())),
        "assumptions": dict(sorted(assumptions.items())),
        "sources": [_source(each) for each in sorted(sources, key=lambda each: (each.what, each.where, each.date))],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "value": figure.value,
        "unit": figure.unit,
        "evidence": str(figure.evidence),
        "formula": figure.formula,
        "inputs": [each.name for each in figure.inputs],
        "sources": [each.what for each in figure.sources],
    }


def _assumption(each: Assumption) -> dict[str, Any]:
    return {
        "value": each.value,
        "unit": each.unit,
        "low": each.low,
        "high": each.high,
        "evidence": str(each.evidence),
        "source": each.source.what,
        "max_age_days": None if each.max_age is None else each.max_age.days,
    }


def _source(each: Source) -> dict[str, Any]:
    return {"what": each.what, "where": each.where, "date": each.date.isoformat(), "licence": each.licence}
