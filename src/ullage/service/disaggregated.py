"""Prefill and decode on replicas of their own: two pools, simulated one after the other, and the cache sent between.

    prefill pool   every request ends with its first token; its own queue, limits, parallelism and device
    transfer       the prompt's KV over the bandwidth between two replicas, less what is sent while layers compute
    decode pool    a request arrives when its KV is there, computes nothing of its prompt, and writes the rest

The first token reaches the client when the decode pool takes the request in, as engines stream it from there: a full
decode pool shows in TTFT. TPOT is from then to the last token. Pools do not see each other in any other way, so one
after the other is exact; where clients wait for their answers, what they send follows from the ends, and the runs are
repeated until it does.

Not in it: failures of either pool, transfers that queue for a link, and the prompt's computation where a decode replica
loses a request's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError, InternalError
from ullage.service.replica import Replica
from ullage.service.steps.tables import StepTimes, step_table
from ullage.service.trial.trial import play
from ullage.simulate.fleet import DEFAULT_ROUTER, Fleet
from ullage.simulate.load import LoadClass, OpenLoop, Requests
from ullage.simulate.outcome import Outcome

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]
SETTLED_FRACTION = 1e-5
"""A closed loop has settled when no arrival moves by more than this part of the run."""


HANDOVER_S = 0.05
"""What a request spends between two engines whatever its length: the router's second request, and the connection that
its KV goes over. Both engines of the published rows gain by it (bench/CHOICES.md)."""


@dataclass(frozen=True, kw_only=True)
class KvTransfer:
    """What goes from a prefill replica to a decode replica: bytes of each prompt token, over so much bandwidth.

    `overlapped_fraction` of it is sent while the prompt is still computed, layer by layer; `handover_s` is spent
    whatever is sent.
    """

    bytes_per_token: float
    bandwidth_bytes_per_s: float
    overlapped_fraction: float = 0.0
    handover_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_s > 0.0:
            fix = "Give what one replica can send to another, for example 50 GB/s."
            raise InputError(
                field="--transfer", value=self.bandwidth_bytes_per_s, problem="must be greater than 0", fix=fix
            )

    def scaled(self, request_ratio: float) -> KvTransfer:
        """The hand-over as tests found it: like all that a request spends outside an engine's steps."""
        return replace(self, handover_s=request_ratio * self.handover_s)

    def seconds(self, prompt_tokens: Counts) -> Floats:
        """How long each request waits for its KV after its prompt is computed."""
        whole = prompt_tokens.astype(np.float64) * (self.bytes_per_token / self.bandwidth_bytes_per_s)
        left: Floats = self.handover_s + whole * (1.0 - self.overlapped_fraction)
        return left


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """Step times of one of several data-parallel ranks with prompts of its own.

    A prompt's attention is computed by its own rank alone, and all ranks step together: where each has work, a step is
    as long as that of the whole replica with as much on every rank.
    """

    times: StepTimes
    ranks: int

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return self.times.decode_s(self.ranks * sequences, self.ranks * kv_tokens)

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.times.prefill_s(self.ranks * tokens)

    @property
    def pair_s(self) -> float:
        return self.ranks * self.times.pair_s


def rank_of(replica: Replica, times: StepTimes, ranks: int) -> Replica:
    """One of the data-parallel ranks of a replica that computes prompts: its part of the cache and of the limits."""
    engine = replica.engine
    sequences, blocks = max(1, engine.max_sequences // ranks), max(1, engine.kv_blocks // ranks)
    budget = max(engine.budget_tokens // ranks, sequences)
    table = step_table(
        RankTimes(times=times, ranks=ranks),
        max_sequences=sequences,
        budget_tokens=budget,
        kv_tokens=blocks * engine.block_tokens,
    )
    own = replace(engine, step=table, kv_blocks=blocks, max_sequences=sequences, budget_tokens=budget)
    return replace(replica, engine=own)


@dataclass(frozen=True, kw_only=True)
class SplitPools:
    """A prefill pool, a decode pool, and what lies between them.

    Where attention is data-parallel over `prefill_ranks`, each rank of a prefill replica has a queue of its own, and
    `prefill` has the engine of one rank. Each side has a router of its own; that of the prefill side goes by ranks.
    """

    prefill: Replica
    prefill_replicas: int
    decode: Replica
    decode_replicas: int
    transfer: KvTransfer
    prefill_ranks: int = 1
    prefill_routing: str = DEFAULT_ROUTER
    decode_routing: str = DEFAULT_ROUTER

    @property
    def devices(self) -> int:
        return self.prefill_replicas * self.prefill.devices + self.decode_replicas * self.decode.devices


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitTraffic:
    """Requests to serve: when they come, and their lengths. `arrival_s` rises."""

    arrival_s: Floats
    prompt_tokens: Counts
    output_tokens: Counts
    cached_tokens: Counts | None = None
    classes: tuple[LoadClass, ...] = (LoadClass(),)
    class_of: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitServed:
    """Every request joined from both pools, nan where it was refused; and both pools' own outcome."""

    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    end_s: Floats
    prefill_wait_s: Floats
    transfer_s: Floats
    decode_wait_s: Floats
    prefill: Outcome
    decode: Outcome
    rounds: int = 1

    @property
    def duration_s(self) -> float:
        return float(np.nanmax(self.end_s))


def serve_split(pools: SplitPools, traffic: SplitTraffic, *, seed: int) -> SplitServed:
    """Serve requests that come when they come."""
    size = traffic.arrival_s.size
    prefill = _prefilled(pools, traffic, seed)
    first = prefill.requests
    assert first is not None
    sent_s = pools.transfer.seconds(traffic.prompt_tokens)
    ready_s = first.first_token_s + sent_s
    goes_on = np.isfinite(ready_s) & (traffic.output_tokens > 1)
    order = np.flatnonzero(goes_on)[np.argsort(ready_s[goes_on], kind="stable")]
    decode = _decoded(pools, traffic, ready_s, order, seed)
    then = decode.requests
    assert then is not None
    admitted_s, end_s = np.full(size, np.nan), np.full(size, np.nan)
    done = then.output_tokens >= traffic.output_tokens[order] - 1
    admitted_s[order] = np.where(done, then.admitted_s, np.nan)
    end_s[order] = np.where(done, then.end_s, np.nan)
    # An answer of one token is the first token, and comes from the prefill pool.
    single = np.isfinite(first.first_token_s) & (traffic.output_tokens == 1)
    admitted_s[single] = end_s[single] = first.first_token_s[single]
    # It passes the servers of both engines on its way.
    outside_s = first.outside_s.copy()
    outside_s[order] += then.outside_s
    later = np.maximum(traffic.output_tokens - 1, 1)
    return SplitServed(
        ttft_s=admitted_s - traffic.arrival_s + outside_s,
        tpot_s=np.where(traffic.output_tokens > 1, (end_s - admitted_s) / later, np.nan),
        e2e_s=end_s - traffic.arrival_s + outside_s,
        end_s=end_s + outside_s,
        prefill_wait_s=first.admitted_s - traffic.arrival_s,
        transfer_s=np.where(goes_on, sent_s, 0.0),
        decode_wait_s=np.where(goes_on, admitted_s - ready_s, 0.0),
        prefill=prefill,
        decode=decode,
    )


def serve_split_clients(pools: SplitPools, traffic: SplitTraffic, *, clients: int, seed: int) -> SplitServed:
    """Serve requests of clients that send the next one when an answer is there; `traffic` has lengths, not times.

    The k-th answer lets the (clients + k)-th request go. Runs are repeated with the arrivals that follow from the ends
    of the last one: each is exact up to its first wrong arrival, so every run is right for longer.
    """
    size = traffic.prompt_tokens.size
    arrival_s = _first_guess(pools, traffic, clients, seed)
    # A run is right for the shortest answer longer than the one before; answers are not so unequal that this is short.
    most = 40 * -(-size // clients) + 40
    for number in range(1, most + 1):
        served = serve_split(pools, replace(traffic, arrival_s=arrival_s), seed=seed)
        ends = np.sort(np.where(np.isfinite(served.end_s), served.end_s, arrival_s))
        following = np.concatenate([np.zeros(min(clients, size)), ends[: max(0, size - clients)]])
        moved = float(np.abs(following - arrival_s).max(initial=0.0))
        if moved <= SETTLED_FRACTION * served.duration_s:
            return replace(served, rounds=number)
        arrival_s = following
    raise InternalError(law="a closed loop settles after some runs for each request of a client", left=moved, right=0.0)


def _first_guess(pools: SplitPools, traffic: SplitTraffic, clients: int, seed: int) -> Floats:
    """Each client's next request after as long as the first ones took, all alone."""
    size = traffic.prompt_tokens.size
    firsts = slice(0, min(clients, size))
    alone = SplitTraffic(
        arrival_s=np.zeros(firsts.stop),
        prompt_tokens=traffic.prompt_tokens[firsts],
        output_tokens=traffic.output_tokens[firsts],
        cached_tokens=None if traffic.cached_tokens is None else traffic.cached_tokens[firsts],
        classes=traffic.classes,
        class_of=None if traffic.class_of is None else traffic.class_of[firsts],
    )
    took_s = np.sort(np.nan_to_num(serve_split(pools, alone, seed=seed).end_s, nan=0.0))
    generation, place = np.divmod(np.arange(size), clients)
    guess: Floats = generation * float(took_s[-1]) + np.where(generation > 0, took_s[place] - took_s[-1], 0.0)
    return guess


def splits(devices: int, *, prefill_devices: int, decode_devices: int) -> Iterator[tuple[int, int]]:
    """Every number of prefill and decode replicas that together take so many devices and leave fewer than one more."""
    for prefill in range(1, devices // prefill_devices + 1):
        decode = (devices - prefill * prefill_devices) // decode_devices
        if decode >= 1 and devices - prefill * prefill_devices - decode * decode_devices < prefill_devices:
            yield prefill, decode


def _prefilled(pools: SplitPools, traffic: SplitTraffic, seed: int) -> Outcome:
    """The prompts alone: an answer of one token ends with the prefill."""
    requests = Requests(
        prompt_tokens=traffic.prompt_tokens,
        output_tokens=np.ones_like(traffic.output_tokens),
        cached_tokens=traffic.cached_tokens,
        classes=traffic.classes,
        class_of=traffic.class_of,
    )
    load = OpenLoop(requests=requests, arrival_s=traffic.arrival_s)
    fleet = Fleet(replicas=pools.prefill_replicas * pools.prefill_ranks, routing=pools.prefill_routing)
    # A prefill pool computes one token, whatever its clients allow.
    engine = pools.prefill.engine
    alone = replace(engine, capacity=replace(engine.capacity, output_limit_tokens=None))
    return play(alone, fleet, load, seed=seed, keep_requests=True)


def _decoded(pools: SplitPools, traffic: SplitTraffic, ready_s: Floats, order: NDArray[np.int64], seed: int) -> Outcome:
    """The rest of the answers: the prompt's KV counts as cached, and its first token is what is fed in first."""
    requests = Requests(
        prompt_tokens=traffic.prompt_tokens[order] + 1,
        output_tokens=traffic.output_tokens[order] - 1,
        cached_tokens=traffic.prompt_tokens[order],
        classes=traffic.classes,
        class_of=None if traffic.class_of is None else traffic.class_of[order],
    )
    load = OpenLoop(requests=requests, arrival_s=ready_s[order])
    fleet = Fleet(replicas=pools.decode_replicas, routing=pools.decode_routing)
    return play(pools.decode.engine, fleet, load, seed=seed, keep_requests=True)
