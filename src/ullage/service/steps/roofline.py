"""The roofline step model: work divided by what a device does, with a few shared efficiencies, plus overheads.

    matrices     each group: memory and compute time joined, (memory^4 + compute^4)^(1/4), because tiles of
                 both kinds overlap except near the ridge
    KV cache     bytes read over the bandwidth, or operations over the rate, whichever is longer
    pairs        operations of prefill attention over the bf16 rate
    activations  bytes between the matrices over the bandwidth
    messages     a latency for each sum over devices, and its bytes over the link
    overhead     for each step, each kernel that is launched, and each sequence

A step of n decoding sequences with p new prompt tokens lasts

    step = decode(n, kv) + prefill(p) + pairs x pair time

where prefill(p) is what p tokens add to a step that reads the weights anyway. `floor` is the same physics with
every efficiency 1, every overhead 0, and all resources perfectly overlapped: nothing can be faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ullage.service.steps.work import BLOCK_SCALED, Floats, MatrixWork, ReplicaWork

RIDGE_POWER = 4.0
"""How sharply memory-bound turns into compute-bound: at the ridge a matrix takes 2^(1/4) = 1.19 times either bound."""
GRAPH_TOKENS = 512
"""Up to about so many tokens engines replay captured graphs, above it they launch kernel by kernel."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one device does at its peak. `compute_flops` is by precision; a link of 0 means there is none."""

    memory_bytes_per_s: float
    compute_flops: Mapping[str, float]
    link_bytes_per_s: float

    def used_dtype(self, dtype: str) -> str:
        """The precision a matrix is multiplied in; a device without a narrow format widens the values to 16 bits."""
        dtype = dtype.removesuffix(BLOCK_SCALED)
        if dtype == "mxfp4" and "fp4" in self.compute_flops and "fp8" in self.compute_flops:
            return "fp8"
        return dtype if dtype in self.compute_flops else "bf16"

    def flops(self, dtype: str) -> float:
        return self.compute_flops[self.used_dtype(dtype)]


@dataclass(frozen=True, kw_only=True)
class Efficiencies:
    """The coefficients of the roofline: shares of the peak that are reached, and times that no peak explains."""

    bandwidth_fraction: float
    expert_bandwidth_fraction: float
    kv_bandwidth_fraction: float
    compute_fraction: float
    narrow_compute_fraction: float
    fp4_compute_fraction: float
    block_compute_fraction: float
    expert_compute_fraction: float
    attention_compute_fraction: float
    link_fraction: float
    collective_latency_s: float
    step_overhead_s: float
    kernel_overhead_s: float
    sequence_overhead_s: float
    prefill_kernel_overhead_s: float
    request_overhead_s: float


IDEAL = Efficiencies(
    bandwidth_fraction=1.0,
    expert_bandwidth_fraction=1.0,
    kv_bandwidth_fraction=1.0,
    compute_fraction=1.0,
    narrow_compute_fraction=1.0,
    fp4_compute_fraction=1.0,
    block_compute_fraction=1.0,
    expert_compute_fraction=1.0,
    attention_compute_fraction=1.0,
    link_fraction=1.0,
    collective_latency_s=0.0,
    step_overhead_s=0.0,
    kernel_overhead_s=0.0,
    sequence_overhead_s=0.0,
    prefill_kernel_overhead_s=0.0,
    request_overhead_s=0.0,
)


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """Step times of one replica from its work, its device's rates, and the efficiencies."""

    work: ReplicaWork
    rates: Rates
    efficiencies: Efficiencies

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        """A step of decoding sequences alone, their contexts adding up to `kv_tokens`."""
        return self.wide_s(sequences, kv_tokens, positions=1)

    def wide_s(self, sequences: Floats, kv_tokens: Floats, *, positions: int) -> Floats:
        """A decode step that computes so many positions of each sequence, as verifying a draft does."""
        work, e = self.work, self.efficiencies
        own = sequences * positions / work.sharding.pp
        # Every rank of data-parallel attention has a scheduler of its own, which sees its own sequences alone.
        seen = sequences / work.sharding.dp_attention
        overhead = e.step_overhead_s + work.kernels * e.kernel_overhead_s + seen * e.sequence_overhead_s
        return overhead + self._pass_s(own) + self._head_s(own) + self._cache_s(sequences, kv_tokens, positions)

    def draft_s(self, sequences: Floats, kv_tokens: Floats, *, layers_fraction: float) -> Floats:
        """A pass of so large a part of the layers and of the head inside a step, at one position of each sequence."""
        own = sequences / self.work.sharding.pp
        launches = self.work.kernels * self.efficiencies.kernel_overhead_s
        layers = launches + self._pass_s(own) + self._cache_s(sequences, kv_tokens)
        return layers_fraction * layers + self._head_s(own)

    def prefill_s(self, tokens: Floats) -> Floats:
        """What this many new prompt tokens add to a step, beside the pairs they are compared in."""
        bounded = sum(each.pair_flops * each.bound_tokens for each in self.work.attention if each.bound_tokens)
        per_token = bounded / (self.rates.flops("bf16") * self.efficiencies.attention_compute_fraction)
        more = self._pass_s(tokens) - self._pass_s(np.zeros(1))
        launches = self.work.kernels * self.efficiencies.prefill_kernel_overhead_s
        overhead = launches * np.minimum(tokens / GRAPH_TOKENS, 1.0)
        added: Floats = overhead + more + tokens * per_token / self.work.groups
        return added

    @property
    def pair_s(self) -> float:
        """One pair of a new token and a token it looks back to, in the layers that look back to the start."""
        flops = sum(each.pair_flops for each in self.work.attention if each.bound_tokens is None)
        rate = self.rates.flops("bf16") * self.efficiencies.attention_compute_fraction
        return flops / rate / self.work.sharding.dp_attention

    def _pass_s(self, tokens: Floats) -> Floats:
        """All layers' matrices and messages for this many tokens; without any, the weights are read as for one."""
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.matrices:
            if not each.sampled_only:
                total = total + self._matrix_s(each, tokens)
        moved = tokens * self.work.activation_bytes_per_token
        passed = moved / (self.rates.memory_bytes_per_s * self.efficiencies.bandwidth_fraction)
        return total + passed + self._messages_s(tokens)

    def _head_s(self, tokens: Floats) -> Floats:
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.matrices:
            if each.sampled_only:
                total = total + self._matrix_s(each, tokens)
        return total

    def _matrix_s(self, matrix: MatrixWork, tokens: Floats) -> Floats:
        e = self.efficiencies
        share = e.expert_bandwidth_fraction if matrix.experts else e.bandwidth_fraction
        memory = matrix.read_bytes(tokens) / (self.rates.memory_bytes_per_s * share)
        reached = self.reached_fraction(matrix)
        compute = matrix.flops(tokens) / (self.rates.flops(matrix.compute_dtype) * reached)
        joined: Floats = (memory**RIDGE_POWER + compute**RIDGE_POWER) ** (1.0 / RIDGE_POWER)
        return joined

    def reached_fraction(self, matrix: MatrixWork) -> float:
        """The share of the peak rate that a product reaches."""
        e = self.efficiencies
        dtype = self.rates.used_dtype(matrix.compute_dtype)
        reached = {"bf16": e.compute_fraction, "fp4": e.fp4_compute_fraction}.get(dtype, e.narrow_compute_fraction)
        if dtype != "bf16" and matrix.compute_dtype.endswith(BLOCK_SCALED):
            reached *= e.block_compute_fraction
        return reached * e.expert_compute_fraction if matrix.experts else reached

    def _messages_s(self, tokens: Floats) -> Floats:
        """Each message waits a latency, and sends its bytes over the link of the device."""
        e = self.efficiencies
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.collectives:
            sent = each.sent_bytes_per_token * tokens / (self.rates.link_bytes_per_s * e.link_fraction)
            total = total + each.count * (e.collective_latency_s + sent)
        return total

    def _cache_s(self, sequences: Floats, kv_tokens: Floats, positions: int = 1) -> Floats:
        """Reading keys, values and states of the device's own sequences, each compared with so many new tokens."""
        e, rates, dp = self.efficiencies, self.rates, self.work.groups
        read: Floats = sequences / dp * self.work.state_bytes
        flops: Floats = np.zeros_like(read)
        for each in self.work.attention:
            seen = each.seen_tokens(sequences, kv_tokens) / dp
            read = read + seen * each.read_bytes_per_token
            flops = flops + seen * each.decode_flops_per_token
        memory = read / (rates.memory_bytes_per_s * e.kv_bandwidth_fraction)
        compute = positions * flops / (rates.flops("bf16") * e.attention_compute_fraction)
        return np.maximum(memory, compute)
