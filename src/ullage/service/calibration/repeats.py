"""From a point of a load test to the trial that repeats it, and the numbers to compare.

Where the file kept its requests, their own lengths and sending times are used. Where it kept sums, lengths follow the
tool's rule (lengths.py), and an open loop gets arrivals of its rate and burstiness. What cannot be repeated is refused
with the reason, never filled in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ullage.service.calibration.calibration import Measurement, Target
from ullage.service.calibration.hits import prefix_hits
from ullage.service.calibration.lengths import lengths_of_test
from ullage.service.calibration.replay import ApartTest, EngineLimits, LoadTestReplay
from ullage.service.loadtests.anomalies import KEPT_UP_FRACTION
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    Point,
    SeenBy,
    Status,
)
from ullage.service.steps.work import Floats

# Which definitions can be compared with a simulated TPOT: one value a request, without the first token.
TPOT_DEFINITIONS = (Definition.TPOT, Definition.ITL_PER_REQUEST)
CAP_REACHED_FRACTION = 0.5
"""Of a cap that binds, so much is under way on average even in a run that is short against its first and last."""
NOT_STATED = "the split is not stated"
BY_CHUNK = (Flag.DECODE_TIME_DISAGREES,)


@dataclass(frozen=True, kw_only=True)
class NotRepeatable:
    """A point that cannot be simulated, and why."""

    point: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class LaunchFlags:
    """How the engine was started for tests of so many clients or more, where it was not started alike for all.

    None is as for the tests below.
    """

    least_clients: int
    budget_tokens: int | None = None
    poll_steps: int | None = None
    batch_wait_steps: int | None = None

    def on(self, limits: EngineLimits) -> EngineLimits:
        return replace(
            limits,
            budget_tokens=self.budget_tokens or limits.budget_tokens,
            poll_steps=self.poll_steps or limits.poll_steps,
            batch_wait_steps=self.batch_wait_steps or limits.batch_wait_steps,
        )


@dataclass(frozen=True, kw_only=True)
class RepeatTerms:
    """What a file does not say of a test, or is overruled in: the engine's limits, and what the user states.

    `replicas` are those that shared the load behind one address; a test of several is repeated on one of them with its
    part of the load. `cached_fraction` is the share of prompt tokens that were prefix hits, `timeout_s` when clients
    gave up. `are_limits_stated` says that the user stated the scheduler's limits, which then overrule those of a file.
    `launches` are the flags of tests of higher loads. `apart` are the two pools of tests whose prefill and decode were
    apart.
    """

    limits: EngineLimits
    replicas: int | None = None
    cached_fraction: float | None = None
    timeout_s: float | None = None
    are_limits_stated: bool = False
    launches: tuple[LaunchFlags, ...] = ()
    apart: ApartTest | None = None

    def limits_of(self, point: Point) -> EngineLimits:
        """The limits of the engine as this point ran on it."""
        limits, clients = self._limits_of(point.subject), point.load.concurrency_cap_count or 0
        for each in sorted(self.launches, key=lambda launch: launch.least_clients):
            limits = each.on(limits) if clients >= each.least_clients else limits
        return limits

    def _limits_of(self, subject: LoadTestSubject) -> EngineLimits:
        """The limits of the engine that was tested. Nobody knows its cache better than itself."""
        limits = replace(self.limits, kv_tokens=subject.kv_tokens or self.limits.kv_tokens)
        if self.are_limits_stated:
            return limits
        return replace(
            limits,
            max_sequences=subject.max_sequences or self.limits.max_sequences,
            budget_tokens=subject.step_tokens or self.limits.budget_tokens,
            poll_steps=subject.poll_steps or self.limits.poll_steps,
        )


def measurement_of(point: Point, terms: RepeatTerms) -> Measurement | NotRepeatable:
    """The trial and targets of a point."""
    found = repeatable(point, terms)
    if isinstance(found, Measurement) and not found.targets:
        return NotRepeatable(point=point.name, reason="states neither TTFT nor TPOT")
    return found


def repeatable(point: Point, terms: RepeatTerms) -> Measurement | NotRepeatable:
    """The trial of a point, with what was measured, where anything was."""
    found = trial_of(point, terms)
    if isinstance(found, NotRepeatable):
        return found
    answered = _answered_fraction(point)
    replicas = 1 if terms.apart is not None else terms.replicas or point.subject.replicas or 1
    # Of a test with failures the tools count the tokens of answers alone, and the engine made others too.
    tokens_per_s = point.output_tokens_per_s if answered in (None, 1.0) else None
    return Measurement(
        name=point.name,
        trial=found,
        targets=_targets(point),
        shown=_shown(point),
        answered_fraction=answered,
        output_tokens_per_s=None if tokens_per_s is None else tokens_per_s / replicas,
    )


def _answered_fraction(point: Point) -> float | None:
    sent = point.sent_count
    return point.completed_count / sent if sent and point.completed_count is not None else None


def trial_of(point: Point, terms: RepeatTerms) -> LoadTestReplay | NotRepeatable:
    """The test as it was run, on one replica.

    Lengths and arrivals that the file did not keep are drawn, the same ones every time and whatever lies beside them:
    a test that is simulated again gives the numbers that it was fitted with.
    """
    unknown = _not_apart(point, terms)
    if unknown is not None:
        return unknown
    rng = np.random.default_rng(0)
    # Both pools of a test that was apart are simulated with all of its requests.
    replicas = 1 if terms.apart is not None else terms.replicas or point.subject.replicas or 1
    limits = terms.limits_of(point)
    requests = _in_order(point)
    if point.has_every_request and not requests:
        return NotRepeatable(point=point.name, reason="keeps every request, and none of them succeeded")
    lengths = lengths_of_test(point, requests, rng=rng)
    if lengths is None:
        return NotRepeatable(point=point.name, reason="states no prompt or output lengths")
    # A router that balances gives each of several replicas every so-manieth request.
    prompt, output = lengths.prompt_tokens[::replicas], lengths.output_tokens[::replicas]
    hits = prefix_hits(point, terms.cached_fraction, lengths.prompt_tokens, requests)
    waited = in_flight_of_waiting_client(point)
    if point.load.loop is Loop.CLOSED or _is_capped(point) or waited is not None:
        at_once = point.load.concurrency_cap_count or waited
        if at_once is None:
            return NotRepeatable(point=point.name, reason="is a closed loop without its concurrency")
        clients, arrivals = min(max(1, round(at_once / replicas)), prompt.size), None
    else:
        found = _arrivals(point, lengths.prompt_tokens.size, rng)
        if found is None:
            return NotRepeatable(point=point.name, reason="is an open loop without its rate")
        clients, arrivals = None, found[::replicas] - found[0]
    return LoadTestReplay(
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=None if hits is None else hits.cached_tokens[::replicas],
        limits=limits if hits is None else hits.limits(limits, prompt, output),
        clients=clients,
        arrival_s=arrivals,
        timeout_s=terms.timeout_s or point.load.timeout_s,
        apart=terms.apart,
    )


def _not_apart(point: Point, terms: RepeatTerms) -> NotRepeatable | None:
    """Why a test of two pools cannot be repeated, where it cannot."""
    if terms.apart is None and point.subject.is_apart:
        reason = f"ran disaggregated, and {NOT_STATED}: give --prefill and --transfer"
        return NotRepeatable(point=point.name, reason=reason)
    if terms.apart is not None and (terms.timeout_s or point.load.timeout_s):
        return NotRepeatable(point=point.name, reason="has clients that give up, which is not simulated for two pools")
    return None


def _is_capped(point: Point) -> bool:
    """An open loop whose cap binds is a closed one: the server decides when the next request is sent.

    A server that falls behind is not enough for that: the cap binds where the client was late too, and where about as
    many as it allows were under way.
    """
    load, in_flight = point.load, point.little_concurrency_count
    cap = load.concurrency_cap_count
    if cap is None or load.loop is Loop.TRACE:
        return False
    if load.loop is Loop.BURST or not load.offered_rps:
        return True
    least_rps = KEPT_UP_FRACTION * load.offered_rps
    is_late = point.sent_rps is None or point.sent_rps < least_rps
    is_full = in_flight is None or in_flight >= CAP_REACHED_FRACTION * cap
    return (point.achieved_rps or 0.0) < least_rps and is_late and is_full


def in_flight_of_waiting_client(point: Point) -> int | None:
    """How many requests were in flight where a client waited for the server and its own limit is not stated.

    Such a test is a closed loop, whatever rate it was told to send: simulated at the rate that it did send, its queue
    would grow for as long as it ran. None for any other test, and where each request's own time is known.
    """
    load, count = point.load, point.little_concurrency_count or point.mean_concurrency_count
    waited = any(each.flag is Flag.CLOSED_LOOP_SATURATION for each in point.anomalies)
    if not waited or load.loop is not Loop.OPEN or load.concurrency_cap_count is not None or point.has_every_request:
        return None
    return None if not count else max(1, round(count))


def _targets(point: Point) -> tuple[Target, ...]:
    own = _targets_of_requests(point) if point.load.loop is Loop.OPEN and point.has_every_request else ()
    if own:
        return own
    found = []
    for latency, definitions in (("ttft", (Definition.TTFT,)), ("tpot", TPOT_DEFINITIONS)):
        summary = point.latency(*definitions) or (_engine_gaps(point) if latency == "tpot" else None)
        which = None if summary is None else _statistic(summary)
        if which is not None and latency == "tpot" and any(each.flag in BY_CHUNK for each in point.anomalies):
            which = tpot_by_token(point) or which
        if which is not None and summary is not None:
            seen = "engine_ttft" if latency == "ttft" and summary.seen_by is SeenBy.ENGINE else latency
            found.append(Target(latency=seen, statistic=which[0], value=which[1]))
    return tuple(found)


def _shown(point: Point) -> tuple[Target, ...]:
    """The median and the tail of what the client saw, where the file states them."""
    by_chunk = any(each.flag in BY_CHUNK for each in point.anomalies)
    found = []
    for latency, definitions in (("ttft", (Definition.TTFT,)), ("tpot", () if by_chunk else TPOT_DEFINITIONS)):
        summary = point.latency(*definitions)
        if summary is not None and summary.seen_by is SeenBy.CLIENT:
            values = (("p50", summary.at(0.5)), ("p99", summary.at(0.99)))
            found += [Target(latency=latency, statistic=name, value=value) for name, value in values if value]
    return tuple(found)


def _engine_gaps(point: Point) -> LatencySummary | None:
    """The engine's own gaps: one for each token, not for each chunk, so that their mean is the time of a token."""
    gaps = point.latency(Definition.ITL_POOLED)
    return gaps if gaps is not None and gaps.seen_by is SeenBy.ENGINE else None


def tpot_by_token(point: Point) -> tuple[str, float] | None:
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
