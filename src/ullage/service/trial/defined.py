"""Latencies counted by another definition than the simulator's own, from the single requests of a run.

The kernel fills histograms of TTFT from arrival, TPOT without the first token, ITL over all gaps, and E2E. A mean gap
of each request is its TPOT. A TPOT that counts the first token is E2E over the output tokens, weighted by them; it
needs the requests themselves, and so does counting who met a limit on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InternalError
from ullage.simulate.histogram import LogHistogram
from ullage.simulate.load import OpenLoop
from ullage.simulate.outcome import Counts, Outcome, RequestArrays
from ullage.workload.classes import Metric, RequestClass
from ullage.workload.definitions import ItlCount, TpotCount

Bools = NDArray[np.bool_]


def needs_requests(classes: Sequence[RequestClass]) -> bool:
    """Whether a run must keep its requests for these classes."""
    return any(counts_first(each) for each in classes)


def histograms(
    outcome: Outcome, load: OpenLoop, slo_class: RequestClass, *, from_s: float
) -> dict[Metric, LogHistogram]:
    """The four latencies of a class by its own definitions; `from_s` is the end of the warm-up."""
    group = outcome.of_class(slo_class.name)
    pooled = slo_class.definitions.itl is ItlCount.POOLED
    tpot = group.tpot
    if counts_first(slo_class):
        counted = _counted(outcome, load, slo_class.name, from_s)
        tpot = LogHistogram.of(
            _whole_tpot_s(outcome, load)[counted],
            weights=load.requests.output_tokens[counted],
            bins=group.tpot.counts.size,
        )
    return {
        Metric.TTFT: group.ttft,
        Metric.TPOT: tpot,
        Metric.ITL: outcome.itl[slo_class.name] if pooled else group.tpot,
        Metric.E2E: group.e2e,
    }


def good_requests(outcome: Outcome, load: OpenLoop, classes: Sequence[RequestClass], *, from_s: float) -> int:
    """Requests that met every limit; those on a TPOT that counts the first token are evaluated here, one by one."""
    good = outcome.total.counts.success
    for each in classes:
        limits = [slo for slo in each.slos if slo.metric is Metric.TPOT]
        if limits and counts_first(each):
            limit_s = max(limits, key=lambda slo: slo.percentile_fraction).limit_s
            counted = _counted(outcome, load, each.name, from_s)
            met_rest = counted & _met_rest(outcome)
            good -= int((_whole_tpot_s(outcome, load)[met_rest] > limit_s).sum())
    return max(good, 0)


def counts_first(slo_class: RequestClass) -> bool:
    return slo_class.definitions.tpot is TpotCount.WITH_FIRST


def _counted(outcome: Outcome, load: OpenLoop, name: str, from_s: float) -> Bools:
    """Requests of the class that came after the warm-up and were answered in full."""
    kept, requests = _kept(outcome), load.requests
    index = [each.name for each in requests.classes].index(name)
    own = np.ones(requests.count, bool) if requests.class_of is None else np.asarray(requests.class_of) == index
    counted: Bools = own & (kept.arrival_s >= from_s) & (kept.output_tokens >= requests.output_tokens)
    return counted


def _met_rest(outcome: Outcome) -> Bools:
    """Requests that the kernel counted as successes: they met every limit but this one, which it was not told."""
    met: Bools = _kept(outcome).outcome == Counts._fields.index("success")
    return met


def _whole_tpot_s(outcome: Outcome, load: OpenLoop) -> NDArray[np.float64]:
    kept = _kept(outcome)
    spent: NDArray[np.float64] = kept.end_s - kept.arrival_s + kept.outside_s
    return spent / np.maximum(load.requests.output_tokens, 1)


def _kept(outcome: Outcome) -> RequestArrays:
    if outcome.requests is None:
        raise InternalError(law="a run that asked for its requests has them", left=None, right="requests")
    return outcome.requests
