"""Values of an autoscaler as Kubernetes writes them, within what its controller would take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from ullage.errors import InputError

_SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_QUANTITY = re.compile(r"^([+-]?\d{1,30}(?:\.\d{1,30})?)(?:([eE][+-]?\d{1,2})|(m|k|Ki|M|Mi|G|Gi))?$")
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def quantity(value: Any, field: str) -> float:
    """A number from 0 on: 100m, 2, 1.5e3, 1Ki."""
    match = _QUANTITY.match(str(value).strip())
    if match is None or isinstance(value, bool):
        raise InputError(field=field, value=value, problem="is not a quantity", fix="Give for example 2 or 500m.")
    found = float(match.group(1) + (match.group(2) or "")) * _SUFFIXES[match.group(3) or ""]
    if found < 0.0:
        raise InputError(field=field, value=value, problem="is below 0", fix="Give for example 2 or 500m.")
    return found


def target(value: Any, field: str) -> float:
    """What a metric is divided by: a thousandth at least, which is the finest that a controller counts in."""
    found = quantity(value, field)
    if found < 0.001:
        raise InputError(
            field=field,
            value=value,
            problem="must be above 0",
            fix="Give for example 2 or 500m.",
        )
    return found


def duration(value: Any, field: str, *, least_s: float = 0.0) -> float:
    match = re.match(r"^(\d{1,9}(?:\.\d{1,9})?)(s|m|h)?$", str(value).strip())
    found = None if match is None else float(match.group(1)) * _UNITS_S[match.group(2) or ""]
    if found is None or found < least_s:
        problem = "is not a duration" if found is None else f"is shorter than {least_s:g} s"
        raise InputError(field=field, value=value, problem=problem, fix="Give for example 60s.")
    return found


def section(value: Any, field: str) -> Mapping[str, Any]:
    """A mapping; one that is left out is empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(field=field, value=value, problem="is not a mapping", fix="Give keys and values.")
    return value


def check_bounds(least: int, most: int, field: str) -> None:
    """`field` is the maximum's."""
    if most < 1 or most < least:
        problem = "is no maximum" if most < 1 else f"is below the minimum, {least}"
        raise InputError(field=field, value=most, problem=problem, fix=f"Give {max(1, least)} or more.")


# ---- where it stands ---------------------------------------------------------------------------------------


def at_line(error: InputError, texts: Mapping[str, str]) -> InputError:
    """The same refusal with the line of its file: that of the key, or of the nearest thing around it that is there."""
    file = next((each for each in texts if error.field.startswith(f"{each}: ")), None)
    if file is None:
        return error
    said = error.field.removeprefix(f"{file}: ")
    for node in _objects(yaml.compose_all(texts[file], Loader=yaml.CSafeLoader)):
        name = f"{_scalar(node, 'kind')} {_scalar(node, 'metadata', 'name')}"
        rest = said.removeprefix(name)
        if rest != said and rest[:1] in ("", ".", ":"):
            line = _nearest(node, rest.lstrip(".: ").split(".")).start_mark.line + 1
            return InputError(
                field=f"{file}:{line}: {said}", value=error.value, problem=error.problem, fix=error.fix
            )  # fmt: skip
    return error


def _objects(nodes: Any) -> Any:
    for node in nodes:
        items = _child(node, "items")
        if isinstance(items, yaml.SequenceNode) and _scalar(node, "kind").endswith("List"):
            yield from _objects(items.value)
        elif isinstance(node, yaml.MappingNode):
            yield node


def _child(node: Any, step: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)]
    return None


def _scalar(node: Any, *path: str) -> str:
    for step in path:
        node = _child(node, step)
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _nearest(node: Any, path: list[str]) -> Any:
    for step in path:
        inner = _child(node, step)
        if inner is None:
            return node
        node = inner
    return node
