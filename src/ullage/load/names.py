"""Models, devices and catalogues by name, with a user's own facts over ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    if beside is not None and beside.exists():
        return read_model(beside)
    path = Path(model)
    if isinstance(model, Path) or path.suffix == ".json" or (path / "config.json").is_file():
        return read_model(path)
    return find_model(model, load_catalogue("models", directory))


def _packaged(kind: str) -> Catalogue:
    """One import for each kind: a catalogue that is not asked for is not read."""
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
