"""Texts cut to the room that a line has, so that what is left still says what it says."""

from __future__ import annotations

import re

from ullage.foreign import visible

# Cut where a sentence or a clause ends if that leaves as much of the room.
_LEAST_KEPT_FRACTION = 0.85


def clean(foreign: str, most: int = 24) -> str:
    """A user's text on one line: no control characters, no more of it than its place has room for.

    >>> clean("a\\x1b[31m\\nname that goes on", 12)
    'a\ufffd[31m name…'
    """
    return cut(" ".join(visible(foreign).split()), most)


def cut(text: str, most: int) -> str:
    """No more than there is room for. A number that does not fit is left out: its first digits are another number.

    >>> cut("1 to 26 replicas", 7), cut("of 2026-08-22", 9), cut("p95 in all", 4)
    ('1 to…', 'of…', 'p95…')
    """
    if len(text) <= most:
        return text
    kept = text[: max(0, most - 1)]
    if text[len(kept)].isdigit() or re.match(r"[.,:-]\d", text[len(kept) :]):
        kept = re.sub(r"[\d.,:-]*\Z", "", kept)
    return f"{kept.rstrip()}…"


def cut_at_clause(text: str, most: int) -> str:
    """No more than there is room for, up to the end of a sentence or clause, or of a word where none ends near it.

    >>> cut_at_clause("One says this and that. Two says more.", 25)
    'One says this and that. …'
    >>> cut_at_clause("One says this and that and more.", 20)
    'One says this and…'
    """
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    clause = max(kept.rfind(". "), kept.rfind("; "))
    if clause >= _LEAST_KEPT_FRACTION * most:
        return f"{kept[: clause + 1]} …"
    word = kept.rfind(" ")
    return f"{kept[:word].rstrip(',;')}…" if word > 0 else cut(text, most)
