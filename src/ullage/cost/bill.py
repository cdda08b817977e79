"""The bill: every line, what it is for, and what a success costs."""

from __future__ import annotations

from ullage.errors import NotBuilt


def monthly_bill(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="bill", gives="every cost line, cost per success, and who caused it")
