"""What the accuracy tables score is what a user of `simulate` reads: the same replica, scheduler and latencies."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from bench.published.cases import simulated_as

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
