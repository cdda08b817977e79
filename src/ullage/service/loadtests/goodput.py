"""Goodput counted anew from single requests, under a rule that is named.

The tools agree that a good request meets every limit. They disagree on an answer of one token, which has no TPOT: it
passes in vLLM and SGLang, is not judged in GuideLLM, and fails in AIPerf and inference-perf. They also disagree on
what the good ones are a share of. So one run has several goodputs, and a goodput without its rule says little.

>>> one = MeasuredRequest(status=Status.OK, ttft_s=0.1, e2e_s=0.1, output_tokens=1)
>>> limits = GoodputLimits(tpot_s=0.05)
>>> [goodput([one], rule_of(tool, limits)).good_count for tool in ("vllm", "guidellm", "aiperf")]
[1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ullage.errors import InputError, check_name
from ullage.service.loadtests.loadtest import (
    Denominator,
    GoodputLimits,
    GoodputRule,
    MeasuredRequest,
    Point,
    SingleToken,
    Status,
)

# What each tool does, read from its source; `ullage` is the rule of our own plans. A one-token answer has no second
# token to wait for, so it meets a limit on TPOT; a request that failed was paid for, so it stays in the share.
GOODPUT_RULES: dict[str, tuple[SingleToken, Denominator]] = {
    "ullage": (SingleToken.GOOD, Denominator.SENT),
    "vllm": (SingleToken.GOOD, Denominator.SENT),
    "sglang": (SingleToken.GOOD, Denominator.SENT),
    "guidellm": (SingleToken.UNDETERMINED, Denominator.DETERMINED),
    "aiperf": (SingleToken.BAD, Denominator.ENDED),
    "inference-perf": (SingleToken.BAD, Denominator.SUCCEEDED),
}


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """Good requests of those judged. `rps` is None where the time is not known or the requests are only a sample."""

    rule: GoodputRule
    good_count: int
    judged_count: int
    undetermined_count: int
    attained_fraction: float | None
    rps: float | None


def rule_of(name: str, limits: GoodputLimits) -> GoodputRule:
    """The rule of a tool, with these limits."""
    check_name(name, GOODPUT_RULES, field="goodput rule")
    if not limits.given:
        raise InputError(
            field="goodput limits",
            value="none",
            problem="without a limit every request is good",
            fix="Give at least one, for example ttft:500ms.",
        )
    single_token, denominator = GOODPUT_RULES[name]
    return GoodputRule(name=name, limits=limits, single_token=single_token, denominator=denominator)


def goodput(requests: Iterable[MeasuredRequest], rule: GoodputRule, *, duration_s: float | None = None) -> Goodput:
    """Count the good requests, and give them as a share and, where `duration_s` is known, as a rate."""
    everything = list(requests)
    verdicts = [_meets(each, rule) for each in everything if each.status is Status.OK]
    good = sum(verdict is True for verdict in verdicts)
    undetermined = sum(verdict is None for verdict in verdicts)
    judged = {
        Denominator.SENT: len(everything),
        Denominator.ENDED: sum(each.status is not Status.UNFINISHED for each in everything),
        Denominator.SUCCEEDED: len(verdicts),
        Denominator.DETERMINED: len(verdicts) - undetermined,
    }[rule.denominator]
    return Goodput(
        rule=rule,
        good_count=good,
        judged_count=judged,
        undetermined_count=undetermined,
        attained_fraction=good / judged if judged else None,
        rps=good / duration_s if duration_s else None,
    )


def goodput_of(point: Point, rule: GoodputRule) -> Goodput | None:
    """The goodput of a point that kept its requests; a share alone where it kept only some of them."""
    if not point.requests:
        return None
    return goodput(point.requests, rule, duration_s=point.duration_s if point.has_every_request else None)


def _meets(request: MeasuredRequest, rule: GoodputRule) -> bool | None:
    """Whether the request meets every limit; None where one of them cannot be judged and none is missed."""
    verdicts = [_meets_one(request, name, limit_s, rule) for name, limit_s in rule.limits.given.items()]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _meets_one(request: MeasuredRequest, name: str, limit_s: float, rule: GoodputRule) -> bool | None:
    value_s = _value_s(request, name)
    if value_s is not None:
        return value_s <= limit_s
    if rule.single_token is SingleToken.BAD:
        return False
    single = name in ("tpot", "itl") and request.output_tokens is not None and request.output_tokens <= 1
    return True if single and rule.single_token is SingleToken.GOOD else None


def _value_s(request: MeasuredRequest, name: str) -> float | None:
    if name == "itl":
        return request.itl_s if request.itl_s is not None else request.tpot_s
    values = {"ttft": request.ttft_s, "tpot": request.tpot_s, "ntpot": request.ntpot_s, "e2e": request.e2e_s}
    return values[name]
