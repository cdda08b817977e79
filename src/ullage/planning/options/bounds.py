"""What no schedule can beat, read from the step table that the simulator runs on.

    busy time of a request  >=  prompt tokens x the cheapest token of any step up to the token budget
                              + pairs x time of a pair
                              + output tokens x the least of base(n) / n over all batches n
                              + KV tokens read x the least slope over all batches

Each term takes the best batch by itself, so no run can be below their sum: dividing a rate by it gives the fewest
replicas. The latencies of a request that is alone on a replica bound those under any load in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ullage.service.replica import Replica
from ullage.simulate.engine import StepTable
from ullage.simulate.load import PS_PER_S, OpenLoop, Requests
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.definitions import TpotCount

Floats = NDArray[np.float64]
# Histograms of a simulation are read at the middle of a bin; within that, a limit is not exceeded.
TOLERANCE_FRACTION = 0.02


@dataclass(frozen=True, kw_only=True)
class IdleMiss:
    """An SLO that a request alone on a replica already violates, at the percentile of the SLO."""

    request_class: str
    slo: Slo
    least_s: float


def busy_bound_s(replica: Replica, load: OpenLoop) -> float:
    """Seconds of one replica that these requests need at the least, on average."""
    table, requests = replica.engine.step, load.requests
    new, cached = _new_tokens(requests)
    outputs = requests.output_tokens.astype(np.float64)
    sequences = np.arange(1, table.max_sequences + 1)
    token_s = _cheapest_token_s(table, replica.engine.budget_tokens)
    # With speculation a step brings several tokens, and reads the cache once for them.
    gain = replica.engine.tokens_per_step
    base_s = float((table.decode_base_ps[1:, 0] / sequences).min()) / gain / PS_PER_S
    slope_s = float(table.decode_slope_ps[1:].min()) / gain / PS_PER_S
    # The first token comes out of the prompt; each later one reads the context before it.
    later = np.maximum(outputs - 1.0, 0.0)
    read = later * (new + cached) + later * (later + 1.0) / 2.0
    pairs = _pairs(new, cached)
    if table.combine == "longer":
        # Where the longer part of a step counts, the shorter one is free at best.
        prompt_s = token_s * new + pairs * table.pair_ps / PS_PER_S
        return float(max(prompt_s.mean(), (later * base_s + read * slope_s).mean()))
    return float((token_s * new + pairs * table.pair_ps / PS_PER_S + later * base_s + read * slope_s).mean())


def idle_misses(replica: Replica, load: OpenLoop, classes: Sequence[RequestClass]) -> tuple[IdleMiss, ...]:
    """The SLOs on TTFT, TPOT and E2E that cannot be met even with one request at a time."""
    first_s, token_s = _idle_s(replica, load.requests)
    whole_s = first_s + token_s * np.maximum(load.requests.output_tokens - 1.0, 0.0)
    names = [each.name for each in load.requests.classes]
    class_of = load.requests.class_of
    found = []
    for slo_class in classes:
        own = slice(None) if class_of is None else class_of == names.index(slo_class.name)
        several = load.requests.output_tokens[own] > 1
        latencies = {Metric.TTFT: first_s[own], Metric.E2E: whole_s[own]}
        if slo_class.definitions.tpot is TpotCount.WITHOUT_FIRST:
            latencies[Metric.TPOT] = token_s[own][several]
        for slo in slo_class.slos:
            values = latencies.get(slo.metric)
            if values is None or values.size == 0:
                continue
            least_s = float(np.quantile(values, slo.percentile_fraction))
            if least_s > slo.limit_s * (1.0 + TOLERANCE_FRACTION):
                found.append(IdleMiss(request_class=slo_class.name, slo=slo, least_s=least_s))
    return tuple(found)


def _idle_s(replica: Replica, requests: Requests) -> tuple[Floats, Floats]:
    """Time to the first token, and time per later token, of each request alone."""
    engine, table = replica.engine, replica.engine.step
    new, cached = _new_tokens(requests)
    budget = float(engine.budget_tokens)
    full = np.floor(new / budget)
    rest = new - full * budget
    step_s = float(table.decode_base_ps[0, 0]) / PS_PER_S
    prompt_s = full * _tokens_s(table, np.array([budget]))[0] + _tokens_s(table, rest)
    steps = full + (rest > 0)
    first_s = replica.request_overhead_s + prompt_s + steps * step_s + _pairs(new, cached) * table.pair_ps / PS_PER_S
    # The mean context while it writes: the prompt and half of the answer.
    context = new + cached + requests.output_tokens / 2.0
    grid = np.minimum(context // table.kv_segment_tokens, table.decode_base_ps.shape[1] - 1).astype(np.int64)
    base, slope = table.decode_base_ps[1][grid], table.decode_slope_ps[1][grid]
    token_s = (base + slope * (context - grid * table.kv_segment_tokens)) / engine.tokens_per_step / PS_PER_S
    return first_s, token_s


def _tokens_s(table: StepTable, tokens: Floats) -> Floats:
    """What so many prompt tokens add to a step; nothing where there are none."""
    place = np.minimum(tokens // table.token_segment_tokens, table.token_base_ps.size - 1).astype(np.int64)
    inside = tokens - place * table.token_segment_tokens
    found: Floats = (table.token_base_ps[place] + table.token_slope_ps[place] * inside) / PS_PER_S
    return np.where(tokens > 0, found, 0.0)


def _cheapest_token_s(table: StepTable, budget_tokens: int) -> float:
    """The least time of a prompt token over all sizes of a step: between grid points time is linear, so at one."""
    grid = np.arange(1, table.token_base_ps.size + 1, dtype=np.float64) * table.token_segment_tokens
    sizes = np.unique(np.minimum(np.concatenate(([1.0], grid)), float(budget_tokens)))
    return float((_tokens_s(table, sizes) / sizes).min())


def _new_tokens(requests: Requests) -> tuple[Floats, Floats]:
    prompts = requests.prompt_tokens.astype(np.float64)
    cached = np.zeros_like(prompts) if requests.cached_tokens is None else requests.cached_tokens.astype(np.float64)
    return prompts - cached, cached


def _pairs(new: Floats, cached: Floats) -> Floats:
    """Pairs of a new token with every token before it and itself."""
    found: Floats = new * cached + new * (new + 1.0) / 2.0
    return found
