"""What a verb hands back: one line at a prompt, a page in a notebook, a dict for a program, tables as data frames."""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, Rejection, check_name
from ullage.foreign import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ullage.evidence import Assumption, Figure

# As wide as a notebook's cell on a laptop.
_HTML_WIDTH = 110
FRAME_LIBRARIES = ("pandas", "polars")


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One of the few figures by which an answer is known, and compared with another."""

    name: str
    value: int | float | str
    unit: str = ""

    @property
    def text(self) -> str:
        from ullage.report.quantity import show

        return show(self.value, self.unit)


class VerbAnswer:
    """The base of every verb's answer. A verb says what its headlines, its page and its document are."""

    def headlines(self) -> tuple[Headline, ...]:
        """The figures that a reader asks for first."""
        raise NotImplementedError

    def page(self) -> list[RenderableType]:
        """What the command line prints."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """What the command line prints with --json."""
        raise NotImplementedError

    def printed(self) -> object:
        """The value that `to_dict()` prints: the answer itself, where a verb says nothing else."""
        return self

    def dated(self) -> datetime.date:
        """The day on which the ages in this answer are counted."""
        raise NotImplementedError

    def beside(self, before: VerbAnswer) -> str:
        """The change from another answer of the verb in a sentence, where the verb has one to say."""
        del before
        return ""

    def explained(self, name: str) -> Figure | Assumption:
        """The number that `to_dict()` prints by this name, or one behind it; an unknown name is answered with the
        nearest."""
        from ullage.evidence import by_name
        from ullage.report.encode import numbers_in

        printed = tuple(numbers_in(self.printed()))
        # What stands behind a number may have its name in another candidate; what is printed goes first.
        known = by_name(printed) | {each.name: each for each in printed}
        check_name(name, known, field="--explain", fix="--json lists every name.")
        return known[name]

    def frame(self, name: str, *, library: str | None = None) -> Any:
        """A table of `to_dict()` as a data frame of pandas or polars, whichever is installed; `tables` lists them."""
        tables = self.tables
        check_name(name, tables, field="table")
        return _frame_library(library).DataFrame(tables[name])

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The tables in `to_dict()`, by name: lists of rows, and mappings whose entries are rows called by name."""
        found = {}
        for key, value in self.to_dict().items():
            if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
                found[key] = [_flat(each) for each in value]
            elif isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
                found[key] = [{"name": name, **_flat(each)} for name, each in value.items()]
        return found

    def __repr__(self) -> str:
        said = ", ".join(f"{each.name} {each.text}" for each in self.headlines())
        return f"<{type(self).__name__}: {visible(said)}>"

    def _repr_html_(self) -> str:
        import io

        from rich.console import Console

        from ullage.report.foreign_parts import seen_parts

        sheet = io.StringIO()
        console = Console(
            file=sheet, record=True, width=_HTML_WIDTH, color_system="truecolor", markup=False, emoji=False
        )
        for part in seen_parts(self.page()):
            console.print(part)
        style = "font-family: monospace; line-height: 1.2"
        return console.export_html(inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>')


@dataclass(frozen=True, kw_only=True, repr=False)
class Refusal(VerbAnswer, Rejection):
    """A refusal: where, why, by which figure, and what would help."""

    def headlines(self) -> tuple[Headline, ...]:
        return (Headline(name="refused at", value=self.stage), Headline(name="because", value=self.reason))

    def page(self) -> list[RenderableType]:
        from ullage.report.refusal import refusal_page

        return refusal_page(self)

    def to_dict(self) -> dict[str, Any]:
        from ullage.report.encode import refusal_json

        return refusal_json(self)


def refusal(rejection: Rejection) -> Refusal:
    """A refusal of the core as an answer."""
    return Refusal(**vars(rejection))


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of plain cells: what is nested stands under joined names, and a list is one cell of text."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": each for inner, each in _flat(value).items()}
        elif isinstance(value, list):
            found[key] = ", ".join(str(each) for each in value)
        else:
            found[key] = value
    return found


def _frame_library(name: str | None) -> Any:
    known = (name,) if name is not None else FRAME_LIBRARIES
    for each in known:
        if each in FRAME_LIBRARIES and importlib.util.find_spec(each) is not None:
            return importlib.import_module(each)
    raise InputError(
        field="library",
        value=name or "not installed",
        problem=f"there is no {' and no '.join(known)} to make a data frame with",
        fix="Install pandas or polars, or take the rows from .tables.",
    )
