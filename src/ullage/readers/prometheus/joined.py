"""Steps of one quantity from every name that has data, made one: renames are joined, gaps are named."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ullage.readers.prometheus.metrics import COUNTED, HISTOGRAMS, METRICS, MetricName
from ullage.readers.prometheus.steps import Floats, StepGrid, gaps_in
from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.observation import NoteKind, Observation, ObservationNote, ObservedQuantity

_MOST_GAPS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedSteps:
    """What one metric says of a quantity, by step. Of a histogram: counts up to each edge, and the sum of values."""

    quantity: ObservedQuantity
    metric: MetricName
    values: Floats
    edges: Mapping[float, Floats] | None = None


def observation_of(
    found: Sequence[NamedSteps],
    grid: StepGrid,
    *,
    source: str,
    classes: Mapping[str, Floats],
    notes: Sequence[ObservationNote],
) -> Observation:
    """One observation of all that was found; a quantity without data is a note."""
    counted, levels, latencies = {}, {}, {}
    said = list(notes)
    for quantity in METRICS:
        own = [each for each in found if each.quantity is quantity and not np.isnan(each.values).all()]
        if not own:
            said.append(_note(NoteKind.MISSING, quantity, "none of its metrics has data in this period"))
            continue
        joined, chosen = _joined(own)
        said += _join_notes(quantity, own, chosen, grid)
        said += _gap_notes(quantity, joined, grid)
        if quantity in HISTOGRAMS:
            latencies[quantity] = _histograms(own, chosen, grid)
        elif quantity in COUNTED:
            counted[quantity] = np.maximum(joined, 0.0)
        else:
            levels[quantity] = joined
    return Observation(
        source=source,
        start_s=grid.start_s,
        step_s=grid.step_s,
        steps=grid.steps,
        counted=counted,
        levels=levels,
        latencies=latencies,
        arrivals_by_class=dict(classes),
        notes=tuple(dict.fromkeys(said)),
    )


def _joined(own: Sequence[NamedSteps]) -> tuple[Floats, list[int]]:
    """In every step the first name that has a value; and which one that is, -1 where none has."""
    values = np.full(own[0].values.size, np.nan)
    chosen = np.full(values.size, -1)
    for index, each in enumerate(own):
        free = np.isnan(values) & ~np.isnan(each.values)
        values[free], chosen[free] = each.values[free], index
    return values, chosen.tolist()


def _join_notes(
    quantity: ObservedQuantity, own: Sequence[NamedSteps], chosen: Sequence[int], grid: StepGrid
) -> list[ObservationNote]:
    """Which names were read where it is not one of them all along, and what is known against them."""
    used = [index for index in dict.fromkeys(chosen) if index >= 0]
    found = []
    if len(used) > 1:
        spans = []
        for index in used:
            steps = [at for at, each in enumerate(chosen) if each == index]
            first, last = (grid.start_s + at * grid.step_s for at in (steps[0], steps[-1] + 1))
            spans.append(f"{own[index].metric.name} from {_time(first)} to {_time(last)}")
        found.append(_note(NoteKind.RENAMED, quantity, f"read as {', '.join(spans)}"))
    found += [
        _note(NoteKind.SUBSTITUTE, quantity, f"{own[index].metric.name}: {own[index].metric.caveat}")
        for index in used
        if own[index].metric.caveat
    ]
    return found


def _gap_notes(quantity: ObservedQuantity, values: Floats, grid: StepGrid) -> list[ObservationNote]:
    gaps = gaps_in(values, grid)
    said = [f"nothing from {_time(first)} to {_time(last)}" for first, last in gaps[:_MOST_GAPS]]
    if len(gaps) > _MOST_GAPS:
        said.append(f"and {len(gaps) - _MOST_GAPS} more gaps")
    return [_note(NoteKind.GAP, quantity, each) for each in said]


def _histograms(own: Sequence[NamedSteps], chosen: Sequence[int], grid: StepGrid) -> tuple[BucketCounts | None, ...]:
    found: list[BucketCounts | None] = []
    for at in range(grid.steps):
        index = chosen[at]
        each = own[index] if index >= 0 else None
        found.append(None if each is None or each.edges is None else _buckets(each, each.edges, at))
    return tuple(found)


def _buckets(each: NamedSteps, edges: Mapping[float, Floats], at: int) -> BucketCounts | None:
    """Counts between edges, from counts up to them, which rise but for the noise of extrapolation."""
    finite = sorted(edge for edge in edges if math.isfinite(edge))
    upto = [float(np.nan_to_num(edges[edge][at])) for edge in finite]
    total = float(np.nan_to_num(edges[math.inf][at])) if math.inf in edges else (upto[-1] if upto else 0.0)
    running = np.maximum.accumulate([0.0, *upto, max(total, *upto, 0.0)])
    counts = tuple(np.diff(running).tolist())
    if sum(counts) <= 0.0:
        return None
    return BucketCounts(edges_s=tuple(finite), counts=counts, sum_s=max(0.0, float(np.nan_to_num(each.values[at]))))


def _note(kind: NoteKind, quantity: ObservedQuantity, what: str) -> ObservationNote:
    return ObservationNote(kind=kind, quantity=quantity.value, what=what)


def _time(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M")
