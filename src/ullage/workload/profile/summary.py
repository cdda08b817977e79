"""The summary of a trace: counts, histograms and rates.

A profile is computed from a summary, never from rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.workload.anomalies import Anomaly
from ullage.workload.profile.reuse import ReuseProfile
from ullage.workload.profile.series import SecondCounts, ValueCounts
from ullage.workload.profile.sessions import SessionProfile
from ullage.workload.trace import Clock, RowCounts

TOKEN_COLUMNS = ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
DIMENSIONS = ("class", "tenant", "product", "model")


@dataclass(frozen=True, kw_only=True)
class Hole:
    """A stretch without any arrival."""

    start_s: float
    length_s: float


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Times between arrivals in order of time; the border state is first and last arrival.

    Both are counted from `origin_s`, the trace's start: seconds since 1970 have no digits left for microseconds.
    """

    origin_s: float
    first_s: float
    last_s: float
    gaps: int
    sum_squares: float
    zero_gaps: int
    longest: tuple[Hole, ...]

    @property
    def sum_s(self) -> float:
        return self.last_s - self.first_s


@dataclass(frozen=True, kw_only=True)
class Stamps:
    """How the source writes time: the usual distance of two different stamps, and how even that distance is."""

    typical_gap_s: float
    spread_fraction: float


@dataclass(frozen=True, kw_only=True)
class InputOrder:
    """How often time runs backward from one row of the source to the next."""

    backward_steps: int
    largest_back_s: float
    hour_back_steps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldLoad:
    """Changes of what is in flight, second by second: requests, tokens held, and how fast these grow."""

    seconds: NDArray[np.int64]
    request_steps: NDArray[np.int64]
    token_steps: NDArray[np.float64]
    slope_steps: NDArray[np.float64]
    timed_requests: int
    busy_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class JointCounts:
    """How many requests fall in each cell of a grid over several lengths.

    A bin index b stands for lengths from 2^(b/bins_per_octave) up to the next; -1 is a length of 0, -2 an
    unknown one. `cells` has one row a cell and one column a length.
    """

    columns: tuple[str, ...]
    bins_per_octave: int
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Requests that belong together: all of them, or those of one class, tenant or model.

    `joint` is kept for all requests and for classes; `load` where durations are logged. `watched` is the time
    over which this part was observed, where that is not the time of the whole trace; where its members were
    observed for different times, its rises and falls are those of the observation.
    """

    requests: int
    arrivals: SecondCounts
    lengths: Mapping[str, ValueCounts]
    outcomes: Mapping[str, int]
    joint: JointCounts | None = None
    load: HeldLoad | None = None
    watched: tuple[float, float] | None = None
    evenly_watched: bool = True


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known of the source beside its requests."""

    format: str
    sources: tuple[str, ...]
    clock: Clock
    zone: str
    rows: RowCounts
    columns: frozenset[str]
    block_tokens: int | None
    anomalies: tuple[Anomaly, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """All that a profile is made from. Times are seconds of the trace's clock: since 1970 for a calendar clock."""

    about: About
    first_s: float
    last_s: float
    whole: Part
    groups: Mapping[str, Mapping[str, Part]]
    distinct: Mapping[str, int | None]
    gaps: Gaps | None
    stamps: Stamps | None
    order: InputOrder | None
    duplicate_rows: int
    missing_outputs: int
    sessions: SessionProfile | None
    group_sessions: Mapping[str, Mapping[str, SessionProfile]]
    reuse: ReuseProfile | None
    least_width_s: int = 1
