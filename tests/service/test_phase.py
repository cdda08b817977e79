"""Sides of a pool that is apart: limits are divided without loss, and traffic passes both sides once."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pytest

from ullage.errors import InputError
from ullage.load.plan import load_plan
from ullage.planning.planned_for import planned_for
from ullage.planning.sides import pool_asked, pool_classes
from ullage.planning.spec import PlanSpec
from ullage.service.both_sides import both_window
from ullage.service.disaggregated import KvTransfer, SplitPools, SplitTraffic, serve_split
from ullage.service.phase import Side, side_class
from ullage.service.replica import Replica
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.trial import Trial
from ullage.simulate import Engine, LoadClass, OpenLoop, Requests, StepTable
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.definitions import Definitions, TpotCount
from ullage.workload.synthetic.stream import BLOCK_TOKENS

AS_OF = datetime.date(2026, 11, 15)


def plan(**more: object) -> dict[str, object]:
    chat = {"name": "chat", "rate": "2 req/s", "longest_context": "4096", "slo": {"ttft_p95": "2s", "tpot_p95": "80ms"}}
    apart = {"transfer": "10GB/s", "decode_share": "25%", **more}
    return {
        "version": "1",
        "service": "apart",
        "workload": {"classes": [chat]},
        "pool": {"model": "llama-3.1-8b", "device": "l40s", "disaggregated": apart},
    }


@pytest.fixture(scope="module")
def spec() -> PlanSpec:
    return load_plan(plan(), as_of=AS_OF)


def test_a_pool_that_is_apart_is_two(spec: PlanSpec) -> None:
    prefill, decode = spec.pools
    assert (prefill.name, decode.name) == ("pool-prefill", "pool-decode")
    assert {each.whole for each in spec.pools} == {"pool"}
    assert spec.served_by("pool-prefill") == spec.served_by("pool-decode") == spec.demands


def test_the_prefill_side_has_its_own_replica() -> None:
    given = {"device": "h100-sxm", "tensor_parallel": "2", "token_budget": "16k", "max_sequences": "64"}
    prefill, decode = load_plan(plan(prefill=given), as_of=AS_OF).pools
    assert (prefill.device.name, prefill.settings.sharding.tp) == ("h100-sxm", 2)
    assert (prefill.settings.step_tokens, prefill.settings.max_sequences) == (16_000, 64)
    assert (decode.device.name, decode.settings.sharding.tp) == ("l40s", 1)


def test_the_parts_of_a_limit_add_up_to_it(spec: PlanSpec) -> None:
    _, demand, _ = planned_for(spec)
    by_side = {}
    for pool in spec.pools:
        (found,) = pool_classes(spec, pool, pool_asked(spec, pool, demand))
        assert pool.phase is not None
        by_side[pool.phase.side] = {slo.name: slo.limit_s for slo in found.request_class.slos}
    phase = spec.pools[0].phase
    assert phase is not None
    sent_s = phase.sent_at(demand.classes[0])(0.95)
    assert sent_s > 0.0
    assert by_side[Side.PREFILL].keys() == {"ttft_p95"}
    assert by_side[Side.PREFILL]["ttft_p95"] + sent_s + by_side[Side.DECODE]["ttft_p95"] == pytest.approx(2.0)
    assert by_side[Side.DECODE] == {"ttft_p95": pytest.approx(0.5), "tpot_p95": 0.08}


def test_an_end_alone_is_divided_too(spec: PlanSpec) -> None:
    whole = RequestClass(name="batch", slos=(Slo(metric=Metric.E2E, percentile_fraction=0.95, limit_s=60.0),))
    decode = spec.pools[1].phase
    assert decode is not None
    prefill = replace(decode, side=Side.PREFILL)
    (before,), (after,) = (side_class(whole, each, lambda _: 1.0).slos for each in (prefill, decode))
    assert before.limit_s + 1.0 + after.limit_s == pytest.approx(60.0)
    assert before.limit_s < after.limit_s


def test_limits_that_cannot_be_divided_are_refused_by_name(spec: PlanSpec) -> None:
    phase = spec.pools[0].phase
    assert phase is not None
    tight = RequestClass(name="chat", slos=(Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=0.5),))
    with pytest.raises(InputError, match="used up by the KV transfer"):
        side_class(tight, phase, lambda _: 0.4)
    pace = Slo(metric=Metric.TPOT, percentile_fraction=0.95, limit_s=0.05)
    counted = RequestClass(name="chat", slos=(pace,), definitions=Definitions(tpot=TpotCount.WITH_FIRST))
    with pytest.raises(InputError, match="with_first_token"):
        side_class(counted, phase, lambda _: 0.0)


def test_each_side_computes_its_part_of_every_request(spec: PlanSpec) -> None:
    _, demand, _ = planned_for(spec)
    drawn = {}
    for pool in spec.pools:
        asked = pool_asked(spec, pool, demand)
        classes = tuple(each.request_class for each in pool_classes(spec, pool, asked))
        mix = MixLoad(model=asked.busy_model, classes=classes, cache_blocks=1e6)
        assert pool.phase is not None
        drawn[pool.phase.side] = mix(rate_rps=5.0, span_s=60.0, seed=1).requests
    prefill, decode = drawn[Side.PREFILL], drawn[Side.DECODE]
    assert (prefill.output_tokens == 1).all()
    # A cache holds whole blocks, so that less than one of each prompt is fed in beside its last token.
    assert (decode.prompt_tokens - decode.cached_tokens <= BLOCK_TOKENS).all()
    # The same requests come to both sides.
    assert np.array_equal(prefill.prompt_tokens, decode.prompt_tokens)


def test_what_is_stated_twice_or_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="overlap"):
        load_plan(plan(overlap="100%"), as_of=AS_OF)
    with pytest.raises(InputError, match=r"disaggregated\.transfer"):
        load_plan(plan(transfer=None), as_of=AS_OF)
    with pytest.raises(InputError, match="h300"):
        load_plan(plan(prefill={"device": "h300"}), as_of=AS_OF)


# ---- both sides together ---------------------------------------------------------------------------------------

STEP = StepTable.affine(step_s=0.010, sequence_s=1e-4, kv_token_s=1e-8, prefill_token_s=2e-5, max_sequences=32)
REPLICA = Replica(engine=Engine(step=STEP, kv_blocks=4000, max_sequences=32, budget_tokens=2048))
LIMITS = (
    Slo(metric=Metric.TTFT, percentile_fraction=0.95, limit_s=0.060),
    Slo(metric=Metric.TPOT, percentile_fraction=0.95, limit_s=0.0108),
    Slo(metric=Metric.E2E, percentile_fraction=0.9, limit_s=2.0),
)


def load_at(*, rate_rps: float, span_s: float, seed: int) -> OpenLoop:
    rng = np.random.default_rng(seed)
    count = int(rate_rps * span_s)
    requests = Requests(
        prompt_tokens=rng.integers(50, 1500, count).astype(np.int32),
        output_tokens=rng.integers(1, 200, count).astype(np.int32),
        classes=(LoadClass(name="chat"),),
    )
    return OpenLoop(requests=requests, arrival_ps=np.sort(rng.integers(0, int(span_s * 1e12), count)))


def pair(prefill: int, decode: int) -> SplitPools:
    transfer = KvTransfer(bytes_per_token=1e4, bandwidth_bytes_per_s=1e9)
    return SplitPools(
        prefill=REPLICA, prefill_replicas=prefill, decode=REPLICA, decode_replicas=decode, transfer=transfer
    )


def trial() -> Trial:
    return Trial(replica=REPLICA, load_at=load_at, classes=(RequestClass(name="chat", slos=LIMITS),), span_s=60.0)


def test_a_window_of_both_sides_counts_every_request_against_the_whole_limits() -> None:
    asked, load = trial(), load_at(rate_rps=10.0, span_s=60.0, seed=4)
    found = both_window(pair(1, 2), asked, 10.0, 4)
    assert load.arrival_ps is not None
    traffic = SplitTraffic(
        arrival_s=load.arrival_ps / 1e12,
        prompt_tokens=load.requests.prompt_tokens,
        output_tokens=load.requests.output_tokens,
    )
    served = serve_split(pair(1, 2), traffic, seed=4)
    counted = traffic.arrival_s >= asked.warmup_s
    several = counted & (traffic.output_tokens > 1)
    by_hand = {
        "chat ttft_p95": (served.ttft_s[counted] > 0.060).sum(),
        "chat tpot_p95": (served.tpot_s[several] > 0.0108).sum(),
        "chat e2e_p90": (served.e2e_s[counted] > 2.0).sum(),
        "chat error budget": 0,
    }
    assert {name: each.missed_count for name, each in found.tallies.items()} == by_hand
    assert 0 < by_hand["chat tpot_p95"] < several.sum()
    assert found.tallies["chat tpot_p95"].sent_count == several.sum()


def test_a_request_that_ends_after_its_deadline_is_lost() -> None:
    given = replace(trial(), deadlines_s={"chat": 1.0})
    patient, hasty = (both_window(pair(1, 2), each, 10.0, 4).tallies for each in (trial(), given))
    assert patient["chat error budget"].missed_count == 0
    assert hasty["chat error budget"].missed_count > 0


def test_each_side_can_be_the_short_one() -> None:
    found = {split: both_window(pair(*split), trial(), 30.0, 4) for split in ((3, 1), (1, 3), (3, 3))}
    first = {split: each.tallies["chat ttft_p95"].missed_count for split, each in found.items()}
    pace_s = {split: each.histograms["chat"][Metric.TPOT].whole.mean_s for split, each in found.items()}
    assert first[3, 3] < 0.5 * first[1, 3]
    assert pace_s[3, 3] < 0.9 * pace_s[3, 1]


def test_a_backlog_on_either_side_is_a_backlog_of_the_whole() -> None:
    assert both_window(pair(1, 1), trial(), 60.0, 4).drift.growth_fraction > 0.2
    assert abs(both_window(pair(3, 3), trial(), 10.0, 4).drift.growth_fraction) < 0.05
