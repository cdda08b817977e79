"""A cold engine: its first step is told from slow prefill, and flags of higher loads from those of lower ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.replicas import floor_of, roofline
from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.facts.efficiency import efficiencies
from ullage.load.typed import parse_launch
from ullage.service.calibration.calibration import Measurement, Target, calibrate
from ullage.service.calibration.prediction import predict
from ullage.service.calibration.repeats import LaunchFlags, RepeatTerms
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, replay, uniform_lengths
from ullage.service.loadtests.loadtest import LoadTestSubject, Loop, OfferedLoad, Point, Tokens
from ullage.service.steps.coefficients import band
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel

LIMITS = EngineLimits(max_sequences=256, budget_tokens=8192, kv_tokens=2_000_000)
TRUE = Factors(fixed_ratio=1.1, prefill_ratio=1.2)


class Timed:
    """A roofline with its request overhead, as a step model has it."""

    def __init__(self) -> None:
        found = roofline()
        self.decode_s, self.prefill_s, self.pair_s = found.decode_s, found.prefill_s, found.pair_s
        self.request_overhead_s = found.efficiencies.request_overhead_s


TIMES, FLOOR = Timed(), floor_of(roofline())


def trial(clients: int, cold_s: float = 0.0) -> LoadTestReplay:
    rng = np.random.default_rng(clients)
    prompt, output = (uniform_lengths(most, 10 * clients, least_fraction=0.8, rng=rng) for most in (1024, 128))
    return LoadTestReplay(
        prompt_tokens=prompt, output_tokens=output, limits=LIMITS, clients=clients, cold_start_s=cold_s
    )


def measured(clients: int, cold_s: float, *, median_s: float | None = None) -> Measurement:
    """A test of an engine whose first step took so much longer; the file may state the median of TTFT too."""
    found = replay(ScaledStep(times=TIMES, factors=TRUE), trial(clients, cold_s))
    targets = (Target(latency=name, statistic="mean", value=found.statistic(name, "mean")) for name in ("ttft", "tpot"))
    shown = () if median_s is None else (Target(latency="ttft", statistic="p50", value=median_s),)
    return Measurement(name=str(clients), trial=trial(clients), targets=tuple(targets), shown=shown)


def test_only_what_is_sent_at_first_waits_for_a_cold_engine() -> None:
    warm, cold = (replay(TIMES, trial(16, cold_s)) for cold_s in (0.0, 30.0))
    added = cold.ttft_s - warm.ttft_s
    assert added[:16] == pytest.approx(np.full(16, 30.0))
    assert added[16:] == pytest.approx(np.zeros(144))
    assert cold.tpot_s == pytest.approx(warm.tpot_s)
    assert cold.duration_s == pytest.approx(warm.duration_s + 30.0)


@pytest.mark.slow
def test_a_planted_cold_start_comes_back_and_leaves_prefill_alone() -> None:
    found = calibrate(TIMES, FLOOR, [measured(4, 2.0), measured(64, 20.0)])
    assert found.cold_start.first_s == pytest.approx(2.0, rel=0.1)
    assert found.cold_start.full_s == pytest.approx(20.0, rel=0.1)
    assert found.factors.prefill_ratio == pytest.approx(1.2, rel=0.15)
    only_full = calibrate(TIMES, FLOOR, [measured(4, 0.0), measured(64, 20.0)])
    assert only_full.cold_start.first_s == 0.0
    assert only_full.cold_start.full_s == pytest.approx(20.0, rel=0.1)


def test_a_warm_engine_has_no_cold_start() -> None:
    found = calibrate(TIMES, FLOOR, [measured(4, 0.0), measured(64, 0.0)])
    assert found.cold_start.of(is_full=True) == 0.0


def test_a_median_as_slow_as_the_mean_is_no_cold_start() -> None:
    slow = measured(64, 20.0)
    mean_s = slow.targets[0].value
    assert calibrate(TIMES, FLOOR, [slow]).cold_start.full_s > 0.0
    assert calibrate(TIMES, FLOOR, [measured(64, 20.0, median_s=mean_s)]).cold_start.full_s == 0.0


def test_flags_of_higher_loads_hold_from_their_clients_on() -> None:
    launches = (parse_launch("64:batch-wait-steps=40"), parse_launch("16:poll-steps=30,token-budget=32Ki"))
    assert launches[1] == LaunchFlags(least_clients=16, poll_steps=30, budget_tokens=32_768)
    terms = RepeatTerms(limits=replace(LIMITS, poll_steps=10), are_limits_stated=True, launches=launches)
    found = [terms.limits_of(point(clients)) for clients in (4, 16, 64)]
    assert [each.poll_steps for each in found] == [10, 30, 30]
    assert [each.batch_wait_steps for each in found] == [0, 0, 40]
    assert [each.budget_tokens for each in found] == [8192, 32_768, 32_768]


def point(clients: int) -> Point:
    load = OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=clients)
    return Point(name="", subject=LoadTestSubject(), load=load, duration_s=None, completed_count=None, tokens=Tokens())


@pytest.mark.parametrize("text", ["poll-steps=30", "16:", "x:poll-steps=30", "16:poll=3", "16:poll-steps=0"])
def test_flags_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(InputError, match="--launch"):
        parse_launch(text)


def test_how_cold_a_smaller_first_step_is_stays_open_after_full_ones() -> None:
    found = calibrate(TIMES, FLOOR, [measured(64, 20.0)])
    times = ScaledStep(times=TIMES, factors=found.factors)
    step = StepModel(
        kind="calibrated",
        times=times,
        floor=FLOOR,
        evidence=Evidence.CALIBRATED,
        request_overhead_s=times.request_overhead_s,
        band=band(efficiencies().sheets["band-model"], "model"),
        facts=(),
        spread=found.spread,
        cold_start=found.cold_start,
    )
    small = next(each for each in predict(step, measured(4, 2.0)).latencies if each.latency == "ttft")
    assert small.predicted_s < 0.5 * (small.measured_s or 0.0)
    assert small.is_inside
