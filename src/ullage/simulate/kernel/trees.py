"""Winner trees, which find the least of a changing set, and the heap of timers."""

from __future__ import annotations

from ullage.simulate.kernel.compiling import compiled, inline
from ullage.simulate.kernel.records import Rows
from ullage.simulate.kernel.state import World


@inline
def replay(tree: Rows[int], keys: Rows[int], place: int, leaves: int) -> None:
    """Plays the matches of one leaf again; the smaller key wins, the lower index on a tie."""
    p = leaves + place
    winner = place
    best = keys[place]
    while p > 1:
        other = tree[p ^ 1]
        theirs = keys[other]
        # An odd place has its sibling on the left, which wins ties; one comparison, for a branch would be guessed.
        takes = theirs < best + (p & 1)
        winner = other if takes else winner
        best = theirs if takes else best
        p >>= 1
        tree[p] = winner


@compiled
def build_tree(tree: Rows[int], keys: Rows[int], leaves: int) -> None:
    for place in range(leaves):
        tree[leaves + place] = place
    for p in range(leaves - 1, 0, -1):
        a = tree[2 * p]
        b = tree[2 * p + 1]
        tree[p] = a if keys[a] <= keys[b] else b


@compiled
def push_timer(w: World, when_ps: int, rank: int, number: int, attempt: int) -> None:
    """Timers are ordered by time, then rank, then request number."""
    clock = w.clock
    code = (rank << 56) | (int(number) << 8) | int(attempt)
    j = clock.timers
    clock.timers = j + 1
    while j > 0:
        up = w.timers[(j - 1) >> 1]
        if up.when_ps < when_ps or (up.when_ps == when_ps and up.code <= code):
            break
        w.timers[j].when_ps = up.when_ps
        w.timers[j].code = up.code
        j = (j - 1) >> 1
    w.timers[j].when_ps = when_ps
    w.timers[j].code = code
    clock.other_ps = min(clock.other_ps, when_ps)


@inline
def pop_timer(w: World) -> None:
    """Takes the top timer off the heap."""
    size = w.clock.timers - 1
    w.clock.timers = size
    when_ps = w.timers[size].when_ps
    code = w.timers[size].code
    j = 0
    while True:
        below = 2 * j + 1
        if below >= size:
            break
        left = w.timers[below]
        right = w.timers[below + 1]
        if below + 1 < size and (
            right.when_ps < left.when_ps or (right.when_ps == left.when_ps and right.code < left.code)
        ):
            below += 1
        down = w.timers[below]
        if when_ps < down.when_ps or (when_ps == down.when_ps and code <= down.code):
            break
        w.timers[j].when_ps = down.when_ps
        w.timers[j].code = down.code
        j = below
    w.timers[j].when_ps = when_ps
    w.timers[j].code = code
