"""Small random problems for the simulator, chosen so that every pair of features meets.

`covering_rows` lists combinations of feature levels in which every pair of levels of two features occurs;
`scenario(row, seed)` fills a combination with random numbers. Integers are small, so that events often fall
on the same picosecond: that is where two simulators differ.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

from ullage.simulate.load import Prefixes, Requests, Turns
from ullage.simulate.prefixes import prefix_terms
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
    Int8s,
    Int32s,
    Int64s,
    PrefixTerms,
    Problem,
    RetryTerms,
    RouterArrays,
    SignalKind,
)
from ullage.simulate.turns import with_turns

FEATURES: dict[str, tuple[str, ...]] = {
    "budget": ("loose", "tight"),
    "long_prefill": ("off", "short"),
    "scheduling": ("fcfs", "priority"),
    "kv": ("loose", "tight", "tiny"),
    "block": ("1", "4", "16"),
    "outputs": ("short", "long", "same"),
    "cached": ("no", "yes"),
    "queue": ("unbounded", "bounded"),
    "ttft_timeout": ("no", "yes"),
    "total_timeout": ("no", "yes"),
    "cancel": ("no", "yes"),
    "classes": ("one", "three"),
    "load": ("open", "bursts", "closed", "closed_at_once"),
    "retry": ("no", "free", "budget"),
    "replicas": ("one", "few", "five"),
    "types": ("one", "two"),
    "routing": (
        "round_robin",
        "random",
        "power_of_two",
        "least_outstanding",
        "least_tokens",
        "least_kv",
        "sticky",
        "prefix_aware",
    ),
    "refresh": ("live", "stale"),
    "platform": ("none", "ready_drain", "failures"),
    "control": ("none", "outstanding", "tokens", "callback"),
    "step": ("affine", "table", "coarse"),
    "horizon": ("none", "cut"),
    "speculation": ("no", "yes"),
    "prefix": ("no", "cold", "warm"),
    "guard": ("off", "tight"),
    "host": ("no", "small", "large"),
    "turns": ("no", "cached", "kept", "offloaded", "dropped"),
    "policy": ("present_need", "new_token_ratio", "guaranteed_no_evict", "max_utilization"),
    "limit": ("exact", "above"),
}
Row = dict[str, str]


@functools.cache
def covering_rows() -> tuple[tuple[tuple[str, str], ...], ...]:
    """A greedy covering array of strength two; each row is the items of a dict."""
    names = list(FEATURES)
    left = {(a, x, b, y) for a, b in itertools.combinations(names, 2) for x in FEATURES[a] for y in FEATURES[b]}
    rng = np.random.default_rng(5)
    rows = []
    while left:
        best: Row = {}
        best_gain = -1
        for _ in range(12):
            seed_pair = sorted(left)[int(rng.integers(len(left)))]
            row = {seed_pair[0]: seed_pair[1], seed_pair[2]: seed_pair[3]}
            for name in rng.permutation([each for each in names if each not in row]).tolist():
                gains = [
                    sum((n, row[n], name, level) in left or (name, level, n, row[n]) in left for n in row)
                    for level in FEATURES[name]
                ]
                most = max(gains)
                ties = [level for level, gain in zip(FEATURES[name], gains, strict=True) if gain == most]
                row[name] = ties[int(rng.integers(len(ties)))]
            gain = sum(pair in left for pair in pairs_of(row))
            if gain > best_gain:
                best, best_gain = row, gain
        left -= pairs_of(best)
        rows.append(tuple((name, best[name]) for name in names))
    return tuple(rows)


def prefix_row(number: int) -> Row:
    """Features under which routers have prefixes to find: several replicas, tight caches, nothing else in the way."""
    row = {name: levels[0] for name, levels in FEATURES.items()}
    return row | {
        "prefix": ("cold", "warm")[number % 2],
        "routing": ("prefix_aware", "prefix_aware", "sticky")[number % 3],
        "refresh": ("live", "stale")[number // 2 % 2],
        "guard": ("off", "tight")[number // 4 % 2],
        "replicas": ("few", "five")[number // 3 % 2],
        "kv": ("tight", "loose")[number // 8 % 2],
        "outputs": ("long", "same")[number // 5 % 2],
        "block": ("1", "4")[number // 7 % 2],
        "load": ("open", "bursts")[number // 6 % 2],
        "platform": ("none", "failures")[number // 9 % 2],
        "host": ("no", "small", "large")[number // 4 % 3],
    }


def host_row(number: int) -> Row:
    """Features under which host memory decides: caches that are too small, routers that go by what is in them."""
    return prefix_row(number) | {
        "routing": "prefix_aware",
        "kv": "tight",
        "outputs": "same",
        "refresh": ("stale", "live")[number // 4 % 2],
        "host": ("small", "large")[number // 2 % 2],
        "load": "open",
    }


def turn_row(number: int) -> Row:
    """Features under which it matters what sessions keep between their turns."""
    return prefix_row(number) | {
        "turns": ("kept", "offloaded", "dropped", "cached")[number % 4],
        "kv": "tight",
        "host": ("small", "large")[number // 4 % 2],
        "routing": ("prefix_aware", "sticky", "least_outstanding")[number // 8 % 3],
        "load": ("open", "closed", "bursts")[number // 3 % 3],
        "replicas": ("one", "few")[number // 2 % 2],
    }


def policy_row(number: int) -> Row:
    """Features under which policies differ: caches that answers fill, and limits above what comes out."""
    row = {name: levels[0] for name, levels in FEATURES.items()}
    return row | {
        "policy": ("new_token_ratio", "new_token_ratio", "guaranteed_no_evict", "max_utilization")[number % 4],
        "kv": ("tight", "tight", "loose")[number % 3],
        "outputs": "long",
        "limit": ("above", "exact")[number // 4 % 2],
        "block": ("1", "4", "16")[number // 3 % 3],
        "budget": ("loose", "tight")[number // 5 % 2],
        "long_prefill": ("off", "off", "short")[number // 2 % 3],
        "load": ("bursts", "open", "closed")[number // 6 % 3],
        "classes": ("three", "one")[number // 7 % 2],
        "prefix": ("no", "cold")[number // 8 % 2],
        "speculation": ("no", "no", "no", "yes")[number // 9 % 4],
        "scheduling": ("fcfs", "fcfs", "priority")[number // 10 % 3],
        "platform": ("none", "failures")[number // 11 % 2],
    }


def pairs_of(row: Row) -> set[tuple[str, str, str, str]]:
    return {(a, row[a], b, row[b]) for a, b in itertools.combinations(FEATURES, 2)}


def scenario(row: Row, seed: int, *, most_requests: int = 40) -> Problem:
    """One random problem with these features."""
    rng = np.random.default_rng([seed, 77])
    requests = int(rng.integers(1, most_requests + 1))
    types = 2 if row["types"] == "two" else 1
    replicas = {"one": 1, "few": int(rng.integers(2, 4)), "five": 5}[row["replicas"]]
    coarse = row["step"] == "coarse"
    unit = 1 if coarse else 10**9
    longest_prompt = int(rng.choice([3, 20, 120]))
    longest_output = {"short": int(rng.choice([1, 3])), "long": int(rng.choice([20, 150])), "same": 12}[row["outputs"]]
    prompt = rng.integers(1, longest_prompt + 1, requests)
    output = rng.integers(1, longest_output + 1, requests)
    if row["outputs"] == "same":
        output[:] = longest_output
    need = int((prompt + output - 1).max()) + (2 if row["speculation"] == "yes" else 0)
    engines = np.array([_engine(row, rng, need) for _ in range(types)], np.int64)
    _set_policies(row, np.random.default_rng([seed, 80]), engines)
    sequences = int(engines[:, EngineField.MAX_SEQUENCES].max())
    decode_base, decode_slope, token_base, token_slope = _tables(row, rng, engines, unit)
    typical = int(decode_base[0, -1, 0] + decode_slope[0, -1, 0] * need)
    span = max(2, int(typical * float(output.mean()) * requests / sequences * rng.choice([0.05, 0.3, 1, 3]) / replicas))
    arrival = np.sort(rng.integers(0, span, requests))
    if row["load"] == "bursts":
        grain = max(1, span // 5)
        arrival = arrival // grain * grain
    closed = row["load"].startswith("closed")
    clients = int(rng.integers(1, 2 * sequences * replicas + 1)) if closed else 0
    starts = np.zeros(clients, np.int64)
    if row["load"] == "closed":
        starts = rng.integers(0, max(2, 3 * typical), clients)
    groups = 3 if row["classes"] == "three" else 1
    life = typical * (1 + float(output.mean()))
    event_ps, event_replica, event_kind = _events(row, rng, replicas, span + int(life))
    at_start = np.ones(replicas, np.int8)
    if row["platform"] == "ready_drain":
        at_start = (rng.random(replicas) < 0.6).astype(np.int8)
    if row["control"] != "none":
        at_start[: int(rng.integers(1, replicas + 1))] = 1
    cached = np.zeros(0, np.int32)
    if row["cached"] == "yes" and row["prefix"] == "no":
        cached = ((prompt - 1) * rng.random(requests)).astype(np.int32)
    cancel = np.zeros(0, np.int64)
    if row["cancel"] == "yes":
        cancel = np.where(rng.random(requests) < 0.5, NEVER_PS, (life * rng.random(requests) * 2).astype(np.int64) + 1)
    made = Problem(
        engines=engines,
        decode_base_ps=decode_base, decode_slope_ps=decode_slope,
        token_base_ps=token_base, token_slope_ps=token_slope,
        replica_type=rng.integers(0, types, replicas).astype(np.int16),
        ready_at_start=at_start,
        event_ps=event_ps, event_replica=event_replica, event_kind=event_kind,
        routing=RouterArrays[row["routing"].upper()],
        refresh_ps=max(1, span // int(rng.integers(2, 12))) if row["refresh"] == "stale" else 0,
        control=_control(row, rng, replicas, span, need),
        classes=_limited(row, np.random.default_rng([seed, 81]), _classes(row, rng, groups, life), longest_output),
        group_class=np.array([0, 1, 2, 1] if groups == 3 else [0], np.int16),
        arrival_ps=np.zeros(0, np.int64) if closed else arrival,
        prompt_tokens=prompt.astype(np.int32), output_tokens=output.astype(np.int32), cached_tokens=cached,
        prefixes=_prefixes(row, seed, prompt, output, 1 << int(engines[0, EngineField.BLOCK_SHIFT]), replicas),
        home=np.random.default_rng([seed, 79]).integers(0, 6, requests).astype(np.int32),
        guard=GuardTerms(requests=seed % 3, milli=1000 + 250 * (seed % 5), match_milli=100 * (seed % 8))
        if row["guard"] == "tight" else GuardTerms(),
        group=rng.integers(0, 4, requests).astype(np.int16) if groups == 3 else np.zeros(0, np.int16),
        cancel_after_ps=cancel,
        client_start_ps=starts,
        think_ps=rng.integers(0, max(2, 2 * typical) if row["load"] == "closed" else 1, requests),
        retry=_retry(row, rng, typical),
        seed=seed & 0xFFFF,
        until_ps=int(span * rng.random() * 2) + 1 if row["horizon"] == "cut" else NEVER_PS,
        measure_from_ps=int(span * rng.random() * 0.3),
        sample_ps=max(1, span // int(rng.integers(1, 9))),
        gauges=row["control"] != "none",
        start_delays_ps=_start_delays(row, rng, span),
    )  # fmt: skip
    return made if row["turns"] == "no" else with_turns(made, _turns(row, seed, requests, 2 * typical))


def _turns(row: Row, seed: int, requests: int, longest_ps: int) -> Turns:
    """Some requests after an earlier one, often the one just before; drawn apart: the rest stays alike."""
    rng = np.random.default_rng([seed, 80])
    follows = np.full(requests, -1)
    free: set[int] = set()
    for i in range(requests):
        if free and rng.random() < 0.7:
            follows[i] = max(free) if rng.random() < 0.6 else int(rng.choice(sorted(free)))
            free.remove(int(follows[i]))
        free.add(i)
    think_s = rng.integers(0, max(2, longest_ps), requests) * rng.choice([0.0, 0.1, 1.0], requests) / PS_PER_S
    return Turns(follows=follows, think_s=think_s, between=row["turns"])


def _prefixes(row: Row, seed: int, prompt: Int64s, output: Int64s, block_tokens: int, replicas: int) -> PrefixTerms:
    """Prompts that begin like earlier ones, or like texts of the time before; drawn apart: the rest stays alike."""
    if row["prefix"] == "no":
        return PrefixTerms()
    rng = np.random.default_rng([seed, 78])
    history = rng.integers(1, 2 * int(prompt.max()) + 2, int(rng.integers(1, 6))) if row["prefix"] == "warm" else None
    first = 0 if history is None else history.size
    parent = np.array([int(rng.integers(-1, first + i)) for i in range(prompt.size)])
    near = rng.random(prompt.size) < 0.5
    parent = np.where(
        near, np.maximum(-1, np.arange(prompt.size) + first - 1 - rng.integers(0, 3, prompt.size)), parent
    )
    ends = np.concatenate([np.zeros(0, np.int64) if history is None else history, prompt + output])
    shared = np.where(parent >= 0, np.minimum(ends[parent], prompt) * rng.choice([0.4, 1.0, 1.0], prompt.size), 0)
    return prefix_terms(
        Requests(
            prompt_tokens=prompt,
            output_tokens=output,
            prefixes=Prefixes(
                parent=parent,
                shared_tokens=shared.astype(np.int64),
                history_tokens=history,
                keeps_answers=bool(rng.random() < 0.8),
            ),
        ),
        block_tokens=block_tokens,
        replicas=replicas,
        seed=seed & 0xFFFF,
    )


def _engine(row: Row, rng: np.random.Generator, need: int) -> list[int]:
    shift = {"1": 0, "4": 2, "16": 4}[row["block"]]
    sequences = int(rng.integers(1, 10))
    budget = sequences + int(rng.integers(0, 4)) if row["budget"] == "tight" else int(rng.choice([64, 256]))
    width, rate = 1, 1024
    if row["speculation"] == "yes":
        width = int(rng.integers(2, 6))
        rate = int(rng.choice([1024, 1024 * width, int(rng.integers(1024, 1024 * width + 1))]))
        budget += sequences * (width - 1) if row["budget"] == "tight" else 0
    least = -(-need >> shift)
    factor = {"loose": 50.0, "tight": float(rng.choice([1, 1.3, 2])), "tiny": float(rng.choice([0.7, 1.0]))}[row["kv"]]
    fields = [0] * len(EngineField)
    fields[EngineField.MAX_SEQUENCES] = sequences
    fields[EngineField.TOKEN_BUDGET] = budget
    fields[EngineField.BLOCKS] = max(1, int(least * factor) + int(rng.integers(0, 3)))
    fields[EngineField.BLOCK_SHIFT] = shift
    fields[EngineField.QUEUE_BOUND] = int(rng.integers(1, 5)) if row["queue"] == "bounded" else 2**40
    fields[EngineField.LONG_PREFILL] = int(rng.integers(1, 9)) if row["long_prefill"] == "short" else 2**40
    fields[EngineField.PRIORITY] = int(row["scheduling"] == "priority")
    fields[EngineField.KV_SHIFT] = int(rng.integers(2, 7)) if row["step"] == "table" else 40
    fields[EngineField.KV_SEGMENTS] = 6 if row["step"] == "table" else 1
    fields[EngineField.TOKEN_SHIFT] = 4 if row["step"] == "table" else 40
    fields[EngineField.TOKEN_SEGMENTS] = 4 if row["step"] == "table" else 1
    fields[EngineField.PAIR_PS_1024] = int(rng.integers(0, 3000))
    fields[EngineField.IS_SUM] = int(row["step"] == "affine")
    fields[EngineField.OUTSIDE_PS] = (0, 7, 10**6)[sequences % 3]
    fields[EngineField.CROWD_PS] = (0, 3, 10**5)[budget % 3]
    fields[EngineField.RATE_1024] = rate
    fields[EngineField.WIDTH] = width
    # Without chance: what is drawn after it stays as it was.
    fields[EngineField.HOST_ROOM] = {"no": 0, "small": 2 + 3 * (budget % 7), "large": 10**6}[row["host"]]
    fields[EngineField.HOST_BLOCK_PS] = (0, 1, 10**8)[budget % 3]
    return fields


def _set_policies(row: Row, rng: np.random.Generator, engines: Int64s) -> None:
    """The first type has the row's policy, a second any; ratios move far within the few steps there are."""
    kinds = [CapacityKind[row["policy"].upper()], *rng.choice(list(CapacityKind), len(engines) - 1)]
    for engine, kind in zip(engines, kinds, strict=True):
        engine[EngineField.POLICY] = kind
        if kind == CapacityKind.NEW_TOKEN_RATIO:
            first = int(rng.integers(0, 1 << 20))
            least = int(first * rng.choice([0.0, 0.14, 1.0]))
            engine[EngineField.RATIO_FIRST], engine[EngineField.RATIO_LEAST] = first, least
            engine[EngineField.RATIO_DECAY] = (first - least) // int(rng.integers(1, 40))
            engine[EngineField.CLIP_TOKENS] = int(rng.choice([5, 40, 4096]))


def _limited(row: Row, rng: np.random.Generator, classes: Int64s, longest_output: int) -> Int64s:
    """Requests allow what comes out, or their class allows more."""
    above = row["limit"] == "above"
    classes[:, ClassField.LIMIT_TOKENS] = rng.integers(0, 3 * longest_output, len(classes)) if above else 0
    return classes


def _tables(row: Row, rng: np.random.Generator, engines: Int64s, unit: int) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    types = len(engines)
    sequences = int(engines[:, EngineField.MAX_SEQUENCES].max())
    kv_segments, token_segments = int(engines[0, EngineField.KV_SEGMENTS]), int(engines[0, EngineField.TOKEN_SEGMENTS])
    slope = rng.integers(0, 4, (types, sequences + 1, kv_segments)) * max(1, unit // 100)
    base = np.sort(rng.integers(1, 10, (types, sequences + 1, kv_segments)) * unit, axis=1)
    base = base + np.cumsum(rng.integers(0, 3, (types, 1, kv_segments)), axis=2) * unit
    token_base = np.cumsum(rng.integers(0, 5, (types, token_segments)), axis=1) * unit
    token_slope = rng.integers(0, 4, (types, token_segments)) * max(1, unit // 10)
    return base.astype(np.int64), slope.astype(np.int64), token_base.astype(np.int64), token_slope.astype(np.int64)


def _events(row: Row, rng: np.random.Generator, replicas: int, span: int) -> tuple[Int64s, Int32s, Int8s]:
    if row["platform"] == "none":
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8)
    count = int(rng.integers(1, 12))
    kinds = [EventKind.READY, EventKind.READY, EventKind.DRAIN]
    if row["platform"] == "failures":
        kinds = [EventKind.FAIL, EventKind.FAIL, EventKind.REPAIR, EventKind.REPAIR, EventKind.READY]
    when = np.sort(rng.integers(0, max(2, span), count))
    if rng.random() < 0.4:
        when = when // max(1, span // 4) * max(1, span // 4)
    return when, rng.integers(0, replicas, count).astype(np.int32), rng.choice(kinds, count).astype(np.int8)


def _classes(row: Row, rng: np.random.Generator, classes: int, life: float) -> Int64s:
    made = np.full((classes, len(ClassField)), NEVER_PS, np.int64)
    made[:, ClassField.LEVEL] = rng.permutation(classes) % 2
    if not (made[:, ClassField.LEVEL] == 0).any():
        made[:, ClassField.LEVEL] = 0
    some = rng.random(classes) < 0.8
    if row["ttft_timeout"] == "yes":
        limits_ps = life * rng.random(int(some.sum())) * rng.choice([0.3, 2])
        made[some, ClassField.TTFT_TIMEOUT_PS] = limits_ps.astype(np.int64) + 1
    if row["total_timeout"] == "yes":
        limits_ps = life * rng.random(classes) * rng.choice([0.5, 2, 5])
        made[:, ClassField.TOTAL_TIMEOUT_PS] = limits_ps.astype(np.int64) + 1
    made[some, ClassField.TTFT_SLO_PS] = int(life * rng.random())
    made[some, ClassField.TPOT_SLO_PS] = int(life * rng.random() / 4) + 1
    made[some, ClassField.E2E_SLO_PS] = int(life * rng.random() * 3)
    return made


def _retry(row: Row, rng: np.random.Generator, typical: int) -> RetryTerms:
    if row["retry"] == "no":
        return RetryTerms()
    limited = row["retry"] == "budget"
    return RetryTerms(
        most_attempts=int(rng.integers(2, 5)),
        backoff_ps=max(1, int(typical * rng.random() * 3)),
        growth_milli=int(rng.choice([1000, 1500, 2000])),
        jitter_milli=500 if limited else 0,
        deposit_milli=200 if limited else 1000,
        bucket_milli=int(rng.integers(1, 4)) * 1000 if limited else 10**12,
        on_shed=bool(rng.random() < 0.8),
        on_timeout=bool(rng.random() < 0.8),
        on_failure=bool(rng.random() < 0.8),
    )


def _start_delays(row: Row, rng: np.random.Generator, span: int) -> NDArray[np.int64]:
    """Starts that take as long as each other, or not."""
    several = row["control"] == "callback"
    return rng.integers(0, max(1, span // 4) + 1, int(rng.integers(1, 6)) if several else 0)


def _control(row: Row, rng: np.random.Generator, replicas: int, span: int, need: int) -> ControlTerms:
    if row["control"] == "none":
        return ControlTerms()
    kind = ControlKind.CALLBACK if row["control"] == "callback" else ControlKind.RULE
    tokens = row["control"] == "tokens"
    return ControlTerms(
        kind=kind,
        period_ps=max(1, span // int(rng.integers(3, 30))),
        ready_delay_ps=int(rng.integers(0, max(1, span // 4) + 1)),
        signal=SignalKind.TOKENS if tokens else SignalKind.OUTSTANDING,
        target_milli=1000 * int(rng.integers(1, 5)) * (need if tokens else 1),
        window_ticks=int(rng.integers(1, 5)),
        least_replicas=int(rng.integers(0, 2)),
        most_replicas=replicas,
    )
