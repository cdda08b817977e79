"""Load tests of two pools: repeated as they ran, fitted to what they measured, and refused where nobody says how."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from ullage.evidence import Source
from ullage.facts.device import find_device
from ullage.load.names import load_model
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.memory.sharding import Sharding
from ullage.service.calibration.calibration import Measurement, Target, fit_factors
from ullage.service.calibration.evidence import engine_limits
from ullage.service.calibration.fitted import _breaches
from ullage.service.calibration.pool_step import pool_step
from ullage.service.calibration.prediction import predict
from ullage.service.calibration.repeats import NotRepeatable, RepeatTerms, trial_of
from ullage.service.calibration.replay import ApartTest, LoadTestReplay, factors_of, fitted_factors, replay
from ullage.service.disaggregated import KvTransfer
from ullage.service.loadtests.loadtest import LengthLaw, LengthRule, LoadTestSubject, Loop, OfferedLoad, Point, Tokens
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import CorrectedStep, Factors, ScaledStep
from ullage.service.steps.step_model import StepModel

SOURCE = Source(what="stated", where="a test", date=datetime.date(2026, 11, 16))
TRUE = Factors(fixed_ratio=1.3, sequences_ratio=1.2, kv_ratio=1.1, prefill_ratio=1.5, request_ratio=1.0)


def replica(tp: int) -> tuple[MemoryBudget, StepModel]:
    settings = RuntimeSettings(source=SOURCE, sharding=Sharding(tp=tp))
    found = memory_budget(load_model("llama-3.1-8b"), find_device("h100-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found, pool_step(found)


@pytest.fixture(scope="module")
def apart() -> tuple[StepModel, ApartTest, RepeatTerms]:
    (memory, step), (wide, prefill) = replica(1), replica(2)
    pools = ApartTest(
        prefill=prefill,
        prefill_floor=prefill.floor,
        prefill_limits=engine_limits(wide.runtime, wide.kv_tokens),
        prefill_replicas=1,
        decode_replicas=2,
        transfer=KvTransfer(bytes_per_token=131_072.0, bandwidth_bytes_per_s=25e9, handover_s=0.05),
    )
    return step, pools, RepeatTerms(limits=engine_limits(memory.runtime, memory.kv_tokens), apart=pools)


def point(clients: int, *, is_apart: bool = False) -> Point:
    rule = LengthRule(law=LengthLaw.UNIFORM, least_fraction=0.8, said_by="stated")
    return Point(
        name=f"{clients} clients",
        subject=LoadTestSubject(is_apart=is_apart),
        load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=clients),
        duration_s=None,
        completed_count=6 * clients,
        tokens=Tokens(nominal_prompt_tokens=2000, nominal_output_tokens=100, rule=rule),
    )


def trial(terms: RepeatTerms, clients: int) -> LoadTestReplay:
    found = trial_of(point(clients), terms)
    assert isinstance(found, LoadTestReplay)
    return found


@pytest.mark.slow
def test_two_points_bring_a_third_close(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    step, _, terms = apart
    truth = scaled(step, step.floor, TRUE)

    def measured(clients: int) -> Measurement:
        own = trial(terms, clients)
        seen = replay(truth, own)
        targets = tuple(
            Target(latency=each, statistic="mean", value=seen.statistic(each, "mean")) for each in ("ttft", "tpot")
        )
        return Measurement(name=f"{clients}", trial=own, targets=targets)

    found = fit_factors(step, step.floor, [measured(2), measured(24)])
    other = measured(10)
    guess, fitted = (replay(times, other.trial) for times in (step, scaled(step, step.floor, found)))
    for target in other.targets:
        before, after = (abs(target.of(each) / target.value - 1.0) for each in (guess, fitted))
        assert after < 0.5 * before
        assert after < 0.08


def test_the_prefill_side_is_scaled_with_the_decode_side(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    step, _, terms = apart
    own = trial(terms, 4)
    slow = scaled(
        step, step.floor, replace(TRUE, fixed_ratio=1.0, sequences_ratio=1.0, kv_ratio=1.0, prefill_ratio=3.0)
    )
    assert factors_of(slow) == replace(TRUE, fixed_ratio=1.0, sequences_ratio=1.0, kv_ratio=1.0, prefill_ratio=3.0)
    assert factors_of(step) is None
    before, after = replay(step, own), replay(slow, own)
    assert np.median(after.ttft_s) > 1.3 * np.median(before.ttft_s)
    assert np.median(after.tpot_s) == pytest.approx(np.median(before.tpot_s), rel=0.05)


def test_a_test_of_two_pools_is_not_taken_for_one_of_a_replica(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    _, _, terms = apart
    refused = trial_of(point(4, is_apart=True), replace(terms, apart=None))
    assert isinstance(refused, NotRepeatable)
    assert "--prefill" in refused.reason
    assert isinstance(trial_of(point(4, is_apart=True), terms), LoadTestReplay)
    assert isinstance(trial_of(point(4), replace(terms, timeout_s=5.0)), NotRepeatable)


def test_no_factor_makes_a_prefill_replica_faster_than_physics(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    step, pools, terms = apart
    own = trial(terms, 1)
    fastest = replay(scaled(step, step.floor, replace(TRUE, prefill_ratio=1e-4, request_ratio=1.0)), own)
    tokens = own.prompt_tokens.astype(np.float64)
    least = pools.prefill_floor.prefill_s(tokens) + pools.transfer.seconds(own.prompt_tokens)
    assert (fastest.ttft_s >= least).all()


def test_the_hand_over_goes_with_the_time_outside_the_engine(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    step, pools, terms = apart
    own = trial(terms, 1)
    usual, slow = (replay(scaled(step, step.floor, Factors(request_ratio=each)), own) for each in (1.0, 3.0))
    more_s = 2.0 * (pools.transfer.handover_s + step.request_overhead_s)
    assert np.median(slow.ttft_s - usual.ttft_s) >= more_s
    assert np.allclose(slow.tpot_s, usual.tpot_s)


def test_ranks_with_prompts_of_their_own_wait_for_each_other(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    """Two queues are never better than one, however few clients there are."""
    step, pools, terms = apart
    wide = replace(terms, apart=replace(pools, prefill_ranks=2))
    for clients in (1, 4, 24):
        assert np.mean(replay(step, trial(wide, clients)).ttft_s) > np.mean(replay(step, trial(terms, clients)).ttft_s)


def test_a_prompt_is_held_to_the_floor_of_the_replica_that_computes_it(
    apart: tuple[StepModel, ApartTest, RepeatTerms],
) -> None:
    """Two devices may be faster than the floor of the one that decodes, and not than their own."""
    step, pools, terms = apart
    own = trial(terms, 1)
    shortest = np.array([float(own.prompt_tokens.min())])
    one_s, two_s = (float(each.prefill_s(shortest)[0]) for each in (step.floor, pools.prefill_floor))
    for ttft_s, breaks in (((one_s + two_s) / 2, False), (0.8 * two_s, True)):
        seen = Measurement(name="1", trial=own, targets=(Target(latency="ttft", statistic="mean", value=ttft_s),))
        assert bool(list(_breaches(step.floor, [seen]))) is breaks


def test_an_estimate_of_two_pools_has_the_band_of_two_pools(apart: tuple[StepModel, ApartTest, RepeatTerms]) -> None:
    step, _, terms = apart

    def ends(asked: RepeatTerms) -> dict[str, tuple[float, float]]:
        found = predict(step, Measurement(name="4", trial=trial(asked, 4), targets=()))
        return {
            each.latency: (each.low_s / each.predicted_s, each.high_s / each.predicted_s) for each in found.latencies
        }

    both, one = ends(terms), ends(replace(terms, apart=None))
    for latency in ("ttft", "tpot"):
        assert both[latency][0] <= one[latency][0] * (1.0 + 1e-9)
        assert both[latency][1] > one[latency][1]


def test_published_corrections_of_one_replica_are_not_taken_for_a_fit_to_both(
    apart: tuple[StepModel, ApartTest, RepeatTerms],
) -> None:
    step, _, terms = apart
    own, factors = trial(terms, 2), replace(Factors(), prefill_ratio=3.0)
    corrected = replace(step, times=CorrectedStep(times=step, factors=factors))
    assert fitted_factors(corrected) is None
    assert np.allclose(replay(corrected, own).ttft_s, replay(step, own).ttft_s, rtol=1e-3)
    fitted = replace(step, times=ScaledStep(times=corrected, factors=factors))
    assert fitted_factors(fitted) == factors
