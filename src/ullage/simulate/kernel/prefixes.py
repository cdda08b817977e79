"""The prefix cache of a replica: which blocks of which prompts it has, who holds them, and which go first.

Prompts are paths in a tree of *nodes*, runs of blocks that every prompt contains as a whole or not at all, so that what
an engine does block by block is done here run by run. A node has so many of its first blocks on a replica. It is pinned
while a running request's prompt contains it; what is not pinned is kept in order of last use, and the last blocks of
the node used longest ago go first when memory is needed: vLLM's free queue, and the leaves of SGLang's radix tree.

What is on a replica is closed under prefixes: a node has blocks only where all before it are there. A running request
uses everything before a node it uses, and releases its prompt from the end; so a node is never used later than what
it follows.

Blocks that several requests hold take memory once: `shared_blocks` is how many more blocks requests hold than there
are, and is added to what a replica has where the sum of what requests hold is compared with it.

With a tier in host memory (`World.has_host`) what goes from the device is kept there, in order of when it came, until
that is full too. A node's blocks there follow those that the device has of it, and a node that is pinned has none
there: a request that is admitted takes all of its prompt's with it. Device and host together are closed under prefixes,
as the device is by itself, but for the block of a prompt's last token: it is computed and not loaded, and until then
what follows it in host memory is out of reach. Of two nodes that go, the later one in the prompt goes first, and so is
older there.
"""

from __future__ import annotations

from ullage.simulate.kernel.books import gained
from ullage.simulate.kernel.codes import KEPT, OFFLOADED, PREFIX_AWARE, READY
from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.records import prefetch
from ullage.simulate.kernel.state import CacheRow, EngineTerms, HostRow, ReplicaRow, SightingRow, World
from ullage.simulate.kernel.steps import blocks_with, growth_of, steps_until

_REQUESTS_AHEAD = 4


@inline
def room_of(w: World, replica: ReplicaRow, engine: EngineTerms) -> int:
    """What the blocks that requests hold, added up, may come to."""
    return engine.blocks if w.has_prefix == 0 else engine.blocks + replica.shared_blocks


@inline
def cached_at(w: World, replica: ReplicaRow, n: int) -> CacheRow:
    return w.cached[replica.cached_at + n]


@inline
def hosted_at(w: World, replica: ReplicaRow, n: int) -> HostRow:
    return w.hosted[replica.cached_at + n]


@inline
def sighting_at(w: World, replica: ReplicaRow, n: int) -> SightingRow:
    return w.sightings[replica.cached_at + n]


@inline
def set_blocks(w: World, replica: ReplicaRow, n: int, blocks: int) -> None:
    """A replica's device has so many blocks of a node now."""
    row = cached_at(w, replica, n)
    if w.routing == PREFIX_AWARE:
        # Nobody else asks who holds a node, and it is rarely in the processor's own cache.
        node = w.nodes[n]
        if row.blocks == 0 and blocks > 0:
            node.holders += 1
            node.holder_sum += replica.index
        elif row.blocks > 0 and blocks == 0:
            node.holders -= 1
            node.holder_sum -= replica.index
    row.blocks = blocks


@inline
def blocks_at(w: World, replica: ReplicaRow, n: int) -> int:
    """Blocks of a node on the device and in host memory."""
    found = cached_at(w, replica, n).blocks
    return found if w.has_host == 0 else found + hosted_at(w, replica, n).blocks


# ---- cached blocks without a reference, least recently used first --------------------------------------------


@inline
def keep(w: World, replica: ReplicaRow, n: int) -> None:
    """A node whose last reference is gone becomes the most recently used."""
    row = cached_at(w, replica, n)
    newest = replica.newest
    row.before = newest
    row.after = -1
    if newest >= 0:
        cached_at(w, replica, newest).after = n
    else:
        replica.oldest = n
    replica.newest = n
    replica.kept_blocks += row.blocks


@inline
def take(w: World, replica: ReplicaRow, n: int) -> None:
    """A node leaves the list: it is used again, or has no block left."""
    row = cached_at(w, replica, n)
    if row.before >= 0:
        cached_at(w, replica, row.before).after = row.after
    else:
        replica.oldest = row.after
    if row.after >= 0:
        cached_at(w, replica, row.after).before = row.before
    else:
        replica.newest = row.before
    replica.kept_blocks -= row.blocks


@inline
def note_change(w: World, replica: ReplicaRow, n: int) -> None:
    """A router with a stale view learns of it at its next refresh."""
    if w.routing == PREFIX_AWARE and w.refresh_period_ps > 0:
        sighting = sighting_at(w, replica, n)
        if sighting.changed == 0:
            sighting.changed = replica.changed + 2
            replica.changed = n


@compiled
def tell_router(w: World, replica: ReplicaRow) -> None:
    """The router sees what the replica has now."""
    n = replica.changed
    while n >= 0:
        sighting = sighting_at(w, replica, n)
        sighting.blocks = blocks_at(w, replica, n)
        n = sighting.changed - 2
        sighting.changed = 0
    replica.changed = -1


# ---- what is in host memory, oldest first -----------------------------------------------------------------


@compiled
def take_from_host(w: World, replica: ReplicaRow, n: int) -> int:
    """A node leaves host memory; returns the blocks that it had there."""
    row = hosted_at(w, replica, n)
    blocks = row.blocks
    if blocks > 0:
        if row.before >= 0:
            hosted_at(w, replica, row.before).after = row.after
        else:
            replica.host_oldest = row.after
        if row.after >= 0:
            hosted_at(w, replica, row.after).before = row.before
        else:
            replica.host_newest = row.before
        row.blocks = 0
        replica.host_blocks -= blocks
        note_change(w, replica, n)
    return blocks


@compiled
def put_into_host(w: World, replica: ReplicaRow, n: int, blocks: int) -> None:
    """A node is the newest there, with so many blocks."""
    row = hosted_at(w, replica, n)
    newest = replica.host_newest
    row.blocks = blocks
    row.before = newest
    row.after = -1
    if newest >= 0:
        hosted_at(w, replica, newest).after = n
    else:
        replica.host_oldest = n
    replica.host_newest = n
    replica.host_blocks += blocks


@compiled
def offload(w: World, replica: ReplicaRow, n: int, gone: int) -> None:
    """The device evicts the last blocks that it has of a node: they come before those that the host has of it."""
    put_into_host(w, replica, n, take_from_host(w, replica, n) + gone)
    replica.hosted_blocks += gone
    over = replica.host_blocks - w.engines[replica.engine].host_room
    while over > 0:
        oldest = replica.host_oldest
        row = hosted_at(w, replica, oldest)
        dropped = min(over, row.blocks)
        if dropped == row.blocks:
            take_from_host(w, replica, oldest)
        else:
            row.blocks -= dropped
            replica.host_blocks -= dropped
            note_change(w, replica, oldest)
        replica.dropped_blocks += dropped
        over -= dropped


@compiled
def load_run(w: World, replica: ReplicaRow, n: int, whole: int) -> int:
    """A node is about to be held: of what the host has of it the first `whole` blocks of the prompt are loaded.

    What lies behind them, the block of the prompt's last token, is computed and need not be loaded.
    """
    row = cached_at(w, replica, n)
    found = take_from_host(w, replica, n)
    loaded = max(0, min(found, whole - w.nodes[n].begin - row.blocks))
    set_blocks(w, replica, n, row.blocks + loaded)
    replica.loaded_blocks += loaded
    replica.dropped_blocks += found - loaded
    return loaded


@compiled
def evict_oldest(w: World, replica: ReplicaRow, over: int) -> None:
    """Lets go of so many kept blocks, the last of the oldest first."""
    while over > 0 and replica.oldest >= 0:
        n = replica.oldest
        row = cached_at(w, replica, n)
        gone = min(over, row.blocks)
        set_blocks(w, replica, n, row.blocks - gone)
        replica.kept_blocks -= gone
        replica.evicted_blocks += gone
        over -= gone
        note_change(w, replica, n)
        if row.blocks == 0:
            take(w, replica, n)
        if w.has_host == 1:
            offload(w, replica, n, gone)


@inline
def make_room(w: World, replica: ReplicaRow, used: int) -> None:
    """Lets go of what is kept until requests have the blocks they hold, `used` in all."""
    needed = used - replica.shared_blocks
    replica.peak_blocks = max(replica.peak_blocks, needed)
    over = needed + replica.kept_blocks - w.engines[replica.engine].blocks
    if over > 0 and replica.kept_blocks > 0:
        evict_oldest(w, replica, over)


@inline
def make_room_for_plan(w: World, replica: ReplicaRow, steps: int) -> None:
    """The same for so many steps of the plan under way: decodes grow, so the last of them needs the most."""
    engine = w.engines[replica.engine]
    if w.counts_blocks == 1:
        used = replica.decode_blocks + growth_of(w, replica, engine.block_shift, steps)
    else:
        used = blocks_with(w, replica, engine.block_shift, gained(w, replica, steps - 1) + engine.width)
    make_room(w, replica, used)


@compiled
def settle_cache(w: World, replica: ReplicaRow, now_ps: int) -> None:
    """Evictions of the steps begun by now are applied before the cache is read."""
    if replica.planned > 0 and (replica.kept_blocks > 0 or replica.parked_oldest >= 0):
        make_room_for_plan(w, replica, steps_until(w, replica, now_ps))


# ---- what sessions have between their turns ----------------------------------------------------------------


@compiled
def park(w: World, replica: ReplicaRow, turn: int, leaf: int) -> None:
    """Everything up to a node stays pinned until a turn comes."""
    newest = replica.parked_newest
    w.parked_at[turn] = replica.index + 1
    w.parked_node[turn] = leaf
    w.parked_before[turn] = newest
    w.parked_after[turn] = -1
    if newest >= 0:
        w.parked_after[newest] = turn
    else:
        replica.parked_oldest = turn
    replica.parked_newest = turn
    n = leaf
    while n >= 0:
        row = cached_at(w, replica, n)
        if row.pins == 0 and row.blocks > 0:
            take(w, replica, n)
            replica.shared_blocks -= row.blocks
        row.pins += 1
        n = w.nodes[n].parent


@compiled
def unpark(w: World, replica: ReplicaRow, turn: int) -> None:
    """The turn has come, or others need the room: what no other request references stays cached like the rest."""
    before = w.parked_before[turn]
    after = w.parked_after[turn]
    if before >= 0:
        w.parked_after[before] = after
    else:
        replica.parked_oldest = after
    if after >= 0:
        w.parked_before[after] = before
    else:
        replica.parked_newest = before
    w.parked_at[turn] = 0
    unpin(w, replica, w.parked_node[turn])


@compiled
def frees_oldest(w: World, replica: ReplicaRow) -> bool:
    """Nothing runs, and what waits does not fit: the session that has kept its blocks longest releases them."""
    found = w.between == KEPT and replica.waiting > 0 and replica.parked_oldest >= 0
    if found:
        # The queue is scanned again, whatever the admission policy decided before.
        replica.refused_at = -1
        unpark(w, replica, replica.parked_oldest)
    return found


@compiled
def set_aside(w: World, replica: ReplicaRow, i: int) -> None:
    """A turn has ended and another will follow: its session's blocks stay held, go to host memory, or go."""
    if w.between == KEPT:
        leaf = w.answer_node[i]
        park(w, replica, w.next_turn[i], leaf if leaf >= 0 else w.prompt_node[i])
    else:
        session = w.session[i]
        for x in range(w.session_nodes_at[session], w.session_nodes_at[session + 1]):
            n = w.session_nodes[x]
            row = cached_at(w, replica, n)
            if row.pins == 0 and row.blocks > 0:
                take(w, replica, n)
                gone = row.blocks
                set_blocks(w, replica, n, 0)
                note_change(w, replica, n)
                if w.between == OFFLOADED and w.has_host == 1:
                    offload(w, replica, n, gone)


@compiled
def empty_cache(w: World, replica: ReplicaRow) -> None:
    """An engine that stops takes its cache with it."""
    while replica.parked_oldest >= 0:
        unpark(w, replica, replica.parked_oldest)
    n = replica.oldest
    while n >= 0:
        set_blocks(w, replica, n, 0)
        note_change(w, replica, n)
        n = cached_at(w, replica, n).after
    replica.oldest = -1
    replica.newest = -1
    replica.kept_blocks = 0
    while replica.host_oldest >= 0:
        replica.dropped_blocks += take_from_host(w, replica, replica.host_oldest)


# ---- what a request finds, holds, adds and leaves ---------------------------------------------------------


@inline
def leading_blocks(w: World, replica: ReplicaRow, i: int, seen: bool) -> int:
    """Blocks of the prompt, from its beginning, that are cached here, or that were at the router's last refresh."""
    n = w.prompt_node[i]
    found = 0 if n < 0 else w.nodes[n].begin + w.nodes[n].blocks
    while n >= 0:
        here = sighting_at(w, replica, n).blocks if seen else blocks_at(w, replica, n)
        if here < w.nodes[n].blocks:
            found = w.nodes[n].begin + here
        # The device is closed under prefixes; with a second tier a block before may be missing.
        if here > 0 and w.has_host == 0:
            break
        n = w.nodes[n].parent
    return found


@compiled
def expect_prefix(w: World, replica: ReplicaRow, i: int) -> None:
    """Asks for what the admission of this request, and the routing of later ones, will read.

    Among many prompts little of it is in the processor's cache.
    """
    n = w.prompt_node[i]
    if n >= 0:
        prefetch(w.cached, replica.cached_at + n)
        prefetch(w.cached, replica.cached_at + max(w.nodes[n].parent, 0))
    n = w.prompt_node[min(i + 2 * _REQUESTS_AHEAD, w.listed_count - 1)]
    if n >= 0:
        prefetch(w.nodes, max(w.nodes[n].parent, 0))
    n = w.prompt_node[min(i + _REQUESTS_AHEAD, w.listed_count - 1)]
    if n >= 0 and w.routing == PREFIX_AWARE:
        before = max(w.nodes[n].parent, 0)
        # Where one replica has it, its index.
        holder = min(w.nodes[before].holder_sum, w.replica_count - 1)
        prefetch(w.cached, w.replicas[holder].cached_at + n)
        prefetch(w.cached, w.replicas[holder].cached_at + before)


@compiled
def matched_blocks(w: World, replica: ReplicaRow, i: int) -> int:
    return leading_blocks(w, replica, i, False)


@compiled
def seen_blocks(w: World, replica: ReplicaRow, i: int) -> int:
    return leading_blocks(w, replica, i, True)


@inline
def settled_blocks(w: World, r: int, n: int, now_ps: int) -> int:
    """Blocks of a node that a replica has now, if it is ready."""
    replica = w.replicas[r]
    row = cached_at(w, replica, n)
    if replica.state != READY or row.blocks == 0:
        return 0
    settle_cache(w, replica, now_ps)
    return row.blocks


@compiled
def deepest_holder(w: World, i: int, now_ps: int) -> int:
    """The ready replica whose device has most of a prompt, the less loaded one of two; -1: none has any.

    What a device has is closed under prefixes, so that it is among those that have some of the last node that any has.
    """
    n = w.prompt_node[i]
    chosen = -1
    while n >= 0 and chosen < 0:
        node = w.nodes[n]
        if node.holders == 1:
            if settled_blocks(w, node.holder_sum, n, now_ps) > 0:
                chosen = node.holder_sum
        elif node.holders > 1:
            most = 0
            for x in range(w.clock.ready):
                r = w.ready[x]
                blocks = settled_blocks(w, r, n, now_ps)
                if blocks > most or (0 < blocks == most and w.load[r] < w.load[chosen]):
                    most = blocks
                    chosen = r
        n = node.parent
    return chosen


@compiled
def pinned_blocks(w: World, replica: ReplicaRow, i: int) -> int:
    """Those of them that running requests hold already: they take no more memory."""
    n = w.prompt_node[i]
    while n >= 0:
        row = cached_at(w, replica, n)
        if row.pins > 0 and row.blocks > 0:
            return w.nodes[n].begin + row.blocks
        n = w.nodes[n].parent
    return 0


@inline
def hit_tokens(w: World, replica: ReplicaRow, i: int) -> int:
    """Tokens that need not be computed, in whole blocks; the last token always is."""
    shift = w.engines[replica.engine].block_shift
    target = w.prompt_tokens[i] + w.requests[i].emitted
    return min(matched_blocks(w, replica, i), (target - 1) >> shift) << shift


@compiled
def hold_prefix(w: World, replica: ReplicaRow, i: int, done: int) -> int:
    """A request is admitted: it holds its prompt's blocks that are here, and will hold those it computes.

    Returns how many of the blocks of its hit, `done` tokens, had to be loaded from host memory.
    """
    held = 0
    loaded = 0
    n = w.prompt_node[i]
    while n >= 0:
        row = cached_at(w, replica, n)
        if row.pins == 0:
            if row.blocks > 0:
                take(w, replica, n)
            if w.has_host == 1:
                loaded += load_run(w, replica, n, done >> w.engines[replica.engine].block_shift)
            replica.shared_blocks -= row.blocks
        if held == 0 and row.blocks > 0:
            held = w.nodes[n].begin + row.blocks
        row.pins += 1
        n = w.nodes[n].parent
    w.held_blocks[i] = held
    replica.shared_blocks += held
    return loaded


@compiled
def fill_prefix(w: World, replica: ReplicaRow, i: int, computed: int) -> None:
    """A step has ended: whole blocks of the prompt that it computed are in the cache, once."""
    leaf = w.prompt_node[i]
    if leaf < 0:
        return
    held = min(computed >> w.engines[replica.engine].block_shift, w.nodes[leaf].begin + w.nodes[leaf].blocks)
    if held <= w.held_blocks[i]:
        return
    replica.shared_blocks += held - w.held_blocks[i]
    w.held_blocks[i] = held
    n = leaf
    while n >= 0:
        row = cached_at(w, replica, n)
        here = min(w.nodes[n].blocks, held - w.nodes[n].begin)
        if here > row.blocks:
            replica.shared_blocks -= here - row.blocks
            set_blocks(w, replica, n, here)
            note_change(w, replica, n)
        elif here > 0:
            break
        n = w.nodes[n].parent


@compiled
def release_prefix(w: World, replica: ReplicaRow, i: int) -> None:
    """A request leaves the running list: blocks that no other request references stay cached, its prefix longest."""
    replica.shared_blocks -= w.held_blocks[i]
    w.held_blocks[i] = 0
    unpin(w, replica, w.prompt_node[i])


@compiled
def unpin(w: World, replica: ReplicaRow, n: int) -> None:
    """One reference less to a node and to all before it; unreferenced blocks stay cached, the prefix longest."""
    while n >= 0:
        row = cached_at(w, replica, n)
        row.pins -= 1
        if row.pins == 0 and row.blocks > 0:
            replica.shared_blocks += row.blocks
            keep(w, replica, n)
        n = w.nodes[n].parent


@compiled
def keep_answer(w: World, replica: ReplicaRow, i: int) -> None:
    """The blocks of a finished answer are kept with its prompt: the next turn begins with both."""
    n = w.answer_node[i]
    while n >= 0 and n != w.prompt_node[i]:
        row = cached_at(w, replica, n)
        if w.has_host == 1:
            replica.dropped_blocks += take_from_host(w, replica, n)
        if row.pins == 0:
            if row.blocks > 0:
                take(w, replica, n)
            set_blocks(w, replica, n, w.nodes[n].blocks)
            keep(w, replica, n)
        else:
            replica.shared_blocks -= w.nodes[n].blocks - row.blocks
            set_blocks(w, replica, n, w.nodes[n].blocks)
        note_change(w, replica, n)
        n = w.nodes[n].parent
