"""Engines that share one device slow each other: by how much is measured, or lies between two bounds, and is never 0.

While a neighbour runs, the device does both engines' work. Two pictures bound what that costs:

    overlapped     kernels of both run side by side and share only a resource that both need: while they
                   run together a resource loaded to a + b of its peak takes max(1, a + b) times as long
    time-sliced    the device runs one engine's kernels or the other's: a neighbour that is busy a share r of the time
                   makes every step 1 + r times as long

The truth depends on how processes share the device (time slices, MPS, streams), which no data sheet says. The factor is
taken in the middle, as an assumption with both bounds as its range; a measurement of the pair takes its place. Slices
of a device that has its own memory paths for each (MIG) do not slow each other and are smaller devices instead.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.service.steps.floor import PeakUse
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel

# What two engines that both read memory cost each other at least, as a share of what they both need: even where a
# resource is not used up, requests of two meet at it. M/D/1 at half load waits half a service time.
LEAST_MEETING_FRACTION = 0.5
NAME = "colocation.slow_ratio"
_SOURCE = Source(
    what="bounds from the engines' demand on the device: overlapped, and time-sliced",
    where="docs/explanation/step-models.md",
    date=datetime.date(2026, 11, 15),
)
# A step of decoding reads weights and cache and little else; where a neighbour is not known better, it does that.
READING = PeakUse(compute_fraction=0.1, bandwidth_fraction=0.8)
_SEQUENCES, _CONTEXT_TOKENS = 32.0, 1_000.0


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """Another engine on the same device: the share of time it runs steps, and its load on the device then."""

    name: str
    busy_fraction: float
    asks: PeakUse = READING

    def __post_init__(self) -> None:
        if not 0.0 <= self.busy_fraction <= 1.0:
            raise InputError(
                field=f"neighbour {self.name}.busy_fraction",
                value=self.busy_fraction,
                problem="is not a share of time",
                fix="Give a number from 0 to 1.",
            )


def slow_ratio(own: PeakUse, neighbours: Sequence[Neighbour], *, measured: Assumption | None = None) -> Assumption:
    """How many times longer steps take beside these neighbours, with the range of what is possible.

    `own` is the load of this engine on the device while it runs alone. The factor is above 1 beside any neighbour that
    ever runs; a measured one is taken as it is, and refused below 1.
    """
    if measured is not None:
        if isinstance(measured.value, str) or measured.value < 1.0:
            raise InputError(
                field=NAME,
                value=measured.value,
                problem="is below 1: a neighbour does not make an engine faster",
                fix="Compare a step beside the neighbour with the same step alone.",
            )
        return measured
    low, high = 1.0, 1.0
    for each in neighbours:
        low += each.busy_fraction * _overlapped(own, each.asks)
        high += each.busy_fraction
    return Assumption(
        name=NAME,
        value=math.sqrt(low * high),
        unit="ratio",
        evidence=Evidence.ASSUMED,
        source=_SOURCE,
        low=low,
        high=high,
    )


def asks_of(step: StepModel) -> PeakUse:
    """The load of an engine on its device in a middling decode step: the share of the step that peak rates explain."""
    sequences, kv_tokens = np.array([_SEQUENCES]), np.array([_SEQUENCES * _CONTEXT_TOKENS])
    least_s, own_s = float(step.floor.decode_s(sequences, kv_tokens)[0]), float(step.decode_s(sequences, kv_tokens)[0])
    return replace(READING, bandwidth_fraction=min(1.0, least_s / own_s))


def beside(step: StepModel, ratio: Assumption) -> StepModel:
    """The step model of an engine that shares its device; its evidence is no better than that of the factor."""
    slow = float(ratio.value)
    factors = Factors(fixed_ratio=slow, sequences_ratio=slow, kv_ratio=slow, prefill_ratio=slow)
    return replace(
        step,
        kind=f"{step.kind}, beside others on its device",
        times=ScaledStep(times=step, factors=factors, is_hidden=False),
        evidence=max(step.evidence, ratio.evidence, key=lambda each: each.rank),
        facts=(*step.facts, ratio),
        notes=(*step.notes, _note(ratio)),
    )


def _overlapped(own: PeakUse, other: PeakUse) -> float:
    """What the other adds to a step while both run, as a share of it."""
    pairs = (
        (own.bandwidth_fraction, other.bandwidth_fraction),
        (own.compute_fraction, other.compute_fraction),
    )
    beyond = max(max(0.0, mine + theirs - 1.0) for mine, theirs in pairs)
    meeting = LEAST_MEETING_FRACTION * max(mine * theirs for mine, theirs in pairs)
    return min(1.0, max(beyond, meeting))


def _note(ratio: Assumption) -> str:
    span = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.2f} to {ratio.high:.2f})"
    return (
        f"Steps are assumed {float(ratio.value):.2f}{span} times as long beside the other engines on the device "
        f"({ratio.evidence})."
    )
