"""Laws of capacity, on common random numbers: what more supply or less demand must not make worse."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ullage.simulate import ClosedLoop, Engine, Fleet, LoadClass, OpenLoop, Requests, StepTable, poisson, simulate
from ullage.simulate.outcome import Outcome
from ullage.simulate.statistics import mean_interval, replication_seeds

SEEDS = replication_seeds(11, 8)
CHAT = LoadClass(name="chat", ttft_slo_s=0.5, tpot_slo_s=0.025, ttft_timeout_s=5)


def engine(kv_blocks: int = 3000) -> Engine:
    step = StepTable.affine(step_s=0.008, sequence_s=5e-5, kv_token_s=2e-8, prefill_token_s=3e-5, max_sequences=64)
    return Engine(step=step, kv_blocks=kv_blocks, max_sequences=64, waiting_requests=40)


def load(seed: int, rate_rps: float = 27.0, kept_fraction: float = 1.0) -> OpenLoop:
    rng = np.random.default_rng(seed)
    drawn = poisson(
        rate_rps=rate_rps, requests=6000, prompt_tokens=500, output_tokens=120, spread=0.7, rng=rng, classes=(CHAT,)
    )
    if kept_fraction == 1.0:
        return drawn
    kept = rng.random(6000) < kept_fraction
    assert drawn.arrival_ps is not None
    requests = Requests(
        prompt_tokens=drawn.requests.prompt_tokens[kept],
        output_tokens=drawn.requests.output_tokens[kept],
        classes=drawn.requests.classes,
    )
    return OpenLoop(requests=requests, arrival_ps=drawn.arrival_ps[kept])


def share(outcome: Outcome) -> float:
    return outcome.total.counts.success_fraction


def gain_high(more: list[float], less: list[float]) -> float:
    """The end of the interval for what is gained over seeds that both share, which removes the noise they share."""
    return mean_interval([a - b for a, b in zip(more, less, strict=True)]).high


@pytest.mark.parametrize("kept", [0.9, 0.6])
def test_fewer_arrivals_do_not_lower_the_share_that_succeeds(kept: float) -> None:
    many = [share(simulate(engine(), Fleet(), load(seed), seed=seed)) for seed in SEEDS]
    few = [share(simulate(engine(), Fleet(), load(seed, kept_fraction=kept), seed=seed)) for seed in SEEDS]
    assert gain_high(few, many) >= 0
    assert np.mean(few) > np.mean(many), "the load is chosen so that it matters"


@pytest.mark.parametrize("routing", ["round_robin", "least_outstanding", "least_tokens", "least_kv", "power_of_two"])
def test_more_replicas_do_not_lower_the_share_that_succeeds(routing: str) -> None:
    shares = [
        [share(simulate(engine(), Fleet(replicas=n, routing=routing), load(seed), seed=seed)) for seed in SEEDS[:4]]
        for n in (1, 2, 3)
    ]
    for less, more in itertools.pairwise(shares):
        assert gain_high(more, less) >= 0
    assert np.mean(shares[2]) > np.mean(shares[0])


def test_more_kv_does_not_raise_preemptions() -> None:
    """Where every request is served in the end; with shedding a larger cache also serves more."""
    found = []
    for blocks in (700, 800, 1000, 1300, 6400):
        patient = replace(engine(blocks), waiting_requests=None)
        loads = [
            poisson(
                rate_rps=12, requests=6000, prompt_tokens=500, output_tokens=120, spread=0.7,
                rng=np.random.default_rng(seed),
            )
            for seed in SEEDS[:4]
        ]  # fmt: skip
        found.append(sum(simulate(patient, Fleet(), each, seed=1).total.preemptions for each in loads))
    assert found == sorted(found, reverse=True)
    assert found[0] > 1000
    assert found[-1] == 0


def test_more_kv_may_lower_goodput_under_a_tpot_slo() -> None:
    """A small cache limits the batch, and with it the step time; a large one lets everyone in, and all are too slow."""
    requests = Requests(
        prompt_tokens=np.full(4000, 500),
        output_tokens=np.full(4000, 120),
        classes=(LoadClass(name="chat", tpot_slo_s=0.0125),),
    )
    small, large = (
        simulate(
            replace(engine(blocks), waiting_requests=None), Fleet(), ClosedLoop(requests=requests, clients=60), seed=0
        ).goodput_rps
        for blocks in (1000, 6400)
    )
    assert small > 10 * large


def test_routing_by_what_is_resident_and_queued_does_not_herd() -> None:
    def worst_wait_s(routing: str, refresh_s: float = 0.0) -> float:
        fleet = Fleet(replicas=8, routing=routing, refresh_s=refresh_s)
        return simulate(engine(), fleet, load(3, 50.0), seed=3).total.ttft.quantile_s(0.99)

    assert worst_wait_s("least_kv") < 0.5 * worst_wait_s("least_kv", refresh_s=2.0)
