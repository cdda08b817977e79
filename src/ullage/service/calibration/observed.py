"""Which numbers of a load test can be scored: statistics that a simulated test has by the same definition."""

from __future__ import annotations

import numpy as np

from ullage.service.calibration.calibration import Target
from ullage.service.calibration.repeats import BY_CHUNK, TPOT_DEFINITIONS, tpot_by_token
from ullage.service.loadtests.loadtest import Definition, LatencySummary, Point, SeenBy, Status

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
# A percentile needs some requests beyond it, or it is the luck of one.
LEAST_BEYOND = 3


def observed_statistics(point: Point) -> tuple[Target, ...]:
    """TTFT, TPOT (or an ITL of one value a request) and E2E: mean and percentiles."""
    by_chunk = any(each.flag in BY_CHUNK for each in point.anomalies)
    found: list[Target] = []
    for latency, definitions in (("ttft", (Definition.TTFT,)), ("tpot", TPOT_DEFINITIONS), ("e2e", (Definition.E2E,))):
        own = _of_requests(point, latency) if point.has_every_request else []
        if latency == "tpot" and by_chunk and not own:
            mean = tpot_by_token(point)
            found += [] if mean is None else [Target(latency="tpot", statistic=mean[0], value=mean[1])]
            continue
        summary = point.latency(*definitions)
        if own:
            found += own
        elif summary is not None and summary.seen_by is SeenBy.CLIENT:
            found += _of_summary(point, latency, summary)
    return tuple(found)


def _of_requests(point: Point, latency: str) -> list[Target]:
    good = [each for each in point.requests if each.status is Status.OK]
    values = [value for each in good if (value := getattr(each, f"{latency}_s"))]
    if not values:
        return []
    return [
        Target(latency=latency, statistic=which, value=_value(values, which))
        for which in STATISTICS
        if _is_known(which, len(values))
    ]


def _of_summary(point: Point, latency: str, summary: LatencySummary) -> list[Target]:
    count = summary.sample_count or point.completed_count or 0
    stated = {which: summary.mean_s if which == "mean" else summary.at(_fraction(which)) for which in STATISTICS}
    return [
        Target(latency=latency, statistic=which, value=value)
        for which, value in stated.items()
        if value is not None and value > 0 and _is_known(which, count)
    ]


def _is_known(which: str, count: int) -> bool:
    return which in ("mean", "p50") or count * (1.0 - _fraction(which)) >= LEAST_BEYOND


def _fraction(which: str) -> float:
    return float(which.removeprefix("p")) / 100.0


def _value(values: list[float], which: str) -> float:
    return float(np.mean(values) if which == "mean" else np.percentile(values, 100.0 * _fraction(which)))
