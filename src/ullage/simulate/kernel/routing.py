"""The router: what it knows of the replicas' loads, and which one it takes."""

from __future__ import annotations

from ullage.simulate.kernel.arithmetic import chance32
from ullage.simulate.kernel.codes import (
    HOME_STREAM,
    LEAST_KV,
    LEAST_OUTSTANDING,
    LEAST_TOKENS,
    NEVER,
    PREFIX_AWARE,
    RANDOM,
    READY,
    ROUND_ROBIN,
    STICKY,
)  # fmt: skip
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.prefixes import deepest_holder, matched_blocks, seen_blocks, settle_cache, tell_router
from ullage.simulate.kernel.state import ReplicaRow, World
from ullage.simulate.kernel.steps import kv_now
from ullage.simulate.kernel.trees import build_tree, replay


@compiled
def load_of(w: World, replica: ReplicaRow, now_ps: int) -> int:
    load = replica.outstanding
    if w.routing == LEAST_TOKENS:
        load = replica.prompt_tokens
    elif w.routing == LEAST_KV:
        load = kv_now(w, replica, now_ps) + replica.queue_tokens
    return load


@inline
def show_load(w: World, replica: ReplicaRow) -> None:
    """Tells the router's tree about a replica whose load or readiness changed."""
    if w.replica_count > 1 and w.routing >= LEAST_OUTSTANDING:
        load = replica.prompt_tokens if w.routing == LEAST_TOKENS else replica.outstanding
        if w.refresh_period_ps > 0:
            load = replica.seen_load
        w.load[replica.index] = load if replica.state == READY else NEVER
        replay(w.load_tree, w.load, replica.index, w.leaves)


@compiled
def refresh_router(w: World, now_ps: int) -> None:
    """The router refreshes its view of every replica."""
    for r in range(w.replica_count):
        replica = w.replicas[r]
        replica.seen_load = load_of(w, replica, now_ps)
        if w.has_prefix == 1:
            settle_cache(w, replica, now_ps)
            tell_router(w, replica)
        w.load[r] = replica.seen_load if replica.state == READY else NEVER
    if w.replica_count > 1:
        build_tree(w.load_tree, w.load, w.leaves)


@compiled
def list_ready(w: World) -> None:
    """Renews the sorted list of routable replicas."""
    ready = 0
    for r in range(w.replica_count):
        if w.replicas[r].state == READY:
            w.ready[ready] = r
            ready += 1
    w.clock.ready = ready


@compiled
def route_by_chance(w: World, i: int, attempt: int, now_ps: int) -> int:
    ready = w.clock.ready
    if w.routing == ROUND_ROBIN:
        low, high = 0, ready
        while low < high:
            middle = (low + high) >> 1
            if w.ready[middle] > w.clock.last_replica:
                high = middle
            else:
                low = middle + 1
        w.clock.last_replica = w.ready[low % ready]
        return w.clock.last_replica
    place = (chance32(w.seed, i, 2 * attempt) * ready) >> 32
    first = w.ready[place]
    if w.routing == RANDOM or ready == 1:
        return first
    other = (chance32(w.seed, i, 2 * attempt + 1) * (ready - 1)) >> 32
    second = w.ready[other + 1 if other >= place else other]
    one, two = w.replicas[first], w.replicas[second]
    if w.refresh_period_ps > 0:
        return second if two.seen_load < one.seen_load else first
    return second if load_of(w, two, now_ps) < load_of(w, one, now_ps) else first


@compiled
def route_by_kv(w: World, now_ps: int) -> int:
    """The least KV and queued tokens, scanned: the load of every replica moves with every step."""
    best = NEVER
    chosen = 0
    for x in range(w.clock.ready):
        replica = w.replicas[w.ready[x]]
        # Without the growth in the plan under way this is a lower bound, and cheap.
        if replica.kv_tokens + replica.prefill_kv_tokens + replica.queue_tokens < best:
            load = load_of(w, replica, now_ps)
            if load < best:
                best = load
                chosen = w.ready[x]
    return chosen


@inline
def is_overloaded(w: World, r: int, least: int) -> bool:
    """The guard: so many more requests than the least loaded has, and so many times as many."""
    return w.load[r] - least > w.guard_requests and w.load[r] * 1000 > w.guard_milli * least


@compiled
def route_home(w: World, i: int) -> int:
    """The replica that the request's session always goes to while the same are ready, or the least loaded one."""
    home = w.ready[(chance32(w.seed, w.home[i], HOME_STREAM) * w.clock.ready) >> 32]
    spare = w.load_tree[1]
    return spare if is_overloaded(w, home, w.load[spare]) else home


@compiled
def most_seen(w: World, i: int, now_ps: int) -> int:
    """The replica that has most of a prompt as the router sees it, the less loaded one of two; all are compared."""
    chosen = -1
    most = 0
    for x in range(w.clock.ready):
        replica = w.replicas[w.ready[x]]
        if w.refresh_period_ps > 0:
            found = seen_blocks(w, replica, i)
        else:
            settle_cache(w, replica, now_ps)
            found = matched_blocks(w, replica, i)
        if found > most or (0 < found == most and w.load[replica.index] < w.load[chosen]):
            most = found
            chosen = replica.index
    return chosen


@compiled
def route_to_prefix(w: World, i: int, now_ps: int) -> int:
    """Where most of the prompt is, the less loaded one of two; the least loaded one where that is little or guarded."""
    spare = w.load_tree[1]
    if w.has_prefix == 0 or w.prompt_node[i] < 0:
        return spare
    # With a second tier, or from what it saw a while ago, what a replica has of a prompt may have gaps.
    gaps = w.has_host == 1 or w.refresh_period_ps > 0
    chosen = most_seen(w, i, now_ps) if gaps else deepest_holder(w, i, now_ps)
    if chosen < 0 or is_overloaded(w, chosen, w.load[spare]):
        return spare
    replica = w.replicas[chosen]
    found = seen_blocks(w, replica, i) if w.refresh_period_ps > 0 else matched_blocks(w, replica, i)
    leaf = w.nodes[w.prompt_node[i]]
    return spare if found * 1000 < w.match_milli * (leaf.begin + leaf.blocks) else chosen


@inline
def route(w: World, i: int, attempt: int, now_ps: int) -> int:
    """The replica for a request, or -1 when none is ready."""
    r = 0
    if w.clock.ready == 0:
        r = -1
    elif w.replica_count > 1:
        if w.routing < LEAST_OUTSTANDING:
            r = route_by_chance(w, i, attempt, now_ps)
        elif w.routing == LEAST_KV and w.refresh_period_ps == 0:
            r = route_by_kv(w, now_ps)
        elif w.routing == STICKY:
            r = route_home(w, i)
        elif w.routing == PREFIX_AWARE:
            r = route_to_prefix(w, i, now_ps)
        else:
            r = w.load_tree[1]
    return r
