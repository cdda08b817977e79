"""Contradictions between the numbers of a point: saturation, late clients, miscounted tokens, uncertain units.

Every check takes a point and gives at most one anomaly, in a sentence with both sides of the disagreement. A check
that needs a number the file does not have says nothing. `impossible` is apart: it names a contradiction so large that
the file is refused rather than flagged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ullage.service.loadtests.loadtest import Definition, Flag, LatencySummary, Loop, Point, PointAnomaly
from ullage.service.loadtests.requests import due_rate_rps
from ullage.units import DURATION, brief, brief_number
from ullage.workload.anomalies import Severity

# Below this share of the offered rate a point no longer shows the nominal load.
KEPT_UP_FRACTION = 0.97
# A handful of requests shows no rate.
LEAST_REQUESTS = 10
# Counts of the same tokens that differ by more than this were made by different tokenizers.
SAME_COUNT_FRACTION = 0.01
# The client's own delay is part of what a user would have waited; above this share of TTFT it hides in the figures.
LATE_FRACTION = 0.1
LATE_S = 0.005
# Outside these a mean latency is more likely in another unit than true. The fastest engines known give a token to one
# request every 0.3 ms; an hour to the first token, or ten seconds to each after it, is implausible.
PLAUSIBLE_S = {
    Definition.TTFT: (0.0005, 3600.0),
    Definition.TPOT: (0.0002, 10.0),
    Definition.ITL_PER_REQUEST: (0.0002, 10.0),
    Definition.ITL_PER_REQUEST_BY_TOKEN: (0.0002, 10.0),
    Definition.E2E: (0.001, 86400.0),
}
# A mean over requests and a ratio of means differ where lengths do; a factor beyond this is not explained by that.
SAME_DECODE_FACTOR = 1.5
_GRAVE = {Severity.SERIOUS: 0, Severity.CAUTION: 1, Severity.NOTE: 2}


def examined(point: Point) -> Point:
    """The point with what the checks found added to what its reader found, the gravest first."""
    found = [anomaly for check in CHECKS if (anomaly := check(point)) is not None]
    both = sorted([*point.anomalies, *found], key=lambda each: _GRAVE[each.weight])
    return replace(point, anomalies=tuple(both))


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """A latency that the rest of its point rules out: which, what it is as written, and against what."""

    definition: Definition
    shown: str
    sentence: str


def impossible(point: Point) -> Contradiction | None:
    """A contradiction that no measurement can contain, naming both readings; None where there is none."""
    for latency in point.latencies:
        longest_s = latency.mean_s if latency.mean_s is not None else latency.max_s
        if longest_s is None or not point.duration_s or latency.definition not in PLAUSIBLE_S:
            continue
        if longest_s > 10.0 * point.duration_s:
            return Contradiction(
                definition=latency.definition,
                shown=_time(longest_s),
                sentence=f"the whole run took {_time(point.duration_s)}; "
                f"in a unit a thousand times smaller it would be {_time(longest_s / 1000)}",
            )
    little, cap, e2e = point.little_concurrency_count, point.load.concurrency_cap_count, point.latency(Definition.E2E)
    if little is None or cap is None or little <= 10.0 * cap or e2e is None or e2e.mean_s is None:
        return None
    return Contradiction(
        definition=Definition.E2E,
        shown=_time(e2e.mean_s),
        sentence=f"{_rate(point.achieved_rps or 0.0)} of that length keep {brief_number(little)} in flight, but at "
        f"most {cap} were allowed; in a unit a thousand times smaller it would be {_time(e2e.mean_s / 1000)}",
    )


def load_not_kept(point: Point) -> PointAnomaly | None:
    """Whether the client sent, and the server finished, what was offered."""
    count = point.sent_count or point.completed_count
    due_rps = due_rate_rps(point.requests) if point.has_every_request else None
    offered = due_rps if due_rps is not None else point.load.offered_rps
    if point.load.loop not in (Loop.OPEN, Loop.TRACE) or not offered or not count or count < LEAST_REQUESTS:
        return None
    cap = point.load.concurrency_cap_count
    # Random arrivals are faster or slower than their rate by chance; two standard errors of that are no anomaly, but
    # for a point that is known to have stood at its cap, or whose every arrival is known.
    exact = point.load.even or due_rps is not None or (cap is not None and _cap_was_reached(point, cap))
    kept = KEPT_UP_FRACTION - (0.0 if exact else 2.0 / math.sqrt(count))
    under_cap = f" under a cap of {cap} at once" if cap is not None else ""
    if point.sent_rps is not None and point.sent_rps < kept * offered:
        return _anomaly(
            Flag.CLOSED_LOOP_SATURATION,
            Severity.SERIOUS,
            f"{_rate(offered)} was offered, but only {_rate(point.sent_rps)} was sent{under_cap}: the client waited "
            "for the server, so that latency here is that of a closed loop, not of the offered rate.",
        )
    if point.achieved_rps is None or point.achieved_rps >= kept * offered * _drain_fraction(point, offered, count):
        return None
    if point.sent_rps is None and cap is not None and _cap_was_reached(point, cap):
        return _anomaly(
            Flag.CLOSED_LOOP_SATURATION,
            Severity.SERIOUS,
            f"{_rate(offered)} was offered, but only {_rate(point.achieved_rps)} was achieved{under_cap}: latency here "
            "is that of a closed loop, not of the offered rate.",
        )
    return _anomaly(
        Flag.OVERLOAD,
        Severity.SERIOUS,
        f"{_rate(offered)} was offered and {_rate(point.achieved_rps)} finished: the queue grew while the test ran, "
        "so that latency depends on how long it ran.",
    )


def late_client(point: Point) -> PointAnomaly | None:
    """Coordinated omission: latency counted from when a request was sent, not from when it should have been."""
    delay, ttft = point.client_delay, point.latency(Definition.TTFT, Definition.E2E)
    if delay is None or delay.mean_s is None or point.load.loop not in (Loop.OPEN, Loop.TRACE):
        return None
    waited_s = ttft.middle_s if ttft is not None else None
    if waited_s is None or delay.mean_s < max(LATE_S, LATE_FRACTION * waited_s):
        return None
    tail_s = delay.at(0.99) if delay.at(0.99) is not None else delay.max_s
    tail = "" if tail_s is None else f" (at worst about {_time(tail_s)})"
    return _anomaly(
        Flag.COORDINATED_OMISSION,
        Severity.SERIOUS if delay.mean_s > waited_s else Severity.CAUTION,
        f"Requests left the client {_time(delay.mean_s)} late on average{tail}, and latency is counted from then: "
        f"{_time(waited_s)} as written is {_time(waited_s + delay.mean_s)} from when each was due.",
    )


def tokens_miscounted(point: Point) -> PointAnomaly | None:
    """Two counts of the same tokens that differ."""
    tokens = point.tokens
    pairs = (
        ("output", tokens.output_tokens, tokens.other_output_tokens),
        ("prompt", tokens.prompt_tokens, tokens.other_prompt_tokens),
    )
    for side, ours, other in pairs:
        if ours and other and abs(other / ours - 1.0) > SAME_COUNT_FRACTION:
            who = str(tokens.counted_by) if tokens.counted_by else "one side"
            return _anomaly(
                Flag.TOKEN_COUNT_MISMATCH,
                Severity.CAUTION,
                f"{brief_number(ours, 6)} {side} tokens by the {who}'s count, {brief_number(other, 6)} by the other "
                f"({(other / ours - 1.0) * 100:+.1f} %): tokens per second and time per token depend on which is "
                "right.",
            )
    return None


def histogram_too_coarse(point: Point) -> PointAnomaly | None:
    """A figure at or below the first bucket edge, where the histogram tells nothing apart."""
    for latency in point.latencies:
        low_s = latency.percentiles[0][1] if latency.percentiles else latency.mean_s
        if latency.floor_s is not None and low_s is not None and low_s <= latency.floor_s:
            return _anomaly(
                Flag.HISTOGRAM_FLOOR,
                Severity.CAUTION,
                f"{latency.definition} comes from a histogram whose first bucket ends at {_time(latency.floor_s)}; "
                f"{_time(low_s)} lies in it, and is anywhere between 0 and that edge.",
            )
    return None


def unit_uncertain(point: Point) -> PointAnomaly | None:
    """A mean that no server gives, and what it would be a thousand times larger or smaller."""
    for latency in point.latencies:
        if latency.definition not in PLAUSIBLE_S or latency.middle_s is None:
            continue
        low_s, high_s = PLAUSIBLE_S[latency.definition]
        if low_s <= latency.middle_s <= high_s or latency.middle_s == 0.0:
            continue
        other_s = latency.middle_s * (1000.0 if latency.middle_s < low_s else 0.001)
        return _anomaly(
            Flag.UNIT_UNCERTAIN,
            Severity.SERIOUS,
            f"{latency.definition} is {_time(latency.middle_s)} in the unit the file states, which no server is known "
            f"to give; in the neighbouring unit it would be {_time(other_s)}. It is kept as written.",
        )
    return None


def rate_disagrees(point: Point) -> PointAnomaly | None:
    stated, counted = point.stated_rps, point.achieved_rps
    if stated is None or not counted or abs(stated / counted - 1.0) <= 0.02:
        return None
    return _anomaly(
        Flag.RATE_DISAGREES,
        Severity.NOTE,
        f"The tool prints {_rate(stated)}, completed requests over duration give {_rate(counted)}; the count is used.",
    )


def decode_time_disagrees(point: Point) -> PointAnomaly | None:
    """Time per token against the time and the tokens it was taken over."""
    e2e, ttft = point.latency(Definition.E2E), point.latency(Definition.TTFT)
    per_token = point.latency(Definition.TPOT, Definition.ITL_PER_REQUEST_BY_TOKEN, Definition.ITL_PER_REQUEST)
    tokens = point.mean_output_tokens
    if e2e is None or ttft is None or per_token is None or tokens is None or tokens < 3:
        return None
    if e2e.mean_s is None or ttft.mean_s is None or not per_token.mean_s:
        return None
    implied_s = (e2e.mean_s - ttft.mean_s) / (tokens - 1.0)
    if 1 / SAME_DECODE_FACTOR <= implied_s / per_token.mean_s <= SAME_DECODE_FACTOR:
        return None
    return _anomaly(
        Flag.DECODE_TIME_DISAGREES,
        Severity.CAUTION,
        f"{per_token.definition} is {_time(per_token.mean_s)} on average, but E2E less TTFT over the mean output of "
        f"{brief_number(tokens)} tokens gives {_time(implied_s)} a token: the tool counted chunks, not tokens, or very "
        "unequal answers. Prefer E2E and TTFT.",
    )


def concurrency_disagrees(point: Point) -> PointAnomaly | None:
    """Little's law: completed a second times mean E2E is the number in flight."""
    little, cap = point.little_concurrency_count, point.load.concurrency_cap_count
    stated = point.mean_concurrency_count
    if little is None:
        return None
    if stated and abs(little / stated - 1.0) > 0.15:
        return _anomaly(
            Flag.LITTLES_LAW,
            Severity.NOTE,
            f"The tool states {brief_number(stated)} requests in flight, rate times mean E2E gives "
            f"{brief_number(little)}: the run is short against its requests, or one of the three is off.",
        )
    enough = point.completed_count is not None and cap is not None and point.completed_count >= 8 * cap
    if point.load.loop is Loop.CLOSED and cap is not None and enough and little < 0.7 * cap:
        return _anomaly(
            Flag.CLIENT_LIMITED,
            Severity.CAUTION,
            f"{cap} clients were to be busy, but rate times mean E2E keeps only {brief_number(little)} in flight: the "
            "clients paused between requests, or E2E is in a smaller unit than stated.",
        )
    return None


def many_failed(point: Point) -> PointAnomaly | None:
    sent = point.sent_count
    if not sent or not point.failed_count or point.failed_count < 0.01 * sent:
        return None
    share = point.failed_count / sent
    return _anomaly(
        Flag.FAILURES,
        Severity.SERIOUS if share > 0.05 else Severity.CAUTION,
        f"{point.failed_count:,} of {sent:,} requests failed ({share * 100:.1f} %): latency is that of the survivors.",
    )


def many_unfinished(point: Point) -> PointAnomaly | None:
    sent = point.sent_count
    if not sent or not point.unfinished_count or point.unfinished_count < 0.1 * sent:
        return None
    return _anomaly(
        Flag.UNFINISHED,
        Severity.CAUTION,
        f"{point.unfinished_count:,} of {sent:,} requests were still in flight when the point ended: the slow ones are "
        "missing from its latencies.",
    )


def too_few_requests(point: Point) -> PointAnomaly | None:
    tails = any(fraction >= 0.99 for latency in point.latencies for fraction, _ in latency.percentiles)
    if not tails or point.completed_count is None or not 0 < point.completed_count < 100:
        return None
    return _anomaly(
        Flag.FEW_REQUESTS,
        Severity.NOTE,
        f"A p99 over {point.completed_count} requests is their slowest one or two, not a percentile.",
    )


def requests_sampled(point: Point) -> PointAnomaly | None:
    expected = point.sent_count if point.sent_count is not None else point.completed_count
    if not point.requests or expected is None or len(point.requests) >= expected:
        return None
    return _anomaly(
        Flag.REQUESTS_SAMPLED,
        Severity.NOTE,
        f"The file keeps {len(point.requests):,} of {expected:,} requests: a share can be recounted, a rate cannot.",
    )


def percentiles_cross(point: Point) -> PointAnomaly | None:
    for latency in point.latencies:
        for (low, low_s), (high, high_s) in zip(latency.percentiles, latency.percentiles[1:], strict=False):
            if low_s > high_s * (1.0 + 1e-9):
                return _anomaly(
                    Flag.PERCENTILES_CROSS,
                    Severity.SERIOUS,
                    f"{latency.definition} has p{low * 100:g} at {_time(low_s)}, above p{high * 100:g} at "
                    f"{_time(high_s)}.",
                )
    return None


CHECKS: tuple[Callable[[Point], PointAnomaly | None], ...] = (
    unit_uncertain,
    load_not_kept,
    late_client,
    many_failed,
    percentiles_cross,
    tokens_miscounted,
    histogram_too_coarse,
    decode_time_disagrees,
    many_unfinished,
    concurrency_disagrees,
    rate_disagrees,
    requests_sampled,
    too_few_requests,
)


def _drain_fraction(point: Point, offered_rps: float, count: int) -> float:
    """The share of the offered rate that a run keeps when it also waits for its last answers."""
    sending_s = count / offered_rps
    return sending_s / (sending_s + _last_answer_s(point))


def _last_answer_s(point: Point) -> float:
    """How long the last answer takes on a server that keeps up: without the queue that the slowest first token saw.

    Where a file states no E2E, it is a first token and the tokens after it, of an answer half as long again as most.
    """
    e2e, ttft = point.latency(Definition.E2E), point.latency(Definition.TTFT)
    tpot, tokens = point.latency(Definition.TPOT, Definition.ITL_PER_REQUEST), point.mean_output_tokens
    first_s = 0.0 if ttft is None else ttft.at(0.5) or ttft.mean_s or 0.0
    queue_s = 0.0 if ttft is None else max(0.0, _longest_s(ttft) - first_s)
    if e2e is not None:
        return max(_longest_s(e2e) - queue_s, 0.0)
    # The longest of single gaps is no answer's pace, so that of pooled ones the mean is taken.
    pooled = point.latency(Definition.ITL_POOLED)
    pace_s = _longest_s(tpot) if tpot is not None else None if pooled is None else pooled.middle_s
    if pace_s is None or tokens is None:
        return first_s
    lengths = point.tokens.output_lengths
    longest = lengths.max_tokens if lengths is not None and lengths.max_tokens else 1.5 * tokens
    return first_s + pace_s * longest


def _longest_s(latency: LatencySummary) -> float:
    known = [latency.max_s, latency.mean_s, *(value for _, value in latency.percentiles)]
    return max((each for each in known if each is not None), default=0.0)


def _cap_was_reached(point: Point, cap: int) -> bool:
    little = point.little_concurrency_count
    return little is not None and little >= 0.85 * cap


def _anomaly(flag: Flag, weight: Severity, sentence: str) -> PointAnomaly:
    return PointAnomaly(flag=flag, weight=weight, sentence=sentence)


def _time(seconds: float) -> str:
    return brief(seconds, DURATION)


def _rate(rps: float) -> str:
    return f"{brief_number(rps, 4)} req/s"
