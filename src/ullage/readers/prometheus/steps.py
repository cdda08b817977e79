"""Samples as they were scraped, laid onto steps: increases of counters over resets, means of levels, and gaps.

A counter that falls was reset: what it then shows counts from zero, as Prometheus itself takes it. Samples far apart
say how much was counted between them and not when, so that the steps between them are a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ullage.readers.prometheus.client import RangeSeries
from ullage.reconcile.observation import NoteKind, ObservationNote

Floats = NDArray[np.float64]
# Scrapes that are so many times as far apart as most leave a gap between them.
_GAP_RATIO = 5.0
# Beyond this a time is in milliseconds: as seconds it would be the year 5138.
_MILLISECONDS_FROM = 1e11
_LEAST_SAMPLES = 2


@dataclass(frozen=True, kw_only=True)
class StepGrid:
    """Steps of equal length from `start_s` on."""

    start_s: float
    step_s: float
    steps: int

    @property
    def edges_s(self) -> Floats:
        return self.start_s + self.step_s * np.arange(self.steps + 1, dtype=np.float64)

    @property
    def end_s(self) -> float:
        return self.start_s + self.steps * self.step_s


def grid_between(start_s: float, end_s: float, *, most_steps: int = 1500) -> StepGrid:
    """Steps of a length that suits the stretch: minutes for hours, an hour for weeks; whole ones only.

    >>> grid = grid_between(0.0, 6 * 7 * 86_400.0)
    >>> grid.step_s, grid.steps
    (3600.0, 1008)
    """
    step_s = next(
        (each for each in (60.0, 300.0, 900.0) if (end_s - start_s) / each <= most_steps),
        3600.0,
    )
    first = np.ceil(start_s / step_s - 1e-9) * step_s
    return StepGrid(start_s=float(first), step_s=step_s, steps=max(0, int((end_s - first) // step_s)))


@dataclass(frozen=True, kw_only=True)
class StepValues:
    """Values by step (NaN where nothing was seen), how often a counter was reset, and what was wrong with times."""

    values: Floats
    resets: int = 0
    notes: tuple[ObservationNote, ...] = field(default=())


def in_order(series: RangeSeries, *, quantity: str, until_s: float) -> tuple[RangeSeries, tuple[ObservationNote, ...]]:
    """The series in order of time; clocks that lie are put right where that is certain, and named."""
    times, values = np.array(series.times_s), np.array(series.values)
    said = []
    if times.size and float(np.median(times)) > _MILLISECONDS_FROM:
        times = times / 1000.0
        said.append("times were in milliseconds, and were taken as such")
    if (unreal := ~(np.abs(times) < _MILLISECONDS_FROM)).any():
        times, values = times[~unreal], values[~unreal]
        said.append(f"{int(unreal.sum())} samples have no time, and were left out")
    late = times > until_s
    if late.any():
        times, values = times[~late], values[~late]
        said.append(f"{int(late.sum())} samples lie after the end of the stretch, and were left out")
    if times.size and (np.diff(times) <= 0.0).any():
        back = int((np.diff(times) <= 0.0).sum())
        times, kept = np.unique(times, return_index=True)
        values = values[kept]
        said.append(f"{back} samples are not later than the one before; they were put in order, the first of each time")
    notes = tuple(ObservationNote(kind=NoteKind.CLOCK, quantity=quantity, what=each) for each in said)
    return replace(series, times_s=tuple(times.tolist()), values=tuple(values.tolist())), notes


def increases(series: RangeSeries, grid: StepGrid) -> StepValues:
    """What a counter counted in every step; an increase between two samples is spread evenly between them."""
    times, values = np.array(series.times_s), np.array(series.values)
    real = np.isfinite(values)
    times, values = times[real], values[real]
    if times.size < _LEAST_SAMPLES:
        return StepValues(values=np.full(grid.steps, np.nan))
    grown = np.diff(values)
    resets = grown < 0.0
    grown = np.where(resets, values[1:], grown)
    total = np.concatenate([[0.0], np.cumsum(grown)])
    at_edges = np.interp(grid.edges_s, times, total)
    found = np.diff(at_edges)
    return StepValues(values=np.where(_covered(times, grid), found, np.nan), resets=int(resets.sum()))


def means(series: RangeSeries, grid: StepGrid, *, highest: bool = False) -> StepValues:
    """The mean, or the highest, of a level's samples in every step."""
    times, values = np.array(series.times_s), np.array(series.values)
    real = np.isfinite(values) & (times > grid.start_s) & (times <= grid.end_s)
    times, values = times[real], values[real]
    # A sample belongs to the step that it ends.
    place = np.ceil((times - grid.start_s) / grid.step_s - 1e-9).astype(int) - 1
    counts = np.bincount(place, minlength=grid.steps).astype(np.float64)[: grid.steps]
    if highest:
        tops = np.full(grid.steps, -np.inf)
        np.maximum.at(tops, place, values)
        return StepValues(values=np.where(counts > 0, tops, np.nan))
    sums = np.bincount(place, weights=values, minlength=grid.steps)[: grid.steps]
    with np.errstate(invalid="ignore", divide="ignore"):
        return StepValues(values=np.where(counts > 0, sums / counts, np.nan))


def ended_steps(series: RangeSeries, grid: StepGrid) -> StepValues:
    """Values that a server worked out for the steps themselves, each at its end."""
    found = np.full(grid.steps, np.nan)
    for at, value in zip(series.times_s, series.values, strict=True):
        place = round((at - grid.start_s) / grid.step_s) - 1
        if 0 <= place < grid.steps and np.isfinite(value):
            found[place] = value
    return StepValues(values=found)


def _covered(times: Floats, grid: StepGrid) -> NDArray[np.bool_]:
    """Steps that lie between samples that are not too far apart."""
    between = np.diff(times)
    usual = float(np.median(between))
    edges = grid.edges_s
    starts, ends = edges[:-1], edges[1:]
    covered: NDArray[np.bool_] = (ends > times[0]) & (starts < times[-1])
    for gap in np.flatnonzero(between > max(_GAP_RATIO * usual, grid.step_s)):
        covered &= ~((starts >= times[gap]) & (ends <= times[gap + 1]))
    return covered


def bucket_edge(text: str) -> float | None:
    """The upper end of a bucket of a histogram, from its label; None for what is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def added(parts: Sequence[Floats]) -> Floats:
    """The sum over replicas by step: one that is not there adds nothing, and a step that none has stays unknown."""
    stacked = np.array(parts)
    seen = ~np.isnan(stacked)
    return np.where(seen.any(axis=0), np.where(seen, stacked, 0.0).sum(axis=0), np.nan)


def gaps_in(values: Floats, grid: StepGrid) -> list[tuple[float, float]]:
    """Stretches of steps without a value between steps with one, as times."""
    missing = np.isnan(values)
    if missing.all() or not missing.any():
        return []
    edges = np.flatnonzero(np.diff(np.concatenate([[0], missing.astype(int), [0]])))
    return [
        (grid.start_s + first * grid.step_s, grid.start_s + last * grid.step_s)
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    ]
