"""Summaries of partitions put together: counts, histograms and rates equal those of the whole, exactly.

    profile_of(merge([summarise(a), summarise(b)])) == profile_of(summarise(a + b))

for everything but sessions and prefix reuse, which cross the border and are kept per partition; a merged
profile leaves them out and says so. Gaps carry their border state and merge where partitions follow each
other in time; where they overlap, the deviation of gaps is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ullage.workload.profile.gaps import LONGEST_KEPT
from ullage.workload.profile.summarise import add_parts
from ullage.workload.profile.summary import About, Gaps, Hole, InputOrder, Part, Summary
from ullage.workload.trace import RowCounts, RowReason


def merge(summaries: Sequence[Summary]) -> Summary:
    """One summary of several partitions of a trace, in any order; they name the same groups."""
    ordered = sorted(summaries, key=lambda summary: (summary.first_s, summary.last_s))
    first = ordered[0]
    if len(ordered) == 1:
        return first
    if any(summary.about.clock is not first.about.clock for summary in ordered):
        raise ValueError("partitions of one trace share a clock")
    return Summary(
        about=_about([summary.about for summary in ordered]),
        first_s=first.first_s,
        last_s=max(summary.last_s for summary in ordered),
        whole=add_parts([summary.whole for summary in ordered]),
        groups=_groups([summary.groups for summary in ordered]),
        distinct=dict.fromkeys(first.distinct),
        gaps=_gaps([summary.gaps for summary in ordered]),
        stamps=first.stamps,
        order=_order(ordered),
        duplicate_rows=sum(summary.duplicate_rows for summary in ordered),
        missing_outputs=sum(summary.missing_outputs for summary in ordered),
        sessions=tuple(one for summary in ordered for one in summary.sessions),
        group_sessions={},
        reuse=tuple(one for summary in ordered for one in summary.reuse),
        least_width_s=first.least_width_s,
    )


def _groups(parts: Sequence[Mapping[str, Mapping[str, Part]]]) -> dict[str, dict[str, Part]]:
    merged: dict[str, dict[str, Part]] = {}
    for dimension in parts[0]:
        names = dict.fromkeys(name for each in parts for name in each.get(dimension, {}))
        added = {
            name: add_parts([each[dimension][name] for each in parts if name in each.get(dimension, {})])
            for name in names
        }
        # The most frequent first, as in a summary of the whole; names in brackets stand last.
        order = sorted(added, key=lambda name: (name.startswith("("), -added[name].requests, name))
        merged[dimension] = {name: added[name] for name in order}
    return merged


def _gaps(parts: Sequence[Gaps | None]) -> Gaps | None:
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    merged = known[0]
    for part in known[1:]:
        later_s = part.origin_s - merged.origin_s
        border_s = later_s + part.first_s - merged.last_s
        if border_s < 0:
            return None
        merged = _join(merged, part, border_s, later_s)
    return merged


def _join(before: Gaps, after: Gaps, border_s: float, later_s: float) -> Gaps:
    border = Hole(start_s=before.origin_s + before.last_s, length_s=border_s)
    longest = sorted([*before.longest, border, *after.longest], key=lambda hole: (-hole.length_s, hole.start_s))
    return Gaps(
        origin_s=before.origin_s,
        first_s=before.first_s,
        last_s=later_s + after.last_s,
        gaps=before.gaps + 1 + after.gaps,
        sum_squares=before.sum_squares + border_s * border_s + after.sum_squares,
        zero_gaps=before.zero_gaps + (border_s == 0) + after.zero_gaps,
        longest=tuple(hole for hole in longest if hole.length_s > 0)[:LONGEST_KEPT],
    )


def _order(summaries: Sequence[Summary]) -> InputOrder | None:
    orders = [summary.order for summary in summaries]
    known = [order for order in orders if order is not None]
    if len(known) != len(orders):
        return None
    return InputOrder(
        backward_steps=sum(order.backward_steps for order in known),
        largest_back_s=max(order.largest_back_s for order in known),
        hour_back_steps=sum(order.hour_back_steps for order in known),
    )


def _about(abouts: Sequence[About]) -> About:
    rows = [about.rows for about in abouts]
    return replace(
        abouts[0],
        sources=tuple(dict.fromkeys(source for about in abouts for source in about.sources)),
        rows=RowCounts(
            read_rows=sum(each.read_rows for each in rows),
            kept_rows=sum(each.kept_rows for each in rows),
            dropped=_reasons([reason for each in rows for reason in each.dropped]),
            repaired=_reasons([reason for each in rows for reason in each.repaired]),
        ),
        columns=frozenset().union(*(about.columns for about in abouts)),
        anomalies=tuple(dict.fromkeys(anomaly for about in abouts for anomaly in about.anomalies)),
    )


def _reasons(reasons: Sequence[RowReason]) -> tuple[RowReason, ...]:
    added: dict[str, RowReason] = {}
    for reason in reasons:
        known = added.get(reason.reason)
        added[reason.reason] = reason if known is None else replace(known, rows=known.rows + reason.rows)
    return tuple(added.values())
