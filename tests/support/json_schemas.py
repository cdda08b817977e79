"""The JSON Schema of every verb's `--json`, made from the types that the encoder walks.

`python -m support.json_schemas` writes them into docs/reference/schemas; a test holds them current, and real output of
every verb to them. The encoder and this module read one table, report/shapes.py, of what is printed of a class.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import importlib
import inspect
import json
import pkgutil
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ullage
from ullage.evidence import Assumption, Evidence, Figure
from ullage.report.encode import schema_name
from ullage.report.shapes import BY_NAME, PLAIN, SHAPES, Shape

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLANNED = ("service", "as_of", "seed")


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One kind of document of a verb: the class that is printed, and what its head says.

    `explained` says that the figures and assumptions behind it are listed at its end.
    """

    kind: str
    head: tuple[str, ...] = ()
    explained: bool = False


_EXPLAINED = Printed(kind="Explained", head=("as_of",), explained=True)
_REFUSAL = Printed(kind="RefusalDocument", explained=True)

# Every verb with `--json`; a test finds a verb that is missing here.
VERBS: dict[str, tuple[Printed, ...]] = {
    "plan": (Printed(kind="PlanDocument", head=_PLANNED, explained=True), _EXPLAINED, _REFUSAL),
    "profile": (Printed(kind="Profile", head=("as_of",)),),
    "synthetic": (Printed(kind="Synthesis", head=("as_of", "seed")),),
    "forecast": (Printed(kind="ServiceForecast", head=("as_of", "seed")),),
    "memory": (Printed(kind="MemoryBudget", head=("as_of",), explained=True), _EXPLAINED, _REFUSAL),
    "calibrate": (Printed(kind="Fitted", head=("as_of",)), Printed(kind="Inspections")),
    "measure": (Printed(kind="MeasureAnswer", head=_PLANNED), _REFUSAL),
    "validate": (Printed(kind="Validation", head=_PLANNED), _REFUSAL),
    "gate": (Printed(kind="GateAnswer", head=_PLANNED), _REFUSAL),
    "curve": (Printed(kind="CurveAnswer", head=_PLANNED, explained=True), _EXPLAINED, _REFUSAL),
    "size": (
        Printed(kind="SizeAnswer", head=_PLANNED, explained=True),
        Printed(kind="SidesSized", head=_PLANNED),
        _EXPLAINED,
        _REFUSAL,
    ),
    "simulate": (
        Printed(kind="Simulated", head=("as_of", "seed")),
        Printed(kind="SplitSimulated", head=("as_of", "seed")),
        _REFUSAL,
    ),
    "options": (Printed(kind="Options", head=_PLANNED), _EXPLAINED, _REFUSAL),
    "drill": (Printed(kind="Drills", head=_PLANNED), _EXPLAINED, _REFUSAL),
    "scale": (Printed(kind="ScalingComparisons", head=_PLANNED), _REFUSAL),
    "shadow": (Printed(kind="ShadowAnswer", head=_PLANNED), _REFUSAL),
    "check": (Printed(kind="Checks", head=_PLANNED), _REFUSAL),
    "cost": (Printed(kind="CostAnswer", head=_PLANNED, explained=True), _EXPLAINED, _REFUSAL),
    "buy": (Printed(kind="Buying", head=_PLANNED, explained=True), _EXPLAINED, _REFUSAL),
    "compare": (Printed(kind="Difference"), _REFUSAL),
    "risk": (Printed(kind="Study", head=_PLANNED, explained=True), _REFUSAL),
    "scenarios": (Printed(kind="ScenarioTable", head=_PLANNED), _REFUSAL),
    "portfolio": (Printed(kind="PortfolioAnswer", head=("as_of", "seed")), _REFUSAL),
    "brownfield": (Printed(kind="BrownfieldPlan", head=_PLANNED), _REFUSAL),
    "emit": (Printed(kind="Emitted", head=_PLANNED), _REFUSAL),
    "ledger": (Printed(kind="LedgerAnswer"),),
    "reconcile": (Printed(kind="ReconcileAnswer"),),
    "facts": (Printed(kind="Facts", head=("as_of",)),),
    "refusal": (_REFUSAL,),
}
_HEAD: dict[str, Any] = {
    "service": {"type": "string"},
    "as_of": {"type": "string", "format": "date"},
    "seed": {"type": "integer"},
}
_SOURCE = {
    "type": "object",
    "properties": {
        "what": {"type": "string"},
        "where": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "licence": {"type": "string"},
    },
    "required": ["what", "where", "date", "licence"],
    "additionalProperties": False,
}
_QUANTITY = {
    "description": "A figure or an assumption: a number with its unit, how it is known, and where it comes from.",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": ["number", "string"]},
        "unit": {"type": "string"},
        "evidence": {"enum": [each.value for each in Evidence]},
        "formula": {"type": "string"},
        "inputs": {"type": "array", "items": {"type": "string"}},
        "low": {"type": "number"},
        "high": {"type": "number"},
        "max_age_days": {"type": "integer"},
        "is_stale": {"type": "boolean"},
        "sources": {"type": "array", "items": {"$ref": "#/$defs/Source"}},
    },
    "required": ["name", "value", "unit", "evidence"],
    "additionalProperties": False,
}
_VALUE = {"type": ["number", "string", "null"]}
_WHAT_IF = {
    "type": "object",
    "properties": {
        "changes": {"type": "array", "items": {"type": "string"}},
        "headlines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "unit": {"type": "string"},
                    "before": _VALUE,
                    "after": _VALUE,
                },
                "required": ["name", "unit", "before", "after"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["changes", "headlines"],
    "additionalProperties": False,
}
_BY_QUANTITY = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Quantity"}}


def verb_schema(verb: str) -> dict[str, Any]:
    """One document that this verb prints, or another."""
    made = _Schemas()
    printed = [made.document(verb, each) for each in VERBS[verb]]
    body = printed[0] if len(printed) == 1 else {"oneOf": printed}
    return {"$schema": _DRAFT, "title": schema_name(verb), **body, "$defs": dict(sorted(made.defined.items()))}


def text_of(verb: str) -> str:
    return json.dumps(verb_schema(verb), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for each in FOLDER.glob("*.schema.json"):
        if each.name.removesuffix(".schema.json") not in VERBS:
            each.unlink()
    for verb in VERBS:
        (FOLDER / f"{verb}.schema.json").write_text(text_of(verb))


class _Schemas:
    """The definitions that one schema needs, filled as types are met."""

    def __init__(self) -> None:
        self.defined: dict[str, Any] = {"Quantity": _QUANTITY, "Source": _SOURCE}

    def document(self, verb: str, printed: Printed) -> dict[str, Any]:
        inside = self.fields(classes()[printed.kind])
        properties = {
            "schema": {"const": schema_name("refusal" if printed is _REFUSAL else verb)},
            **{name: _HEAD[name] for name in printed.head},
            **{name: each for name, each in inside.items() if name not in printed.head},
            **({"figures": _BY_QUANTITY, "assumptions": _BY_QUANTITY} if printed.explained else {}),
        }
        found = _object(properties)
        # A plan that was changed on the command line says how, and what its headlines were without the change.
        found["properties"]["what_if"] = _WHAT_IF
        return found

    def fields(self, kind: type) -> dict[str, Any]:
        shape = next((SHAPES[each.__name__] for each in kind.__mro__ if each.__name__ in SHAPES), PLAIN)
        names = getattr(kind, "_fields", None) or [each.name for each in dataclasses.fields(kind)]
        return {name: self.field(kind, name, shape) for name in shape.printed(names)}

    def field(self, kind: type, name: str, shape: Shape) -> dict[str, Any]:
        hint = attribute_type(kind, name)
        if name in shape.named:
            return _names(hint)
        return self.of(hint, unmeasured=name in shape.unmeasured)

    def of(self, hint: Any, *, unmeasured: bool = False) -> dict[str, Any]:
        """The schema of a type; a number may be null where there was nothing to measure."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            return _any_of([self.of(each, unmeasured=unmeasured) for each in arguments])
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin is tuple and arguments[-1] is not Ellipsis:
            items = [self.of(each) for each in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if origin is not None and inspect.isclass(origin) and issubclass(origin, np.ndarray):
            return {"type": "array"}
        if origin is not None and issubclass(origin, collections.abc.Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1], unmeasured=unmeasured)}
        if origin is not None and issubclass(origin, collections.abc.Collection):
            return {"type": "array", "items": self.of(arguments[0], unmeasured=unmeasured)}
        return self.plain(hint, unmeasured=unmeasured)

    def plain(self, hint: Any, *, unmeasured: bool) -> dict[str, Any]:
        if hint in (Figure, Assumption):
            return {"$ref": "#/$defs/Quantity"}
        if hint in _PLAIN:
            found = _PLAIN[hint]
            return {"type": ["number", "null"]} if unmeasured and hint is float else dict(found)
        if hint.__name__ in BY_NAME:
            return {"type": "string"}
        if issubclass(hint, enum.Enum):
            return {"enum": [each.value for each in hint]}
        assert dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"), f"{hint} has no schema"
        name = hint.__name__
        if name not in self.defined:
            # A name first, so that a class may hold others of its own kind.
            self.defined[name] = {}
            self.defined[name] = {"description": _first_sentence(hint), **_object(self.fields(hint))}
        return {"$ref": f"#/$defs/{name}"}


_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    # What an entry of a ledger says has a schema of its own, by its kind.
    Any: {},
    datetime.date: {"type": "string", "format": "date"},
    datetime.timedelta: {"type": "number"},
    Path: {"type": "string"},
}


def classes() -> dict[str, type]:
    """Every class of the package by its name, which no other class has."""
    return {name: each for name, each in _names_in_package().items() if inspect.isclass(each)}


def attribute_type(kind: type, name: str) -> Any:
    """What a field or a property is declared as."""
    own = vars(importlib.import_module(kind.__module__))
    names = {**_names_in_package(), **own}
    found = inspect.getattr_static(kind, name, None)
    computed = found.fget if isinstance(found, property) else getattr(found, "func", None)
    if computed is not None and name not in getattr(kind, "_fields", ()):
        return typing.get_type_hints(computed, names)["return"]
    return typing.get_type_hints(kind, None, names)[name]


_found: dict[str, Any] = {}


def _names_in_package() -> dict[str, Any]:
    """What modules define at their top, since hints name classes that are imported for type checkers alone."""
    if not _found:
        for each in pkgutil.walk_packages(ullage.__path__, "ullage."):
            if each.name.endswith("__main__"):
                continue
            module = importlib.import_module(each.name)
            own = (
                (name, value)
                for name, value in vars(module).items()
                if not inspect.isclass(value) or value.__module__ == each.name
            )
            _found.update(own)
    return _found


def _names(hint: Any) -> dict[str, Any]:
    """Figures by their names: one, none, or a list."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Figure, Assumption):
        return {"type": "string"}
    if origin in (types.UnionType, typing.Union):
        return {"type": ["string", "null"]} if type(None) in arguments else {"type": "string"}
    return {"type": "array", "items": {"type": "string"}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _any_of(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Plain types in one list, and the rest side by side."""
    if all(set(each) == {"type"} for each in kinds):
        names = dict.fromkeys(
            name for each in kinds for name in (each["type"] if isinstance(each["type"], list) else [each["type"]])
        )
        return {"type": list(names)}
    return {"anyOf": kinds}


def _first_sentence(kind: type) -> str:
    text = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return "" if text.startswith(f"{kind.__name__}(") else text


if __name__ == "__main__":
    write()
