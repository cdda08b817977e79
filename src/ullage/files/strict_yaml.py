"""YAML without surprises: every scalar stays the text that was typed, every value knows its line.

YAML's own guesses are a trap in a file about versions and units: `engine_version: 0.30` would become the number
0.3 and `region: no` a falsehood. So nothing is guessed here; the schema says what each text means.
"""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import yaml

from ullage.documents import MOST_LEVELS, broken_yaml, check_yaml
from ullage.errors import InputError

# The longest plan file we know has 9,000 characters.
MOST_CHARACTERS = 1_000_000
MOST_VALUES = 100_000
_FIX = "Fix that line; indent with spaces."
# Control characters, and halves of characters.
_HIDDEN = ("Cc", "Cs")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A mapping as nested dicts, lists and texts. `lines` gives the line of every path such as `pool.model`.

    A plan that was never a file has no lines. `options` gives the option that a path was stated by, in place of a line.
    """

    file: str
    content: dict[str, Any]
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    options: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)

    def place(self, path: tuple[str | int, ...]) -> str:
        """Where a path stands, as people write it: `plan.yaml:12: pool.model`, or the option that stated it."""
        dotted = self._dotted(path)
        parts = [path[:cut] for cut in range(len(path), -1, -1)]
        stated = next((each for each in parts if each in self.options), None)
        if stated is None and path not in self.lines:
            # What an option made has no line: it comes from that option.
            stated = next((each for each in self.options if path and each[: len(path)] == path), None)
        if stated is not None:
            option = self.options[stated]
            return option if stated == path else f"{option}: {dotted}"
        if not self.lines:
            return f"{self.file}: {dotted}".rstrip(": ")
        known = next((each for each in parts if each in self.lines), ())
        return f"{self.file}:{self.lines.get(known, 1)}: {dotted}".rstrip(": ")

    def _dotted(self, path: tuple[str | int, ...]) -> str:
        """The path as --set takes it: entries of a list by their names, where they have any."""
        parts: list[str] = []
        place: Any = self.content
        for part in path:
            is_there = isinstance(place, dict) and part in place
            is_there |= isinstance(place, list) and isinstance(part, int) and part < len(place)
            place = place[part] if is_there else None
            name = place.get("name", place.get("class")) if isinstance(part, int) and isinstance(place, dict) else None
            parts.append(name if isinstance(name, str) else str(part))
        return ".".join(parts)


def read_yaml(text: str, *, file: str) -> Document:
    """Read one mapping; anything else is an InputError with its line."""
    if "\0" in text:
        raise InputError(field=file, value=text[:20], problem="is a binary file", fix="Give a YAML file.")
    if len(text) > MOST_CHARACTERS:
        fix = "Give a plan file; a trace or a load test is named in it by its path."
        problem = f"is longer than the {MOST_CHARACTERS:,} characters that a plan file may have"
        raise InputError(field=file, value=f"{len(text):,} characters", problem=problem, fix=fix)
    check_yaml(text, file=file, fix=_FIX, most_values=MOST_VALUES)
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise broken_yaml(error, file, _FIX) from None
    if not isinstance(root, yaml.MappingNode):
        raise InputError(field=file, value=text[:40], problem="is not a mapping", fix="Start with `version: 1`.")
    lines: dict[tuple[str | int, ...], int] = {}
    content = _value(root, (), lines, file, open_nodes=())
    return Document(file=file, content=content, lines=lines)


def read_scalar(text: str, *, field: str) -> Any:
    """One value as it would stand in a file: a text, or a list or mapping in brackets; nothing at all is None."""
    if not text.strip().startswith(("[", "{")):
        return text.strip() or None
    return read_yaml(f"value: {text}", file=field).content["value"]


# Longer whole numbers count nothing, and Python does not write them out.
_MOST_BITS = 1024


def as_texts(value: Any, *, levels: int = 0) -> Any:
    """A value of a program as a file would say it: numbers, dates and paths become texts; the limits are a file's."""
    if levels > MOST_LEVELS:
        problem = f"is nested deeper than {MOST_LEVELS} levels, or holds itself"
        raise InputError(
            field="plan", value=f"{levels} levels", problem=problem, fix="Give a plan as its file says it."
        )
    if isinstance(value, Mapping):
        return {str(key): as_texts(each, levels=levels + 1) for key, each in value.items()}
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        problem = "has more digits than any number of a plan"
        raise InputError(field="plan", value="a whole number", problem=problem, fix="Correct it.")
    if isinstance(value, int | float | PurePath):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_texts(each, levels=levels + 1) for each in value]
    return value


def _value(
    node: yaml.Node,
    path: tuple[str | int, ...],
    lines: dict[tuple[str | int, ...], int],
    file: str,
    open_nodes: tuple[int, ...],
) -> Any:
    if id(node) in open_nodes:
        raise InputError(
            field=f"{file}:{node.start_mark.line + 1}", value="*", problem="refers to itself", fix="Write it out."
        )
    lines[path] = node.start_mark.line + 1
    inner = (*open_nodes, id(node))
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, each in node.value:
            key = _text(key_node, (*path, "?"), file)
            if key in found:
                place = f"{file}:{key_node.start_mark.line + 1}: {'.'.join(map(str, (*path, key)))}"
                raise InputError(field=place, value=key, problem="is given twice", fix="Keep one of them.")
            found[key] = _value(each, (*path, key), lines, file, inner)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, (*path, index), lines, file, inner) for index, each in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return None if node.tag.endswith(":null") else _text(node, path, file)


def _text(node: yaml.Node, path: tuple[str | int, ...], file: str) -> str:
    """A text of one line: that of several lines is joined, and one with control characters is no name."""
    place = f"{file}:{node.start_mark.line + 1}: {'.'.join(map(str, path))}"
    if not isinstance(node, yaml.ScalarNode):
        raise InputError(field=place, value="?", problem="is not a name of a key", fix="Write the key as a text.")
    written = str(node.value)
    if written.isprintable():
        return written
    hidden = next((each for each in written if unicodedata.category(each) in _HIDDEN and each not in "\n\r\t"), None)
    if hidden is not None:
        problem = f"holds the control character U+{ord(hidden):04X}"
        raise InputError(field=place, value=written, problem=problem, fix="Write it without.")
    return " ".join(written.split()) if any(each in written for each in "\n\r\t") else written
