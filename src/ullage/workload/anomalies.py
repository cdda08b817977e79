"""Anomalies of a trace: each stated once in a sentence and carried as a value to every later stage."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class AnomalyKind(enum.Enum):
    """What was found. The name is stable: later stages and users' scripts look for it."""

    ROWS_DROPPED = "rows_dropped"
    ROWS_REPAIRED = "rows_repaired"
    UNSORTED = "unsorted"
    CLOCK_STEP = "clock_step"
    DUPLICATES = "duplicates"
    REPEATED_SESSIONS = "repeated_sessions"
    LOCAL_TIME = "local_time"
    SUMMER_TIME = "summer_time"
    TIME_BATCHING = "time_batching"
    HOLES = "holes"
    SILENT_WINDOWS = "silent_windows"
    UNEVEN_COVERAGE = "uneven_coverage"
    MISSING_OUTPUTS = "missing_outputs"
    MISSING_LENGTHS = "missing_lengths"
    UNKNOWN_STATUS = "unknown_status"
    NO_COMMON_CLOCK = "no_common_clock"
    COUNTED = "counted"
    USUAL_NAMES = "usual_names"
    UNREAD_COLUMNS = "unread_columns"
    UNREAD_VALUES = "unread_values"
    UNIT_UNCERTAIN = "unit_uncertain"
    STALE = "stale"
    SHORT = "short"
    TWO_SHAPES = "two_shapes"
    COPIES_DIFFER = "copies_differ"
    COLD_START = "cold_start"
    STRUCTURAL_BREAK = "structural_break"
    LONG_HORIZON = "long_horizon"
    NAIVE_WINS = "naive_wins"
    BEYOND_SEEN = "beyond_seen"
    BAND_FAILED = "band_failed"


class Severity(enum.Enum):
    """How much an anomaly matters: `NOTE` explains, `CAUTION` weakens some figures, `SERIOUS` may mislead a plan."""

    NOTE = "note"
    CAUTION = "caution"
    SERIOUS = "serious"


@dataclass(frozen=True, kw_only=True)
class Anomaly:
    """One observation about a trace.

    `sentence` is whole and can be printed alone. `share_fraction` says how much of the trace it touches,
    in requests or in time, where that is known. `touches` names the parts of the profile that lean on
    what was found, so that a stage can ask whether the figure it uses is one of them.
    """

    kind: AnomalyKind
    weight: Severity
    sentence: str
    share_fraction: float | None = None
    touches: tuple[str, ...] = ()


def in_order(anomalies: list[Anomaly]) -> tuple[Anomaly, ...]:
    """The gravest first; among equals the order in which they were found."""
    grave = {Severity.SERIOUS: 0, Severity.CAUTION: 1, Severity.NOTE: 2}
    return tuple(sorted(anomalies, key=lambda anomaly: grave[anomaly.weight]))
