"""The kernel: an exact simulation of continuous batching that skips what does not change.

It computes what reference.py computes, bit for bit, some ten thousand times faster. Four ideas carry it:

- A decoding sequence ends at a known *step index*, so each replica keeps its endings in a timing wheel over
  step indices: a bucket per index, a bitmap to find the next one that is not empty. There is no heap of times.
- Between two changes of the batch, step durations are an arithmetic series (the batch is constant and the KV
  cache grows by one token per sequence and step), so any number of steps is one `plan`. A plan is cut short,
  at the first boundary that is not before the event, when an outside event concerns the replica.
- KV is one sum per replica. Exact block counts come from a histogram of sequence lengths modulo the block
  size, and only when an upper bound says that the cache might be full.
- Replicas do not see each other between outside events; winner trees find the next boundary and the least
  loaded replica.

Steps with several prefills under way, and steps that preempt under priority scheduling, are walked request by
request as the reference does (`walk`).

All numba code of this package stands in this one file, constants included: numba's cache notices an edit of
the file that holds a function, not of the files that the function's callees or constants came from. The file
also runs uncompiled (NUMBA_DISABLE_JIT=1): no type here relies on wrapping or on unsigned words.

The whole state is a handful of flat arrays (`World`), so `advance` can stop at any time and go on later. A
structure is a base index plus a field: `m[row + KV]` is the KV of the replica whose row begins at `row`,
`q[slot + S_FIN]` the last step of the request in `slot`, `q[4 * i + EMITTED]` the tokens request `i` has emitted.
Flat arrays are a choice for compile time: numba copies every array of an argument tuple at every call, and a
tuple of sixty arrays took minutes to compile. world.py lays the sections out.

Seams for what this kernel does not do yet: a block-hash prefix cache replaces the given `cached_tokens` in
`start_step`; sessions push their next turn where `finish_request` and `end_attempt` push a client's next request;
prefill/decode pools hand a request over where `start_decoding` turns a prefill into a decode; speculation changes
the tokens of a decode step in `plan_decode`; other engines' admission rules replace the test before `admit`.
"""

# numba infers the types of these functions from the arrays in `World`; it would ignore hints, and so would readers.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import overload

NEVER = 2**62

# ---- codes -----------------------------------------------------------------------------------------------

# States of a request; from SUCCESS on they are outcomes.
UNSEEN, WAITING, PREEMPTED, RUNNING, BACKOFF = 0, 1, 2, 3, 4
SUCCESS, LATE, SHED, OVERSIZE, TIMED_OUT, CANCELLED, FAILED, UNFINISHED = 5, 6, 7, 8, 9, 10, 11, 12

# States of a replica.
OFF, STARTING, READY, DRAINING, DOWN = 0, 1, 2, 3, 4

EVENT_READY, EVENT_DRAIN, EVENT_FAIL, EVENT_REPAIR = 0, 1, 2, 3

ROUND_ROBIN, RANDOM, POWER_OF_TWO, LEAST_OUTSTANDING, LEAST_TOKENS, LEAST_KV = 0, 1, 2, 3, 4, 5

CONTROL_NONE, CONTROL_RULE, CONTROL_CALLBACK = 0, 1, 2
SIGNAL_OUTSTANDING, SIGNAL_TOKENS = 0, 1

# Order of outside events at one time.
RANK_PLATFORM, RANK_READY, RANK_REFRESH, RANK_SAMPLE, RANK_CONTROL = 0, 1, 2, 3, 4
RANK_DEADLINE, RANK_CANCEL, RANK_ARRIVAL, RANK_CLIENT = 5, 6, 7, 8

# Why `advance` or `intervene` came back.
DONE, AT_UNTIL, AT_INTERVENTION, AT_CONTROL, HEAP_FULL, LOG_FULL, OUT_OF_EVENTS, ARRIVAL_FIRST = range(8)

# Columns of `engines`, one row per replica type.
MAX_SEQUENCES, TOKEN_BUDGET, BLOCKS, BLOCK_SHIFT, QUEUE_BOUND, LONG_PREFILL, PRIORITY = 0, 1, 2, 3, 4, 5, 6
KV_SHIFT, KV_SEGMENTS, TOKEN_SHIFT, TOKEN_SEGMENTS, PAIR_PS_1024, SUM = 7, 8, 9, 10, 11, 12
DECODE_TABLE, TOKEN_TABLE = 13, 14  # where the type's tables begin in `m`; filled in by the driver
ENGINE_FIELDS = 16

# Columns of `classes`, one row per request class.
TTFT_TIMEOUT, TOTAL_TIMEOUT, TTFT_SLO, TPOT_SLO, E2E_SLO, LEVEL = 0, 1, 2, 3, 4, 5
CLASS_FIELDS = 8

# Columns of `counters`: first one per outcome, in the order of the outcome codes.
C_RETRIED, C_PREEMPTIONS, C_PROMPT, C_OUTPUT, C_CACHED_DONE = 8, 9, 10, 11, 12
C_WASTED_OUTPUT, C_WASTED_COMPUTED, C_RECOMPUTED, C_CACHED = 13, 14, 15, 16
COUNTERS = 20

M_TTFT, M_TPOT, M_E2E, M_QUEUE = 0, 1, 2, 3
METRICS = 4

SHARE_BUSY, SHARE_KV = 0, 1
BUSY_PREFILL, BUSY_DECODE, BUSY_MIXED = 0, 1, 2

# Scalars of a replica: 64 int64 from `row_of(r)` on, eight to a cache line, the hot ones first.
T0, PLANNED, STEP, DECODES, KV, D0, INC, B_DECODE = range(8)
OUTSTANDING, PREFILLS, Q_COUNT, BLOCKED, MIXED, MARKED, ENGINE, TAIL = range(8, 16)
Q_TOKENS, PROMPT_TOKENS, PREFILL_KV, FREE, HEAD, PENDING, STARVED, STEP_TOKENS = range(16, 24)
STEP_DECODES, N_DECODE, N_FIRST, N_PREFILL, B_PREFILL, B_MIXED, R_STATE, BASE_STEP = range(24, 32)
WHEEL_AT, BITS_AT, PENDING_AT, PHASES_AT, QUEUES_AT, CLASS_DECODES_AT, SUMS_AT, N_CUT = range(32, 40)
N_PREEMPTIONS, ON_SINCE, ON_PS, DOWN_CAUSES, RETURNS, SEEN, READY_AT = range(40, 47)
ROW_SHIFT = 6
ROW_FIELDS = 1 << ROW_SHIFT

# A running request's slot: eight int32. FIN is the step index after which its last token is out, -1 in prefill.
S_REQUEST, S_NEXT, S_FIN, S_LENGTH, S_BEFORE, S_AFTER, S_DONE, S_SCHEDULED = 0, 1, 2, 3, 4, 5, 6, 7
SLOT_FIELDS = 8
FIN_MASK = 0x7FFFFFFF
PLACE_MASK = (1 << 40) - 1

# A request: four int32 from 4 * i on. STATUS is the state, plus 16 times (replica + 1).
EMITTED, AFTER, BEFORE, STATUS = 0, 1, 2, 3

# A mark is the next marked request of the replica (-1 at the end of the list) plus 2, or 0 for no mark.
NOT_MARKED = 0

# The head of `m`: the clock, which moves; the terms, which are given; where the sections begin.
(G_NOW, G_ISSUED, G_OUTSTANDING, G_BACKOFF, G_OTHER, G_EVENT, G_READY_MIN, G_REFRESH) = range(8)
(G_SAMPLE, G_CONTROL, G_HEAP, G_SAMPLES, G_CONTROLS, G_BUCKET, G_LAST, G_AREA) = range(8, 16)
(G_AREA_AT, G_SOJOURN, G_WANT, G_READY, G_EVENTS, G_ATTEMPTS) = range(16, 22)
(G_SIG_OUTSTANDING, G_SIG_WAITING, G_SIG_TOKENS, G_SIG_READY, G_SIG_STARTING) = range(22, 27)
(G_AREA_CARRY, G_SOJOURN_CARRY) = range(27, 29)  # multiples of CARRY: a week of a fleet does not fit 63 bits
(X_ROUTING, X_REFRESH, X_CONTROL, X_CONTROL_PERIOD, X_READY_DELAY, X_SIGNAL, X_TARGET_MILLI, X_WINDOW) = range(32, 40)
(X_LEAST, X_MOST, X_ATTEMPTS, X_BACKOFF, X_GROWTH, X_JITTER, X_DEPOSIT, X_BUCKET) = range(40, 48)
(X_ON_SHED, X_ON_TIMEOUT, X_ON_FAILURE, X_SEED, X_FROM, X_UNTIL, X_SAMPLE, X_KEEP) = range(48, 56)
(X_ATTRIBUTE, X_CLOSED, X_HAS_CANCEL, X_HAS_DEADLINE, X_GROUPS, X_CACHED, X_LEVELS, X_REPLICAS) = range(56, 64)
(X_REQUESTS, X_MOST_EVENTS, X_LEAVES, X_EVENTS, X_HISTOGRAMS, X_CLASSES, X_SLOTS, X_WHEEL) = range(64, 72)
# sections of m
(A_DUE, A_LOAD, A_ENGINES, A_CLASSES, A_GROUP_CLASS, A_EVENTS, A_READY, A_DEADLINES) = range(80, 88)
(A_FIRST, A_FINISH, A_ADMITTED, A_ATTEMPT, A_CANCEL, A_THINK, A_COUNTERS, A_HISTOGRAMS) = range(88, 96)
(A_ITL, A_BITS) = range(96, 98)
# sections of q
(A_SLOTS, A_WHEEL, A_PENDING, A_PHASES, A_QUEUES, A_CLASS_DECODES, A_DUE_TREE, A_LOAD_TREE) = range(100, 108)
(A_MARK, A_CACHED, A_GROUP, A_CLIENT, A_TRIES, A_PREEMPTIONS) = range(108, 114)
# sections of f
(A_ACCOUNTS, A_SHARES) = range(114, 116)
HEAD_FIELDS = 128

SAMPLE_FIELDS = 5
CONTROL_FIELDS = 5
JITTER_STREAM = 1 << 20
SETTLE_STEPS = 1 << 16
CARRY = 1 << 62

# Log histograms: 128 bins per octave of 2**20 ps (about 1 us), so a bin is at most 0.8 % wide.
BIN_SHIFT = 20
BINS = 128 * 38


class World(NamedTuple):
    """The whole state of a run: flat arrays only."""

    m: Any  # int64: clock, terms, replicas, tables, times, results
    q: Any  # int32: requests, slots, wheels, queues, trees
    f: Any  # float64: attribution
    arrival: Any  # int64, by request
    prompt: Any  # int32, by request
    output: Any  # int32, by request
    heap: Any  # int64: timers as pairs of time and code
    samples: Any  # int64: time series, one row per sample and replica
    controls: Any  # int64: one row per control tick


# No function here allocates, so reference counting is left out (`_nrt=False`): with it the kernel would spend most of
# its time counting references to the arrays it is handed. Three ways to compile, chosen for compile time: `inline`
# for small functions (inlined by LLVM), `once` for large ones with one hot caller (inlined by numba, so that they are
# optimised once), `compiled` for the rest.
inline = njit(cache=True, nogil=True, _nrt=False, error_model="numpy", forceinline=True)
once = njit(_nrt=False, error_model="numpy", inline="always")
compiled = njit(cache=True, nogil=True, _nrt=False, error_model="numpy")


# ---- bits, bins, chance ----------------------------------------------------------------------------------


def lowest_bit(word: int) -> int:
    """Index of the lowest set bit of a positive word."""
    return (int(word) & -int(word)).bit_length() - 1


@overload(lowest_bit, inline="always")
def _lowest_bit(word):
    return lambda word: np.int64(trailing_zeros(np.uint64(word)))


@inline
def bin_of(duration_ps: int) -> int:
    """Histogram bin of a duration: linear below 128 units of 2**20 ps, then 128 bins an octave."""
    units = duration_ps >> BIN_SHIFT
    if units < 128:
        return units
    # Exponent and top seven bits of the mantissa, read from the float: 2**7 gives 128.
    place = (np.float64(units).view(np.int64) >> 45) - (1029 << 7)
    return min(place, BINS - 1)


@inline
def bin_floor(place: int) -> int:
    """The shortest duration in a bin."""
    if place < 128:
        return place << BIN_SHIFT
    return (128 + (place & 127)) << ((place >> 7) - 1 + BIN_SHIFT)


@inline
def scramble32(x: int) -> int:
    """A 32-bit mixing function that never leaves 63 bits, so that it runs uncompiled without wrapping."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return x ^ (x >> 16)


@inline
def chance32(seed: int, number: int, draw: int) -> int:
    """Chance that belongs to a request, not to the order of events, so that two runs share it."""
    return scramble32(
        scramble32(scramble32(seed & 0xFFFFFFFF) ^ (number & 0xFFFFFFFF)) ^ (draw * 0x9E3779B1 & 0xFFFFFFFF)
    )


# ---- where things are ------------------------------------------------------------------------------------


@inline
def known(index):
    """The same index, known not to be negative.

    numba lets negative indices count from the end, at the price of a test on every access that LLVM cannot rule
    out. A mask rules it out; this takes a quarter off the run time.
    """
    return index & PLACE_MASK


@inline
def row_of(r):
    return HEAD_FIELDS + (known(r) << ROW_SHIFT)


@inline
def spot(m, section, i):
    """Where element i of a section is."""
    return known(m[section] + i)


@inline
def engine_of(m, row):
    return known(m[row + ENGINE])


@inline
def request_in(q, slot):
    return known(np.int64(q[slot + S_REQUEST]))


@inline
def index_of(row):
    return (row - HEAD_FIELDS) >> ROW_SHIFT


@inline
def wheel_of(m, row):
    return known(m[row + WHEEL_AT])


@inline
def bits_of(m, row):
    return known(m[row + BITS_AT])


@inline
def pending_of(m, row):
    return known(m[row + PENDING_AT])


@inline
def phases_of(m, row):
    return known(m[row + PHASES_AT])


@inline
def queues_of(m, row):
    return known(m[row + QUEUES_AT])


@inline
def class_decodes_of(m, row):
    return known(m[row + CLASS_DECODES_AT])


@inline
def sums_of(m, row):
    return known(m[row + SUMS_AT])


# ---- winner trees and the timer heap ---------------------------------------------------------------------


@inline
def replay(q, tree, m, key, place, leaves):
    """Plays the matches of one leaf again; the smaller key wins, the lower index on a tie."""
    p = known(leaves + place)
    key = known(key)
    tree = known(tree)
    winner = place
    best = m[key + place]
    while p > 1:
        other = known(np.int64(q[tree + (p ^ 1)]))
        theirs = m[key + other]
        # An odd place has its sibling on the left, which wins ties; one comparison, for a branch would be guessed.
        takes = theirs < best + (p & 1)
        winner = other if takes else winner
        best = theirs if takes else best
        p >>= 1
        q[tree + p] = winner


@compiled
def build_tree(q, tree, m, key, leaves):
    for place in range(leaves):
        q[tree + leaves + place] = place
    for p in range(leaves - 1, 0, -1):
        a = q[tree + 2 * p]
        b = q[tree + 2 * p + 1]
        q[tree + p] = a if m[key + a] <= m[key + b] else b


@compiled
def push_timer(m, heap, when, rank, number, attempt):
    """Timers are ordered by time, then rank, then request number."""
    code = (rank << 56) | (number << 8) | attempt
    j = m[G_HEAP]
    m[G_HEAP] = j + 1
    while j > 0:
        up = (j - 1) >> 1
        if heap[2 * up] < when or (heap[2 * up] == when and heap[2 * up + 1] <= code):
            break
        heap[2 * j] = heap[2 * up]
        heap[2 * j + 1] = heap[2 * up + 1]
        j = up
    heap[2 * j] = when
    heap[2 * j + 1] = code
    m[G_OTHER] = min(m[G_OTHER], when)


@inline
def pop_timer(m, heap):
    size = m[G_HEAP] - 1
    m[G_HEAP] = size
    when = heap[2 * size]
    code = heap[2 * size + 1]
    j = 0
    while True:
        down = 2 * j + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (
            heap[2 * right] < heap[2 * down]
            or (heap[2 * right] == heap[2 * down] and heap[2 * right + 1] < heap[2 * down + 1])
        ):
            down = right
        if when < heap[2 * down] or (when == heap[2 * down] and code <= heap[2 * down + 1]):
            break
        heap[2 * j] = heap[2 * down]
        heap[2 * j + 1] = heap[2 * down + 1]
        j = down
    heap[2 * j] = when
    heap[2 * j + 1] = code


# ---- step times ------------------------------------------------------------------------------------------


@inline
def step_time(m, e, decodes, kv_tokens, tokens, pairs):
    """Duration of a step from the tables of engine row e."""
    g = min(kv_tokens >> m[e + KV_SHIFT], m[e + KV_SEGMENTS] - 1)
    at = known(m[e + DECODE_TABLE] + 2 * (decodes * m[e + KV_SEGMENTS] + g))
    decode_ps = m[at] + m[at + 1] * (kv_tokens - (g << m[e + KV_SHIFT]))
    if tokens > 0:
        batch = tokens if m[e + SUM] == 1 else tokens + decodes
        h = min(batch >> m[e + TOKEN_SHIFT], m[e + TOKEN_SEGMENTS] - 1)
        at = known(m[e + TOKEN_TABLE] + 2 * h)
        prefill_ps = m[at] + m[at + 1] * (batch - (h << m[e + TOKEN_SHIFT]))
        prefill_ps += (pairs * m[e + PAIR_PS_1024]) >> 10
        decode_ps = decode_ps + prefill_ps if m[e + SUM] == 1 else max(decode_ps, prefill_ps)
    return decode_ps


@inline
def steps_until(t0, d0, inc, most, when):
    """The least number of steps, from 1 to `most`, after which the time is not before `when`.

    Step j lasts d0 + j * inc. A few steps are tried one by one, because most answers are small; the rest is the
    root of a quadratic, mended to the exact integer.
    """
    steps = 1
    end = t0 + d0
    last = d0
    while end < when and steps < most and steps < 12:
        last += inc
        end += last
        steps += 1
    if end < when and steps < most:
        span = when - t0
        if inc == 0:
            steps = (span + d0 - 1) // d0
        else:
            b = d0 - 0.5 * inc
            steps = max(np.int64((np.sqrt(b * b + 2.0 * inc * span) - b) / inc), 1)
            while steps * d0 + inc * (steps * (steps - 1) >> 1) < span:
                steps += 1
            while steps > 1 and (steps - 1) * d0 + inc * ((steps - 1) * (steps - 2) >> 1) >= span:
                steps -= 1
        steps = min(steps, most)
    return steps


@inline
def plan_end(m, row, steps):
    return m[row + T0] + steps * m[row + D0] + m[row + INC] * (steps * (steps - 1) >> 1)


@inline
def blocks_after_step(m, q, row, shift):
    """KV blocks that the decodes hold once each has one more token."""
    mask = (1 << shift) - 1
    total = m[row + KV] + m[row + DECODES]
    at = phases_of(m, row)
    step = m[row + STEP]
    for p in range(mask + 1):
        total += q[at + p] * (-(step + 1 + p) & mask)
    return total >> shift


# ---- what is written down --------------------------------------------------------------------------------


@inline
def group_of(m, q, i):
    return np.int64(q[spot(m, A_GROUP, i)]) if m[X_GROUPS] > 1 else 0


@inline
def class_row(m, g):
    return known(m[A_CLASSES] + CLASS_FIELDS * m[spot(m, A_GROUP_CLASS, g)])


@inline
def is_measured(m, when):
    return 1 if when >= m[X_FROM] and when < m[X_UNTIL] else 0


@inline
def counters_of(m, g, arrival):
    return known(m[A_COUNTERS] + COUNTERS * (is_measured(m, arrival) * m[X_GROUPS] + g))


@inline
def record(m, g, metric, duration_ps):
    m[spot(m, A_HISTOGRAMS, (METRICS * g + metric) * BINS + bin_of(duration_ps))] += 1


@inline
def move_area(m, t):
    """The integral of outstanding requests over time, for Little's law."""
    m[G_AREA] += m[G_OUTSTANDING] * (t - m[G_AREA_AT])
    m[G_AREA_AT] = t
    if m[G_AREA] >= CARRY:
        m[G_AREA] -= CARRY
        m[G_AREA_CARRY] += 1


@inline
def attempt_time(m, arrival, i):
    return m[spot(m, A_ATTEMPT, i)] if m[X_ATTEMPTS] > 1 else arrival[i]


@inline
def cached_of(m, q, i):
    return np.int64(q[spot(m, A_CACHED, i)]) if m[X_CACHED] == 1 else 0


@inline
def record_itl(m, q, row, d0, inc, steps, starved):
    """Books `steps` inter-token gaps, of d0 + j * inc, for every decoding sequence; a loop over bins, not steps."""
    classes = m[X_CLASSES]
    j = 0
    while j < steps:
        place = bin_of(d0 + j * inc)
        until = steps
        if inc > 0 and bin_of(d0 + (steps - 1) * inc) != place:
            until = (bin_floor(place + 1) - d0 + inc - 1) // inc
        if classes == 1:
            m[spot(m, A_ITL, place)] += (until - j) * (m[row + DECODES] - starved)
        else:
            for c in range(classes):
                m[m[A_ITL] + c * BINS + place] += (until - j) * np.int64(q[class_decodes_of(m, row) + c])
            for x in range(starved):
                i = np.int64(q[q[starved_at(m, row, x)] + S_REQUEST])
                m[m[A_ITL] + m[spot(m, A_GROUP_CLASS, group_of(m, q, i))] * BINS + place] -= until - j
        j = until


@inline
def starved_at(m, row, x):
    """Where the x-th decode without a token is noted: the pending list from its end."""
    return pending_of(m, row) + m[X_SLOTS] - 1 - x


@inline
def add_share(m, q, f, arrival, i, busy, kv_time):
    at = known(m[A_SHARES] + 2 * (is_measured(m, arrival[i]) * m[X_GROUPS] + group_of(m, q, i)))
    f[at + SHARE_BUSY] += busy
    f[at + SHARE_KV] += kv_time


@inline
def account_of(m, slot):
    return known(m[A_ACCOUNTS] + 3 * ((slot - m[A_SLOTS]) >> 3))


@inline
def held_in(m, q, row, slot):
    """KV tokens of a decoding request after the steps that are complete."""
    return q[slot + S_LENGTH] - ((q[slot + S_FIN] - m[row + STEP]) & FIN_MASK)


@compiled
def settle(m, q, f, arrival, row, slot):
    """Books to a decoding request its part of the time since its account was opened.

    In step s it held c + s tokens of KV (c constant) and one token's part of the step, so its KV time is
    c * sum(d) + sum(s * d), and both sums are kept once per replica. Steps count from BASE_STEP, so that the
    sums stay small enough to be precise.
    """
    c = held_in(m, q, row, slot) - (m[row + STEP] - m[row + BASE_STEP])
    at = account_of(m, slot)
    sums = sums_of(m, row)
    kv_time = c * (f[sums] - f[at]) + f[sums + 1] - f[at + 1]
    add_share(m, q, f, arrival, request_in(q, slot), f[sums + 2] - f[at + 2], kv_time)


@inline
def open_account(m, f, row, slot):
    at = account_of(m, slot)
    sums = sums_of(m, row)
    f[at] = f[sums]
    f[at + 1] = f[sums + 1]
    f[at + 2] = f[sums + 2]


@compiled
def settle_all(m, q, f, arrival, row):
    slot = m[row + HEAD]
    sums = sums_of(m, row)
    while slot >= 0:
        if q[slot + S_FIN] >= 0:
            settle(m, q, f, arrival, row, slot)
        slot = np.int64(q[slot + S_AFTER])
    f[sums] = 0.0
    f[sums + 1] = 0.0
    f[sums + 2] = 0.0
    slot = m[row + HEAD]
    while slot >= 0:
        open_account(m, f, row, slot)
        slot = np.int64(q[slot + S_AFTER])
    m[row + BASE_STEP] = m[row + STEP]


# ---- the running list, the wheel, the waiting queue ------------------------------------------------------


@inline
def take_slot(m, q, row, i):
    """Appends a request to the running list, in prefill."""
    slot = known(m[row + FREE])
    m[row + FREE] = q[slot + S_NEXT]
    tail = m[row + TAIL]
    q[slot + S_REQUEST] = i
    q[slot + S_FIN] = -1
    q[slot + S_BEFORE] = tail
    q[slot + S_AFTER] = -1
    if tail >= 0:
        q[known(tail) + S_AFTER] = slot
    else:
        m[row + HEAD] = slot
    m[row + TAIL] = slot
    return slot


@inline
def free_slot(m, q, row, slot):
    before = np.int64(q[slot + S_BEFORE])
    after = np.int64(q[slot + S_AFTER])
    if before >= 0:
        q[known(before) + S_AFTER] = after
    else:
        m[row + HEAD] = after
    if after >= 0:
        q[known(after) + S_BEFORE] = before
    else:
        m[row + TAIL] = before
    q[slot + S_NEXT] = m[row + FREE]
    m[row + FREE] = slot


@inline
def put_on_wheel(m, q, row, slot, fin):
    b = fin & (m[X_WHEEL] - 1)
    at = wheel_of(m, row) + b
    q[slot + S_FIN] = fin & FIN_MASK
    q[slot + S_NEXT] = q[at]
    q[at] = slot
    m[bits_of(m, row) + (b >> 5)] |= 1 << (b & 31)


@inline
def take_off_wheel(m, q, row, slot):
    b = q[slot + S_FIN] & (m[X_WHEEL] - 1)
    at = wheel_of(m, row) + b
    p = np.int64(q[at])
    if p == slot:
        q[at] = q[slot + S_NEXT]
        if q[at] < 0:
            m[bits_of(m, row) + (b >> 5)] &= ~(1 << (b & 31))
    else:
        while q[p + S_NEXT] != slot:
            p = np.int64(q[p + S_NEXT])
        q[p + S_NEXT] = q[slot + S_NEXT]


@inline
def steps_to_next_finish(m, row):
    """How many steps until the next bucket that is not empty; there is one."""
    b = (m[row + STEP] + 1) & (m[X_WHEEL] - 1)
    bits = bits_of(m, row)
    j = b >> 5
    word = m[bits + j] >> (b & 31)
    steps = 1
    if word == 0:
        steps = 1 + 32 - (b & 31)
        last = (m[X_WHEEL] >> 5) - 1
        j = (j + 1) & last
        while m[bits + j] == 0:
            steps += 32
            j = (j + 1) & last
        word = m[bits + j]
    return steps + lowest_bit(word)


@inline
def queue_of(m, q, row, i):
    """Where the head and the tail of the request's waiting queue stand."""
    at = queues_of(m, row)
    if m[X_LEVELS] > 1 and m[engine_of(m, row) + PRIORITY] == 1:
        at += 2 * m[class_row(m, group_of(m, q, i)) + LEVEL]
    return known(at)


@inline
def link(m, q, prompt, row, at, i, before, after):
    """Puts a request into a waiting queue between two neighbours, -1 for an end."""
    q[4 * i + AFTER] = after
    q[4 * i + BEFORE] = before
    if before >= 0:
        q[4 * known(before) + AFTER] = i
    else:
        q[at] = i
    if after >= 0:
        q[4 * known(after) + BEFORE] = i
    else:
        q[at + 1] = i
    m[row + Q_COUNT] += 1
    m[row + Q_TOKENS] += np.int64(prompt[i]) + q[4 * i + EMITTED]


@inline
def unlink(m, q, prompt, row, at, i):
    before = np.int64(q[4 * i + BEFORE])
    after = np.int64(q[4 * i + AFTER])
    if before >= 0:
        q[4 * known(before) + AFTER] = after
    else:
        q[at] = after
    if after >= 0:
        q[4 * known(after) + BEFORE] = before
    else:
        q[at + 1] = before
    m[row + Q_COUNT] -= 1
    m[row + Q_TOKENS] -= np.int64(prompt[i]) + q[4 * i + EMITTED]


@inline
def queue_front(m, q, row):
    """The request that is admitted next, or -1."""
    front = np.int64(q[queues_of(m, row)])
    v = 1
    while front < 0 and v < m[X_LEVELS]:
        front = np.int64(q[queues_of(m, row) + 2 * v])
        v += 1
    return front


@inline
def state_of(q, i):
    return q[4 * i + STATUS] & 15


@inline
def set_state(q, i, state):
    q[4 * i + STATUS] = (q[4 * i + STATUS] & ~15) | state


@inline
def is_alive(state):
    """On a replica: waiting, preempted or running."""
    return state >= WAITING and state <= RUNNING


# ---- loads and routing -----------------------------------------------------------------------------------


@inline
def kv_now(m, row, t):
    """KV tokens held at a time before the replica's next boundary, those of the step under way included."""
    held = m[row + KV] + m[row + PREFILL_KV]
    if m[row + PLANNED] > 0:
        held += m[row + DECODES] * steps_until(m[row + T0], m[row + D0], m[row + INC], m[row + PLANNED], t)
    elif m[row + MIXED] == 1:
        held += m[row + STEP_DECODES]
    return held


@compiled
def load_of(m, row, t):
    load = m[row + OUTSTANDING]
    if m[X_ROUTING] == LEAST_TOKENS:
        load = m[row + PROMPT_TOKENS]
    elif m[X_ROUTING] == LEAST_KV:
        load = kv_now(m, row, t) + m[row + Q_TOKENS]
    return load


@inline
def show_load(m, q, row):
    """Tells the router's tree about a replica whose load or readiness changed."""
    if m[X_REPLICAS] > 1 and m[X_ROUTING] >= LEAST_OUTSTANDING:
        r = index_of(row)
        load = m[row + OUTSTANDING] if m[X_ROUTING] == LEAST_OUTSTANDING else m[row + PROMPT_TOKENS]
        if m[X_REFRESH] > 0:
            load = m[row + SEEN]
        m[spot(m, A_LOAD, r)] = load if m[row + R_STATE] == READY else NEVER
        replay(q, m[A_LOAD_TREE], m, m[A_LOAD], r, m[X_LEAVES])


@compiled
def list_ready(m):
    """Renews the sorted list of routable replicas."""
    ready = 0
    for r in range(m[X_REPLICAS]):
        if m[row_of(r) + R_STATE] == READY:
            m[spot(m, A_READY, ready)] = r
            ready += 1
    m[G_READY] = ready


@compiled
def route_by_chance(m, i, attempt, t):
    ready = m[G_READY]
    at = m[A_READY]
    if m[X_ROUTING] == ROUND_ROBIN:
        low, high = 0, ready
        while low < high:
            middle = (low + high) >> 1
            if m[at + middle] > m[G_LAST]:
                high = middle
            else:
                low = middle + 1
        m[G_LAST] = m[at + low % ready]
        return m[G_LAST]
    place = (chance32(m[X_SEED], i, 2 * attempt) * ready) >> 32
    first = m[at + place]
    if m[X_ROUTING] == RANDOM or ready == 1:
        return first
    other = (chance32(m[X_SEED], i, 2 * attempt + 1) * (ready - 1)) >> 32
    second = m[at + (other + 1 if other >= place else other)]
    if m[X_REFRESH] > 0:
        return second if m[row_of(second) + SEEN] < m[row_of(first) + SEEN] else first
    return second if load_of(m, row_of(second), t) < load_of(m, row_of(first), t) else first


@compiled
def route_by_kv(m, t):
    """The least KV and queued tokens, scanned: the load of every replica moves with every step."""
    best = NEVER
    chosen = 0
    for x in range(m[G_READY]):
        r = m[spot(m, A_READY, x)]
        row = row_of(r)
        # Without the growth in the plan under way this is a lower bound, and cheap.
        if m[row + KV] + m[row + PREFILL_KV] + m[row + Q_TOKENS] < best:
            load = load_of(m, row, t)
            if load < best:
                best = load
                chosen = r
    return chosen


@inline
def route(m, q, i, attempt, t):
    """The replica for a request, or -1 when none is ready."""
    r = 0
    if m[G_READY] == 0:
        r = -1
    elif m[X_REPLICAS] > 1:
        if m[X_ROUTING] < LEAST_OUTSTANDING:
            r = route_by_chance(m, i, attempt, t)
        elif m[X_ROUTING] == LEAST_KV and m[X_REFRESH] == 0:
            r = route_by_kv(m, t)
        else:
            r = np.int64(q[spot(m, A_LOAD_TREE, 1)])
    return r


# ---- endings ---------------------------------------------------------------------------------------------


@inline
def backoff_of(m, i, tries):
    wait = m[X_BACKOFF]
    for _ in range(tries - 1):
        wait = wait * m[X_GROWTH] // 1000
    spread = wait * m[X_JITTER] // 1000
    chance = chance32(m[X_SEED], i, tries + JITTER_STREAM)
    return max(1, wait + (spread >> 16) * (chance >> 16))


@inline
def may_retry(m, outcome):
    return (
        (outcome == SHED and m[X_ON_SHED] == 1)
        or (outcome == TIMED_OUT and m[X_ON_TIMEOUT] == 1)
        or (outcome == FAILED and m[X_ON_FAILURE] == 1)
    )


@inline
def is_cancelled(m, arrival, i, t):
    return m[X_HAS_CANCEL] == 1 and t >= arrival[i] + m[spot(m, A_CANCEL, i)]


@compiled
def end_attempt(m, q, heap, arrival, i, t, outcome, computed, emitted):
    """An attempt ends without its last token: the request is repeated, or this is what became of it."""
    g = group_of(m, q, i)
    counters = counters_of(m, g, arrival[i])
    m[counters + C_WASTED_OUTPUT] += emitted
    if computed > 0:
        m[counters + C_WASTED_COMPUTED] += computed - cached_of(m, q, i)
    if m[X_ATTEMPTS] > 1 and m[G_BUCKET] >= 1000 and may_retry(m, outcome) and not is_cancelled(m, arrival, i, t):
        tries = np.int64(q[spot(m, A_TRIES, i)])
        if tries < m[X_ATTEMPTS]:
            m[G_BUCKET] -= 1000
            m[counters + C_RETRIED] += 1
            set_state(q, i, BACKOFF)
            q[4 * i + EMITTED] = 0
            m[spot(m, A_FIRST, i)] = 0
            m[G_BACKOFF] += 1
            push_timer(m, heap, t + backoff_of(m, i, tries), RANK_ARRIVAL, i, tries)
            return
    m[counters + outcome - SUCCESS] += 1
    set_state(q, i, outcome)
    q[4 * i + EMITTED] = emitted
    first = m[spot(m, A_FIRST, i)]
    if m[X_KEEP] == 1:
        m[spot(m, A_FINISH, i)] = t
    if first > 0 and m[X_HISTOGRAMS] == 1 and is_measured(m, arrival[i]) == 1:
        record(m, g, M_TTFT, first - arrival[i])
    if outcome != UNFINISHED and m[X_CLOSED] == 1 and m[G_ISSUED] < m[X_REQUESTS]:
        push_timer(m, heap, t + m[spot(m, A_THINK, i)], RANK_CLIENT, np.int64(q[spot(m, A_CLIENT, i)]), 0)


@inline
def leave(m, arrival, prompt, row, i, t):
    move_area(m, t)
    m[row + OUTSTANDING] -= 1
    m[row + PROMPT_TOKENS] -= prompt[i]
    m[G_OUTSTANDING] -= 1
    m[G_SOJOURN] += t - attempt_time(m, arrival, i)
    if m[G_SOJOURN] >= CARRY:
        m[G_SOJOURN] -= CARRY
        m[G_SOJOURN_CARRY] += 1


@once
def finish_request(m, q, heap, arrival, prompt, output, row, i, t):
    """The last token is out: success, or late where the class's SLO is missed."""
    leave(m, arrival, prompt, row, i, t)
    g = group_of(m, q, i)
    tokens = np.int64(output[i])
    begun = arrival[i]
    first = m[spot(m, A_FIRST, i)]
    slo = class_row(m, g)
    late = first - begun > m[slo + TTFT_SLO] or t - begun > m[slo + E2E_SLO]
    if m[slo + TPOT_SLO] < NEVER:
        late = late or t - first > m[slo + TPOT_SLO] * (tokens - 1)
    outcome = LATE if late else SUCCESS
    counters = counters_of(m, g, begun)
    m[counters + outcome - SUCCESS] += 1
    m[counters + C_PROMPT] += prompt[i]
    m[counters + C_OUTPUT] += tokens
    if m[X_CACHED] == 1:
        m[counters + C_CACHED_DONE] += q[spot(m, A_CACHED, i)]
    set_state(q, i, outcome)
    if m[X_KEEP] == 1:
        m[spot(m, A_FINISH, i)] = t
        q[4 * i + EMITTED] = tokens
    if m[X_HISTOGRAMS] == 1 and is_measured(m, begun) == 1:
        record(m, g, M_TTFT, first - begun)
        record(m, g, M_E2E, t - begun)
        if tokens > 1:
            record(m, g, M_TPOT, (t - first) // (tokens - 1))
    if m[X_CLOSED] == 1 and m[G_ISSUED] < m[X_REQUESTS]:
        push_timer(m, heap, t + m[spot(m, A_THINK, i)], RANK_CLIENT, np.int64(q[spot(m, A_CLIENT, i)]), 0)


# ---- a boundary, part 1: what the step under way did -----------------------------------------------------


@once
def book_decode_steps(m, q, f, row, steps, t):
    """Books `steps` whole pure-decode steps of the plan, which end at t."""
    n = m[row + DECODES]
    span = t - m[row + T0]
    m[row + B_DECODE] += span
    m[row + N_DECODE] += n * steps
    if m[X_HISTOGRAMS] == 1:
        record_itl(m, q, row, m[row + D0], m[row + INC], steps, 0)
    if m[X_ATTRIBUTE] == 1:
        count = np.float64(steps)
        pairs = count * (count - 1.0) / 2.0
        sums = sums_of(m, row)
        f[sums] += span
        f[sums + 1] += np.float64(m[row + STEP] - m[row + BASE_STEP] + 1) * span
        f[sums + 1] += m[row + D0] * pairs + m[row + INC] * pairs * (2.0 * count - 1.0) / 3.0
        f[sums + 2] += np.float64(span) / n
    m[row + KV] += n * steps
    m[row + STEP] += steps


@compiled
def share_mixed_time(m, q, f, arrival, row, span):
    """Attributes the time of a step with prefill, or of a walked one."""
    part = np.float64(span) / (m[row + STEP_TOKENS] + m[row + STEP_DECODES])
    for x in range(m[row + STARVED]):
        slot = np.int64(q[starved_at(m, row, x)])
        settle(m, q, f, arrival, row, slot)
        held = held_in(m, q, row, slot)
        add_share(m, q, f, arrival, request_in(q, slot), 0.0, np.float64(held) * span)
    sums = sums_of(m, row)
    f[sums] += span
    f[sums + 1] += np.float64(m[row + STEP] - m[row + BASE_STEP] + 1) * span
    f[sums + 2] += part
    for x in range(m[row + STARVED]):
        open_account(m, f, row, np.int64(q[starved_at(m, row, x)]))
    for x in range(m[row + PENDING]):
        slot = known(np.int64(q[pending_of(m, row) + x]))
        kv_time = np.float64(q[slot + S_DONE]) * span
        add_share(m, q, f, arrival, request_in(q, slot), part * q[slot + S_SCHEDULED], kv_time)


@once
def book_mixed_time(m, q, f, arrival, row, t):
    """Books the time of a step with prefill, or of a walked one, up to t; whole or not."""
    span = t - m[row + T0]
    kind = B_DECODE if m[row + STEP_TOKENS] == 0 else B_PREFILL if m[row + STEP_DECODES] == 0 else B_MIXED
    m[row + kind] += span
    if m[X_ATTRIBUTE] == 1:
        share_mixed_time(m, q, f, arrival, row, span)


@once
def start_decoding(m, q, f, prompt, output, row, slot, i, t):
    """A prefill is complete: its next token is out, and the request decodes from the next step on."""
    emitted = np.int64(q[4 * i + EMITTED])
    target = np.int64(prompt[i]) + emitted
    left = np.int64(output[i]) - emitted - 1
    mask = (1 << m[engine_of(m, row) + BLOCK_SHIFT]) - 1
    if m[spot(m, A_FIRST, i)] == 0:
        m[spot(m, A_FIRST, i)] = t
    q[slot + S_LENGTH] = target + left
    m[row + PREFILL_KV] -= target
    m[row + PREFILLS] -= 1
    m[row + KV] += target
    m[row + DECODES] += 1
    m[row + N_FIRST] += 1
    q[phases_of(m, row) + ((target - m[row + STEP]) & mask)] += 1
    put_on_wheel(m, q, row, slot, m[row + STEP] + left)
    if m[X_ATTRIBUTE] == 1:
        open_account(m, f, row, slot)
    if m[X_CLASSES] > 1:
        q[class_decodes_of(m, row) + m[spot(m, A_GROUP_CLASS, group_of(m, q, i))]] += 1


@compiled
def delay_starved(m, q, row):
    """A decode that got no token in a walked step ends one step later."""
    mask = (1 << m[engine_of(m, row) + BLOCK_SHIFT]) - 1
    for x in range(m[row + STARVED]):
        slot = np.int64(q[starved_at(m, row, x)])
        fin = np.int64(q[slot + S_FIN])
        length = np.int64(q[slot + S_LENGTH])
        take_off_wheel(m, q, row, slot)
        put_on_wheel(m, q, row, slot, fin + 1)
        q[phases_of(m, row) + ((length - fin) & mask)] -= 1
        q[phases_of(m, row) + ((length - fin - 1) & mask)] += 1


@once
def complete_mixed(m, q, f, arrival, prompt, output, row, t):
    """Completes a step with prefill, or a walked one."""
    book_mixed_time(m, q, f, arrival, row, t)
    if m[X_HISTOGRAMS] == 1 and m[row + STEP_DECODES] > 0:
        record_itl(m, q, row, t - m[row + T0], 0, 1, m[row + STARVED])
    if m[row + STARVED] > 0:
        delay_starved(m, q, row)
    m[row + KV] += m[row + STEP_DECODES]
    m[row + STEP] += 1
    for x in range(m[row + PENDING]):
        slot = known(np.int64(q[pending_of(m, row) + x]))
        i = request_in(q, slot)
        if q[slot + S_SCHEDULED] > 0 and q[slot + S_DONE] == np.int64(prompt[i]) + q[4 * i + EMITTED]:
            start_decoding(m, q, f, prompt, output, row, slot, i, t)
    m[row + MIXED] = 0


@inline
def stop_decoding(m, q, f, arrival, row, slot, i, held):
    """Takes a decoding request out of the sums; the wheel is the caller's business."""
    mask = (1 << m[engine_of(m, row) + BLOCK_SHIFT]) - 1
    m[row + KV] -= held
    m[row + DECODES] -= 1
    q[phases_of(m, row) + ((held - m[row + STEP]) & mask)] -= 1
    if m[X_ATTRIBUTE] == 1:
        settle(m, q, f, arrival, row, slot)
    if m[X_CLASSES] > 1:
        q[class_decodes_of(m, row) + m[spot(m, A_GROUP_CLASS, group_of(m, q, i))]] -= 1


@once
def complete_finished(m, q, f, heap, arrival, prompt, output, row, t):
    """Every request in the bucket of this step index has its last token."""
    b = m[row + STEP] & (m[X_WHEEL] - 1)
    at = wheel_of(m, row) + b
    slot = np.int64(q[at])
    if slot >= 0:
        q[at] = -1
        m[bits_of(m, row) + (b >> 5)] &= ~(1 << (b & 31))
        while slot >= 0:
            slot = known(slot)
            i = request_in(q, slot)
            following = np.int64(q[slot + S_NEXT])
            stop_decoding(m, q, f, arrival, row, slot, i, np.int64(q[slot + S_LENGTH]))
            free_slot(m, q, row, slot)
            finish_request(m, q, heap, arrival, prompt, output, row, i, t)
            slot = following


@compiled
def stop_running(m, q, f, arrival, output, row, slot):
    """Takes a request off the running list, whatever it does there; returns its tokens computed and emitted."""
    i = request_in(q, slot)
    held = np.int64(q[slot + S_DONE])
    emitted = np.int64(q[4 * i + EMITTED])
    if q[slot + S_FIN] < 0:
        m[row + PREFILL_KV] -= held
        m[row + PREFILLS] -= 1
    else:
        held = np.int64(held_in(m, q, row, slot))
        emitted = np.int64(output[i]) - (np.int64(q[slot + S_LENGTH]) - held)
        take_off_wheel(m, q, row, slot)
        stop_decoding(m, q, f, arrival, row, slot, i, held)
    free_slot(m, q, row, slot)
    return held, emitted


@inline
def given_up(m, q, arrival, i, t):
    """The outcome of a request whose client or deadline has given up on it by t, or -1."""
    limits = class_row(m, group_of(m, q, i))
    begun = attempt_time(m, arrival, i)
    outcome = -1
    if is_cancelled(m, arrival, i, t):
        outcome = CANCELLED
    elif t >= begun + m[limits + TOTAL_TIMEOUT] or (
        m[spot(m, A_FIRST, i)] == 0 and t >= begun + m[limits + TTFT_TIMEOUT]
    ):
        outcome = TIMED_OUT
    return outcome


@compiled
def drop_given_up(m, q, f, heap, arrival, prompt, output, row, t):
    """Ends the marked requests whose client or deadline has given up on them, highest number first."""
    i = m[row + MARKED]
    m[row + MARKED] = -1
    while i >= 0:
        following = np.int64(q[spot(m, A_MARK, i)]) - 2
        q[spot(m, A_MARK, i)] = NOT_MARKED
        state = state_of(q, i)
        if is_alive(state):
            outcome = given_up(m, q, arrival, i, t)
            if outcome >= 0:
                held, emitted = 0, np.int64(q[4 * i + EMITTED])
                if state == RUNNING:
                    # A running request is in no queue, so its link holds its slot.
                    held, emitted = stop_running(m, q, f, arrival, output, row, np.int64(q[4 * i + AFTER]))
                else:
                    unlink(m, q, prompt, row, queue_of(m, q, row, i), i)
                leave(m, arrival, prompt, row, i, t)
                end_attempt(m, q, heap, arrival, i, t, outcome, held, emitted)
        i = following


# ---- a boundary, part 2: the next step -------------------------------------------------------------------


@compiled
def preempt(m, q, f, arrival, prompt, output, row, slot, unscheduled):
    """Recompute preemption: the request loses its KV and waits again.

    It goes to the head of the queue, or with priorities to its place by arrival.
    """
    i = request_in(q, slot)
    held, emitted = stop_running(m, q, f, arrival, output, row, slot)
    q[4 * i + EMITTED] = emitted
    set_state(q, i, PREEMPTED)
    m[row + N_PREEMPTIONS] += 1
    if m[X_KEEP] == 1:
        q[spot(m, A_PREEMPTIONS, i)] += 1
    counters = counters_of(m, group_of(m, q, i), arrival[i])
    m[counters + C_PREEMPTIONS] += 1
    m[counters + C_RECOMPUTED] += held - unscheduled - cached_of(m, q, i)
    at = queue_of(m, q, row, i)
    before = -1
    after = np.int64(q[at])
    if m[engine_of(m, row) + PRIORITY] == 1:
        mine = attempt_time(m, arrival, i)
        while after >= 0:
            theirs = attempt_time(m, arrival, after)
            if theirs > mine or (theirs == mine and after > i):
                break
            before = after
            after = np.int64(q[4 * after + AFTER])
    link(m, q, prompt, row, at, i, before, after)


@once
def admit(m, q, arrival, prompt, row, i, t, done, tokens):
    """Moves the front of the queue to the running list with its first tokens."""
    unlink(m, q, prompt, row, queue_of(m, q, row, i), i)
    if state_of(q, i) == WAITING and (m[X_ATTEMPTS] <= 1 or q[spot(m, A_TRIES, i)] == 1):
        if m[X_HISTOGRAMS] == 1 and is_measured(m, arrival[i]) == 1:
            record(m, group_of(m, q, i), M_QUEUE, t - arrival[i])
        if m[X_KEEP] == 1:
            m[spot(m, A_ADMITTED, i)] = t
    if done > 0:
        m[counters_of(m, group_of(m, q, i), arrival[i]) + C_CACHED] += done
    set_state(q, i, RUNNING)
    slot = take_slot(m, q, row, i)
    q[4 * i + AFTER] = slot
    q[slot + S_DONE] = done + tokens
    q[slot + S_SCHEDULED] = tokens
    m[row + PREFILLS] += 1
    m[row + PREFILL_KV] += done + tokens
    q[pending_of(m, row) + m[row + PENDING]] = slot
    m[row + PENDING] += 1


@inline
def is_before(m, q, arrival, a, b):
    """Whether request a is more urgent than request b under priority scheduling."""
    la = m[class_row(m, group_of(m, q, a)) + LEVEL]
    lb = m[class_row(m, group_of(m, q, b)) + LEVEL]
    ta = attempt_time(m, arrival, a)
    tb = attempt_time(m, arrival, b)
    return la < lb or (la == lb and (ta < tb or (ta == tb and a < b)))


@inline
def victim_of(m, q, arrival, row):
    slot = m[row + TAIL]
    worst = slot
    if m[engine_of(m, row) + PRIORITY] == 1:
        while slot >= 0:
            if is_before(m, q, arrival, np.int64(q[worst + S_REQUEST]), request_in(q, slot)):
                worst = slot
            slot = np.int64(q[slot + S_BEFORE])
    return worst


@inline
def held_by(m, q, row, slot):
    """Tokens of KV in a slot, this step's included where the walk has scheduled it."""
    held = np.int64(q[slot + S_DONE])
    if q[slot + S_FIN] >= 0:
        held = np.int64(held_in(m, q, row, slot)) + q[slot + S_SCHEDULED]
    return held


@compiled
def walk(m, q, f, arrival, prompt, output, row):
    """Schedules the running list request by request, as the reference does.

    Needed where the order matters: several prefills under way, or a victim that is not the last admitted.
    Returns decodes, prefill tokens, attention pairs, KV tokens, blocks used, budget left, whether it preempted.
    """
    e = engine_of(m, row)
    shift = m[e + BLOCK_SHIFT]
    mask = (1 << shift) - 1
    used = 0
    slot = m[row + HEAD]
    while slot >= 0:
        q[slot + S_SCHEDULED] = 0
        used += (held_by(m, q, row, slot) + mask) >> shift
        slot = np.int64(q[slot + S_AFTER])
    budget = m[e + TOKEN_BUDGET]
    preempted = False
    slot = m[row + HEAD]
    while slot >= 0 and budget > 0:
        i = request_in(q, slot)
        held = held_by(m, q, row, slot)
        new = 1
        if q[slot + S_FIN] < 0:
            new = min(np.int64(prompt[i]) + q[4 * i + EMITTED] - held, m[e + LONG_PREFILL], budget)
        growth = ((held + new + mask) >> shift) - ((held + mask) >> shift)
        lost = False
        while used + growth > m[e + BLOCKS] and not lost:
            victim = victim_of(m, q, arrival, row)
            given = np.int64(q[victim + S_SCHEDULED])
            lost = victim == slot
            used -= (held_by(m, q, row, victim) + mask) >> shift
            budget += given
            preempted = True
            # A decode's own token of this step is no longer counted once it is taken off the list.
            preempt(m, q, f, arrival, prompt, output, row, victim, given if q[victim + S_FIN] < 0 else 0)
        if lost:
            break
        used += growth
        budget -= new
        q[slot + S_SCHEDULED] = new
        if q[slot + S_FIN] < 0:
            q[slot + S_DONE] += new
            m[row + PREFILL_KV] += new
        slot = np.int64(q[slot + S_AFTER])
    decodes, tokens, pairs, kv_tokens = 0, 0, 0, 0
    m[row + PENDING] = 0
    m[row + STARVED] = 0
    slot = m[row + HEAD]
    while slot >= 0:
        new = np.int64(q[slot + S_SCHEDULED])
        held = held_by(m, q, row, slot)
        if q[slot + S_FIN] < 0:
            q[pending_of(m, row) + m[row + PENDING]] = slot
            m[row + PENDING] += 1
            tokens += new
            pairs += (new * (2 * held - new + 1)) >> 1
        elif new == 1:
            decodes += 1
        else:
            q[starved_at(m, row, m[row + STARVED])] = slot
            m[row + STARVED] += 1
        if new > 0:
            kv_tokens += held
        slot = np.int64(q[slot + S_AFTER])
    return decodes, tokens, pairs, kv_tokens, used, budget, preempted


@compiled
def preempt_tails(m, q, f, arrival, prompt, output, row, used):
    """First come first served: the last admitted give way until the decodes' next tokens fit."""
    e = engine_of(m, row)
    while used > m[e + BLOCKS]:
        preempt(m, q, f, arrival, prompt, output, row, m[row + TAIL], 0)
        used = blocks_after_step(m, q, row, m[e + BLOCK_SHIFT])
    return used


@once
def start_step(m, q, f, arrival, prompt, output, row, t):
    """Schedules, and commits to the next step or to a plan of decode steps; returns when it ends."""
    e = engine_of(m, row)
    shift = m[e + BLOCK_SHIFT]
    mask = (1 << shift) - 1
    blocks = m[e + BLOCKS]
    longest = m[e + LONG_PREFILL]
    while True:
        preempted = False
        exact = False
        tokens = 0
        pairs = 0
        m[row + PENDING] = 0
        m[row + STARVED] = 0
        decodes = m[row + DECODES]
        kv_tokens = m[row + KV] + decodes
        budget = m[e + TOKEN_BUDGET] - decodes
        bound = (kv_tokens + decodes * mask) >> shift
        used = bound  # an upper bound, made exact where it matters
        tail = known(m[row + TAIL])
        walked = m[row + PREFILLS] > 1 or (m[row + PREFILLS] == 1 and q[tail + S_FIN] >= 0)
        if m[row + PREFILLS] == 1 and not walked:
            # One prefill under way, and it was the last admitted.
            i = request_in(q, tail)
            held = np.int64(q[tail + S_DONE])
            new = min(np.int64(prompt[i]) + q[4 * i + EMITTED] - held, longest, budget)
            grown = (held + new + mask) >> shift
            if used + grown > blocks:
                used = blocks_after_step(m, q, row, shift)
                exact = True
            if used + grown <= blocks:
                used += grown
                budget -= new
                tokens = new
                pairs = (new * (2 * held + new + 1)) >> 1
                kv_tokens += held + new
                q[tail + S_DONE] = held + new
                q[tail + S_SCHEDULED] = new
                m[row + PREFILL_KV] += new
                q[pending_of(m, row)] = tail
                m[row + PENDING] = 1
            elif m[e + PRIORITY] == 1:
                walked = True
            else:
                preempted = True
                preempt(m, q, f, arrival, prompt, output, row, tail, 0)
        if used > blocks and tokens == 0 and not walked:
            if not exact:
                used = blocks_after_step(m, q, row, shift)
                exact = True
            if used > blocks:
                if m[e + PRIORITY] == 1:
                    walked = True
                else:
                    preempted = True
                    used = preempt_tails(m, q, f, arrival, prompt, output, row, used)
                    decodes = m[row + DECODES]
                    kv_tokens = m[row + KV] + decodes
        if walked:
            decodes, tokens, pairs, kv_tokens, used, budget, preempted = walk(m, q, f, arrival, prompt, output, row)
            exact = True
        if m[row + Q_COUNT] > 0 and not preempted:
            sequences = m[row + DECODES] + m[row + PREFILLS]
            while budget > 0 and sequences < m[e + MAX_SEQUENCES]:
                i = queue_front(m, q, row)
                if i < 0:
                    break
                i = known(i)
                done = cached_of(m, q, i)
                new = min(np.int64(prompt[i]) + q[4 * i + EMITTED] - done, longest, budget)
                grown = (done + new + mask) >> shift
                if used + grown > blocks and not exact:
                    used += blocks_after_step(m, q, row, shift) - bound
                    exact = True
                if used + grown > blocks:
                    break
                admit(m, q, arrival, prompt, row, i, t, done, new)
                sequences += 1
                used += grown
                budget -= new
                tokens += new
                pairs += (new * (2 * done + new + 1)) >> 1
                kv_tokens += done + new
        if decodes + tokens > 0 or not preempted:
            break
    m[row + T0] = t
    m[row + PLANNED] = 0
    m[row + BLOCKED] = 1
    due = NEVER
    if decodes + tokens > 0:
        if tokens > 0 or walked:
            m[row + MIXED] = 1
            m[row + STEP_TOKENS] = tokens
            m[row + STEP_DECODES] = decodes
            m[row + N_PREFILL] += tokens
            m[row + N_DECODE] += decodes
            due = t + step_time(m, e, decodes, kv_tokens, tokens, pairs)
        else:
            due = plan_decode(m, q, row, kv_tokens, used, exact, preempted)
    return due


@once
def plan_decode(m, q, row, kv_tokens, used, exact, preempted):
    """Plans pure decode steps as far as nothing changes: to the next finish, table segment or full cache."""
    e = engine_of(m, row)
    shift = m[e + BLOCK_SHIFT]
    mask = (1 << shift) - 1
    n = m[row + DECODES]
    step = m[row + STEP]
    steps = steps_to_next_finish(m, row)
    segment = m[e + KV_SHIFT]
    g = kv_tokens >> segment
    if g >= m[e + KV_SEGMENTS] - 1:
        g = m[e + KV_SEGMENTS] - 1
    else:
        steps = min(steps, (((g + 1) << segment) - kv_tokens + n - 1) // n)
    at = known(m[e + DECODE_TABLE] + 2 * (n * m[e + KV_SEGMENTS] + g))
    if steps > 1 and m[row + KV] + n * steps + n * mask > m[e + BLOCKS] << shift:
        if not exact:
            used = blocks_after_step(m, q, row, shift)
        # Every block size of steps each sequence needs exactly one more block.
        rounds = (m[e + BLOCKS] - used) // n
        fit = 1 + (rounds << shift)
        if fit < steps:
            used += rounds * n
            while fit < steps:
                used += q[phases_of(m, row) + (-(step + fit) & mask)]
                if used > m[e + BLOCKS]:
                    break
                fit += 1
            steps = min(steps, fit)
    if preempted:
        steps = 1  # nothing was admitted because of the preemption; the next step may admit
    m[row + PLANNED] = steps
    m[row + D0] = m[at] + m[at + 1] * (kv_tokens - (g << segment))
    m[row + INC] = m[at + 1] * n
    m[row + BLOCKED] = 1 if m[row + Q_COUNT] > 0 else 0
    return plan_end(m, row, steps)


@once
def boundary(m, q, f, heap, arrival, prompt, output, row, t):
    """A replica's step or plan ends: complete it, drop what was given up, start the next."""
    outstanding = m[row + OUTSTANDING]
    if m[row + PLANNED] > 0:
        book_decode_steps(m, q, f, row, m[row + PLANNED], t)
    elif m[row + MIXED] == 1:
        complete_mixed(m, q, f, arrival, prompt, output, row, t)
    complete_finished(m, q, f, heap, arrival, prompt, output, row, t)
    if m[row + MARKED] >= 0:
        drop_given_up(m, q, f, heap, arrival, prompt, output, row, t)
    if m[X_ATTRIBUTE] == 1 and m[row + STEP] - m[row + BASE_STEP] > SETTLE_STEPS:
        settle_all(m, q, f, arrival, row)
    due = start_step(m, q, f, arrival, prompt, output, row, t)
    if outstanding != m[row + OUTSTANDING]:
        if m[row + OUTSTANDING] == 0 and m[row + R_STATE] == DRAINING:
            switch_off(m, q, row, t)
        show_load(m, q, row)
    set_due(m, q, row, due)


@inline
def set_due(m, q, row, when):
    r = index_of(row)
    m[spot(m, A_DUE, r)] = when
    if m[X_REPLICAS] > 1:
        replay(q, m[A_DUE_TREE], m, m[A_DUE], r, m[X_LEAVES])


@inline
def cut_plan(m, q, row, t):
    """An outside event concerns the replica: the plan ends at the first boundary not before t."""
    if m[row + PLANNED] > 1:
        steps = steps_until(m[row + T0], m[row + D0], m[row + INC], m[row + PLANNED], t)
        if steps < m[row + PLANNED]:
            m[row + PLANNED] = steps
            set_due(m, q, row, plan_end(m, row, steps))


# ---- outside events: arrivals and marks ------------------------------------------------------------------


@once
def arrive(m, q, heap, arrival, prompt, output, i, attempt, t):
    """One attempt of a request reaches the router."""
    m[G_ATTEMPTS] += 1
    r = route(m, q, i, attempt, t)
    outcome = FAILED
    if r >= 0:
        row = row_of(r)
        e = engine_of(m, row)
        q[4 * i + STATUS] = 16 * (r + 1) + WAITING
        tokens = np.int64(prompt[i])
        outcome = -1
        if tokens + output[i] - 1 > m[e + BLOCKS] << m[e + BLOCK_SHIFT]:
            outcome = OVERSIZE
        elif m[row + Q_COUNT] >= m[e + QUEUE_BOUND]:
            outcome = SHED
    if outcome >= 0:
        end_attempt(m, q, heap, arrival, i, t, outcome, 0, 0)
    else:
        at = queue_of(m, q, row, i)
        link(m, q, prompt, row, at, i, np.int64(q[at + 1]), -1)
        move_area(m, t)
        m[G_OUTSTANDING] += 1
        m[row + OUTSTANDING] += 1
        m[row + PROMPT_TOKENS] += tokens
        show_load(m, q, row)
        if m[spot(m, A_DUE, r)] == NEVER:
            set_due(m, q, row, t)
        elif m[row + BLOCKED] == 0 or (m[e + PRIORITY] == 1 and queue_front(m, q, row) == i):
            # A queue that was blocked stays blocked until a plan ends, unless its front is a new one.
            m[row + BLOCKED] = 1
            cut_plan(m, q, row, t)


arrive_again = compiled(getattr(arrive, "py_func", arrive))


@inline
def watch_deadlines(m, q, i, t):
    """First attempts come in order of time, so each class's deadlines need one pointer, not a queue."""
    c = m[spot(m, A_GROUP_CLASS, group_of(m, q, i))]
    limits = m[A_CLASSES] + CLASS_FIELDS * c
    for which in range(2):
        at = m[A_DEADLINES] + 4 * c + 2 * which
        if m[at] == NEVER and m[limits + which] < NEVER:
            m[at] = t + m[limits + which]
            m[at + 1] = i
            m[G_OTHER] = min(m[G_OTHER], m[at])


@compiled
def mark_request(m, q, i, t):
    """Notes that a request's time is up; its engine sees it at the next boundary. Highest number first."""
    marks = m[A_MARK]
    if q[marks + i] == NOT_MARKED:
        row = row_of((np.int64(q[4 * i + STATUS]) >> 4) - 1)
        before = -1
        after = m[row + MARKED]
        while after > i:
            before = after
            after = np.int64(q[marks + after]) - 2
        q[marks + i] = after + 2
        if before < 0:
            m[row + MARKED] = i
        else:
            q[marks + before] = i + 2
        cut_plan(m, q, row, t)


@compiled
def pass_deadlines(m, q, arrival, c, which, t):
    """Marks the request at the class's pointer if its time is up, and moves on to the next that still waits."""
    at = m[A_DEADLINES] + 4 * c + 2 * which
    limit = m[m[A_CLASSES] + CLASS_FIELDS * c + which]
    i = m[at + 1]
    when = NEVER
    while i < m[G_ISSUED]:
        watched = is_alive(state_of(q, i)) and m[spot(m, A_GROUP_CLASS, group_of(m, q, i))] == c
        if watched and m[X_ATTEMPTS] > 1 and q[spot(m, A_TRIES, i)] > 1:
            watched = False  # a retry's deadline is on the timer heap
        if watched and which == TTFT_TIMEOUT and m[spot(m, A_FIRST, i)] > 0:
            watched = False
        if watched:
            when = arrival[i] + limit
            if when > t:
                break
            mark_request(m, q, i, t)
            when = NEVER
        i += 1
    m[at] = when
    m[at + 1] = i


@inline
def issue(m, q, heap, arrival, i, t):
    """A request is asked for the first time; its arrival at the router follows."""
    m[G_ISSUED] += 1
    if m[X_CLOSED] == 1:
        arrival[i] = t
    if m[X_ATTEMPTS] > 1:
        q[spot(m, A_TRIES, i)] = 1
        m[spot(m, A_ATTEMPT, i)] = t
        m[G_BUCKET] = min(m[X_BUCKET], m[G_BUCKET] + m[X_DEPOSIT])
    if m[X_HAS_CANCEL] == 1 and m[spot(m, A_CANCEL, i)] < NEVER:
        push_timer(m, heap, t + m[spot(m, A_CANCEL, i)], RANK_CANCEL, i, 0)
    if m[X_HAS_DEADLINE] == 1:
        watch_deadlines(m, q, i, t)


@once
def retry_now(m, q, heap, arrival, prompt, output, i, attempt, t):
    """A retry's deadlines are not in order of request number: they go to the timer heap."""
    m[G_BACKOFF] -= 1
    q[spot(m, A_TRIES, i)] = attempt
    m[spot(m, A_ATTEMPT, i)] = t
    limits = class_row(m, group_of(m, q, i))
    for which in range(2):
        if m[limits + which] < NEVER:
            push_timer(m, heap, t + m[limits + which], RANK_DEADLINE, i, attempt)
    arrive_again(m, q, heap, arrival, prompt, output, i, attempt, t)


@compiled
def fire_timer(m, q, heap, arrival, prompt, output, t):
    """Handles the timer on top of the heap."""
    code = heap[1]
    pop_timer(m, heap)
    rank = code >> 56
    i = (code >> 8) & 0xFFFFFFFFFFFF
    attempt = code & 0xFF
    if rank == RANK_CLIENT:
        if m[G_ISSUED] < m[X_REQUESTS]:
            q[spot(m, A_CLIENT, m[G_ISSUED])] = i
            i = m[G_ISSUED]
            issue(m, q, heap, arrival, i, t)
            arrive_again(m, q, heap, arrival, prompt, output, i, 1, t)
    else:
        state = state_of(q, i)
        if rank == RANK_ARRIVAL:
            if state == BACKOFF and q[spot(m, A_TRIES, i)] == attempt:
                retry_now(m, q, heap, arrival, prompt, output, i, attempt + 1, t)
        elif rank == RANK_CANCEL and state == BACKOFF:
            m[G_BACKOFF] -= 1
            end_attempt(m, q, heap, arrival, i, t, CANCELLED, 0, 0)
        elif is_alive(state) and (rank == RANK_CANCEL or q[spot(m, A_TRIES, i)] == attempt):
            mark_request(m, q, i, t)


# ---- outside events: replicas come and go ----------------------------------------------------------------


@compiled
def change_state(m, q, row, state):
    m[row + R_STATE] = state
    list_ready(m)
    show_load(m, q, row)


@inline
def become_ready(m, q, row):
    m[row + READY_AT] = NEVER
    m[row + SEEN] = 0
    change_state(m, q, row, READY)


@inline
def switch_off(m, q, row, t):
    m[row + READY_AT] = NEVER
    m[row + ON_PS] += t - m[row + ON_SINCE]
    change_state(m, q, row, OFF)


@inline
def drain(m, q, row, t):
    if m[row + OUTSTANDING] == 0:
        switch_off(m, q, row, t)
    else:
        change_state(m, q, row, DRAINING)


@inline
def is_starved(m, q, row, slot):
    found = False
    for x in range(m[row + STARVED]):
        found = found or q[starved_at(m, row, x)] == slot
    return found


@once
def interrupt_step(m, q, f, arrival, row, t):
    """Books the step under way up to t; returns 1 when there was one."""
    under_way = 0
    if m[row + PLANNED] > 0:
        under_way = 1
        whole = steps_until(m[row + T0], m[row + D0], m[row + INC], m[row + PLANNED], t) - 1
        if whole > 0:
            end = plan_end(m, row, whole)
            book_decode_steps(m, q, f, row, whole, end)
            m[row + T0] = end
        span = t - m[row + T0]
        m[row + B_DECODE] += span
        m[row + N_DECODE] += m[row + DECODES]
        m[row + N_CUT] += m[row + DECODES]
        if m[X_ATTRIBUTE] == 1:
            sums = sums_of(m, row)
            f[sums] += span
            f[sums + 1] += np.float64(m[row + STEP] - m[row + BASE_STEP] + 1) * span
            f[sums + 2] += np.float64(span) / m[row + DECODES]
    elif m[row + MIXED] == 1:
        under_way = 1
        m[row + N_CUT] += m[row + STEP_DECODES]
        book_mixed_time(m, q, f, arrival, row, t)
    return under_way


@compiled
def evict(m, q, f, heap, arrival, prompt, output, row, t, outcome):
    """The replica stops in the middle of its step, and everything on it ends like this."""
    under_way = interrupt_step(m, q, f, arrival, row, t)
    i = m[row + MARKED]
    m[row + MARKED] = -1
    while i >= 0:
        following = np.int64(q[spot(m, A_MARK, i)]) - 2
        q[spot(m, A_MARK, i)] = NOT_MARKED
        i = following
    slot = m[row + HEAD]
    while slot >= 0:
        i = request_in(q, slot)
        following = np.int64(q[slot + S_AFTER])
        extra = under_way
        if q[slot + S_FIN] < 0 or is_starved(m, q, row, slot):
            extra = 0
        held, emitted = stop_running(m, q, f, arrival, output, row, slot)
        leave(m, arrival, prompt, row, i, t)
        end_attempt(m, q, heap, arrival, i, t, outcome, held + extra, emitted)
        slot = following
    for v in range(m[X_LEVELS]):
        at = queues_of(m, row) + 2 * v
        while q[at] >= 0:
            i = np.int64(q[at])
            unlink(m, q, prompt, row, at, i)
            leave(m, arrival, prompt, row, i, t)
            end_attempt(m, q, heap, arrival, i, t, outcome, 0, np.int64(q[4 * i + EMITTED]))
    m[row + PLANNED] = 0
    m[row + MIXED] = 0
    m[row + PENDING] = 0
    m[row + STARVED] = 0
    m[row + BLOCKED] = 1
    set_due(m, q, row, NEVER)
    show_load(m, q, row)


@compiled
def platform_event(m, q, f, heap, arrival, prompt, output, row, kind, t):
    state = m[row + R_STATE]
    if kind == EVENT_FAIL:
        if state != DOWN:
            m[row + RETURNS] = READY if state in (READY, STARTING) else OFF
            if state != OFF:
                switch_off(m, q, row, t)
            evict(m, q, f, heap, arrival, prompt, output, row, t, FAILED)
            change_state(m, q, row, DOWN)
        m[row + DOWN_CAUSES] += 1
    elif state == DOWN:
        if kind == EVENT_REPAIR:
            m[row + DOWN_CAUSES] -= 1
            if m[row + DOWN_CAUSES] == 0:
                m[row + ON_SINCE] = t
                change_state(m, q, row, OFF)
                if m[row + RETURNS] == READY:
                    become_ready(m, q, row)
        else:
            m[row + RETURNS] = READY if kind == EVENT_READY else OFF
    elif kind == EVENT_READY:
        if state == OFF:
            m[row + ON_SINCE] = t
        if state in (OFF, STARTING):
            become_ready(m, q, row)
    elif kind == EVENT_DRAIN:
        if state == STARTING:
            switch_off(m, q, row, t)
        elif state == READY:
            drain(m, q, row, t)


# ---- outside events: refresh, sample, control ------------------------------------------------------------


@compiled
def refresh_router(m, q, t):
    for r in range(m[X_REPLICAS]):
        row = row_of(r)
        m[row + SEEN] = load_of(m, row, t)
        m[spot(m, A_LOAD, r)] = m[row + SEEN] if m[row + R_STATE] == READY else NEVER
    if m[X_REPLICAS] > 1:
        build_tree(q, m[A_LOAD_TREE], m, m[A_LOAD], m[X_LEAVES])


@compiled
def take_sample(m, samples, t):
    for r in range(m[X_REPLICAS]):
        row = row_of(r)
        at = SAMPLE_FIELDS * (m[G_SAMPLES] * m[X_REPLICAS] + r)
        busy = m[row + B_PREFILL] + m[row + B_DECODE] + m[row + B_MIXED]
        if m[row + PLANNED] > 0 or m[row + MIXED] == 1:
            busy += t - m[row + T0]
        samples[at] = m[row + DECODES] + m[row + PREFILLS]
        samples[at + 1] = m[row + Q_COUNT]
        samples[at + 2] = kv_now(m, row, t)
        samples[at + 3] = busy
        samples[at + 4] = m[row + R_STATE]
    m[G_SAMPLES] += 1


@compiled
def read_signals(m, t):
    for x in range(G_SIG_OUTSTANDING, G_SIG_STARTING + 1):
        m[x] = 0
    for r in range(m[X_REPLICAS]):
        row = row_of(r)
        state = m[row + R_STATE]
        if state in (READY, DRAINING):
            m[G_SIG_OUTSTANDING] += m[row + OUTSTANDING]
            m[G_SIG_WAITING] += m[row + Q_COUNT]
            m[G_SIG_TOKENS] += kv_now(m, row, t) + m[row + Q_TOKENS]
        m[G_SIG_READY] += 1 if state == READY else 0
        m[G_SIG_STARTING] += 1 if state == STARTING else 0


@compiled
def scale(m, q, t, want, keep):
    """Starts replicas up to `want`; lets go of those above `keep`, starting ones first, never the last."""
    ready = m[G_SIG_READY]
    supply = ready + m[G_SIG_STARTING]
    extra = supply - keep
    for r in range(m[X_REPLICAS]):
        row = row_of(r)
        if supply < want and m[row + R_STATE] == OFF:
            supply += 1
            m[row + R_STATE] = STARTING
            m[row + ON_SINCE] = t
            m[row + READY_AT] = t + m[X_READY_DELAY]
            m[G_SIG_STARTING] += 1
    for r in range(m[X_REPLICAS] - 1, -1, -1):
        row = row_of(r)
        if extra > 0 and m[row + R_STATE] == STARTING:
            switch_off(m, q, row, t)
            m[G_SIG_STARTING] -= 1
            extra -= 1
    for r in range(m[X_REPLICAS] - 1, -1, -1):
        row = row_of(r)
        if extra > 0 and m[G_SIG_READY] > 1 and m[row + R_STATE] == READY:
            drain(m, q, row, t)
            m[G_SIG_READY] -= 1
            extra -= 1


@compiled
def control(m, q, controls, t):
    """A control tick; returns False when it needs an answer from the callback first."""
    read_signals(m, t)
    signal = m[G_SIG_OUTSTANDING] if m[X_SIGNAL] == SIGNAL_OUTSTANDING else m[G_SIG_TOKENS]
    want = m[G_WANT]
    if m[X_CONTROL] == CONTROL_RULE:
        want = (signal * 1000 + m[X_TARGET_MILLI] - 1) // m[X_TARGET_MILLI]
    elif want < 0:
        return False
    m[G_WANT] = -1
    want = min(max(want, m[X_LEAST]), m[X_MOST])
    at = CONTROL_FIELDS * m[G_CONTROLS]
    controls[at + 4] = want
    keep = want
    for back in range(1, min(m[X_WINDOW], m[G_CONTROLS] + 1)):
        keep = max(keep, controls[at + 4 - CONTROL_FIELDS * back])
    scale(m, q, t, want, keep)
    controls[at] = t
    controls[at + 1] = signal
    controls[at + 2] = m[G_SIG_READY]
    controls[at + 3] = m[G_SIG_STARTING]
    m[G_CONTROLS] += 1
    m[G_CONTROL] += m[X_CONTROL_PERIOD]
    return True


@compiled
def next_other(m, heap):
    """When the next outside event comes that is not an open-loop arrival."""
    soonest = NEVER
    if m[X_CONTROL] != CONTROL_NONE:
        for r in range(m[X_REPLICAS]):
            soonest = min(soonest, m[row_of(r) + READY_AT])
    m[G_READY_MIN] = soonest
    soonest = min(soonest, m[G_REFRESH], m[G_SAMPLE], m[G_CONTROL])
    if m[G_EVENT] < m[X_EVENTS]:
        soonest = min(soonest, m[m[A_EVENTS] + 3 * m[G_EVENT]])
    if m[G_HEAP] > 0:
        soonest = min(soonest, heap[0])
    if m[X_HAS_DEADLINE] == 1:
        for x in range(2 * m[X_CLASSES]):
            soonest = min(soonest, m[m[A_DEADLINES] + 2 * x])
    return soonest


@inline
def due_rank(m, heap, t):
    """The rank of the outside event that comes first at t, open-loop arrivals apart; -1 when there is none."""
    rank = -1
    if m[G_EVENT] < m[X_EVENTS] and m[m[A_EVENTS] + 3 * m[G_EVENT]] == t:
        rank = RANK_PLATFORM
    elif m[G_READY_MIN] == t:
        rank = RANK_READY
    elif m[G_REFRESH] == t:
        rank = RANK_REFRESH
    elif m[G_SAMPLE] == t:
        rank = RANK_SAMPLE
    elif m[G_CONTROL] == t:
        rank = RANK_CONTROL
    else:
        if m[G_HEAP] > 0 and heap[0] == t:
            rank = heap[1] >> 56
        if m[X_HAS_DEADLINE] == 1:
            for x in range(2 * m[X_CLASSES]):
                if m[m[A_DEADLINES] + 2 * x] == t:
                    rank = RANK_DEADLINE
    return rank


@compiled
def handle_other(m, q, heap, arrival, prompt, output, t, arrival_due, issued):
    """Handles one outside event at t that comes often. Returns a code when it is another's turn.

    With an open-loop arrival due at the same time, a retry of a higher number leaves it the precedence.
    """
    rank = due_rank(m, heap, t)
    if arrival_due and (rank < 0 or (rank == RANK_ARRIVAL and ((heap[1] >> 8) & 0xFFFFFFFFFFFF) > issued)):
        return ARRIVAL_FIRST
    if rank == RANK_REFRESH:
        m[G_REFRESH] += m[X_REFRESH]
        refresh_router(m, q, t)
    elif rank >= 0 and rank < RANK_DEADLINE:
        return AT_INTERVENTION
    elif rank == RANK_DEADLINE and (m[G_HEAP] == 0 or heap[0] != t or heap[1] >> 56 != RANK_DEADLINE):
        for x in range(2 * m[X_CLASSES]):
            if m[m[A_DEADLINES] + 2 * x] == t:
                pass_deadlines(m, q, arrival, x >> 1, x & 1, t)
    elif rank >= 0:
        fire_timer(m, q, heap, arrival, prompt, output, t)
    m[G_NOW] = t
    m[G_OTHER] = next_other(m, heap)
    return DONE


@compiled
def intervene(w):
    """Handles the outside event that `advance` stopped at: replicas come and go, a sample, a control tick.

    These are rare, and a function of its own is compiled only where it is used. Returns DONE, or a code when the
    caller must act first.
    """
    m, q, heap = w.m, w.q, w.heap
    t = m[G_OTHER]
    rank = due_rank(m, heap, t)
    if rank == RANK_PLATFORM:
        at = m[A_EVENTS] + 3 * m[G_EVENT]
        m[G_EVENT] += 1
        platform_event(m, q, w.f, heap, w.arrival, w.prompt, w.output, row_of(m[at + 1]), m[at + 2], t)
    elif rank == RANK_READY:
        for r in range(m[X_REPLICAS]):
            if m[row_of(r) + READY_AT] == t:
                become_ready(m, q, row_of(r))
    elif rank == RANK_SAMPLE:
        if SAMPLE_FIELDS * (m[G_SAMPLES] + 1) * m[X_REPLICAS] > w.samples.shape[0]:
            return LOG_FULL
        m[G_SAMPLE] += m[X_SAMPLE]
        take_sample(m, w.samples, t)
    else:
        if CONTROL_FIELDS * (m[G_CONTROLS] + 1) > w.controls.shape[0]:
            return LOG_FULL
        if not control(m, q, w.controls, t):
            return AT_CONTROL
    m[G_NOW] = t
    m[G_OTHER] = next_other(m, heap)
    return DONE


# ---- the clock -------------------------------------------------------------------------------------------


@compiled
def advance(w, until):
    """Runs everything before `until`; says why it came back. Call it again to go on."""
    m, q, f, heap = w.m, w.q, w.f, w.heap
    arrival, prompt, output = w.arrival, w.prompt, w.output
    requests = m[X_REQUESTS]
    due = known(m[A_DUE])
    first_due = known(m[A_DUE_TREE] + 1)
    is_open = m[X_CLOSED] == 0
    single = m[X_REPLICAS] == 1
    room = heap.shape[0] // 2 - 8 if heap.shape[0] > 0 else NEVER
    while True:
        issued = known(m[G_ISSUED])
        next_arrival = arrival[issued] if is_open and issued < requests else NEVER
        now = m[G_NOW]
        boundaries = 0
        most = m[X_MOST_EVENTS] - m[G_EVENTS]
        while True:
            when = min(next_arrival, m[G_OTHER], until)
            r = 0 if single else known(np.int64(q[first_due]))
            t = m[due + r]
            if t >= when or boundaries > most or m[G_HEAP] + m[G_OUTSTANDING] > room:
                break
            boundary(m, q, f, heap, arrival, prompt, output, row_of(r), t)
            now = t
            boundaries += 1
        m[G_NOW] = now
        m[G_EVENTS] += boundaries
        if m[G_EVENTS] > m[X_MOST_EVENTS]:
            return OUT_OF_EVENTS
        if m[G_HEAP] + m[G_OUTSTANDING] > room:
            return HEAP_FULL
        if issued == requests and m[G_OUTSTANDING] == 0 and m[G_BACKOFF] == 0:
            return DONE
        if when >= until:
            return AT_UNTIL
        code = ARRIVAL_FIRST
        if m[G_OTHER] <= next_arrival:
            tie = m[G_OTHER] == next_arrival
            code = handle_other(m, q, heap, arrival, prompt, output, m[G_OTHER], tie, issued)
        if code == ARRIVAL_FIRST:
            m[G_NOW] = next_arrival
            m[G_EVENTS] += 1
            issue(m, q, heap, arrival, issued, next_arrival)
            arrive(m, q, heap, arrival, prompt, output, issued, 1, next_arrival)
        elif code != DONE:
            return code


@compiled
def close(w, t):
    """The horizon: what is still under way stays unfinished."""
    m, q = w.m, w.q
    for r in range(m[X_REPLICAS]):
        evict(m, q, w.f, w.heap, w.arrival, w.prompt, w.output, row_of(r), t, UNFINISHED)
    if m[G_BACKOFF] > 0:
        for i in range(m[G_ISSUED]):
            if state_of(q, i) == BACKOFF:
                m[G_BACKOFF] -= 1
                end_attempt(m, q, w.heap, w.arrival, i, t, UNFINISHED, 0, 0)
