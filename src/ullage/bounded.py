"""Files of users read whole, up to a size.

A device that never ends, or a file of quite another kind, is refused before it fills the memory. Whatever is read whole
is read by these; traces, which may be larger than memory, are read in parts by DuckDB.
"""

from __future__ import annotations

import io
from pathlib import Path

from ullage.errors import InputError

# Larger than any bill, report or start-up log that has been seen, and within the memory of a laptop.
MOST_BYTES = 1 << 30


def bounded_bytes(file: Path, *, field: str = "file", fix: str, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes of a file: an OSError where it cannot be read, an InputError where it is larger than that."""
    with file.open("rb") as opened:
        data = opened.read(most_bytes + 1)
    if len(data) > most_bytes:
        problem = f"is longer than {most_bytes >> 20} MiB"
        raise InputError(field=field, value=str(file), problem=problem, fix=fix)
    return data


def first_bytes(file: Path, count: int) -> bytes:
    """What a file begins with, by which its kind is known."""
    with file.open("rb") as opened:
        return opened.read(count)


def bounded_text(
    file: Path, *, field: str = "file", fix: str, most_bytes: int = MOST_BYTES, encoding: str = "utf-8"
) -> str:
    """The text of a file, its lines ended by line feeds; a UnicodeDecodeError where it is not text."""
    data = bounded_bytes(file, field=field, fix=fix, most_bytes=most_bytes)
    return io.TextIOWrapper(io.BytesIO(data), encoding=encoding).read()
