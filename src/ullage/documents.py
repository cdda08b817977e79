"""JSON and YAML from outside, within limits that are checked before anything is built from them.

A document nested a hundred thousand deep would overrun the stack, and one of a few lines whose aliases name each other
would unfold into gigabytes. No plan, cluster or report needs either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from ullage.errors import InputError

# The deepest document we know, a cluster's pod with its affinities, has 20 levels.
MOST_LEVELS = 64
# With every alias written out. A List of a thousand pods has 300,000; the largest plan file we know, a thousand.
MOST_VALUES = 2_000_000
# Longer whole numbers count nothing, and no float holds them.
MOST_DIGITS = 300


def json_value(text: str, *, file: str, fix: str) -> Any:
    """The value of a JSON text; Infinity and NaN may stand in it as Python writes them."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        problem = "is nested too deep"
        raise InputError(field=file, value=text[:20], problem=problem, fix=fix) from None
    except json.JSONDecodeError as error:
        place = f"{file}:{error.lineno}"
        raise InputError(field=place, value=_around(text, error.pos), problem="is not JSON", fix=fix) from None
    except ValueError as error:
        raise InputError(field=file, value=text[:20], problem=f"is not JSON ({error})", fix=fix) from None


def check_yaml(text: str, *, file: str, fix: str, most_values: int = MOST_VALUES) -> None:
    """Refuse what is nested too deep or unfolds to too much, with its line, before a value is made of it."""
    levels = [0]
    sizes: dict[str | None, int] = {}
    open_anchors: list[str | None] = []
    for event in _events(text, file, fix):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append(0)
            open_anchors.append(event.anchor)
            if len(levels) > MOST_LEVELS:
                problem = f"is nested deeper than {MOST_LEVELS} levels"
                raise InputError(field=f"{file}:{line}", value=f"{len(levels)} levels", problem=problem, fix=fix)
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = levels.pop() + 1, open_anchors.pop()
            levels[-1] += size
            if anchor is not None:
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            levels[-1] += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            levels[-1] += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        if levels[-1] > most_values:
            problem = f"holds more than {most_values:,} values once its aliases are written out"
            raise InputError(field=f"{file}:{line}", value=f"{levels[-1]:,} values", problem=problem, fix=fix)


def yaml_values(text: str, *, file: str, fix: str) -> list[Any]:
    """The value of every document in a YAML text."""
    check_yaml(text, file=file, fix=fix)
    try:
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise broken_yaml(error, file, fix) from None
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        # A date of month 13, a number of ten thousand digits, a mapping as a key.
        raise InputError(
            field=file, value=str(error), problem="holds a value that is not valid YAML", fix=fix
        ) from None


def broken_yaml(error: yaml.YAMLError, file: str, fix: str) -> InputError:
    """What is wrong, at its line, in the parser's words."""
    mark = getattr(error, "problem_mark", None)
    place = file if mark is None else f"{file}:{mark.line + 1}"
    said = str(getattr(error, "problem", None) or error).splitlines()[0]
    return InputError(field=place, value=said, problem="is not YAML", fix=fix)


@contextmanager
def reading(file: str, *, fix: str) -> Iterator[None]:
    """Whatever a reader refuses is told with its file, and numbers or depths that it cannot hold are refusals too."""
    try:
        yield
    except InputError as error:
        if file.rpartition("/")[2] in str(error):
            raise
        field = f"{file}: {error.field}"
        raise InputError(field=field, value=error.value, problem=error.problem, fix=error.fix) from None
    except RecursionError:
        raise InputError(field=file, value="its depth", problem="is nested too deep", fix=fix) from None
    except OverflowError as error:
        raise InputError(field=file, value=str(error), problem="holds a number that nothing has", fix=fix) from None


def _events(text: str, file: str, fix: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise broken_yaml(error, file, fix) from None
    except UnicodeEncodeError:
        raise InputError(field=file, value=text[:20], problem="is not text", fix=fix) from None


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _around(text: str, position: int) -> str:
    return text[max(0, position - 20) : position + 20]
