"""The executable specification: a literal simulator, one engine step at a time.

What continuous batching means in this program is what this file does. It follows vLLM V1's scheduler
line by line where it can, holds no clever data structure, and is some ten thousand times slower than the
kernel, which must agree with it bit for bit (tests/simulate/test_equality.py).

The rules that are easy to miss:

- An outside event (failure, tick, arrival) comes before a step boundary at the same time. At one time:
  platform events, replicas becoming ready, router refresh, sample, control tick, cancellation of a request
  that waits for its retry, arrivals in order of request number. Boundaries at one time: lowest replica first.
- Arrivals, deadlines, cancellations and finishes touch an engine only at its step boundaries; only the queue
  bound is checked at arrival, and a failure takes effect at once.
- Running requests are scheduled first, in order of admission; each decode takes one token of the budget.
  KV blocks are allocated for the tokens scheduled. Out of blocks: the last admitted (priority scheduling: the
  least urgent) is preempted, loses its KV and waits again; nothing is admitted in a step that preempted.
- A step that preempted and scheduled nothing takes no time; the engine schedules again.
- With speculation a decode takes `WIDTH` tokens of the budget and blocks for as many, or nothing where fewer are left;
  it keeps the tokens its replica's step brings, the same for all, and what it does not keep is free again at the step's
  end. A request that would get more than its output's last token drops the rest.
- With a prefix cache a block of a prompt is on a replica once. It is held while a running request's prompt contains it,
  and kept afterwards, the end of a prompt being taken as used before its beginning. A request that is admitted finds
  the leading blocks of its prompt that are there, less the one with its last token where all are. Blocks enter when the
  step that computed them ends, those of an answer when it is complete. Kept blocks make room, the one used longest ago
  first, after running requests have theirs and after every admission. An engine that stops loses them all.
- With a tier in host memory a block that makes room goes there, and what is there of the same run with it to the newest
  end; what is more than there is room for goes, the oldest first. There it is found like the rest. A request that is
  admitted takes the blocks of its prompt out: those of its hit are loaded, one after the other, before the step
  computes, and the one of its last token is dropped, as is what a complete answer has on the device.
- A session's next turn comes a think time after the end of the one before, whatever became of that; a client that has
  begun a session goes on with it. Until then, where that is set: blocks of prompt and answer stay held (the session
  that has held them longest lets go where nothing runs and what waits does not fit); or the blocks that no other
  session has go to host memory, or go.
- `POLICY` says what must fit before the head of the queue is let in; an engine on which nothing runs asks only for its
  first tokens.
  - PRESENT_NEED (vLLM): the blocks of its first tokens.
  - NEW_TOKEN_RATIO (SGLang 0.5.9): also, with room to spare, its whole prompt and its longest answer, and what running
    answers may still come to: all of it where the prefill ends in this step, else the new-token ratio of it. The ratio
    falls in every step of decodes alone and begins anew when the engine is idle. After a refusal the queue is not
    looked at until a running request has left or a prefill is under way. Out of blocks the request with the fewest
    output tokens is retracted (of several the longest prompt, then the last admitted; with speculation always the last
    admitted), goes to the end of the queue, and the ratio is estimated from those that still decode.
  - NO_EVICT and MAX_UTILIZATION (TensorRT-LLM 1.x): a prefill has the blocks of its whole prompt from the first step
    on. NO_EVICT also asks that the longest answers of all that run fit at once, so that none is ever preempted.
- What follows from a boundary (a client's next request, a next turn, a retry) comes at least a picosecond after it, so
  that no outside event at some time can depend on a boundary at that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ullage.simulate.kernel import codes as k
from ullage.simulate.kernel.arithmetic import bin_of, chance32
from ullage.simulate.kernel.records import fields_of
from ullage.simulate.kernel.state import Counters
from ullage.simulate.problem import (
    NEVER_PS,
    ClassField,
    ControlKind,
    EngineField,
    Int64s,
    Problem,
    RouterArrays,
    SignalKind,
)

# A block of the prefix cache: the run it belongs to, and its place in it.
Block = tuple[int, int]
# Kinds of steps, by which busy time is counted.
PREFILL, DECODE, MIXED = range(3)
# The counters' names, outcomes first in the order of their codes, and the column of each.
COLUMNS = {name: place for place, name in enumerate(fields_of(Counters))}


@dataclass(kw_only=True)
class ReferenceRequest:
    """One request and what became of it."""

    number: int
    prompt: int
    output: int
    cached: int
    group: int
    class_row: list[int]
    limit: int  # output tokens that it allows
    cancel_after_ps: int
    think_ps: int = 0
    arrival_ps: int = -1
    attempt_ps: int = -1
    attempts: int = 0
    client: int = -1
    state: int = k.UNSEEN
    replica: int = -1
    computed: int = 0  # tokens whose KV this attempt holds, those of the step under way included
    emitted: int = 0
    decoding: bool = False  # has emitted a token since its last admission
    scheduled: int = 0  # tokens in the step under way that are kept
    drafted: int = 0  # and positions computed beside them
    prompt_blocks: list[Block] = field(default_factory=list)
    answer_blocks: list[Block] = field(default_factory=list)
    shared: int = 0  # of its blocks, those that are in the prefix cache
    first_ps: int = -1
    outside_ps: int = 0
    finish_ps: int = -1
    admitted_ps: int = -1
    preemptions: int = 0

    @property
    def target(self) -> int:
        """Tokens that must be computed before the next token comes out."""
        return self.prompt + self.emitted

    def urgency(self) -> tuple[int, int, int]:
        return (self.class_row[ClassField.LEVEL], self.attempt_ps, self.number)

    def ends_at(self, now_ps: int) -> int | None:
        """The outcome of a request whose client or deadline gives up on it by now."""
        if now_ps >= self.arrival_ps + self.cancel_after_ps:
            return k.CANCELLED
        if now_ps >= self.attempt_ps + self.class_row[ClassField.TOTAL_TIMEOUT_PS]:
            return k.TIMED_OUT
        if self.first_ps < 0 and now_ps >= self.attempt_ps + self.class_row[ClassField.TTFT_TIMEOUT_PS]:
            return k.TIMED_OUT
        return None


@dataclass(kw_only=True)
class ReferenceStep:
    """What one engine step does."""

    start_ps: int
    end_ps: int
    decodes: int
    prefill_tokens: int


@dataclass(kw_only=True)
class ReferenceReplica:
    index: int
    engine: list[int]
    type: int
    state: int
    running: list[ReferenceRequest] = field(default_factory=list)
    waiting: list[ReferenceRequest] = field(default_factory=list)
    step: ReferenceStep | None = None
    boundary_ps: int = NEVER_PS
    ready_ps: int = NEVER_PS
    down: int = 0
    returns: int = k.OFF
    on_since_ps: int = 0
    on_ps: int = 0
    steps: int = 0
    busy_ps: list[int] = field(default_factory=lambda: [0, 0, 0])
    prefill_tokens: int = 0
    decode_tokens: int = 0
    emitted: int = 0
    preemptions: int = 0
    seen: int = 0
    held: set[Block] = field(default_factory=set)  # the prefix cache: what running requests hold
    kept: list[Block] = field(default_factory=list)  # and what nobody does, oldest use first
    seen_blocks: set[Block] = field(default_factory=set)
    peak_blocks: int = 0
    evicted_blocks: int = 0
    host: list[Block] = field(default_factory=list)  # and its tier in host memory, oldest first
    hosted_blocks: int = 0
    loaded_blocks: int = 0
    dropped_blocks: int = 0
    parked: list[tuple[int, list[Block]]] = field(default_factory=list)  # turns to come, and what is held for them
    loading_ps: int = 0  # what the step that is being scheduled loads
    ratio: int = 0
    refused_at: int = -1  # running requests when the head of the queue was last refused

    @property
    def policy(self) -> int:
        return self.engine[EngineField.POLICY]

    @property
    def outstanding(self) -> int:
        return len(self.running) + len(self.waiting)

    @property
    def kv_tokens(self) -> int:
        return sum(each.computed for each in self.running)

    @property
    def queued_tokens(self) -> int:
        return sum(each.target for each in self.waiting)

    def blocks(self, tokens: int) -> int:
        shift = self.engine[EngineField.BLOCK_SHIFT]
        return (tokens + (1 << shift) - 1) >> shift

    def blocks_used(self) -> int:
        own = sum(self.blocks(self.claim(each)) - each.shared for each in self.running)
        return own + len(self.held)

    def claim(self, request: ReferenceRequest, new: int = 0) -> int:
        """Tokens for which a request has blocks, so many new ones included."""
        if self.policy in (k.NO_EVICT, k.MAX_UTILIZATION) and not request.decoding:
            return request.target
        return request.computed + request.drafted + new

    def whole(self, request: ReferenceRequest) -> int:
        """Blocks of a request whose answer is as long as it may be."""
        return self.blocks(request.prompt + request.limit - 2 + self.engine[EngineField.WIDTH])

    def lets_in(self, request: ReferenceRequest) -> bool:
        """Whether the policy lets a request in beside those that run, its first tokens apart."""
        held = leading(request.prompt_blocks, self.held)
        if not self.running:
            return True
        if self.policy == k.NO_EVICT:
            reserved = sum(self.whole(each) - each.shared for each in self.running) + len(self.held)
            return reserved + self.whole(request) - held <= self.engine[EngineField.BLOCKS]
        if self.policy == k.NEW_TOKEN_RATIO:
            clip = self.engine[EngineField.CLIP_TOKENS]
            found = max(0, self.blocks(request.cached) - held)
            free = self.engine[EngineField.BLOCKS] - self.blocks_used() - found
            room = free << self.engine[EngineField.BLOCK_SHIFT] << k.RATIO_SHIFT
            needed = request.target - request.cached + min(request.limit - request.emitted, clip)
            at_ratio = sum(min(each.limit - each.emitted, clip) for each in self.running if each.decoding)
            ends = [each for each in self.running if not each.decoding and each.scheduled]
            whole = sum(min(each.limit, clip) for each in ends if each.computed == each.target)
            return ((needed + whole) << k.RATIO_SHIFT) + at_ratio * self.ratio < room
        return True

    def looks_at_queue(self) -> bool:
        prefills = any(not each.decoding for each in self.running)
        return self.policy != k.NEW_TOKEN_RATIO or prefills or self.refused_at != len(self.running)

    def estimate_ratio(self) -> None:
        left = [each for each in self.running if each.decoding]
        done = sum(each.emitted + k.RETRACT_STEPS for each in left)
        self.ratio = min(1 << k.RATIO_SHIFT, (done << k.RATIO_SHIFT) // (sum(each.limit for each in left) + 1))

    def decay_ratio(self) -> None:
        engine = self.engine
        self.ratio = max(engine[EngineField.RATIO_LEAST], self.ratio - engine[EngineField.RATIO_DECAY])

    def there(self) -> set[Block]:
        return self.held | set(self.kept) | set(self.host)

    def leave_host(self, blocks: list[Block]) -> None:
        self.host = [each for each in self.host if each not in blocks]

    def offload(self, block: Block) -> None:
        run = [each for each in self.host if each[0] == block[0]]
        self.leave_host(run)
        self.host += [*run, block]
        self.hosted_blocks += 1
        over = max(0, len(self.host) - self.engine[EngineField.HOST_ROOM])
        self.dropped_blocks += over
        del self.host[:over]

    def load(self, request: ReferenceRequest) -> set[Block]:
        """Takes a prompt's blocks out of host memory; those of its hit are on the device from now on."""
        found = [each for each in request.prompt_blocks if each in self.host]
        hit = request.prompt_blocks[: request.cached >> self.engine[EngineField.BLOCK_SHIFT]]
        loaded = {each for each in found if each in hit}
        self.leave_host(found)
        self.loaded_blocks += len(loaded)
        self.dropped_blocks += len(found) - len(loaded)
        self.loading_ps += len(loaded) * self.engine[EngineField.HOST_BLOCK_PS]
        return loaded

    def lose_cache(self) -> None:
        self.dropped_blocks += len(self.host)
        self.held, self.kept, self.host, self.parked = set(), [], [], []

    def wanted(self) -> set[Block]:
        """What running requests hold or will, and what is held between turns."""
        running = {block for each in self.running for block in each.prompt_blocks}
        return running.union(*(blocks for _, blocks in self.parked))

    def park(self, turn: int, blocks: list[Block]) -> None:
        self.parked.append((turn, blocks))
        self.held |= set(blocks)
        self.kept = [each for each in self.kept if each not in self.held]

    def unpark(self, turn: int) -> None:
        for blocks in [blocks for each, blocks in self.parked if each == turn]:
            self.parked = [each for each in self.parked if each[0] != turn]
            self.let_go(blocks)

    def let_go(self, blocks: list[Block]) -> None:
        """What nobody else wants is kept, and the end of it used before its beginning."""
        wanted = self.wanted()
        for block in reversed(blocks):
            if block in self.held and block not in wanted:
                self.held.remove(block)
                self.kept.append(block)

    def clear(self, nodes: list[int], *, offloads: bool) -> None:
        """Blocks of these runs that nobody holds leave the device."""
        for n in nodes:
            gone = [each for each in self.kept if each[0] == n]
            self.kept = [each for each in self.kept if each[0] != n]
            for block in gone if offloads else []:
                self.offload(block)

    def hold(self, request: ReferenceRequest) -> None:
        there = self.load(request) | self.held | set(self.kept)
        request.shared = leading(request.prompt_blocks, there)
        self.held |= there & set(request.prompt_blocks)
        self.kept = [each for each in self.kept if each not in self.held]

    def fill(self) -> None:
        shift = self.engine[EngineField.BLOCK_SHIFT]
        for each in self.running:
            each.shared = max(each.shared, min(each.computed >> shift, len(each.prompt_blocks)))
            self.held |= set(each.prompt_blocks[: each.shared])

    def release(self, request: ReferenceRequest, *, answer: bool = False) -> None:
        """A request that is no longer on the running list lets go of its blocks, from the end."""
        request.shared = 0
        used = self.wanted()
        for block in reversed(request.answer_blocks if answer else []):
            self.kept = [each for each in self.kept if each != block]
            self.dropped_blocks += block in self.host
            self.leave_host([block])
            if block in used:
                self.held.add(block)
            else:
                self.kept.append(block)
        self.let_go(request.prompt_blocks)

    def make_room(self) -> None:
        used = self.blocks_used()
        over = max(0, used + len(self.kept) - self.engine[EngineField.BLOCKS])
        self.peak_blocks = max(self.peak_blocks, used)
        self.evicted_blocks += over
        gone = self.kept[:over]
        del self.kept[:over]
        for block in gone:
            self.offload(block)

    def warm(self, problem: Problem) -> None:
        """What it has at the start: the latest runs of its own that fit."""
        given = problem.prefixes
        places = [int(chance) * problem.replicas >> 32 for chance in given.warm_chance]
        own = [int(n) for n, place in zip(given.warm, places, strict=True) if place == self.index]
        for name, limit in (("kept", EngineField.BLOCKS), ("host", EngineField.HOST_ROOM)):
            while own and len(getattr(self, name)) + given.size[own[-1]] <= self.engine[limit]:
                n = own.pop()
                setattr(self, name, [(n, x) for x in reversed(range(given.size[n]))] + getattr(self, name))
        self.hosted_blocks = len(self.host)

    def gain(self) -> int:
        """Tokens that the step under way, or the next, brings a decoding request."""
        rate = self.engine[EngineField.RATE_1024]
        return ((self.steps + 1) * rate >> 10) - (self.steps * rate >> 10)


def leading(blocks: list[Block], there: set[Block]) -> int:
    """How many blocks from the first on are there."""
    count = 0
    while count < len(blocks) and blocks[count] in there:
        count += 1
    return count


def path_blocks(problem: Problem, node: int) -> list[Block]:
    """The blocks of a run and of all before it, from the first on."""
    found: list[Block] = []
    while node >= 0:
        found = [(node, x) for x in range(problem.prefixes.size[node])] + found
        node = int(problem.prefixes.parent[node])
    return found


class Reference:
    """A run of the literal simulator; `run()` returns the same arrays as the kernel."""

    def __init__(self, problem: Problem, callback: Callable[[Reference], int] | None = None) -> None:
        self.problem = problem
        self.callback = callback
        classes = problem.classes.tolist()
        group_class = problem.group_class.tolist()
        zeros = [0] * problem.requests
        groups = problem.group.tolist() or zeros
        cached = problem.cached_tokens.tolist() or zeros
        cancel = problem.cancel_after_ps.tolist() or [NEVER_PS] * problem.requests
        think = problem.think_ps.tolist() or zeros
        self.requests = [
            ReferenceRequest(
                number=i, prompt=int(problem.prompt_tokens[i]), output=int(problem.output_tokens[i]),
                cached=cached[i], group=groups[i], class_row=classes[group_class[groups[i]]],
                limit=max(classes[group_class[groups[i]]][ClassField.LIMIT_TOKENS], int(problem.output_tokens[i])),
                cancel_after_ps=cancel[i], think_ps=think[i],
            )
            for i in range(problem.requests)
        ]  # fmt: skip
        self.group_class = group_class
        engines = problem.engines.tolist()
        self.replicas = [
            ReferenceReplica(
                index=r,
                type=kind,
                engine=engines[kind],
                state=k.READY if problem.ready_at_start[r] else k.OFF,
                ratio=engines[kind][EngineField.RATIO_FIRST],
            )
            for r, kind in enumerate(problem.replica_type.tolist())
        ]
        self.has_prefix = problem.prefixes.is_used
        if self.has_prefix:
            for each in self.requests:
                each.prompt_blocks = path_blocks(problem, int(problem.prefixes.prompt[each.number]))
                whole = path_blocks(problem, int(problem.prefixes.answer[each.number]))
                each.answer_blocks = whole[len(each.prompt_blocks) :]
            for replica in self.replicas:
                replica.warm(problem)
        self.now_ps = 0
        self.issued = 0
        self.listed = 0  # of those that follow no other, how many have come
        self.turns: list[tuple[int, int]] = []
        self.attempts = 0
        self.next_event = 0
        self.retries: list[tuple[int, int]] = []
        self.clients = sorted((start, c) for c, start in enumerate(problem.client_start_ps.tolist()))
        self.refresh_ps = problem.refresh_ps if problem.refresh_ps > 0 else NEVER_PS
        self.sample_ps = problem.sample_ps
        self.control_ps = problem.control.period_ps if problem.control.kind else NEVER_PS
        self.wanted: list[int] = []
        self.bucket_milli = problem.retry.bucket_milli
        self.last_replica = -1
        self.area_ps = 0
        self.sojourn_ps = 0
        self.outstanding = 0
        shape = (2, problem.group_class.size)
        self.counters = np.zeros((*shape, len(COLUMNS)), np.int64)
        self.shares = np.zeros((*shape, 2), np.float64)
        self.histograms = np.zeros((problem.group_class.size, k.METRICS, k.BINS), np.int64)
        self.itl = np.zeros((problem.classes.shape[0], k.BINS), np.int64)
        self.samples: list[list[tuple[int, int, int, int, int]]] = []
        self.gauges: list[tuple[int, ...]] = []
        self.starts = 0
        self.controls: list[tuple[int, int, int, int]] = []

    # ---- the clock ----------------------------------------------------------------------------------

    def run(self) -> Reference:
        while not self.is_over():
            outside = self.next_outside()
            boundary = min((each.boundary_ps, each.index) for each in self.replicas)
            when = min(outside[0], boundary[0])
            if when >= self.problem.until_ps or when >= NEVER_PS:
                break
            self.area_ps += self.outstanding * (when - self.now_ps)
            self.now_ps = when
            if outside[0] <= boundary[0]:
                self.handle_outside(*outside)
            else:
                self.handle_boundary(self.replicas[boundary[1]])
        self.close()
        return self

    def is_over(self) -> bool:
        return self.listed == self.problem.listed and not (self.outstanding or self.retries or self.turns)

    def next_outside(self) -> tuple[int, int, int]:
        """(time, rank, key) of the next outside event; the smallest comes first."""
        found = [
            (self.refresh_ps, k.RANK_REFRESH, 0),
            (self.sample_ps, k.RANK_SAMPLE, 0),
            (self.control_ps, k.RANK_CONTROL, 0),
        ]
        if self.next_event < self.problem.event_ps.size:
            found.append((int(self.problem.event_ps[self.next_event]), k.RANK_PLATFORM, self.next_event))
        found += [(each.ready_ps, k.RANK_READY, each.index) for each in self.replicas]
        for _, number in self.retries:
            request = self.requests[number]
            found.append((request.arrival_ps + request.cancel_after_ps, k.RANK_CANCEL, number))
        found += [(when, k.RANK_ARRIVAL, number) for when, number in self.retries]
        found += [(when, k.RANK_TURN, number) for when, number in self.turns]
        if self.problem.closed:
            found += [(when, k.RANK_CLIENT, c) for when, c in self.clients]
        elif self.listed < self.problem.listed:
            found.append((int(self.problem.arrival_ps[self.listed]), k.RANK_ARRIVAL, self.listed))
        return min(found)

    def handle_outside(self, when: int, rank: int, key: int) -> None:
        if rank == k.RANK_PLATFORM:
            self.next_event += 1
            self.platform_event(int(self.problem.event_kind[key]), self.replicas[self.problem.event_replica[key]])
        elif rank == k.RANK_READY:
            self.become_ready(self.replicas[key])
        elif rank == k.RANK_REFRESH:
            self.refresh_ps += self.problem.refresh_ps
            for each in self.replicas:
                each.seen = self.load_of(each)
                each.seen_blocks = each.there()
        elif rank == k.RANK_SAMPLE:
            self.sample_ps += self.problem.sample_ps
            self.sample()
        elif rank == k.RANK_CONTROL:
            self.control_ps += self.problem.control.period_ps
            self.control()
        elif rank == k.RANK_CANCEL:
            self.retries = [each for each in self.retries if each[1] != key]
            self.end(self.requests[key], k.CANCELLED)
        elif rank == k.RANK_CLIENT:
            self.clients.remove((when, key))
            if self.listed < self.problem.listed:
                self.requests[self.listed].client = key
                self.first_attempt(self.requests[self.listed])
        elif rank == k.RANK_TURN:
            self.turns.remove((when, key))
            for replica in self.replicas:
                replica.unpark(key)
            self.first_attempt(self.requests[key])
        elif (when, key) in self.retries:
            self.retries.remove((when, key))
            self.attempt(self.requests[key])
        else:
            self.first_attempt(self.requests[key])

    # ---- arrivals, endings, retries -----------------------------------------------------------------

    def first_attempt(self, request: ReferenceRequest) -> None:
        self.issued += 1
        self.listed += request.number < self.problem.listed
        request.arrival_ps = self.now_ps
        retry = self.problem.retry
        self.bucket_milli = min(retry.bucket_milli, self.bucket_milli + retry.deposit_milli)
        self.attempt(request)

    def attempt(self, request: ReferenceRequest) -> None:
        request.attempts += 1
        request.attempt_ps = self.now_ps
        self.attempts += 1
        replica = self.route(request)
        if replica is None:
            self.end(request, k.FAILED)
            return
        request.replica = replica.index
        engine = replica.engine
        # The last step may begin a token short of the end and computes its whole width.
        longest = request.prompt + request.output - 2 + engine[EngineField.WIDTH]
        if replica.blocks(longest) > engine[EngineField.BLOCKS]:
            self.end(request, k.OVERSIZE)
        elif len(replica.waiting) >= engine[EngineField.QUEUE_BOUND]:
            self.end(request, k.SHED)
        else:
            request.state = k.WAITING
            self.enqueue(replica, request)
            self.outstanding += 1
            if replica.boundary_ps == NEVER_PS:
                replica.boundary_ps = self.now_ps

    def enqueue(self, replica: ReferenceReplica, request: ReferenceRequest) -> None:
        replica.waiting.append(request)
        if replica.engine[EngineField.PRIORITY]:
            replica.waiting.sort(key=ReferenceRequest.urgency)

    def end(self, request: ReferenceRequest, outcome: int) -> None:
        """An attempt is over: the request is repeated, or this is what became of it."""
        if outcome not in (k.SUCCESS, k.LATE):
            self.count(request, "wasted_computed_tokens", request.computed - self.hit(request))
            self.count(request, "wasted_output_tokens", request.emitted)
        if self.retries_now(request, outcome):
            self.count(request, "retried", 1)
            request.state = k.BACKOFF
            request.computed = request.emitted = request.drafted = 0
            request.first_ps = -1
            request.decoding = False
            self.retries.append((self.now_ps + self.backoff(request), request.number))
            return
        request.state = outcome
        request.finish_ps = self.now_ps
        self.count(request, list(COLUMNS)[outcome - k.SUCCESS], 1)
        if outcome in (k.SUCCESS, k.LATE):
            self.count(request, "prompt_tokens", request.prompt)
            self.count(request, "output_tokens", request.output)
            self.count(request, "cached_done_tokens", request.cached)
            self.record(request, k.E2E, self.now_ps - request.arrival_ps + request.outside_ps)
            if request.output > 1:
                self.record(request, k.TPOT, (self.now_ps - request.first_ps) // (request.output - 1))
        if request.first_ps >= 0:
            self.record(request, k.TTFT, request.first_ps - request.arrival_ps + request.outside_ps)
        following = self.following(request)
        if following >= 0 and outcome != k.UNFINISHED:
            self.requests[following].client = request.client
            self.turns.append((self.now_ps + max(1, request.think_ps), following))
        elif request.client >= 0 and outcome != k.UNFINISHED and self.listed < self.problem.listed:
            self.clients.append((self.now_ps + max(1, request.think_ps), request.client))

    def following(self, request: ReferenceRequest) -> int:
        """The next turn of its session, or -1."""
        return int(self.problem.turns.following[request.number]) if self.problem.turns.is_used else -1

    def set_aside(self, replica: ReferenceReplica, request: ReferenceRequest) -> None:
        """What becomes of a session's blocks until its next turn."""
        turns = self.problem.turns
        if turns.between == k.CACHED or not self.has_prefix or self.following(request) < 0:
            return
        if turns.between == k.KEPT:
            replica.park(self.following(request), request.prompt_blocks + request.answer_blocks)
            return
        first, last = turns.session_nodes_at[turns.session[request.number] :][:2]
        replica.clear(turns.session_nodes[first:last].tolist(), offloads=turns.between == k.OFFLOADED)

    def hit(self, request: ReferenceRequest) -> int:
        """Tokens of `computed` that came from the prefix cache and were not computed here."""
        return request.cached if request.computed > 0 else 0

    def retries_now(self, request: ReferenceRequest, outcome: int) -> bool:
        terms = self.problem.retry
        wanted = {k.SHED: terms.on_shed, k.TIMED_OUT: terms.on_timeout, k.FAILED: terms.on_failure}
        if not wanted.get(outcome, False) or request.attempts >= terms.most_attempts or self.bucket_milli < 1000:
            return False
        if self.now_ps >= request.arrival_ps + request.cancel_after_ps:
            return False
        self.bucket_milli -= 1000
        return True

    def backoff(self, request: ReferenceRequest) -> int:
        terms = self.problem.retry
        wait = terms.backoff_ps
        for _ in range(request.attempts - 1):
            wait = wait * terms.growth_milli // 1000
        spread = wait * terms.jitter_milli // 1000
        chance: int = chance32(self.problem.seed, request.number, request.attempts + k.JITTER_STREAM)
        return max(1, wait + (spread >> 16) * (chance >> 16))

    def finish(self, request: ReferenceRequest) -> None:
        """The last token is out: success, or late where the class's SLO is missed."""
        row = request.class_row
        tpot_slo_ps = row[ClassField.TPOT_SLO_PS]
        outside_ps = request.outside_ps
        late = (
            request.first_ps - request.arrival_ps + outside_ps > row[ClassField.TTFT_SLO_PS]
            or self.now_ps - request.arrival_ps + outside_ps > row[ClassField.E2E_SLO_PS]
            or (tpot_slo_ps < NEVER_PS and self.now_ps - request.first_ps > tpot_slo_ps * (request.output - 1))
        )
        self.end(request, k.LATE if late else k.SUCCESS)

    # ---- routing ------------------------------------------------------------------------------------

    def load_of(self, replica: ReferenceReplica) -> int:
        routing = self.problem.routing
        if routing == RouterArrays.LEAST_TOKENS:
            return sum(each.prompt for each in replica.running + replica.waiting)
        if routing == RouterArrays.LEAST_KV:
            return replica.kv_tokens + replica.queued_tokens
        return replica.outstanding

    def route(self, request: ReferenceRequest) -> ReferenceReplica | None:
        ready = [each for each in self.replicas if each.state == k.READY]
        if not ready:
            return None
        routing = self.problem.routing

        def visible_load(replica: ReferenceReplica) -> int:
            return replica.seen if self.problem.refresh_ps > 0 else self.load_of(replica)

        if routing == RouterArrays.ROUND_ROBIN:
            later = [each for each in ready if each.index > self.last_replica]
            chosen = (later or ready)[0]
            self.last_replica = chosen.index
            return chosen
        if routing in (RouterArrays.RANDOM, RouterArrays.POWER_OF_TWO):
            first = ready[self.pick(request, 0, len(ready))]
            if routing == RouterArrays.RANDOM or len(ready) == 1:
                return first
            others = [each for each in ready if each is not first]
            second = others[self.pick(request, 1, len(others))]
            return second if visible_load(second) < visible_load(first) else first
        least = min(ready, key=visible_load)
        chosen, enough = least, True
        if routing == RouterArrays.STICKY:
            home: int = chance32(self.problem.seed, int(self.problem.home[request.number]), k.HOME_STREAM)
            chosen = ready[home * len(ready) >> 32]
        elif routing == RouterArrays.PREFIX_AWARE:
            blocks = request.prompt_blocks
            found = {
                each.index: leading(blocks, each.seen_blocks if self.problem.refresh_ps > 0 else each.there())
                for each in ready
            }
            chosen = min(ready, key=lambda each: (-found[each.index], visible_load(each)))
            enough = found[chosen.index] * 1000 >= self.problem.guard.match_milli * len(blocks)
        load, spare = visible_load(chosen), visible_load(least)
        guarded = load - spare > self.problem.guard.requests and load * 1000 > self.problem.guard.milli * spare
        return chosen if enough and not guarded else least

    def pick(self, request: ReferenceRequest, draw: int, choices: int) -> int:
        chance: int = chance32(self.problem.seed, request.number, 2 * request.attempts + draw)
        return chance * choices >> 32

    # ---- the engine ---------------------------------------------------------------------------------

    def handle_boundary(self, replica: ReferenceReplica) -> None:
        self.complete_step(replica)
        self.drop_given_up(replica)
        self.start_step(replica)
        if replica.state == k.DRAINING and replica.outstanding == 0:
            self.switch_off(replica)

    def complete_step(self, replica: ReferenceReplica) -> None:
        step = replica.step
        if step is None:
            return
        self.account(replica, step)
        duration = step.end_ps - step.start_ps
        for request in replica.running:
            if request.scheduled and request.decoding:
                self.itl[self.group_class[request.group], bin_of(duration)] += 1
        gain = replica.gain()
        replica.steps += 1
        replica.step = None
        for request in replica.running:
            request.drafted = 0
        replica.fill()
        finished = []
        for request in list(replica.running):
            if request.scheduled == 0 or request.computed < request.target:
                continue
            brought = gain if request.decoding else 1
            dropped = max(0, request.emitted + brought - request.output)
            request.computed -= dropped
            replica.decode_tokens -= dropped
            request.emitted += brought - dropped
            request.decoding = True
            if request.first_ps < 0:
                request.first_ps = self.now_ps
                engine = replica.engine
                beside = engine[EngineField.CROWD_PS] * step.decodes
                request.outside_ps = engine[EngineField.OUTSIDE_PS] + beside
            replica.emitted += brought - dropped
            if request.emitted == request.output:
                self.leave(replica, replica.running, request)
                self.finish(request)
                finished.append(request)
        self.release_finished(replica, finished)

    def release_finished(self, replica: ReferenceReplica, finished: list[ReferenceRequest]) -> None:
        """Those that end together let go one after the other, in order of their numbers."""
        left = sorted(finished, key=lambda each: each.number)
        for place, request in enumerate(left):
            replica.running += left[place + 1 :]
            replica.release(request, answer=True)
            self.set_aside(replica, request)
            replica.running = [each for each in replica.running if each not in left]

    def account(self, replica: ReferenceReplica, step: ReferenceStep) -> None:
        """Books the step's time up to now: to the replica by kind, to each group by tokens and by KV held."""
        duration = self.now_ps - step.start_ps
        kind = DECODE if step.prefill_tokens == 0 else MIXED if step.decodes else PREFILL
        replica.busy_ps[kind] += duration
        for request in replica.running:
            positions = step.decodes * replica.engine[EngineField.WIDTH] + step.prefill_tokens
            share = duration * (request.scheduled + request.drafted) / positions
            place = (self.measured(request), request.group)
            self.shares[place][0] += share
            self.shares[place][1] += float(request.computed) * duration

    def drop_given_up(self, replica: ReferenceReplica) -> None:
        """Ends what a client or a deadline has given up on, highest number first (the retry budget is finite)."""
        for request in sorted(replica.running + replica.waiting, key=lambda each: -each.number):
            outcome = request.ends_at(self.now_ps)
            if outcome is not None:
                was_running = request in replica.running
                self.leave(replica, replica.running if was_running else replica.waiting, request)
                if was_running:
                    replica.release(request)
                self.end(request, outcome)

    def leave(self, replica: ReferenceReplica, queue: list[ReferenceRequest], request: ReferenceRequest) -> None:
        queue.remove(request)
        self.outstanding -= 1
        self.sojourn_ps += self.now_ps - request.attempt_ps

    def start_step(self, replica: ReferenceReplica) -> None:
        while True:
            preempted = self.schedule(replica)
            scheduled = [each for each in replica.running if each.scheduled]
            if not scheduled and not preempted and replica.waiting and replica.parked:
                replica.refused_at = -1
                replica.unpark(replica.parked[0][0])
            elif scheduled or not preempted:
                break
        replica.boundary_ps = NEVER_PS
        if not scheduled:
            replica.ratio = replica.engine[EngineField.RATIO_FIRST]
            return
        if all(each.decoding for each in scheduled) and not preempted:
            replica.decay_ratio()
        decodes = sum(1 for each in scheduled if each.decoding)
        prefills = [each for each in scheduled if not each.decoding]
        tokens = sum(each.scheduled for each in prefills)
        pairs = sum(each.scheduled * (2 * each.computed - each.scheduled + 1) // 2 for each in prefills)
        kv_tokens = sum(each.computed + each.drafted for each in scheduled)
        end_ps = self.now_ps + self.step_time(replica, decodes, kv_tokens, tokens, pairs) + replica.loading_ps
        replica.prefill_tokens += tokens
        replica.decode_tokens += decodes * replica.gain()
        replica.step = ReferenceStep(start_ps=self.now_ps, end_ps=end_ps, decodes=decodes, prefill_tokens=tokens)
        replica.boundary_ps = end_ps

    def schedule(self, replica: ReferenceReplica) -> bool:
        """Gives tokens and KV blocks to requests for one step; says whether any was preempted."""
        engine = replica.engine
        budget = engine[EngineField.TOKEN_BUDGET]
        longest = engine[EngineField.LONG_PREFILL]
        blocks = engine[EngineField.BLOCKS]
        preempted = False
        width = engine[EngineField.WIDTH]
        replica.loading_ps = 0
        for request in replica.running:
            request.scheduled = request.drafted = 0
        place = 0
        while place < len(replica.running) and budget > 0:
            request = replica.running[place]
            new = width if request.decoding else min(request.target - request.computed, longest, budget)
            if new > budget:
                break
            while True:
                growth = replica.blocks(replica.claim(request, new)) - replica.blocks(replica.claim(request))
                if replica.blocks_used() + growth <= blocks:
                    break
                victim = self.victim(replica)
                if replica.running.index(victim) < place:
                    place -= 1
                    budget += victim.scheduled + victim.drafted
                self.preempt(replica, victim)
                preempted = True
                if victim is request:
                    break
            if request.state != k.RUNNING and replica.policy == k.NEW_TOKEN_RATIO:
                continue
            if request.state != k.RUNNING:
                break
            kept = replica.gain() if request.decoding else new
            request.scheduled = kept
            request.drafted = new - kept
            request.computed += kept
            budget -= new
            place += 1
        replica.make_room()
        if preempted and replica.policy == k.NEW_TOKEN_RATIO:
            replica.estimate_ratio()
        if replica.waiting and not preempted and replica.looks_at_queue():
            self.let_in(replica, budget)
        return preempted

    def let_in(self, replica: ReferenceReplica, budget: int) -> None:
        """Admits from the head of the queue as long as there is room."""
        engine = replica.engine
        replica.refused_at = -1
        while replica.waiting and budget > 0:
            if len(replica.running) >= engine[EngineField.MAX_SEQUENCES]:
                break
            request = replica.waiting[0]
            if self.has_prefix:
                shift = engine[EngineField.BLOCK_SHIFT]
                found = leading(request.prompt_blocks, replica.there())
                request.cached = min(found, (request.target - 1) >> shift) << shift
            new = min(request.target - request.cached, engine[EngineField.LONG_PREFILL], budget)
            claim = replica.claim(request, request.cached + new)
            needed = replica.blocks(claim) - leading(request.prompt_blocks, replica.held)
            if replica.blocks_used() + needed > engine[EngineField.BLOCKS] or not replica.lets_in(request):
                replica.refused_at = len(replica.running)
                break
            self.admit(replica, request, new)
            replica.hold(request)
            replica.make_room()
            budget -= new

    def victim(self, replica: ReferenceReplica) -> ReferenceRequest:
        if replica.policy == k.NEW_TOKEN_RATIO:
            if replica.engine[EngineField.WIDTH] > 1:
                return replica.running[-1]
            return min(reversed(replica.running), key=lambda each: (each.emitted, -each.prompt))
        if replica.engine[EngineField.PRIORITY]:
            return max(replica.running, key=ReferenceRequest.urgency)
        return replica.running[-1]

    def preempt(self, replica: ReferenceReplica, request: ReferenceRequest) -> None:
        replica.running.remove(request)
        replica.release(request)
        self.count(request, "recomputed_tokens", request.computed - request.scheduled - request.cached)
        request.computed = request.scheduled = request.drafted = 0
        request.decoding = False
        request.state = k.PREEMPTED
        request.preemptions += 1
        replica.preemptions += 1
        self.count(request, "preemptions", 1)
        replica.waiting.insert(len(replica.waiting) if replica.policy == k.NEW_TOKEN_RATIO else 0, request)
        if replica.engine[EngineField.PRIORITY]:
            replica.waiting.sort(key=ReferenceRequest.urgency)

    def admit(self, replica: ReferenceReplica, request: ReferenceRequest, new: int) -> None:
        replica.waiting.remove(request)
        replica.running.append(request)
        if request.state == k.WAITING and request.attempts == 1:
            self.record(request, k.QUEUE, self.now_ps - request.arrival_ps)
            request.admitted_ps = self.now_ps
        self.count(request, "cached_tokens", request.cached)
        request.state = k.RUNNING
        request.scheduled = new
        request.computed = request.cached + new

    def step_time(self, replica: ReferenceReplica, decodes: int, kv_tokens: int, tokens: int, pairs: int) -> int:
        engine, kind, problem = replica.engine, replica.type, self.problem
        segment = min(kv_tokens >> engine[EngineField.KV_SHIFT], engine[EngineField.KV_SEGMENTS] - 1)
        past = kv_tokens - (segment << engine[EngineField.KV_SHIFT])
        decode_ps = int(problem.decode_base_ps[kind, decodes, segment])
        decode_ps += int(problem.decode_slope_ps[kind, decodes, segment]) * past
        if tokens == 0:
            return decode_ps
        batch = tokens if engine[EngineField.IS_SUM] else tokens + decodes * engine[EngineField.WIDTH]
        segment = min(batch >> engine[EngineField.TOKEN_SHIFT], engine[EngineField.TOKEN_SEGMENTS] - 1)
        past = batch - (segment << engine[EngineField.TOKEN_SHIFT])
        prefill_ps = int(problem.token_base_ps[kind, segment]) + int(problem.token_slope_ps[kind, segment]) * past
        prefill_ps += pairs * engine[EngineField.PAIR_PS_1024] >> 10
        return decode_ps + prefill_ps if engine[EngineField.IS_SUM] else max(decode_ps, prefill_ps)

    # ---- replicas come and go -----------------------------------------------------------------------

    def platform_event(self, kind: int, replica: ReferenceReplica) -> None:
        if kind == k.EVENT_READY:
            if replica.state == k.OFF:
                replica.on_since_ps = self.now_ps
            if replica.state in (k.OFF, k.STARTING):
                self.become_ready(replica)
            elif replica.state == k.DOWN:
                replica.returns = k.READY
        elif kind == k.EVENT_DRAIN:
            if replica.state == k.STARTING:
                self.switch_off(replica)
            elif replica.state == k.READY:
                self.drain(replica)
            elif replica.state == k.DOWN:
                replica.returns = k.OFF
        elif kind == k.EVENT_FAIL:
            if replica.state != k.DOWN:
                replica.returns = k.READY if replica.state in (k.READY, k.STARTING) else k.OFF
                if replica.state != k.OFF:
                    self.switch_off(replica)
                self.evict(replica, k.FAILED)
                replica.state = k.DOWN
            replica.down += 1
        elif kind == k.EVENT_REPAIR and replica.state == k.DOWN:
            replica.down -= 1
            if replica.down == 0:
                replica.state = replica.returns
                if replica.returns == k.READY:
                    replica.on_since_ps = self.now_ps
                    self.become_ready(replica)

    def become_ready(self, replica: ReferenceReplica) -> None:
        replica.ready_ps = NEVER_PS
        replica.state = k.READY
        replica.seen = 0

    def drain(self, replica: ReferenceReplica) -> None:
        replica.state = k.DRAINING
        if replica.outstanding == 0:
            self.switch_off(replica)

    def switch_off(self, replica: ReferenceReplica) -> None:
        replica.state = k.OFF
        replica.ready_ps = NEVER_PS
        replica.on_ps += self.now_ps - replica.on_since_ps
        replica.lose_cache()

    def evict(self, replica: ReferenceReplica, outcome: int) -> None:
        """The replica stops in the middle of its step and everything on it ends like this."""
        if replica.step is not None:
            self.account(replica, replica.step)
            replica.step = None
        replica.boundary_ps = NEVER_PS
        for queue in (replica.running, replica.waiting):
            for request in list(queue):
                self.leave(replica, queue, request)
                request.shared = 0
                self.end(request, outcome)
        replica.lose_cache()
        replica.ratio = replica.engine[EngineField.RATIO_FIRST]

    def control(self) -> None:
        terms = self.problem.control
        serving = [each for each in self.replicas if each.state in (k.READY, k.DRAINING)]
        if terms.signal == SignalKind.OUTSTANDING:
            signal = sum(each.outstanding for each in serving)
        else:
            signal = sum(each.kv_tokens + each.queued_tokens for each in serving)
        if terms.kind == ControlKind.RULE:
            want = -(-signal * 1000 // terms.target_milli)
        else:
            assert self.callback is not None
            want = self.callback(self)
        want = min(max(want, terms.least_replicas), terms.most_replicas)
        self.wanted.append(want)
        self.scale(want, max(self.wanted[-terms.window_ticks :]))
        ready = sum(1 for each in self.replicas if each.state == k.READY)
        starting = sum(1 for each in self.replicas if each.state == k.STARTING)
        self.controls.append((self.now_ps, signal, ready, starting))

    def scale(self, want: int, keep: int) -> None:
        """Starts replicas up to `want`; lets go of those above `keep`, starting ones first, never the last."""
        supply = [each for each in self.replicas if each.state in (k.READY, k.STARTING)]
        extra = len(supply) - keep
        for each in [each for each in self.replicas if each.state == k.OFF][: max(0, want - len(supply))]:
            each.state = k.STARTING
            each.on_since_ps = self.now_ps
            delays = self.problem.start_delays_ps
            each.ready_ps = self.now_ps + self.problem.control.ready_delay_ps
            if delays.size:
                each.ready_ps = self.now_ps + int(delays[self.starts % delays.size])
            self.starts += 1
        for each in reversed(supply):
            if extra > 0 and each.state == k.STARTING:
                self.switch_off(each)
                extra -= 1
        for each in reversed(supply):
            ready = sum(1 for one in self.replicas if one.state == k.READY)
            if extra > 0 and each.state == k.READY and ready > min(1, self.problem.control.least_replicas):
                self.drain(each)
                extra -= 1

    # ---- what is written down -----------------------------------------------------------------------

    def measured(self, request: ReferenceRequest) -> int:
        return int(self.problem.measure_from_ps <= request.arrival_ps < self.problem.measure_until_ps)

    def count(self, request: ReferenceRequest, column: str, amount: int) -> None:
        self.counters[self.measured(request), request.group, COLUMNS[column]] += amount

    def record(self, request: ReferenceRequest, metric: int, duration_ps: int) -> None:
        if self.measured(request):
            self.histograms[request.group, metric, bin_of(duration_ps)] += 1

    def sample(self) -> None:
        row = []
        for each in self.replicas:
            under_way = self.now_ps - each.step.start_ps if each.step else 0
            busy = sum(each.busy_ps) + under_way
            row.append((len(each.running), len(each.waiting), each.kv_tokens, busy, each.state))
        self.samples.append(row)
        if self.problem.gauges:
            self.gauge(row)

    def gauge(self, row: list[tuple[int, int, int, int, int]]) -> None:
        serving = [each for each in self.replicas if each.state in (k.READY, k.DRAINING)]
        draining = [each for each in self.replicas if each.state == k.DRAINING]
        waits = [queue[0].arrival_ps for each in serving for queue in self.fronts(each) if queue]
        self.gauges.append(
            (
                sum(len(each.running) for each in serving), sum(len(each.waiting) for each in serving),
                sum(each.kv_tokens for each in serving), sum(each.queued_tokens for each in serving),
                sum(len(each.running) for each in draining), sum(len(each.waiting) for each in draining),
                sum(each.kv_tokens for each in draining), max((each.kv_tokens for each in serving), default=0),
                min(waits, default=NEVER_PS), len(serving) - len(draining),
                sum(each.state == k.STARTING for each in self.replicas), len(draining),
                sum(each.prefill_tokens for each in self.replicas), sum(each.decode_tokens for each in self.replicas),
                sum(each[3] for each in row), self.issued,
            )
        )  # fmt: skip

    def fronts(self, replica: ReferenceReplica) -> list[list[ReferenceRequest]]:
        """The waiting requests by level of priority, each in the order in which they are looked at."""
        if not replica.engine[EngineField.PRIORITY]:
            return [replica.waiting]
        levels = sorted({each.class_row[ClassField.LEVEL] for each in self.requests})
        return [[one for one in replica.waiting if one.class_row[ClassField.LEVEL] == level] for level in levels]

    def close(self) -> None:
        """What is still under way at the horizon stays unfinished."""
        if not self.is_over():
            if self.problem.until_ps < NEVER_PS:
                self.area_ps += self.outstanding * (self.problem.until_ps - self.now_ps)
                self.now_ps = self.problem.until_ps
            for each in self.replicas:
                self.evict(each, k.UNFINISHED)
            for _, number in sorted(self.retries):
                self.end(self.requests[number], k.UNFINISHED)
        for each in self.replicas:
            if each.state in (k.STARTING, k.READY, k.DRAINING):
                each.on_ps += self.now_ps - each.on_since_ps

    def column(self, name: str) -> Int64s:
        return np.array([getattr(each, name) for each in self.requests], np.int64)
