"""The state of a run, record by record. `World` holds them all and is what every function of the kernel is handed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ullage.simulate.kernel.compiling import VERSION
from ullage.simulate.kernel.records import Int32, Rows, hold, record_dtype


class ClockRow:
    """What moves for the fleet as a whole."""

    now_ps: int
    issued: int
    outstanding: int
    in_backoff: int
    thinking: int  # turns whose time has not come; the one before has ended
    followed: int  # turns issued after the one before; `issued` are those of the list
    other_ps: int  # when the next outside event comes that is not an open-loop arrival
    next_event: int
    ready_min_ps: int
    refresh_ps: int
    sample_ps: int
    control_ps: int
    timers: int
    samples: int
    gauges: int
    controls: int
    starts: int
    bucket_milli: int
    last_replica: int
    # The integrals for Little's law, with multiples of CARRY apart: a week of a fleet does not fit 63 bits.
    area: int
    area_carry: int
    area_at_ps: int
    sojourn: int
    sojourn_carry: int
    want: int
    ready: int
    events: int
    attempts: int
    signal_outstanding: int
    signal_waiting: int
    signal_tokens: int
    signal_ready: int
    signal_starting: int


class ReplicaRow:
    """One engine. What every boundary reads is in the first three cache lines: a fleet does not fit the cache."""

    # The plan: `planned` decode steps from `begin_ps` on, the first of first_step_ps, each growth_ps longer.
    begin_ps: int
    planned: int
    first_step_ps: int
    growth_ps: int
    step: int
    kv_tokens: int
    decode_busy_ps: int
    decode_tokens: int

    decodes: Int32
    prefills: Int32
    outstanding: Int32
    waiting: Int32
    blocked: Int32  # 1: an arrival changes nothing before the plan ends
    mixed: Int32  # 1: the step under way has prefill, or was walked
    marked: Int32
    head: Int32
    tail: Int32
    free: Int32
    pending: Int32
    starved: Int32
    step_tokens: Int32
    step_decodes: Int32
    state: Int32
    index: Int32

    engine: Int32
    # Where this replica's part of World's arrays begins.
    wheel_at: Int32
    bits_at: Int32
    phases_at: Int32
    pending_at: Int32
    queues_at: Int32
    class_decodes_at: Int32
    preemptions: Int32
    queue_tokens: int
    prompt_tokens: int
    prefill_kv_tokens: int
    prefill_tokens: int

    first_tokens: int
    prefill_busy_ps: int
    mixed_busy_ps: int
    # Sums over decode steps from `base_step` on: their time, time times step number, time per token.
    base_step: int
    sum_ps: float
    sum_step_ps: float
    sum_share_ps: float
    seen_load: int

    cut_tokens: int
    on_since_ps: int
    on_ps: int
    ready_ps: int
    down_causes: int
    returns: int

    # The prefix cache (prefixes.py); blocks held beyond those there are; cached blocks without a reference.
    cached_at: int
    decode_blocks: int  # of decoding requests after the steps that are complete; kept where World.counts_blocks
    shared_blocks: int
    kept_blocks: int
    peak_blocks: int
    evicted_blocks: int
    oldest: Int32
    newest: Int32
    changed: Int32  # since the router's last refresh: the first of a list
    parked_oldest: Int32  # of the turns to come whose sessions keep their blocks
    parked_newest: Int32
    host_oldest: Int32
    host_newest: Int32
    # Its tier in host memory: blocks there, blocks that ever came there, were loaded from it, and were dropped from it.
    host_blocks: int
    hosted_blocks: int
    loaded_blocks: int
    dropped_blocks: int

    # What running requests may still need (capacity.py).
    ratio: int
    limit_tokens: int  # the most their prompts and answers may come to, less one each
    reserved_blocks: int  # blocks for that
    refused_at: int  # running requests when the head of the queue was last refused; -1: it was admitted


class SlotRow:
    """A running request's place on its replica."""

    request: Int32
    next: Int32  # in the bucket of the wheel, or in the list of free slots
    last_step: Int32  # the step index after which its last token is out; -1 in prefill
    length: Int32  # tokens it holds when its last token is out
    before: Int32
    after: Int32
    done: Int32  # prefill: tokens computed, those of the step under way included
    scheduled: Int32


class RequestRow:
    """What the kernel itself needs of a request."""

    emitted: Int32
    after: Int32  # in the waiting queue; the slot of a running request, which is in no queue
    before: Int32
    status: Int32  # the state, plus 16 times (replica + 1)


class NodeRow:
    """A run of blocks that every prompt contains as a whole or not at all; `begin` blocks stand before it."""

    parent: Int32  # -1: a beginning
    begin: Int32
    blocks: Int32
    holders: Int32  # replicas whose device has some of it
    holder_sum: Int32  # of their indices: where it is one, its index


class CacheRow:
    """A node on a replica."""

    blocks: Int32  # so many of its first ones are here
    pins: Int32  # running requests whose prompts contain it
    before: Int32  # in the list of what is kept, by last use
    after: Int32


class SightingRow:
    """A node on a replica as a router last saw it."""

    blocks: Int32
    changed: Int32  # the next that has changed since then plus 2, or 0: it has not changed


class HostRow:
    """A node in a replica's host memory: so many blocks, those that follow what the device has of it."""

    blocks: Int32
    before: Int32  # in the list of what is there, by when it came
    after: Int32


class EngineTerms:
    """A replica type; `decode_at` and `token_at` are where its tables begin in World.segments."""

    max_sequences: int
    token_budget: int
    blocks: int
    block_shift: int
    queue_bound: int
    long_prefill: int
    priority: int
    kv_shift: int
    kv_segments: int
    token_shift: int
    token_segments: int
    pair_ps_1024: int
    is_sum: int  # 1: prefill adds to decode time, 0: the longer of the two
    outside_ps: int
    crowd_ps: int
    rate_1024: int  # tokens that a decoding sequence gains in a step, in 1/1024; 1024 without speculation
    width: int  # positions that it computes to gain them: what is drafted, and one
    host_room: int  # blocks of the tier in host memory
    host_block_ps: int  # what loading one of them takes
    policy: int  # what must fit before a request is admitted
    ratio_first: int
    ratio_least: int
    ratio_decay: int  # a step
    clip_tokens: int  # no more of an answer that may come is counted
    decode_at: int
    token_at: int


class SegmentRow:
    """Part of a step table: time at its beginning, and per token."""

    base_ps: int
    slope_ps: int


class ClassTerms:
    """A request class: deadlines, SLOs, rank of its priority."""

    ttft_timeout_ps: int
    total_timeout_ps: int
    ttft_slo_ps: int
    tpot_slo_ps: int
    e2e_slo_ps: int
    level: int
    limit_tokens: int  # output tokens that its requests allow at most


class Counters:
    """Of one group of requests; the outcomes come first, in the order of their codes."""

    success: int
    late: int
    shed: int
    oversize: int
    timed_out: int
    cancelled: int
    failed: int
    unfinished: int
    retried: int
    preemptions: int
    prompt_tokens: int
    output_tokens: int
    cached_done_tokens: int
    wasted_output_tokens: int
    wasted_computed_tokens: int
    recomputed_tokens: int
    cached_tokens: int


class QueueRow:
    head: Int32
    tail: Int32


class TimerRow:
    when_ps: int
    code: int


class DeadlineRow:
    """The next deadline of one kind in one class, and whose it is."""

    when_ps: int
    request: int


class EventRow:
    when_ps: int
    replica: int
    kind: int


class AccountRow:
    """The sums of its replica when a decoding request was last settled."""

    sum_ps: float
    sum_step_ps: float
    sum_share_ps: float


class ShareRow:
    busy_ps: float
    kv_token_ps: float


class SampleRow:
    running: int
    waiting: int
    kv_tokens: int
    busy_ps: int
    state: int


class GaugeRow:
    """The fleet as a whole at a sample, summed over replicas that serve; those that drain are also kept apart."""

    running: int
    waiting: int
    kv_tokens: int
    queue_tokens: int
    draining_running: int
    draining_waiting: int
    draining_kv_tokens: int
    fullest_kv_tokens: int  # of one replica
    oldest_ps: int  # the arrival of the request that waits longest; NEVER where none waits
    ready: int
    starting: int
    draining: int
    prefill_tokens: int  # from here on sums since the beginning
    decode_tokens: int
    busy_ps: int
    issued: int


class ControlRow:
    at_ps: int
    signal: int
    ready: int
    starting: int
    want: int


class World:
    """The terms of a run, and where its arrays are. A field here does not change while the kernel runs."""

    request_count: int
    listed_count: int  # requests that no other has to end before
    replica_count: int
    class_count: int
    group_count: int
    event_count: int
    levels: int
    leaves: int
    slots_each: int
    wheel_steps: int
    timer_room: int
    sample_room: int
    gauge_room: int
    control_room: int
    most_events: int
    seed: int

    routing: int
    refresh_period_ps: int
    guard_requests: int
    guard_milli: int
    match_milli: int
    control: int
    control_period_ps: int
    ready_delay_ps: int
    start_delay_count: int
    signal: int
    target_milli: int
    window_ticks: int
    least_replicas: int
    most_replicas: int

    most_attempts: int
    backoff_ps: int
    growth_milli: int
    jitter_milli: int
    deposit_milli: int
    bucket_milli: int
    retry_shed: int
    retry_timeout: int
    retry_failure: int

    measure_from_ps: int
    measure_until_ps: int
    sample_period_ps: int
    has_samples: int
    has_gauges: int
    is_closed: int
    has_cancel: int
    has_deadline: int
    has_cached: int
    has_outside: int
    has_speculation: int
    has_prefix: int
    counts_blocks: int  # 1: with a prefix cache, which asks for blocks at every boundary, and without speculation
    has_host: int
    has_turns: int
    between: int
    has_policy: int
    clips: int  # whether requests may come to more than is counted: NEVER_CLIPS, SOMETIMES or ALWAYS
    has_histograms: int
    keep_requests: int
    attribute: int

    clock: ClockRow
    replicas: Rows[ReplicaRow]
    engines: Rows[EngineTerms]
    segments: Rows[SegmentRow]
    classes: Rows[ClassTerms]
    group_class: Rows[int]
    events: Rows[EventRow]
    deadlines: Rows[DeadlineRow]
    timers: Rows[TimerRow]
    samples: Rows[SampleRow]
    gauges: Rows[GaugeRow]
    start_delays: Rows[int]  # how long starts take, in turn; empty where all take ready_delay_ps
    controls: Rows[ControlRow]
    due_ps: Rows[int]  # by replica: when its next boundary is
    due_tree: Rows[Int32]
    load: Rows[int]  # by replica: what the router sees
    load_tree: Rows[Int32]
    ready: Rows[int]

    # By slot, bucket and queue; a replica's own begin where its record says.
    slots: Rows[SlotRow]
    accounts: Rows[AccountRow]
    wheel: Rows[Int32]
    bits: Rows[int]
    pending: Rows[Int32]
    phases: Rows[Int32]
    queues: Rows[QueueRow]
    class_decodes: Rows[Int32]

    # The prefix cache: by node, and by replica and node; the view of a router that refreshes periodically.
    nodes: Rows[NodeRow]
    cached: Rows[CacheRow]
    hosted: Rows[HostRow]
    sightings: Rows[SightingRow]
    # Nodes that one session alone has, the last of a prompt first: a session's begin where it says.
    session_nodes: Rows[Int32]
    session_nodes_at: Rows[Int32]

    # By request; empty where the feature is not used.
    requests: Rows[RequestRow]
    arrival_ps: Rows[int]
    prompt_tokens: Rows[Int32]
    output_tokens: Rows[Int32]
    cached_tokens: Rows[Int32]  # with a prefix cache: what the latest admission found
    prompt_node: Rows[Int32]
    answer_node: Rows[Int32]
    held_blocks: Rows[Int32]
    home: Rows[Int32]
    group: Rows[Int32]
    cancel_after_ps: Rows[int]
    think_ps: Rows[int]  # after its end, before what follows it
    next_turn: Rows[Int32]  # of its session; -1: none
    session: Rows[Int32]
    # A turn to come whose session keeps its blocks: on which replica, plus 1, up to which node, and its list.
    parked_at: Rows[Int32]
    parked_node: Rows[Int32]
    parked_before: Rows[Int32]
    parked_after: Rows[Int32]
    client: Rows[Int32]
    first_ps: Rows[int]  # 0: no token yet, for no token comes out at time 0
    outside_ps: Rows[int]  # what its first token still needed to reach the client
    attempt_ps: Rows[int]
    tries: Rows[Int32]
    mark: Rows[Int32]
    finish_ps: Rows[int]
    admitted_ps: Rows[int]
    preemptions: Rows[Int32]

    # By group, those before and after the warm-up apart.
    counters: Rows[Counters]
    shares: Rows[ShareRow]
    histograms: Rows[int]
    itl: Rows[int]  # by bin, then by class

    def __init__(self, addresses: Mapping[int, int] | None = None, /, **given: Any) -> None:
        """The driver's side: numbers, and arrays whose addresses compiled code reads from a table.

        `addresses` are those that are known already, by identity: numpy takes microseconds to tell one.
        """
        self._given = given
        dtype = record_dtype(World)
        values = ((name, given[name]) for name in dtype.names or ())
        # One assignment: a run is set up in the time of some hundred numpy calls, and most runs are short.
        self._row = np.zeros(1, dtype)
        known = addresses or {}
        self._row[0] = tuple(
            value
            if not isinstance(value, np.ndarray)
            else value[0]
            if name == "clock"
            else known.get(id(value)) or value.ctypes.data
            for name, value in values
        )
        self.clock = self._row["clock"].view(np.recarray)[0]
        # The same record without names as attributes, which numpy takes microseconds to look up.
        self.plain_clock = self._row["clock"][0]
        self.address = self._row.ctypes.data

    def __getattr__(self, name: str) -> Any:
        """Arrays of records are given field names on first access."""
        if name not in self.__dict__.get("_given", ()):
            raise AttributeError(name)
        value = self._given[name]
        has_names = isinstance(value, np.ndarray) and value.dtype.names is not None
        self.__dict__[name] = value.view(np.recarray) if has_names else value
        return self.__dict__[name]

    def given(self, name: str) -> Any:
        """An array as it was given, its fields by key alone."""
        return self._given[name]

    def replaced(self, **changed: Any) -> World:
        """The same run with other arrays or terms."""
        return World(**(self._given | {"clock": self._row["clock"]} | changed))


hold(World, VERSION)
