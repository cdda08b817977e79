"""Numbers of very many replicas told together: unbiased, with honest errors, and nearer than each by itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from ullage.service.trial.decide import Decision, Judged, Sample
from ullage.service.trial.line import on_line
from ullage.service.trial.stability import Instability
from ullage.simulate.statistics import Interval

NUMBERS = (160, 162, 164, 166)
ALLOWED = 0.05
# What is missed uses all that is allowed with 162.4 replicas, and falls with the power 5.4 of their number.
BORDER, STEEPNESS, ERROR = 162.4, 5.4, 0.02


def decision(missed: float, error: float = ERROR * ALLOWED, common: float = 0.0) -> Decision:
    judged = Judged(
        name="slo", missed_fraction=missed, error_fraction=error, allowed_fraction=ALLOWED, common_fraction=common
    )
    sample = Sample(weights=(1.0,), windows=((),), candidates=1024)
    return Decision(rate_rps=1.0, judged=(judged,), sample=sample, is_decided=True, instability=None)


def true(replicas: int) -> float:
    return ALLOWED * math.pow(BORDER / replicas, STEEPNESS)


def noisy(rng: Generator) -> dict[int, Decision]:
    return {each: decision(true(each) * math.exp(rng.normal(0.0, ERROR))) for each in NUMBERS}


def test_numbers_on_a_line_are_told_as_they_are_and_with_less_error() -> None:
    tried = {each: decision(true(each)) for each in NUMBERS}
    for each in NUMBERS:
        (found,) = on_line(tried, each).judged
        assert found.missed_fraction == pytest.approx(true(each), rel=2e-3)
        assert found.error_fraction < tried[each].judged[0].error_fraction
    between = on_line(tried, 163).judged[0].missed_fraction
    assert true(164) < between < true(162)


def test_the_line_is_nearer_than_its_numbers_and_its_errors_cover() -> None:
    rng = np.random.default_rng(0)
    found = [on_line(noisy(rng), 162).judged[0] for _ in range(400)]
    off = np.array([math.log(each.missed_fraction / true(162)) for each in found])
    errors = np.array([each.error_fraction / each.missed_fraction for each in found])
    assert abs(off.mean()) < 4.0 * off.std() / math.sqrt(off.size) + 0.001
    assert off.std() < 0.65 * ERROR
    covered = float((np.abs(off) <= 2.0 * errors).mean())
    assert 0.91 <= covered <= 0.99, covered


def test_the_verdict_hangs_less_on_what_one_number_met() -> None:
    """How often 162 is taken to be enough, which it is not quite: by itself, and on the line."""
    rng = np.random.default_rng(1)
    alone, together = 0, 0
    for _ in range(400):
        tried = noisy(rng)
        alone += tried[162].judged[0].is_met
        together += on_line(tried, 162).judged[0].is_met
    assert together < 0.6 * alone


def test_what_all_numbers_share_is_no_less_for_being_met_more_often() -> None:
    apart = {each: decision(true(each)) for each in NUMBERS}
    shared = {each: decision(true(each), common=0.8 * ERROR * ALLOWED) for each in NUMBERS}
    own, same = (on_line(tried, 162).judged[0].error_fraction for tried in (apart, shared))
    assert same > own
    assert same >= 0.8 * ERROR * ALLOWED


def test_one_number_speaks_for_itself_and_less_surely_for_others() -> None:
    tried = {164: decision(true(164))}
    (here,) = on_line(tried, 164).judged
    assert (here.missed_fraction, here.error_fraction) == pytest.approx((true(164), ERROR * ALLOWED), rel=0.05)
    (there,) = on_line(tried, 158).judged
    assert there.missed_fraction > here.missed_fraction
    assert there.error_fraction / there.missed_fraction > here.error_fraction / here.missed_fraction


def test_a_share_that_some_number_does_not_miss_is_the_mean_of_all() -> None:
    """Losses that one window of one number met: no line goes through nothing."""
    tried = {each: decision(0.0, error=0.0) for each in NUMBERS}
    tried[164] = decision(0.04, error=0.08)
    (found,) = on_line(tried, 164).judged
    assert found.missed_fraction == pytest.approx(0.01)
    assert found.error_fraction == pytest.approx(0.02)


def test_a_backlog_that_grows_is_told_by_its_own_number_and_far_numbers_tell_nothing() -> None:
    tried = {each: decision(true(each)) for each in NUMBERS}
    growth = Interval(value=0.2, low=0.1, high=0.3, confidence_fraction=0.95)
    growing = Instability(reason="a backlog grows", growth=growth)
    tried[160] = replace(tried[160], instability=growing)
    assert on_line(tried, 160) is tried[160]
    with_far = {**tried, 200: decision(ALLOWED)}
    assert on_line(with_far, 164).judged == on_line(tried, 164).judged
