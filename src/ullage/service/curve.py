"""The service curve: latency and goodput of one replica against offered load."""

from __future__ import annotations

from ullage.errors import NotBuilt


def service_curve(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(stage="service curve", gives="latency percentiles and goodput against load on the production mix")
