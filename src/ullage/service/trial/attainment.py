"""SLO attainment over time: for each SLO, the share of arrived requests that met its limit.

A run is reduced to counts in short windows of arrival. A part of it (before, during, after a loss) is a sum of windows;
its interval comes from how minutes differ, as in service/trial/quantile.py, because requests of one minute share their
luck. An SLO of the p95 is met where at least 95 % of requests meet its limit, and a request that failed meets none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InternalError
from ullage.simulate.load import OpenLoop
from ullage.simulate.outcome import Counts, Outcome, RequestArrays
from ullage.simulate.statistics import Interval, t_quantile
from ullage.workload.classes import Metric, RequestClass, Slo

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WINDOW_S = 20.0
"""What a time to recover is told to: some hundred requests of a pool, enough to see nine in ten fail."""
BATCH_WINDOWS = 3
CONFIDENCE_FRACTION = 0.95

_UNFINISHED = Counts._fields.index("unfinished")
_ENDED_WELL = (Counts._fields.index("success"), Counts._fields.index("late"))


@dataclass(frozen=True, kw_only=True, eq=False)
class SloTally:
    """Of one SLO: requests that arrived in each window, and those of them that met its limit."""

    required_fraction: float
    sent: Ints
    good: Ints


Tallies = Mapping[str, SloTally]


@dataclass(frozen=True, kw_only=True)
class Attainment:
    """One SLO over one part of a run: the share of requests required and the share attained."""

    slo_name: str
    required_fraction: float
    attained: Interval

    @property
    def margin_fraction(self) -> float:
        return self.attained.value - self.required_fraction

    @property
    def holds(self) -> bool:
        return self.margin_fraction >= 0.0

    @property
    def surely_breaks(self) -> bool:
        return self.attained.high < self.required_fraction


def tallies(outcome: Outcome, load: OpenLoop, classes: Sequence[RequestClass], *, span_s: float) -> dict[str, SloTally]:
    """Every SLO of every class, window by window of arrival."""
    found = outcome.requests
    if found is None:
        raise InternalError(law="a run that asked for its requests has them", left=None, right=load.requests.count)
    names = [each.name for each in load.requests.classes]
    windows = math.ceil(span_s / WINDOW_S)
    window = np.floor(np.nan_to_num(found.arrival_s, nan=-1.0) / WINDOW_S).astype(np.int64)
    by_class = rows_by_class(load, (window >= 0) & (window < windows))
    counted: dict[str, SloTally] = {}
    for each in classes:
        rows = by_class[names.index(each.name)]
        own, came = RequestArrays(**{name: column[rows] for name, column in vars(found).items()}), window[rows]
        for slo in each.slos:
            good, known = _met(own, slo)
            counted[f"{each.name} {slo.name}"] = SloTally(
                required_fraction=slo.percentile_fraction,
                sent=np.bincount(came[known], minlength=windows),
                good=np.bincount(came[known & good], minlength=windows),
            )
    return counted


def rows_by_class(load: OpenLoop, inside: Bools) -> list[Ints]:
    """Of each class of a load the requests that are inside, in their order; all classes in one pass."""
    rows, class_of = np.flatnonzero(inside), load.requests.class_of
    if class_of is None:
        return [rows]
    own = np.asarray(class_of)[rows]
    ends = np.cumsum(np.bincount(own, minlength=len(load.requests.classes)))
    return np.split(rows[np.argsort(own, kind="stable")], ends[:-1])


def _met(found: RequestArrays, slo: Slo) -> tuple[Bools, Bools]:
    """Which requests met a limit, and for which that is known: one that still runs has no end yet.

    Gaps between tokens are not kept by request, so a limit on them is judged by their mean in each request.
    """
    ended = (found.outcome == _ENDED_WELL[0]) | (found.outcome == _ENDED_WELL[1])
    started = np.isfinite(found.first_token_s)
    running = found.outcome == _UNFINISHED
    with np.errstate(invalid="ignore"):
        if slo.metric is Metric.TTFT:
            taken: NDArray[Any] = found.first_token_s - found.arrival_s + found.outside_s
            return (ended | running) & started & (taken <= slo.limit_s), np.ones(ended.shape, np.bool_)
        if slo.metric is Metric.E2E:
            taken = found.end_s - found.arrival_s + found.outside_s
        else:
            taken = (found.end_s - found.first_token_s) / np.maximum(found.output_tokens - 1, 1)
        return ended & (taken <= slo.limit_s), ~(running & started)


def part(runs: Sequence[Tallies], *, from_s: float, until_s: float) -> Attainment | None:
    """The SLO that comes off worst between two times, over all runs; None where no request arrived."""
    first, last = math.ceil(from_s / WINDOW_S), math.floor(until_s / WINDOW_S)
    found = [
        Attainment(slo_name=name, required_fraction=runs[0][name].required_fraction, attained=interval)
        for name in runs[0]
        if (interval := _share([each[name] for each in runs], first, last)) is not None
    ]
    return min(found, key=lambda each: each.margin_fraction, default=None)


def _share(runs: Sequence[SloTally], first: int, last: int) -> Interval | None:
    edges = range(first, max(last, first + 1), BATCH_WINDOWS)
    sent, good = (
        np.concatenate([np.add.reduceat(getattr(each, which)[:last], edges) for each in runs]).astype(np.float64)
        for which in ("sent", "good")
    )
    total = float(sent.sum())
    if total == 0.0:
        return None
    share = float(good.sum()) / total
    batches = sent.size
    if batches < 2:
        return Interval(value=share, low=0.0, high=1.0, confidence_fraction=CONFIDENCE_FRACTION)
    error = math.sqrt(float(np.square(good - share * sent).sum()) * batches / (batches - 1)) / total
    half = t_quantile(0.5 + CONFIDENCE_FRACTION / 2, batches - 1) * error
    return Interval(
        value=share, low=max(0.0, share - half), high=min(1.0, share + half), confidence_fraction=CONFIDENCE_FRACTION
    )


# A window is hurt where attainment is below the SLO by more than three standard errors of so few requests.
_HURT_ERRORS = 3.0


def last_hurt_s(
    runs: Sequence[Tallies], calm: Sequence[Tallies] | None, *, from_s: float, until_s: float
) -> float | None:
    """When the last window that a loss hurt ends; None where it hurt none.

    `calm` are the same arrivals without the loss: bursts hurt windows too, and are not the loss's doing.
    """
    last = None
    for name, tally in runs[0].items():
        kept, sent = _kept(runs, name)
        required = tally.required_fraction
        slack = _HURT_ERRORS * np.sqrt(required * (1.0 - required) / np.maximum(sent, 1))
        hurt = kept < required - slack
        if calm is not None:
            hurt &= kept < _kept(calm, name)[0] - slack
        hurt[: math.floor(from_s / WINDOW_S)] = False
        hurt[math.floor(until_s / WINDOW_S) :] = False
        if bool(hurt.any()):
            end_s = float((np.flatnonzero(hurt)[-1] + 1) * WINDOW_S)
            last = end_s if last is None else max(last, end_s)
    return last


def _kept(runs: Sequence[Tallies], name: str) -> tuple[NDArray[np.float64], Ints]:
    """The share of an SLO in every window, all runs together, and of how many; whole where nothing arrived."""
    sent = np.sum([each[name].sent for each in runs], axis=0)
    good = np.sum([each[name].good for each in runs], axis=0)
    return np.where(sent > 0, good / np.maximum(sent, 1), 1.0), sent
