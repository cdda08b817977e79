"""The lengths of a load test's requests: those of the file, else by the tool's own rule, else assumed and reported.

Where all requests have one length, the clients of a closed loop march in step: they prefill together, decode together,
and a prompt never meets the decoding of others. A test whose lengths differ does not behave like that, so a mean alone
is not enough to repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.service.calibration.replay import PROMPTS_PER_CLIENT, Counts, uniform_lengths
from ullage.service.loadtests.loadtest import LengthLaw, LengthRule, LengthSummary, MeasuredRequest, Point
from ullage.service.steps.work import Floats

MOST_REQUESTS = 20_000
ASSUMED = LengthRule(law=LengthLaw.UNIFORM, least_fraction=0.8, said_by="assumed")
"""What most published sweeps do, InferenceX's among them: evenly from 80 to 100 % of the nominal length."""
# Both totals divide by so many requests, or one of them by so many, by chance less than once in a hundred.
_LEAST_FOR_FIXED = 10
_LEAST_FOR_ONE_FIXED = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestLengths:
    """Prompt and output tokens by request, and where they come from."""

    prompt_tokens: Counts
    output_tokens: Counts
    said_by: str


def lengths_of_test(
    point: Point, requests: Sequence[MeasuredRequest], *, rng: np.random.Generator
) -> RequestLengths | None:
    """The lengths to repeat a point with; None where the file states none."""
    whole = [each for each in requests if each.prompt_tokens and each.output_tokens]
    if point.has_every_request and len(whole) == len(requests):
        kept = whole[:MOST_REQUESTS]
        return RequestLengths(
            prompt_tokens=np.array([each.prompt_tokens for each in kept], np.int32),
            output_tokens=np.array([each.output_tokens for each in kept], np.int32),
            said_by="the requests of the file",
        )
    tokens = point.tokens
    prompt = point.mean_prompt_tokens
    output = point.mean_output_tokens
    if not (prompt or tokens.nominal_prompt_tokens) or not (output or tokens.nominal_output_tokens):
        return None
    # Those that failed were sent too, and loaded the engine until they did.
    count = point.sent_count or point.completed_count or PROMPTS_PER_CLIENT * (point.load.concurrency_cap_count or 10)
    count = max(1, min(count, MOST_REQUESTS))
    of_prompts, of_outputs = _rule(point, tokens.prompt_tokens), _rule(point, tokens.output_tokens)
    drawn = [
        _drawn(side, mean, nominal, rule, std, count, rng)
        for side, mean, nominal, rule, std in (
            (tokens.prompt_lengths, prompt, tokens.nominal_prompt_tokens, of_prompts, of_prompts.prompt_std_tokens),
            (tokens.output_lengths, output, tokens.nominal_output_tokens, of_outputs, of_outputs.output_std_tokens),
        )
    ]
    said = {where for _, where in drawn}
    return RequestLengths(prompt_tokens=drawn[0][0], output_tokens=drawn[1][0], said_by=", ".join(sorted(said)))


def _rule(point: Point, total_tokens: float | None) -> LengthRule:
    """The tool's, or fixed where totals divide by the requests without a rest, or what is assumed.

    Either side may be fixed alone: prompts of one length have answers that end when they end.
    """
    tokens, count = point.tokens, point.completed_count or 0
    if tokens.rule is not None:
        return tokens.rule
    divide = [each % max(count, 1) == 0 for each in (tokens.prompt_tokens, tokens.output_tokens) if each]
    both = count >= _LEAST_FOR_FIXED and divide == [True, True]
    if both or (count >= _LEAST_FOR_ONE_FIXED and total_tokens and total_tokens % count == 0):
        return LengthRule(law=LengthLaw.FIXED, said_by="totals that divide by the requests")
    return ASSUMED


def _drawn(
    summary: LengthSummary | None,
    mean: float | None,
    nominal: float | None,
    rule: LengthRule,
    std_tokens: float,
    count: int,
    rng: np.random.Generator,
) -> tuple[Counts, str]:
    """Lengths of one side, and who says so; whatever the law, their mean is the file's where it states one."""
    if summary is not None and summary.mean_tokens and (summary.std_tokens is not None or len(summary.percentiles) > 2):
        return _as_whole(_of_summary(summary, count, rng), summary.mean_tokens), "the summary of the file"
    middle = mean or nominal or 1.0
    if rule.law is LengthLaw.FIXED:
        values: Floats = np.full(count, middle)
    elif rule.law is LengthLaw.NORMAL:
        values = rng.normal(middle, std_tokens, count)
    else:
        # The mean of a uniform rule lies between its ends, so that the file's mean tells the nominal length.
        most = nominal or middle * 2.0 / (1.0 + rule.least_fraction)
        drawn = uniform_lengths(max(1, round(most)), count, least_fraction=rule.least_fraction, rng=rng)
        values = drawn.astype(np.float64)
    return _as_whole(values, mean), rule.said_by


def _of_summary(summary: LengthSummary, count: int, rng: np.random.Generator) -> Floats:
    """Drawn between the percentiles that the file states, or around its mean."""
    assert summary.mean_tokens is not None
    low = summary.min_tokens if summary.min_tokens is not None else 1.0
    high = summary.max_tokens if summary.max_tokens is not None else 10.0 * summary.mean_tokens
    if len(summary.percentiles) > 2:
        places = [0.0, *(fraction for fraction, _ in summary.percentiles), 1.0]
        values = [low, *(value for _, value in summary.percentiles), max(high, summary.percentiles[-1][1])]
        if summary.max_tokens is None:
            values[-1] = summary.percentiles[-1][1]
        # Evenly spread shares and not random ones: the mean of few requests is then that of the summary.
        shares = rng.permutation((np.arange(count) + 0.5) / count)
        between: Floats = np.interp(shares, places, np.maximum.accumulate(values))
        return between
    std = summary.std_tokens or 0.0
    drawn: Floats = np.clip(rng.normal(summary.mean_tokens, std, count), low, high)
    return drawn


def _as_whole(values: Floats, mean: float | None) -> Counts:
    """Whole tokens, at least one, with this mean as nearly as rounding allows."""
    found = float(values.mean())
    scaled = values if not mean or found <= 0 else values * (mean / found)
    counts: Counts = np.maximum(1, np.rint(scaled)).astype(np.int32)
    return counts
