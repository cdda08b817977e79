"""Calibration: known factors come back from simulated tests, one point helps, two extremes help more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from support.replicas import floor_of, roofline
from ullage.errors import InputError
from ullage.service.calibration.calibration import Calibration, Measurement, Target, calibrate
from ullage.service.calibration.next_test import COMMANDS, next_test
from ullage.service.calibration.replay import EngineLimits, LoadTestReplay, replay, uniform_lengths
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.step_model import StepModel

LIMITS = EngineLimits(max_sequences=256, budget_tokens=8192, kv_tokens=2_000_000)
TRUE = Factors(fixed_ratio=1.2, sequences_ratio=0.8, kv_ratio=0.8, prefill_ratio=1.5, request_ratio=0.6)


class Timed:
    """A roofline with its request overhead, as a step model has it."""

    def __init__(self) -> None:
        self.roofline = roofline()
        self.decode_s, self.prefill_s = self.roofline.decode_s, self.roofline.prefill_s
        self.pair_s = self.roofline.pair_s
        self.request_overhead_s = self.roofline.efficiencies.request_overhead_s


TIMES = Timed()
FLOOR = floor_of(TIMES.roofline)


def trial(clients: int, prompt: int = 1024, output: int = 256) -> LoadTestReplay:
    rng = np.random.default_rng(clients)
    count = 10 * clients
    return LoadTestReplay(
        prompt_tokens=uniform_lengths(prompt, count, least_fraction=0.8, rng=rng),
        output_tokens=uniform_lengths(output, count, least_fraction=0.8, rng=rng),
        limits=LIMITS,
        clients=clients,
    )


def measured(clients: int, factors: Factors = TRUE, **shape: int) -> Measurement:
    """A load test of a replica whose true factors are known."""
    which = trial(clients, **shape)
    found = replay(ScaledStep(times=TIMES, factors=factors), which)
    return Measurement(
        name=f"{clients} clients",
        trial=which,
        targets=(
            Target(latency="ttft", statistic="mean", value=found.statistic("ttft", "mean")),
            Target(latency="tpot", statistic="mean", value=found.statistic("tpot", "mean")),
        ),
    )


def error_at(calibration: Calibration | None, unseen: Sequence[int]) -> float:
    """The mean log error of TTFT and TPOT at concurrencies that were not tested."""
    factors = Factors() if calibration is None else calibration.factors
    errors = []
    for clients in unseen:
        there = measured(clients)
        found = replay(scaled(TIMES, FLOOR, factors), there.trial)
        errors += [abs(math.log(target.of(found) / target.value)) for target in there.targets]
    return float(np.mean(errors))


@pytest.mark.slow
def test_known_factors_come_back() -> None:
    tests = [measured(1), measured(16), measured(128, prompt=2048, output=512), measured(32, prompt=4096, output=64)]
    found = calibrate(TIMES, FLOOR, tests)
    assert found.factors.fixed_ratio == pytest.approx(1.2, rel=0.05)
    # Contexts of these tests tell sequences from their KV only in part: what both add is known better than each.
    n, kv = np.array([16.0, 64.0, 128.0]), np.array([18_000.0, 72_000.0, 290_000.0])
    true, fitted = (ScaledStep(times=TIMES, factors=each).decode_s(n, kv) for each in (TRUE, found.factors))
    assert fitted == pytest.approx(true, rel=0.05)
    assert found.factors.prefill_ratio == pytest.approx(1.5, rel=0.1)
    assert found.factors.request_ratio == pytest.approx(0.6, rel=0.25)
    assert max(abs(math.log(each.error_ratio)) for each in found.residuals) < 0.05
    for each in found.parameters:
        assert each.low_ratio <= each.value_ratio <= each.high_ratio
        if each.name != "sequences":
            assert each.low_ratio < getattr(TRUE, f"{each.name}_ratio") < each.high_ratio


def test_one_point_helps_and_two_extremes_help_more() -> None:
    unseen = (4, 32)
    without = error_at(None, unseen)
    one = error_at(calibrate(TIMES, FLOOR, [measured(64)]), unseen)
    two = error_at(calibrate(TIMES, FLOOR, [measured(1), measured(64)]), unseen)
    assert one < 0.7 * without
    assert two < one
    assert two < 0.03


def test_a_true_estimate_is_left_alone() -> None:
    found = calibrate(TIMES, FLOOR, [measured(8, Factors())])
    for each in found.parameters:
        assert each.value_ratio == pytest.approx(1.0, abs=0.01)


def test_what_a_test_does_not_say_is_named() -> None:
    """Long answers to short prompts say next to nothing about prefill."""
    found = calibrate(TIMES, FLOOR, [measured(16, prompt=16, output=512)])
    assert "prefill" in found.not_identified
    assert found.held_out == ()


def test_each_point_is_predicted_from_the_others() -> None:
    found = calibrate(TIMES, FLOOR, [measured(1), measured(16), measured(64)])
    assert {each.point for each in found.held_out} == {"1 clients", "16 clients", "64 clients"}
    middle = [each for each in found.held_out if each.point == "16 clients"]
    assert max(abs(math.log(each.error_ratio)) for each in middle) < 0.1


def test_no_fit_beats_the_floor() -> None:
    """Measurements ten times faster than physics leave the fit at the floor, with the residual to show for it."""
    impossible = measured(16)
    faster = Measurement(
        name="too fast",
        trial=impossible.trial,
        targets=tuple(
            Target(latency=each.latency, statistic=each.statistic, value=each.value / 10) for each in impossible.targets
        ),
    )
    found = calibrate(TIMES, FLOOR, [faster])
    times = scaled(TIMES, FLOOR, found.factors)
    n, kv = np.array([1.0, 16.0, 256.0]), np.array([100.0, 16_000.0, 400_000.0])
    assert (times.decode_s(n, kv) >= FLOOR.decode_s(n, kv)).all()
    assert max(each.error_ratio for each in found.residuals) > 1.5


def test_without_a_target_there_is_nothing_to_fit() -> None:
    with pytest.raises(InputError, match="to fit to"):
        calibrate(TIMES, FLOOR, [Measurement(name="empty", trial=trial(2), targets=())])


@pytest.mark.slow
@pytest.mark.parametrize("tool", COMMANDS)
def test_the_next_test_asks_for_what_is_not_known(tool: str) -> None:
    found = calibrate(TIMES, FLOOR, [measured(16, prompt=16, output=512)])
    wanted = next_test(TIMES, FLOOR, found, LIMITS, model="small", tool=tool)
    assert wanted.gain_nats > 0.5
    assert "small" in wanted.command
    assert str(wanted.prompt_tokens) in wanted.command
    after = calibrate(
        TIMES,
        FLOOR,
        [
            measured(16, prompt=16, output=512),
            measured(wanted.clients, prompt=wanted.prompt_tokens, output=wanted.output_tokens),
        ],
    )
    assert set(after.not_identified) < set(found.not_identified)
    before, then = (np.linalg.slogdet(np.array(each.spread.covariance))[1] for each in (found, after))
    assert (before - then) / 2 == pytest.approx(wanted.gain_nats, rel=0.5)


def test_an_unknown_tool_is_named() -> None:
    found = calibrate(TIMES, FLOOR, [measured(2)])
    with pytest.raises(InputError, match="tool"):
        next_test(TIMES, FLOOR, found, LIMITS, model="small", tool="siege")


def test_step_models_can_be_calibrated() -> None:
    """What calibrate needs of a model is what every StepModel has."""
    assert {"decode_s", "prefill_s", "pair_s"} <= set(dir(StepModel))
    assert "request_overhead_s" in StepModel.__dataclass_fields__
