"""From a problem to the kernel's flat arrays, and the loop that drives the kernel to the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ullage.errors import InternalError
from ullage.simulate import kernel as k
from ullage.simulate.problem import Int32s, Int64s, Problem

Callback = Callable[["KernelRun"], int]
# Room at the start; both grow when they are full.
_LOG_ROWS = 64
_TIMERS = 512


class KernelRun:
    """A run under way: the kernel's arrays, and what can be read from them by name.

    The one mutable thing in this package: `advance` moves it, everything made from it is frozen.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.world = _make_world(problem)

    # ---- moving it ----------------------------------------------------------------------------------

    def advance(self, until_ps: int, callback: Callback | None = None) -> int:
        """Runs everything before `until_ps`, growing what is full and asking the callback; returns why it stopped."""
        while True:
            code = int(k.advance(self.world, until_ps))
            if code == k.AT_INTERVENTION:
                code = int(k.intervene(self.world))
            if code == k.HEAP_FULL:
                room = int(2 * (self.world.heap.size + 2 * self.clock(k.G_OUTSTANDING)) + 32)
                self.world = self.world._replace(heap=_grown(self.world.heap, room))
            elif code == k.LOG_FULL:
                samples, controls = self.world.samples, self.world.controls
                self.world = self.world._replace(
                    samples=_grown(samples, 2 * samples.size), controls=_grown(controls, 2 * controls.size)
                )
            elif code == k.AT_CONTROL and callback is not None:
                self.world.m[k.G_WANT] = max(0, int(callback(self)))
            elif code == k.OUT_OF_EVENTS:
                raise InternalError(
                    law="a run ends within its event budget",
                    left=self.clock(k.G_EVENTS), right=self.problem.most_events,
                )  # fmt: skip
            elif code != k.DONE or self.is_over:
                return code

    @property
    def is_over(self) -> bool:
        """Whether every request has been issued and has come to its end."""
        m = self.world.m
        return bool(m[k.G_ISSUED] == self.problem.requests and m[k.G_OUTSTANDING] == 0 and m[k.G_BACKOFF] == 0)

    def finish(self, callback: Callback | None = None) -> KernelRun:
        """Runs to the end or the horizon and closes the books."""
        until_ps = self.problem.until_ps
        if self.advance(until_ps, callback) == k.AT_UNTIL:
            self.world.m[k.G_NOW] = until_ps
            k.close(self.world, until_ps)
        rows = self.rows
        on = np.isin(rows[:, k.R_STATE], (k.STARTING, k.READY, k.DRAINING))
        rows[on, k.ON_PS] += self.clock(k.G_NOW) - rows[on, k.ON_SINCE]
        return self

    # ---- reading it ---------------------------------------------------------------------------------

    def clock(self, field: int) -> int:
        return int(self.world.m[field])

    @property
    def area_ps(self) -> int:
        """The integral of outstanding requests over time."""
        return self.clock(k.G_AREA) + k.CARRY * self.clock(k.G_AREA_CARRY)

    @property
    def sojourn_ps(self) -> int:
        """The time that attempts spent on replicas, all together."""
        return self.clock(k.G_SOJOURN) + k.CARRY * self.clock(k.G_SOJOURN_CARRY)

    @property
    def rows(self) -> Any:
        return _section(self.world.m, k.HEAD_FIELDS, self.problem.replicas, k.ROW_FIELDS)

    @property
    def status(self) -> Any:
        return self.world.q[k.STATUS : 4 * self.problem.requests : 4]

    @property
    def state(self) -> Any:
        return self.status & 15

    @property
    def replica(self) -> Any:
        return (self.status >> 4) - 1

    @property
    def emitted(self) -> Any:
        return self.world.q[k.EMITTED : 4 * self.problem.requests : 4]

    @property
    def arrival(self) -> Any:
        return self.world.arrival

    @property
    def first(self) -> Any:
        """When the first token came out; 0 where none did, for no token comes out at time 0."""
        return self._of_requests(k.A_FIRST)

    @property
    def finished(self) -> Any:
        return self._of_requests(k.A_FINISH)

    @property
    def admitted(self) -> Any:
        return self._of_requests(k.A_ADMITTED)

    @property
    def preemptions(self) -> Any:
        at = self.clock(k.A_PREEMPTIONS)
        return self.world.q[at : at + self.problem.requests]

    @property
    def attempts(self) -> Any:
        at = self.clock(k.A_TRIES)
        return self.world.q[at : at + self.problem.requests]

    @property
    def counters(self) -> Any:
        return _section(self.world.m, self.clock(k.A_COUNTERS), 2, self.problem.group_class.size, k.COUNTERS)

    @property
    def shares(self) -> Any:
        return _section(self.world.f, self.clock(k.A_SHARES), 2, self.problem.group_class.size, 2)

    @property
    def histograms(self) -> Any:
        return _section(self.world.m, self.clock(k.A_HISTOGRAMS), self.problem.group_class.size, k.METRICS, k.BINS)

    @property
    def itl(self) -> Any:
        return _section(self.world.m, self.clock(k.A_ITL), self.problem.classes.shape[0], k.BINS)

    @property
    def samples(self) -> Any:
        return _section(self.world.samples, 0, self.clock(k.G_SAMPLES), self.problem.replicas, k.SAMPLE_FIELDS)

    @property
    def controls(self) -> Any:
        return _section(self.world.controls, 0, self.clock(k.G_CONTROLS), k.CONTROL_FIELDS)

    def _of_requests(self, field: int) -> Any:
        at = self.clock(field)
        return self.world.m[at : at + self.problem.requests]


def run_problem(problem: Problem, callback: Callback | None = None) -> KernelRun:
    """Runs a problem to its end or its horizon."""
    return KernelRun(problem).finish(callback)


def _section(array: Any, at: int, *shape: int) -> Any:
    """A view of part of a flat array."""
    return array[at : at + int(np.prod(shape))].reshape(shape)


class _Sections:
    """Adds up sections of a flat array and remembers where each begins."""

    def __init__(self, begin: int = 0) -> None:
        self.end = begin
        self.begins: dict[int, int] = {}

    def add(self, head_field: int, size: int) -> None:
        """Every section begins on a cache line."""
        self.begins[head_field] = self.end
        self.end += -(-size // 16) * 16


def _make_world(problem: Problem) -> k.World:
    """Lays out and fills the arrays; a feature that is not used takes no room."""
    requests, replicas = problem.requests, problem.replicas
    classes, groups = problem.classes.shape[0], problem.group_class.size
    kinds = problem.engines.shape[0]
    slots = int(problem.engines[:, k.MAX_SEQUENCES].max())
    block = 1 << int(problem.engines[:, k.BLOCK_SHIFT].max())
    levels = int(problem.classes[:, k.LEVEL].max()) + 1
    wheel = 1 << max(6, (int(problem.output_tokens.max(initial=1)) + 1).bit_length())
    leaves = 1 << (replicas - 1).bit_length()
    retries = problem.retry.most_attempts > 1
    cancels = problem.cancel_after_ps.size > 0
    deadlines = bool((problem.classes[:, [k.TTFT_TIMEOUT, k.TOTAL_TIMEOUT]] < k.NEVER).any())
    kept = requests if problem.keep_requests else 0

    in_m = _Sections(k.HEAD_FIELDS + replicas * k.ROW_FIELDS)
    for field, size in {
        k.A_DUE: leaves, k.A_LOAD: leaves, k.A_READY: replicas,
        k.A_ENGINES: kinds * k.ENGINE_FIELDS, k.A_CLASSES: classes * k.CLASS_FIELDS, k.A_GROUP_CLASS: groups,
        k.A_EVENTS: 3 * problem.event_ps.size, k.A_DEADLINES: 4 * classes, k.A_COUNTERS: 2 * groups * k.COUNTERS,
        k.A_HISTOGRAMS: groups * k.METRICS * k.BINS, k.A_ITL: classes * k.BINS, k.A_BITS: replicas * (wheel >> 5),
        k.A_ATTEMPT: requests if retries else 0, k.A_CANCEL: requests if cancels else 0,
        k.A_THINK: requests if problem.closed else 0,
        k.A_FIRST: requests, k.A_FINISH: kept, k.A_ADMITTED: kept,
    }.items():  # fmt: skip
        in_m.add(field, size)
    tables_at = in_m.end
    tables = [part for kind in range(kinds) for part in _interleaved(problem, kind)]
    m = _lined_up(tables_at + sum(each.size for each in tables), np.int64)
    m[tables_at:] = np.concatenate(tables)

    in_q = _Sections(-(-4 * requests // 16) * 16)
    for field, size in {
        k.A_SLOTS: replicas * slots * k.SLOT_FIELDS, k.A_WHEEL: replicas * wheel, k.A_PENDING: replicas * slots,
        k.A_PHASES: replicas * block, k.A_QUEUES: replicas * levels * 2, k.A_CLASS_DECODES: replicas * classes,
        k.A_DUE_TREE: 2 * leaves, k.A_LOAD_TREE: 2 * leaves,
        k.A_MARK: requests if deadlines or cancels else 0, k.A_CACHED: problem.cached_tokens.size,
        k.A_GROUP: requests if groups > 1 else 0, k.A_CLIENT: requests if problem.closed else 0,
        k.A_TRIES: requests if retries else 0, k.A_PREEMPTIONS: kept,
    }.items():  # fmt: skip
        in_q.add(field, size)
    if in_q.end >= 2**31:
        raise InternalError(law="slots are numbered in 31 bits", left=in_q.end, right=2**31)
    q = _lined_up(in_q.end, np.int32)

    in_f = _Sections(-(-3 * replicas // 16) * 16)
    in_f.add(k.A_ACCOUNTS, 3 * replicas * slots if problem.attribute else 0)
    in_f.add(k.A_SHARES, 4 * groups)
    f = _lined_up(in_f.end, np.float64)

    for field, begin in (in_m.begins | in_q.begins | in_f.begins).items():
        m[field] = begin
    _set_terms(m, problem)
    for field, value in {
        k.X_HAS_DEADLINE: deadlines, k.X_HAS_CANCEL: cancels, k.X_LEVELS: levels, k.X_LEAVES: leaves,
        k.X_SLOTS: slots, k.X_WHEEL: wheel,
    }.items():  # fmt: skip
        m[field] = value
    _fill_tables(m, problem, tables_at, [each.size for each in tables])
    _fill_requests(m, q, problem)
    _fill_replicas(m, q, problem, slots=slots, wheel=wheel, block=block, levels=levels)
    return k.World(
        m=m, q=q, f=f,
        arrival=np.full(requests, k.NEVER, np.int64) if problem.closed else _own(problem.arrival_ps, np.int64),
        prompt=_own(problem.prompt_tokens, np.int32),
        output=_own(problem.output_tokens, np.int32),
        heap=_heap(m, problem, timers=retries or cancels or problem.closed),
        samples=np.zeros(_LOG_ROWS * k.SAMPLE_FIELDS * replicas if problem.sample_ps < k.NEVER else 0, np.int64),
        controls=np.zeros(_LOG_ROWS * k.CONTROL_FIELDS if problem.control.kind else 0, np.int64),
    )  # fmt: skip


def _interleaved(problem: Problem, kind: int) -> tuple[Int64s, Int64s]:
    """The tables of one type as the kernel reads them: its own segments, base and slope side by side."""
    width, tokens = problem.engines[kind, [k.KV_SEGMENTS, k.TOKEN_SEGMENTS]].tolist()
    decode = np.stack([problem.decode_base_ps[kind, :, :width], problem.decode_slope_ps[kind, :, :width]], axis=-1)
    token = np.stack([problem.token_base_ps[kind, :tokens], problem.token_slope_ps[kind, :tokens]], axis=-1)
    return decode.ravel(), token.ravel()


def _fill_tables(m: Int64s, problem: Problem, tables_at: int, sizes: list[int]) -> None:
    kinds = problem.engines.shape[0]
    engines = _section(m, int(m[k.A_ENGINES]), kinds, k.ENGINE_FIELDS)
    engines[:] = problem.engines
    begins = tables_at + np.cumsum([0, *sizes[:-1]])
    engines[:, k.DECODE_TABLE] = begins[0::2]
    engines[:, k.TOKEN_TABLE] = begins[1::2]
    _section(m, int(m[k.A_CLASSES]), *problem.classes.shape)[:] = problem.classes
    _section(m, int(m[k.A_GROUP_CLASS]), problem.group_class.size)[:] = problem.group_class
    events = _section(m, int(m[k.A_EVENTS]), problem.event_ps.size, 3)
    events[:, 0] = problem.event_ps
    events[:, 1] = problem.event_replica
    events[:, 2] = problem.event_kind
    _section(m, int(m[k.A_DEADLINES]), problem.classes.shape[0], 2, 2)[:, :, 0] = k.NEVER


def _fill_requests(m: Int64s, q: Int32s, problem: Problem) -> None:
    requests = problem.requests
    if problem.cancel_after_ps.size:
        _section(m, int(m[k.A_CANCEL]), requests)[:] = problem.cancel_after_ps
    if problem.closed:
        # At least a picosecond, as in the reference: an arrival must not follow from a boundary at its own time.
        _section(m, int(m[k.A_THINK]), requests)[:] = np.maximum(1, problem.think_ps)
    if problem.keep_requests:
        _section(m, int(m[k.A_FINISH]), requests)[:] = -1
        _section(m, int(m[k.A_ADMITTED]), requests)[:] = -1
    if problem.cached_tokens.size:
        _section(q, int(m[k.A_CACHED]), requests)[:] = problem.cached_tokens
    if problem.group_class.size > 1:
        _section(q, int(m[k.A_GROUP]), requests)[:] = problem.group


def _fill_replicas(m: Int64s, q: Int32s, problem: Problem, *, slots: int, wheel: int, block: int, levels: int) -> None:
    replicas = problem.replicas
    index = np.arange(replicas)
    rows = _section(m, k.HEAD_FIELDS, replicas, k.ROW_FIELDS)
    rows[:, [k.HEAD, k.TAIL, k.MARKED]] = -1
    rows[:, k.BLOCKED] = 1
    rows[:, k.READY_AT] = k.NEVER
    rows[:, k.ENGINE] = m[k.A_ENGINES] + k.ENGINE_FIELDS * problem.replica_type.astype(np.int64)
    rows[:, k.R_STATE] = np.where(problem.ready_at_start, k.READY, k.OFF)
    rows[:, k.FREE] = m[k.A_SLOTS] + index * slots * k.SLOT_FIELDS
    rows[:, k.WHEEL_AT] = m[k.A_WHEEL] + index * wheel
    rows[:, k.BITS_AT] = m[k.A_BITS] + index * (wheel >> 5)
    rows[:, k.PENDING_AT] = m[k.A_PENDING] + index * slots
    rows[:, k.PHASES_AT] = m[k.A_PHASES] + index * block
    rows[:, k.QUEUES_AT] = m[k.A_QUEUES] + index * levels * 2
    rows[:, k.CLASS_DECODES_AT] = m[k.A_CLASS_DECODES] + index * problem.classes.shape[0]
    rows[:, k.SUMS_AT] = 3 * index

    free = _section(q, int(m[k.A_SLOTS]), replicas, slots, k.SLOT_FIELDS)
    free[:, :-1, k.S_NEXT] = rows[:, [k.FREE]] + k.SLOT_FIELDS * np.arange(1, slots)
    free[:, -1, k.S_NEXT] = -1
    _section(q, int(m[k.A_WHEEL]), replicas * wheel)[:] = -1
    _section(q, int(m[k.A_QUEUES]), replicas * levels * 2)[:] = -1

    leaves = int(m[k.X_LEAVES])
    _section(m, int(m[k.A_DUE]), leaves)[:] = k.NEVER
    load = _section(m, int(m[k.A_LOAD]), leaves)
    load[:] = k.NEVER
    load[:replicas] = np.where(problem.ready_at_start, 0, k.NEVER)
    build_tree = getattr(k.build_tree, "py_func", k.build_tree)
    build_tree(q, int(m[k.A_DUE_TREE]), m, int(m[k.A_DUE]), leaves)
    build_tree(q, int(m[k.A_LOAD_TREE]), m, int(m[k.A_LOAD]), leaves)
    ready = np.flatnonzero(problem.ready_at_start)
    _section(m, int(m[k.A_READY]), ready.size)[:] = ready
    m[k.G_READY] = ready.size


def _set_terms(m: Int64s, problem: Problem) -> None:
    control, retry = problem.control, problem.retry
    for field, value in {
        k.X_ROUTING: problem.routing, k.X_REFRESH: problem.refresh_ps,
        k.X_CONTROL: control.kind, k.X_CONTROL_PERIOD: control.period_ps, k.X_READY_DELAY: control.ready_delay_ps,
        k.X_SIGNAL: control.signal, k.X_TARGET_MILLI: control.target_milli, k.X_WINDOW: max(1, control.window_ticks),
        k.X_LEAST: control.least_replicas, k.X_MOST: control.most_replicas,
        k.X_ATTEMPTS: retry.most_attempts, k.X_BACKOFF: retry.backoff_ps, k.X_GROWTH: retry.growth_milli,
        k.X_JITTER: retry.jitter_milli, k.X_DEPOSIT: retry.deposit_milli, k.X_BUCKET: retry.bucket_milli,
        k.X_ON_SHED: retry.on_shed, k.X_ON_TIMEOUT: retry.on_timeout, k.X_ON_FAILURE: retry.on_failure,
        k.X_SEED: problem.seed, k.X_FROM: problem.measure_from_ps, k.X_UNTIL: problem.measure_until_ps,
        k.X_SAMPLE: problem.sample_ps, k.X_KEEP: problem.keep_requests, k.X_ATTRIBUTE: problem.attribute,
        k.X_CLOSED: problem.closed, k.X_GROUPS: problem.group_class.size, k.X_CLASSES: problem.classes.shape[0],
        k.X_CACHED: problem.cached_tokens.size > 0, k.X_REPLICAS: problem.replicas, k.X_REQUESTS: problem.requests,
        k.X_MOST_EVENTS: problem.most_events, k.X_EVENTS: problem.event_ps.size, k.X_HISTOGRAMS: problem.histograms,
        k.G_READY_MIN: k.NEVER, k.G_REFRESH: problem.refresh_ps if problem.refresh_ps > 0 else k.NEVER,
        k.G_SAMPLE: problem.sample_ps, k.G_CONTROL: control.period_ps if control.kind else k.NEVER,
        k.G_BUCKET: retry.bucket_milli, k.G_LAST: -1, k.G_WANT: -1,
    }.items():  # fmt: skip
        m[field] = int(value)


def _heap(m: Int64s, problem: Problem, *, timers: bool) -> Int64s:
    """The timer heap, with every client's start on it: a sorted array is a heap."""
    clients = problem.client_start_ps.size
    heap = np.zeros(2 * (clients + _TIMERS) if timers else 0, np.int64)
    if clients:
        order = np.argsort(problem.client_start_ps, kind="stable").astype(np.int64)
        heap[0 : 2 * clients : 2] = problem.client_start_ps[order]
        heap[1 : 2 * clients : 2] = (k.RANK_CLIENT << 56) | (order << 8)
        m[k.G_HEAP] = clients
    return heap


def _lined_up(length: int, dtype: Any) -> Any:
    """Zeros that begin on a cache line."""
    width = np.dtype(dtype).itemsize
    spare = np.zeros(length + 64 // width, dtype)
    return spare[(-spare.ctypes.data % 64) // width :][:length]


def _own(array: Any, dtype: Any) -> Any:
    """A contiguous, writeable array: another layout would mean another compilation."""
    made = np.ascontiguousarray(array, dtype)
    return made if made.flags.writeable else made.copy()


def _grown(array: Any, length: int) -> Any:
    made = np.zeros(length, array.dtype)
    made[: array.size] = array
    return made
