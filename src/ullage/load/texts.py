"""Files that are read whole, within limits: a device that never ends is refused where a file is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ullage.bounded import bounded_bytes
from ullage.errors import InputError

# A profile of a hundred tenants over a year has 20 MB.
_MOST_BYTES = 256 * 2**20


def read_text(file: Path, *, fix: str, field: str = "file") -> str:
    """The text of a file; one that cannot be read is an InputError with this fix."""
    try:
        return bounded_bytes(file, field=field, fix=fix, most_bytes=_MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or "is not text").lower()
        raise InputError(field=field, value=str(file), problem=problem, fix=fix) from None


def read_json(file: Path, *, fix: str, field: str) -> Any:
    """The JSON value in a file."""
    from ullage.documents import json_value

    return json_value(read_text(file, fix=fix, field=field), file=str(file), fix=fix)
