"""Times between arrivals, the order of the source's rows, and rows that occur twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ullage.workload.answers import arrays, one_row
from ullage.workload.profile.series import SecondCounts
from ullage.workload.profile.summary import Gaps, Hole, InputOrder, Stamps
from ullage.workload.trace import Trace

# How many of the longest gaps are kept to look for holes in.
LONGEST_KEPT = 64
# Rows that are sorted or compared at a time; bounds memory for sources that are not in order.
SLICE_ROWS = 8_000_000
# Stamps looked at to see how finely the source writes time.
STAMP_SAMPLE_ROWS = 500_000
# A clock set back for the end of summer time goes back by an hour; rows near it can be a little off.
HOUR_S, HOUR_TOLERANCE_S = 3600.0, 120.0
# In a quiet log the first row after it comes some gaps later, and the step back is that much shorter than an hour.
_QUIET_GAPS, _MOST_SHORT_S = 8.0, 1800.0

_LAG = "SELECT arrival_s, arrival_s - lag(arrival_s) OVER () AS gap FROM trace"


def order_and_gaps(trace: Trace, arrivals: SecondCounts) -> tuple[InputOrder | None, Gaps | None]:
    """Whether the source's rows are in order of time, and the gaps between arrivals.

    One pass over the rows as they stand answers both where they are in order; otherwise arrivals are sorted,
    slice by slice. None where times cannot be compared.
    """
    if not trace.clock.orders_requests:
        return None, None
    origin_s = trace.start_epoch_s or 0.0
    first, last, gaps, squares, zeros, longest, starts, back, largest, hours = one_row(
        trace.query(
            "SELECT min(arrival_s), max(arrival_s), count(gap), COALESCE(sum(gap * gap), 0), "
            f"count(*) FILTER (WHERE gap = 0), max(gap, {LONGEST_KEPT}), "
            f"arg_max(arrival_s - gap, gap, {LONGEST_KEPT}), count(*) FILTER (WHERE gap < 0), COALESCE(-min(gap), 0), "
            f"count(*) FILTER (WHERE gap BETWEEN {-HOUR_S - HOUR_TOLERANCE_S} AND {_short_s(arrivals) - HOUR_S}) "
            f"FROM ({_LAG})"
        )
    )
    order = InputOrder(backward_steps=back, largest_back_s=max(0.0, largest), hour_back_steps=hours)
    if gaps == 0:
        return order, None
    if back:
        return order, _sorted(trace, arrivals)
    holes = [
        Hole(start_s=origin_s + start, length_s=gap) for start, gap in zip(starts, longest, strict=True) if gap > 0
    ]
    return order, Gaps(
        origin_s=origin_s,
        first_s=first,
        last_s=last,
        gaps=gaps,
        sum_squares=squares,
        zero_gaps=zeros,
        longest=tuple(sorted(holes, key=lambda hole: (-hole.length_s, hole.start_s))),
    )


def _short_s(arrivals: SecondCounts) -> float:
    """How much less than an hour a clock set back by an hour may seem to go."""
    if arrivals.total < 2:
        return HOUR_TOLERANCE_S
    gap_s = float(arrivals.seconds[-1] - arrivals.seconds[0]) / arrivals.total
    return min(_MOST_SHORT_S, max(HOUR_TOLERANCE_S, _QUIET_GAPS * gap_s))


def _sorted(trace: Trace, arrivals: SecondCounts) -> Gaps:
    origin_s = trace.start_epoch_s or 0.0
    count, squares, zeros = 0, 0.0, 0
    holes: list[Hole] = []
    first: float | None = None
    last: float | None = None
    for where in time_slices(trace, arrivals):
        times = np.sort(arrays(trace.query(f"SELECT arrival_s FROM trace WHERE {where}"))["arrival_s"])
        if last is not None:
            times = np.r_[last, times]
        steps = np.diff(times)
        count += len(steps)
        squares += float(np.dot(steps, steps))
        zeros += int((steps == 0).sum())
        holes = _longest(holes, times, steps)
        first = float(times[0]) if first is None else first
        last = float(times[-1])
    assert first is not None
    assert last is not None
    return Gaps(
        origin_s=origin_s,
        first_s=first,
        last_s=last,
        gaps=count,
        sum_squares=squares,
        zero_gaps=zeros,
        longest=tuple(Hole(start_s=origin_s + hole.start_s, length_s=hole.length_s) for hole in holes),
    )


def _longest(holes: list[Hole], times: NDArray[np.float64], steps: NDArray[np.float64]) -> list[Hole]:
    places = np.argsort(-steps, kind="stable")[:LONGEST_KEPT]
    here = [Hole(start_s=float(times[place]), length_s=float(steps[place])) for place in places if steps[place] > 0]
    return sorted([*holes, *here], key=lambda hole: (-hole.length_s, hole.start_s))[:LONGEST_KEPT]


def time_slices(trace: Trace, arrivals: SecondCounts) -> Iterator[str]:
    """SQL conditions that cut the trace into stretches of time of at most about SLICE_ROWS rows, in order."""
    origin_s = trace.start_epoch_s or 0.0
    passed = np.cumsum(arrivals.counts)
    slices = int(passed[-1] // SLICE_ROWS) + 1
    marks = np.searchsorted(passed, SLICE_ROWS * np.arange(1, slices))
    borders = [float(arrivals.seconds[mark]) - origin_s for mark in marks]
    for low, high in zip([None, *borders], [*borders, None], strict=True):
        conditions = [] if low is None else [f"arrival_s >= {low!r}"]
        conditions += [] if high is None else [f"arrival_s < {high!r}"]
        yield " AND ".join(conditions) or "true"


def stamps_of(trace: Trace) -> Stamps | None:
    """How far apart different stamps usually are, and how even that is: 3.000, 3.001, 3.000 means batches of 3 s."""
    if not trace.clock.orders_requests:
        return None
    times = np.sort(arrays(trace.query(f"SELECT arrival_s FROM trace LIMIT {STAMP_SAMPLE_ROWS}"))["arrival_s"])
    steps = np.diff(times)
    steps = steps[steps > 0]
    if len(steps) < 20:
        return None
    low, middle, high = np.quantile(steps, (0.1, 0.5, 0.9))
    return Stamps(typical_gap_s=float(middle), spread_fraction=float((high - low) / middle))


def duplicates_of(trace: Trace, arrivals: SecondCounts, gaps: Gaps | None) -> int:
    """Rows that repeat another: by their identifier where they have one, else in every column that is known."""
    if trace.knows("request"):
        # Groups can spill to disk, a count of distinct values cannot.
        grouped = "SELECT count(*) AS copies FROM trace WHERE request IS NOT NULL GROUP BY hash(request)"
        return int(one_row(trace.query(f"SELECT COALESCE(sum(copies - 1), 0) FROM ({grouped})"))[0])
    # Equal rows have equal stamps: where no two stamps are equal there is nothing to look for.
    if gaps is None or gaps.zero_gaps == 0:
        return 0
    columns = ", ".join(f'"{column}"' for column in sorted(trace.columns))
    repeated = 0
    for where in time_slices(trace, arrivals):
        hashes = arrays(trace.query(f"SELECT hash({columns}) AS row FROM trace WHERE {where}"))["row"]
        repeated += len(hashes) - len(np.unique(hashes))
    return repeated
