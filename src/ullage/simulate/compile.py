"""From engines, fleet and load to the integers that the kernel simulates."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ullage.errors import InputError
from ullage.simulate.engine import Engine, StepTable
from ullage.simulate.fleet import Autoscaler, Fleet, RouterGuard
from ullage.simulate.kernel import codes
from ullage.simulate.load import ClosedLoop, Load, LoadClass, OpenLoop, Requests, Retry
from ullage.simulate.prefixes import homes, prefix_terms
from ullage.simulate.problem import (
    NEVER_PS,
    PS_PER_S,
    CapacityKind,
    ClassField,
    ControlKind,
    ControlTerms,
    EngineField,
    EventKind,
    GuardTerms,
    Int16s,
    Int64s,
    Problem,
    RetryTerms,
    RouterArrays,
    SignalKind,
)
from ullage.simulate.turns import with_turns

_NO_LIMIT = 2**40
# SGLang's SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION.
_CLIP_TOKENS = 4096
# Outputs from which the longest answer of a class is taken, where it is not stated.
_SAMPLED_REQUESTS = 1 << 14
_LIMIT_FRACTION = 0.99


def to_ps(seconds: float | None) -> int:
    """A duration in picoseconds; None and infinity are never."""
    if seconds is None or seconds == float("inf"):
        return NEVER_PS
    return min(NEVER_PS, round(seconds * PS_PER_S))


def compile_problem(
    engines: Sequence[Engine],
    fleet: Fleet,
    load: Load,
    *,
    seed: int,
    until_s: float | None,
    warmup_s: float,
    sample_s: float | None,
    keep_requests: bool,
    attribution: bool,
    most_events: int,
    samples: bool = True,
    gauges: bool = False,
) -> Problem:
    if len(fleet.counts) != len(engines):
        raise InputError(
            field="fleet.replicas",
            value=fleet.replicas,
            problem=f"does not have one number for each of the {len(engines)} engines",
            fix="Give a tuple with the replicas of each engine.",
        )
    requests = load.requests
    decode_base, decode_slope, token_base, token_slope = _tables(tuple((e.step, e.max_sequences) for e in engines))
    event_ps, event_replica, event_kind = _events(fleet)
    ready = fleet.total_replicas if fleet.ready_replicas is None else fleet.ready_replicas
    made = Problem(
        engines=np.array([_engine_row(each) for each in engines], np.int64),
        decode_base_ps=decode_base, decode_slope_ps=decode_slope,
        token_base_ps=token_base, token_slope_ps=token_slope,
        replica_type=np.repeat(np.arange(len(engines), dtype=np.int16), fleet.counts),
        ready_at_start=(np.arange(fleet.total_replicas) < ready).astype(np.int8),
        event_ps=event_ps, event_replica=event_replica, event_kind=event_kind,
        routing=RouterArrays[fleet.routing.upper()],
        refresh_ps=to_ps(fleet.refresh_s),
        guard=_guard(fleet.guard),
        control=_control(fleet.autoscaler),
        start_delays_ps=_start_delays(fleet.autoscaler),
        classes=_limited(_classes(requests.classes).copy(), engines, requests),
        group_class=group_classes(requests),
        arrival_ps=_arrivals(load),
        prompt_tokens=np.asarray(requests.prompt_tokens, np.int32),
        output_tokens=np.asarray(requests.output_tokens, np.int32),
        cached_tokens=_optional(requests.cached_tokens, np.int32),
        prefixes=prefix_terms(requests, block_tokens=_block_tokens(engines), replicas=fleet.total_replicas,
                              seed=seed & 0xFFFFFFFF),
        home=homes(requests) if fleet.routing == "sticky" else np.zeros(0, np.int32),
        group=_groups(requests),
        cancel_after_ps=_cancellations(requests),
        client_start_ps=_client_starts(load),
        think_ps=_think_times(load),
        retry=_retry(load.retry),
        seed=seed & 0xFFFFFFFF,
        until_ps=to_ps(until_s),
        measure_from_ps=to_ps(warmup_s),
        sample_ps=to_ps(sample_s),
        samples=samples, gauges=gauges,
        keep_requests=keep_requests,
        attribute=attribution,
        most_events=most_events,
    )  # fmt: skip
    return made if requests.turns is None else with_turns(made, requests.turns)


def _block_tokens(engines: Sequence[Engine]) -> int:
    """The size of blocks, which replicas that share a router's knowledge of prefixes must share."""
    return min(each.block_tokens for each in engines)


def _engine_row(engine: Engine) -> list[int]:
    row = [0] * len(EngineField)
    step = engine.step
    for field, value in {
        EngineField.MAX_SEQUENCES: engine.max_sequences,
        EngineField.TOKEN_BUDGET: engine.budget_tokens,
        EngineField.BLOCKS: engine.kv_blocks,
        EngineField.BLOCK_SHIFT: engine.block_tokens.bit_length() - 1,
        EngineField.QUEUE_BOUND: _NO_LIMIT if engine.waiting_requests is None else engine.waiting_requests,
        EngineField.LONG_PREFILL: _NO_LIMIT if engine.long_prefill_tokens is None else engine.long_prefill_tokens,
        EngineField.PRIORITY: int(engine.scheduling == "priority"),
        EngineField.KV_SHIFT: step.kv_segment_tokens.bit_length() - 1,
        EngineField.TOKEN_SHIFT: step.token_segment_tokens.bit_length() - 1,
        EngineField.PAIR_PS_1024: round(step.pair_ps * 1024),
        EngineField.IS_SUM: int(step.combine == "sum"),
        EngineField.OUTSIDE_PS: to_ps(engine.request_overhead_s),
        EngineField.CROWD_PS: to_ps(engine.crowd_overhead_s),
        EngineField.RATE_1024: round(engine.tokens_per_step * 1024),
        EngineField.WIDTH: engine.step_positions,
        EngineField.HOST_ROOM: engine.host_blocks,
        EngineField.HOST_BLOCK_PS: to_ps(engine.host_block_s),
        EngineField.POLICY: CapacityKind[engine.capacity.name.upper()],
        EngineField.CLIP_TOKENS: _CLIP_TOKENS,
    }.items():
        row[field] = value
    if engine.capacity.name == "new_token_ratio":
        row[EngineField.RATIO_FIRST] = round(engine.capacity.first_ratio * 2**codes.RATIO_SHIFT)
        row[EngineField.RATIO_LEAST] = round(engine.capacity.least_ratio * 2**codes.RATIO_SHIFT)
        row[EngineField.RATIO_DECAY] = round(engine.capacity.decay_ratio * 2**codes.RATIO_SHIFT)
    row[EngineField.KV_SEGMENTS] = step.decode_base_ps.shape[1]
    row[EngineField.TOKEN_SEGMENTS] = step.token_base_ps.size
    return row


@functools.lru_cache(maxsize=32)
def _tables(types: tuple[tuple[StepTable, int], ...]) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Step tables and sequences of all types in four arrays: times of decodes and of tokens, bases and slopes.

    Rows are cut or filled to the same number; short ones end with zeros. A plan runs one type a thousand times.
    """
    rows = max(sequences for _, sequences in types) + 1
    segments = max(table.decode_base_ps.shape[1] for table, _ in types)
    base = np.zeros((len(types), rows, segments), np.int64)
    token_base = np.zeros((len(types), max(table.token_base_ps.size for table, _ in types)), np.int64)
    slope, token_slope = np.zeros_like(base), np.zeros_like(token_base)
    for kind, (table, sequences) in enumerate(types):
        used, width = sequences + 1, table.decode_base_ps.shape[1]
        base[kind, :used, :width] = table.decode_base_ps[:used]
        slope[kind, :used, :width] = table.decode_slope_ps[:used]
        token_base[kind, : table.token_base_ps.size] = table.token_base_ps
        token_slope[kind, : table.token_slope_ps.size] = table.token_slope_ps
    for each in (base, slope, token_base, token_slope):
        each.setflags(write=False)
    return base, slope, token_base, token_slope


def _events(fleet: Fleet) -> tuple[Int64s, Any, Any]:
    flat = [(to_ps(each.at_s), r, EventKind[each.kind.upper()]) for each in fleet.events for r in each.replicas]
    flat.sort(key=lambda each: each[0])
    when, replica, kind = zip(*flat, strict=True) if flat else ((), (), ())
    return np.array(when, np.int64), np.array(replica, np.int32), np.array(kind, np.int8)


def _control(autoscaler: Autoscaler | None) -> ControlTerms:
    if autoscaler is None:
        return ControlTerms()
    return ControlTerms(
        kind=ControlKind.RULE if autoscaler.rule is None else ControlKind.CALLBACK,
        period_ps=to_ps(autoscaler.period_s),
        ready_delay_ps=to_ps(autoscaler.ready_s),
        signal=SignalKind[autoscaler.signal.upper()],
        target_milli=max(1, round(autoscaler.target_per_replica * 1000)),
        window_ticks=autoscaler.window_ticks,
        least_replicas=autoscaler.least_replicas,
        most_replicas=autoscaler.most_replicas,
    )


def _guard(guard: RouterGuard) -> GuardTerms:
    return GuardTerms(
        requests=guard.requests, milli=round(guard.ratio * 1000), match_milli=round(guard.match_fraction * 1000)
    )


def _start_delays(autoscaler: Autoscaler | None) -> Int64s:
    """Start delays that a rule may set; the others are `ready_s`."""
    if autoscaler is None or autoscaler.rule is None:
        return np.zeros(0, np.int64)
    return np.full(2 * autoscaler.most_replicas + 1, to_ps(autoscaler.ready_s), np.int64)


@functools.lru_cache(maxsize=64)
def _classes(classes: tuple[LoadClass, ...]) -> Int64s:
    """A row for each; runs of one mix share them."""
    ranks = sorted({each.priority for each in classes})
    rows = np.zeros((len(classes), len(ClassField)), np.int64)
    for row, each in zip(rows, classes, strict=True):
        row[ClassField.TTFT_TIMEOUT_PS] = to_ps(each.ttft_timeout_s)
        row[ClassField.TOTAL_TIMEOUT_PS] = to_ps(each.total_timeout_s)
        row[ClassField.TTFT_SLO_PS] = to_ps(each.ttft_slo_s)
        row[ClassField.TPOT_SLO_PS] = to_ps(each.tpot_slo_s)
        row[ClassField.E2E_SLO_PS] = to_ps(each.e2e_slo_s)
        row[ClassField.LEVEL] = ranks.index(each.priority)
    return rows


def _limited(rows: Int64s, engines: Sequence[Engine], requests: Requests) -> Int64s:
    """The output tokens that requests of a class allow, where an engine asks: stated, or nearly all that come out."""
    asking = [each.capacity for each in engines if each.capacity.counts_answers]
    stated = [each.output_limit_tokens for each in asking if each.output_limit_tokens is not None]
    rows[:, ClassField.LIMIT_TOKENS] = max(stated, default=0)
    if not asking or stated or requests.count == 0:
        return rows
    every = slice(None, None, max(1, requests.count // _SAMPLED_REQUESTS))
    outputs = np.asarray(requests.output_tokens)[every]
    class_of = np.zeros(outputs.size, np.int64) if requests.class_of is None else np.asarray(requests.class_of)[every]
    for place in range(len(rows)):
        own = outputs[class_of == place]
        rows[place, ClassField.LIMIT_TOKENS] = 0 if own.size == 0 else math.ceil(np.quantile(own, _LIMIT_FRACTION))
    return rows


def group_classes(requests: Requests) -> Int16s:
    """The class of every group; groups are classes times tenants, tenants running fastest."""
    return np.repeat(np.arange(len(requests.classes), dtype=np.int16), len(requests.tenants))


def _groups(requests: Requests) -> Int16s:
    if len(requests.classes) * len(requests.tenants) == 1:
        return np.zeros(0, np.int16)
    class_of = np.zeros(requests.count, np.int16) if requests.class_of is None else requests.class_of.astype(np.int16)
    tenant_of = 0 if requests.tenant_of is None else requests.tenant_of.astype(np.int16)
    groups: Int16s = (class_of * len(requests.tenants) + tenant_of).astype(np.int16)
    return groups


def _arrivals(load: Load) -> Int64s:
    if isinstance(load, ClosedLoop):
        return np.zeros(0, np.int64)
    if load.arrival_ps is not None:
        return np.asarray(load.arrival_ps, np.int64)
    assert load.arrival_s is not None
    return np.rint(np.asarray(load.arrival_s, np.float64) * PS_PER_S).astype(np.int64)


def _client_starts(load: Load) -> Int64s:
    if isinstance(load, OpenLoop):
        return np.zeros(0, np.int64)
    return (np.arange(load.clients) * (load.ramp_s * PS_PER_S / load.clients)).astype(np.int64)


def _think_times(load: Load) -> Int64s:
    """After the end of each request, before its client's next; turns have their own."""
    if isinstance(load, OpenLoop):
        return np.zeros(0, np.int64)
    think = np.broadcast_to(np.asarray(load.think_s, np.float64), (load.requests.count,))
    return np.rint(think * PS_PER_S).astype(np.int64)


def _cancellations(requests: Requests) -> Int64s:
    if requests.cancel_after_s is None:
        return np.zeros(0, np.int64)
    finite = np.where(np.isfinite(requests.cancel_after_s), requests.cancel_after_s, 0.0)
    made = np.maximum(1, np.rint(finite * PS_PER_S).astype(np.int64))
    return np.where(np.isfinite(requests.cancel_after_s), made, NEVER_PS)


def _optional(given: Any, dtype: Any) -> Any:
    return np.zeros(0, dtype) if given is None else np.asarray(given, dtype)


def _retry(retry: Retry | None) -> RetryTerms:
    if retry is None:
        return RetryTerms()
    return RetryTerms(
        most_attempts=retry.most_attempts,
        backoff_ps=max(1, to_ps(retry.backoff_s)),
        growth_milli=round(retry.growth_ratio * 1000),
        jitter_milli=round(retry.jitter_fraction * 1000),
        deposit_milli=round(retry.budget_fraction * 1000),
        bucket_milli=retry.budget_retries * 1000,
        on_shed=retry.on_shed,
        on_timeout=retry.on_timeout,
        on_failure=retry.on_failure,
    )
