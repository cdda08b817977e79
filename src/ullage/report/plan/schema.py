"""The JSON Schema of what `ullage plan --json` prints: a program can rely on it, and a test holds us to it."""

from __future__ import annotations

from typing import Any

from ullage.evidence import Evidence
from ullage.planning.verdict import Verdict
from ullage.report.plan.json_document import SCHEMA

_TEXT = {"type": "string"}
_NAMES = {"type": "array", "items": _TEXT}
_VALUE = {"type": ["number", "string"]}
_EVIDENCE = {"enum": [str(each) for each in Evidence]}
_MAYBE_TEXT = {"type": ["string", "null"]}
_MAYBE_NUMBER = {"type": ["number", "null"]}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object with these keys and no others."""
    return {
        "type": "object",
        "required": sorted(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _by_name(each: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": each}


_AMOUNT = _object({"value": _VALUE, "unit": _TEXT})
_ROW = _object(
    {
        "what": _TEXT,
        "figures": _NAMES,
        "missing": _NAMES,
        "evidence": {"enum": [*_EVIDENCE["enum"], None]},
        "least_sure_of": _MAYBE_TEXT,
        "defaulted": {"type": "boolean"},
    }
)
_SLO = _object({"metric": _TEXT, "percentile_fraction": {"type": "number"}, "limit_s": {"type": "number"}})
_STAGE = {
    "oneOf": [
        _object({"stage": _TEXT, "status": {"const": "built"}, "figures": _NAMES, "notes": _NAMES}, pool=_TEXT),
        _object({"stage": _TEXT, "status": {"const": "not given"}, "instead": _TEXT, "fix": _TEXT}, pool=_TEXT),
        _object({"stage": _TEXT, "status": {"const": "not built"}, "gives": _TEXT}, pool=_TEXT),
    ]
}
_GRAPH: dict[str, Any] = {
    "figures": _by_name(
        _object(
            {
                "value": _VALUE,
                "unit": _TEXT,
                "evidence": _EVIDENCE,
                "formula": _TEXT,
                "inputs": _NAMES,
                "sources": _NAMES,
            }
        )
    ),
    "assumptions": _by_name(
        _object(
            {
                "value": _VALUE,
                "unit": _TEXT,
                "low": _MAYBE_NUMBER,
                "high": _MAYBE_NUMBER,
                "evidence": _EVIDENCE,
                "source": _TEXT,
                "max_age_days": _MAYBE_NUMBER,
            }
        )
    ),
    "sources": _list(_object({"what": _TEXT, "where": _TEXT, "date": {"type": "string"}, "licence": _TEXT})),
}
_PLAN = _object(
    {
        "schema": {"const": SCHEMA},
        "service": _TEXT,
        "as_of": _TEXT,
        "seed": {"type": "integer"},
        "verdict": {"enum": [each.value for each in Verdict]},
        "classes": _list(_object({"name": _TEXT, "priority": {"type": "integer"}, "slos": _list(_SLO)})),
        "inputs": _NAMES,
        "stages": _list(_STAGE),
        "input_sheet": _list(_ROW),
        "questions": _list(_ROW),
        "margins": _list(
            _object(
                {
                    "where": _TEXT,
                    "why": _TEXT,
                    "size": _AMOUNT,
                    "costs": {"anyOf": [_AMOUNT, {"type": "null"}]},
                    "evidence": _EVIDENCE,
                },
                pool=_TEXT,
            )
        ),
        "scorecard": _list(_ROW),
        "not_promised": _list(_object({"what": _TEXT, "rests_on": _MAYBE_TEXT})),
        **_GRAPH,
    }
)
_REFUSAL = _object(
    {
        "schema": {"const": SCHEMA},
        "verdict": {"const": "refused"},
        "stage": _TEXT,
        "reason": _TEXT,
        "figure": _TEXT,
        "remedies": _list(_object({"change": _TEXT, "effect": _TEXT})),
        **_GRAPH,
    }
)
_EXPLANATION = _object({"schema": {"const": SCHEMA}, "explained": _TEXT, **_GRAPH})


def plan_output_schema() -> dict[str, Any]:
    """A plan, a refusal, or the explanation of one number."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "oneOf": [_PLAN, _REFUSAL, _EXPLANATION],
    }
