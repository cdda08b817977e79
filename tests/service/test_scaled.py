"""Steps scaled by factors: one sequence takes what was found, and growth hides what a fit adds to it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replicas import floor_of, roofline
from ullage.service.calibration.calibration import Measurement, Target, calibrate
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, RequestTimes, replay
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import PARAMETERS, Factors, ScaledStep, refitted
from ullage.service.steps.work import Floats

RATIO = st.floats(0.3, 4.0)
FACTORS = st.builds(Factors, fixed_ratio=RATIO, sequences_ratio=RATIO, kv_ratio=RATIO)
CONTEXT_TOKENS = 2_000.0


class Timed:
    """A roofline with its request overhead, beside a host that takes so long for every step."""

    def __init__(self, *, host_s: float = 0.0) -> None:
        self.roofline, self.host_s = roofline(), host_s
        self.prefill_s, self.pair_s = self.roofline.prefill_s, self.roofline.pair_s
        self.request_overhead_s = self.roofline.efficiencies.request_overhead_s

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return np.hypot(self.roofline.decode_s(sequences, kv_tokens), self.host_s)


TIMES = Timed()


def step_s(times: RequestTimes, sequences: float, kv_tokens: float | None = None) -> float:
    kv = sequences * CONTEXT_TOKENS if kv_tokens is None else kv_tokens
    return float(times.decode_s(np.array([sequences]), np.array([kv]))[0])


def of(factors: Factors, times: RequestTimes = TIMES) -> ScaledStep:
    return ScaledStep(times=times, factors=factors)


@given(factors=FACTORS)
def test_one_sequence_takes_what_was_found_and_its_kv_almost_as_much(factors: Factors) -> None:
    assert step_s(of(factors), 1.0, 1.0) == pytest.approx(factors.fixed_ratio * step_s(TIMES, 1.0, 1.0))


@given(factors=FACTORS, sequences=st.floats(1.0, 200.0), kv=st.floats(1.0, 1e6), more=st.floats(1.0, 3.0))
def test_more_load_and_larger_factors_never_make_a_step_shorter(
    factors: Factors, sequences: float, kv: float, more: float
) -> None:
    held, here = max(kv, sequences), step_s(of(factors), sequences, max(kv, sequences))
    room = 1.0 - 1e-12
    assert step_s(of(factors), sequences, held * more) >= here * room
    assert step_s(of(factors), sequences * more, max(held, sequences * more)) >= here * room
    for name in PARAMETERS:
        larger = replace(factors, **{f"{name}_ratio": getattr(factors, f"{name}_ratio") * more})
        assert step_s(of(larger), sequences, held) >= here * room


@given(found=st.floats(1.01, 4.0), sequences=st.floats(2.0, 500.0), growth=st.floats(1.5, 4.0))
def test_growth_hides_what_a_fit_adds_to_one_sequence(found: float, sequences: float, growth: float) -> None:
    """Less than the sum, never less than either alone, and ever less of it is left as steps grow."""
    fitted = of(Factors(fixed_ratio=found))
    added_s = (found - 1.0) * step_s(TIMES, 1.0, 1.0)
    here, larger = (step_s(fitted, each) - step_s(TIMES, each) for each in (sequences, growth * sequences))
    assert 0.0 < larger < here < added_s
    assert step_s(fitted, sequences) > (1.0 + added_s / step_s(TIMES, 1.0, 1.0)) * step_s(TIMES, 1.0, 1.0)


@given(found=st.floats(0.3, 1.0), grown=RATIO, sequences=st.floats(2.0, 500.0))
def test_a_step_of_one_sequence_below_the_estimate_is_on_that_alone(
    found: float, grown: float, sequences: float
) -> None:
    fitted = of(Factors(fixed_ratio=found, sequences_ratio=grown, kv_ratio=grown))
    one = step_s(TIMES, 1.0, 1.0)
    assert step_s(fitted, sequences) == pytest.approx(found * one + grown * (step_s(TIMES, sequences) - one))


@given(factors=FACTORS, sequences=st.floats(2.0, 200.0))
def test_shares_sum_to_one_and_are_what_each_factor_moves(factors: Factors, sequences: float) -> None:
    kv = sequences * CONTEXT_TOKENS
    shares = of(factors).decode_shares(sequences, kv)
    nudge, base = 1e-6, math.log(step_s(of(factors), sequences))
    nudged = [
        replace(factors, **{f"{each}_ratio": getattr(factors, f"{each}_ratio") * (1 + nudge)}) for each in PARAMETERS
    ]
    slopes = np.array([(math.log(step_s(of(each), sequences)) - base) / nudge for each in nudged])
    assert shares.sum() == pytest.approx(1.0)
    assert shares == pytest.approx(slopes / slopes.sum(), abs=1e-3)


@given(slow=st.floats(1.0, 4.0), sequences=st.floats(1.0, 500.0))
def test_steps_slowed_alike_are_slower_by_that_at_every_load(slow: float, sequences: float) -> None:
    alike = Factors(fixed_ratio=slow, sequences_ratio=slow, kv_ratio=slow)
    slowed = ScaledStep(times=TIMES, factors=alike, is_hidden=False)
    assert step_s(slowed, sequences) == pytest.approx(slow * step_s(TIMES, sequences))


@given(one=FACTORS, other=FACTORS, sequences=st.floats(1.0, 500.0))
def test_a_fit_that_begins_at_another_is_one_set_of_factors(one: Factors, other: Factors, sequences: float) -> None:
    both = Factors(**{f"{each}_ratio": math.exp(one.log(each) + other.log(each)) for each in PARAMETERS})
    again = refitted(of(one), other)
    assert step_s(again, sequences) == pytest.approx(step_s(of(both), sequences))
    assert again.request_overhead_s == pytest.approx(of(both).request_overhead_s)


# ---- a host that falls behind --------------------------------------------------------------------------

CLIENTS = (2, 16, 64)


def measured(times: RequestTimes, clients: int) -> Measurement:
    trial = LoadTestReplay(
        prompt_tokens=np.full(3 * clients, 128, np.int32),
        output_tokens=np.full(3 * clients, 64, np.int32),
        limits=EngineLimits(max_sequences=64, budget_tokens=8192, kv_tokens=200_000),
        clients=clients,
    )
    found = replay(times, trial)
    targets = [Target(latency=each, statistic="p50", value=found.statistic(each, "p50")) for each in ("ttft", "tpot")]
    return Measurement(name=f"{clients} clients", trial=trial, targets=tuple(targets))


@pytest.mark.slow
def test_a_host_that_falls_behind_is_found_at_the_ends_and_predicted_between() -> None:
    """The host takes twice as long as the device for one sequence, beside it: at the middle a sum is too slow."""
    host = Timed(host_s=2.0 * step_s(TIMES, 1.0, 1.0))
    low, middle, high = (measured(host, each) for each in CLIENTS)
    fit = calibrate(TIMES, floor_of(TIMES.roofline), [low, high])
    target = middle.targets[1]
    assert fit.factors.fixed_ratio == pytest.approx(math.sqrt(5.0), rel=0.1)
    assert target.of(replay(scaled(TIMES, floor_of(TIMES.roofline), fit.factors), middle.trial)) == pytest.approx(
        target.value, rel=0.015
    )
