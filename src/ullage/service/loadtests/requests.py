"""A point summed up from its requests: for files that keep no summary, and to check those that keep both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ullage.service.loadtests.loadtest import (
    Definition,
    LatencySummary,
    LengthSummary,
    MeasuredRequest,
    Point,
    Status,
)

# The percentiles people ask for; every tool prints most of these.
FRACTIONS = (0.5, 0.9, 0.95, 0.99)

_VALUES: dict[Definition, Callable[[MeasuredRequest], float | None]] = {
    Definition.TTFT: lambda request: request.ttft_s,
    Definition.TPOT: lambda request: request.tpot_s,
    Definition.ITL_PER_REQUEST: lambda request: request.itl_s,
    Definition.NTPOT: lambda request: request.ntpot_s,
    Definition.E2E: lambda request: request.e2e_s,
    Definition.CLIENT_DELAY: lambda request: (
        None if request.sent_s is None or request.due_s is None else request.sent_s - request.due_s
    ),
}


def summed_up(point: Point) -> Point:
    """The point with the counts, rates, tokens and latencies of its requests, the rest as its file states it.

    Without a stated duration it lasted until the last request that succeeded ended, where the file keeps when.
    """
    requests, good = point.requests, succeeded(point.requests)
    ends_s = [each.sent_s + each.e2e_s for each in good if each.sent_s is not None and each.e2e_s is not None]
    duration_s = max(ends_s, default=None) if point.duration_s is None else point.duration_s
    prompts, outputs = [each.prompt_tokens for each in good], [each.output_tokens for each in good]
    return replace(
        point,
        duration_s=duration_s,
        completed_count=len(good),
        failed_count=len(requests) - len(good) - (point.unfinished_count or 0),
        achieved_rps=len(good) / duration_s if duration_s else None,
        sent_rps=sending_rate_rps(requests) if point.sent_rps is None else point.sent_rps,
        output_tokens_per_s=(known_sum(outputs) or 0.0) / duration_s if duration_s else None,
        tokens=replace(
            point.tokens,
            prompt_tokens=known_sum(prompts),
            output_tokens=known_sum(outputs),
            prompt_lengths=lengths_of(prompts),
            output_lengths=lengths_of(outputs),
        ),
        latencies=summaries(requests),
        client_delay=summarise(requests, Definition.CLIENT_DELAY),
    )


def known_sum(tokens: Iterable[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [each for each in tokens if each is not None]
    return float(sum(known)) if known else None


def summarise(requests: Sequence[MeasuredRequest], definition: Definition) -> LatencySummary | None:
    """One latency over the requests that succeeded; None where no request has it.

    The client's delay is taken over all requests: one that failed was late all the same.
    """
    taken = requests if definition is Definition.CLIENT_DELAY else succeeded(requests)
    values = [value for each in taken if (value := _VALUES[definition](each)) is not None]
    return latency_of(values, definition)


def summaries(requests: Sequence[MeasuredRequest]) -> tuple[LatencySummary, ...]:
    """Every latency that these requests carry, the client's own delay apart."""
    wanted = (each for each in _VALUES if each is not Definition.CLIENT_DELAY)
    return tuple(found for each in wanted if (found := summarise(requests, each)) is not None)


def latency_of(values_s: Sequence[float], definition: Definition) -> LatencySummary | None:
    """Moments and percentiles of plain values, interpolated linearly as NumPy and most tools do."""
    if not values_s:
        return None
    array = np.asarray(values_s, dtype=float)
    return LatencySummary(
        definition=definition,
        mean_s=float(array.mean()),
        std_s=float(array.std()),
        min_s=float(array.min()),
        max_s=float(array.max()),
        percentiles=_percentiles(array),
        sample_count=len(values_s),
    )


def lengths_of(tokens: Iterable[int | None]) -> LengthSummary | None:
    """The distribution of lengths that are known; None where none is."""
    known = [each for each in tokens if each is not None]
    if not known:
        return None
    array = np.asarray(known, dtype=float)
    return LengthSummary(
        mean_tokens=float(array.mean()),
        std_tokens=float(array.std()),
        min_tokens=float(array.min()),
        max_tokens=float(array.max()),
        percentiles=_percentiles(array),
    )


def succeeded(requests: Iterable[MeasuredRequest]) -> list[MeasuredRequest]:
    return [each for each in requests if each.status is Status.OK]


def sending_rate_rps(requests: Sequence[MeasuredRequest]) -> float | None:
    """How fast the client really sent: gaps a second between the first and the last request it sent."""
    return _gaps_a_second([each.sent_s for each in requests])


def due_rate_rps(requests: Sequence[MeasuredRequest]) -> float | None:
    """How fast the client meant to send, by the times that were drawn, which is the offered rate up to chance."""
    return _gaps_a_second([each.due_s for each in requests])


def _gaps_a_second(times_s: Sequence[float | None]) -> float | None:
    known = sorted(each for each in times_s if each is not None)
    if len(known) < 2 or len(known) < len(times_s) or known[-1] == known[0]:
        return None
    return (len(known) - 1) / (known[-1] - known[0])


def _percentiles(array: np.ndarray) -> tuple[tuple[float, float], ...]:
    return tuple(zip(FRACTIONS, (float(each) for each in np.quantile(array, FRACTIONS)), strict=True))
