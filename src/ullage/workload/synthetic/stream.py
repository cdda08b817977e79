"""Request streams: what a simulator is fed, and the loop that draws them fast enough.

A `Stream` is one window of time as plain arrays, a row a request, sorted by arrival. `generate` draws one from
a `Recipe` (rates on a grid, tables of lengths); `thin` drops requests in such a way that bursts stay bursts.
Everything that decides *what* to draw lives in synthetic.py and replay.py; this file only draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.compile_cache import forgive_cache
from ullage.errors import InputError, InternalError
from ullage.workload.parents import kept_parents

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
# Of whatever width holds them: a week of requests is a gigabyte, and narrow columns are written faster.
Integers = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PS_PER_S = 10**12
NO_SESSION = -1
# 104 days: what int64 picoseconds hold, with room for sums.
LONGEST_S = 9_000_000.0
# What `generate` writes classes and tenants as.
_CLASS, _TENANT = np.int8, np.int16
# Engines share a prompt's prefix in blocks of this many tokens (vLLM's and SGLang's paged cache), and the last
# token of a prompt is always computed.
BLOCK_TOKENS = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """Requests in [0, until_ps), sorted by arrival.

    `cached_tokens` is the part of the prompt that a warm cache of unlimited size would hold;
    `reuse_blocks` is how large a cache must be, in blocks of its source, still to hold it. `session` and
    `tenant` are numbers without meaning outside the stream; NO_SESSION stands where none is known. A batch
    class has a finite entry in `deadlines_s`. `left_out_count` rows of the source had no length and are not here.
    Where the source tells prompts apart by their blocks, the first `shared_tokens` of a prompt are those of request
    `parent` (-1: of none).
    """

    arrival_ps: Int64s
    prompt_tokens: Int32s
    output_tokens: Int32s
    cached_tokens: Int32s
    reuse_blocks: Int32s
    class_index: Integers
    tenant: Integers
    session: Int32s
    class_names: tuple[str, ...]
    deadlines_s: tuple[float, ...]
    until_ps: int
    left_out_count: int = 0
    parent: Int32s | None = None
    shared_tokens: Int32s | None = None

    @property
    def requests(self) -> int:
        return int(self.arrival_ps.size)

    @property
    def span_s(self) -> float:
        return self.until_ps / PS_PER_S

    @property
    def rate_rps(self) -> float:
        return self.requests / self.span_s

    def counts(self, width_s: float) -> Int64s:
        """Requests in every whole window of this width."""
        width_ps = round(width_s * PS_PER_S)
        windows = self.until_ps // width_ps
        edges = np.arange(windows + 1, dtype=np.int64) * width_ps
        return np.diff(np.searchsorted(self.arrival_ps, edges))

    def of_class(self, name: str) -> Stream:
        """The requests of one class, under the same class numbers."""
        return self.where(self.class_index == self.class_names.index(name))

    def where(self, keep: Bools | Int64s) -> Stream:
        """The rows that a mask or an increasing index selects."""
        parent, shared_tokens = _kept_parents(self.parent, self.shared_tokens, keep)
        columns = {name: getattr(self, name)[keep] for name in COLUMNS}
        return replace(self, **columns, parent=parent, shared_tokens=shared_tokens)

    def served_by_cache(self, blocks: float) -> Stream:
        """The same requests before a cache of this many blocks: what lies further back is computed again."""
        return replace(self, cached_tokens=np.where(self.reuse_blocks <= blocks, self.cached_tokens, np.int32(0)))


COLUMNS: tuple[str, ...] = (
    "arrival_ps",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "reuse_blocks",
    "class_index",
    "tenant",
    "session",
)


def _kept_parents(
    parent: Int32s | None, shared_tokens: Int32s | None, keep: Bools | Int64s
) -> tuple[Int32s | None, Int32s | None]:
    if parent is None or shared_tokens is None:
        return None, None
    rows = np.flatnonzero(keep) if keep.dtype == np.bool_ else np.asarray(keep)
    found, shared = kept_parents(parent, shared_tokens, rows)
    return found.astype(np.int32), shared.astype(np.int32)


def joined(streams: list[Stream]) -> Stream:
    """One stream of several that share a window, a row for every row, sorted by arrival; classes are told by name."""
    names = tuple(dict.fromkeys(name for each in streams for name in each.class_names))
    deadline_s = {name: due for each in streams for name, due in zip(each.class_names, each.deadlines_s, strict=True)}
    columns = {name: np.concatenate([getattr(each, name) for each in streams]) for name in COLUMNS}
    columns["class_index"] = np.concatenate(
        [np.array([names.index(n) for n in each.class_names], np.int16)[each.class_index] for each in streams]
    )
    columns["session"] = np.concatenate(_told_apart([each.session for each in streams]))
    order = np.argsort(columns["arrival_ps"], kind="stable")
    parent, shared_tokens = _kept_parents(*_all_parents(streams), order)
    return Stream(
        **{name: column[order] for name, column in columns.items()},
        parent=parent,
        shared_tokens=shared_tokens,
        class_names=names,
        deadlines_s=tuple(deadline_s[name] for name in names),
        until_ps=max(each.until_ps for each in streams),
        left_out_count=max(each.left_out_count for each in streams),
    )


def _all_parents(streams: list[Stream]) -> tuple[Int32s | None, Int32s | None]:
    """Parents of several streams one after the other; none where one of them does not know."""
    parents, shared, first = [], [], 0
    for each in streams:
        if each.parent is None or each.shared_tokens is None:
            return None, None
        parents.append(np.where(each.parent < 0, -1, each.parent + first).astype(np.int32))
        shared.append(each.shared_tokens)
        first += each.requests
    return np.concatenate(parents), np.concatenate(shared)


def _told_apart(sessions: list[Int32s]) -> list[Int32s]:
    """Session numbers of several streams, shifted so that no two streams share one."""
    shifted, first = [], 0
    for each in sessions:
        shifted.append(np.where(each == NO_SESSION, NO_SESSION, each + first).astype(np.int32))
        first += int(each.max(initial=NO_SESSION)) + 1
    return shifted


@dataclass(frozen=True, kw_only=True, eq=False)
class RowTables:
    """Tables with a row for each class, from which the marks of a request are picked evenly.

    `later_share` and `first_share` hold the cached part of a prompt, in a session's later turns and in its first.
    """

    prompt_tokens: Int32s
    output_tokens: Int32s
    first_share: Floats
    later_share: Floats
    reuse_blocks: Int32s
    tenants: Integers

    @cached_property
    def packed(self) -> tuple[Int64s, Int64s, Integers]:
        """Lengths, cached parts and tenants as the loop reads them. Streams of many seeds share them."""
        if any(table.shape[1].bit_count() != 1 for table in (self.prompt_tokens, self.output_tokens, self.tenants)):
            raise InternalError(
                law="a table to pick from has a power of two rows", left=self.prompt_tokens.shape, right=2
            )
        if self.prompt_tokens.shape[0] > np.iinfo(_CLASS).max or self.tenants.max(initial=0) > np.iinfo(_TENANT).max:
            raise InputError(
                field="classes",
                value=self.prompt_tokens.shape[0],
                problem="are more classes or tenants than a stream tells apart",
                fix="Give at most 127 classes and number tenants from 0 to 32,767.",
            )
        return (
            self.prompt_tokens.astype(np.int64) << 32 | self.output_tokens,
            np.stack([_marks(self.first_share, self.reuse_blocks), _marks(self.later_share, self.reuse_blocks)]).copy(),
            self.tenants.astype(_TENANT, order="C"),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """What `generate` draws from: rates on a grid, and per class tables from which each row is picked evenly.

    `rates_rps` has a row for each cell of `cell_s` seconds and a column for each class; the grid starts `lead_s` before
    the window. `mean_turns` of 1 means that there are no sessions.
    """

    rates_rps: Floats
    cell_s: float
    lead_s: float
    span_s: float
    tables: RowTables
    mean_turns: Floats
    mean_think_s: Floats
    class_names: tuple[str, ...]
    deadlines_s: tuple[float, ...]


def generate(recipe: Recipe, rng: Generator) -> Stream:
    """One stream: a Poisson process of the recipe's rates, each request with its marks.

    The same generator state gives the same bytes. Space is made for eight standard deviations more
    requests than are expected; a run that needs more than that is a fault, not bad luck.
    """
    if recipe.rates_rps.min(initial=0.0) < 0.0 or not np.isfinite(recipe.rates_rps).all():
        raise InputError(
            field="rates_rps",
            value=float(np.nanmin(recipe.rates_rps)),
            problem="a rate is finite and not negative",
            fix="Look at the factors of season, burst and growth.",
        )
    pairs, marks, tenants = recipe.tables.packed
    expected = float(recipe.rates_rps.sum()) * recipe.cell_s
    room = int(expected + 8.0 * math.sqrt(expected) + 64)
    arrival_ps = np.empty(room, np.int64)
    prompt, output, cached, reuse, session = (np.empty(room, np.int32) for _ in range(5))
    class_index, tenant = np.empty(room, _CLASS), np.empty(room, _TENANT)
    made = _draw(
        rng.integers(0, 2**64, dtype=np.uint64),
        recipe.rates_rps,
        recipe.cell_s,
        recipe.lead_s,
        pairs,
        marks,
        tenants,
        recipe.mean_turns,
        recipe.mean_think_s,
        _pool_room(recipe),
        arrival_ps,
        prompt,
        output,
        cached,
        reuse,
        class_index,
        tenant,
        session,
    )
    if made == room:
        raise InternalError(law="a stream stays within eight standard deviations of its size", left=made, right=room)
    until_ps = round(recipe.span_s * PS_PER_S)
    inside = slice(*np.searchsorted(arrival_ps[:made], [0, until_ps]).tolist())
    return Stream(
        arrival_ps=arrival_ps[inside],
        prompt_tokens=prompt[inside],
        output_tokens=output[inside],
        cached_tokens=cached[inside],
        reuse_blocks=reuse[inside],
        class_index=class_index[inside],
        tenant=tenant[inside],
        session=session[inside],
        class_names=recipe.class_names,
        deadlines_s=recipe.deadlines_s,
        until_ps=until_ps,
    )


def thin(stream: Stream, *, share: float, scales_s: tuple[float, ...], shared: Floats, rng: Generator) -> Stream:
    """Keep `share` of the requests, by coins that neighbours share.

    Time is split into nested blocks of `scales_s` (each a multiple of the one before). The coin of a block is its
    parent's or a new one, and a request takes its block's coin or a new one, so that two requests whose smallest
    common block has scale j are decided together with probability `shared[j]`: that keeps a burst a burst
    (modulation.py chooses the numbers). The first request of a session decides for all of it.
    """
    scales_ps = [round(scale_s * PS_PER_S) for scale_s in scales_s]
    phase_ps = int(rng.random() * scales_ps[-1])
    coins = np.zeros(0, np.bool_)
    above = 0.0
    for level in range(len(scales_ps) - 1, -1, -1):
        block = np.arange((stream.until_ps + phase_ps) // scales_ps[level] + 1, dtype=np.int64)
        fresh = rng.random(block.size) < share
        if above > 0.0:
            parent = block * scales_ps[level] // scales_ps[level + 1]
            # Two blocks agree through their parent only if both look there, hence the root.
            fresh = np.where(rng.random(block.size) < math.sqrt(above / float(shared[level])), coins[parent], fresh)
        coins, above = fresh, float(shared[level])
    joins = rng.random(stream.requests) < math.sqrt(above)
    together = coins[(stream.arrival_ps + phase_ps) // scales_ps[0]]
    alone = rng.random(stream.requests) < share
    return stream.where(_with_session(stream.session, np.where(joins, together, alone)))


def _with_session(session: Int32s, keep: Bools) -> Bools:
    first = np.full(int(session.max(initial=NO_SESSION)) + 2, -1, np.int64)
    first[session[::-1]] = np.arange(session.size)[::-1]
    return np.where(session == NO_SESSION, keep, keep[first[session]])


def _marks(share: Floats, reuse_blocks: Int32s, rows: int = 1024) -> Int64s:
    """Cached share and distance in one word, evenly spread against each other by the golden ratio."""
    place = (np.arange(rows) + 0.5) / rows
    other = (np.arange(rows) * 0.6180339887498949) % 1.0
    shares = np.round(share[:, (place * share.shape[1]).astype(np.int64)] * _SHARE_ONE).astype(np.int64)
    return shares << 32 | reuse_blocks[:, (other * reuse_blocks.shape[1]).astype(np.int64)]


def _pool_room(recipe: Recipe) -> int:
    """Most sessions that can be open at once: those that the busiest moment could feed, and some."""
    busiest = (
        float((recipe.rates_rps.max(axis=0) * recipe.mean_think_s).max(initial=0.0)) if recipe.rates_rps.size else 0.0
    )
    return int(min(busiest, 4.0e6)) * 2 + 1024


# The loop runs once for every request of a simulation, so it is written for the machine: unsigned numbers index without
# a test for negatives, choices are arithmetic instead of branches, and one 64-bit draw serves three choices: the low 22
# bits, the middle 20 and the high 22. Tables have a power of two rows, so that a mask picks one, and are read flat: one
# address for each, where a table of rows would need a product for every look.
_U = np.uint64
_STEP, _LAYER = _U(0x9E3779B97F4A7C15), _U(255)
_LOW, _LOW_BITS, _MIDDLE, _MIDDLE_BITS, _HIGH = _U(2**22 - 1), _U(22), _U(2**20 - 1), _U(20), _U(42)
_ZERO, _ONE, _SPARE_BITS = _U(0), _U(1), _U(11)
_LOW_SIZE, _MIDDLE_SIZE, _PER_BIT_53 = 2.0**22, 2.0**20, 2.0**-53
_BLOCK_SHIFT = BLOCK_TOKENS.bit_length() - 1
# Cached shares are kept as 2^-20ths, so that a block is a shift away.
_SHARE_ONE = 2**20
_HELD_SHIFT = 20 + _BLOCK_SHIFT
# A class whose rate sinks quickly still lets some new sessions in.
_MOST_LATER = _U(0.98 * _LOW_SIZE)
# A certain turn: with as many sessions open as there is room for, the product still fits 64 bits.
_MOST_HAZARD = 2.0**40
# Draws that are made at once, and how many of them a request takes: two for its choices, one for the gap behind it.
_WORDS, _A_REQUEST = _U(768), _U(3)
# What the loop keeps of a class, side by side: open sessions, hazard of a turn, chance of an end, and the bits that
# make a session number NO_SESSION.
_KEPT, _HAZARD, _END, _ALONE = _U(4), _U(1), _U(2), _U(3)


def _ziggurat() -> tuple[float, Floats, Floats, NDArray[np.uint64]]:
    """Marsaglia and Tsang's 256 layers of equal area under exp(-x): last edge, edges, heights, and the sure part."""
    last = 7.69711747013104972
    area = math.exp(-last) * (last + 1.0)
    edges = np.zeros(257)
    edges[0], edges[1] = area / math.exp(-last), last
    for layer in range(2, 256):
        edges[layer] = -math.log(area / edges[layer - 1] + math.exp(-edges[layer - 1]))
    return last, edges, np.exp(-edges), (edges[1:] / edges[:-1] * 2.0**53).astype(np.uint64)


_LAST_EDGE, _EDGES, _HEIGHTS, _SURE = _ziggurat()
_SCALED_EDGES = _EDGES * _PER_BIT_53


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled and kept on disk where there is a folder for it."""
    try:
        made: Any = njit(cache=True)(function)
    except RuntimeError:
        return cast("Callable[..., Any]", njit(function))
    forgive_cache(made)
    return cast("Callable[..., Any]", made)


@njit(inline="always")
def _mixed(state):  # type: ignore[no-untyped-def]
    """SplitMix64: the bits of a counter, well stirred."""
    state = (state ^ (state >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> _U(27))) * _U(0x94D049BB133111EB)
    return state ^ (state >> _U(31))


@_kept
def _stir(state, words):  # type: ignore[no-untyped-def]
    """The draws that follow a counter, many at once: no draw waits for an earlier one, so it runs in lanes."""
    for at in range(words.size):
        words[at] = _mixed(state + _U(at + 1) * _STEP)


@_kept
def _exponential(state, drawn_count):  # type: ignore[no-untyped-def]
    """A value of mean one from the draws after so many of a counter's, and how many have then been taken."""
    taken = drawn_count
    while True:
        bits = _mixed(state + (taken + _ONE) * _STEP)
        layer, drawn = bits & _LAYER, bits >> _SPARE_BITS
        # Signed numbers become floats in one instruction, unsigned ones do not.
        value = np.int64(drawn) * _SCALED_EDGES[layer]
        if drawn < _SURE[layer]:
            return value, taken + _ONE
        taken += _U(2)
        uniform = (_mixed(state + taken * _STEP) >> _SPARE_BITS) * _PER_BIT_53
        if layer == _ZERO:
            return _LAST_EDGE - math.log(1.0 - uniform), taken
        if _HEIGHTS[layer] + uniform * (_HEIGHTS[layer + _ONE] - _HEIGHTS[layer]) < math.exp(-value):
            return value, taken


@_kept
def _draw(  # type: ignore[no-untyped-def]
    state, rates_rps, cell_s, lead_s, pairs, marks, tenants, mean_turns, mean_think_s, pool_room,
    arrival_ps, prompt, output, cached, reuse, class_index, tenant, session,
):  # fmt: skip
    """Fill the columns and return how many rows were made; a full column ends the run."""
    cells, classes = rates_rps.shape
    pair_rows, mark_rows, tenant_rows = _U(pairs.shape[1]), _U(marks.shape[2]), _U(tenants.shape[1])
    pairs, marks, tenants = pairs.reshape(-1), marks.reshape(-1), tenants.reshape(-1)
    room, most_open = _U(arrival_ps.size), _U(pool_room - 1)
    # The open sessions of each class, their number and tenant in one word; no order is kept among them.
    pool = np.empty((classes, pool_room), np.int64)
    reached = np.empty(classes, np.uint64)
    kept = np.zeros(_KEPT * _U(classes), np.uint64)
    for each in range(_U(classes)):
        kept[_KEPT * each + _END] = _U(_MIDDLE_SIZE / mean_turns[each])
        kept[_KEPT * each + _ALONE] = _ZERO if mean_turns[each] > 1.0 else ~_ZERO
    cell_ps = cell_s * 1e12
    made, sessions = _ZERO, np.int64(0)
    words, last_full = np.empty(_WORDS, np.uint64), _WORDS - _A_REQUEST
    gap, taken = _exponential(state, _ZERO)
    state += taken * _STEP
    _stir(state, words)
    taken = _ZERO
    for cell in range(cells):
        # Gaps are exponential on the clock of expected requests; what a cell leaves over is carried into the next.
        inside = 0.0
        for each in range(classes):
            inside += rates_rps[cell, each] * cell_s
        if gap >= inside:
            gap -= inside
            continue
        run = 0.0
        for each in range(_U(classes)):
            rate = rates_rps[cell, each]
            run += rate * cell_s
            reached[each] = _U(min(run / inside, 1.0) * _LOW_SIZE)
            # Every open session sends its next turn at the rate 1 / think, whoever else is open.
            hazard = min(_LOW_SIZE * _MIDDLE_SIZE / max(mean_think_s[each] * rate, 1e-9), _MOST_HAZARD)
            kept[_KEPT * each + _HAZARD] = _U(hazard)
        start_ps = np.int64(round(cell * cell_ps - lead_s * 1e12))
        ps_per_expected = cell_ps / inside
        while gap < inside and made < room:
            if taken > last_full:
                state += taken * _STEP
                _stir(state, words)
                taken = _ZERO
            bits, more, spacing = words[taken], words[taken + _ONE], words[taken + _U(2)]
            # The first comparison stands before the loop: with two classes there is no other.
            k = _U((bits & _LOW) >= reached[0])
            for other in range(1, classes - 1):
                k += _U((bits & _LOW) >= reached[other])
            own = _KEPT * k
            is_open = kept[own]
            chance = more & _LOW
            later = (chance << _MIDDLE_BITS < is_open * kept[own + _HAZARD]) & (chance < _MOST_LATER)
            over = ((more >> _LOW_BITS & _MIDDLE) < kept[own + _END]) | (is_open >= most_open)
            leaves = later & over
            seat = is_open - _U(later) * (is_open - ((more >> _HIGH) * is_open >> _LOW_BITS))
            fresh = sessions << 32 | np.int64(tenants[k * tenant_rows + (more >> _HIGH & (tenant_rows - _ONE))])
            # Arithmetic instead of a branch: `yes` is all ones or all zeros, and picks by its bits.
            yes = -np.int64(later)
            member = fresh ^ ((fresh ^ pool[k, seat]) & yes)
            # A session that is over gives its seat to the last one; a new one that goes on takes the next seat. Reading
            # back what was just written, where nobody leaves, costs less than a branch that is wrong in one of five.
            pool[k, seat] = member
            pool[k, seat] = pool[k, seat + _U(leaves) * (is_open - _ONE - seat)]
            kept[own] = is_open + _ONE - _U(later | over) - _U(leaves)
            sessions += np.int64(1) + yes
            pair = pairs[k * pair_rows + (bits >> _HIGH & (pair_rows - _ONE))]
            mark = marks[(_U(later) * _U(classes) + k) * mark_rows + (bits >> _LOW_BITS & (mark_rows - _ONE))]
            prompt_tokens = pair >> 32
            held = (mark >> 32) * (prompt_tokens - 1) >> _HELD_SHIFT << _BLOCK_SHIFT
            arrival_ps[made] = start_ps + np.int64(gap * ps_per_expected)
            prompt[made] = prompt_tokens
            output[made] = pair & 0xFFFFFFFF
            cached[made] = held
            reuse[made] = (mark & 0xFFFFFFFF) * np.int64(held > 0)
            class_index[made] = k
            tenant[made] = member & 0xFFFFFFFF
            session[made] = (member >> 32) | np.int64(kept[own + _ALONE])
            made += _ONE
            # 99 in 100 gaps end in the first layer they fall into, and need no more than the draw at hand.
            layer, drawn = spacing & _LAYER, spacing >> _SPARE_BITS
            if drawn < _SURE[layer]:
                gap += np.int64(drawn) * _SCALED_EDGES[layer]
                taken += _A_REQUEST
            else:
                value, taken = _exponential(state, taken + _U(2))
                gap += value
        gap -= inside
    return made


@_kept
def multiply_blocks(levels, drawn, together, first):  # type: ignore[no-untyped-def]
    """Every cell times the level of its block."""
    block, left = 0, together - first
    for cell in range(levels.size):
        if left == 0:
            block, left = block + 1, together
        levels[cell] *= drawn[block]
        left -= 1
