"""`facts`: what is known about devices, models and engines, with sources and ages."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.facts.catalogue import Catalogue
    from ullage.facts.model import Model
    from ullage.facts.sheet import Sheet, SheetKind

KINDS = ("devices", "models", "engines", "startups", "efficiencies", "operations", "prices")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The sheets that were asked for. `is_one` says that a name was given and found."""

    kind: SheetKind
    sheets: tuple[Sheet, ...]
    as_of: datetime.date
    is_one: bool


def facts(
    kind: str, name: str | None = None, *, directory: Path | None = None, as_of: datetime.date | None = None
) -> Facts:
    """The facts of a kind: all, the one called `name`, or those in which every word of `name` stands.

    `directory` holds the user's own facts, which lie over ours value by value.
    """
    from ullage.errors import InputError, unknown_name

    if kind not in KINDS:
        raise unknown_name(field="kind", name=kind, known=KINDS)
    catalogue = catalogue_of(kind, directory)
    day = as_of or datetime.datetime.now(tz=datetime.UTC).date()
    if name is None:
        return Facts(kind=catalogue.kind, sheets=tuple(catalogue), as_of=day, is_one=False)
    try:
        return Facts(kind=catalogue.kind, sheets=(catalogue.find(name),), as_of=day, is_one=True)
    except InputError:
        found = catalogue.search(name)
        if not found:
            raise
        return Facts(kind=catalogue.kind, sheets=found, as_of=day, is_one=False)


def catalogue_of(kind: str, directory: Path | None) -> Catalogue:
    """The packaged catalogue of a kind, with a user's directory over it where one is given."""
    from ullage.files.facts_directory import read_facts_directory

    packaged = _packaged(kind)
    if directory is None:
        return packaged
    return packaged.overlaid(read_facts_directory(directory).get(packaged.kind.folder, {}))


def model_of(model: str | Path, directory: Path | None = None) -> Model:
    """A model by path where there is a config there, else by its name in the catalogue."""
    from ullage.facts.model_sheet import find_model
    from ullage.readers.models import read_model

    path = Path(model)
    if isinstance(model, Path) or path.suffix == ".json" or (path / "config.json").is_file():
        return read_model(path)
    return find_model(model, catalogue_of("models", directory))


def _packaged(kind: str) -> Catalogue:
    if kind == "devices":
        from ullage.facts.device import devices

        return devices()
    if kind == "engines":
        from ullage.facts.engine import engines

        return engines()
    if kind == "prices":
        from ullage.facts.price import prices

        return prices()
    if kind == "startups":
        from ullage.facts.startup import startups

        return startups()
    if kind == "efficiencies":
        from ullage.facts.efficiency import efficiencies

        return efficiencies()
    if kind == "operations":
        from ullage.facts.operations import operations

        return operations()
    from ullage.facts.model_sheet import models

    return models()
