"""`simulate`: one question, one frozen answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ullage.simulate.compile import compile_problem, to_ps
from ullage.simulate.engine import Engine
from ullage.simulate.fleet import Fleet, Signals, Wanted
from ullage.simulate.laws import check_laws
from ullage.simulate.load import Load
from ullage.simulate.outcome import PS_PER_S, Outcome, read_outcome
from ullage.simulate.world import KernelRun

# Boundaries of a week of a hundred busy replicas are a few billion; ten times that is a run that does not end.
MOST_EVENTS = 10**11
# How often a run that reports says how far it is.
_PARTS = 50


def simulate(
    engine: Engine | Sequence[Engine],
    fleet: Fleet,
    load: Load,
    *,
    seed: int,
    until_s: float | None = None,
    warmup_s: float = 0.0,
    sample_s: float | None = None,
    samples: bool = True,
    gauges: bool = False,
    keep_requests: bool = False,
    attribution: bool = True,
    most_events: int = MOST_EVENTS,
    report: Callable[[float], None] | None = None,
) -> Outcome:
    """Simulates a fleet under a load, step by engine step, and reports the outcome of every request.

    `seed` decides only what is left to chance inside (random routing, jitter of retries); arrivals and lengths
    are the load's. Without `until_s` the run ends when every request has ended. Requests that arrive in the first
    `warmup_s` are served but not counted. `sample_s` asks for series over time, of every replica with `samples` and of
    the fleet as a whole with `gauges`; `keep_requests` asks for the times of every request (24 bytes each); `report` is
    told which share of the arrivals is over. Little's law and the conservation of requests and tokens are checked on
    every run; a breach raises InternalError.

    >>> import numpy as np
    >>> from ullage.simulate import Engine, Fleet, StepTable, poisson, simulate
    >>> engine = Engine(step=StepTable.affine(step_s=0.008, prefill_token_s=3e-5), kv_blocks=20_000)
    >>> load = poisson(rate_rps=5, requests=1000, prompt_tokens=800, output_tokens=100, rng=np.random.default_rng(1))
    >>> simulate(engine, Fleet(replicas=2), load, seed=1).total.counts.success
    1000
    """
    problem = compile_problem(
        [engine] if isinstance(engine, Engine) else list(engine),
        fleet,
        load,
        seed=seed,
        until_s=until_s,
        warmup_s=warmup_s,
        sample_s=sample_s,
        samples=samples,
        gauges=gauges,
        keep_requests=keep_requests,
        attribution=attribution,
        most_events=most_events,
    )
    rule = fleet.autoscaler.rule if fleet.autoscaler is not None else None
    callback = None if rule is None else lambda run: _told(run, rule(read_signals(run)))
    run = KernelRun(problem)
    if report is not None and problem.arrival_ps.size:
        _advance_in_parts(run, callback, report)
    run.finish(callback)
    check_laws(run)
    return read_outcome(run, load.requests)


def _advance_in_parts(
    run: KernelRun, callback: Callable[[KernelRun], int] | None, report: Callable[[float], None]
) -> None:
    """Up to the last arrival in parts of equally many requests; what a run does is the same in one part or many."""
    arrival_ps = run.problem.arrival_ps
    for part in range(1, _PARTS):
        run.advance(min(int(arrival_ps[part * arrival_ps.size // _PARTS]), run.problem.until_ps), callback)
        report(part / _PARTS)


def _told(run: KernelRun, answer: int | Wanted) -> int:
    """The number of replicas a rule wants; its start delays are put where the kernel reads them."""
    if isinstance(answer, int):
        return answer
    if not answer.starts_s:
        return answer.replicas
    delays, first = run.world.given("start_delays"), int(run.clock.starts)
    for place, each_s in enumerate(answer.starts_s):
        delays[(first + place) % delays.size] = to_ps(each_s)
    return answer.replicas


def read_signals(run: KernelRun) -> Signals:
    """What the kernel read at the control tick it stopped at."""
    clock = run.world.plain_clock
    return Signals(
        at_s=int(clock["other_ps"]) / PS_PER_S,
        outstanding_requests=int(clock["signal_outstanding"]),
        waiting_requests=int(clock["signal_waiting"]),
        tokens=int(clock["signal_tokens"]),
        ready_replicas=int(clock["signal_ready"]),
        starting_replicas=int(clock["signal_starting"]),
        held_requests=int(clock["in_backoff"]),
        gauges=run.gauges if run.problem.gauges else None,
        first_tokens=lambda from_s, until_s, age_s: _first_tokens(run, from_s, until_s, age_s),
    )


def _first_tokens(run: KernelRun, from_s: float, until_s: float, age_s: float) -> Any:
    """TTFTs, in seconds, of first tokens between two times; only of requests that waited at most `age_s`."""
    world, issued = run.world, int(run.clock.issued)
    first = int(np.searchsorted(world.arrival_ps[:issued], to_ps(max(0.0, from_s - age_s))))
    first_ps, arrival_ps = world.first_ps[first:issued], world.arrival_ps[first:issued]
    inside = (first_ps > to_ps(from_s)) & (first_ps <= to_ps(until_s))
    return (first_ps[inside] - arrival_ps[inside]) / PS_PER_S
