"""A load test simulated as it was run: the same loop, lengths, caps and number of requests, on one replica.

What is compared with a measurement is the same statistic of the same definition. That matters: the mean TTFT of a
closed loop has the first burst in it, when all clients send at once, and its median has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError
from ullage.service.disaggregated import (
    KvTransfer,
    SplitPools,
    SplitTraffic,
    rank_of,
    serve_split,
    serve_split_clients,
)
from ullage.service.replica import Replica
from ullage.service.steps.floor import Floor
from ullage.service.steps.floored import scaled
from ullage.service.steps.scaled import CorrectedStep, Factors, ScaledStep
from ullage.service.steps.tables import StepTimes, step_table
from ullage.service.steps.work import Floats
from ullage.service.trial.trial import play
from ullage.simulate import ClosedLoop, Engine, Fleet, LoadClass, OpenLoop, Requests
from ullage.simulate.engine import PRESENT_NEED, CapacityPolicy
from ullage.simulate.fleet import DEFAULT_ROUTER

Counts = NDArray[np.int32]
PROMPTS_PER_CLIENT = 10
"""How many requests each client of a closed loop sends where the file does not say; InferenceX sends ten."""


CROWD_FRACTION = 0.02
"""What every other request that is being answered adds to a request's time outside the engine: the server sends their
tokens from the same loop. At fifty of them a first token takes twice as long to get out as at none."""


# Steps of so many sequences and of one tell how a step grows.
_CROWD_SEQUENCES = 64.0


class RequestTimes(StepTimes, Protocol):
    """Step times, and what a request spends outside the steps before its first token."""

    @property
    def request_overhead_s(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """What bounds the scheduler of the replica that was tested.

    `poll_steps` is how many decode steps the scheduler takes between two looks for new requests: 1 for all engines
    unless they are told otherwise (SGLang's --scheduler-recv-interval). With `batch_wait_steps` a request
    waits so many steps for others to be let in with (TensorRT-LLM's batch_wait_timeout_iters). `capacity` is what
    must fit before a request is let in. With speculation a step computes `step_positions` of each decoding sequence and
    brings it `tokens_per_step`.
    """

    max_sequences: int
    budget_tokens: int
    kv_tokens: int
    block_tokens: int = 16
    poll_steps: int = 1
    batch_wait_steps: int = 0
    capacity: CapacityPolicy = PRESENT_NEED
    tokens_per_step: float = 1.0
    step_positions: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ApartTest:
    """The pools of a test whose prefill and decode were apart. The replica that is fitted is the one that decodes.

    `prefill` are the estimated step times of a prefill replica and `prefill_floor` is what they cannot beat; what a fit
    finds of the decode replica's is taken to hold for its parts too, since both are the same model, engine and kernels.
    Where attention is data-parallel over `prefill_ranks`, each rank of a prefill replica has a queue of its own. Each
    side has a router of its own.
    """

    prefill: RequestTimes
    prefill_floor: Floor
    prefill_limits: EngineLimits
    prefill_replicas: int
    prefill_ranks: int = 1
    decode_replicas: int
    transfer: KvTransfer
    prefill_routing: str = DEFAULT_ROUTER
    decode_routing: str = DEFAULT_ROUTER


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadTestReplay:
    """One point of a load test: its requests, and who decides when the next one is sent.

    `clients` is set for a closed loop, `arrival_s` for an open one. `timeout_s` is when the client gives up. `apart` is
    set where prompts were computed on replicas of their own; the requests are then those of all replicas.
    `cold_start_s` is what the first step takes longer where the engine was cold.
    """

    prompt_tokens: Counts
    output_tokens: Counts
    limits: EngineLimits
    clients: int | None = None
    arrival_s: Floats | None = None
    cached_tokens: Counts | None = None
    timeout_s: float | None = None
    apart: ApartTest | None = None
    cold_start_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.clients is None) == (self.arrival_s is None):
            raise InputError(
                field="trial",
                value=self.clients,
                problem="is either a closed loop or an open one",
                fix="Give clients, or arrival_s.",
            )

    @property
    def starts_full(self) -> bool:
        """Whether all clients start at once with more prompt tokens than one step computes."""
        if self.clients is None or self.apart is not None:
            return False
        first = slice(0, self.clients)
        new = int(self.prompt_tokens[first].sum())
        if self.cached_tokens is not None:
            new -= int(self.cached_tokens[first].sum())
        return new >= self.limits.budget_tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Replayed:
    """What the simulated test measured, one value a request that was answered.

    `outside_s` is the part of each TTFT that lies outside the engine, which the engine's own metrics do not see;
    `queued_s` is how long each waited for the scheduler, `gaps` how many tokens followed the first of each TPOT.
    """

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    duration_s: float
    output_tokens: int
    sent_count: int
    outside_s: Floats | None = None
    queued_s: Floats | None = None
    gaps: Floats | None = None

    @property
    def output_tokens_per_s(self) -> float:
        return self.output_tokens / self.duration_s

    @property
    def success_fraction(self) -> float:
        return self.ttft_s.size / self.sent_count

    def statistic(self, latency: str, which: str) -> float:
        """`mean`, or a percentile such as `p50`, of `ttft`, `tpot` or `e2e`; nan where nothing was answered.

        `engine_ttft` is the TTFT without what lies outside the engine; `itl` has a mean alone, over all tokens alike.
        """
        if latency == "itl" and self.gaps is not None and self.gaps.sum() > 0:
            return float(np.average(self.tpot_s, weights=self.gaps))
        outside_s = 0.0 if self.outside_s is None else self.outside_s
        values: Floats = {
            "ttft": self.ttft_s,
            "tpot": self.tpot_s,
            "e2e": self.e2e_s,
            "engine_ttft": self.ttft_s - outside_s,
            "itl": self.tpot_s,
        }[latency]
        if values.size == 0:
            return float("nan")
        return float(np.mean(values) if which == "mean" else np.percentile(values, float(which.removeprefix("p"))))


def replay(times: RequestTimes, trial: LoadTestReplay) -> Replayed:
    """Simulate the trial; nothing in it is left to chance."""
    if trial.apart is not None:
        return _replay_apart(times, trial, trial.apart)
    limits = trial.limits
    sequences = _sequences(limits, trial)
    unseen_s = _unseen_s(times, trial, sequences)
    engine = _engine(times, limits, trial)
    requests = Requests(
        prompt_tokens=trial.prompt_tokens,
        output_tokens=trial.output_tokens,
        cached_tokens=trial.cached_tokens,
        classes=(LoadClass(total_timeout_s=trial.timeout_s),),
    )
    load: ClosedLoop | OpenLoop
    if trial.clients is not None:
        load = ClosedLoop(requests=requests, clients=trial.clients, think_s=np.roll(unseen_s, -trial.clients))
    else:
        load = OpenLoop(requests=requests, arrival_s=trial.arrival_s)
    outcome = play(engine, Fleet(), load, seed=0, keep_requests=True, attribution=False)
    found = outcome.requests
    assert found is not None
    whole = found.output_tokens >= trial.output_tokens
    cold_s = _cold_s(trial)
    outside_s = found.outside_s[whole] + unseen_s[whole]
    waited_s = outside_s + cold_s[whole]
    first = (found.first_token_s - found.arrival_s)[whole] + waited_s
    end = (found.end_s - found.arrival_s)[whole] + waited_s
    gaps = np.maximum(trial.output_tokens[whole] - 1, 1)
    return Replayed(
        ttft_s=first,
        tpot_s=((end - first) / gaps)[trial.output_tokens[whole] > 1],
        e2e_s=end,
        duration_s=outcome.duration_s + float(cold_s.max()),
        output_tokens=int(found.output_tokens.sum()),
        sent_count=int(trial.prompt_tokens.size),
        outside_s=outside_s,
        queued_s=(found.admitted_s - found.arrival_s)[whole] + cold_s[whole],
        gaps=gaps[trial.output_tokens[whole] > 1].astype(np.float64),
    )


def _cold_s(trial: LoadTestReplay) -> Floats:
    """What a cold engine adds to each request: to those that all clients send at first, and to none after them."""
    added: Floats = np.zeros(trial.prompt_tokens.size)
    if trial.cold_start_s > 0.0 and trial.clients is not None:
        added[: trial.clients] = trial.cold_start_s
    return added


def _sequences(limits: EngineLimits, trial: LoadTestReplay) -> int:
    """Sequences that may run at once, by the scheduler and by the clients."""
    return min(limits.max_sequences, trial.prompt_tokens.size, trial.clients or limits.max_sequences)


def _engine(times: RequestTimes, limits: EngineLimits, trial: LoadTestReplay) -> Engine:
    """An engine of these limits, no larger than the trial can fill, and large enough for its longest request."""
    sequences = _sequences(limits, trial)
    longest = int((trial.prompt_tokens + trial.output_tokens).max())
    held = min(limits.kv_tokens, sequences * longest)
    alone_s, each_s = (
        (0.0, 0.0) if trial.clients is not None else polling_s(times, limits.poll_steps, limits.batch_wait_steps)
    )
    return Engine(
        step=step_table(times, max_sequences=sequences, budget_tokens=limits.budget_tokens, kv_tokens=held),
        kv_blocks=max(limits.kv_tokens, longest + limits.step_positions - 1 + 2 * limits.block_tokens)
        // limits.block_tokens,
        block_tokens=limits.block_tokens,
        max_sequences=sequences,
        budget_tokens=max(limits.budget_tokens, sequences * limits.step_positions),
        request_overhead_s=times.request_overhead_s + alone_s,
        crowd_overhead_s=CROWD_FRACTION * times.request_overhead_s + each_s,
        capacity=limits.capacity,
        tokens_per_step=limits.tokens_per_step,
        step_positions=limits.step_positions,
    )


def _replay_apart(times: RequestTimes, trial: LoadTestReplay, apart: ApartTest) -> Replayed:
    """The test on its two pools: prompts on one, answers on the other, the KV sent between."""
    factors = fitted_factors(times)
    prefill = apart.prefill if factors is None else scaled(apart.prefill, apart.prefill_floor, factors)
    computes = Replica(engine=_engine(prefill, apart.prefill_limits, trial))
    ranks = apart.prefill_ranks
    pools = SplitPools(
        prefill=computes if ranks == 1 else rank_of(computes, prefill, ranks),
        prefill_replicas=apart.prefill_replicas,
        prefill_ranks=ranks,
        decode=Replica(engine=_engine(times, trial.limits, trial)),
        decode_replicas=apart.decode_replicas,
        transfer=apart.transfer if factors is None else apart.transfer.scaled(factors.request_ratio),
        prefill_routing=apart.prefill_routing,
        decode_routing=apart.decode_routing,
    )
    traffic = SplitTraffic(
        arrival_s=np.zeros(trial.prompt_tokens.size) if trial.arrival_s is None else trial.arrival_s,
        prompt_tokens=trial.prompt_tokens,
        output_tokens=trial.output_tokens,
        cached_tokens=trial.cached_tokens,
    )
    if trial.clients is None:
        served = serve_split(pools, traffic, seed=0)
    else:
        served = serve_split_clients(pools, traffic, clients=trial.clients, seed=0)
    done = np.isfinite(served.end_s)
    return Replayed(
        ttft_s=served.ttft_s[done],
        tpot_s=served.tpot_s[done & (trial.output_tokens > 1)],
        e2e_s=served.e2e_s[done],
        duration_s=served.duration_s,
        output_tokens=int(trial.output_tokens[done].sum()),
        sent_count=int(trial.prompt_tokens.size),
    )


def factors_of(times: object) -> Factors | None:
    """The factors that step times were scaled by, however they are wrapped; None where they are an estimate."""
    if isinstance(times, ScaledStep):
        return times.factors
    inner = getattr(times, "times", None)
    return None if inner is None else factors_of(inner)


def fitted_factors(times: object) -> Factors | None:
    """The factors that were fitted to the user's own tests; published corrections are a part of the estimate."""
    if isinstance(times, ScaledStep) and not isinstance(times, CorrectedStep):
        return times.factors
    inner = getattr(times, "times", None)
    return None if inner is None else fitted_factors(inner)


def polling_s(times: StepTimes, poll_steps: int, batch_wait_steps: int = 0) -> tuple[float, float]:
    """What a request waits on average for a scheduler that looks for new ones every few decode steps only.

    The first value is that beside one running sequence, the second what each further one adds: half of the steps
    between two looks and all that are waited for others, at a thousand tokens a sequence. An idle engine looks all the
    time, which this leaves out.
    """
    steps = (poll_steps / 2.0 if poll_steps > 1 else 0.0) + batch_wait_steps
    if not steps:
        return 0.0, 0.0
    counts = np.array([1.0, _CROWD_SEQUENCES])
    few_s, many_s = times.decode_s(counts, 1_000.0 * counts).tolist()
    slope_s = (many_s - few_s) / (_CROWD_SEQUENCES - 1.0)
    return steps * few_s, steps * max(0.0, slope_s)


def _unseen_s(times: RequestTimes, trial: LoadTestReplay, sequences: int) -> Floats:
    """How long each request lies before a scheduler that seldom lets requests in; to the engine it is not there yet.

    Sent at any time between two looks, it waits evenly between none and all of the steps between them. Where a request
    waits for others, the first waits all of the steps, and those that come meanwhile what is left of them. Whoever is
    let in together is prefilled together, and waits for the prompts of the others too. All clients start before an idle
    engine, which lets everybody in at once, and so does an engine with a single client.
    """
    unseen: Floats = np.zeros(trial.prompt_tokens.size)
    limits = trial.limits
    poll, wait = (limits.poll_steps if limits.poll_steps > 1 else 0), limits.batch_wait_steps
    if poll + wait == 0 or trial.clients is None or trial.clients <= 1:
        return unseen
    prompt, output = float(trial.prompt_tokens.mean()), float(trial.output_tokens.mean())
    context = prompt + output / 2
    step_s = float(times.decode_s(np.array([float(sequences)]), np.array([sequences * context]))[0])
    # The golden ratio spreads shares evenly over 0 to 1, whatever their number.
    shares = np.arange(unseen.size - trial.clients) * 0.6180339887498949 % 1.0
    # Each running sequence ends once in an answer, and its client sends again.
    others = sequences / output * (poll + wait)
    first = 1.0 / (1.0 + sequences / output * wait)
    waited = np.where(shares < first, 1.0, (shares - first) / max(1.0 - first, 1e-9)) if wait else 0.0
    steps = shares * poll + waited * wait
    unseen[trial.clients :] = steps * step_s + _together_s(times, prompt, others, limits.budget_tokens)
    return unseen


def _together_s(times: StepTimes, prompt: float, others: float, budget_tokens: int) -> float:
    """What a request waits for the prompts that are let in with it: all of those in its step, half of those in others.

    At most as many share a step as the budget holds.
    """
    alone_s = float(times.prefill_s(np.array([prompt]))[0]) + times.pair_s * prompt * prompt / 2.0
    beside = max(0.0, min(others, budget_tokens / prompt - 1.0))
    return alone_s * (others + beside) / 2.0


def uniform_lengths(nominal_tokens: int, count: int, *, least_fraction: float, rng: np.random.Generator) -> Counts:
    """Lengths drawn evenly from `least_fraction` of the nominal length up to all of it."""
    least = max(1, int(least_fraction * nominal_tokens))
    return rng.integers(least, nominal_tokens + 1, count).astype(np.int32)
