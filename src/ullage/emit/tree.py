"""Documents as trees of plain values, some with the reason for them, and the YAML text of such a tree.

A reason stands behind its value where the line has room, and above it where it has not. Nothing but mappings, lists,
texts, whole numbers, floats and truth values occurs, so that the text is the same for the same tree, and reads back as
the tree without its reasons.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.foreign import visible

WIDTH = 120
# A word that YAML of any version reads as a text; whatever else is a text is quoted.
_WORD = re.compile(r"^[A-Za-z/][A-Za-z0-9_./-]*$")
_NO_TEXTS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True, kw_only=True)
class Reasoned:
    """A value of a document, and why it is what it is."""

    value: Any
    why: str


@dataclass(frozen=True, kw_only=True)
class EmittedFile:
    """One file of a set: its name in the folder, and its whole text."""

    name: str
    text: str


def plain(tree: Any) -> Any:
    """The tree as a reader of the file has it: without reasons."""
    if isinstance(tree, Reasoned):
        return plain(tree.value)
    if isinstance(tree, Mapping):
        return {key: plain(each) for key, each in tree.items()}
    return [plain(each) for each in tree] if isinstance(tree, Sequence) and not isinstance(tree, str) else tree


def yaml_text(head: Sequence[str], *documents: Any) -> str:
    """YAML of these documents, below a head of comments.

    >>> tree = {"spec": {"replicas": Reasoned(value=3, why="as planned"), "on": ["yes", 1.5]}}
    >>> print(yaml_text(["Why."], tree), end="")
    # Why.
    spec:
      replicas: 3  # as planned
      "on":
        - "yes"
        - 1.5
    """
    lines = [each for line in head for each in _comment(line, "")]
    for number, document in enumerate(documents):
        lines += ["---"] if number else []
        lines += _block(document, "")
    return "\n".join(lines) + "\n"


def _block(tree: Any, indent: str) -> Iterator[str]:
    """The lines of a mapping or a list."""
    tree = _bare(tree)
    if isinstance(tree, Mapping):
        for key, each in tree.items():
            yield from _entry(f"{_text(str(key))}:", each, indent)
    else:
        for each in tree:
            yield from _entry("-", each, indent)


def _entry(lead: str, tree: Any, indent: str) -> Iterator[str]:
    why = tree.why if isinstance(tree, Reasoned) else ""
    value = _bare(tree)
    if _is_nested(value) and value:
        if why:
            yield from _comment(why, indent)
        lines = list(_block(value, f"{indent}  "))
        # The first key of a list's entry stands behind its dash, unless a comment comes before it.
        if lead == "-" and isinstance(value, Mapping) and not lines[0].lstrip().startswith("#"):
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]
        else:
            yield f"{indent}{lead}"
            yield from lines
        return
    if isinstance(value, str) and "\n" in value:
        if why:
            yield from _comment(why, indent)
        yield f"{indent}{lead} |-"
        yield from (f"{indent}  {line}".rstrip() for line in value.split("\n"))
        return
    line = f"{indent}{lead} {_scalar(value)}"
    if why and len(line) + len(why) + 4 <= WIDTH:
        yield f"{line}  # {visible(why)}"
        return
    if why:
        yield from _comment(why, indent)
    yield line


def _bare(tree: Any) -> Any:
    while isinstance(tree, Reasoned):
        tree = tree.value
    return tree


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str))


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        visible(text), width=WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ",
        break_long_words=False, break_on_hyphens=False,
    ) or [f"{indent}#"]  # fmt: skip


def _text(text: str) -> str:
    return text if _WORD.match(text) and text.lower() not in _NO_TEXTS else json.dumps(text)


def _scalar(value: Any) -> str:
    if _is_nested(value):
        return "{}" if isinstance(value, Mapping) else "[]"
    if isinstance(value, str):
        return _text(value)
    written = json.dumps(value)
    # An exponent without a point is a text to YAML 1.1.
    return (
        written.replace("e", ".0e") if isinstance(value, float) and "e" in written and "." not in written else written
    )
