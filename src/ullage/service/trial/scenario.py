"""Something that happens to a pool while it is watched: a fleet with its events, and a load for every seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ullage.service.trial.attainment import Tallies, tallies
from ullage.service.trial.trial import Trial
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import Fleet
from ullage.simulate.load import OpenLoop


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Replicas, engines and events, and the load of a seed; without engines they are the trial's own."""

    fleet: Fleet
    load_of: Callable[[int], OpenLoop]
    engines: tuple[Engine, ...] = ()


def watched(trial: Trial, scenario: Scenario, *, until_s: float, seed: int) -> Tallies:
    """One run of the scenario, every SLO of the trial's classes counted window by window."""
    load = scenario.load_of(seed)
    outcome = trial.play(
        load,
        seed=seed,
        fleet=scenario.fleet,
        engines=scenario.engines,
        warmup_s=0.0,
        until_s=until_s,
        keep_requests=True,
        is_shared=True,
    )
    return tallies(outcome, load, trial.classes, span_s=until_s)
