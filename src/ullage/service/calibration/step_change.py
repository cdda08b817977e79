"""Two fits of one replica, before and after a change: how its steps differ, how sure that is, and whether it matters.

Engine versions, flags, drivers and quantisations change how long a step takes. Each side has five factors on one
estimate; the plan's mix says how much each of them counts. The change of

    device time of a request = output tokens x decode step / sequences + prefill of what is not cached

is the ratio of the two sides, and with it about the ratio of replicas.

How sure: each side's factors have a posterior covariance C around a common prior of precision P. What both sides know
from the prior alone they share, and it cancels in the ratio; what is left of each is C - C P C, the part that its own
measurements put there. A factor that neither side's tests tell is the prior on both, and a change of it is not seen.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ullage.errors import InputError
from ullage.service.calibration.calibration import IDENTIFIED_FRACTION, prior_covariance, prior_spread
from ullage.service.steps.factor_spread import FactorSpread
from ullage.service.steps.scaled import PARAMETERS, ScaledStep
from ullage.service.steps.step_model import StepModel
from ullage.service.steps.work import Floats
from ullage.simulate.statistics import t_quantile

# One in twenty on either side: what is called slower is not by luck in 19 of 20 cases.
TAIL_FRACTION = 0.95
# Tests that tell no less than so many tolerances cannot tell whether it was kept.
COARSE_TOLERANCES = 2.0
# Nor can tests that say nothing about most of a request's time.
BLIND_FRACTION = 0.5
_ROUNDS = 30


class StepVerdict(enum.StrEnum):
    SLOWER = "slower"
    FASTER = "faster"
    ALIKE = "alike"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class MixedRequest:
    """The mean request of a plan's mix, and how many of its like run at once: what steps are compared at."""

    prompt_tokens: float
    computed_tokens: float
    output_tokens: float
    sequences: float

    @property
    def kv_tokens(self) -> float:
        return self.sequences * (self.prompt_tokens + self.output_tokens / 2.0)


@dataclass(frozen=True, kw_only=True)
class StepChange:
    """One time before and after, and the ends of the ratio, each exceeded one time in twenty."""

    name: str
    before_s: float
    after_s: float
    low_ratio: float
    high_ratio: float

    @property
    def ratio(self) -> float:
        return self.after_s / self.before_s


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """What changed between two fits; `whole` is the device time of a request, `parts` what it is made of.

    `unseen` are factors that the tests of one side or the other do not tell, and `unseen_fraction` what they are of it.
    """

    verdict: StepVerdict
    whole: StepChange
    parts: tuple[StepChange, ...]
    tolerance_fraction: float
    unseen: tuple[str, ...]
    unseen_fraction: float

    @property
    def seen_fraction(self) -> float:
        """The least change that these tests would have called."""
        return math.sqrt(self.whole.high_ratio / self.whole.low_ratio) - 1.0


def step_difference(
    before: StepModel, after: StepModel, request: MixedRequest, *, tolerance_fraction: float
) -> StepDifference:
    """Compare two step models that were fitted to load tests of one replica."""
    one, other = _fit_of(before, "BEFORE"), _fit_of(after, "AFTER")
    sides = (one, other)
    made_of = [_parts(each.times, request) for each in sides]
    whole = _change("device time of a request", sides, made_of)
    parts = (
        _change("decode step", sides, [_decode(each.times, request) for each in sides]),
        _change("prefill", sides, [_prefill(each.times, request) for each in sides]),
        _change("outside the steps", sides, [_outside(each.times) for each in sides]),
    )
    unseen = [name for name in PARAMETERS if any(not _is_told(each.spread, name) for each in sides)]
    share = max(sum(float(each[PARAMETERS.index(name)]) for name in unseen) / float(each.sum()) for each in made_of)
    return StepDifference(
        verdict=_verdict(whole, tolerance_fraction, share),
        whole=whole,
        parts=parts,
        tolerance_fraction=tolerance_fraction,
        unseen=tuple(unseen),
        unseen_fraction=share,
    )


def mixed_request(
    step: StepModel, *, prompt_tokens: float, cached_tokens: float, output_tokens: float, rate_rps: float, most: int
) -> MixedRequest:
    """The mean request, and the sequences that run where one replica has this rate, by Little's law."""
    sequences = 1.0
    for _ in range(_ROUNDS):
        found = MixedRequest(
            prompt_tokens=prompt_tokens,
            computed_tokens=max(prompt_tokens - cached_tokens, 1.0),
            output_tokens=output_tokens,
            sequences=sequences,
        )
        held_s = output_tokens * _decode_s(step, found) + _prefill_s(step, found)
        # Half way towards it: more sequences make slower steps, and those more sequences.
        sequences = min(max((sequences + rate_rps * held_s) / 2.0, 1.0), float(most))
    return found


def device_time_shares(times: ScaledStep, request: MixedRequest) -> Floats:
    """What part of the device time of a request each factor moves; they sum to 1."""
    parts = _parts(times, request)
    shares: Floats = parts / parts.sum()
    return shares


def _verdict(whole: StepChange, tolerance: float, unseen_fraction: float) -> StepVerdict:
    if whole.low_ratio > 1.0 and whole.ratio > 1.0 + tolerance:
        return StepVerdict.SLOWER
    if whole.high_ratio < 1.0 and whole.ratio < 1.0 / (1.0 + tolerance):
        return StepVerdict.FASTER
    is_coarse = math.log(whole.high_ratio / whole.low_ratio) / 2.0 > COARSE_TOLERANCES * math.log1p(tolerance)
    is_blind = unseen_fraction > BLIND_FRACTION
    return StepVerdict.CANNOT_TELL if is_coarse or is_blind else StepVerdict.ALIKE


# ---- times ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _FitSide:
    times: ScaledStep
    spread: FactorSpread


def _fit_of(step: StepModel, field: str) -> _FitSide:
    if step.spread is None or not isinstance(step.times, ScaledStep):
        raise InputError(
            field=field,
            value=step.kind,
            problem="is not a fit to load tests of this replica, so nothing of it was measured",
            fix="Give load tests, or what ullage calibrate made of them.",
        )
    return _FitSide(times=step.times, spread=step.spread)


def _decode_s(step: StepModel | ScaledStep, request: MixedRequest) -> float:
    return float(step.decode_s(np.array([request.sequences]), np.array([request.kv_tokens]))[0])


def _prefill_s(step: StepModel | ScaledStep, request: MixedRequest) -> float:
    computed = request.computed_tokens
    pairs = computed * (request.prompt_tokens - computed) + computed**2 / 2.0
    return float(step.prefill_s(np.array([computed]))[0]) + step.pair_s * pairs


def _decode(times: ScaledStep, request: MixedRequest) -> Floats:
    """A decode step by the factor that each part of it hangs on, in seconds."""
    return _decode_s(times, request) * times.decode_shares(request.sequences, request.kv_tokens)


def _prefill(times: ScaledStep, request: MixedRequest) -> Floats:
    return np.array([0.0, 0.0, 0.0, _prefill_s(times, request), 0.0])


def _outside(times: ScaledStep) -> Floats:
    return np.array([0.0, 0.0, 0.0, 0.0, times.request_overhead_s])


def _parts(times: ScaledStep, request: MixedRequest) -> Floats:
    parts: Floats = request.output_tokens / request.sequences * _decode(times, request) + _prefill(times, request)
    return parts


def _change(name: str, sides: Sequence[_FitSide], parts: Sequence[Floats]) -> StepChange:
    before_s, after_s = (float(each.sum()) for each in parts)
    log = math.log(after_s / before_s)
    variance = sum(_own_variance(side.spread, each / each.sum()) for side, each in zip(sides, parts, strict=True))
    room = t_quantile(TAIL_FRACTION, min(each.spread.degrees for each in sides)) * math.sqrt(max(variance, 0.0))
    return StepChange(
        name=name,
        before_s=before_s,
        after_s=after_s,
        low_ratio=math.exp(log - room),
        high_ratio=math.exp(log + room),
    )


def _own_variance(spread: FactorSpread, shares: Floats) -> float:
    """Of the logarithm of a time with these shares: what the side's own measurements put there, C - C P C."""
    covariance = np.array(spread.covariance)
    precision = np.linalg.inv(prior_covariance())
    return float(shares @ (covariance - covariance @ precision @ covariance) @ shares)


def _is_told(spread: FactorSpread, name: str) -> bool:
    place = PARAMETERS.index(name)
    return math.sqrt(spread.covariance[place][place]) < IDENTIFIED_FRACTION * prior_spread(name)
