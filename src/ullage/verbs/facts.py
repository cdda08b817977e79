"""`facts`: what is known about devices, models and engines, with sources and ages."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.execute.run import today
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.facts.sheet import Sheet, SheetKind


@dataclass(frozen=True, kw_only=True, repr=False)
class Facts(VerbAnswer):
    """The sheets that were asked for. `is_one` says that a name was given and found."""

    kind: SheetKind
    sheets: tuple[Sheet, ...]
    as_of: datetime.date
    is_one: bool

    def headlines(self) -> tuple[Headline, ...]:
        return (Headline(name=self.kind.folder, value=", ".join(each.name for each in self.sheets)),)

    def page(self) -> list[RenderableType]:
        from ullage.report.facts_page import list_page, one_page

        return one_page(self.kind, self.sheets[0], self.as_of) if self.is_one else list_page(self.kind, self.sheets)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import document

        return document("facts", self, as_of=self.as_of)


def facts(
    kind: str, name: str | None = None, *, directory: str | Path | None = None, as_of: datetime.date | None = None
) -> Facts:
    """The facts of a kind: all, the one called `name`, or those in which every word of `name` stands.

    `directory` holds the user's own facts, which lie over ours value by value.
    """
    from ullage.errors import InputError, check_name
    from ullage.load.names import KINDS, load_catalogue

    check_name(kind, KINDS, field="kind")
    catalogue = load_catalogue(kind, None if directory is None else Path(directory))
    day = today(as_of)
    if name is None:
        return Facts(kind=catalogue.kind, sheets=tuple(catalogue), as_of=day, is_one=False)
    try:
        return Facts(kind=catalogue.kind, sheets=(catalogue.find(name),), as_of=day, is_one=True)
    except InputError:
        found = catalogue.search(name)
        if not found:
            raise
        return Facts(kind=catalogue.kind, sheets=found, as_of=day, is_one=False)
