"""One burst played to the end, moment by moment: what comes, what is answered in time, what is refused, who waits.

It is the burst of the retry experiment (retries.py) at the planned load, once with nothing between clients and replicas
and once with the limits and a retry budget: a reader sees a queue that never empties beside one that does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.admission.clients import Clients, step_load
from ullage.admission.retries import BACK_FRACTION, BURST_RATIO, Protection, burst_length_s, slo_met_fraction
from ullage.evidence import number
from ullage.service.trial.trial import requests_of
from ullage.simulate.outcome import OUTCOMES, Outcome

_QUIET_S = 30.0
# A picture has room for so many moments; a second is the shortest that says anything.
_MOMENTS, _LEAST_STEP_S = 120, 1.0
# After the burst it is watched for as long as it is given to recover, and for a fifth more.
_WATCHED_RATIO = 1.2
_SUCCESS, _LATE, _SHED = (OUTCOMES.index(each) for each in ("success", "late", "shed"))

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BurstReplay:
    """A burst from `from_s` to `until_s` on some replicas, in steps of `step_s`; rates are of all of them together.

    A request counts where it first came, by how it ended after its last attempt: in time, late or given up on, or
    refused. `waiting_requests` is the longest queue of each step. `back_after_s` is how long after the burst half of
    what the SLOs require is met again, for good; None where that was not seen.
    """

    protection: str
    replicas: int
    planned_rps: float
    burst_rps: float
    from_s: float
    until_s: float
    step_s: float
    offered_rps: tuple[float, ...]
    success_rps: tuple[float, ...]
    late_rps: tuple[float, ...]
    refused_rps: tuple[float, ...]
    waiting_requests: tuple[float, ...]
    success_fraction: float
    back_after_s: float | None


def replay_bursts(
    clients: Clients,
    ways: Sequence[Protection],
    *,
    planning_rps: float,
    saturation_rps: float,
    map: Any = map,  # noqa: A002
) -> tuple[BurstReplay, ...]:
    """The burst under each protection, on the same arrivals; rates are per replica."""
    length_s = burst_length_s(clients.policy, clients.classes)
    span_s = _QUIET_S + length_s + _WATCHED_RATIO * number(clients.policy.recovery)
    burst_rps = max(BURST_RATIO * saturation_rps, planning_rps)
    load = step_load(
        clients, base_rps=planning_rps, burst_rps=burst_rps, at_s=_QUIET_S, length_s=length_s, span_s=span_s
    )
    step_s = max(_LEAST_STEP_S, span_s / _MOMENTS)

    def play(way: Protection) -> BurstReplay:
        outcome = clients.run(
            load,
            guard=way.guard,
            retry=way.retry,
            from_s=_QUIET_S,
            keep_requests=True,
            sample_s=step_s / 4.0,
            gauges=True,
        )
        return _replay(clients, way.name, outcome, planning_rps, burst_rps, length_s, span_s, step_s)

    return tuple(map(play, ways))


def _replay(
    clients: Clients,
    protection: str,
    outcome: Outcome,
    planning_rps: float,
    burst_rps: float,
    length_s: float,
    span_s: float,
    step_s: float,
) -> BurstReplay:
    times = requests_of(outcome)
    count = math.ceil(span_s / step_s)
    came = np.isfinite(times.arrival_s) & (times.arrival_s < count * step_s)
    at = np.floor(times.arrival_s[came] / step_s).astype(np.int64)
    ended = times.outcome[came]

    def rates(where: NDArray[np.bool_]) -> Floats:
        return np.bincount(at[where], minlength=count)[:count] / step_s

    offered, success, shed = rates(ended >= 0), rates(ended == _SUCCESS), rates(ended == _SHED)
    until_s = _QUIET_S + length_s
    inside = ended[(times.arrival_s[came] >= _QUIET_S) & (times.arrival_s[came] < until_s)]
    return BurstReplay(
        protection=protection,
        replicas=clients.replicas,
        planned_rps=planning_rps * clients.replicas,
        burst_rps=burst_rps * clients.replicas,
        from_s=_QUIET_S,
        until_s=until_s,
        step_s=step_s,
        offered_rps=_short(offered),
        success_rps=_short(success),
        late_rps=_short(offered - success - shed),
        refused_rps=_short(shed),
        waiting_requests=_short(_waiting(outcome, count, step_s)),
        success_fraction=float((inside == _SUCCESS).mean()) if inside.size else 1.0,
        back_after_s=_back_after_s(clients, offered, success, until_s, step_s),
    )


def _back_after_s(clients: Clients, offered: Floats, success: Floats, until_s: float, step_s: float) -> float | None:
    """From when on no step has fewer successes than a pool that is back; the last steps end with their runs."""
    wanted = BACK_FRACTION * slo_met_fraction(clients.classes, clients.policy)
    down = np.flatnonzero((success < wanted * offered) & (np.arange(offered.size) * step_s >= until_s - step_s))
    if not down.size:
        return 0.0
    back_s = (int(down[-1]) + 1) * step_s
    return None if down[-1] >= offered.size - 1 else max(0.0, back_s - until_s)


def _waiting(outcome: Outcome, count: int, step_s: float) -> Floats:
    found = np.zeros(count)
    gauges = outcome.gauges
    assert gauges is not None
    at = np.floor(gauges.at_s / step_s).astype(np.int64)
    inside = (at >= 0) & (at < count)
    np.maximum.at(found, at[inside], gauges.waiting[inside])
    return found


def _short(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{each:.4g}") for each in values.tolist())
