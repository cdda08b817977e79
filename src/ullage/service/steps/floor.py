"""The physical floor of a step: peak rates, no overhead, memory, compute and link perfectly overlapped.

Nothing that ullage puts out may be faster. A measurement that is faster is an anomaly that names both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ullage.service.steps.roofline import Rates
from ullage.service.steps.work import Floats, ReplicaWork


@dataclass(frozen=True, kw_only=True)
class PeakUse:
    """What share of its peaks a replica used while it was busy; bandwidth by its weights alone, so at least this."""

    compute_fraction: float
    bandwidth_fraction: float


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The least time of a step on this replica."""

    work: ReplicaWork
    rates: Rates

    def decode_s(self, sequences: Floats, kv_tokens: Floats) -> Floats:
        """A step of decoding sequences alone."""
        own = sequences / self.work.sharding.pp
        read, flops = self._cache(sequences, kv_tokens)
        memory = (self._weight_bytes(own, head=True) + read) / self.rates.memory_bytes_per_s
        compute = self._compute_s(own, head=True) + flops / self.rates.flops("bf16")
        return np.maximum(np.maximum(memory, compute), self._link_s(own))

    def prefill_s(self, tokens: Floats) -> Floats:
        """What new prompt tokens add to a step that reads the weights of one token anyway."""
        one = np.ones(1)
        base = self._weight_bytes(one, head=False) / self.rates.memory_bytes_per_s
        more = self._weight_bytes(tokens, head=False) / self.rates.memory_bytes_per_s - base
        compute = self._compute_s(tokens, head=False) - base
        return np.maximum(np.maximum(more, compute), 0.0)

    @property
    def pair_s(self) -> float:
        flops = sum(each.pair_flops for each in self.work.attention if each.bound_tokens is None)
        return flops / self.rates.flops("bf16") / self.work.sharding.dp_attention

    def step_s(self, sequences: float, kv_tokens: float, tokens: float, pairs: float) -> float:
        """A whole step: decoding sequences and new prompt tokens together."""
        n, kv, p = np.array([sequences]), np.array([kv_tokens]), np.array([tokens])
        own = (n + p) / self.work.sharding.pp
        read, flops = self._cache(n, kv)
        memory = (self._weight_bytes(own, head=False) + read) / self.rates.memory_bytes_per_s
        compute = self._compute_s(own, head=False) + flops / self.rates.flops("bf16") + pairs * self.pair_s
        return float(np.maximum(np.maximum(memory, compute), self._link_s(own))[0])

    def peak_use(self, *, steps: int, tokens: int, busy_s: float) -> PeakUse:
        """The operations of so many tokens, and the weights that every step reads at the least, over what is possible.

        Above 1 is impossible: the times that made `busy_s` would then beat the device.
        """
        if busy_s <= 0.0:
            return PeakUse(compute_fraction=0.0, bandwidth_fraction=0.0)
        own = np.array([tokens / self.work.sharding.pp])
        read = steps * float(self._weight_bytes(np.ones(1), head=False)[0])
        return PeakUse(
            compute_fraction=float(self._compute_s(own, head=False)[0]) / busy_s,
            bandwidth_fraction=read / self.rates.memory_bytes_per_s / busy_s,
        )

    def _weight_bytes(self, tokens: Floats, *, head: bool) -> Floats:
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.matrices:
            if head or not each.sampled_only:
                total = total + each.even_bytes(tokens)
        return total

    def _compute_s(self, tokens: Floats, *, head: bool) -> Floats:
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.matrices:
            if head or not each.sampled_only:
                total = total + each.flops_per_token * tokens / self.rates.flops(each.compute_dtype)
        return total

    def _cache(self, sequences: Floats, kv_tokens: Floats) -> tuple[Floats, Floats]:
        read = sequences / self.work.groups * self.work.state_bytes
        flops = np.zeros_like(read)
        for each in self.work.attention:
            seen = each.seen_tokens(sequences, kv_tokens) / self.work.groups
            read = read + seen * each.read_bytes_per_token
            flops = flops + seen * each.decode_flops_per_token
        return read, flops

    def _link_s(self, tokens: Floats) -> Floats:
        # A sum within the switch of the link sends half of what one among the devices does.
        total = np.zeros_like(tokens, dtype=np.float64)
        for each in self.work.collectives:
            total = total + each.count * 0.5 * each.sent_bytes_per_token * tokens / self.rates.link_bytes_per_s
        return total
