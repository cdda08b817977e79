"""Clients of a run whose file does not state its load: as many as were under way on average, by Little's law."""

from __future__ import annotations

from ullage.readers.loadtests.fields import anomaly
from ullage.service.loadtests.loadtest import Flag, Loop, OfferedLoad, PointAnomaly


def clients_by_little(rps: float | None, mean_e2e_s: float | None) -> tuple[OfferedLoad, tuple[PointAnomaly, ...]]:
    """A closed loop of so many clients, and the sentence that says where they come from."""
    if not rps or not mean_e2e_s:
        return OfferedLoad(loop=Loop.BURST), ()
    clients = max(1, round(rps * mean_e2e_s))
    said = anomaly(
        Flag.STATED_BY_TOOL,
        f"The file does not state the load: {clients} clients are assumed, by requests per second x mean latency. "
        "Clients "
        "that pause between requests, or a stated rate, are another test.",
    )
    return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=clients), (said,)
