"""All fact files of one kind: found by name or alias, searched, and overlaid by a user's own.

A name is looked up without regard to case, spaces, dashes or the vendor in front: `NVIDIA H100 80GB HBM3`,
as nvidia-smi prints it, finds h100-sxm. Where that finds nothing, the short names that people use are tried:
`llama-3.3-70b` for `meta-llama/Llama-3.3-70B-Instruct`. A name that several sheets share is an error that names them.

A user's file lies over ours **value by value**: `h200-sxm.toml` with one value replaces that value and keeps
the rest; a file with a new name is a new entry and must be complete.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ullage.errors import InputError, unknown_name
from ullage.facts.sheet import Sheet, SheetKind, read_sheet

_VENDORS = ("nvidia", "amd", "intel", "google", "aws", "instinct", "tesla")
# Suffixes of repository names for tuning, which users leave out and which change no number here.
_TUNED = ("instruct", "chat", "it", "hf", "base", "meta")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The sheets of one kind by name."""

    kind: SheetKind
    sheets: Mapping[str, Sheet]

    def __iter__(self) -> Iterator[Sheet]:
        return iter(sheet for _, sheet in sorted(self.sheets.items()))

    def __len__(self) -> int:
        return len(self.sheets)

    def find(self, name: str, *, field: str | None = None) -> Sheet:
        """The sheet of this name or alias; an unknown or ambiguous one is an InputError under `field`."""
        field = field or self.kind.noun
        found = self._meant(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                field=field,
                value=name,
                problem=f"can mean {' or '.join(sheet.name for sheet in found)}",
                fix="Say which.",
            )
        known = {*self.sheets, *(alias.lower() for sheet in self for alias in sheet.aliases)}
        raise unknown_name(field=field, name=name, known=known, fix=f"Add one: {self.kind.howto}")

    def may_find(self, name: str) -> Sheet | None:
        """The one sheet of this name or alias; None where there is none, or several."""
        found = self._meant(name)
        return found[0] if len(found) == 1 else None

    def _meant(self, name: str) -> list[Sheet]:
        """The sheets that a name can mean: those it names outright, else by alias, else as people shorten it."""
        wanted = bare_name(name)
        exact = self.sheets.get(name.strip().lower()) or self.sheets.get(wanted)
        if exact is not None:
            return [exact]
        short = short_name(name)
        return [sheet for sheet in self if wanted in _bare_names(sheet)] or [
            sheet for sheet in self if short in {short_name(each) for each in _names(sheet)}
        ]

    def alternatives(self, name: str) -> tuple[str, ...]:
        """Other sheets that a name such as `h100` could have meant, beside the one it finds: h100-nvl, h100-pcie."""
        found, wanted = self.find(name), bare_name(name)
        return tuple(each.name for each in self if each is not found and each.name.startswith(f"{wanted}-"))

    def search(self, text: str) -> tuple[Sheet, ...]:
        """The sheets in whose name, aliases or texts every word of `text` stands, in order of name."""
        words = text.lower().split()
        return tuple(sheet for sheet in self if all(word in _searchable(sheet) for word in words))

    def overlaid(self, files: Mapping[str, str]) -> Catalogue:
        """This catalogue with a user's files on top: file name -> text, for example {"h200-sxm.toml": "..."}."""
        sheets = dict(self.sheets)
        for file, text in sorted(files.items()):
            name = _sheet_name(file)
            below = sheets.get(name)
            shown = f"{self.kind.folder}/{file}"
            sheet = read_sheet(text, name=name, kind=self.kind, file=shown, partial=below is not None)
            sheets[name] = sheet if below is None else sheet.over(below)
        return Catalogue(kind=self.kind, sheets=sheets)


def packaged(kind: SheetKind) -> Catalogue:
    """The facts of this kind that come with ullage; keep the result, reading them takes a moment."""
    directory = importlib.resources.files("ullage.facts") / kind.folder
    files = {each.name: each.read_text(encoding="utf-8") for each in directory.iterdir() if each.name.endswith(".toml")}
    return Catalogue(kind=kind, sheets={}).overlaid(files)


def bare_name(name: str) -> str:
    """A name as it is compared: lower case, words joined by one dash, no vendor in front.

    >>> bare_name("NVIDIA H100 80GB HBM3")
    'h100-80gb-hbm3'
    """
    words = re.findall(r"[a-z0-9.]+", name.lower())
    while len(words) > 1 and words[0] in _VENDORS:
        words = words[1:]
    return "-".join(words)


def short_name(name: str) -> str:
    """A name as people shorten it: no repository's owner, no words for how it was tuned, no dashes.

    >>> short_name("meta-llama/Llama-3.3-70B-Instruct"), short_name("llama3.3:70b")
    ('llama3.370b', 'llama3.370b')
    """
    words = re.findall(r"[a-z0-9.]+", name.lower().rpartition("/")[2])
    kept = [each for each in words if each not in (*_VENDORS, *_TUNED)]
    return "".join(kept or words)


def _names(sheet: Sheet) -> tuple[str, ...]:
    return (sheet.name, *sheet.aliases)


def _bare_names(sheet: Sheet) -> set[str]:
    return {bare_name(each) for each in _names(sheet)}


def _searchable(sheet: Sheet) -> str:
    return " ".join((sheet.name, *sheet.aliases, *sheet.texts.values())).lower()


def _sheet_name(file: str) -> str:
    name = file.removesuffix(".toml")
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        fix = "Name it in lower case with digits, dots and dashes, for example h200-sxm.toml."
        raise InputError(field="facts file", value=file, problem="is not a name for a fact file", fix=fix)
    return name
