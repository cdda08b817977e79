"""Runs that pools of one plan have in common: of twenty pools many differ in what their classes are called alone.

A run is known again by what it is made of: the replicas and the fleet, every request and when it comes, and on what
terms its class is served. Names are no part of it, and are put in when it is handed out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ullage.simulate.load import Load, OpenLoop
from ullage.simulate.outcome import Outcome

# A run of many requests is one of a kind, and would take more to remember than to repeat.
_MOST_REQUESTS = 30_000
_MOST_RUNS, _MOST_KEPT_BYTES = 512, 200_000_000
# What an outcome holds: of every class five histograms, of every request its times where they were kept.
_CLASS_BYTES, _REQUEST_BYTES = 160_000, 32
# The size of the cache is checked once for so many new entries.
_LOOKED_AFTER = 8
_KNOWN: dict[tuple[object, ...], tuple[int, tuple[str, ...], Outcome]] = {}


def shared_run(load: Load, terms: tuple[object, ...], played: Callable[[], Outcome]) -> Outcome:
    """The outcome of a load on these terms: as it was played before, or played now."""
    if not isinstance(load, OpenLoop) or load.requests.count > _MOST_REQUESTS:
        return played()
    names = tuple(each.name for each in load.requests.classes)
    key = (terms, _content(load))
    known = _KNOWN.get(key)
    if known is None:
        known = _KNOWN[key] = load.requests.count, names, played()
        if len(_KNOWN) % _LOOKED_AFTER == 0:
            _forget_oldest()
    found = known[2]
    return found if known[1] == names else replace(found, group_rows=replace(found.group_rows, class_names=names))


def _content(load: OpenLoop) -> tuple[object, ...]:
    """What a load is, but for what its classes are called."""
    requests, digest = load.requests, hashlib.blake2b(digest_size=16)
    arrays = (
        load.arrival_s,
        load.arrival_ps,
        requests.prompt_tokens,
        requests.output_tokens,
        requests.cached_tokens,
        requests.cancel_after_s,
        requests.class_of,
        requests.tenant_of,
        requests.session_of,
        *(() if (own := requests.prefixes) is None else (own.parent, own.shared_tokens, own.history_tokens)),
        *(() if (turns := requests.turns) is None else (turns.follows, turns.think_s)),
    )
    for each in arrays:
        digest.update(b"-" if each is None else np.ascontiguousarray(each).tobytes())
    classes = tuple(replace(each, name="") for each in requests.classes)
    between = None if requests.turns is None else requests.turns.between
    return digest.digest(), requests.count, classes, requests.tenants, load.retry, between


def _forget_oldest() -> None:
    """Several threads play at once: the list is made in one piece, an iterator would see the others' changes."""
    kept = 0
    for place, (key, (requests, names, _)) in enumerate(reversed(list(_KNOWN.items()))):
        kept += _REQUEST_BYTES * requests + _CLASS_BYTES * len(names)
        if kept > _MOST_KEPT_BYTES or place >= _MOST_RUNS:
            _KNOWN.pop(key, None)
