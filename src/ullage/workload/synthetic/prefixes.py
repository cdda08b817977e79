"""Which prompt begins like which: read from block hashes, or assumed from sessions, reuse distances and classes.

    parent[i] = the earlier text that prompt i begins with, shared_tokens[i] = how far

A router that knows prefixes needs to know more of traffic than a share of hits. Where a trace has block hashes, this is
read. Where it has none, it is assumed, and said to be:

- a later turn of a session begins with what the turn before it said and was answered;
- another prompt whose cached part has a reuse distance begins like a request of its class that lies so far back, in
  blocks that were new since then; what lies before the window is history, which caches have at its start;
- one without a distance begins with a text that all requests of its class begin with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.workload.synthetic.stream import BLOCK_TOKENS, NO_SESSION, Int32s, Int64s, Stream

# Lengths of a common beginning that are told apart, and requests around a distance that are asked for a long enough
# text.
_LEVELS, _NEAR = 16, 24


@dataclass(frozen=True, kw_only=True, eq=False)
class PrefixChains:
    """Parents, numbered history first and then requests (-1: none), and how many tokens are shared with them."""

    parent: Int64s
    shared_tokens: Int64s
    history_tokens: Int64s


def hashed_parents(prompt_tokens: NDArray[Any], block_hashes: NDArray[Any], block_tokens: int) -> tuple[Int32s, Int32s]:
    """Parents of prompts with a hash for each block: who first had the last of the leading blocks seen before.

    A block is told by its hash and all before it, so that hashes of a block's own text will do.
    """
    known: dict[tuple[int, int], tuple[int, int]] = {}
    parent = np.full(len(block_hashes), -1, np.int32)
    shared = np.zeros(len(block_hashes), np.int32)
    for row, hashes in enumerate(block_hashes):
        before, is_leading = -1, True
        for place, each in enumerate(() if hashes is None else hashes):
            found = known.get((before, int(each)))
            if found is None:
                is_leading = False
                found = known[before, int(each)] = (len(known), row)
            elif is_leading:
                parent[row], shared[row] = found[1], (place + 1) * block_tokens
            before = found[0]
    return parent, np.minimum(shared, np.asarray(prompt_tokens, np.int64)).astype(np.int32)


def prefix_chains(stream: Stream) -> PrefixChains:
    """The chains of a stream: those it has, or those that its sessions, distances and classes let assume."""
    if stream.parent is not None and stream.shared_tokens is not None:
        return PrefixChains(
            parent=stream.parent.astype(np.int64),
            shared_tokens=stream.shared_tokens.astype(np.int64),
            history_tokens=np.zeros(0, np.int64),
        )
    ends = stream.prompt_tokens.astype(np.int64) + stream.output_tokens
    parent = _previous_turns(stream.session)
    shared = np.where(parent >= 0, np.minimum(ends[parent], stream.cached_tokens), 0)
    alone = (parent < 0) & (stream.cached_tokens > 0)
    common, common_tokens, levels = _common_texts(stream, alone & (stream.reuse_blocks == 0))
    older, old_tokens = _at_distance(stream, ends, alone & (stream.reuse_blocks > 0), parent, shared)
    history = np.concatenate([old_tokens, common_tokens])
    # History comes first in the numbering; what was a request moves up by it.
    parent = np.where(parent >= 0, parent + history.size, parent)
    parent = np.where(older >= 0, older, parent)
    shared = np.where(older >= 0, stream.cached_tokens, shared)
    parent = np.where(common >= 0, common + old_tokens.size, parent)
    shared = np.where(common >= 0, levels, shared)
    return PrefixChains(parent=parent, shared_tokens=shared, history_tokens=history)


def _previous_turns(session: Int32s) -> Int64s:
    """The turn of the same session before each; -1 for a first one."""
    order = np.argsort(session, kind="stable")
    same = np.concatenate([[False], session[order][1:] == session[order][:-1]]) & (session[order] != NO_SESSION)
    found = np.full(session.size, -1, np.int64)
    found[order[same]] = order[np.flatnonzero(same) - 1]
    return found


def _common_texts(stream: Stream, asked: NDArray[np.bool_]) -> tuple[Int64s, Int64s, Int64s]:
    """One text for each class, and how far into it each request goes, in a few lengths: every one cuts the text."""
    text = np.full(stream.requests, -1, np.int64)
    shared = np.zeros(stream.requests, np.int64)
    lengths: list[int] = []
    for each in np.unique(stream.class_index[asked]).tolist() if bool(asked.any()) else []:
        own = asked & (stream.class_index == each)
        longest = int(stream.cached_tokens[own].max())
        level = max(BLOCK_TOKENS, longest // _LEVELS // BLOCK_TOKENS * BLOCK_TOKENS)
        text[own] = len(lengths)
        # To the nearest level, so that shares stay what they are on average, and never beyond the prompt.
        near = (stream.cached_tokens[own] + level // 2) // level * level
        shared[own] = np.minimum(near, stream.prompt_tokens[own] - 1)
        lengths.append(longest + level)
    return text, np.array(lengths, np.int64), shared


def _at_distance(
    stream: Stream, ends: Int64s, asked: NDArray[np.bool_], parent: Int64s, shared: Int64s
) -> tuple[Int64s, Int64s]:
    """Fills in parents at their distances; returns texts of the time before, by number and length, oldest first."""
    text = np.full(stream.requests, -1, np.int64)
    if not bool(asked.any()):
        return text, np.zeros(0, np.int64)
    cached = stream.cached_tokens.astype(np.int64)
    fresh = np.cumsum((ends - cached) // BLOCK_TOKENS)
    place = fresh - stream.reuse_blocks
    rows = np.flatnonzero(asked)
    wanted = np.searchsorted(fresh, place[rows], side="right") - 1
    for near in range(_NEAR):
        candidate = wanted - near
        fits = (candidate >= 0) & (parent[rows] < 0)
        candidate = np.maximum(candidate, 0)
        fits &= stream.class_index[candidate] == stream.class_index[rows]
        fits &= ends[candidate] > cached[rows]
        parent[rows] = np.where(fits, candidate, parent[rows])
        shared[rows] = np.where(fits, cached[rows], shared[rows])
    before = rows[(parent[rows] < 0)]
    before = before[np.argsort(place[before], kind="stable")]
    # Blocks that are never reused lie between the texts: they fill caches like any other.
    size = cached[before]
    gap = np.diff(place[before], append=0) * BLOCK_TOKENS
    filler = np.maximum(0, gap - size)
    text[before] = 2 * np.arange(before.size)
    return text, np.stack([size, filler], axis=1).ravel()
