"""Prefill and decode apart: joined by hand on small cases, and held to what must be whatever the pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.served_replicas import class_with_slos
from ullage.errors import InputError
from ullage.service.comparison import _arrangement
from ullage.service.disaggregated import (
    KvTransfer,
    SplitPools,
    SplitTraffic,
    serve_split,
    serve_split_clients,
    splits,
)
from ullage.service.replica import Replica
from ullage.simulate import ClosedLoop, Engine, Fleet, Requests, StepTable, simulate

STEP = StepTable.affine(step_s=0.010, sequence_s=1e-4, kv_token_s=1e-8, prefill_token_s=2e-5, max_sequences=32)


def replica(**more: Any) -> Replica:
    return Replica(engine=Engine(step=STEP, kv_blocks=4000, max_sequences=32, budget_tokens=2048, **more))


def pools(prefill: int = 1, decode: int = 1, **transfer: float) -> SplitPools:
    between = {"bytes_per_token": 1000.0, "bandwidth_bytes_per_s": 1e9, **transfer}
    return SplitPools(
        prefill=replica(), prefill_replicas=prefill, decode=replica(), decode_replicas=decode,
        transfer=KvTransfer(**between),
    )  # fmt: skip


def traffic(count: int = 300, *, rate_rps: float = 10.0, seed: int = 3) -> SplitTraffic:
    rng = np.random.default_rng(seed)
    return SplitTraffic(
        arrival_s=np.cumsum(rng.exponential(1.0 / rate_rps, count)),
        prompt_tokens=rng.integers(50, 1500, count).astype(np.int32),
        output_tokens=rng.integers(1, 200, count).astype(np.int32),
    )


def test_one_request_is_prefilled_sent_and_decoded() -> None:
    one = SplitTraffic(
        arrival_s=np.array([1.0]), prompt_tokens=np.array([1000], np.int32), output_tokens=np.array([11], np.int32)
    )
    found = serve_split(pools(), one, seed=0)
    # A step of 10 ms, 20 us a token; a megabyte at a gigabyte a second; then ten steps, the first with the token that
    # is fed in as a prompt token and the others as decodes, each reading about a thousand tokens.
    assert found.ttft_s[0] == pytest.approx(0.010 + 1000 * 2e-5 + 1e-3 + 1000e-8, rel=1e-6)
    assert found.transfer_s[0] == pytest.approx(1e-3)
    decode_s = 10 * (0.010 + 1e-5) + 9 * 1e-4 + 2e-5
    assert found.e2e_s[0] - found.ttft_s[0] == pytest.approx(decode_s, rel=1e-3)
    assert found.tpot_s[0] == pytest.approx(decode_s / 10, rel=1e-3)


def test_what_overlaps_with_the_prefill_is_not_waited_for() -> None:
    whole, half = (
        serve_split(pools(bandwidth_bytes_per_s=1e6, overlapped_fraction=each), traffic(), seed=0)
        for each in (0.0, 0.5)
    )
    assert np.allclose(half.transfer_s, 0.5 * whole.transfer_s)
    assert np.nanmean(half.ttft_s) < np.nanmean(whole.ttft_s)


def test_every_request_is_prefilled_once_and_decoded_once() -> None:
    load = traffic()
    found = serve_split(pools(), load, seed=0)
    assert np.isfinite(found.end_s).all()
    assert found.prefill.total.prompt_tokens == load.prompt_tokens.sum()
    assert sum(each.prefill_tokens for each in found.prefill.replicas) == load.prompt_tokens.sum()
    # The decode pool computes one token of each request's prompt, its first token, and no other.
    several = load.output_tokens > 1
    assert sum(each.prefill_tokens for each in found.decode.replicas) == several.sum()
    assert found.decode.total.output_tokens == (load.output_tokens - 1).sum()
    parts = found.prefill_wait_s + found.transfer_s + found.decode_wait_s
    assert (found.ttft_s >= parts - 1e-9).all()
    assert (found.e2e_s >= found.ttft_s - 1e-9).all()


def test_prompts_do_not_disturb_those_who_write() -> None:
    """The reason to do it: steps with prompts in them are long, and decode replicas have none."""
    load = traffic(rate_rps=9.0)
    both = simulate(
        replica().engine, Fleet(replicas=2),
        _open(load), seed=0, keep_requests=True,
    )  # fmt: skip
    found = serve_split(pools(), load, seed=0)
    assert np.nanpercentile(found.tpot_s, 95) < both.total.tpot.quantile_s(0.95)


def test_at_low_load_it_only_adds_the_way_between() -> None:
    load = traffic(60, rate_rps=0.5)
    both = simulate(replica().engine, Fleet(replicas=2), _open(load), seed=0, keep_requests=True)
    found = serve_split(pools(), load, seed=0)
    assert np.nanmean(found.ttft_s) > both.total.ttft.mean_s


def _open(load: SplitTraffic) -> Any:
    from ullage.simulate import OpenLoop

    requests = Requests(prompt_tokens=load.prompt_tokens, output_tokens=load.output_tokens)
    return OpenLoop(requests=requests, arrival_s=load.arrival_s)


def in_turns() -> SplitTraffic:
    """Long and short prompts in turns, one every 50 ms."""
    return SplitTraffic(
        arrival_s=0.05 * np.arange(40.0),
        prompt_tokens=np.tile(np.array([4000, 100], np.int32), 20),
        output_tokens=np.full(40, 20, np.int32),
    )


def test_a_router_that_takes_turns_gives_one_replica_all_long_prompts() -> None:
    two = pools(prefill=2)
    by_turns = serve_split(replace(two, prefill_routing="round_robin"), in_turns(), seed=0)
    by_load = serve_split(two, in_turns(), seed=0)
    # A long prompt takes two steps, 100 ms of the 100 ms until the next long one: the other replica is nearly idle.
    assert by_turns.ttft_s[::2].mean() > by_turns.ttft_s[1::2].mean() + 0.09
    assert by_load.prefill_wait_s.mean() < 0.5 * by_turns.prefill_wait_s.mean() + 1e-9


def test_each_side_has_its_own_router() -> None:
    both = pools(prefill=2, decode=3)
    plain = serve_split(both, traffic(), seed=0)
    decode = serve_split(replace(both, decode_routing="round_robin"), traffic(), seed=0)
    prefill = serve_split(replace(both, prefill_routing="round_robin"), traffic(), seed=0)
    assert np.array_equal(plain.prefill_wait_s, decode.prefill_wait_s)
    assert not np.array_equal(plain.tpot_s, decode.tpot_s)
    assert not np.array_equal(plain.prefill_wait_s, prefill.prefill_wait_s)


def test_a_pool_without_room_refuses_by_name_of_none() -> None:
    """A request that is longer than the decode cache is not served, and nothing else suffers."""
    load = traffic(20)
    long = replace(load, output_tokens=np.where(np.arange(20) == 4, 70_000, load.output_tokens).astype(np.int32))
    found = serve_split(pools(), long, seed=0)
    assert np.flatnonzero(~np.isfinite(found.end_s)).tolist() == [4]


@pytest.mark.slow
@pytest.mark.parametrize("clients", [1, 7, 40])
def test_clients_send_when_answers_come(clients: int) -> None:
    """The k-th answer lets the next request go: never more in flight than clients, and never fewer."""
    found = serve_split_clients(pools(), traffic(120), clients=clients, seed=0)
    arrivals = np.sort(found.end_s - found.e2e_s)
    ends = np.sort(found.end_s)
    assert np.allclose(arrivals[:clients], 0.0)
    assert np.allclose(arrivals[clients:], ends[: 120 - clients], atol=1e-4)


def test_a_closed_loop_of_one_replica_is_nearly_that_of_the_kernel() -> None:
    """Decoding alone: prompts of one token, sent in no time; the kernel's own closed loop is the oracle."""
    load = replace(traffic(200), prompt_tokens=np.ones(200, np.int32), output_tokens=np.full(200, 50, np.int32))
    quick = StepTable.affine(step_s=1e-9, max_sequences=32)
    apart = replace(
        pools(), prefill=Replica(engine=Engine(step=quick, kv_blocks=4000, max_sequences=32, budget_tokens=2048))
    )
    found = serve_split_clients(apart, load, clients=8, seed=0)
    requests = Requests(prompt_tokens=load.prompt_tokens, output_tokens=load.output_tokens)
    own = simulate(replica().engine, Fleet(), ClosedLoop(requests=requests, clients=8), seed=0)
    assert found.duration_s == pytest.approx(own.duration_s, rel=0.03)


def test_splits_use_all_devices() -> None:
    assert list(splits(8, prefill_devices=2, decode_devices=2)) == [(1, 3), (2, 2), (3, 1)]
    assert list(splits(8, prefill_devices=1, decode_devices=4)) == [(4, 1)]
    assert list(splits(3, prefill_devices=4, decode_devices=4)) == []


def test_a_link_without_bandwidth_is_refused() -> None:
    with pytest.raises(InputError, match="--transfer"):
        pools(bandwidth_bytes_per_s=0.0)


def test_a_class_is_held_to_its_own_limits() -> None:
    """Three of chat at 1 s, of which one is late; two of batch, at 9 s, that nobody limits to 1 s."""
    chat, batch = class_with_slos("chat", ttft_p95=1.0), class_with_slos("batch", ttft_p95=10.0)
    ttft_s = np.array([0.5, 0.9, 2.0, 9.0, 9.5])
    found = _arrangement(
        "a", (ttft_s, ttft_s, ttft_s), (chat, batch), np.array([0, 0, 0, 1, 1]),
        replicas=(1, 1), devices=2, busy=(0.25, 0.5),
    )  # fmt: skip
    assert found.good_fraction == 0.8
    assert (found.prefill_busy_fraction, found.decode_busy_fraction) == (0.25, 0.5)
    assert (found.prefill_replicas, found.decode_replicas, found.devices) == (1, 1, 2)


def test_a_replica_is_slower_by_the_ratio_and_itself_by_none() -> None:
    one = replica(request_overhead_s=0.25, crowd_overhead_s=0.5)
    assert one.slowed(1.0) is one
    slow = one.slowed(2.0).engine
    assert (slow.request_overhead_s, slow.crowd_overhead_s) == (0.5, 1.0)
    assert (slow.step.decode_base_ps == 2 * one.engine.step.decode_base_ps).all()
