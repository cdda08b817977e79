"""What the accuracy tables score is what a user of `simulate` reads: the same replica, scheduler and latencies."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest
from bench.decisions import ClientSweep, highest, limit_pairs, planned
from bench.published.cases import simulated_as
from bench.published.left_out import band_logs

from ullage import verbs
from ullage.facts.device import find_device
from ullage.load.pool import ReplicaChoice
from ullage.service.calibration.replay import replay
from ullage.service.steps.coefficients import coefficients, engine_age_years
from ullage.service.steps.roofline import Roofline
from ullage.service.steps.step_model import StepModel
from ullage.verbs.simulate import LoadChoice, RepeatedTests

DAY = datetime.date(2026, 11, 16)
# None of these was published, so that nothing but the fit's coefficients stands behind them.
PLAIN = ReplicaChoice(model="meta-llama/Llama-3.1-8B-Instruct", device="h100", engine="vllm", engine_version="0.15.1")
POLLING = ReplicaChoice(
    model="nvidia/Qwen3-32B-NVFP4",
    device="b200",
    engine="sglang",
    engine_version="v0.5.6",
    poll_steps=30,
    kv_dtype="fp8",
)
RESERVING = ReplicaChoice(
    model="Qwen/Qwen3-30B-A3B-FP8", device="h200_sxm", engine="trtllm", tp=2, ep=2, batch_wait_steps=20
)
CLIENTS = LoadChoice(prompt_tokens=1024, output_tokens=256, clients=24)


def by_the_verb(replica: ReplicaChoice, load: LoadChoice) -> dict[tuple[str, str], float]:
    found = verbs.simulate(load, replica=replica, as_of=DAY)
    assert isinstance(found, RepeatedTests)
    return {(each.latency, each.statistic): each.predicted_s for each in found.predictions[0].latencies}


@pytest.mark.parametrize("replica", [PLAIN, POLLING, RESERVING], ids=lambda each: str(each.engine))
def test_the_scored_prediction_is_the_verbs_to_the_digit(replica: ReplicaChoice) -> None:
    work, rates, trial = simulated_as(replica, CLIENTS)
    device, engine = find_device(str(replica.device)), {"trtllm": "tensorrt-llm"}.get(str(replica.engine), "")
    engine = engine or str(replica.engine)
    years = engine_age_years(engine, replica.engine_version)
    values = coefficients(engine, device.architecture, vendor=device.vendor, years=years).values
    shown = by_the_verb(replica, CLIENTS)
    roofline = Roofline(work=work, rates=rates, efficiencies=values)
    found = replay(_with_overhead(roofline), trial)
    for latency, statistic in (("ttft", "p50"), ("ttft", "mean"), ("tpot", "p50"), ("tpot", "mean")):
        assert found.statistic(latency, statistic) == shown[latency, statistic]


class _with_overhead:  # noqa: N801 - a value with one purpose
    def __init__(self, roofline: Roofline) -> None:
        self.decode_s, self.prefill_s, self.pair_s = roofline.decode_s, roofline.prefill_s, roofline.pair_s
        self.request_overhead_s = roofline.efficiencies.request_overhead_s


def test_an_older_version_is_slower_and_polling_waits() -> None:
    newest = by_the_verb(replace(PLAIN, engine_version=None), CLIENTS)
    older = by_the_verb(PLAIN, CLIENTS)
    assert older["tpot", "p50"] > newest["tpot", "p50"]
    seldom, often = by_the_verb(POLLING, CLIENTS), by_the_verb(replace(POLLING, poll_steps=None), CLIENTS)
    assert seldom["ttft", "p50"] > 2 * often["ttft", "p50"]


def test_clients_whose_lengths_nobody_stated_do_not_march_in_step() -> None:
    spread, alike = (by_the_verb(PLAIN, replace(CLIENTS, least_fraction=least)) for least in (None, 1.0))
    assert spread["ttft", "p50"] < alike["ttft", "p50"]


def test_a_model_new_to_the_fit_has_the_band_of_a_new_model() -> None:
    found = verbs.simulate(CLIENTS, replica=PLAIN, as_of=DAY)
    assert isinstance(found, RepeatedTests)
    assert isinstance(found.step, StepModel)
    assert found.step.band.new == "model"


def made_sweep(seed: int) -> ClientSweep:
    """Latencies that rise with clients, and an estimate of them that errs by load and by latency."""
    rng = np.random.default_rng(seed)
    rises = rng.uniform(0.05, 0.5, (6, 2))
    measured = np.cumsum(rises, axis=0)
    estimated = np.cumsum(rises * rng.uniform(0.5, 1.5, (6, 2)), axis=0) + rng.normal(0.0, 0.2, 2)
    return ClientSweep(
        family=f"family {seed % 3}",
        clients=np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0]),
        measured=measured,
        estimated=estimated,
    )


def test_steps_slower_by_the_right_ratio_plan_what_held() -> None:
    """Both latencies judged together; where it is not even the lowest load, nothing is planned."""
    for pair in limit_pairs([made_sweep(seed) for seed in range(20)]):
        found = highest(pair.sweep.clients, pair.sweep.estimated + pair.right_log, pair.limits)
        assert found == pytest.approx(pair.held_clients)
        assert highest(pair.sweep.clients, pair.sweep.estimated + pair.right_log + 0.01, pair.limits) < found


def test_a_smaller_chance_never_plans_more() -> None:
    pairs = limit_pairs([made_sweep(seed) for seed in range(30)])
    for kind in ("estimated", "one at the load planned", "two points"):
        plans = planned(pairs, kind)
        rare, common = (plans.decisions(chance) for chance in (0.05, 0.3))
        assert all(a.planned_clients <= b.planned_clients for a, b in zip(rare, common, strict=True))
        assert sum(each.is_too_much for each in rare) < sum(each.is_too_much for each in common)


def test_the_band_of_a_new_family_is_wider_than_that_of_the_families_it_comes_from() -> None:
    errors = np.random.default_rng(0).normal(0.1, 0.2, (4_000, 2))
    plain, new = band_logs(errors), band_logs(errors, families=4)
    assert (new[0] < plain[0]).all()
    assert new[1] - new[0] == pytest.approx((plain[1] - plain[0]) * 1.25**0.5)
