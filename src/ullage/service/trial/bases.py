"""One replica of a pool on both step bases: nominal, and conservative where the evidence may err on the slow side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.service.steps.band import StepBand
from ullage.service.trial.mix import LoadAt
from ullage.service.trial.trial import CONSERVATIVE, NOMINAL, Trial
from ullage.service.trial.window import Probe, probe
from ullage.workload.classes import Metric, RequestClass

# Loads of a nearly idle replica, in parts of its saturation, and requests that tell a share of a thousandth.
_IDLE_PARTS = 20.0
_IDLE_REQUESTS = 4000.0


@dataclass(frozen=True, kw_only=True)
class Bases:
    """Trials of one replica, and the probe of each that scales its searches."""

    band: StepBand
    nominal: Trial
    conservative: Trial
    nominal_probe: Probe
    conservative_probe: Probe

    def trial(self, basis: str) -> Trial:
        return {NOMINAL: self.nominal, CONSERVATIVE: self.conservative}[basis]

    def probe(self, basis: str) -> Probe:
        return {NOMINAL: self.nominal_probe, CONSERVATIVE: self.conservative_probe}[basis]

    def with_load(self, load_at: LoadAt) -> Bases:
        """The same replica under another mix."""
        nominal, conservative = (replace(each, load_at=load_at) for each in (self.nominal, self.conservative))
        return replace(self, nominal=nominal, conservative=conservative)

    @property
    def has_margin(self) -> bool:
        return self.band.slow_ratio > 1.0


def bases_of(trial: Trial, band: StepBand, *, seed: int) -> Bases:
    """Probe the replica, set the window's length by it, and find what an idle replica loses by deadlines alone."""
    found = probe(trial.replica, trial.load_at, seed=seed)
    ratio = band.slow_ratio
    slow = Probe(
        saturation_rps=found.saturation_rps / ratio,
        work_s={name: ratio * each for name, each in found.work_s.items()},
        idle_e2e_s=ratio * found.idle_e2e_s,
    )
    timed = replace(trial, span_s=slow.span_s)
    nominal = replace(timed, idle_error_fractions=_idle_errors(timed, found, seed))
    conservative = nominal
    if ratio > 1.0:
        slowed = timed.with_steps(ratio)
        conservative = replace(slowed, idle_error_fractions=_idle_errors(slowed, slow, seed))
    return Bases(band=band, nominal=nominal, conservative=conservative, nominal_probe=found, conservative_probe=slow)


def _idle_errors(trial: Trial, scale: Probe, seed: int) -> Mapping[str, float]:
    """The share of each class that is lost by its deadline whatever is bought.

    Either a nearly idle replica loses it too, or its answer is so long that it ends after the deadline even at the pace
    that the class's own SLOs allow.
    """
    if not trial.deadlines_s:
        return {}
    rate_rps = scale.saturation_rps / _IDLE_PARTS
    load = trial.load(rate_rps, seed, span_s=_IDLE_REQUESTS / rate_rps)
    outcome = trial.play(load, seed=seed, warmup_s=0.0, is_shared=True)
    names = [each.name for each in load.requests.classes]
    class_of = np.zeros(load.requests.count, np.int64) if load.requests.class_of is None else load.requests.class_of
    found = {}
    for each in trial.classes:
        counts = outcome.of_class(each.name).counts
        idle = (counts.timed_out + counts.oversize) / max(counts.requests, 1)
        output = load.requests.output_tokens[class_of == names.index(each.name)]
        found[each.name] = max(idle, _beyond_slos(each, output, trial.deadlines_s.get(each.name, math.inf)))
    return found


def _beyond_slos(request_class: RequestClass, output_tokens: NDArray[Any], deadline_s: float) -> float:
    """The share of answers that end after the deadline though each of their latencies is within its limit."""
    limits = {metric: [slo.limit_s for slo in request_class.slos if slo.metric is metric] for metric in Metric}
    pace = limits[Metric.TPOT] or limits[Metric.ITL]
    if limits[Metric.E2E] or not pace or not output_tokens.size:
        return 0.0
    longest_s = max(limits[Metric.TTFT], default=0.0) + (output_tokens - 1) * max(pace)
    return float((longest_s > deadline_s).mean())
