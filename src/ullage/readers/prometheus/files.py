"""An observation from files: answers to range queries that somebody else was allowed to ask.

A series with a name is a metric as it was scraped, and is laid onto steps here, over resets and gaps. A series without
one is what an expression gave: the file is then called by its quantity (arrivals.json), and its values are those of
the queries that `ullage reconcile --queries` prints.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ullage.bounded import bounded_text
from ullage.documents import json_value
from ullage.errors import InputError
from ullage.readers.prometheus.client import RangeSeries, matrix
from ullage.readers.prometheus.joined import NamedSteps, observation_of
from ullage.readers.prometheus.metrics import METRICS, MetricName, SeriesKind
from ullage.readers.prometheus.settings import MetricNames
from ullage.readers.prometheus.steps import (
    Floats,
    StepGrid,
    added,
    bucket_edge,
    ended_steps,
    grid_between,
    in_order,
    increases,
    means,
)
from ullage.reconcile.observation import NoteKind, Observation, ObservationNote, ObservedQuantity

_FIX = "Give what /api/v1/query_range answered, as JSON."
_UNNAMED = "__quantity__"
# A century; a few samples farther apart would be steps of an hour beyond all memory.
_LONGEST_S = 100 * 365.25 * 86_400.0


def observe_files(
    paths: Sequence[Path], names: MetricNames, *, start_s: float | None = None, end_s: float | None = None
) -> Observation:
    """All that these files say of a stretch; without one, of the whole of it."""
    series = [each for path in paths for each in _read(path)]
    until_s = math.inf if end_s is None else end_s
    notes: list[ObservationNote] = []
    ordered = []
    for each in series:
        name = each.labels.get("__name__", each.labels.get(_UNNAMED, ""))
        clean, said = in_order(each, quantity=name, until_s=until_s)
        notes += said
        if clean.times_s:
            ordered.append(clean)
    if not ordered:
        where = ", ".join(each.name for each in paths)
        raise InputError(field=where, value="", problem="has no samples in this stretch", fix=_FIX)
    where = ", ".join(each.name for each in paths[:3])
    grid = _grid(ordered, where=where, start_s=start_s, end_s=end_s)
    found = []
    for quantity, listed in names.table.items():
        for metric in listed:
            steps, resets = _laid(quantity, metric, ordered, grid)
            if steps is None:
                continue
            found.append(steps)
            if resets:
                said_so = f"{metric.name} was reset {resets} times; it counts on from zero"
                notes.append(ObservationNote(kind=NoteKind.RESET, quantity=quantity.value, what=said_so))
    if not found:
        known = sorted({each.labels.get("__name__", "") for each in ordered})
        raise InputError(field=where, value=known[:3], problem="hold no metric that we know", fix=_FIX)
    source = ", ".join(each.name for each in paths)
    return observation_of(found, grid, source=source, classes=_by_class(names, ordered, grid), notes=notes)


def _grid(series: Sequence[RangeSeries], *, where: str, start_s: float | None, end_s: float | None) -> StepGrid:
    """Steps over a stretch, or over all that there is."""
    first_s = min(each.times_s[0] for each in series) if start_s is None else start_s
    last_s = max(each.times_s[-1] for each in series) if end_s is None else end_s
    if last_s - first_s > _LONGEST_S:
        years = (last_s - first_s) / (365.25 * 86_400.0)
        problem = "lie between the first sample and the last, more than any system keeps"
        fix = "Leave out samples of another time, or name the stretch."
        raise InputError(field=where, value=f"{years:.3g} years", problem=problem, fix=fix)
    grid = grid_between(first_s, last_s)
    if grid.steps < 1:
        problem = "is shorter than a step"
        raise InputError(
            field=f"{where}: stretch", value=f"{grid.step_s:g} s", problem=problem, fix="Give a longer one."
        )
    return grid


def _read(path: Path) -> Iterator[RangeSeries]:
    try:
        text = bounded_text(path, fix=_FIX)
    except (OSError, UnicodeDecodeError) as error:
        problem = (getattr(error, "strerror", None) or "is not text").lower()
        raise InputError(field="file", value=str(path), problem=problem, fix=_FIX) from None
    value = json_value(text, file=path.name, fix=_FIX)
    documents = value if isinstance(value, list) else [value]
    for each in documents:
        if not isinstance(each, dict):
            raise InputError(field=path.name, value=str(each)[:40], problem="is not an answer", fix=_FIX)
        for one in matrix(each, where=path.name):
            if "__name__" in one.labels:
                yield one
                continue
            if path.stem not in {quantity.value for quantity in METRICS}:
                problem = "has series without a name, and is not called by what they are"
                fix = f"Name the file by its quantity: {', '.join(each.value for each in list(METRICS)[:4])}, ..."
                raise InputError(field=path.name, value=str(one.labels)[:40], problem=problem, fix=fix)
            yield RangeSeries(labels={**one.labels, _UNNAMED: path.stem}, times_s=one.times_s, values=one.values)


def _laid(
    quantity: ObservedQuantity, metric: MetricName, series: Sequence[RangeSeries], grid: StepGrid
) -> tuple[NamedSteps | None, int]:
    """What a metric says of a quantity by step, and how often its counters were reset."""
    if metric.kind is SeriesKind.HISTOGRAM:
        return _histogram(quantity, metric, series, grid)
    is_first = metric is METRICS[quantity][0]
    own = [each for each in series if each.labels.get("__name__") == metric.name and _matches(metric, each)]
    asked = [each for each in series if each.labels.get(_UNNAMED) == quantity.value] if is_first else []
    if asked:
        return NamedSteps(quantity=quantity, metric=metric, values=added(_ended(asked, grid))), 0
    none = _none_of(metric, series, grid)
    if not own:
        return (None if none is None else NamedSteps(quantity=quantity, metric=metric, values=none)), 0
    if metric.kind is SeriesKind.COUNTER:
        laid = [increases(each, grid) for each in own]
        values = added([each.values for each in laid])
        values = values if none is None else np.where(np.isnan(values), none, values)
        return NamedSteps(quantity=quantity, metric=metric, values=values), sum(each.resets for each in laid)
    values = _over(metric.over, [means(each, grid, highest=metric.over == "max").values for each in own])
    return NamedSteps(quantity=quantity, metric=metric, values=values * metric.scale_ratio), 0


def _none_of(metric: MetricName, series: Sequence[RangeSeries], grid: StepGrid) -> Floats | None:
    """Zero in every step that has the whole which the metric is a part of; None where there is no such whole."""
    whole = replace(metric, labels=metric.within)
    found = [each for each in series if each.labels.get("__name__") == metric.name and _matches(whole, each)]
    if not metric.within or not found:
        return None
    return 0.0 * added([increases(each, grid).values for each in found])


def _histogram(
    quantity: ObservedQuantity, metric: MetricName, series: Sequence[RangeSeries], grid: StepGrid
) -> tuple[NamedSteps | None, int]:
    buckets = [each for each in series if each.labels.get("__name__") == f"{metric.name}_bucket"]
    sums = [each for each in series if each.labels.get("__name__") == f"{metric.name}_sum"]
    if not buckets:
        return None, 0
    by_edge: dict[float, list[Floats]] = {}
    resets = 0
    for each in buckets:
        laid = increases(each, grid)
        resets = max(resets, laid.resets)
        if (edge := bucket_edge(each.labels.get("le", ""))) is not None:
            by_edge.setdefault(edge, []).append(laid.values)
    values = added([increases(each, grid).values for each in sums]) if sums else np.full(grid.steps, np.nan)
    edges = {edge: added(parts) for edge, parts in by_edge.items()}
    return NamedSteps(quantity=quantity, metric=metric, values=values, edges=edges), resets


def _over(how: str, parts: Sequence[Floats]) -> Floats:
    """Several replicas as one: their sum, mean, highest, or how many there are."""
    stacked = np.array(parts)
    seen = ~np.isnan(stacked)
    if how == "sum":
        return added(parts)
    if how == "count":
        return np.where(seen.any(axis=0), seen.sum(axis=0).astype(np.float64), np.nan)
    if how == "max":
        highest = np.where(seen, stacked, -np.inf).max(axis=0)
        return np.where(seen.any(axis=0), highest, np.nan)
    counts = seen.sum(axis=0)
    return np.where(counts > 0, np.where(seen, stacked, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)


def _ended(series: Sequence[RangeSeries], grid: StepGrid) -> list[Floats]:
    return [ended_steps(each, grid).values for each in series]


def _matches(metric: MetricName, series: RangeSeries) -> bool:
    """Whether a series is among those that the metric's labels select; a label that is not there is empty."""
    patterns = re.findall(r'(\w+)=~"([^"]*)"', metric.labels)
    return all(re.fullmatch(pattern, series.labels.get(key, "")) is not None for key, pattern in patterns)


def _by_class(names: MetricNames, series: Sequence[RangeSeries], grid: StepGrid) -> dict[str, Floats]:
    if not names.label:
        return {}
    for metric in names.table[ObservedQuantity.ARRIVALS]:
        own = [
            each
            for each in series
            if each.labels.get("__name__") == metric.name and names.label in each.labels and _matches(metric, each)
        ]
        by_class: dict[str, list[Floats]] = {}
        for each in own:
            name = names.class_of(each.labels[names.label])
            if name is not None:
                by_class.setdefault(name, []).append(increases(each, grid).values)
        if by_class:
            return {name: added(parts) for name, parts in by_class.items()}
    return {}
