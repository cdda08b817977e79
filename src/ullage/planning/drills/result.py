"""What a drill shows: a verdict, one figure before and during, and the change that would pass."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.evidence import Figure


class DrillVerdict(enum.StrEnum):
    """Undecided: attainment is below the SLO by no more than the runs differ. A drill that is not played has nothing
    to play on: no tool to lose, no price to mislead."""

    PASSES = "passes"
    UNDECIDED = "undecided"
    FAILS = "fails"
    NOT_PLAYED = "not played"


@dataclass(frozen=True, kw_only=True)
class DrillResult:
    """One drill on one pool, or on the whole service where `pool` is empty.

    `figure` says what `before` and `during` measure; `wanted` is what `during` had to be. `played` is what was done and
    what was observed; `change` is what would pass, tried in the same simulation wherever it can be, and empty for a
    drill that passes.
    """

    name: str
    title: str
    pool: str
    verdict: DrillVerdict
    figure: str = ""
    before: Figure | None = None
    during: Figure | None = None
    wanted: str = ""
    played: str
    change: str = ""

    @property
    def fails(self) -> bool:
        return self.verdict is DrillVerdict.FAILS


@dataclass(frozen=True, kw_only=True)
class Drills:
    """All drills that were requested, in the order of the table, pool by pool."""

    results: tuple[DrillResult, ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[DrillResult, ...]:
        return tuple(each for each in self.results if each.fails)

    @property
    def figures(self) -> Mapping[str, Figure]:
        found = [one for each in self.results for one in (each.before, each.during) if one is not None]
        return {each.name: each for each in found}

    def result(self, name: str, pool: str = "") -> DrillResult:
        return next(each for each in self.results if each.name == name and pool in ("", each.pool))


def first_of(changes: Sequence[str]) -> str:
    """Ways out, the first one first; a reader chooses."""
    return "; or ".join(each for each in changes if each)


def counted(count: float, thing: str) -> str:
    """
    >>> counted(1, "replica"), counted(0, "replica"), counted(1200, "request")
    ('1 replica', '0 replicas', '1,200 requests')
    """
    return f"{count:,.0f} {thing}" if count == 1 else f"{count:,.0f} {thing}s"
