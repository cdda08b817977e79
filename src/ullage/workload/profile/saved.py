"""A profile as plain values for JSON, and back: what is saved can be read, and reads the same.

Numbers are kept to nine significant digits: the order in which threads add does not reach there, so that one
input gives one file, byte for byte.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

from ullage.errors import InputError
from ullage.workload.profile.profile import Profile

SCHEMA = "ullage.profile/2"
# The metadata of a document beside the profile.
_HEAD = frozenset({"schema", "as_of"})


def from_plain(plain: Mapping[str, object], *, where: str = "profile") -> Profile:
    """The profile that was saved; an error that names the place where the values do not fit."""
    schema = plain.get("schema")
    if schema != SCHEMA:
        raise InputError(
            field=f"{where}.schema",
            value=schema,
            problem="is not a profile this version reads",
            fix=f"Save it again with `ullage profile TRACE --save FILE`; this version writes {SCHEMA}.",
        )
    rest = {key: value for key, value in plain.items() if key not in _HEAD}
    return typing.cast("Profile", _typed(Profile, rest, where))


def _typed(kind: Any, value: object, where: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _typed(next(each for each in arguments if each is not type(None)), value, where)
    if origin is tuple and isinstance(value, list) and (arguments[-1] is Ellipsis or len(value) == len(arguments)):
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(
            _typed(each, one, f"{where}[{at}]") for at, (each, one) in enumerate(zip(kinds, value, strict=True))
        )
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _record(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum) and value in [each.value for each in kind]:
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    raise InputError(field=where, value=value, problem="does not fit a saved profile", fix="Save the profile again.")


def _record(kind: type, value: dict[str, object], where: str) -> object:
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    odd = sorted(names.symmetric_difference(value))
    if odd:
        raise InputError(
            field=f"{where}.{odd[0]}",
            value=value.get(odd[0]),
            problem="is missing" if odd[0] in names else "is not part of a profile",
            fix="Save the profile again with this version.",
        )
    return kind(**{name: _typed(hints[name], value[name], f"{where}.{name}") for name in sorted(names)})
