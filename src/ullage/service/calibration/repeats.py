"""From a point of a load test to the trial that repeats it, and the numbers to compare.

Where the file kept its requests, their own lengths and sending times are used. Where it kept sums, every request gets
the mean length, and an open loop gets arrivals of its rate and burstiness. What cannot be repeated is refused with the
reason, never filled in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ullage.service.calibration.calibration import Measurement, Target
from ullage.service.calibration.replay import PROMPTS_PER_CLIENT, Counts, EngineLimits, LoadTestReplay
from ullage.service.loadtests.anomalies import KEPT_UP_FRACTION
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    Loop,
    MeasuredRequest,
    Point,
    SeenBy,
    Status,
)
from ullage.service.steps.work import Floats

MOST_REQUESTS = 20_000
_SMALLEST = 1
# Which definitions can be compared with a simulated TPOT: one value a request, without the first token.
_TPOT = (Definition.TPOT, Definition.ITL_PER_REQUEST)
_BY_CHUNK = (Flag.DECODE_TIME_DISAGREES,)


@dataclass(frozen=True, kw_only=True)
class NotRepeatable:
    """A point that cannot be simulated, and why."""

    point: str
    reason: str


def measurement_of(point: Point, limits: EngineLimits, *, rng: np.random.Generator) -> Measurement | NotRepeatable:
    """The trial and targets of a point."""
    targets = _targets(point)
    if not targets:
        return NotRepeatable(point=point.name, reason="states neither TTFT nor TPOT")
    lengths = _lengths(point)
    if lengths is None:
        return NotRepeatable(point=point.name, reason="states no prompt or output lengths")
    prompt, output = lengths
    cached = _cached(point, prompt)
    if point.load.loop is Loop.CLOSED or _is_capped(point):
        if point.load.concurrency_cap_count is None:
            return NotRepeatable(point=point.name, reason="is a closed loop without its concurrency")
        clients, arrivals = min(point.load.concurrency_cap_count, prompt.size), None
    else:
        found = _arrivals(point, prompt.size, rng)
        if found is None:
            return NotRepeatable(point=point.name, reason="is an open loop without its rate")
        clients, arrivals = None, found
    trial = LoadTestReplay(
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        limits=limits,
        clients=clients,
        arrival_s=arrivals,
    )
    return Measurement(name=point.name, trial=trial, targets=targets)


def _is_capped(point: Point) -> bool:
    """An open loop whose cap binds is a closed one: the server decides when the next request is sent."""
    load = point.load
    if load.concurrency_cap_count is None or load.loop is Loop.TRACE:
        return False
    if load.loop is Loop.BURST:
        return True
    return not load.offered_rps or (point.achieved_rps or 0.0) < KEPT_UP_FRACTION * load.offered_rps


def _targets(point: Point) -> tuple[Target, ...]:
    own = _targets_of_requests(point) if point.load.loop is Loop.OPEN and point.has_every_request else ()
    if own:
        return own
    found = []
    for latency, definitions in (("ttft", (Definition.TTFT,)), ("tpot", _TPOT)):
        summary = point.latency(*definitions) or (_engine_gaps(point) if latency == "tpot" else None)
        which = None if summary is None else _statistic(summary)
        if which is not None and latency == "tpot" and any(each.flag in _BY_CHUNK for each in point.anomalies):
            which = _tpot_by_token(point) or which
        if which is not None and summary is not None:
            seen = "engine_ttft" if latency == "ttft" and summary.seen_by is SeenBy.ENGINE else latency
            found.append(Target(latency=seen, statistic=which[0], value=which[1]))
    return tuple(found)


def _engine_gaps(point: Point) -> LatencySummary | None:
    """The engine's own gaps: one for each token, not for each chunk, so that their mean is the time of a token."""
    gaps = point.latency(Definition.ITL_POOLED)
    return gaps if gaps is not None and gaps.seen_by is SeenBy.ENGINE else None


def _tpot_by_token(point: Point) -> tuple[str, float] | None:
    """E2E less TTFT over the tokens: what the tool's TPOT would be, had it counted tokens and not chunks."""
    e2e, ttft, tokens = point.latency(Definition.E2E), point.latency(Definition.TTFT), point.mean_output_tokens
    if e2e is None or ttft is None or e2e.mean_s is None or ttft.mean_s is None or not tokens or tokens <= 1:
        return None
    value_s = (e2e.mean_s - ttft.mean_s) / (tokens - 1.0)
    return ("mean", value_s) if value_s > 0 else None


def _targets_of_requests(point: Point) -> tuple[Target, ...]:
    """Under an open loop the load varies by itself: fast and slow requests tell the step of few sequences from many."""
    good = [each for each in point.requests if each.status is Status.OK]
    values = {
        "ttft": [each.ttft_s for each in good if each.ttft_s],
        "tpot": [each.tpot_s for each in good if each.tpot_s],
    }
    wanted = {"ttft": ("mean", "p50"), "tpot": ("p10", "p50", "p90")}
    return tuple(
        Target(latency=latency, statistic=which, value=_value(values[latency], which))
        for latency, statistics in wanted.items()
        for which in statistics
        if values[latency]
    )


def _value(values: list[float], which: str) -> float:
    return float(np.mean(values) if which == "mean" else np.percentile(values, float(which.removeprefix("p"))))


def _statistic(summary: LatencySummary) -> tuple[str, float] | None:
    median = summary.at(0.5)
    if summary.mean_s is not None and summary.mean_s > 0:
        return "mean", summary.mean_s
    return ("p50", median) if median is not None and median > 0 else None


def _lengths(point: Point) -> tuple[Counts, Counts] | None:
    whole = [each for each in _in_order(point) if each.prompt_tokens and each.output_tokens]
    if point.has_every_request and len(whole) == len(point.requests):
        kept = whole[:MOST_REQUESTS]
        prompt = np.array([each.prompt_tokens for each in kept], np.int32)
        return prompt, np.array([each.output_tokens for each in kept], np.int32)
    tokens = point.tokens
    prompt_mean = point.mean_prompt_tokens or tokens.nominal_prompt_tokens
    output_mean = point.mean_output_tokens or tokens.nominal_output_tokens
    if not prompt_mean or not output_mean:
        return None
    count = min(point.completed_count or PROMPTS_PER_CLIENT * (point.load.concurrency_cap_count or 10), MOST_REQUESTS)
    prompt = np.full(max(count, _SMALLEST), max(1, round(prompt_mean)), np.int32)
    return prompt, np.full(prompt.size, max(1, round(output_mean)), np.int32)


def _cached(point: Point, prompt: Counts) -> Counts | None:
    requests = _in_order(point)[: prompt.size]
    if len(requests) == prompt.size and any(each.cached_tokens for each in requests):
        own: Counts = np.minimum([each.cached_tokens or 0 for each in requests], prompt - 1).astype(np.int32)
        return own
    tokens = point.tokens
    if not tokens.cached_prompt_tokens or not tokens.prompt_tokens:
        return None
    share = min(tokens.cached_prompt_tokens / tokens.prompt_tokens, 1.0)
    spread: Counts = np.minimum(np.rint(share * prompt), prompt - 1).astype(np.int32)
    return spread


def _arrivals(point: Point, count: int, rng: np.random.Generator) -> Floats | None:
    sent = [each.sent_s for each in _in_order(point)[:count] if each.sent_s is not None]
    if len(sent) == count:
        times = np.array(sent)
        exact: Floats = times - times[0]
        return exact
    if point.load.loop is Loop.BURST:
        return np.zeros(count)
    rate = point.load.offered_rps or point.sent_rps
    if not rate:
        return None
    if point.load.even:
        gaps = np.full(count, 1.0 / rate)
    else:
        shape = point.load.burstiness_ratio or 1.0
        gaps = rng.gamma(shape, 1.0 / (rate * shape), count)
    arrivals: Floats = np.cumsum(gaps) - gaps[0]
    return arrivals


def _in_order(point: Point) -> list[MeasuredRequest]:
    good = [each for each in point.requests if each.status is Status.OK]
    return sorted(good, key=lambda each: each.sent_s if each.sent_s is not None else 0.0)
