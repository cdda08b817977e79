"""The steady fleet: replicas for the planned demand, verified by simulating the pool."""

from __future__ import annotations

from ullage.errors import NotBuilt


def steady_fleet(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="steady fleet", gives="replicas and devices for the planning percentile of demand")
