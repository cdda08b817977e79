"""A load test predicted from a plan before its latencies are looked at, then scored: does the plan hold?

Of the test only what was offered is used: rate or clients, lengths, number of requests, prefix setting. Every statistic
that its file states then has a prediction with a band that holds 8 of 10. The band has four parts: how far the step
model may be off at this load, what queues make of steps as slow and as fast as that, how far a run of so many requests
differs from the next, and for the tail of TTFT how far a single request scatters by itself.

A test is validated where its statistics lie as such bands let expect, and not validated where one of the main ones lies
beyond twice its band, where fewer than half lie inside, or where the test was of something else. What differs is then
looked for by predicting again: without prefix hits, with slower steps, with a client that did not keep up.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ullage.service.calibration.calibration import Measurement, Target
from ullage.service.calibration.hits import are_unknown, prefix_hits
from ullage.service.calibration.observed import observed_statistics
from ullage.service.calibration.prediction import Prediction, pace_band, predict
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import LoadTestReplay, Replayed, replay
from ullage.service.calibration.slowed import SlowedTimes
from ullage.service.loadtests.anomalies import KEPT_UP_FRACTION
from ullage.service.loadtests.loadtest import Flag, Loop, Point
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.step_model import StepModel

# A run of fewer has no percentile worth a verdict.
LEAST_REQUESTS = 30
# 8 of 10 lie inside a band, 99 of 100 inside twice its width.
BEYOND = 2.0
LEAST_INSIDE_FRACTION = 0.5
# Hits below this share are nothing that a plan counts on.
COUNTED_HITS_FRACTION = 0.05
# What explains a difference leaves at most this part of it.
EXPLAINED_FRACTION = 0.5
# Tools do not agree whether the clock of a rate ends with the last answer or a little later.
_RATE_SPREAD = 0.02
_NORMAL_90 = 1.2816
_RESAMPLES = 100
_BLOCK_REQUESTS = 25
_POWERS = (0.4, 0.55, 0.7, 0.85, 1.0)
# How far the first token of one request scatters by itself, as the spread of a logarithm, where it scatters more than
# nine in ten services do: tokenizers, other connections, a scheduler that is late. A simulated one does not, and what
# runs that were calibrated on show beyond the simulated tail is 0.17 in the middle (bench/validate.py).
_REQUEST_SPREAD = 0.4
_REQUEST_SCORES = tuple(NormalDist().inv_cdf((each + 0.5) / 21) for each in range(21))


class Validity(enum.StrEnum):
    VALIDATED = "validated"
    NOT_VALIDATED = "not validated"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class ScoredStatistic:
    """One number of a test: what was predicted, its band, and what was measured."""

    name: str
    unit: str
    predicted_value: float
    low_value: float
    high_value: float
    measured_value: float
    is_main: bool

    @property
    def is_inside(self) -> bool:
        return self.low_value <= self.measured_value <= self.high_value

    @property
    def is_beyond(self) -> bool:
        """Further out than a band of twice this width, on its side."""
        if self.measured_value <= 0 or self.predicted_value <= 0:
            return self.measured_value != self.predicted_value
        off = math.log(self.measured_value / self.predicted_value)
        room = (
            math.log(self.high_value / self.predicted_value)
            if off > 0
            else math.log(self.predicted_value / max(self.low_value, 1e-12))
        )
        return abs(off) > BEYOND * room

    @property
    def ratio(self) -> float:
        """Measured over predicted; nan where nothing is predicted."""
        return self.measured_value / self.predicted_value if self.predicted_value > 0 else math.nan


@dataclass(frozen=True, kw_only=True)
class ValidityReason:
    """Why a test is not validated, or cannot tell: `name` is stable, the sentence is for people."""

    name: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class ValidatedPoint:
    """One point of a load test, predicted and scored."""

    name: str
    requests: int | None
    verdict: Validity
    reasons: tuple[ValidityReason, ...]
    statistics: tuple[ScoredStatistic, ...]

    @property
    def inside_count(self) -> int:
        return sum(each.is_inside for each in self.statistics)


@dataclass(frozen=True, kw_only=True)
class PlannedReplica:
    """What a plan says of the replica that was tested: its step model, and the share of prompts it counts as cached."""

    step: StepModel
    cached_fraction: float


def validate_point(
    planned: PlannedReplica, point: Point, terms: RepeatTerms, *, others: Sequence[EvidenceAnomaly] = ()
) -> ValidatedPoint:
    """Predict one point and score it. `others` is what the file states otherwise than the plan's replica."""
    assumed = _with_planned_hits(planned, point, terms)
    trial = trial_of(point, assumed)
    reasons = [ValidityReason(name=each.name, sentence=each.sentence) for each in others]
    if isinstance(trial, NotRepeatable):
        reasons.append(ValidityReason(name="not_repeatable", sentence=f"{point.name} {trial.reason}."))
        return _judged(point, reasons, (), is_few=True)
    targets = observed_statistics(point)
    statistics, simulated = _scored(planned.step, point, trial, targets, terms.replicas or point.subject.replicas or 1)
    if (client := _client(point, statistics, simulated)) is not None:
        reasons.append(client)
    hits = _hits(planned, point, terms)
    if hits is not None and hits.name == "prefix_cache":
        reasons.append(hits)
    count = point.completed_count
    if not targets or (count is not None and count < LEAST_REQUESTS):
        few = f"{point.name} has {count or 0} requests: too few for a verdict, which takes {LEAST_REQUESTS}."
        none = f"{point.name} states no latency and no rate."
        reasons.append(ValidityReason(name="few_requests", sentence=few if targets else none))
        return _judged(point, reasons, statistics, is_few=True)
    if not reasons and _differs(statistics):
        reasons += _what_differs(planned, point, trial, statistics)
    if not reasons and hits is not None:
        return replace(_judged(point, [hits], statistics), verdict=Validity.CANNOT_TELL)
    return _judged(point, reasons, statistics)


def together(points: Sequence[ValidatedPoint]) -> Validity:
    """The verdict of several: one that is not validated decides, and one that is stands for those that cannot tell."""
    found = {each.verdict for each in points}
    for verdict in (Validity.NOT_VALIDATED, Validity.VALIDATED):
        if verdict in found:
            return verdict
    return Validity.CANNOT_TELL


def _judged(
    point: Point, reasons: Sequence[ValidityReason], statistics: Sequence[ScoredStatistic], *, is_few: bool = False
) -> ValidatedPoint:
    weak = {"few_requests", "not_repeatable"}
    if any(each.name not in weak for each in reasons):
        verdict = Validity.NOT_VALIDATED
    else:
        verdict = Validity.CANNOT_TELL if is_few or reasons else Validity.VALIDATED
    return ValidatedPoint(
        name=point.name,
        requests=point.completed_count,
        verdict=verdict,
        reasons=tuple(reasons),
        statistics=tuple(statistics),
    )


def _differs(statistics: Sequence[ScoredStatistic]) -> bool:
    inside = sum(each.is_inside for each in statistics)
    return any(each.is_main and each.is_beyond for each in statistics) or inside < LEAST_INSIDE_FRACTION * len(
        statistics
    )


# ---- prediction ----------------------------------------------------------------------------------------


def _with_planned_hits(planned: PlannedReplica, point: Point, terms: RepeatTerms) -> RepeatTerms:
    """Where nobody says how much of a test's prompts was cached, they are the plan's: that is what is on trial."""
    if terms.cached_fraction is None and are_unknown(point):
        return replace(terms, cached_fraction=planned.cached_fraction)
    return terms


def _scored(
    step: StepModel, point: Point, trial: LoadTestReplay, targets: Sequence[Target], replicas: int
) -> tuple[tuple[ScoredStatistic, ...], Replayed]:
    asked = tuple(targets)
    found = predict(step, Measurement(name=point.name, trial=trial, targets=(), shown=asked))
    simulated = replay(step, trial)
    fast, slow = (
        replay(SlowedTimes(times=step, ratio=ratio), trial) for ratio in pace_band(step, trial, found.doublings)
    )
    is_exact = _is_exact(point)
    # Where no request of a simulated test ends there is no latency to compare: the share that is answered says it all.
    known = [each for each in targets if all(each.of(run) > 0 for run in (simulated, fast, slow))]
    scored = [_statistic(each, found, (simulated, fast, slow), is_exact=is_exact) for each in known]
    counted = (_rate(point, (simulated, fast, slow), replicas, is_exact=is_exact), _success(point, found))
    return (*scored, *(each for each in counted if each is not None)), simulated


def _statistic(
    target: Target, found: Prediction, runs: tuple[Replayed, Replayed, Replayed], *, is_exact: bool
) -> ScoredStatistic:
    """The band of one statistic: of the model's error and chance together, and not inside what queues make of it."""
    simulated, fast, slow = runs
    value = target.of(simulated)
    key = (target.latency, target.statistic)
    low, high = next((each.low_s, each.high_s) for each in found.latencies if (each.latency, each.statistic) == key)
    # A tail is the luck of a few requests, also where all of them are known.
    is_chance = not is_exact or target.statistic not in ("mean", "p50")
    chance = _chance(simulated, target) if is_chance else 0.0
    down, up = (math.hypot(math.log(ratio), _NORMAL_90 * chance) for ratio in (value / low, high / value))
    up = math.hypot(up, _own_scatter(simulated, target))
    ends = (target.of(fast), target.of(slow))
    return ScoredStatistic(
        name=f"{target.latency} {target.statistic}",
        unit="s",
        predicted_value=value,
        low_value=min(value * math.exp(-down), *ends),
        high_value=max(value * math.exp(up), *ends),
        measured_value=target.value,
        is_main=target.statistic in ("mean", "p50"),
    )


def _own_scatter(simulated: Replayed, target: Target) -> float:
    """How much further out a tail of TTFT may lie because requests scatter by themselves, as a logarithm.

    It only ever widens a tail, and leaves the middle where it is.
    """
    if target.latency not in ("ttft", "engine_ttft") or target.statistic in ("mean", "p50"):
        return 0.0
    fraction = float(target.statistic.removeprefix("p"))
    scattered = np.outer(simulated.ttft_s, np.exp(_REQUEST_SPREAD * np.array(_REQUEST_SCORES)))
    own, more = np.percentile(simulated.ttft_s, fraction), np.percentile(scattered, fraction)
    return max(0.0, math.log(float(more / own)))


def _rate(
    point: Point, runs: tuple[Replayed, Replayed, Replayed], replicas: int, *, is_exact: bool
) -> ScoredStatistic | None:
    """Requests that were answered a second. Tokens would be as good, if all tools counted them alike."""
    if not point.achieved_rps or point.load.loop is Loop.BURST:
        return None
    value, *ends = (replicas * each.ttft_s.size / each.duration_s for each in runs)
    chance = 0.0 if is_exact else 1.0 / math.sqrt(max(runs[0].ttft_s.size, 1))
    room = math.exp(math.hypot(_RATE_SPREAD, _NORMAL_90 * chance))
    return ScoredStatistic(
        name="requests a second",
        unit="req/s",
        predicted_value=value,
        low_value=min(value / room, *ends),
        high_value=max(value * room, *ends),
        measured_value=point.achieved_rps,
        is_main=True,
    )


def _is_exact(point: Point) -> bool:
    """Whether the very requests of the test are simulated, at their own times: chance then moves both alike."""
    return point.has_every_request and all(each.sent_s is not None and each.prompt_tokens for each in point.requests)


def _chance(simulated: Replayed, target: Target) -> float:
    """The spread of a statistic's logarithm over runs of the same kind, from resampled stretches of this one.

    Requests next to each other met the same queue, so that they are drawn a stretch at a time.
    """
    values = {"ttft": simulated.ttft_s, "engine_ttft": simulated.ttft_s, "tpot": simulated.tpot_s}.get(
        target.latency, simulated.e2e_s
    )
    if values.size < 2:
        return 0.0
    block = max(1, min(_BLOCK_REQUESTS, values.size // 4))
    rng = np.random.default_rng(0)
    starts = rng.integers(0, values.size - block + 1, (_RESAMPLES, -(-values.size // block)))
    rows = values[(starts[:, :, None] + np.arange(block)).reshape(_RESAMPLES, -1)[:, : values.size]]
    if target.statistic == "mean":
        drawn = rows.mean(axis=1)
    else:
        drawn = np.percentile(rows, float(target.statistic.removeprefix("p")), axis=1)
    return float(np.log(np.maximum(drawn, 1e-9)).std())


def _success(point: Point, found: Prediction) -> ScoredStatistic | None:
    """The share that was answered, where clients gave up on some; without a deadline all are, sooner or later."""
    if not point.sent_count or point.completed_count is None:
        return None
    measured = point.completed_count / point.sent_count
    if found.success_low_fraction >= 1.0 and measured >= 1.0:
        return None
    room = 1.0 / math.sqrt(point.sent_count)
    return ScoredStatistic(
        name="success share",
        unit="fraction",
        predicted_value=found.success_fraction,
        low_value=max(found.success_low_fraction - room, 0.0),
        high_value=min(found.success_high_fraction + room, 1.0),
        measured_value=measured,
        is_main=True,
    )


# ---- what differs --------------------------------------------------------------------------------------


def _client(point: Point, statistics: Sequence[ScoredStatistic], simulated: Replayed) -> ValidityReason | None:
    """A client that did not send what it was told to, while the server was not busier than predicted."""
    load = point.load
    late = next(
        (each for each in point.anomalies if each.flag in (Flag.CLIENT_LIMITED, Flag.COORDINATED_OMISSION)), None
    )
    if late is not None:
        return ValidityReason(name="client", sentence=f"{point.name}: the client was the bottleneck. {late.sentence}")
    if load.loop not in (Loop.OPEN, Loop.TRACE) or not load.offered_rps or not point.achieved_rps:
        return None
    reached = point.sent_rps if point.sent_rps is not None else point.achieved_rps
    count = point.completed_count or 1
    if reached >= (KEPT_UP_FRACTION - 2.0 / math.sqrt(count)) * load.offered_rps:
        return None
    kept_rps = simulated.ttft_s.size / simulated.duration_s
    latencies = [each for each in statistics if each.is_main and each.unit == "s"]
    is_flat = all(each.measured_value <= each.high_value for each in latencies)
    # A server that is too slow shows in its latencies, and one that is full would be full in the prediction as well.
    if not latencies or not is_flat or kept_rps < KEPT_UP_FRACTION * reached:
        return None
    return ValidityReason(
        name="client",
        sentence=f"{point.name}: {load.offered_rps:.3g} req/s were offered and {reached:.3g} req/s arrived, while no "
        "latency is above what is "
        "predicted: the client was the bottleneck, and the offered rate was not tested.",
    )


def _hits(planned: PlannedReplica, point: Point, terms: RepeatTerms) -> ValidityReason | None:
    """What a test says of prefix hits against what the plan counts on; None where the two are alike or nobody knows."""
    if planned.cached_fraction < COUNTED_HITS_FRACTION or are_unknown(point) or terms.cached_fraction is not None:
        return None
    tokens = point.tokens
    stated = tokens.cached_fraction
    if stated is None and tokens.cached_prompt_tokens is not None and tokens.prompt_tokens:
        stated = tokens.cached_prompt_tokens / tokens.prompt_tokens
    if stated is not None and stated < COUNTED_HITS_FRACTION:
        return ValidityReason(
            name="prefix_cache",
            sentence=f"{point.name}: {stated:.0%} of the prompt tokens were prefix hits, but the plan assumes "
            f"{planned.cached_fraction:.0%}: the prefix cache was off, or the prompts had nothing in common.",
        )
    prompts = np.full(1, 1000, np.int32)
    if stated is None and prefix_hits(point, None, prompts, ()) is None:
        return ValidityReason(
            name="no_hits_offered",
            sentence=f"{point.name}: its prompts had nothing in common, so it says nothing about the "
            f"{planned.cached_fraction:.0%} of prefix hits that the plan assumes.",
        )
    return None


def _what_differs(
    planned: PlannedReplica, point: Point, trial: LoadTestReplay, statistics: Sequence[ScoredStatistic]
) -> Iterator[ValidityReason]:
    """The cause that explains most of the difference; without one, the statistics that differ."""
    first, token = (_main(statistics, latency) for latency in ("ttft", "tpot"))
    main = [each for each in (first, token) if each is not None]
    before = sum(abs(math.log(each.ratio)) for each in main if each.ratio > 0)
    causes = []
    if first is not None and (bare := _without_hits(planned.step, trial, first)) is not None:
        causes.append((_left(bare, main), _prefix_reason(point, trial, first, bare)))
    if token is not None and token.is_beyond:
        # Slower steps keep more sequences running, which slows steps again: the pace itself is off by less than TPOT.
        paces = (SlowedTimes(times=planned.step, ratio=token.ratio**power) for power in _POWERS)
        causes.append((min(_left(replay(each, trial), main) for each in paces), _step_reason(point, token)))
    left, best = min(causes, key=lambda each: each[0], default=(math.inf, None))
    if best is not None and left > EXPLAINED_FRACTION * before:
        best = next((each for _, each in causes if each.name == "steps"), None)
    if best is not None:
        yield best
        return
    off = [each for each in statistics if each.is_main and each.is_beyond]
    off = off or [each for each in statistics if not each.is_inside]
    said = ", ".join(f"{each.name} {each.ratio:.2f} times" for each in off)
    yield ValidityReason(name="statistics", sentence=f"{point.name}: measured over predicted, {said}.")


def _left(run: Replayed, main: Sequence[ScoredStatistic]) -> float:
    """How far the main latencies lie from those of a run, as logarithms."""
    pairs = [(each.measured_value, run.statistic(*each.name.split(" "))) for each in main]
    return sum(abs(math.log(measured / value)) for measured, value in pairs if measured > 0 and value > 0)


def _main(statistics: Sequence[ScoredStatistic], latency: str) -> ScoredStatistic | None:
    """The median of a latency, or its mean where a file has no median."""
    found = {each.name: each for each in statistics}
    return found.get(f"{latency} p50") or found.get(f"{latency} mean")


def _without_hits(step: StepModel, trial: LoadTestReplay, first: ScoredStatistic) -> Replayed | None:
    """The test without a prefix cache, where first tokens came later than they should and there were hits to lose."""
    if not first.is_beyond or first.ratio <= 1.0 or trial.cached_tokens is None:
        return None
    share = float(trial.cached_tokens.sum() / trial.prompt_tokens.sum())
    return None if share < COUNTED_HITS_FRACTION else replay(step, replace(trial, cached_tokens=None))


def _prefix_reason(point: Point, trial: LoadTestReplay, first: ScoredStatistic, bare: Replayed) -> ValidityReason:
    assert trial.cached_tokens is not None
    share = float(trial.cached_tokens.sum() / trial.prompt_tokens.sum())
    without_s = bare.statistic(*first.name.split(" "))
    return ValidityReason(
        name="prefix_cache",
        sentence=f"{point.name}: {first.name} was {first.measured_value:.3g} s; {first.predicted_value:.3g} s is "
        f"predicted with {share:.0%} of the prompts cached and {without_s:.3g} s with none: the prefix cache was off, "
        "or was not hit.",
    )


def _step_reason(point: Point, token: ScoredStatistic) -> ValidityReason:
    longer = "longer" if token.ratio > 1 else "shorter"
    return ValidityReason(
        name="steps",
        sentence=f"{point.name}: tokens took {token.ratio:.2f} times what is predicted ({token.measured_value:.3g} s, "
        f"band {token.low_value:.3g} to {token.high_value:.3g} s): steps are {longer}. Check the device and its "
        "clocks, the engine's version and flags, the quantisation, and neighbours on the device; then calibrate on "
        "this test.",
    )
