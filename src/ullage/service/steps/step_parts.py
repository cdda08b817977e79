"""Reading and computing, apart from each other: what requests need of each, and steps with more of one.

A step takes both at once, so its time does not say how much of each is in it. Sums over requests and steps do:

    reading      weights once a step; KV once for every token that is decoded
    computing    every token through every matrix; every new prompt token against all before it

Efficiencies are those of the roofline, times the factors of a calibration; a measured table has none, and the data
sheet's peaks stand in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ullage.service.steps.roofline import IDEAL, Rates, Roofline
from ullage.service.steps.scaled import Factors, ScaledStep
from ullage.service.steps.speculative import SpeculativeStep
from ullage.service.steps.step_model import StepModel
from ullage.service.steps.tables import StepTimes
from ullage.service.steps.work import Floats
from ullage.simulate.load import Requests


@dataclass(frozen=True, kw_only=True)
class StepNeed:
    """The work of one request on a replica's busiest device: bytes and operations, and the seconds they take alone."""

    reading_s: float
    computing_s: float
    read_bytes: float
    flops: float
    is_peak: bool

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """What the device can read in a second, in the proportions of this need."""
        return self.read_bytes / self.reading_s if self.reading_s > 0.0 else 0.0

    @property
    def compute_flops(self) -> float:
        """Operations that the device can do in a second, in the proportions of this need."""
        return self.flops / self.computing_s if self.computing_s > 0.0 else 0.0


def need_of(step: StepModel, requests: Requests, *, steps_per_request: float) -> StepNeed:
    """The mean need of these requests, where a replica takes so many steps for each: fewer where batches are larger."""
    roofline, factors, is_peak = _roofline(step)
    sums = _Sums(requests)
    reading_s, read_bytes = _reading(roofline, sums, steps_per_request)
    computing_s, flops = _computing(roofline, sums)
    return StepNeed(
        reading_s=reading_s * factors.fixed_ratio,
        computing_s=computing_s * factors.prefill_ratio,
        read_bytes=read_bytes,
        flops=flops,
        is_peak=is_peak,
    )


class _Sums:
    """Means over requests of what work is linear in."""

    def __init__(self, requests: Requests) -> None:
        prompt = requests.prompt_tokens.astype(np.float64)
        output = requests.output_tokens.astype(np.float64)
        cached = np.zeros_like(prompt) if requests.cached_tokens is None else requests.cached_tokens.astype(np.float64)
        self.output = float(output.mean())
        self.new = float((prompt - cached).mean())
        # The first token comes with the prefill; every later one reads the context before it.
        self.steps = float(np.maximum(output - 1.0, 0.0).mean())
        self.read_contexts = prompt + output / 2.0
        self.decodes = np.maximum(output - 1.0, 0.0)
        self.pairs = float((prompt * (prompt + 1.0) / 2.0 - cached * (cached + 1.0) / 2.0).mean())

    def seen(self, bound_tokens: int | None) -> float:
        """KV tokens that a request's decoding steps look at in all, in layers that look back so far."""
        contexts = self.read_contexts if bound_tokens is None else np.minimum(self.read_contexts, bound_tokens)
        return float((self.decodes * contexts).mean())


def _roofline(step: StepModel) -> tuple[Roofline, Factors, bool]:
    """The roofline under a step model, the factors on it, and whether peaks stand in for efficiencies."""
    times: object = step.times
    factors = Factors()
    while isinstance(times, ScaledStep | StepModel | SpeculativeStep):
        if isinstance(times, ScaledStep):
            # An estimate that published measurements correct is scaled to load tests in its turn.
            factors = factors.on_top_of(times.factors)
        times = times.times
    if isinstance(times, Roofline):
        return times, factors, False
    return Roofline(work=step.floor.work, rates=step.floor.rates, efficiencies=IDEAL), Factors(), True


def _reading(roofline: Roofline, sums: _Sums, steps: float) -> tuple[float, float]:
    work, rates, e = roofline.work, roofline.rates, roofline.efficiencies
    # Experts are read as far as the tokens of a step are sent to them.
    tokens: Floats = np.array([max(1.0, (sums.new + sums.steps) / max(steps, 1e-9) / work.sharding.pp)])
    seconds = total = 0.0
    for matrix in work.matrices:
        share = e.expert_bandwidth_fraction if matrix.experts else e.bandwidth_fraction
        each = float(matrix.read_bytes(tokens)[0]) * steps
        total += each
        seconds += each / (rates.memory_bytes_per_s * share)
    cache = sums.steps * work.state_bytes / work.groups
    cache += sum(each.read_bytes_per_token * sums.seen(each.bound_tokens) for each in work.attention) / work.groups
    return seconds + cache / (rates.memory_bytes_per_s * e.kv_bandwidth_fraction), total + cache


def _computing(roofline: Roofline, sums: _Sums) -> tuple[float, float]:
    work, rates, e = roofline.work, roofline.rates, roofline.efficiencies
    seconds = total = 0.0
    for matrix in work.matrices:
        # A step of several pipeline stages has a part of the sequences on each; a prefill passes all of them.
        tokens = sums.output if matrix.sampled_only else sums.new + sums.steps / work.sharding.pp
        each = matrix.flops_per_token * tokens
        total += each
        seconds += each / (rates.flops(matrix.compute_dtype) * roofline.reached_fraction(matrix))
    attention = sum(each.decode_flops_per_token * sums.seen(each.bound_tokens) for each in work.attention) / work.groups
    bounded = sum(each.pair_flops * each.bound_tokens for each in work.attention if each.bound_tokens)
    attention += bounded * sums.new / work.groups
    open_pairs = sum(each.pair_flops for each in work.attention if each.bound_tokens is None)
    attention += open_pairs * sums.pairs / work.sharding.dp_attention
    return seconds + attention / (rates.flops("bf16") * e.attention_compute_fraction), total + attention


def relieved(step: StepModel, *, bandwidth_ratio: float = 1.0, compute_ratio: float = 1.0) -> StepModel:
    """The same steps on a device that reads or computes so many times as fast, with a floor that is lower by it.

    Measured steps do not tell the two apart: their decoding stands for reading and their prefill for computing.
    """

    def faster(rates: Rates) -> Rates:
        return replace(
            rates,
            memory_bytes_per_s=rates.memory_bytes_per_s * bandwidth_ratio,
            compute_flops={dtype: rate * compute_ratio for dtype, rate in rates.compute_flops.items()},
        )

    def times(now: StepTimes) -> StepTimes:
        match now:
            case StepModel():
                return relieved(now, bandwidth_ratio=bandwidth_ratio, compute_ratio=compute_ratio)
            case ScaledStep():
                below = times(now.times)
                assert isinstance(below, StepModel | ScaledStep | Roofline)
                return replace(now, times=below)  # type: ignore[arg-type]
            case Roofline():
                return replace(now, rates=faster(now.rates))
            case _:
                return _Faster(times=now, decode_ratio=bandwidth_ratio, prefill_ratio=compute_ratio)

    return replace(step, times=times(step.times), floor=replace(step.floor, rates=faster(step.floor.rates)))


@dataclass(frozen=True, kw_only=True)
class _Faster:
    """Measured steps, their decoding and their prefill so many times as fast."""

    times: StepTimes
    decode_ratio: float
    prefill_ratio: float

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        return self.times.decode_s(sequences, kv_tokens) / self.decode_ratio

    def prefill_s(self, tokens: Floats) -> Floats:
        return self.times.prefill_s(tokens) / self.prefill_ratio

    @property
    def pair_s(self) -> float:
        return self.times.pair_s / self.prefill_ratio
