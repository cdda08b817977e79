"""Streams made from recorded ones: as they were, more or less of them, or days and weeks drawn anew.

More users are modelled, not the same users in a hurry: what grows is the number of independent sources, so that the
variance of counts over their mean stays what it was at every width. Multiplying the rate of one recording would
instead make every burst higher in proportion, and sampling its requests one by one would wash bursts out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError
from ullage.workload.answers import one_row
from ullage.workload.profile.reuse import inferred_block_tokens
from ullage.workload.synthetic.modulation import measured, shared_coins
from ullage.workload.synthetic.prefixes import hashed_parents
from ullage.workload.synthetic.stream import LONGEST_S, NO_SESSION, PS_PER_S, Int32s, Stream, joined, thin

if TYPE_CHECKING:
    from ullage.workload.trace import Trace

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
# The prefix was held when the trace was taken; how far back it lay is not known, so that any cache is taken to hold it.
UNKNOWN_DISTANCE_BLOCKS = 0


def replayed(trace: Trace) -> Stream:
    """The trace itself, its requests in order of arrival from the first one on."""
    if not trace.clock.orders_requests:
        raise InputError(
            field="trace",
            value=trace.sources[0] if trace.sources else trace.format,
            problem=f"has no common clock ({trace.clock.value}), so that its requests have no order to replay",
            fix="Use its lengths in a synthetic model instead.",
        )
    hashes = ", block_hashes" if trace.knows("block_hashes") else ""
    found = trace.query(
        f"""
        SELECT arrival_s, prompt_tokens, output_tokens,
               least(coalesce(cached_tokens, 0), prompt_tokens - 1) AS cached_tokens,
               coalesce(class, 'all') AS class,
               coalesce(dense_rank() OVER (ORDER BY tenant NULLS LAST), 1) - 1 AS tenant,
               CASE WHEN session IS NULL THEN -1 ELSE dense_rank() OVER (ORDER BY session NULLS LAST) - 1 END AS session
               {hashes}
        FROM trace WHERE arrival_s IS NOT NULL AND prompt_tokens IS NOT NULL AND output_tokens IS NOT NULL
        ORDER BY arrival_s, prompt_tokens, output_tokens
        """
    ).fetchnumpy()
    arrival_s = np.asarray(found["arrival_s"], np.float64)
    names, class_index = np.unique(np.asarray(found["class"]).astype(str), return_inverse=True)
    if arrival_s.size == 0:
        raise InputError(
            field="trace",
            value=trace.format,
            problem="has no request with a time and a length",
            fix="Look at the reader's counts of dropped rows: ullage profile prints them.",
        )
    if arrival_s[-1] - arrival_s[0] > LONGEST_S:
        raise InputError(
            field="trace",
            value=f"{(arrival_s[-1] - arrival_s[0]) / DAY_S:.0f} days",
            problem="is longer than a stream can be, 104 days",
            fix="Replay a part of it.",
        )
    parent, shared_tokens = _parents(trace, found)
    arrival_ps = np.round((arrival_s - arrival_s[0]) * PS_PER_S).astype(np.int64)
    return Stream(
        arrival_ps=arrival_ps,
        # An engine reads and writes at least one token of every request it is given.
        prompt_tokens=np.maximum(1, np.asarray(found["prompt_tokens"])).astype(np.int32),
        output_tokens=np.maximum(1, np.asarray(found["output_tokens"])).astype(np.int32),
        cached_tokens=np.maximum(0, np.asarray(found["cached_tokens"])).astype(np.int32),
        reuse_blocks=np.full(arrival_ps.size, UNKNOWN_DISTANCE_BLOCKS, np.int32),
        class_index=class_index.astype(np.int16),
        tenant=np.asarray(found["tenant"]).astype(np.int32),
        session=np.asarray(found["session"]).astype(np.int32),
        class_names=tuple(names.tolist()),
        deadlines_s=(math.inf,) * len(names),
        until_ps=int(arrival_ps[-1]) + 1,
        left_out_count=int(one_row(trace.query("SELECT count(*) FROM trace"))[0]) - int(arrival_ps.size),
        parent=parent,
        shared_tokens=shared_tokens,
    )


def _parents(trace: Trace, found: dict[str, Any]) -> tuple[Int32s | None, Int32s | None]:
    """Which prompt begins like which, where the trace has hashes of blocks of a known size."""
    if "block_hashes" not in found:
        return None, None
    block_tokens = trace.block_tokens or inferred_block_tokens(trace)
    if block_tokens is None:
        return None, None
    return hashed_parents(found["prompt_tokens"], found["block_hashes"], block_tokens)


def scaled(stream: Stream, factor: float, rng: Generator) -> Stream:
    """`factor` times the traffic: whole copies from other times, and a thinned one for what is left over.

    Copies are moved by whole weeks where there are two, else by whole days where there are two, else by an equal part
    of the window, always around its end: the season stays in phase and no burst meets itself.
    """
    if not (math.isfinite(factor) and factor > 0.0):
        raise InputError(
            field="factor", value=factor, problem="must be greater than 0", fix="Give for example 1.5 for half more."
        )
    whole = math.floor(factor + 1e-9)
    rest = factor - whole
    copies = [stream if k == 0 else moved(stream, _shift_ps(stream.until_ps, k, whole + 1)) for k in range(whole)]
    if rest > 1e-9:
        last = moved(stream, _shift_ps(stream.until_ps, whole, whole + 1)) if whole else stream
        bursts = measured(stream.counts(1.0))
        copies.append(thin(last, share=rest, scales_s=bursts.scales_s, shared=shared_coins(bursts), rng=rng))
    return copies[0] if len(copies) == 1 else joined(copies)


def moved(stream: Stream, shift_ps: int) -> Stream:
    """The stream turned by some time; what leaves at the end comes in at the start, as sessions of their own."""
    turned = stream.arrival_ps + shift_ps
    wrapped = turned >= stream.until_ps
    order = np.concatenate([np.flatnonzero(wrapped), np.flatnonzero(~wrapped)])
    # A session that is cut by the turn would go backwards in time; its two ends become two sessions.
    apart = int(stream.session.max(initial=NO_SESSION)) + 1
    session = np.where((stream.session != NO_SESSION) & wrapped, stream.session + apart, stream.session).astype(
        np.int32
    )
    return replace(
        stream.where(order),
        arrival_ps=np.where(wrapped, turned - stream.until_ps, turned)[order],
        session=session[order],
    )


def _shift_ps(until_ps: int, copy: int, copies: int) -> int:
    for unit_s in (WEEK_S, DAY_S):
        unit_ps = round(unit_s * PS_PER_S)
        units = until_ps // unit_ps
        if units >= 2:
            return int((copy % units) * unit_ps) if copy % units else until_ps // (2 * copies) * copy
    return until_ps // copies * copy
