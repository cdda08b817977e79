"""Admission limits: where to stop admitting work."""

from __future__ import annotations

from ullage.errors import NotBuilt


def admission_limits(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="admission limits", gives="queue bounds, concurrency, token rates and the burst budget")
