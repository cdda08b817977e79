"""One window of load, simulated once and reduced to the numbers that decisions and curves are made of.

The run goes on until every request has ended, so that none of the latencies is cut off; rates, backlog and use are
read between the warm-up and the last arrival, where the load was the nominal one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ullage.errors import InputError, InternalError
from ullage.service.replica import Replica
from ullage.service.trial.defined import counts_first, good_requests, histograms, needs_requests
from ullage.service.trial.mix import LoadAt
from ullage.service.trial.stability import Drift, drift
from ullage.service.trial.trial import WINDOW_S, Trial, play, requests_of
from ullage.simulate.fleet import Fleet
from ullage.simulate.histogram import KeptHistogram, KeptRows, bin_edges_s
from ullage.simulate.kernel import codes
from ullage.simulate.load import PS_PER_S, OpenLoop
from ullage.simulate.outcome import Counts, Outcome, Series
from ullage.workload.classes import Metric, Slo
from ullage.workload.definitions import ItlCount

SHOWN_FRACTIONS = (0.5, 0.95, 0.99)
# The number in the system is sampled this often in a run: enough to see thirds, cheap against the steps between.
SAMPLES = 60


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Of one SLO or error budget in one window: requests (or gaps) that count, and those that missed it."""

    sent_count: float
    missed_count: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """One replication: latencies as histograms by class and metric, everything else as means over the window."""

    seed: int
    rate_rps: float
    drift: Drift
    tallies: Mapping[str, Tally]
    histograms: Mapping[str, Mapping[Metric, KeptHistogram]]
    mean_e2e_s: float
    service_s: float
    queue_age_s: float
    waiting_requests: float
    goodput_rps: float
    achieved_rps: float
    error_fractions: Mapping[str, float]
    busy_fraction: float
    kv_fraction: float
    kv_peak_fraction: float
    active_tokens: float
    running_requests: float
    preemptions_per_request: float
    cached_fraction: float


def window(trial: Trial, rate_rps: float, seed: int) -> Window:
    """Simulate the mix at a total offered rate; a window that was simulated before is remembered."""
    key, names = (trial.key, rate_rps, seed), trial.mix_names
    known = _KNOWN.get(key)
    if known is None:
        known = names, read_window(trial, trial.load(rate_rps, seed), rate_rps, seed)
        most = max(_LEAST_KNOWN, _MOST_KNOWN // max(1, len(trial.classes)))
        # Several threads do this at once: the list is made in one piece, an iterator would see the others' changes.
        for oldest in list(_KNOWN)[: max(0, len(_KNOWN) - most + 1)]:
            _KNOWN.pop(oldest, None)
        _KNOWN[key] = known
    return known[1] if known[0] == names else _renamed(known[1], trial, dict(zip(known[0], names, strict=True)))


# A plan uses some hundred windows more than once, and a plan of several pools for those of one pool in another; the
# oldest are forgotten first. So many windows of one class are some 50 MB; of many classes at least as many are kept as
# lie between a pool's size and the proof of its limits, which asks for some of the same.
_KNOWN: dict[tuple[object, ...], tuple[tuple[str, ...], Window]] = {}
_MOST_KNOWN, _LEAST_KNOWN = 3072, 256


def _renamed(known: Window, trial: Trial, new_names: Mapping[str, str]) -> Window:
    """The window of another pool that differs in what its classes are called alone."""
    judged = [
        name
        for each in trial.classes
        for name in (error_budget(each.name), *(criterion(each.name, slo) for slo in each.slos))
    ]
    return replace(
        known,
        tallies=dict(zip(judged, known.tallies.values(), strict=True)),
        histograms={new_names[name]: each for name, each in known.histograms.items()},
        error_fractions={new_names[name]: each for name, each in known.error_fractions.items()},
    )


def read_window(trial: Trial, load: OpenLoop, rate_rps: float, seed: int) -> Window:
    """Simulate requests that are drawn already: pools of several sizes are compared on the same ones."""
    from_s = trial.warmup_s
    outcome = trial.play(load, seed=seed, sample_s=trial.span_s / SAMPLES, keep_requests=needs_requests(trial.classes))
    series, total = outcome.series, outcome.total
    if series is None:
        raise InternalError(law="a run that asked for samples has them", left=series, right=SAMPLES)
    inside = slice(*np.searchsorted(series.at_s, [from_s, trial.span_s * (1 + 1e-9)], side="right").tolist())
    moved = drift(
        series.at_s,
        (series.running + series.waiting).sum(axis=1).astype(np.float64),
        arrivals=total.counts.requests,
        from_s=from_s,
        until_s=trial.span_s,
    )
    window_s = trial.span_s - from_s
    kv = _mean_of(series, "kv_tokens", inside)
    kv_tokens = trial.replica.engine.kv_tokens
    good = good_requests(outcome, load, trial.classes, from_s=from_s)
    rows = _Rows.of(trial, outcome, load)
    return Window(
        seed=seed,
        rate_rps=rate_rps,
        drift=moved,
        tallies=_tallies(trial, rows),
        histograms=rows.histograms,
        mean_e2e_s=_or_zero(total.e2e.mean_s),
        service_s=max(0.0, _or_zero(total.e2e.mean_s) - _or_zero(total.queue.mean_s)),
        queue_age_s=_or_zero(total.queue.quantile_s(0.95)),
        waiting_requests=_mean_of(series, "waiting", inside),
        # Late in a window that empties afterwards, requests succeed that an endless run would still hold.
        goodput_rps=min(good / window_s, moved.ended_rps),
        achieved_rps=moved.ended_rps * (1.0 - _errors(total.counts)),
        error_fractions={name: _errors(each) for name, each in rows.counts.items()},
        busy_fraction=min(1.0, _mean_of(series, "utilisation", inside)),
        kv_fraction=kv / kv_tokens,
        kv_peak_fraction=float(series.kv_tokens[inside].max(initial=0)) / kv_tokens,
        active_tokens=kv,
        running_requests=_mean_of(series, "running", inside),
        preemptions_per_request=total.preemptions / max(total.counts.requests, 1),
        cached_fraction=total.cached_tokens / max(total.prompt_tokens, 1),
    )


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The latencies of a run by class and metric, each a row of all that the run found, without their empty bins.

    Whole histograms hold on to all memory of their run.
    """

    kept: KeptRows
    places: Mapping[str, Mapping[Metric, int]]
    counts: Mapping[str, Counts]

    @staticmethod
    def of(trial: Trial, outcome: Outcome, load: OpenLoop) -> _Rows:
        rows = outcome.group_rows
        own, gaps = rows.by_class.reshape(-1, codes.BINS), rows.gaps
        counted = [each for each in trial.classes if counts_first(each)]
        special = [histograms(outcome, load, each, from_s=trial.warmup_s)[Metric.TPOT].counts for each in counted]
        at = {name: place for place, name in enumerate(rows.class_names)}
        places: dict[str, dict[Metric, int]] = {}
        for each in trial.classes:
            first = codes.METRICS * at[each.name]
            tpot = first + codes.TPOT
            pooled = each.definitions.itl is ItlCount.POOLED
            places[each.name] = {
                Metric.TTFT: first + codes.TTFT,
                Metric.TPOT: len(own) + len(gaps) + counted.index(each) if each in counted else tpot,
                Metric.ITL: len(own) + at[each.name] if pooled else tpot,
                Metric.E2E: first + codes.E2E,
            }
        return _Rows(
            kept=KeptRows.of(own, gaps, *(each[None, :] for each in special)),
            places=places,
            counts=dict(zip(rows.class_names, rows.counts, strict=True)),
        )

    @property
    def histograms(self) -> dict[str, Mapping[Metric, KeptHistogram]]:
        return {name: _Latencies(kept=self.kept, rows=rows) for name, rows in self.places.items()}


@dataclass(frozen=True, kw_only=True)
class _Latencies(Mapping[Metric, KeptHistogram]):
    """The histograms of a class, made when one is read: most windows are only counted."""

    kept: KeptRows
    rows: Mapping[Metric, int]

    def __getitem__(self, metric: Metric) -> KeptHistogram:
        return self.kept.row(self.rows[metric])

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def error_budget(class_name: str) -> str:
    """What the error budget of a class is called among what a load can violate."""
    return f"{class_name} error budget"


@functools.lru_cache(maxsize=2048)
def criterion(class_name: str, slo: Slo) -> str:
    """What an SLO of a class is called among them; many windows use the same few."""
    return f"{class_name} {slo.name}"


def _tallies(trial: Trial, rows: _Rows) -> dict[str, Tally]:
    """Every SLO and error budget of every class. What was refused, timed out or failed has met no SLO."""
    slos = [(each.name, slo) for each in trial.classes for slo in each.slos]
    places = [rows.places[name][slo.metric] for name, slo in slos]
    bins = [_bin_at(rows.kept.bins, slo.limit_s) for _, slo in slos]
    met_counts = rows.kept.within(places, [place for place, _ in bins], [part for _, part in bins]).tolist()
    totals = rows.kept.total_counts[places].tolist()
    slo_counts = zip(slos, totals, met_counts, strict=True)
    found: dict[str, Tally] = {}
    for each in trial.classes:
        counts = rows.counts[each.name]
        lost = _lost(counts)
        found[error_budget(each.name)] = Tally(sent_count=counts.requests, missed_count=lost)
        for (_, slo), total, met in itertools.islice(slo_counts, len(each.slos)):
            # A first token counts where it came, even if its request was lost later.
            sent = float(max(total, counts.requests) if slo.metric is Metric.TTFT else total + lost)
            found[criterion(each.name, slo)] = Tally(sent_count=sent, missed_count=sent - met)
    return found


@functools.lru_cache(maxsize=512)
def _bin_at(bins: int, limit_s: float) -> tuple[int, float]:
    """The bin of a limit, and the part of it that lies below; the limits of a plan are few."""
    edges = bin_edges_s(bins)
    place = int(np.searchsorted(edges, limit_s, side="right")) - 1
    return place, float((limit_s - edges[place]) / (edges[place + 1] - edges[place])) if 0 <= place < bins else 0.0


def name_of(metric: Metric, fraction: float) -> str:
    return Slo(metric=metric, percentile_fraction=fraction, limit_s=1.0).name


def _lost(counts: Counts) -> int:
    return counts.shed + counts.oversize + counts.timed_out + counts.failed


def _errors(counts: Counts) -> float:
    return _lost(counts) / counts.requests if counts.requests else 0.0


def _mean_of(series: Series, what: str, window: slice) -> float:
    """The mean over the window and over replicas."""
    inside = getattr(series, what)[window]
    return float(inside.mean()) if inside.size else 0.0


def _or_zero(value: float) -> float:
    return value if np.isfinite(value) else 0.0


# ---- what a replica can do at all -----------------------------------------------------------------------

_PROBE_REQUESTS = 1500
# A window is forty unloaded requests long, at least.
_REQUESTS_IN_A_ROW = 40.0


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One replica of a mix, full and idle: the scale of every search on it. SLOs do not enter.

    `saturation_rps` is about what it completes when it always has more than enough to do, `work_s` the engine time of
    a request by class then, `idle_e2e_s` the mean latency of a nearly idle one, and `span_s` how long a window is.
    """

    saturation_rps: float
    work_s: Mapping[str, float]
    idle_e2e_s: float

    @property
    def span_s(self) -> float:
        return max(WINDOW_S, _REQUESTS_IN_A_ROW * self.idle_e2e_s)


def probe(replica: Replica, load_at: LoadAt, *, seed: int) -> Probe:
    """1500 requests at once, and the same at a tenth of what that shows."""
    load = load_at(rate_rps=1000.0, span_s=_PROBE_REQUESTS / 1000.0, seed=seed)
    full = play(replica.engine, Fleet(), load, seed=seed, keep_requests=True, attribution=True)
    end_s = requests_of(full).end_s
    ends = np.sort(end_s[np.isfinite(end_s)])
    if ends.size < 8:
        raise InputError(
            field="load",
            value=int(load.requests.count),
            problem="has too few requests that this engine can serve",
            fix="Compare request lengths with the engine's KV blocks.",
        )
    early, late = ends[ends.size // 4], ends[3 * ends.size // 4]
    saturation_rps = float((ends.size // 2) / max(late - early, 1.0 / PS_PER_S))
    calm = load_at(rate_rps=saturation_rps / 10.0, span_s=_PROBE_REQUESTS / saturation_rps, seed=seed)
    return Probe(
        saturation_rps=saturation_rps,
        work_s={each.class_name: each.busy_s / max(each.counts.requests, 1) for each in full.groups},
        idle_e2e_s=_or_zero(play(replica.engine, Fleet(), calm, seed=seed).total.e2e.mean_s),
    )
