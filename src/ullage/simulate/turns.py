"""From "this request follows that one" to the order in which the kernel has requests, and what a session alone has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ullage.simulate.load import Numbers, Turns
from ullage.simulate.problem import PS_PER_S, BetweenKind, Int32s, Int64s, PrefixTerms, Problem, TurnTerms


def issue_order(turns: Turns) -> Int64s:
    """Numbers of requests in the kernel's order: those that follow no other, as they come, then the rest."""
    made: Int64s = np.argsort(turns.follows >= 0, kind="stable")
    return made


def with_turns(problem: Problem, turns: Turns) -> Problem:
    """The same problem with its requests in that order, and later turns after the ones before."""
    order = issue_order(turns)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    later = np.flatnonzero(turns.follows >= 0)
    before = turns.follows[later]
    following = np.full(order.size, -1, np.int32)
    following[place[before]] = place[later]
    think_ps = problem.think_ps.copy() if problem.think_ps.size else np.zeros(order.size, np.int64)
    # The kernel asks what comes after a request, a turn what lies before itself.
    think_ps[before] = np.rint(turns.think_s[later] * PS_PER_S).astype(np.int64)
    listed = order.size - later.size
    session = _sessions(turns)
    given = problem.prefixes
    columns = ("prompt_tokens", "output_tokens", "cached_tokens", "home", "group", "cancel_after_ps")
    between = BetweenKind[turns.between.upper()]
    alone = between in (BetweenKind.OFFLOADED, BetweenKind.DROPPED) and given.is_used
    nodes, first = session_nodes(given, session) if alone else (np.zeros(0, np.int32),) * 2
    return replace(
        problem,
        **{name: each[order] if (each := getattr(problem, name)).size else each for name in columns},
        think_ps=think_ps[order],
        arrival_ps=problem.arrival_ps if problem.closed else problem.arrival_ps[order[:listed]],
        prefixes=replace(given, prompt=given.prompt[order], answer=given.answer[order]) if given.is_used else given,
        turns=TurnTerms(
            following=following,
            listed_requests=listed,
            between=between,
            session=session[order],
            session_nodes=nodes,
            session_nodes_at=first,
        ),
    )


def _sessions(turns: Turns) -> Int32s:
    """A number for each session, from 0 on."""
    first = np.where(turns.follows >= 0, turns.follows, np.arange(turns.follows.size))
    while bool((first[first] != first).any()):
        first = first[first]
    _, made = np.unique(first, return_inverse=True)
    return made.astype(np.int32)


def session_nodes(given: PrefixTerms, session: Numbers) -> tuple[Int32s, Int32s]:
    """Nodes that one session alone has, session by session, the last of a prompt first, and where each begins."""
    count = int(session.max(initial=-1)) + 1
    low, high = np.full(given.size.size, count), np.full(given.size.size, -1)
    for ends in (given.prompt, given.answer):
        used = ends >= 0
        np.minimum.at(low, ends[used], session[used])
        np.maximum.at(high, ends[used], session[used])
    # What caches have at the start belongs to no request here.
    high[given.warm] = count
    below = np.flatnonzero(given.parent >= 0)
    while True:
        before = low.copy(), high.copy()
        np.minimum.at(low, given.parent[below], low[below])
        np.maximum.at(high, given.parent[below], high[below])
        if np.array_equal(before[0], low) and np.array_equal(before[1], high):
            break
    own = np.flatnonzero((low == high) & (high < count))
    own = own[np.lexsort((own, -given.begin[own], low[own]))]
    return own.astype(np.int32), np.searchsorted(low[own], np.arange(count + 1)).astype(np.int32)
