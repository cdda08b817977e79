"""What a run shows: outcomes, latencies and tokens by class and tenant, busy time by replica, series over time."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.histogram import LogHistogram
from ullage.simulate.kernel import codes, state
from ullage.simulate.kernel.records import record_dtype
from ullage.simulate.load import Requests
from ullage.simulate.turns import issue_order
from ullage.simulate.world import KernelRun

PS_PER_S = 10**12

Floats = NDArray[np.float64]
Ints = NDArray[Any]


class Counts(NamedTuple):
    """How many requests ended how; `retried` counts attempts that were followed by another."""

    success: int
    late: int
    shed: int
    oversize: int
    timed_out: int
    cancelled: int
    failed: int
    unfinished: int
    retried: int

    @property
    def requests(self) -> int:
        return sum(self) - self.retried

    @property
    def success_fraction(self) -> float:
        """Successes among requests that came to an end; nan when none did."""
        ended = self.requests - self.unfinished
        return self.success / ended if ended else float("nan")


_COUNTED = record_dtype(state.Counters).names or ()
OUTCOMES = tuple(name for name in Counts._fields if name != "retried")


@dataclass(frozen=True, kw_only=True)
class GroupOutcome:
    """Requests of one class and tenant that arrived after the warm-up.

    TTFT, TPOT, E2E and queue time count from the request's own arrival, retries included; E2E and TPOT of those
    that completed, TTFT of all that got a token, queue time of first attempts. `busy_s` is engine time by tokens
    scheduled and `kv_token_s` the KV held over time: two bases to attribute cost by.
    """

    class_name: str
    tenant: str
    counts: Counts
    ttft: LogHistogram
    tpot: LogHistogram
    e2e: LogHistogram
    queue: LogHistogram
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    recomputed_tokens: int
    wasted_computed_tokens: int
    wasted_output_tokens: int
    preemptions: int
    busy_s: float
    kv_token_s: float


@dataclass(frozen=True, kw_only=True)
class ReplicaOutcome:
    """One replica over the whole run, warm-up included."""

    index: int
    steps: int
    prefill_tokens: int
    decode_tokens: int
    preemptions: int
    prefill_busy_s: float
    decode_busy_s: float
    mixed_busy_s: float
    on_s: float
    # With a prefix cache: most blocks that requests held at once, shared ones once, and blocks that had to make room.
    peak_blocks: int = 0
    evicted_blocks: int = 0
    loaded_blocks: int = 0

    @property
    def busy_s(self) -> float:
        return self.prefill_busy_s + self.decode_busy_s + self.mixed_busy_s


@dataclass(frozen=True, kw_only=True)
class Series:
    """Samples over time: axis 0 is time, axis 1 the replica.

    `state` is 0 off, 1 starting, 2 ready, 3 draining, 4 down.
    """

    at_s: Floats
    running: Ints
    waiting: Ints
    kv_tokens: Ints
    state: Ints
    utilisation: Floats


@dataclass(frozen=True, kw_only=True)
class Gauges:
    """The fleet as a whole over time: sums over replicas that serve, and how many serve, start and drain.

    `oldest_wait_s` is the age of the request that waits longest; tokens are sums since the beginning.
    """

    at_s: Floats
    running: Ints
    waiting: Ints
    kv_tokens: Ints
    queue_tokens: Ints
    fullest_kv_tokens: Ints
    oldest_wait_s: Floats
    ready: Ints
    starting: Ints
    draining: Ints
    prefill_tokens: Ints
    decode_tokens: Ints
    busy_s: Floats
    issued: Ints


@dataclass(frozen=True, kw_only=True)
class Controls:
    """What the control tick saw and had."""

    at_s: Floats
    signal: Ints
    ready_replicas: Ints
    starting_replicas: Ints
    wanted_replicas: Ints


@dataclass(frozen=True, kw_only=True)
class RequestArrays:
    """Every request by itself; times in seconds, nan where it did not come to that.

    `first_token_s` and `end_s` are the engine's; the client has both `outside_s` later.
    """

    arrival_s: Floats
    admitted_s: Floats
    first_token_s: Floats
    end_s: Floats
    outside_s: Floats
    outcome: Ints
    replica: Ints
    output_tokens: Ints
    preemptions: Ints


@dataclass(frozen=True, kw_only=True)
class GroupRows:
    """The kernel's records of every class and tenant, tenants running fastest, and gaps between tokens by class.

    Most callers read a sum, or all histograms at once: fifty classes take longer to name than to simulate.
    """

    class_names: tuple[str, ...]
    tenants: tuple[str, ...]
    counters: NDArray[Any]
    shares: NDArray[Any]
    histograms: NDArray[np.int64]
    gaps: NDArray[np.int64]

    @property
    def each(self) -> tuple[GroupOutcome, ...]:
        who = [(name, tenant) for name in self.class_names for tenant in self.tenants]
        rows = zip(who, self._counts.tolist(), self.histograms, *self._shares, strict=True)
        return tuple(_group(*names, counts, *rest) for names, counts, *rest in rows)

    @property
    def total(self) -> GroupOutcome:
        busy_s, kv_token_s = self._shares
        summed = self.histograms.sum(axis=0) if len(self.histograms) > 1 else self.histograms[0]
        return _group("all", "all", self._counts.sum(axis=0).tolist(), summed, sum(busy_s), sum(kv_token_s))

    @cached_property
    def counts(self) -> tuple[Counts, ...]:
        """How the requests of every class ended."""
        outcomes = self._counts[:, : len(Counts._fields)].reshape(len(self.class_names), len(self.tenants), -1)
        return tuple(Counts(*row) for row in outcomes.sum(axis=1).tolist())

    @property
    def by_class(self) -> NDArray[np.int64]:
        """The histograms of every class, its tenants together."""
        if len(self.tenants) == 1:
            return self.histograms
        parts = self.histograms.reshape(len(self.class_names), len(self.tenants), *self.histograms.shape[1:])
        summed: NDArray[np.int64] = parts.sum(axis=1)
        return summed

    @property
    def _counts(self) -> NDArray[np.int64]:
        """Every counter is a word of its own; the outcomes come first, in the order of their codes."""
        return self.counters.view(np.int64).reshape(self.counters.size, -1)

    @property
    def _shares(self) -> tuple[list[float], list[float]]:
        return (self.shares["busy_ps"] / PS_PER_S).tolist(), (self.shares["kv_token_ps"] / PS_PER_S).tolist()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a simulation.

    Groups count requests that arrived after the warm-up; gaps between tokens (`itl`, by class), replicas and the mean
    of outstanding requests cover the whole run. `group_rows` and `replica_rows` are the kernel's records.
    """

    duration_s: float
    warmup_s: float
    group_rows: GroupRows
    replica_rows: NDArray[Any]
    mean_outstanding_requests: float
    series: Series | None
    gauges: Gauges | None
    controls: Controls | None
    requests: RequestArrays | None

    @cached_property
    def groups(self) -> tuple[GroupOutcome, ...]:
        return self.group_rows.each

    @cached_property
    def total(self) -> GroupOutcome:
        return self.group_rows.total

    @cached_property
    def itl(self) -> dict[str, LogHistogram]:
        rows = self.group_rows
        return {name: LogHistogram(counts=each) for name, each in zip(rows.class_names, rows.gaps, strict=True)}

    @cached_property
    def replicas(self) -> tuple[ReplicaOutcome, ...]:
        return _replicas(self.replica_rows)

    def of_class(self, name: str) -> GroupOutcome:
        return self._by_class[name]

    @cached_property
    def _by_class(self) -> dict[str, GroupOutcome]:
        parts: dict[str, list[GroupOutcome]] = {}
        for each in self.groups:
            parts.setdefault(each.class_name, []).append(each)
        return {name: merged(each, class_name=name, tenant="all") for name, each in parts.items()}

    def of_tenant(self, name: str) -> GroupOutcome:
        return merged([each for each in self.groups if each.tenant == name], class_name="all", tenant=name)

    @property
    def goodput_rps(self) -> float:
        """Successes per second after the warm-up."""
        return self.total.counts.success / max(self.duration_s - self.warmup_s, 1e-12)

    @property
    def utilisation_fraction(self) -> float:
        """Busy time over time switched on, all replicas together."""
        on_s = sum(each.on_s for each in self.replicas)
        return sum(each.busy_s for each in self.replicas) / on_s if on_s else 0.0


def merged(groups: Any, *, class_name: str, tenant: str) -> GroupOutcome:
    """The sum of groups."""
    parts: list[GroupOutcome] = list(groups)
    if len(parts) == 1:
        named = (parts[0].class_name, parts[0].tenant) == (class_name, tenant)
        return parts[0] if named else replace(parts[0], class_name=class_name, tenant=tenant)
    summed: dict[str, Any] = {}
    for each in fields(GroupOutcome):
        values = [getattr(part, each.name) for part in parts]
        if each.name == "counts":
            summed[each.name] = Counts(*(sum(column) for column in zip(*values, strict=True)))
        elif isinstance(values[0], LogHistogram):
            summed[each.name] = LogHistogram.merged(values)
        elif not isinstance(values[0], str):
            summed[each.name] = sum(values)
    return GroupOutcome(class_name=class_name, tenant=tenant, **summed)


def read_outcome(run: KernelRun, requests: Requests) -> Outcome:
    """What a finished run shows as frozen values. Histograms are the run's own: it has no further use for them."""
    problem = run.problem
    end_ps = int(run.clock.now_ps)
    mean = run.area_ps / end_ps if end_ps else 0.0
    return Outcome(
        duration_s=end_ps / PS_PER_S,
        warmup_s=problem.measure_from_ps / PS_PER_S,
        group_rows=GroupRows(
            class_names=tuple(each.name for each in requests.classes), tenants=requests.tenants,
            counters=run.counters[1], shares=run.shares[1], histograms=run.histograms, gaps=run.itl,
        ),
        replica_rows=run.world.given("replicas"),
        mean_outstanding_requests=mean,
        series=_series(run) if problem.sample_ps < codes.NEVER and problem.samples else None,
        gauges=_gauges(run) if problem.sample_ps < codes.NEVER and problem.gauges else None,
        controls=_controls(run) if problem.control.kind else None,
        requests=_requests(run, requests) if problem.keep_requests else None,
    )  # fmt: skip


def _group(
    class_name: str, tenant: str, row: list[int], histograms: NDArray[np.int64], busy_s: float, kv_token_s: float
) -> GroupOutcome:
    """From a row of counters, which padding follows."""
    outcomes = len(Counts._fields)
    rest = dict(zip(_COUNTED[outcomes:], row[outcomes : len(_COUNTED)], strict=True))
    del rest["cached_done_tokens"]
    ttft, tpot, e2e, queue = (
        LogHistogram(counts=histograms[which]) for which in (codes.TTFT, codes.TPOT, codes.E2E, codes.QUEUE)
    )
    return GroupOutcome(
        class_name=class_name, tenant=tenant, counts=Counts(*row[:outcomes]),
        ttft=ttft, tpot=tpot, e2e=e2e, queue=queue, busy_s=busy_s, kv_token_s=kv_token_s, **rest,
    )  # fmt: skip


def _replicas(rows: NDArray[Any]) -> tuple[ReplicaOutcome, ...]:
    counts = (
        rows[name].tolist()
        for name in (
            "step",
            "prefill_tokens",
            "decode_tokens",
            "preemptions",
            "peak_blocks",
            "evicted_blocks",
            "loaded_blocks",
        )
    )
    times_s = (
        (rows[name] / PS_PER_S).tolist() for name in ("prefill_busy_ps", "decode_busy_ps", "mixed_busy_ps", "on_ps")
    )
    return tuple(
        ReplicaOutcome(
            index=index, steps=steps, prefill_tokens=prefill, decode_tokens=decode, preemptions=preemptions,
            prefill_busy_s=prefill_s, decode_busy_s=decode_s, mixed_busy_s=mixed_s, on_s=on_s,
            peak_blocks=peak, evicted_blocks=evicted, loaded_blocks=loaded,
        )
        for index, (
            steps, prefill, decode, preemptions, peak, evicted, loaded, prefill_s, decode_s, mixed_s, on_s,
        ) in enumerate(zip(*counts, *times_s, strict=True))
    )  # fmt: skip


def _series(run: KernelRun) -> Series:
    samples = run.samples
    period_ps = run.problem.sample_ps
    busy_ps = samples["busy_ps"].copy()
    busy_ps[1:] -= samples["busy_ps"][:-1]
    return Series(
        at_s=np.arange(1.0, len(samples) + 1.0) * (period_ps / PS_PER_S),
        running=samples["running"].copy(),
        waiting=samples["waiting"].copy(),
        kv_tokens=samples["kv_tokens"].copy(),
        state=samples["state"].copy(),
        utilisation=busy_ps / period_ps,
    )


def _gauges(run: KernelRun) -> Gauges:
    rows = run.gauges
    at_ps = np.arange(1, len(rows) + 1) * run.problem.sample_ps
    kept = ("running", "waiting", "kv_tokens", "queue_tokens", "fullest_kv_tokens", "ready", "starting", "draining",
            "prefill_tokens", "decode_tokens", "issued")  # fmt: skip
    return Gauges(
        at_s=at_ps / PS_PER_S,
        oldest_wait_s=np.maximum(0, at_ps - rows["oldest_ps"]) / PS_PER_S,
        busy_s=rows["busy_ps"] / PS_PER_S,
        **{name: rows[name].copy() for name in kept},
    )


def _controls(run: KernelRun) -> Controls:
    log = run.controls
    return Controls(
        at_s=log.at_ps / PS_PER_S,
        signal=log.signal.copy(),
        ready_replicas=log.ready.copy(),
        starting_replicas=log.starting.copy(),
        wanted_replicas=log.want.copy(),
    )


def _requests(run: KernelRun, requests: Requests) -> RequestArrays:
    """In the order of the load; the kernel has later turns last."""
    status, world = run.state, run.world
    issued = status != codes.UNSEEN
    found = RequestArrays(
        arrival_s=np.where(issued, world.arrival_ps / PS_PER_S, np.nan),
        admitted_s=np.where(world.admitted_ps >= 0, world.admitted_ps / PS_PER_S, np.nan),
        first_token_s=np.where(world.first_ps > 0, world.first_ps / PS_PER_S, np.nan),
        end_s=np.where(world.finish_ps >= 0, world.finish_ps / PS_PER_S, np.nan),
        outside_s=world.outside_ps / PS_PER_S if world.has_outside else np.zeros(issued.size),
        outcome=np.where(issued, status - codes.SUCCESS, -1),
        replica=run.replica,
        output_tokens=run.emitted.copy(),
        preemptions=world.preemptions.copy(),
    )
    if requests.turns is None:
        return found
    order = issue_order(requests.turns)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return replace(found, **{each.name: getattr(found, each.name)[place] for each in fields(RequestArrays)})
