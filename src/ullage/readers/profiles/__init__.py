"""Measured step profiles in: our own table as CSV, Dynamo's sweep, AIConfigurator and AISimulate."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ullage.bounded import bounded_text
from ullage.errors import InputError
from ullage.readers.profiles.dynamo_sweep import is_sweep, read_sweep


def read_profile_rows(path: Path, *, field: str) -> list[dict[str, str]]:
    """The rows of a CSV with a header or of a sweep of Dynamo; what they mean shows in their columns."""
    if is_sweep(path):
        return read_sweep(path, field=field)
    try:
        rows = list(csv.DictReader(io.StringIO(bounded_text(path, field=field, fix="Give a part of it."))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        fix = "Give a CSV of measured steps: docs/howto/use-a-step-profile.md."
        raise InputError(field=field, value=str(path), problem=problem, fix=fix) from None
    if not rows or any(None in row or None in row.values() for row in rows):
        problem = "has no rows" if not rows else "has a line with more or fewer cells than its header"
        raise InputError(field=field, value=str(path), problem=problem, fix="Give the file as it was written.")
    return rows
