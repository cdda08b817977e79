"""An observation from a server: every quantity by every name that the server has, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ullage.readers.prometheus.client import PrometheusClient, RangeAnswer
from ullage.readers.prometheus.joined import NamedSteps, observation_of
from ullage.readers.prometheus.metrics import MetricName, SeriesKind, query_of, sum_query
from ullage.readers.prometheus.settings import HttpSettings, MetricNames
from ullage.readers.prometheus.steps import Floats, StepGrid, added, bucket_edge, ended_steps, grid_between
from ullage.reconcile.observation import NoteKind, Observation, ObservationNote, ObservedQuantity

# Clocks that differ by less do not move a step of a minute.
_MOST_CLOCK_S = 60.0


@contextmanager
def client_of(address: str, settings: HttpSettings) -> Iterator[PrometheusClient]:
    client = PrometheusClient(address, settings)
    try:
        yield client
    finally:
        client.close()


def queries(names: MetricNames, grid: StepGrid) -> list[tuple[str, str]]:
    """Every quantity with the queries of its names, for people who ask their server themselves."""
    step_s = int(grid.step_s)
    return [
        (quantity.value, query_of(metric, step_s=step_s, selector=names.selector))
        for quantity, listed in names.table.items()
        for metric in listed
    ]


def observe_server(
    client: PrometheusClient,
    names: MetricNames,
    *,
    start_s: float,
    end_s: float,
    report: Callable[[float, str], None] = lambda _fraction, _stage: None,
) -> Observation:
    """Ask a server for all that it has of this stretch."""
    grid = grid_between(start_s, end_s)
    known = client.names(start_s=grid.start_s, end_s=grid.end_s)
    found: list[NamedSteps] = []
    notes: list[ObservationNote] = []
    wanted = [
        (quantity, metric)
        for quantity, listed in names.table.items()
        for metric in listed
        if known is None or metric.kind is SeriesKind.EXPRESSION or _is_known(metric, known)
    ]
    for place, (quantity, metric) in enumerate(wanted):
        report(place / max(1, len(wanted)), str(quantity))
        answer = _asked(client, query_of(metric, step_s=int(grid.step_s), selector=names.selector), grid)
        notes += _answer_notes(quantity, answer)
        if answer.series:
            found.append(_steps(client, names, quantity, metric, answer, grid))
    notes += _reset_notes(client, names, found, grid)
    if client.clock_ahead_s is not None and abs(client.clock_ahead_s) > _MOST_CLOCK_S:
        said = f"the server's clock is {client.clock_ahead_s:+.0f} s from this machine's"
        notes.append(ObservationNote(kind=NoteKind.CLOCK, quantity="all", what=said))
    return observation_of(found, grid, source=client.address, classes=_classes(client, names, found, grid), notes=notes)


def _is_known(metric: MetricName, known: frozenset[str]) -> bool:
    return metric.name in known or f"{metric.name}_bucket" in known


def _asked(client: PrometheusClient, query: str, grid: StepGrid) -> RangeAnswer:
    return client.range(query, start_s=grid.start_s, end_s=grid.end_s, step_s=grid.step_s)


def _steps(
    client: PrometheusClient,
    names: MetricNames,
    quantity: ObservedQuantity,
    metric: MetricName,
    answer: RangeAnswer,
    grid: StepGrid,
) -> NamedSteps:
    if metric.kind is not SeriesKind.HISTOGRAM:
        values = added([ended_steps(each, grid).values for each in answer.series]) * metric.scale_ratio
        return NamedSteps(quantity=quantity, metric=metric, values=values)
    edges = {
        edge: ended_steps(each, grid).values
        for each in answer.series
        if (edge := bucket_edge(each.labels.get("le", ""))) is not None
    }
    sums = _asked(client, sum_query(metric, step_s=int(grid.step_s), selector=names.selector), grid)
    values = added([ended_steps(each, grid).values for each in sums.series]) if sums.series else _nothing(grid)
    return NamedSteps(quantity=quantity, metric=metric, values=values, edges=edges)


def _nothing(grid: StepGrid) -> Floats:
    return np.full(grid.steps, np.nan)


def _answer_notes(quantity: ObservedQuantity, answer: RangeAnswer) -> list[ObservationNote]:
    """What the server itself says of its answer, and chunks that it never gave."""
    found = [
        ObservationNote(kind=NoteKind.PARTIAL, quantity=quantity.value, what=f"the server says: {each}")
        for each in answer.warnings
    ]
    found += [
        ObservationNote(
            kind=NoteKind.PARTIAL,
            quantity=quantity.value,
            what=f"no answer for the {(last - first) / 3600.0:.3g} hours from {first:.0f} s on",
        )
        for first, last in answer.missing_s
    ]
    return found


def _reset_notes(
    client: PrometheusClient, names: MetricNames, found: Sequence[NamedSteps], grid: StepGrid
) -> list[ObservationNote]:
    """How often the counter of requests fell: the engine or its exporter was started anew."""
    arrivals = next((each for each in found if each.quantity is ObservedQuantity.ARRIVALS), None)
    if arrivals is None or arrivals.metric.kind is not SeriesKind.COUNTER:
        return []
    labels = ",".join(each for each in (arrivals.metric.labels, names.selector) if each)
    query = f"sum(resets({arrivals.metric.name}{{{labels}}}[{int(grid.step_s)}s]))"
    values = [ended_steps(each, grid).values for each in _asked(client, query, grid).series]
    count = float(np.nansum(added(values))) if values else 0.0
    if count <= 0.0:
        return []
    said = f"{arrivals.metric.name} was reset {count:.0f} times; it counts on from zero"
    return [ObservationNote(kind=NoteKind.RESET, quantity=ObservedQuantity.ARRIVALS.value, what=said)]


def _classes(
    client: PrometheusClient, names: MetricNames, found: Sequence[NamedSteps], grid: StepGrid
) -> dict[str, Floats]:
    """Arrivals by class, where a label tells classes apart."""
    arrivals = next((each for each in found if each.quantity is ObservedQuantity.ARRIVALS), None)
    if not names.label or arrivals is None or arrivals.metric.kind is not SeriesKind.COUNTER:
        return {}
    query = query_of(arrivals.metric, step_s=int(grid.step_s), selector=names.selector, by=names.label)
    by_class: dict[str, list[Floats]] = {}
    for each in _asked(client, query, grid).series:
        name = names.class_of(each.labels.get(names.label, ""))
        if name is not None:
            by_class.setdefault(name, []).append(ended_steps(each, grid).values)
    return {name: added(parts) for name, parts in by_class.items()}
