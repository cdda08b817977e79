"""The engine simulator: exact continuous batching, routing, fleets.

    from ullage.simulate import Engine, Fleet, StepTable, poisson, simulate

`simulate(engine, fleet, load, seed=...)` returns a frozen `Outcome`. numba is imported with the first run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ullage.simulate.engine import CapacityPolicy, Engine, StepTable
from ullage.simulate.fleet import Autoscaler, Fleet, FleetEvent, RouterGuard, Signals, failure_events
from ullage.simulate.load import ClosedLoop, Load, LoadClass, OpenLoop, Prefixes, Requests, Retry, Turns, poisson

if TYPE_CHECKING:
    from ullage.simulate.outcome import Outcome
    from ullage.simulate.simulation import simulate

__all__ = [
    "Autoscaler",
    "CapacityPolicy",
    "ClosedLoop",
    "Engine",
    "Fleet",
    "FleetEvent",
    "Load",
    "LoadClass",
    "OpenLoop",
    "Outcome",
    "Prefixes",
    "Requests",
    "Retry",
    "RouterGuard",
    "Signals",
    "StepTable",
    "Turns",
    "failure_events",
    "poisson",
    "simulate",
]

_LATE = {"simulate": "ullage.simulate.simulation", "Outcome": "ullage.simulate.outcome"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        import importlib

        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
