"""Demand: what will be asked of the fleet, by class, with an honest band."""

from __future__ import annotations

from ullage.errors import NotBuilt


def forecast_demand(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(
        stage="demand",
        gives="traffic over the horizon by class, with its band, and request streams that keep their bursts",
    )
