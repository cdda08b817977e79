"""What is wrong with a fit and its points, said of points that are made up: nothing is fitted here."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ullage.service.calibration.calibration import Residual
from ullage.service.calibration.fitted import _misfits, _not_monotone, _with_unknown_hits, waiting_clients
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    Tokens,
)
from ullage.service.steps.factor_spread import DISTANCE_SPREADS, FactorSpread
from ullage.workload.anomalies import Severity


def point(name: str, load: float, tpot_s: float | None, *, loop: Loop = Loop.CLOSED, prompt: float = 1000.0) -> Point:
    """Ten requests at this load; the other latencies fall, and say nothing about tokens."""
    latencies = [LatencySummary(definition=Definition.TTFT, mean_s=1.0 / load)]
    if tpot_s is not None:
        latencies.append(LatencySummary(definition=Definition.TPOT, mean_s=tpot_s))
    cap = int(load) if loop is Loop.CLOSED else None
    return Point(
        name=name,
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=loop, concurrency_cap_count=cap, offered_rps=load if loop is Loop.OPEN else None),
        duration_s=100.0,
        completed_count=10,
        tokens=Tokens(prompt_tokens=10 * prompt, output_tokens=1000.0, nominal_prompt_tokens=prompt),
        latencies=tuple(latencies),
    )


def test_tokens_that_come_faster_at_a_higher_load_are_named() -> None:
    slower = [point("one", 1, 0.020), point("four", 4, 0.0181), point("eight", 8, 0.030)]
    assert list(_not_monotone(slower)) == []
    # 0.017 is below nine tenths of 0.020, in whichever order the files come.
    (said,) = _not_monotone([point("four", 4, 0.017), point("one", 1, 0.020)])
    assert said.name == "sweep"
    assert said.sentence.startswith("TPOT falls from 0.02 s at one to 0.017 s at four, a higher load")
    # Other requests, another loop and a point without gaps between tokens are another sweep.
    for other in (
        point("four", 4, 0.010, prompt=4000.0), point("four", 4, 0.010, loop=Loop.OPEN), point("four", 4, None),
    ):  # fmt: skip
        assert list(_not_monotone([point("one", 1, 0.020), other])) == []
    rates = [point("one", 1, 0.020, loop=Loop.OPEN), point("four", 4, 0.010, loop=Loop.OPEN)]
    assert len(list(_not_monotone(rates))) == 1


def residual(name: str, measured: float, simulated: float, latency: str = "tpot") -> Residual:
    return Residual(point=name, latency=latency, statistic="mean", measured_value=measured, simulated_value=simulated)


def test_a_fit_that_misses_its_own_points_says_where_it_is_worst() -> None:
    assert list(_misfits([residual("a", 1.0, 1.149), residual("b", 1.0, 1 / 1.149)])) == []
    (said,) = _misfits([residual("a", 1.0, 1.2), residual("b", 1.0, 0.5), residual("c", 1.0, 1.0)])
    assert said.name == "residual"
    assert "by more than 15% in 2 of 3 latencies, at worst b: tpot mean was" in said.sentence
    (rate,) = _misfits([residual("a", 100.0, 50.0, latency="rate")])
    assert "rate mean was 100 tokens/s, and 50 tokens/s by the fit" in rate.sentence


def test_hits_that_nobody_stated_widen_what_is_known_of_each_latency() -> None:
    known = FactorSpread(covariance=((1.0,),), fit_spreads={"tpot": 0.12, "ttft": 0.0}, degrees=3)
    found = _with_unknown_hits(known)
    # Spreads add as squares: 5 and 12 are 13.
    assert found.fit_spreads == pytest.approx({"tpot": 0.13, "ttft": 0.35})
    assert (found.covariance, found.degrees) == (known.covariance, 3)


def test_what_is_known_of_a_latency_adds_factors_rest_and_distance_as_squares() -> None:
    known = FactorSpread(covariance=((0.04, 0.01), (0.01, 0.09)), fit_spreads={"tpot": 0.3, "ttft": 0.5}, degrees=3)
    slopes = np.array([1.0, 2.0])
    # 0.04 + 2 x 2 x 0.01 + 4 x 0.09 = 0.44, and Student's table has 1.6377 for 3 degrees.
    assert known.spread("tpot", slopes) == pytest.approx(math.sqrt(0.44 + 0.09))
    assert known.ratio("tpot", slopes) == pytest.approx(math.exp(1.6377 * math.sqrt(0.53)), rel=1e-4)
    assert known.factors_log(slopes) == pytest.approx(1.6377 * math.sqrt(0.44), rel=1e-4)
    assert known.bounded_ratio("tpot", known.factors_log(slopes)) == pytest.approx(known.ratio("tpot", slopes))
    assert known.ends == pytest.approx([1.6377 * 0.2, 1.6377 * 0.3], rel=1e-4)
    # A latency of another name is as unsure as the first token, and distance counts by its doublings.
    assert known.spread("e2e", slopes) == known.spread("ttft", slopes) == pytest.approx(math.sqrt(0.44 + 0.25))
    far = known.spread("tpot", slopes, doublings=2.0)
    assert far == pytest.approx(math.sqrt(0.53 + (2.0 * DISTANCE_SPREADS["tpot"]) ** 2))


def test_a_client_that_waited_is_simulated_as_the_requests_that_were_in_flight() -> None:
    waited = PointAnomaly(flag=Flag.CLOSED_LOOP_SATURATION, weight=Severity.NOTE, sentence="It waited.")
    opened = point("open", 4, 0.02, loop=Loop.OPEN)
    slow = replace(opened, mean_concurrency_count=6.6, anomalies=(waited,))
    (said,) = waiting_clients([opened, slow])
    assert "in 1 of 2 points" in said.sentence
    assert "closed loops of the 7 requests that were in flight" in said.sentence
    stated = replace(slow, load=replace(slow.load, concurrency_cap_count=9))
    closed = replace(slow, load=OfferedLoad(loop=Loop.CLOSED))
    assert list(waiting_clients([opened, stated, closed, replace(slow, mean_concurrency_count=None)])) == []
