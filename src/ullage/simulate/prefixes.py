"""From "this prompt begins like that one" to a tree of runs of blocks, which the kernel's prefix cache works on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ullage.errors import InputError
from ullage.simulate.kernel.arithmetic import chances32
from ullage.simulate.kernel.codes import HOME_STREAM
from ullage.simulate.load import GOES_ON_FRACTION, Prefixes, Requests
from ullage.simulate.problem import Int32s, Int64s, PrefixTerms

# What a cache knows of a run of blocks takes 24 bytes for each replica: 6 GiB at most.
_MOST_ROWS = 1 << 28


def prefix_terms(requests: Requests, *, block_tokens: int, replicas: int, seed: int) -> PrefixTerms:
    """The tree of all prompts, in whole blocks, cut wherever two part or one ends."""
    given = requests.prefixes
    if given is None:
        return PrefixTerms()
    history = 0 if given.history_tokens is None else given.history_tokens.size
    prompt, end = _lengths(requests, given, block_tokens)
    parent, start = _owners(given, history, prompt, end, block_tokens)
    keys = _cuts(parent, start, prompt, end)
    if keys.size * replicas > _MOST_ROWS:
        raise InputError(
            field="requests.prefixes",
            value=keys.size,
            problem=f"are too many different runs of blocks for {replicas} replicas",
            fix="Replay a part of the traffic, or fewer replicas.",
        )
    owner, cut = keys >> 32, keys & 0xFFFFFFFF
    is_first = np.concatenate([[True], owner[1:] != owner[:-1]]) if keys.size else np.zeros(0, np.bool_)
    begin = np.where(is_first, start[owner], np.concatenate([[0], cut[:-1]]) if keys.size else cut)
    before = np.where(is_first, _node(keys, parent[owner], start[owner]), np.arange(keys.size) - 1)
    own = np.arange(prompt.size)
    prompt_node = np.where(prompt > start, _node(keys, own, prompt), _node(keys, parent, start))
    warm = np.lexsort((-cut, owner))
    warm = warm[owner[warm] < history]
    return PrefixTerms(
        parent=before.astype(np.int32),
        begin=begin.astype(np.int32),
        size=(cut - begin).astype(np.int32),
        prompt=prompt_node[history:].astype(np.int32),
        answer=np.where(end > prompt, _node(keys, own, end), -1)[history:].astype(np.int32),
        warm=warm.astype(np.int32),
        # Where a sticky router sends those that go back to it.
        warm_chance=chances32(seed, owner[warm], HOME_STREAM),
    )


def homes(requests: Requests) -> Int32s:
    """What a sticky router tells requests by: their session, or the one that their prompts show.

    A prompt that contains nearly all of an earlier one goes on where that left off. One that shares less, such as
    instructions that all begin with, does not.
    """
    if requests.session_of is not None:
        return np.asarray(requests.session_of, np.int32)
    given = requests.prefixes
    if given is None:
        raise InputError(
            field="fleet.routing",
            value="sticky",
            problem="sends sessions to their replicas, and the requests do not say which session they belong to",
            fix="Give requests their sessions or prefixes, or choose another router.",
        )
    before = np.zeros(0, np.int64) if given.history_tokens is None else np.asarray(given.history_tokens, np.int64)
    prompt = np.concatenate([before, np.asarray(requests.prompt_tokens, np.int64)])
    parent = np.asarray(given.parent, np.int64)
    own = np.arange(prompt.size)
    first = own.copy()
    goes_on = (parent >= 0) & (given.shared_tokens >= GOES_ON_FRACTION * prompt[parent])
    first[before.size :] = np.where(goes_on, parent, own[before.size :])
    while bool((first[first] != first).any()):
        first = first[first]
    return first[before.size :].astype(np.int32)


def _lengths(requests: Requests, given: Prefixes, block_tokens: int) -> tuple[Int64s, Int64s]:
    """Whole blocks of prompts, and of prompts with what is kept of their answers; history first."""
    before = np.zeros(0, np.int64) if given.history_tokens is None else np.asarray(given.history_tokens, np.int64)
    prompt = np.asarray(requests.prompt_tokens, np.int64)
    # The last token of an answer is never fed back, so that its KV is not there.
    end = prompt + np.asarray(requests.output_tokens, np.int64) - 1 if given.keeps_answers else prompt
    return np.concatenate([before, prompt]) // block_tokens, np.concatenate([before, end]) // block_tokens


def _owners(given: Prefixes, history: int, prompt: Int64s, end: Int64s, block_tokens: int) -> tuple[Int64s, Int64s]:
    """Who first had the last block that each prompt shares, and how many blocks it shares."""
    parent: Int64s = np.concatenate([np.full(history, -1, np.int64), np.asarray(given.parent, np.int64)])
    shared = np.concatenate([np.zeros(history, np.int64), np.asarray(given.shared_tokens, np.int64) // block_tokens])
    start: Int64s = np.where(parent >= 0, np.minimum(np.minimum(shared, prompt), end[parent]), 0)
    parent = np.where(start > 0, parent, -1)
    while bool((higher := (parent >= 0) & (start <= start[parent])).any()):
        parent = np.where(higher, parent[parent], parent)
    return parent, start


def _cuts(parent: Int64s, start: Int64s, prompt: Int64s, end: Int64s) -> Int64s:
    """Where runs of blocks end, as owner and place in one word: ends of prompts and answers, and where others part."""
    own = np.arange(prompt.size)
    cuts = [
        _key(own, prompt)[prompt > start],
        _key(own, end)[end > prompt],
        _key(parent, start)[parent >= 0],
    ]
    found: Int64s = np.unique(np.concatenate(cuts))
    return found


def _key(owner: Any, cut: Any) -> Int64s:
    made: Int64s = (np.asarray(owner, np.int64) << 32) | cut
    return made


def _node(keys: Int64s, owner: Any, cut: Any) -> Int64s:
    """The run that ends there; -1 where there is no owner."""
    found: Int64s = np.where(np.asarray(owner) >= 0, np.searchsorted(keys, _key(owner, cut)), -1)
    return found
