"""Both sides of a pool together: whether so many prefill and decode replicas meet the limits of the whole.

Windows are drawn, simulated and judged as those of any pool (trial/decide.py); only a window is two runs, the prefill
side's and the decode side's, with the KV's way between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InternalError
from ullage.service.disaggregated import Floats, SplitPools, SplitServed, SplitTraffic, serve_split
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import BRIEF, Decision, decide
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.stability import Drift, drift
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import SAMPLES, Tally, Window, error_budget
from ullage.simulate.histogram import KeptHistogram, LogHistogram
from ullage.simulate.load import PS_PER_S, OpenLoop
from ullage.workload.classes import Metric, RequestClass
from ullage.workload.definitions import ItlCount

Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class BothSides:
    """The verdict of windows of both sides: the decision on the whole's limits, and the KV transfer time."""

    pools: SplitPools
    decision: Decision
    transfer_p95_s: float
    basis: str


def decide_both(
    pools: SplitPools,
    mix: MixLoad,
    classes: Sequence[RequestClass],
    sides: tuple[Bases, Bases],
    *,
    rate_rps: float,
    seed: int,
    map: Any = map,  # noqa: A002
) -> BothSides:
    """Prefill and decode replicas at a rate, with the step times that both are bought by.

    `pools` have nominal replicas; `sides` are the trials of prefill and of decode, `mix` and `classes` the whole's.
    """
    prefill, decode = (each.conservative for each in sides)
    bought = replace(pools, prefill=prefill.replica, decode=decode.replica)
    whole = replace(
        decode,
        load_at=mix,
        classes=tuple(classes),
        replicas=pools.decode_replicas,
        span_s=max(prefill.span_s, decode.span_s),
        # A request that no deadline leaves time for is lost on either side.
        idle_error_fractions={
            each.name: max(side.idle_error_fractions.get(each.name, 0.0) for side in (prefill, decode))
            for each in classes
        },
    )

    def look(trial: Trial, rate_rps: float, seed: int) -> Window:
        return both_window(bought, trial, rate_rps, seed)

    found = decide(whole, rate_rps, sides[1].conservative_probe, seed=seed, effort=BRIEF, look=look, map=map)
    drawn = mix(rate_rps=rate_rps, span_s=whole.span_s, seed=seed).requests.prompt_tokens
    sent_s = float(np.quantile(pools.transfer.seconds(drawn), 0.95))
    return BothSides(pools=bought, decision=found, transfer_p95_s=sent_s, basis=whole.basis)


def both_window(pools: SplitPools, trial: Trial, rate_rps: float, seed: int) -> Window:
    """One window of the whole's load on both sides."""
    load = trial.load(rate_rps, seed)
    traffic = _traffic(load)
    served = serve_split(pools, traffic, seed=seed)
    own = _by_class(trial, load, traffic.arrival_s >= trial.warmup_s)
    spent_s = {name: _latencies(served, traffic, which) for name, which in own.items()}
    counted = np.flatnonzero(traffic.arrival_s >= trial.warmup_s)
    done = counted[np.isfinite(served.end_s[counted])]
    tallies = _tallies(trial, served, own, spent_s)
    window_s = trial.span_s - trial.warmup_s
    lost = sum(tallies[error_budget(each.name)].missed_count for each in trial.classes)
    bins = served.prefill.total.ttft.counts.size
    return Window(
        seed=seed,
        rate_rps=rate_rps,
        drift=_moved(served, traffic, trial),
        tallies=tallies,
        histograms={
            name: {
                metric: KeptHistogram.of(LogHistogram.of(values[np.isfinite(values)], bins=bins))
                for metric, values in each.items()
            }
            for name, each in spent_s.items()
        },
        mean_e2e_s=float(served.e2e_s[done].mean()) if done.size else 0.0,
        service_s=float((served.e2e_s - served.prefill_wait_s - served.decode_wait_s)[done].mean()) if done.size else 0,
        queue_age_s=float(np.quantile((served.prefill_wait_s + served.decode_wait_s)[done], 0.95)) if done.size else 0,
        waiting_requests=float((served.prefill_wait_s + served.decode_wait_s)[done].sum()) / window_s,
        goodput_rps=_good(trial, own, spent_s) / window_s,
        achieved_rps=(counted.size - lost) / window_s,
        error_fractions={each.name: _lost_fraction(tallies[error_budget(each.name)]) for each in trial.classes},
        busy_fraction=max(served.prefill.utilisation_fraction, served.decode.utilisation_fraction),
        # Two caches have no common fill; each side's is in its own windows.
        kv_fraction=np.nan,
        kv_peak_fraction=np.nan,
        active_tokens=np.nan,
        running_requests=float(served.e2e_s[done].sum()) / window_s,
        preemptions_per_request=served.decode.total.preemptions / max(traffic.arrival_s.size, 1),
        cached_fraction=served.prefill.total.cached_tokens / max(served.prefill.total.prompt_tokens, 1),
    )


def _traffic(load: OpenLoop) -> SplitTraffic:
    given, arrival_ps = load.requests, load.arrival_ps
    if arrival_ps is None:
        raise InternalError(law="a drawn load has its arrivals", left=None, right=given.count)
    return SplitTraffic(
        arrival_s=np.asarray(arrival_ps / PS_PER_S, np.float64),
        prompt_tokens=given.prompt_tokens,
        output_tokens=given.output_tokens,
        cached_tokens=given.cached_tokens,
        classes=given.classes,
        class_of=given.class_of,
    )


def _by_class(trial: Trial, load: OpenLoop, counted: Bools) -> dict[str, Bools]:
    """Of every class, which requests are its own and came after the warm-up."""
    names = [each.name for each in load.requests.classes]
    class_of = load.requests.class_of
    return {
        each.name: counted if class_of is None else counted & (np.asarray(class_of) == names.index(each.name))
        for each in trial.classes
    }


def _latencies(served: SplitServed, traffic: SplitTraffic, own: Bools) -> dict[Metric, Floats]:
    tpot_s = served.tpot_s[own & (traffic.output_tokens > 1)]
    return {Metric.TTFT: served.ttft_s[own], Metric.TPOT: tpot_s, Metric.ITL: tpot_s, Metric.E2E: served.e2e_s[own]}


def _tallies(
    trial: Trial, served: SplitServed, own: dict[str, Bools], spent_s: dict[str, dict[Metric, Floats]]
) -> dict[str, Tally]:
    found = {}
    for each in trial.classes:
        e2e_s = served.e2e_s[own[each.name]]
        deadline_s = trial.deadlines_s.get(each.name, np.inf)
        lost = float((~(e2e_s <= deadline_s)).sum())
        found[error_budget(each.name)] = Tally(sent_count=float(e2e_s.size), missed_count=lost)
        for slo in each.slos:
            if slo.metric is Metric.ITL and each.definitions.itl is ItlCount.POOLED:
                found[f"{each.name} {slo.name}"] = _gap_tally(served.decode.itl[each.name], slo.limit_s)
                continue
            values = spent_s[each.name][slo.metric]
            missed = float((~(values <= slo.limit_s)).sum())
            found[f"{each.name} {slo.name}"] = Tally(sent_count=float(values.size), missed_count=missed)
    return found


def _gap_tally(gaps: LogHistogram, limit_s: float) -> Tally:
    """Single gaps between tokens, all of which the decode side makes."""
    sent = float(gaps.total_count)
    return Tally(sent_count=sent, missed_count=sent * (1.0 - gaps.share_within(limit_s)) if sent else 0.0)


def _good(trial: Trial, own: dict[str, Bools], spent_s: dict[str, dict[Metric, Floats]]) -> float:
    """Requests within the limit of the highest percentile of every metric, those on later tokens where there are."""
    good = 0.0
    for each in trial.classes:
        size = int(own[each.name].sum())
        shares = [float((spent_s[each.name][slo.metric] <= slo.limit_s).mean()) for slo in each.slos
                  if spent_s[each.name][slo.metric].size]  # fmt: skip
        good += size * min(shares, default=1.0)
    return good


def _lost_fraction(tally: Tally) -> float:
    return tally.missed_count / tally.sent_count if tally.sent_count else 0.0


def _moved(served: SplitServed, traffic: SplitTraffic, trial: Trial) -> Drift:
    """How the number in the system moved, on both sides and between them; what was lost left when it came."""
    at_s = np.arange(1, SAMPLES + 1, dtype=np.float64) * (trial.span_s / SAMPLES)
    ends_s = np.sort(np.where(np.isfinite(served.end_s), served.end_s, traffic.arrival_s))
    inside = np.searchsorted(np.sort(traffic.arrival_s), at_s, side="right") - np.searchsorted(
        ends_s, at_s, side="right"
    )
    return drift(
        at_s,
        inside.astype(np.float64),
        arrivals=int((traffic.arrival_s >= trial.warmup_s).sum()),
        from_s=trial.warmup_s,
        until_s=trial.span_s,
    )
