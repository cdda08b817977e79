"""Measured step profiles in: our own table and Dynamo's sweep as CSV, and AIConfigurator where it is installed."""

from __future__ import annotations

import csv
from pathlib import Path

from ullage.errors import InputError


def read_profile_rows(path: Path, *, field: str) -> list[dict[str, str]]:
    """The rows of a CSV with a header; what they mean shows in their columns (service/steps/profile_table.py)."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        fix = "Give a CSV of measured steps: docs/explanation/step-models.md."
        raise InputError(field=field, value=str(path), problem=problem, fix=fix) from None
    if not rows or any(None in row or None in row.values() for row in rows):
        problem = "has no rows" if not rows else "has a line with more or fewer cells than its header"
        raise InputError(field=field, value=str(path), problem=problem, fix="Give the file as it was written.")
    return rows
