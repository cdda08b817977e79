"""A number walked back to its sources, as a tree."""

from __future__ import annotations

import datetime

from rich.text import Text
from rich.tree import Tree

from ullage.evidence import Assumption, Figure, Source, walk
from ullage.report.evidence_style import evidence_text
from ullage.report.quantity import show


def explanation(root: Figure | Assumption, as_of: datetime.date) -> Tree:
    """The tree under this number; a branch met before is named, not repeated."""
    trees: list[Tree] = []
    met: set[Figure | Assumption | Source] = set()
    skip_below: int | None = None
    for depth, each in walk(root):
        if skip_below is not None and depth > skip_below:
            continue
        again = each in met and not isinstance(each, Source)
        skip_below = depth if again else None
        met.add(each)
        label = _label(each, as_of)
        if again:
            label.append(" (explained above)", style="dim")
        branch = Tree(label) if not trees else trees[depth - 1].add(label)
        trees[depth:] = [branch]
    return trees[0]


def _label(each: Figure | Assumption | Source, as_of: datetime.date) -> Text:
    if isinstance(each, Source):
        return Text(f"source: {each.what}; {each.where}; {each.date.isoformat()}", style="dim")
    text = Text(f"{each.name} = {show(each.value, each.unit)} ")
    text.append_text(evidence_text(each.evidence))
    if isinstance(each, Assumption):
        return text.append(_range(each) + (" past its maximum age" if each.is_stale(as_of) else ""), style="dim")
    return text.append(f"  {each.formula}" if each.formula else "", style="italic")


def _range(each: Assumption) -> str:
    if each.low is None or each.high is None or each.low == each.high:
        return ""
    return f" (from {show(each.low, each.unit)} to {show(each.high, each.unit)})"
