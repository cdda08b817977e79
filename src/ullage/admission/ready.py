"""Time to ready: how long new capacity takes, by phase."""

from __future__ import annotations

from ullage.errors import NotBuilt


def time_to_ready(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="time to ready", gives="how long a new replica takes, by phase, cold, warm and hot")
