"""YAML without surprises: every scalar stays the text that was typed, every value knows its line.

YAML's own guesses are a trap in a file about versions and units: `engine_version: 0.30` would become the number
0.3 and `region: no` a falsehood. So nothing is guessed here; the schema says what each text means.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import yaml

from ullage.errors import InputError

Path = tuple[str | int, ...]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A YAML mapping as nested dicts, lists and texts. `lines` gives the line of every path such as `pool.model`.

    `given` are the paths whose values came with the command and not with the file.
    """

    file: str
    content: dict[str, Any]
    lines: Mapping[Path, int]
    given: Set[Path] = frozenset()

    def place(self, path: Path) -> str:
        """Where a path stands, as people write it: `plan.yaml:12: pool.model`, or `--set pool.model`."""
        if any(path[:cut] in self.given for cut in range(1, len(path) + 1)):
            return f"--set {'.'.join(map(str, path))}"
        known = next((path[:cut] for cut in range(len(path), -1, -1) if path[:cut] in self.lines), ())
        dotted = ".".join(str(part) for part in path)
        line = f":{self.lines.get(known, 1)}" if self.lines else ""
        return f"{self.file}{line}: {dotted}".rstrip(": ")


def read_yaml(text: str, *, file: str) -> Document:
    """Read one mapping; anything else is an InputError with its line."""
    if "\0" in text:
        raise InputError(field=file, value=text[:20], problem="is a binary file", fix="Give a YAML file.")
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise _broken(error, file) from None
    if not isinstance(root, yaml.MappingNode):
        raise InputError(field=file, value=text[:40], problem="is not a mapping", fix="Start with `version: 1`.")
    lines: dict[Path, int] = {}
    content = _value(root, (), lines, file, open_nodes=())
    return Document(file=file, content=content, lines=lines)


def read_value(text: str, *, field: str) -> Any:
    """One value as a plan file would hold it: a text, a list `[a, b]` or a mapping `{a: b}`."""
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise _broken(error, field) from None
    return None if root is None else _value(root, (), {}, field, open_nodes=())


def document_of(content: Mapping[str, Any], *, file: str) -> Document:
    """A plan that was made in Python and not written down: its numbers, dates and truths as a file would have them."""
    return Document(file=file, content={str(key): _as_text(each) for key, each in content.items()}, lines={})


def _as_text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_text(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _value(
    node: yaml.Node,
    path: Path,
    lines: dict[Path, int],
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
            key = str(key_node.value)
            if key in found:
                place = f"{file}:{key_node.start_mark.line + 1}: {'.'.join(map(str, (*path, key)))}"
                raise InputError(field=place, value=key, problem="is given twice", fix="Keep one of them.")
            found[key] = _value(each, (*path, key), lines, file, inner)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, (*path, index), lines, file, inner) for index, each in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return None if node.tag.endswith(":null") else str(node.value)


def _broken(error: yaml.YAMLError, file: str) -> InputError:
    mark = getattr(error, "problem_mark", None)
    place = file if mark is None else f"{file}:{mark.line + 1}"
    problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    return InputError(field=place, value=problem, problem="is not YAML", fix="Mend that line; indent with spaces.")
