"""What is stated about a pool's starts: where its weights lie, and what starts were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.evidence import Assumption, Source
from ullage.facts.catalogue import Catalogue
from ullage.startup.phases import Phase


@dataclass(frozen=True, kw_only=True)
class MeasuredStart:
    """One measured start: its phases in seconds. Zero means that a phase did not happen."""

    engine: str
    version: str
    phases: Mapping[Phase, float]
    source: Source


@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """How a pool's replicas start. `storage` names where the weights of a new node come from (facts/startup.py);
    `bandwidth` states its rate outright. `sheets` are the start-up facts, with a user's own over them."""

    storage: Assumption
    bandwidth: Assumption | None = None
    measured: tuple[MeasuredStart, ...] = ()
    sheets: Catalogue | None = None


def samples(starts: Iterable[MeasuredStart], *, engine: str) -> dict[Phase, tuple[tuple[float, ...], Source]]:
    """The measured durations by phase; starts of another engine are refused.

    A start timed as a whole counts only where no log states its parts.
    """
    found: dict[Phase, list[float]] = {}
    sources: dict[Phase, Source] = {}
    for start in starts:
        if start.engine != engine:
            raise InputError(
                field=start.source.where,
                value=start.engine,
                problem=f"is a start of {start.engine}, not of {engine}",
                fix=f"Give a log of {engine}, or plan for {start.engine}.",
            )
        for phase, seconds in start.phases.items():
            found.setdefault(phase, []).append(seconds)
            sources.setdefault(phase, start.source)
    if Phase.BOOT in found or Phase.WARMUP in found:
        found.pop(Phase.ENGINE, None)
    return {phase: (tuple(each), sources[phase]) for phase, each in found.items()}
