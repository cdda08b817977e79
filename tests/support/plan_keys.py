"""The keys of a plan file as a page of the reference, made from the sections so that none can be forgotten."""

from __future__ import annotations

from ullage.files.keys import KeyRow
from ullage.files.plan_file import key_rows

HEAD = """\
# Keys of a plan file

Every key, in the order of the sections; `[]` stands for each entry of a list, `{}` for a name of yours. What is not \
needed has a default, which the plan lists as `assumed`; where the default is a value, its source stands below the \
table. *Moves* is the figure of the plan that follows the key, the check of `ullage check` or the part of \
`ullage options`; a key that moves no figure says why. Written by `make docs-record` from the code that reads the \
file, and every row is tested: setting the key changes what it says it changes. [plan-file](plan-file.md) explains how \
they work together.

| key | value | default | meaning | moves |
|---|---|---|---|---|
"""


def page() -> str:
    rows = key_rows()
    sources = list(dict.fromkeys(each.source for each in rows if each.source))
    listed = "".join(f"{number}. {each}\n" for number, each in enumerate(sources, 1))
    return HEAD + "".join(_line(each, sources) for each in rows) + f"\nSources of defaults:\n\n{listed}"


def _line(row: KeyRow, sources: list[str]) -> str:
    key = row.key
    number = f" ({sources.index(row.source) + 1})" if row.source else ""
    default = "needed" if row.is_needed else row.default if row.is_worded or not row.default else f"`{row.default}`"
    moves = "" if key is None else f"`{key.moves}`" if key.moves else key.still
    cells = (f"`{row.path}`", row.kind, f"{default}{number}", row.meaning, moves)
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"
