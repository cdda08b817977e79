"""The study: which inputs move the plan, and how likely it is to fall short."""

from __future__ import annotations

from ullage.errors import NotBuilt


def study(*_given: object) -> NotBuilt:
    """This version has no such stage and says so; what it is given is what the stage will work from."""
    return NotBuilt(stage="uncertainty", gives="scenarios, drivers and the probability of a shortfall")
