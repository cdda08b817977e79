"""One run in two files: tools write a result, and print it too, and a folder often keeps both.

Counted twice, a run would weigh double in a fit, and its twin would give it away when it is left out to see how well
the others predict it. What was printed is rounded, so the result is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ullage.service.loadtests.loadtest import Flag, LoadTest, Point, PointAnomaly
from ullage.workload.anomalies import Severity

_ROUNDED = ("console", "aiperf_csv")
"""Readers of what tools print of a run whose result they also write."""
_SAME_FRACTION = 0.002
_SAME_LATENCY_FRACTION = 0.005
_SAME_LATENCY_S = 1e-5


def without_repeats(tests: Sequence[LoadTest]) -> tuple[LoadTest, ...]:
    """The tests without the points that were printed of a run whose result is among them; each says what it repeats."""
    found: dict[int, list[str]] = {}
    kept: dict[int, LoadTest] = {}
    for place, test in enumerate(tests):
        if test.reader not in _ROUNDED:
            kept[place] = test
            continue
        points = []
        for point in test.points:
            original = next((other for other, each in enumerate(tests) if _holds(each, point)), None)
            if original is None:
                points.append(point)
            else:
                found.setdefault(original, []).append(test.file.rsplit("/", 1)[-1])
        if points:
            kept[place] = replace(test, points=tuple(points))
    return tuple(
        replace(test, anomalies=(*test.anomalies, _said(found[place]))) if place in found else test
        for place, test in kept.items()
    )


def _said(names: Sequence[str]) -> PointAnomaly:
    sentence = f"{', '.join(dict.fromkeys(names))} has the same run, rounded as it was printed: it is counted once."
    return PointAnomaly(flag=Flag.ROWS_LEFT_OUT, weight=Severity.NOTE, sentence=sentence)


def _holds(test: LoadTest, printed: Point) -> bool:
    return test.reader not in _ROUNDED and any(_is_same(point, printed) for point in test.points)


def _is_same(one: Point, other: Point) -> bool:
    """Whether both count the same requests in the same time, and agree on the mean of every latency that both have.

    AIPerf prints no duration.
    """
    if one.completed_count is None or one.completed_count != other.completed_count:
        return False
    stated = one.duration_s is not None and other.duration_s is not None
    if stated and not math.isclose(one.duration_s or 0.0, other.duration_s or 0.0, rel_tol=_SAME_FRACTION):
        return False
    means = {each.definition: each.mean_s for each in one.latencies if each.mean_s is not None}
    shared = [(means[each.definition], each.mean_s) for each in other.latencies if each.definition in means]
    agree = (
        mean is not None and math.isclose(own, mean, rel_tol=_SAME_LATENCY_FRACTION, abs_tol=_SAME_LATENCY_S)
        for own, mean in shared
    )
    return bool(shared) and all(agree)
