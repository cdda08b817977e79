"""What production did, in steps of equal length, as far as its monitoring can say.

    counted    by step: how often something happened in it (requests, tokens, preemptions, restarts)
    levels     by step: the mean of a level in it (running, waiting, KV use, replicas)
    latencies  by step: counts by bucket

A step that was not seen is NaN, never 0. What was wrong on the way (a reset, a gap, a renamed metric, a clock) is an
`ObservationNote`, so that nothing is mended silently.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ullage.reconcile.buckets import BucketCounts, merged_buckets

Floats = NDArray[np.float64]


class ObservedQuantity(enum.StrEnum):
    """What is asked of production."""

    ARRIVALS = "arrivals"
    SUCCESSES = "successes"
    FAILURES = "failures"
    PROMPT_TOKENS = "prompt_tokens"
    OUTPUT_TOKENS = "output_tokens"
    CACHED_TOKENS = "cached_tokens"
    CACHE_QUERIES = "cache_queries"
    PREEMPTIONS = "preemptions"
    RESTARTS = "restarts"
    OOM_KILLS = "oom_kills"
    RUNNING = "running"
    WAITING = "waiting"
    KV_USE = "kv_use"
    KV_PEAK = "kv_peak"
    REPLICAS = "replicas"
    DESIRED_REPLICAS = "desired_replicas"
    DEVICE_MEMORY = "device_memory"
    TIME_TO_READY = "time_to_ready"
    DEVICE_HOUR_USD = "device_hour_usd"
    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    E2E = "e2e"
    QUEUE_TIME = "queue_time"


class NoteKind(enum.StrEnum):
    """What a note is about."""

    RESET = "counter reset"
    GAP = "gap"
    RENAMED = "renamed metric"
    CLOCK = "clock"
    PARTIAL = "partial answer"
    SUBSTITUTE = "substitute"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class ObservationNote:
    """Something about the data that a reader of the result must know."""

    kind: NoteKind
    quantity: str
    what: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A stretch of production: `steps` of `step_s` seconds from `start_s` (seconds since 1970) on.

    `arrivals_by_class` is there where the metrics carry a label that names the classes.
    """

    source: str
    start_s: float
    step_s: float
    steps: int
    counted: Mapping[ObservedQuantity, Floats]
    levels: Mapping[ObservedQuantity, Floats]
    latencies: Mapping[ObservedQuantity, tuple[BucketCounts | None, ...]]
    arrivals_by_class: Mapping[str, Floats] = field(default_factory=dict)
    paid_usd: float | None = None
    notes: tuple[ObservationNote, ...] = ()

    @property
    def end_s(self) -> float:
        return self.start_s + self.steps * self.step_s

    @property
    def at_s(self) -> Floats:
        """The middle of every step."""
        return self.start_s + self.step_s * (np.arange(self.steps, dtype=np.float64) + 0.5)

    def total(self, quantity: ObservedQuantity) -> float | None:
        """How often in all of the steps that were seen; None where it was not asked or never seen."""
        found = self.counted.get(quantity)
        if found is None or bool(np.isnan(found).all()):
            return None
        return float(np.nansum(found))

    def level(self, quantity: ObservedQuantity) -> float | None:
        found = self.levels.get(quantity)
        if found is None or bool(np.isnan(found).all()):
            return None
        return float(np.nanmean(found))

    def rate_rps(self, quantity: ObservedQuantity) -> Floats:
        """A second, by step; NaN where it was not seen."""
        found = self.counted.get(quantity)
        return np.full(self.steps, np.nan) if found is None else found / self.step_s

    def latency(self, quantity: ObservedQuantity) -> BucketCounts | None:
        """Of the whole stretch."""
        return merged_buckets(each for each in self.latencies.get(quantity, ()) if each is not None)

    def seen_fraction(self, quantity: ObservedQuantity) -> float:
        found = self.counted.get(quantity, self.levels.get(quantity))
        return 0.0 if found is None else float(np.mean(~np.isnan(found)))
