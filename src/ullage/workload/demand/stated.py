"""What a user states of a class's traffic beyond its rate: lengths, growth, the busiest hour, planned events.

Whatever is not stated is taken from a class of the built-in profile; whatever is stated takes its place.
Lengths are stated as percentiles, because an average says nothing about the requests that fill the memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source, number
from ullage.workload.demand.outcomes import ClassOutcomes
from ullage.workload.demand.users import StatedUsers
from ullage.workload.synthetic.model import FRACTIONS, WEEK_S, ClassModel, LengthModel

_LARGEST_POWER = 700.0  # of e, in a float


@dataclass(frozen=True, kw_only=True)
class BusiestWeek:
    """How far the busiest week of the horizon is above today's, as a formula too, and the event that it lies in."""

    ratio: float
    formula: str
    events: tuple[Assumption, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BorrowedLengths:
    """Lengths of a class whose trace has none, and where they come from: another log, or the built-in profile."""

    model: LengthModel
    source: Source
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class StatedShape:
    """None, or nothing listed, leaves a part to the built-in class that is most alike.

    `model` is a whole synthetic model of the class, with its own source in `model_source`. `prompt` and `output` map
    percentiles, as fractions, to tokens. `events` are ratios of demand during planned events inside the horizon, which
    begin and end so long after its beginning (`event_spans_s`); without a time they may come at any time of it.
    `cached` is the share of prompt tokens that a prefix cache holds. `drift` is what the rate may have drifted by since
    it was past its maximum age; `has_old_lengths` says that a trace's lengths are past theirs. `band` is how wide the
    bands of earlier forecasts of the class would have had to be, over what they were.
    """

    model: ClassModel | None = None
    model_source: Source | None = None
    weekly_growth: Assumption | None = None
    peak_hour: Assumption | None = None
    prompt: Mapping[float, Assumption] | None = None
    output: Mapping[float, Assumption] | None = None
    events: tuple[Assumption, ...] = ()
    event_spans_s: tuple[tuple[float, float], ...] = ()
    cached: Assumption | None = None
    outcomes: ClassOutcomes | None = None
    users: StatedUsers | None = None
    drift: Assumption | None = None
    has_old_lengths: bool = False
    band: Assumption | None = None

    def __post_init__(self) -> None:
        if self.peak_hour is not None and float(self.peak_hour.value) < 1.0:
            raise InputError(
                field=self.peak_hour.name,
                value=self.peak_hour.value,
                problem="is below 1, and the busiest hour of a week is not below the week's mean",
                fix="Give the busiest hour over the mean, for example 1.5.",
            )
        if self.weekly_growth is not None and float(self.weekly_growth.value) <= -1.0:
            raise InputError(
                field=self.weekly_growth.name,
                value=self.weekly_growth.value,
                problem="leaves no traffic after a week",
                fix="Give a share above -100%, for example -2%.",
            )

    @property
    def widened(self) -> tuple[Assumption, ...]:
        """What makes the band of its rate another than the forecast's own."""
        return tuple(each for each in (self.drift, self.band) if each is not None)

    @property
    def lengths(self) -> dict[str, tuple[Assumption, ...]]:
        """What was stated of each side; empty where nothing was."""
        return {"prompt": tuple((self.prompt or {}).values()), "output": tuple((self.output or {}).values())}

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        lengths = [each for side in self.lengths.values() for each in side]
        single = [each for each in (self.weekly_growth, self.peak_hour) if each is not None]
        single += [self.cached] if self.cached is not None else []
        ends = () if self.outcomes is None else self.outcomes.inputs
        users = () if self.users is None else self.users.inputs
        return (*single, *lengths, *self.events, *ends, *users)

    def busiest(self, weekly_growth: float, horizon_s: float) -> BusiestWeek:
        """Traffic that grows is busiest at the end of the horizon, traffic that shrinks today, or either in an event.

        An event comes on top of what traffic has become by then: by its last day where it grows, by its first where it
        shrinks. The largest decides, not the sum of several.
        """

        def grown(after_s: float) -> float:
            power = min(max(after_s, 0.0), horizon_s) / WEEK_S * math.log1p(weekly_growth)
            return math.inf if power > _LARGEST_POWER else math.exp(power)

        shrinks = weekly_growth < 0.0
        best = BusiestWeek(ratio=1.0, formula="1, today") if shrinks else BusiestWeek(
            ratio=grown(horizon_s), formula="(1 + weekly growth)^weeks"
        )  # fmt: skip
        for event, span_s in zip(self.events, self.event_spans_s or itertools.repeat((0.0, horizon_s)), strict=False):
            ratio = number(event) * grown(span_s[0] if shrinks else span_s[1])
            if ratio > best.ratio:
                until = f"(1 + weekly growth)^(weeks until the event {'begins' if shrinks else 'ends'})"
                best = BusiestWeek(ratio=ratio, formula=f"{until} x the largest event", events=(event,))
        return best


def with_lengths(model: ClassModel, shape: StatedShape, *, longest_tokens: int) -> ClassModel:
    """The model with the lengths that were stated, none beyond the longest context."""
    lengths = model.lengths
    if shape.prompt is not None:
        lengths = replace(lengths, prompt_tokens=_quantiles(model.name, "prompt", shape.prompt, longest_tokens))
    if shape.output is not None:
        lengths = replace(lengths, output_tokens=_quantiles(model.name, "output", shape.output, longest_tokens))
    return replace(model, lengths=_within(lengths, shape, longest_tokens))


def _quantiles(name: str, side: str, stated: Mapping[float, Assumption], longest_tokens: int) -> tuple[float, ...]:
    """A distribution through the stated percentiles: straight in normal score and logarithm, as a lognormal is.

    One percentile alone gets the spread of a lognormal whose 95th is four times its median, as chat has.
    """
    known = sorted((fraction, float(each.value)) for fraction, each in stated.items())
    for (_, low), (fraction, high) in itertools.pairwise(known):
        if high < low:
            raise InputError(
                field=f"workload.classes.{name}.{side}.p{100 * fraction:g}",
                value=high,
                problem="is less than a lower percentile",
                fix="Give percentiles that rise.",
            )
    scores = [NormalDist().inv_cdf(fraction) for fraction, _ in known]
    logs = [math.log(max(1.0, tokens)) for _, tokens in known]
    slope = math.log(4.0) / NormalDist().inv_cdf(0.95)
    if len(known) > 1:
        slope = (logs[-1] - logs[0]) / (scores[-1] - scores[0])
    found = []
    for fraction in FRACTIONS:
        # The ends of a distribution are where one request in ten thousand lies.
        score = NormalDist().inv_cdf(min(max(fraction, 1e-4), 1 - 1e-4))
        found.append(min(float(longest_tokens - 1), math.exp(_line(score, scores, logs, slope))))
    return tuple(max(1.0, round(each)) for each in found)


def _line(score: float, scores: Sequence[float], logs: Sequence[float], slope: float) -> float:
    """Between known points straight, beyond them on with the overall slope."""
    if score <= scores[0]:
        return logs[0] + slope * (score - scores[0])
    if score >= scores[-1]:
        return logs[-1] + slope * (score - scores[-1])
    at = next(index for index, each in enumerate(scores) if each >= score)
    share = (score - scores[at - 1]) / (scores[at] - scores[at - 1])
    return logs[at - 1] + share * (logs[at] - logs[at - 1])


def _within(lengths: LengthModel, shape: StatedShape, longest_tokens: int) -> LengthModel:
    """The side that was not stated is truncated to what the other leaves of the longest context."""
    room = longest_tokens - (lengths.output_tokens[-1] if shape.output is not None else lengths.prompt_tokens[-1])
    room = max(1.0, room)
    if shape.prompt is None:
        return replace(lengths, prompt_tokens=tuple(min(each, room) for each in lengths.prompt_tokens))
    if shape.output is None:
        return replace(lengths, output_tokens=tuple(min(each, room) for each in lengths.output_tokens))
    # Both stated: the longest of one must leave room for the longest of the other.
    left = max(1.0, longest_tokens - lengths.output_tokens[-1])
    return replace(lengths, prompt_tokens=tuple(min(each, left) for each in lengths.prompt_tokens))
