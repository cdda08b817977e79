"""Files that are written whole or not at all: a reader never meets half of one, and a full disk loses nothing."""

from __future__ import annotations

import os
from pathlib import Path

from ullage.errors import InputError


def write_whole(file: Path, text: str, *, field: str) -> None:
    """Write beside the file and put it in its place in one move; what cannot be written is an InputError."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        problem = f"cannot be written ({(error.strerror or 'no reason given').lower()})"
        raise InputError(field=field, value=str(file), problem=problem, fix="Give another place.") from None
