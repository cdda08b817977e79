"""One encoder for every verb's `--json`: a frozen value as plain JSON, by its fields.

A dataclass is an object by field name, an enumeration its value, a date its ISO form, an array its numbers. A figure
or an assumption has one shape wherever it stands: name, value, unit, evidence, and where it comes from. What of a
value is left out, and which computed properties are printed beside its fields, stands in shapes.py and nowhere else.
The same value gives the same bytes: no clock, no order but the value's own, numbers to nine digits.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure, Source, each_once, printed_number
from ullage.foreign import json_text
from ullage.report.shapes import BY_NAME, PLAIN, SHAPES

VERSION = 2
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One number, explained by the figures and assumptions that the document lists."""

    explained: str


@dataclass(frozen=True, kw_only=True)
class RefusalDocument:
    """Why there is no answer: where, by which figure, and what would help."""

    refused: Rejection


def explained_json(verb: str, root: Figure | Assumption, *, as_of: datetime.date | None = None) -> dict[str, Any]:
    """One number of a verb's answer with all that it rests on."""
    return document(verb, Explained(explained=root.name), as_of=as_of, behind=(root,))


def refusal_json(refused: Rejection) -> dict[str, Any]:
    """The one shape of a refusal, whichever verb refuses."""
    return document("refusal", RefusalDocument(refused=refused), behind=(refused.figure,))


def schema_name(verb: str) -> str:
    """
    >>> schema_name("plan")
    'ullage.plan/2'
    """
    return f"ullage.{verb}/{VERSION}"


def document(
    verb: str,
    value: object,
    *,
    as_of: datetime.date | None = None,
    seed: int | None = None,
    service: str | None = None,
    behind: Iterable[Figure | Assumption] = (),
) -> dict[str, Any]:
    """What a verb prints: its schema, what it was asked of and when, then the value, field by field.

    Last come the figures `behind` it and all that they rest on, each once by its name, so that the graph stays one.
    """
    head = {"service": service, "as_of": as_of, "seed": seed}
    said = {name: to_json(each) for name, each in head.items() if each is not None}
    body = {key: each for key, each in to_json(value, as_of=as_of).items() if key not in said}
    return {"schema": schema_name(verb), **said, **body, **_graph(tuple(behind), as_of)}


def _graph(roots: tuple[Figure | Assumption, ...], as_of: datetime.date | None) -> dict[str, Any]:
    if not roots:
        return {}
    found = sorted((each for each in each_once(roots) if not isinstance(each, Source)), key=lambda each: each.name)
    return {
        "figures": {each.name: _quantity(each, as_of) for each in found if isinstance(each, Figure)},
        "assumptions": {each.name: _quantity(each, as_of) for each in found if isinstance(each, Assumption)},
    }


def to_json(value: Any, *, as_of: datetime.date | None = None, brief: bool = False) -> Any:
    """This value as JSON has it. With a date, an assumption says whether it is past its maximum age.

    A `brief` figure does not say where it comes from: the document that holds it lists it once more, in full.
    """
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return printed_number(value)
    if isinstance(value, Figure | Assumption):
        return _brief(value) if brief else _quantity(value, as_of)
    if not BY_NAME.isdisjoint(_kinds(value)):
        return value.name
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        return dict(_fields(value, as_of, brief=brief))
    if isinstance(value, Mapping):
        return {_key(key): to_json(each, as_of=as_of, brief=brief) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each, as_of=as_of, brief=brief) for each in value]
    return _outside(value)


def numbers_in(value: Any) -> Iterator[Figure | Assumption]:
    """Every figure and assumption that `to_json` prints of this value, in full or by its name."""
    if isinstance(value, Figure | Assumption):
        yield value
    elif value is None or isinstance(value, bool | str | int | float | enum.Enum | PurePath | datetime.date):
        return
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from numbers_in(each)
    elif isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        for each in value:
            yield from numbers_in(each)
    elif BY_NAME.isdisjoint(_kinds(value)) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        shape = next((SHAPES[each] for each in _kinds(value) if each in SHAPES), PLAIN)
        names = value._fields if hasattr(value, "_fields") else [each.name for each in dataclasses.fields(value)]
        for name in shape.printed(names):
            yield from numbers_in(getattr(value, name))


def to_text(value: Mapping[str, Any]) -> str:
    """Keys in the order they were written; a list of plain values on one line, so that a series stays small."""
    return "".join(_lines(value, "")) + "\n"


def _brief(each: Figure | Assumption) -> dict[str, Any]:
    return {"name": each.name, "value": to_json(each.value), "unit": each.unit, "evidence": str(each.evidence)}


def _quantity(each: Figure | Assumption, as_of: datetime.date | None) -> dict[str, Any]:
    found = _brief(each)
    if isinstance(each, Figure):
        found |= {"formula": each.formula} if each.formula else {}
        found |= {"inputs": [one.name for one in each.inputs]} if each.inputs else {}
    else:
        found |= {} if each.low is None else {"low": to_json(each.low), "high": to_json(each.high)}
        found |= {} if each.max_age is None else {"max_age_days": each.max_age // _DAY}
        found |= {} if as_of is None else {"is_stale": each.is_stale(as_of)}
    return found | ({"sources": to_json(each.sources)} if each.sources else {})


def _fields(value: Any, as_of: datetime.date | None, *, brief: bool) -> Iterator[tuple[str, Any]]:
    shape = next((SHAPES[each] for each in _kinds(value) if each in SHAPES), PLAIN)
    names = value._fields if hasattr(value, "_fields") else [each.name for each in dataclasses.fields(value)]
    for name in shape.printed(names):
        each = getattr(value, name)
        short = brief or name in shape.brief
        yield name, _names(each) if name in shape.named else to_json(each, as_of=as_of, brief=short)


def _kinds(value: Any) -> list[str]:
    """Its class and those it is made from: an answer of a verb is printed as the value that it is."""
    return [each.__name__ for each in type(value).__mro__]


def _names(value: Any) -> Any:
    """Figures and assumptions by their names alone: the document lists each of them once elsewhere."""
    if value is None or isinstance(value, Figure | Assumption):
        return None if value is None else value.name
    return [each.name for each in (value.values() if isinstance(value, Mapping) else value)]


def _outside(value: Any) -> Any:
    """Values of other libraries: dates, paths, arrays and their scalars."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return printed_number(value.total_seconds())
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(to_json(each) for each in value)
    if hasattr(value, "tolist"):
        return to_json(value.tolist())
    raise TypeError(f"{type(value).__name__} has no JSON: leave it out in report/shapes.py, or say how it is printed")


def _key(key: Any) -> str:
    found = to_json(key)
    return found if isinstance(found, str) else json.dumps(found)


def _lines(value: Any, indent: str) -> Iterator[str]:
    deeper, comma = f"{indent}  ", ",\n"
    if isinstance(value, Mapping) and value:
        yield "{\n"
        for at, (key, each) in enumerate(value.items()):
            yield f"{comma if at else ''}{deeper}{_scalar(key)}: "
            yield from _lines(each, deeper)
        yield f"\n{indent}}}"
    elif isinstance(value, list) and any(isinstance(each, list | Mapping) for each in value):
        yield "[\n"
        for at, each in enumerate(value):
            yield f"{comma if at else ''}{deeper}"
            yield from _lines(each, deeper)
        yield f"\n{indent}]"
    else:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    return json_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
