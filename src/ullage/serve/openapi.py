"""The service described for programs: routes, requests with examples, and for every verb the schema of its answer.

The schemas are those of `--json`, one file for each verb; here they stand among the description's own components.
"""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

_VERSION_NOTE = (
    "The verbs of `ullage` over HTTP. A verb that takes longer than `wait` seconds answers 202 with a job. Files are "
    "uploaded first and named by what the upload answers; no path or address in a request is ever followed."
)
_COMPONENTS = "#/components/schemas/"
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457. A wrong input has its place and its remedy; a refused plan its document.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "file": {"type": "string"},
        "line": {"type": "integer"},
        "key": {"type": "string"},
        "value": {"type": "string"},
        "problem": {"type": "string"},
        "fix": {"type": "string"},
    },
    "examples": [
        {
            "type": "urn:ullage:problem:wrong-input",
            "title": "The input is wrong",
            "status": 422,
            "detail": "plan.yaml:9: pool.device = 'h300': is not known. Did you mean h200-sxm?",
            "field": "plan.yaml:9: pool.device",
            "file": "plan.yaml",
            "line": 9,
            "key": "pool.device",
            "value": "h300",
            "problem": "is not known",
            "fix": "Did you mean h200-sxm?",
        }
    ],
}
JOB_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "verb", "state", "stage", "fraction", "submitted", "ended", "status", "result", "events"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "verb": {"type": "string"},
        "state": {"enum": ["queued", "running", "done", "failed", "cancelled"]},
        "stage": {"type": "string"},
        "fraction": {"type": "number", "minimum": 0, "maximum": 1},
        "submitted": {"type": "string", "format": "date-time"},
        "ended": {"type": ["string", "null"], "format": "date-time"},
        "status": {"type": ["integer", "null"]},
        "result": {"type": "string"},
        "events": {"type": "string"},
    },
}
UPLOAD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["upload", "title", "bytes", "unpacked_bytes", "rows", "sent"],
    "properties": {
        "upload": {"type": "string", "pattern": "^u[0-9a-f]{32}(\\.[a-z0-9]{1,8}){0,2}$"},
        "title": {"type": "string"},
        "bytes": {"type": "integer"},
        "unpacked_bytes": {"type": "integer"},
        "rows": {"type": "integer"},
        "sent": {"type": "string", "format": "date-time"},
    },
}
_NUMBER_OR_NULL = {"type": ["number", "null"]}
ESTIMATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A first look: about so many replicas, devices and dollars. The job decides them.",
    "required": ["status", "estimate", "decided"],
    "properties": {
        "status": {"const": "estimate, being decided"},
        "estimate": {
            "type": "object",
            "required": ["schema", "service", "as_of", "seed", "planning_rps", "total_replicas", "devices", "pools"],
            "properties": {
                "schema": {"const": "ullage.evaluate/2"},
                "usd": _NUMBER_OR_NULL,
                "pools": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["pool", "steady_replicas", "low_replicas", "high_replicas", "total_replicas"],
                        "properties": {"usd": _NUMBER_OR_NULL, "low_usd": _NUMBER_OR_NULL, "high_usd": _NUMBER_OR_NULL},
                    },
                },
            },
        },
        "decided": {"anyOf": [{"$ref": f"{_COMPONENTS}Job"}, {"type": "null"}]},
    },
}


def finished(description: dict[str, Any], verbs: tuple[str, ...]) -> dict[str, Any]:
    """The description that FastAPI makes, with the schemas of answers and how to say who asks."""
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas |= {
        "Problem": PROBLEM_SCHEMA, "Job": JOB_SCHEMA, "Upload": UPLOAD_SCHEMA, "Estimate": ESTIMATE_SCHEMA,
    }  # fmt: skip
    for verb in verbs:
        schemas |= answer_schemas(verb)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    description["security"] = [{"token": []}, {}]
    description["info"]["description"] = _VERSION_NOTE
    return description


def answer_schemas(verb: str) -> dict[str, Any]:
    """The schema of a verb's answer and of its parts, by the names that they have among the components."""
    found = _schema(verb)
    if found is None:
        return {f"answer.{verb}": {"type": "object"}}
    parts = found.pop("$defs", {})
    for name in ("$schema", "$id"):
        found.pop(name, None)
    return {
        f"answer.{verb}": _moved(found, verb),
        **{f"answer.{verb}.{name}": _moved(each, verb) for name, each in parts.items()},
    }


def _moved(value: Any, verb: str) -> Any:
    if isinstance(value, dict):
        return {key: _place(each, verb) if key == "$ref" else _moved(each, verb) for key, each in value.items()}
    return [_moved(each, verb) for each in value] if isinstance(value, list) else value


def _place(reference: str, verb: str) -> str:
    name = reference.removeprefix("#").removeprefix("/$defs/")
    return f"{_COMPONENTS}answer.{verb}" + (f".{name}" if name else "")


def _schema(verb: str) -> dict[str, Any] | None:
    """A verb's schema: in the wheel beside this file, in a checkout among the documentation."""
    for folder in _folders():
        file = folder / f"{verb}.schema.json"
        if file.is_file():
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
    return None


@functools.cache
def _folders() -> tuple[Path, ...]:
    package = Path(str(files("ullage")))
    return (package / "serve" / "schemas", package.parents[1] / "docs" / "reference" / "schemas")
