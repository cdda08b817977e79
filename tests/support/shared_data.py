"""Finds the published data set, which lies beside the repository and is never part of it."""

from __future__ import annotations

from pathlib import Path

ABSENT = "../shared/data is absent: published traces and measurements are not part of the repository"


def find_shared_data() -> Path | None:
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return folder if folder.is_dir() else None
