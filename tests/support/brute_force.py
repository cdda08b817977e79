"""A second opinion on how many replicas a risk needs: another engine, another draw, another failure process.

It imports nothing of the product. It is handed step times as tables, requests as arrays and numbers as numbers, and
works them through with plain loops: requests are simulated on replicas one engine step at a time, futures are drawn by
an ordinary generator, and machines fail and are repaired one after the other in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np


@dataclass(frozen=True, kw_only=True)
class EngineTables:
    """Step times in seconds, and the engine's limits."""

    decode_base_s: np.ndarray
    decode_slope_s: np.ndarray
    token_base_s: np.ndarray
    token_slope_s: np.ndarray
    kv_segment: int
    token_segment: int
    pair_s: float
    adds_up: bool
    sequences: int
    budget: int
    kv_tokens: int
    overhead_s: float
    crowd_s: float


@dataclass(frozen=True, kw_only=True)
class ArrivalWindow:
    """Requests in order of arrival; `weight` is how much the window counts."""

    arrival_s: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    cached: np.ndarray
    kind: np.ndarray
    weight: float


@dataclass(frozen=True, kw_only=True)
class KindLimits:
    """Of one class: 95 % of first tokens, and of times per further token, within these; when its clients give up.

    An answer that is given up on has missed the second.
    """

    ttft_s: float
    tpot_s: float
    deadline_s: float


@numba.njit
def _step_s(  # type: ignore[no-untyped-def]
    n, kv, tokens, pairs, base, slope, tbase, tslope, kvseg, tseg, pair_s, adds_up
):  # fmt: skip
    g = min(kv // kvseg, base.shape[1] - 1)
    decode = base[n, g] + slope[n, g] * (kv - g * kvseg)
    if tokens == 0:
        return decode
    x = tokens if adds_up else tokens + n
    h = min(x // tseg, tbase.shape[0] - 1)
    prefill = tbase[h] + tslope[h] * (x - h * tseg) + pairs * pair_s
    return decode + prefill if adds_up else max(decode, prefill)


@numba.njit
def _serve(  # type: ignore[no-untyped-def]
    arrival, prompt, output, cached, gives_up, replicas, ratio,
    base, slope, tbase, tslope, kvseg, tseg, pair_s, adds_up,
    most, budget, kv_limit, overhead, crowd,
):  # fmt: skip
    count = arrival.size
    first, last, outside = np.full(count, np.inf), np.full(count, np.inf), np.zeros(count)
    running = np.zeros((replicas, most), np.int64)
    n_running = np.zeros(replicas, np.int64)
    # What is pushed out waits in front of all others, so the queue has room on its left.
    queue = np.zeros((replicas, 3 * count), np.int64)
    head, tail = np.full(replicas, count), np.full(replicas, count)
    ends = np.full(replicas, np.inf)
    decoding_now = np.zeros(replicas, np.int64)
    computed, emitted, given = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    decodes = np.zeros(count, np.bool_)
    seen = 0
    while True:
        # The next thing that happens: an arrival, or the end of some replica's step.
        r = 0
        for each in range(1, replicas):
            if ends[each] < ends[r]:
                r = each
        coming = arrival[seen] if seen < count else np.inf
        if coming == np.inf and ends[r] == np.inf:
            return first, last
        if coming <= ends[r]:
            now = coming
            r = 0
            for each in range(1, replicas):
                if n_running[each] + tail[each] - head[each] < n_running[r] + tail[r] - head[r]:
                    r = each
            queue[r, tail[r]] = seen
            tail[r] += 1
            seen += 1
            if ends[r] < np.inf:
                continue
        else:
            now = ends[r]
            kept = 0
            for place in range(n_running[r]):
                who = running[r, place]
                if given[who] > 0 and computed[who] >= prompt[who] + emitted[who]:
                    emitted[who] += 1
                    decodes[who] = True
                    if emitted[who] == 1:
                        outside[who] = ratio * (overhead + crowd * decoding_now[r])
                        first[who] = now + outside[who]
                    if emitted[who] == output[who]:
                        last[who] = now + outside[who]
                        continue
                if now >= arrival[who] + gives_up[who]:
                    continue
                running[r, kept] = who
                kept += 1
            n_running[r] = kept
        # Start the next step of this replica: those that run first, then those that wait.
        left, held = budget, 0
        for place in range(n_running[r]):
            held += -(-computed[running[r, place]] // 16) * 16
        n, kv, tokens, pairs = 0, 0, 0, 0
        pushed_out = False
        place = 0
        while place < n_running[r]:
            who = running[r, place]
            new = min(prompt[who] + emitted[who] - computed[who], left)
            grown = -(-(computed[who] + new) // 16) * 16 - -(-computed[who] // 16) * 16
            while held + grown > kv_limit and n_running[r] > place:
                # Out of memory: the last that was admitted loses what it holds, and waits in front.
                n_running[r] -= 1
                victim = running[r, n_running[r]]
                held -= -(-computed[victim] // 16) * 16
                computed[victim], given[victim], decodes[victim] = 0, 0, False
                head[r] -= 1
                queue[r, head[r]] = victim
                pushed_out = True
            if n_running[r] <= place:
                break
            given[who] = new
            computed[who] += new
            held += grown
            left -= new
            if new > 0:
                kv += computed[who]
                if decodes[who]:
                    n += 1
                else:
                    tokens += new
                    pairs += new * (2 * computed[who] - new + 1) // 2
            place += 1
        while not pushed_out and head[r] < tail[r] and left > 0 and n_running[r] < most:
            who = queue[r, head[r]]
            if now >= arrival[who] + gives_up[who]:
                head[r] += 1
                continue
            new = min(prompt[who] + emitted[who] - cached[who], left)
            grown = -(-(cached[who] + new) // 16) * 16
            if held + grown > kv_limit:
                break
            head[r] += 1
            running[r, n_running[r]] = who
            n_running[r] += 1
            computed[who] = cached[who] + new
            given[who] = new
            left -= new
            held += grown
            kv += computed[who]
            tokens += new
            pairs += new * (2 * computed[who] - new + 1) // 2
        decoding_now[r] = n
        if n + tokens == 0:
            ends[r] = np.inf
        else:
            took = _step_s(n, kv, tokens, pairs, base, slope, tbase, tslope, kvseg, tseg, pair_s, adds_up)
            ends[r] = now + ratio * took


def missed(
    tables: EngineTables, windows: Sequence[ArrivalWindow], limits: Sequence[KindLimits], *, replicas: int,
    ratio: float, warm_s: float,
) -> float:  # fmt: skip
    """The largest share that misses a limit, over what is allowed: 1 where an SLO is just met."""
    late = np.zeros((len(limits), 2))
    sent = np.zeros((len(limits), 2))
    patience = np.array([each.deadline_s - tables.overhead_s for each in limits])
    for each in windows:
        first, last = _serve(
            each.arrival_s, each.prompt, each.output, each.cached, patience[each.kind], replicas, ratio,
            tables.decode_base_s, tables.decode_slope_s, tables.token_base_s, tables.token_slope_s,
            tables.kv_segment, tables.token_segment, tables.pair_s, tables.adds_up,
            tables.sequences, tables.budget, tables.kv_tokens, tables.overhead_s, tables.crowd_s,
        )  # fmt: skip
        counts = each.arrival_s >= warm_s
        for kind, limit in enumerate(limits):
            own = counts & (each.kind == kind)
            more = own & (each.output > 1)
            ended = np.isfinite(last[more])
            tpot = np.where(ended, last[more] - np.where(ended, first[more], 0.0), np.inf) / (each.output[more] - 1)
            late[kind] += each.weight * np.array([(first[own] - each.arrival_s[own] > limit.ttft_s).sum(),
                                                  (tpot > limit.tpot_s).sum()])  # fmt: skip
            sent[kind] += each.weight * np.array([own.sum(), more.sum()])
    return float((late / np.maximum(sent, 1e-12) / 0.05).max())


def carried_rps(
    tables: EngineTables, windows_at: Callable[[float], Sequence[ArrivalWindow]], limits: Sequence[KindLimits], *,
    replicas: int, ratio: float, warm_s: float, start_rps: float,
) -> float:  # fmt: skip
    """The highest load that meets every limit, by halving a bracket; 0 where a tenth of the start does not."""

    def meets(rate: float) -> bool:
        found = missed(tables, windows_at(rate), limits, replicas=replicas, ratio=ratio, warm_s=warm_s)
        return found <= 1.0

    low, high = 0.0, start_rps
    while meets(high):
        low, high = high, 1.15 * high
    if low == 0.0:
        low = high
        while low > 0.1 * start_rps and not meets(low):
            high, low = low, low / 1.2
        if low <= 0.1 * start_rps:
            return 0.0
    while high / low > 1.015:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return math.sqrt(low * high)


@dataclass(frozen=True, kw_only=True)
class Breaking:
    """Failures a year of one thing while it is up, and hours until it is repaired."""

    per_year: float
    repair_h: float


def up_counts(
    nodes_by_zone: Sequence[Sequence[int]], replica: Breaking, node: Breaking, zone: Breaking, *, looks: int, seed: int
) -> np.ndarray:
    """Replicas that are up at `looks` moments: every part fails and is repaired in its own time, from all up."""
    rng = np.random.default_rng(seed)
    apart_h = 240.0
    moments = 5000.0 + apart_h * np.arange(looks)

    def is_up(part: Breaking) -> np.ndarray:
        up = np.ones(looks, bool)
        now = 0.0
        while now < moments[-1]:
            now += rng.exponential(8766.0 / part.per_year) if part.per_year else math.inf
            down = rng.exponential(part.repair_h)
            up[np.searchsorted(moments, now) : np.searchsorted(moments, now + down)] = False
            now += down
        return up

    found = np.zeros(looks, np.int64)
    for nodes in nodes_by_zone:
        zone_up = is_up(zone)
        for size in nodes:
            node_up = is_up(node)
            for _ in range(size):
                found += zone_up & node_up & is_up(replica)
    return found


def least_fleet(shortfall: Callable[[int], float], target: float, start: int) -> int:
    """The smallest number that falls short no more often than the target, one by one."""
    count = start
    while shortfall(count) > target:
        count += 1
    while count > 1 and shortfall(count - 1) <= target:
        count -= 1
    return count
