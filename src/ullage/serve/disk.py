"""The one place where the service writes: a folder of its own that ends with it, and nothing of its users' anywhere.

Uploads arrive under a name that nobody knows and get their own once they are whole. A task's folder holds links to its
uploads, and goes with the task.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """A new folder that nobody else may look into, until the service ends."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextlib.contextmanager
def task_folder(beside: Path, uploads: Path, names: Iterable[str]) -> Iterator[Path]:
    """A folder with links to these uploads and nothing else, for as long as a task takes."""
    folder = Path(tempfile.mkdtemp(dir=beside))
    try:
        for each in names:
            os.link(uploads / each, folder / each)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_plan(file: str, text: str) -> None:
    """The text of a request's plan, in the folder of its task."""
    Path(file).write_text(text, encoding="utf-8", errors="surrogatepass")


@contextlib.contextmanager
def arriving(folder: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file for what arrives; unless it was given a name by then, it goes."""
    place = folder / f".{secrets.token_hex(8)}"
    try:
        with place.open("xb") as file:
            yield place, file
    finally:
        place.unlink(missing_ok=True)


def give_name(place: Path, name: Path) -> None:
    os.replace(place, name)


def remove_upload(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()
