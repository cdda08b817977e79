"""A calibration.json from disk: what `ullage calibrate --out` wrote, for the verbs that use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ullage.errors import InputError

if TYPE_CHECKING:
    from ullage.service.calibration.evidence import CalibrationEvidence


def read_calibration(file: Path, *, field: str = "--calibration") -> CalibrationEvidence:
    """The calibration in this file, or an InputError that names the file."""
    from ullage.service.calibration.evidence import evidence_of

    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or 'it is not JSON'}"
        fix = "Give the file that ullage calibrate wrote."
        raise InputError(field=field, value=str(file), problem=problem.lower(), fix=fix) from None
    return evidence_of(document if isinstance(document, dict) else {}, file=str(file))
