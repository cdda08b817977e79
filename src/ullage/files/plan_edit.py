"""A plan file with other values, everything else as it was typed: comments, order, blanks; and the diff to read.

A value that is there is replaced where it stands, a list in brackets as a whole. One that is not is put after the last
key of its section, in the section's own style. Sections that are not there are made.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import yaml

from ullage.errors import InputError


def edited_text(text: str, changes: Sequence[tuple[str, str]], *, file: str) -> str:
    """The text with these values under these keys; entries of a list go by their names."""
    for key, value in changes:
        text = _edited(text, key.split("."), value, file)
    return text


def unified_diff(old: str, new: str, *, file: str, said: Sequence[str] = ()) -> str:
    """What changed, as patch and git read it; sentences before it are for people, and both of them skip them."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{file}", f"b/{file}", n=3
    )
    return "".join(f"# {each}\n" for each in said) + "".join(lines)


def _edited(text: str, path: list[str], value: str, file: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(field=file, value=text[:20], problem="is not a plan file", fix="Give a plan file.")
    node: Any = root
    for place, part in enumerate(path):
        found = _child(node, part)
        if found is None:
            return _inserted(text, node, path[place:], value)
        node = found
    is_list = isinstance(node, yaml.SequenceNode) and node.flow_style
    if not isinstance(node, yaml.ScalarNode) and not is_list:
        problem = "is a section, where one value was expected"
        raise InputError(field=f"{file}: {'.'.join(path)}", value="", problem=problem, fix="Change it by hand.")
    return text[: node.start_mark.index] + value + text[node.end_mark.index :]


def _child(node: Any, part: str) -> Any:
    """What stands under a key, or the entry of a list that has this name."""
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            name = _child(each, "name")
            if isinstance(name, yaml.ScalarNode) and name.value == part:
                return each
    return None


def _inserted(text: str, node: Any, path: list[str], value: str) -> str:
    """The value after the last key of a mapping; what is missing on the way is written in braces."""
    key, *rest = path
    whole = value
    for part in reversed(rest):
        whole = f"{{{part}: {whole}}}"
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise InputError(field=".".join(path), value=value, problem="has no section to go to", fix="Add it by hand.")
    last_key, last = node.value[-1]
    if node.flow_style:
        at = last.end_mark.index
        return f"{text[:at]}, {key}: {whole}{text[at:]}"
    indent = " " * last_key.start_mark.column
    at = _line_end(text, _last_index(last))
    return f"{text[:at]}\n{indent}{key}: {whole}{text[at:]}"


def _last_index(node: Any) -> int:
    """Where the last scalar of a node ends: a block's own end mark lies on the next section."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_index(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _last_index(node.value[-1])
    return int(node.end_mark.index)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found
