"""The operating point: the highest load that keeps every promise, less a margin."""

from __future__ import annotations

from ullage.errors import NotBuilt


def operating_point(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="operating point", gives="the load per replica at which every SLO holds, with its margin")
