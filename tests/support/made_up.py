"""Answers made up from the types of their fields, for pages: fields differ in their numbers, and a text is its name.

Whatever a page prints of such an answer can be traced to the field it came from, at the cost of no simulation. A
number follows from the name of its field and from how often that name came before, so that a new field leaves the
numbers of all others as they were.
"""

from __future__ import annotations

import ast
import datetime
import functools
import inspect
import sys
import types
import typing
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from support.planned import SOURCE, read, stated
from ullage.evidence import Assumption, Evidence, Figure, Source

Made = TypeVar("Made")
_FIRST_DAY = datetime.date(2026, 11, 1)


class MadeUp:
    """Makes values one after the other; `given` are those of fields that must be something in particular, by name.

    A `bare` one leaves away what may be left away: None wherever that is possible, every flag unset, the last of kinds.
    """

    def __init__(self, *, is_bare: bool = False, **given: Any) -> None:
        self._given = given
        self._is_bare = is_bare
        self._counts: Counter[str] = Counter()

    def __call__(self, made: type[Made], **given: Any) -> Made:
        """Each field when it is first asked for, so that what nobody looks at takes no number.

        What a value checks of itself when it is made is not asked: it would refuse most numbers.
        """
        hints = _hints(typing.cast("Any", made))
        own = {**self._given, **given}

        def field(name: str) -> functools.cached_property[Any]:
            return functools.cached_property(lambda _: own[name] if name in own else self._value(hints[name], name))

        names = {each.name: field(each.name) for each in fields(made)}  # type: ignore[arg-type]
        return object.__new__(type(made.__name__, (made,), names))

    def _count(self, name: str) -> int:
        self._counts[name] += 1
        return 100 + zlib.crc32(name.encode()) % 800 + self._counts[name]

    def _value(self, hint: Any, name: str) -> Any:
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            if self._is_bare and type(None) in inner:
                return None
            return self._value(next(each for each in inner if each is not type(None)), name)
        if origin is tuple and inner[-1:] != (...,):
            return tuple(self._value(each, name) for each in inner)
        if origin in (tuple, list, frozenset) or (isinstance(origin, type) and issubclass(origin, Sequence)):
            return tuple(self._value(inner[0], name) for _ in range(2))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {} if name == "figures" else {self._value(inner[0], name): self._value(inner[1], name) for _ in "ab"}
        if origin is typing.Literal:
            return inner[-1 if self._is_bare else 0]
        return self._one(origin or hint, name)

    def _one(self, kind: Any, name: str) -> Any:
        if not isinstance(kind, type):
            return object()
        if kind is bool:
            return not self._is_bare
        if issubclass(kind, Enum):
            return list(kind)[-1 if self._is_bare else 0]
        if kind is Source:
            return SOURCE
        if kind is Figure:
            return read(name, self._count(name), "s", Evidence.MEASURED)
        if kind is Assumption:
            return stated(name, self._count(name), "s")
        if issubclass(kind, tuple):
            return kind(**{each: self._value(inner, each) for each, inner in typing.get_type_hints(kind).items()})
        return self(kind) if is_dataclass(kind) else _plain(kind, name, self._count(name))


def _plain(kind: Any, name: str, count: int) -> Any:
    if kind is float:
        return count / 1000 if name.endswith("_fraction") else count + count / 100
    made = {
        int: count,
        str: f"{name.replace('_', ' ')} {count}",
        datetime.date: _FIRST_DAY + datetime.timedelta(days=count),
        datetime.timedelta: datetime.timedelta(days=count),
        np.ndarray: np.array([count, count + 0.5]),
    }
    # What a page does not look into, such as a model of step times, is an object that has nothing.
    return made.get(kind, object())


@functools.cache
def _hints(made: type) -> dict[str, Any]:
    """With the names that a module imports for its types alone."""
    names: dict[str, Any] = {}
    for base in made.__mro__[:-1]:
        for node in ast.parse(inspect.getsource(sys.modules[base.__module__])).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                exec(compile(ast.Module(node.body, []), base.__module__, "exec"), names)
    return typing.get_type_hints(made, localns=names)
