"""Models, devices and catalogues by name, with a user's own facts over ours."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ullage.evidence import Assumption
    from ullage.facts.catalogue import Catalogue
    from ullage.facts.model import Model

KINDS = ("devices", "models", "engines", "startups", "efficiencies", "operations", "prices")


def load_catalogue(kind: str, directory: Path | None = None) -> Catalogue:
    """The packaged catalogue of a kind, with a user's directory over it where one is given."""
    from ullage.files.facts_directory import read_facts_directory

    packaged = _packaged(kind)
    if directory is None:
        return packaged
    return packaged.overlaid(read_facts_directory(directory).get(packaged.kind.folder, {}))


def load_model(model: str | Path, directory: Path | None = None, *, folder: Path | None = None) -> Model:
    """A model by path where there is a config there, else by its name in the catalogue.

    With `folder`, a path in it comes first: a plan file's paths are relative to it.
    """
    from ullage.facts.model_sheet import find_model
    from ullage.readers.models import read_model

    beside = None if folder is None else folder / model
    if beside is not None and _exists(beside):
        return read_model(beside)
    path = Path(model)
    if isinstance(model, Path) or path.suffix == ".json" or _exists(path / "config.json"):
        return read_model(path)
    return find_model(model, load_catalogue("models", directory))


def _exists(path: Path) -> bool:
    """Whether there is such a file; a name that no file system would take is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def short_reading(key: str, name: str, catalogue: Catalogue, *, chosen: str) -> Assumption | None:
    """What a name was taken for, where it could have meant another sheet or is another's in the catalogue."""
    from ullage.evidence import Assumption, Evidence, Source
    from ullage.facts.catalogue import bare_name, short_name

    if chosen not in catalogue.sheets or bare_name(name) == chosen:
        return None
    others, aliases = catalogue.alternatives(name), catalogue.sheets[chosen].aliases
    is_alias = bare_name(name) in {bare_name(each) for each in aliases}
    if not others and (is_alias or short_name(name) == short_name(chosen)):
        return None
    what = f"{name} is read as {chosen}" + (f", not {' or '.join(others)}" if others else "")
    return Assumption(
        name=f"{key}_read_as",
        value=chosen,
        unit="",
        evidence=Evidence.ASSUMED,
        source=Source(what=what, where="docs/reference/facts.md", date=datetime.date(2026, 11, 15)),
    )


def _packaged(kind: str) -> Catalogue:
    """One import for each kind: a catalogue that is not used is not read."""
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
