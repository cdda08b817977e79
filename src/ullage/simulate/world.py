"""From a problem to the kernel's records, and the loop that drives the kernel to the end."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ullage.errors import InternalError
from ullage.simulate.kernel import World, advance, close, codes, intervene, state
from ullage.simulate.kernel.records import record_dtype
from ullage.simulate.problem import ClassField, EngineField, Problem

Callback = Callable[["KernelRun"], int]
# Room at the start; both grow when they are full.
_LOG_ROWS = 64
_TIMERS = 512
_LINE_BYTES, _PIECE_BYTES = 64, 1 << 18
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


class KernelRun:
    """A run under way: the kernel's state, and what can be read from it by name.

    The one mutable thing in this package: `advance` moves it, everything made from it is frozen.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.world: Any = _make_world(problem)

    # ---- moving it ----------------------------------------------------------------------------------

    def advance(self, until_ps: int, callback: Callback | None = None) -> int:
        """Runs everything before `until_ps`, growing what is full and asking the callback; returns why it stopped."""
        while True:
            code = int(advance(self.world, until_ps))
            if code == codes.AT_INTERVENTION:
                code = int(intervene(self.world))
            if code == codes.HEAP_FULL:
                self._grow("timers", "timer_room", 2 * (self.world.timer_room + int(self.clock.outstanding)) + 16)
            elif code == codes.LOG_FULL:
                self._grow("samples", "sample_room", 2 * self.world.sample_room)
                self._grow("gauges", "gauge_room", 2 * self.world.gauge_room)
                self._grow("controls", "control_room", 2 * self.world.control_room)
            elif code == codes.AT_CONTROL and callback is not None:
                self.world.plain_clock["want"] = max(0, int(callback(self)))
            elif code == codes.OUT_OF_EVENTS:
                raise InternalError(
                    law="a run ends within its event budget",
                    left=int(self.clock.events), right=self.problem.most_events,
                )  # fmt: skip
            elif code != codes.DONE or self.is_over:
                return code

    def _grow(self, name: str, room: str, size: int) -> None:
        before = getattr(self.world, name)
        made = np.resize(before, size)
        self.world = self.world.replaced(**{name: made, room: size})

    @property
    def is_over(self) -> bool:
        """Whether every request has been issued and has come to its end."""
        clock = self.world.plain_clock
        left = int(clock["outstanding"]) + int(clock["in_backoff"]) + int(clock["thinking"])
        return bool(clock["issued"] == self.problem.listed and left == 0)

    def finish(self, callback: Callback | None = None) -> KernelRun:
        """Runs to the end or the horizon and closes the books."""
        until_ps = self.problem.until_ps
        if self.advance(until_ps, callback) == codes.AT_UNTIL:
            self.clock.now_ps = until_ps
            close(self.world, until_ps)
        replicas = self.world.given("replicas")
        state = replicas["state"]
        on = (state == codes.STARTING) | (state == codes.READY) | (state == codes.DRAINING)
        replicas["on_ps"][on] += int(self.world.plain_clock["now_ps"]) - replicas["on_since_ps"][on]
        return self

    # ---- reading it ---------------------------------------------------------------------------------

    @property
    def clock(self) -> Any:
        return self.world.clock

    @property
    def area_ps(self) -> int:
        """The integral of outstanding requests over time."""
        clock = self.world.plain_clock
        return int(clock["area"]) + codes.CARRY * int(clock["area_carry"])

    @property
    def sojourn_ps(self) -> int:
        """The time that attempts spent on replicas, all together."""
        clock = self.world.plain_clock
        return int(clock["sojourn"]) + codes.CARRY * int(clock["sojourn_carry"])

    @property
    def replicas(self) -> Any:
        return self.world.replicas

    @property
    def state(self) -> Any:
        return self.world.requests.status & 15

    @property
    def replica(self) -> Any:
        return (self.world.requests.status >> 4) - 1

    @property
    def emitted(self) -> Any:
        return self.world.requests.emitted

    @property
    def counters(self) -> Any:
        """By warm-up (0) or not (1) and group."""
        return self.world.given("counters").reshape(2, -1)

    @property
    def shares(self) -> Any:
        return self.world.given("shares").reshape(2, -1)

    @property
    def histograms(self) -> Any:
        return self.world.histograms.reshape(-1, codes.METRICS, codes.BINS)

    @property
    def itl(self) -> Any:
        return np.ascontiguousarray(self.world.itl.reshape(codes.BINS, -1).T)

    @property
    def samples(self) -> Any:
        """Plain records, a row for each sample and a column for each replica."""
        replicas = self.problem.replicas
        return self.world.given("samples")[: int(self.world.plain_clock["samples"]) * replicas].reshape(-1, replicas)

    @property
    def gauges(self) -> Any:
        """Plain records: a rule reads them at every tick."""
        return self.world.given("gauges")[: int(self.world.plain_clock["gauges"])]

    @property
    def controls(self) -> Any:
        return self.world.controls[: int(self.clock.controls)]


def _make_world(problem: Problem) -> World:
    """Makes and fills the arrays; a feature that is not used takes no room."""
    arena = _Arena()
    requests, replicas, prefixes, turns = problem.requests, problem.replicas, problem.prefixes, problem.turns
    classes, groups = problem.classes.shape[0], problem.group_class.size
    slots = int(problem.engines[:, EngineField.MAX_SEQUENCES].max())
    block = 1 << int(problem.engines[:, EngineField.BLOCK_SHIFT].max())
    levels = int(problem.classes[:, ClassField.LEVEL].max()) + 1
    wheel = 1 << max(6, (int(problem.output_tokens.max(initial=1)) + 1).bit_length())
    leaves = 1 << (replicas - 1).bit_length()
    retries = problem.retry.most_attempts > 1
    cancels = problem.cancel_after_ps.size > 0
    timeouts = problem.classes[:, [ClassField.TTFT_TIMEOUT_PS, ClassField.TOTAL_TIMEOUT_PS]]
    deadlines = bool((timeouts < codes.NEVER).any())
    kept = requests if problem.keep_requests else 0
    most = max(requests, replicas * slots, replicas * wheel)
    if most >= 2**31:
        raise InternalError(law="requests, slots and buckets are numbered in 31 bits", left=most, right=2**31)
    # At least a picosecond, as in the reference: an arrival must not follow from a boundary at its own time.
    think_ps = np.maximum(1, problem.think_ps)
    segments, engines = _tables(arena, problem)
    timers = _timers(arena, problem, used=retries or cancels or problem.closed or turns.is_used)
    has_samples, has_gauges = (problem.sample_ps < codes.NEVER and each for each in (problem.samples, problem.gauges))
    samples = arena.records(state.SampleRow, _LOG_ROWS * replicas if has_samples else 0)
    gauges = arena.records(state.GaugeRow, _LOG_ROWS if has_gauges else 0)
    controls = arena.records(state.ControlRow, _LOG_ROWS if problem.control.kind else 0)
    replica_rows = _replicas(arena, problem, slots=slots, wheel=wheel, block=block, levels=levels)
    due_ps, load = arena.numbers(_INT64, leaves, codes.NEVER), arena.numbers(_INT64, leaves, codes.NEVER)
    load[:replicas] = np.where(problem.ready_at_start, 0, codes.NEVER)
    ready = np.flatnonzero(problem.ready_at_start)
    return World(
        arena.addresses,
        **_terms(problem), **_sessions(arena, problem), **_caches(arena, problem, replica_rows),
        request_count=requests, listed_count=problem.listed, replica_count=replicas, class_count=classes,
        group_count=groups,
        event_count=problem.event_ps.size, levels=levels, leaves=leaves, slots_each=slots, wheel_steps=wheel,
        timer_room=timers.size, sample_room=samples.size, gauge_room=gauges.size, control_room=controls.size,
        has_samples=int(has_samples), has_gauges=int(has_gauges), start_delay_count=problem.start_delays_ps.size,
        has_cancel=int(cancels), has_deadline=int(deadlines),
        clock=_clock(arena, problem, ready=ready.size),
        replicas=replica_rows,
        engines=engines, segments=segments, classes=arena.filled(state.ClassTerms, ClassField, problem.classes),
        group_class=_own(problem.group_class, np.int64),
        events=arena.records(state.EventRow, problem.event_ps.size, when_ps=problem.event_ps,
                        replica=problem.event_replica, kind=problem.event_kind),
        deadlines=arena.records(state.DeadlineRow, 2 * classes, when_ps=codes.NEVER),
        timers=timers, samples=samples, gauges=gauges, controls=controls,
        start_delays=_own(problem.start_delays_ps, np.int64),
        due_ps=due_ps, due_tree=_tree(arena, due_ps), load=load, load_tree=_tree(arena, load),
        ready=np.concatenate([ready, np.zeros(replicas - ready.size, np.int64)]),
        slots=_slots(arena, replicas, slots),
        accounts=arena.records(state.AccountRow, replicas * slots if problem.attribute else 0),
        wheel=arena.numbers(_INT32, replicas * wheel, -1), bits=arena.numbers(_INT64, replicas * (wheel >> 5)),
        pending=arena.numbers(_INT32, replicas * slots), phases=arena.numbers(_INT32, replicas * block),
        queues=arena.records(state.QueueRow, replicas * levels, head=-1, tail=-1),
        class_decodes=arena.numbers(_INT32, replicas * classes),
        requests=arena.records(state.RequestRow, requests),
        arrival_ps=_arrivals(arena, problem),
        prompt_tokens=_own(problem.prompt_tokens, np.int32), output_tokens=_own(problem.output_tokens, np.int32),
        cached_tokens=(arena.numbers(_INT32, requests) if prefixes.is_used
                       else _own(problem.cached_tokens, np.int32)),
        group=_own(problem.group if groups > 1 else problem.group[:0], np.int32),
        cancel_after_ps=_own(problem.cancel_after_ps, np.int64), think_ps=_own(think_ps, np.int64),
        client=arena.numbers(_INT32, requests if problem.closed else 0),
        first_ps=arena.numbers(_INT64, requests),
        outside_ps=arena.numbers(_INT64, requests if _has_outside(problem) else 0),
        attempt_ps=arena.numbers(_INT64, requests if retries else 0),
        tries=arena.numbers(_INT32, requests if retries else 0),
        mark=arena.numbers(_INT32, requests if deadlines or cancels else 0),
        finish_ps=arena.numbers(_INT64, kept, -1), admitted_ps=arena.numbers(_INT64, kept, -1),
        preemptions=arena.numbers(_INT32, kept),
        counters=arena.records(state.Counters, 2 * groups), shares=arena.records(state.ShareRow, 2 * groups),
        histograms=arena.numbers(_INT64, groups * codes.METRICS * codes.BINS),
        itl=arena.numbers(_INT64, classes * codes.BINS),
    )  # fmt: skip


def _has_speculation(problem: Problem) -> bool:
    return bool((problem.engines[:, EngineField.WIDTH] > 1).any())


def _has_host(problem: Problem) -> bool:
    return problem.prefixes.is_used and bool(problem.engines[:, EngineField.HOST_ROOM].any())


def _clips(problem: Problem) -> int:
    """Whether requests may still come to more output tokens than are counted, at times or for as long as they run."""
    uses = problem.engines[:, EngineField.POLICY] == codes.NEW_TOKEN_RATIO
    counted = problem.engines[uses, EngineField.CLIP_TOKENS]
    limits, longest = problem.classes[:, ClassField.LIMIT_TOKENS], int(problem.output_tokens.max(initial=0))
    if bool((limits.min() - longest >= counted).all()):
        return codes.ALWAYS
    return codes.SOMETIMES if bool((max(int(limits.max()), longest) > counted).any()) else codes.NEVER_CLIPS


def _has_outside(problem: Problem) -> bool:
    return bool(problem.engines[:, [EngineField.OUTSIDE_PS, EngineField.CROWD_PS]].any())


def _terms(problem: Problem) -> dict[str, int]:
    control, retry = problem.control, problem.retry
    terms = {
        "most_events": problem.most_events, "seed": problem.seed,
        "routing": problem.routing, "refresh_period_ps": problem.refresh_ps,
        "guard_requests": problem.guard.requests, "guard_milli": problem.guard.milli,
        "match_milli": problem.guard.match_milli,
        "control": control.kind, "control_period_ps": control.period_ps, "ready_delay_ps": control.ready_delay_ps,
        "signal": control.signal, "target_milli": control.target_milli, "window_ticks": max(1, control.window_ticks),
        "least_replicas": control.least_replicas, "most_replicas": control.most_replicas,
        "most_attempts": retry.most_attempts, "backoff_ps": retry.backoff_ps, "growth_milli": retry.growth_milli,
        "jitter_milli": retry.jitter_milli, "deposit_milli": retry.deposit_milli, "bucket_milli": retry.bucket_milli,
        "retry_shed": retry.on_shed, "retry_timeout": retry.on_timeout, "retry_failure": retry.on_failure,
        "measure_from_ps": problem.measure_from_ps, "measure_until_ps": problem.measure_until_ps,
        "sample_period_ps": problem.sample_ps, "is_closed": problem.closed,
        "has_cached": problem.cached_tokens.size > 0 or problem.prefixes.is_used,
        "has_prefix": problem.prefixes.is_used, "has_host": _has_host(problem), "has_outside": _has_outside(problem),
        "has_speculation": _has_speculation(problem),
        "counts_blocks": problem.prefixes.is_used and not _has_speculation(problem),
        "has_turns": problem.turns.is_used,
        "between": problem.turns.between if problem.prefixes.is_used else codes.CACHED,
        "has_policy": bool(problem.engines[:, EngineField.POLICY].any()),
        "clips": _clips(problem),
        "has_histograms": problem.histograms, "keep_requests": problem.keep_requests, "attribute": problem.attribute,
    }  # fmt: skip
    return {name: int(value) for name, value in terms.items()}


def _clock(arena: _Arena, problem: Problem, *, ready: int) -> Any:
    return arena.records(
        state.ClockRow, 1,
        ready_min_ps=codes.NEVER,
        refresh_ps=problem.refresh_ps if problem.refresh_ps > 0 else codes.NEVER,
        sample_ps=problem.sample_ps,
        control_ps=problem.control.period_ps if problem.control.kind else codes.NEVER,
        bucket_milli=problem.retry.bucket_milli,
        last_replica=-1, want=-1, ready=ready, timers=problem.client_start_ps.size,
    )  # fmt: skip


def _replicas(arena: _Arena, problem: Problem, *, slots: int, wheel: int, block: int, levels: int) -> Any:
    index = np.arange(problem.replicas)
    return arena.records(
        state.ReplicaRow, problem.replicas,
        index=index, engine=problem.replica_type, head=-1, tail=-1, marked=-1, blocked=1, ready_ps=codes.NEVER,
        state=np.where(problem.ready_at_start, codes.READY, codes.OFF),
        free=index * slots, pending_at=index * slots, wheel_at=index * wheel, bits_at=index * (wheel >> 5),
        phases_at=index * block, queues_at=index * levels, class_decodes_at=index * problem.classes.shape[0],
        cached_at=index * problem.prefixes.size.size, oldest=-1, newest=-1, changed=-1, host_oldest=-1, host_newest=-1,
        parked_oldest=-1, parked_newest=-1,
        ratio=problem.engines[problem.replica_type, EngineField.RATIO_FIRST], refused_at=-1,
    )  # fmt: skip


def _sessions(arena: _Arena, problem: Problem) -> dict[str, Any]:
    """What prompts begin with, who follows whom, and what is held for those to come."""
    prefixes, turns = problem.prefixes, problem.turns
    parked = problem.requests if turns.between == codes.KEPT and prefixes.is_used else 0
    given = {
        "prompt_node": prefixes.prompt, "answer_node": prefixes.answer, "home": problem.home,
        "next_turn": turns.following, "session": turns.session,
        "session_nodes": turns.session_nodes, "session_nodes_at": turns.session_nodes_at,
    }  # fmt: skip
    names = ("parked_at", "parked_node", "parked_before", "parked_after")
    made = {name: _own(each, np.int32) for name, each in given.items()}
    made |= {name: arena.numbers(_INT32, parked) for name in names}
    return made | {"held_blocks": arena.numbers(_INT32, prefixes.prompt.size)}


def _arrivals(arena: _Arena, problem: Problem) -> Any:
    """When requests come, where that is known; the run writes the rest."""
    if not problem.closed and not problem.turns.is_used:
        return _own(problem.arrival_ps, np.int64)
    made = arena.numbers(_INT64, problem.requests, codes.NEVER)
    made[: problem.arrival_ps.size] = problem.arrival_ps
    return made


def _caches(arena: _Arena, problem: Problem, replica_rows: Any) -> dict[str, Any]:
    """Nodes of prompts, and what each replica has of them; which replicas those are is counted by node."""
    given, replicas = problem.prefixes, problem.replicas
    cached = arena.records(state.CacheRow, replicas * given.size.size)
    hosted = arena.records(state.HostRow, cached.size if _has_host(problem) else 0)
    looks = problem.routing == codes.PREFIX_AWARE and problem.refresh_ps > 0
    sightings = arena.records(state.SightingRow, cached.size if looks else 0)
    _warm(problem, replica_rows, cached, hosted, sightings)
    nodes = arena.records(state.NodeRow, given.size.size, parent=given.parent, begin=given.begin, blocks=given.size)
    if given.warm.size:
        here = cached["blocks"].reshape(replicas, -1) > 0
        nodes["holders"], nodes["holder_sum"] = here.sum(axis=0), np.arange(replicas) @ here
    return {"nodes": nodes, "cached": cached, "hosted": hosted, "sightings": sightings}


def _warm(problem: Problem, rows: Any, cached: Any, hosted: Any, sightings: Any) -> None:
    """What caches have at the start: of each replica's nodes the latest that fit, a node as a whole or not at all.

    What is older is in host memory, as far as that goes.
    """
    given = problem.prefixes
    places = (given.warm_chance * problem.replicas) >> 32
    for replica in np.unique(places).tolist():
        engine, row = problem.engines[problem.replica_type[replica]], rows[replica]
        own = given.warm[places == replica]
        older, kept = _fitting(given.size, own, int(engine[EngineField.BLOCKS]))
        _, aside = _fitting(given.size, older, int(engine[EngineField.HOST_ROOM]) if hosted.size else 0)
        for names, there, nodes in (
            (("oldest", "newest", "kept_blocks"), cached, kept),
            (("host_oldest", "host_newest", "host_blocks"), hosted, aside),
        ):
            if nodes.size == 0:
                continue
            at = replica * given.size.size + nodes
            there["blocks"][at] = given.size[nodes]
            there["before"][at] = np.concatenate([[-1], nodes[:-1]])
            there["after"][at] = np.concatenate([nodes[1:], [-1]])
            for name, value in zip(names, (nodes[0], nodes[-1], given.size[nodes].sum()), strict=True):
                row[name] = value
        row["hosted_blocks"] = row["host_blocks"]
        both = np.concatenate([aside, kept])
        if both.size and sightings.size:
            # A router with a periodic refresh has seen none of it yet.
            sightings["changed"][replica * given.size.size + both] = np.concatenate([both[1:], [-1]]) + 2
            row["changed"] = both[0]


def _fitting(size: Any, nodes: Any, blocks: int) -> tuple[Any, Any]:
    """Nodes in order of use, in two: those that do not fit into so many blocks, and the latest, which do."""
    first = nodes.size - int(np.searchsorted(np.cumsum(size[nodes][::-1]), blocks, side="right"))
    return nodes[:first], nodes[first:].astype(np.int64)


def _slots(arena: _Arena, replicas: int, slots: int) -> Any:
    """Every replica's slots in a list of free ones."""
    following = np.arange(1, replicas * slots + 1)
    following[slots - 1 :: slots] = -1
    return arena.records(state.SlotRow, replicas * slots, next=following)


def _tables(arena: _Arena, problem: Problem) -> tuple[Any, Any]:
    """The step tables of all types one after the other, each with its own segments, and the types' terms."""
    engines = arena.filled(state.EngineTerms, EngineField, problem.engines)
    rows, at = problem.decode_base_ps.shape[1], 0
    for kind, engine in enumerate(problem.engines.tolist()):
        decodes, tokens = rows * engine[EngineField.KV_SEGMENTS], engine[EngineField.TOKEN_SEGMENTS]
        engines["decode_at"][kind], engines["token_at"][kind] = at, at + decodes
        at += decodes + tokens
    return _segments(problem), engines


# What the tables of earlier runs came to, with the tables themselves: while those are kept, no other has their place.
_KNOWN_SEGMENTS: dict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = {}
_MOST_SEGMENTS = 32


def _segments(problem: Problem) -> Any:
    """The segments of all tables. Runs of one fleet share them: the kernel only reads them."""
    tables = (problem.decode_base_ps, problem.decode_slope_ps, problem.token_base_ps, problem.token_slope_ps)
    widths = problem.engines[:, [EngineField.KV_SEGMENTS, EngineField.TOKEN_SEGMENTS]]
    if any(each.flags.writeable for each in tables):
        return _joined_segments(tables, widths)
    key = (*(id(each) for each in tables), *widths.ravel().tolist())
    known = _KNOWN_SEGMENTS.get(key)
    if known is None:
        known = tables, _joined_segments(tables, widths)
        while len(_KNOWN_SEGMENTS) >= _MOST_SEGMENTS:
            _KNOWN_SEGMENTS.pop(next(iter(_KNOWN_SEGMENTS)), None)
        _KNOWN_SEGMENTS[key] = known
    return known[1]


def _joined_segments(tables: tuple[Any, ...], widths: Any) -> Any:
    decode_base, decode_slope, token_base, token_slope = tables
    bases: list[Any] = []
    slopes: list[Any] = []
    for kind, (width, tokens) in enumerate(widths.tolist()):
        bases += [decode_base[kind, :, :width].ravel(), token_base[kind, :tokens]]
        slopes += [decode_slope[kind, :, :width].ravel(), token_slope[kind, :tokens]]
    base_ps = np.concatenate(bases)
    return _Arena().records(state.SegmentRow, base_ps.size, base_ps=base_ps, slope_ps=np.concatenate(slopes))


def _timers(arena: _Arena, problem: Problem, *, used: bool) -> Any:
    """The timer heap, with every client's start on it: a sorted array is a heap."""
    clients = problem.client_start_ps.size
    timers = arena.records(state.TimerRow, clients + _TIMERS if used else 0)
    if clients:
        order = np.argsort(problem.client_start_ps, kind="stable").astype(np.int64)
        timers["when_ps"][:clients] = problem.client_start_ps[order]
        timers["code"][:clients] = (codes.RANK_CLIENT << 56) | (order << 8)
    return timers


def _tree(arena: _Arena, keys: Any) -> Any:
    """The winner tree of these keys."""
    tree = arena.numbers(_INT32, 2 * keys.size)
    tree[:] = _winners(keys.tobytes())
    return tree


@functools.lru_cache(maxsize=64)
def _winners(keys_bytes: bytes) -> Any:
    """Level by level from the leaves. Most runs begin with the same keys."""
    keys = np.frombuffer(keys_bytes, np.int64)
    tree = np.zeros(2 * keys.size, np.int32)
    winners = np.arange(keys.size)
    while winners.size:
        tree[winners.size : 2 * winners.size] = winners
        left, right = winners[0::2], winners[1::2]
        winners = np.where(keys[left] <= keys[right], left, right) if right.size else right
    return tree


# ---- arrays ------------------------------------------------------------------------------------------


class _Arena:
    """Zeroed arrays that begin on cache lines. Small ones are cut from one piece of memory.

    Most runs are short, and asking numpy for sixty arrays and for the address of each took longer than running them.
    `addresses` are by identity of the array, which the run keeps.
    """

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}
        self._made: list[Any] = []
        self._piece, self._address, self._begin, self._end = np.zeros(0, np.int8), 0, 0, 0

    def numbers(self, dtype: np.dtype[Any], length: int, value: int = 0) -> Any:
        size = length * dtype.itemsize
        if self._begin + size > self._end:
            wanted = size if size > _PIECE_BYTES // 4 else _PIECE_BYTES
            piece = np.zeros(wanted + _LINE_BYTES, np.int8)
            address = piece.ctypes.data
            first = -address % _LINE_BYTES
            if wanted == size:
                return self._cut(piece, address, first, dtype, length, value)
            self._piece, self._address, self._begin, self._end = piece, address, first, first + wanted
        made = self._cut(self._piece, self._address, self._begin, dtype, length, value)
        self._begin += -(-size // _LINE_BYTES) * _LINE_BYTES
        return made

    def _cut(self, piece: Any, address: int, begin: int, dtype: np.dtype[Any], length: int, value: int) -> Any:
        made: Any = np.ndarray((length,), dtype, buffer=piece, offset=begin)
        if value:
            made.fill(value)
        # What is kept has an identity of its own.
        self._made.append(made)
        self.addresses[id(made)] = address + begin
        return made

    def records(self, record: type, length: int, **fields: Any) -> Any:
        made = self.numbers(record_dtype(record), length)
        for name, value in fields.items():
            made[name] = value
        return made

    def filled(self, record: type, columns: type[enum.IntEnum], rows: Any) -> Any:
        """Records from the rows of a matrix, by the names of its columns."""
        return self.records(record, len(rows), **{column.name.lower(): rows[:, column] for column in columns})


def _own(array: Any, dtype: Any) -> Any:
    """A contiguous, writeable array of this width."""
    made = np.ascontiguousarray(array, dtype)
    return made if made.flags.writeable else made.copy()
