"""A pool's size in a tenth of a second: what a slider shows while the decided size is being worked out.

Two windows stand for all of them, one heavy and one ordinary, and a dozen replicas for the pool; the load that they
carry is searched in a handful of tries and the rate divided by it. On the built-in example and around it the answer
was within a tenth of the decided one; an SLO that only a nearly idle pool meets is where it errs most. It is
no basis for buying: `size_pool` decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import STEEPNESS, Decision, judge, sampled
from ullage.service.trial.mix import LoadAt, MixLoad
from ullage.service.trial.search import RARE_REQUESTS, likely_replicas, rare_traffic
from ullage.service.trial.strata import Strata
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import Probe
from ullage.simulate.statistics import replication_seeds

# The heaviest eighth of the windows, and the rest: each is represented by the one in its middle.
_SHARES = (1 / 8, 7 / 8)
_CANDIDATES = 64
# Larger pools carry little more a replica (fleet/risk/surface.py), and a dozen cost a third of forty.
_TRIED_REPLICAS = 12
_MOST_TRIES = 4
# Between two loads so close a straight line is as good as another try.
_NEAR = 1.08
_FIRST_FRACTION = 0.9
# How far off the answer was on settings that were decided as well, and where no load between two was found.
_OFF_FRACTION, _FAR_OFF_FRACTION = 0.15, 0.35
_CLOSE = 1.25


@dataclass(frozen=True, kw_only=True)
class QuickSize:
    """About so many replicas carry a rate with conservative step times, and between which numbers the size may lie.

    `binding` is the SLO that a higher load violates first; `at` is the highest load tried at which all are met, or the
    lowest of all where none met them.
    """

    rate_rps: float
    replicas: int
    low_replicas: int
    high_replicas: int
    binding: str
    tried_replicas: int
    at: Decision = field(compare=False)


def quick_size(
    bases: Bases,
    *,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
) -> QuickSize:
    """The estimate; where no load that was tried meets every SLO it is read off the lowest, and is as uncertain."""
    found = _tried(bases.conservative, bases.conservative_probe, rate_rps=rate_rps, seed=seed, map=map)
    low, high = found.low, found.high
    is_near = low is not None and high is not None and high.rate_rps < low.rate_rps * _CLOSE
    off = _OFF_FRACTION if is_near else _FAR_OFF_FRACTION
    alone = found.tried_replicas == 1 and found.carried_rps >= found.load_rps
    return QuickSize(
        rate_rps=rate_rps,
        replicas=found.replicas,
        low_replicas=1 if alone else max(1, math.floor(found.needed * (1.0 - off))),
        high_replicas=1 if alone else max(found.replicas, math.ceil(found.needed * (1.0 + off))),
        binding=_binding(high or low),
        tried_replicas=found.tried_replicas,
        at=_known(low or high),
    )


def quick_start(
    trial: Trial,
    probe: Probe,
    *,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
) -> int | None:
    """Where the search for a pool's size begins; None for a pool so small that simulating it costs no more."""
    if likely_replicas(rate_rps, probe.saturation_rps) <= 2 * _TRIED_REPLICAS:
        return None
    return _tried(trial, probe, rate_rps=rate_rps, seed=seed, map=map).replicas


def needed_replicas(
    trial: Trial,
    probe: Probe,
    *,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
) -> float:
    """The size as a fraction of replicas: by how much two kinds of steps differ in it, less than one replica too."""
    return _tried(trial, probe, rate_rps=rate_rps, seed=seed, map=map).needed


@dataclass(frozen=True, kw_only=True)
class _Bracketed:
    """A dozen replicas at a handful of loads: the highest that met every SLO, the lowest that did not."""

    tried_replicas: int
    load_rps: float
    low: Decision | None
    high: Decision | None

    @property
    def carried_rps(self) -> float:
        """Where a straight line through the two meets what is allowed; from one side as far as the excess suggests."""
        if self.low is None or self.high is None:
            only = _known(self.low or self.high)
            return float(only.rate_rps * math.exp(-only.excess / STEEPNESS))
        low, high = self.low, self.high
        part = -low.excess / (high.excess - low.excess) if high.excess > low.excess else 0.0
        return float(low.rate_rps * (high.rate_rps / low.rate_rps) ** part)

    @property
    def needed(self) -> float:
        return self.load_rps * self.tried_replicas / self.carried_rps

    @property
    def replicas(self) -> int:
        alone = self.tried_replicas == 1 and self.carried_rps >= self.load_rps
        return 1 if alone else max(1, math.ceil(self.needed - 1e-9))


def _tried(trial: Trial, probe: Probe, *, rate_rps: float, seed: int, map: Any) -> _Bracketed:  # noqa: A002
    trial, load_rps = rare_traffic(trial, rate_rps)
    count = min(likely_replicas(load_rps, probe.saturation_rps), _TRIED_REPLICAS)
    windows = _windows(trial.load_at, span_s=trial.span_s, seed=seed, work_s=probe.work_s)
    pool = replace(trial, replicas=count)
    each = [1] * len(windows.weights)
    full_rps = probe.saturation_rps * count
    # One replica that carries the whole of a trickle needs no search for more.
    start = min(_FIRST_FRACTION * full_rps, load_rps) if count == 1 else _FIRST_FRACTION * full_rps
    low, high = _bracket(
        lambda load: judge(pool, load, sampled(pool, load, windows, each, map=map)),
        max(start, RARE_REQUESTS / trial.span_s),
        enough_rps=load_rps if count == 1 else math.inf,
    )
    return _Bracketed(tried_replicas=count, load_rps=load_rps, low=low, high=high)


def _bracket(
    judged: Callable[[float], Decision], start_rps: float, *, enough_rps: float
) -> tuple[Decision | None, Decision | None]:
    """The highest load tried that meets every SLO, and the lowest that does not, as near as a handful of tries come."""
    low: Decision | None = None
    high: Decision | None = None
    load_rps, stride = start_rps, 1.5
    for _ in range(_MOST_TRIES):
        found = judged(load_rps)
        if found.excess > 0.0:
            high = found
        else:
            low = found
        if low is not None and low.rate_rps >= enough_rps:
            break
        if low is not None and high is not None:
            if high.rate_rps < _NEAR * low.rate_rps:
                break
            part = min(max(-low.excess / (high.excess - low.excess), 0.15), 0.85)
            load_rps = low.rate_rps * (high.rate_rps / low.rate_rps) ** part
        else:
            # Farther every time until both sides are known.
            step = math.exp(min(max(abs(found.excess), 0.1) * stride / STEEPNESS, 0.9))
            load_rps, stride = (load_rps / step if found.excess > 0.0 else load_rps * step), 2.0 * stride
    return low, high


def _known(found: Decision | None) -> Decision:
    assert found is not None, "one load was tried at least"
    return found


def _windows(load_at: LoadAt, *, span_s: float, seed: int, work_s: Any) -> Strata:
    """One window of each share, the one in its middle; a load without bursts has one kind of window."""
    if not isinstance(load_at, MixLoad) or not load_at.has_bursts:
        return Strata(weights=(1.0,), seeds=(replication_seeds(seed, 1),), first_windows=(1,))
    seeds = replication_seeds(seed, _CANDIDATES)
    order = np.argsort(-load_at.work(work_s).heaviness(span_s=span_s, seeds=seeds), kind="stable")
    edges = np.cumsum([0, *(round(share * _CANDIDATES) for share in _SHARES)]).tolist()
    return Strata(
        weights=_SHARES,
        seeds=tuple((seeds[int(order[(first + last) // 2])],) for first, last in pairwise(edges)),
        first_windows=(1,) * len(_SHARES),
    )


def _binding(found: Decision | None) -> str:
    return max(_known(found).judged, key=lambda each: each.use_fraction).name
