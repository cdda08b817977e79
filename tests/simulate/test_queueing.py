"""Degenerate settings against closed forms, and the plain engine against SimPy."""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
import pytest
import simpy

from ullage.simulate import ClosedLoop, Engine, Fleet, OpenLoop, Requests, StepTable, simulate
from ullage.simulate.outcome import Outcome

REQUESTS = 300_000


def one_at_a_time() -> Engine:
    """An engine that serves one request at a time, in a time proportional to its prompt: a plain server."""
    step = StepTable.affine(step_s=1e-12, prefill_token_s=1e-6, max_sequences=1)
    return Engine(step=step, kv_blocks=1 << 24, max_sequences=1, budget_tokens=1 << 26)


def run(engine: Engine, prompts: np.ndarray, outputs: np.ndarray, rate_rps: float, seed: int) -> Outcome:
    gaps = np.random.default_rng([seed, 1]).exponential(1 / rate_rps, prompts.size)
    load = OpenLoop(requests=Requests(prompt_tokens=prompts, output_tokens=outputs), arrival_s=np.cumsum(gaps))
    return simulate(engine, Fleet(), load, seed=0, keep_requests=True)


def mean_wait_s(outcome: Outcome) -> float:
    assert outcome.requests is not None
    return float((outcome.requests.admitted_s - outcome.requests.arrival_s).mean())


def test_m_m_1() -> None:
    # Mean service 10 ms in units of 1 us, load 0.7: waiting time has an atom 1 - load and an exponential tail.
    prompts = np.maximum(1, np.random.default_rng(2).exponential(10_000, REQUESTS).astype(np.int64))
    outcome = run(one_at_a_time(), prompts, np.ones(REQUESTS, np.int64), 70.0, 3)
    assert mean_wait_s(outcome) == pytest.approx(0.7 / (100 - 70), rel=0.04)
    assert outcome.requests is not None
    waits = outcome.requests.admitted_s - outcome.requests.arrival_s
    for limit_s in (0.01, 0.05, 0.1):
        assert (waits > limit_s).mean() == pytest.approx(0.7 * math.exp(-30 * limit_s), rel=0.08)
    assert outcome.mean_outstanding_requests == pytest.approx(0.7 / 0.3, rel=0.04)


def test_m_d_1() -> None:
    prompts = np.full(REQUESTS, 10_000, np.int64)
    outcome = run(one_at_a_time(), prompts, np.ones(REQUESTS, np.int64), 80.0, 4)
    assert mean_wait_s(outcome) == pytest.approx(0.8 / (2 * 100 * 0.2), rel=0.04)


def test_m_m_c() -> None:
    # Sixteen places, a step of 1 ms whatever the batch, geometric outputs: c servers with service of 200 steps.
    places, rate_rps, service_s = 16, 65.0, 0.2
    step = StepTable.affine(step_s=0.001, max_sequences=places)
    engine = Engine(step=step, kv_blocks=1 << 24, max_sequences=places)
    outputs = np.random.default_rng(5).geometric(1 / 200, REQUESTS)
    outcome = run(engine, np.ones(REQUESTS, np.int64), outputs, rate_rps, 6)
    offered = rate_rps * service_s
    below = sum(offered**i / math.factorial(i) for i in range(places))
    top = offered**places / math.factorial(places) * places / (places - offered)
    waits = top / (below + top) * service_s / (places - offered)
    # Half a step more: an arrival waits for the boundary even when a place is free.
    assert mean_wait_s(outcome) == pytest.approx(waits + 0.0005, rel=0.05)


def test_the_plain_engine_agrees_with_simpy_to_the_picosecond() -> None:
    rng = np.random.default_rng(7)
    count, places, budget = 400, 6, 64
    arrivals = np.cumsum(rng.integers(0, 4_000_000, count))
    prompts, outputs = rng.integers(1, 150, count), rng.integers(1, 40, count)
    finished: dict[int, int] = {}
    env = simpy.Environment()
    waiting: list[list[int]] = []  # number, prompt tokens left, output tokens left
    woken = env.event()

    def source() -> Generator[simpy.Event, None, None]:
        nonlocal woken
        for number in range(count):
            yield env.timeout(int(arrivals[number]) - env.now)
            waiting.append([number, int(prompts[number]), int(outputs[number])])
            if not woken.triggered:
                woken.succeed()

    def server() -> Generator[simpy.Event, None, None]:
        nonlocal woken
        running: list[list[int]] = []
        while True:
            left = budget - sum(each[1] == 0 for each in running)
            chunks = {}
            while True:
                for each in running:
                    if each[1] > 0 and each[0] not in chunks:
                        chunks[each[0]] = min(each[1], left)
                        left -= chunks[each[0]]
                if left == 0 or len(running) == places or not waiting:
                    break
                running.append(waiting.pop(0))
            if not running:
                woken = env.event()
                yield woken
                # An arrival at this very time comes before the step that it starts.
                yield env.timeout(0)
                continue
            decodes = sum(each[1] == 0 for each in running)
            yield env.timeout(500_000 + 20_000 * decodes + 3_000 * sum(chunks.values()))
            yield env.timeout(0)
            for each in running:
                if each[1] == 0 or chunks[each[0]] == each[1]:
                    each[2] -= 1
                each[1] -= chunks.get(each[0], 0)
                if each[2] == 0:
                    finished[each[0]] = int(env.now)
            running = [each for each in running if each[2] > 0]

    env.process(source())
    env.process(server())
    env.run(until=int(arrivals[-1]) + 10**12)

    step = StepTable.affine(step_s=5e-7, sequence_s=2e-8, prefill_token_s=3e-9, max_sequences=places)
    engine = Engine(step=step, kv_blocks=1 << 20, max_sequences=places, budget_tokens=budget)
    requests = Requests(prompt_tokens=prompts, output_tokens=outputs)
    outcome = simulate(engine, Fleet(), OpenLoop(requests=requests, arrival_ps=arrivals), seed=0, keep_requests=True)
    assert outcome.requests is not None
    ours = np.rint(outcome.requests.end_s * 1e12).astype(np.int64)
    assert ours.tolist() == [finished[number] for number in range(count)]


def test_a_closed_loop_of_one_client_has_no_queue() -> None:
    requests = Requests(prompt_tokens=np.full(50, 10), output_tokens=np.full(50, 20))
    engine = Engine(step=StepTable.affine(step_s=0.01), kv_blocks=100)
    outcome = simulate(engine, Fleet(), ClosedLoop(requests=requests, clients=1, think_s=0.3), seed=0)
    assert outcome.duration_s == pytest.approx(50 * 0.2 + 49 * 0.3, rel=1e-9)
    assert outcome.mean_outstanding_requests == pytest.approx(10 / outcome.duration_s, rel=1e-9)
