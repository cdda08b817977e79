"""Reserves: failure, rollout, maintenance, warm and region, each its own line."""

from __future__ import annotations

from ullage.errors import NotBuilt


def named_reserves(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(
        stage="reserves", gives="failure, rollout, maintenance, warm and region reserve, each with its reason"
    )
