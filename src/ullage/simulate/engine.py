"""What one replica is: the scheduler's limits, its KV cache and how long its steps take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError

PS_PER_S = 10**12
PolicyName = Literal["present_need", "new_token_ratio", "guaranteed_no_evict", "max_utilization"]
# SGLang 0.5.9: SGLANG_INIT_NEW_TOKEN_RATIO, _MIN_NEW_TOKEN_RATIO_FACTOR, _NEW_TOKEN_RATIO_DECAY_STEPS.
_FIRST_RATIO, _LEAST_FRACTION, _DECAY_STEPS = 0.7, 0.14, 600
_ONE_SEGMENT_TOKENS = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTable:
    """Step times as integers, piecewise linear between grid points. Tables are told apart by identity: they are long.

    A pure decode step of n sequences that read v tokens of KV takes
    `decode_base_ps[n, g] + decode_slope_ps[n, g] * (v - g * kv_segment_tokens)` with g the segment of v; the last
    segment goes on for ever. A step with p prefill tokens and a attention pairs also needs
    `token_base_ps[h] + token_slope_ps[h] * (x - h * token_segment_tokens) + a * pair_ps`, where x is p
    when the two parts add up (`combine = "sum"`) and p + n when the longer one counts (`"longer"`, a roofline).
    The kernel multiplies and shifts; it never sees a float, so a run is the same on every machine.
    """

    decode_base_ps: NDArray[np.int64]
    decode_slope_ps: NDArray[np.int64]
    token_base_ps: NDArray[np.int64]
    token_slope_ps: NDArray[np.int64]
    kv_segment_tokens: int = _ONE_SEGMENT_TOKENS
    token_segment_tokens: int = _ONE_SEGMENT_TOKENS
    pair_ps: float = 0.0
    combine: Literal["sum", "longer"] = "sum"

    def __post_init__(self) -> None:
        if self.decode_base_ps.ndim != 2 or self.decode_base_ps.shape != self.decode_slope_ps.shape:
            raise InputError(
                field="step.decode_base_ps",
                value=self.decode_base_ps.shape,
                problem="is not a table of sequences by KV segments that matches decode_slope_ps",
                fix="Give two arrays of shape (max_sequences + 1, segments).",
            )
        if int(self.decode_base_ps.min()) < 1 or int(self.decode_slope_ps.min()) < 0:
            raise InputError(
                field="step.decode_base_ps",
                value=int(self.decode_base_ps.min()),
                problem="a decode step takes at least 1 ps and does not get shorter as KV grows",
                fix="Raise the table to its running maximum over KV.",
            )
        if int(self.token_slope_ps.min()) < 0 or int(self.token_base_ps.min()) < 0:
            raise InputError(
                field="step.token_base_ps",
                value=int(self.token_base_ps.min()),
                problem="prefill time is negative",
                fix="Give times of 0 or more.",
            )
        for name in ("kv_segment_tokens", "token_segment_tokens"):
            if not _is_power_of_two(getattr(self, name)):
                raise InputError(
                    field=f"step.{name}",
                    value=getattr(self, name),
                    problem="is not a power of two",
                    fix="Give 1024, 2048, 4096, ...: the kernel finds a segment by a shift.",
                )

    @property
    def max_sequences(self) -> int:
        return int(self.decode_base_ps.shape[0]) - 1

    @classmethod
    def affine(
        cls,
        *,
        step_s: float,
        sequence_s: float = 0.0,
        kv_token_s: float = 0.0,
        prefill_token_s: float = 0.0,
        pair_s: float = 0.0,
        max_sequences: int = 256,
    ) -> StepTable:
        """A step of n decodes over v KV tokens with p prefill tokens and a attention pairs takes
        `step_s + n * sequence_s + v * kv_token_s + p * prefill_token_s + a * pair_s`.

        >>> StepTable.affine(step_s=0.005, kv_token_s=4e-8).decode_base_ps[0, 0]
        np.int64(5000000000)
        """
        sequences = np.arange(max_sequences + 1)
        base = np.maximum(1, np.rint((step_s + sequences * sequence_s) * PS_PER_S)).astype(np.int64)
        return cls(
            decode_base_ps=base[:, None],
            decode_slope_ps=np.full((max_sequences + 1, 1), round(kv_token_s * PS_PER_S), np.int64),
            token_base_ps=np.zeros(1, np.int64),
            token_slope_ps=np.full(1, round(prefill_token_s * PS_PER_S), np.int64),
            pair_ps=pair_s * PS_PER_S,
        )


@dataclass(frozen=True, kw_only=True)
class CapacityPolicy:
    """What must fit before a waiting request is admitted, and which request is preempted when blocks run out.

    `present_need` is vLLM's: the blocks of its first tokens; the last admitted is preempted. `new_token_ratio` is
    SGLang's (0.5.9): its prompt, its longest answer and a share of what running answers may still come to; the ones
    with the fewest output tokens are retracted. That share is 0.7 times `conservativeness` and falls by decode steps to
    0.14 of it. `guaranteed_no_evict` and `max_utilization` are TensorRT-LLM's (1.x): prompts have all their blocks at
    once, and the first also asks that every longest answer fits, so that no request is preempted.

    The longest answer is `output_limit_tokens` (a request's max_tokens); without it, the 99th percentile of what comes
    out in the request's class.
    """

    name: PolicyName = "present_need"
    conservativeness: float = 1.0
    output_limit_tokens: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.conservativeness <= 100.0:
            raise InputError(
                field="engine.conservativeness",
                value=self.conservativeness,
                problem="is not between 0 and 100",
                fix="SGLang's default is 1; lower admits more requests, higher fewer.",
            )
        if self.output_limit_tokens is not None and self.output_limit_tokens < 1:
            raise InputError(
                field="engine.output_limit_tokens",
                value=self.output_limit_tokens,
                problem="is below 1",
                fix="Give the max_tokens of the requests, or None where it is not known.",
            )

    @property
    def first_ratio(self) -> float:
        return min(1.0, _FIRST_RATIO * self.conservativeness)

    @property
    def least_ratio(self) -> float:
        return _LEAST_FRACTION * self.first_ratio

    @property
    def decay_ratio(self) -> float:
        """What a decode step takes off the ratio."""
        return (self.first_ratio - self.least_ratio) / _DECAY_STEPS

    @property
    def counts_answers(self) -> bool:
        """Whether the policy depends on the longest answer."""
        return self.name in ("new_token_ratio", "guaranteed_no_evict")


PRESENT_NEED = CapacityPolicy()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A continuous-batching engine with vLLM V1's scheduler and that scheduler's names for its limits.

    `capacity` is the policy by which it admits a request: vLLM's policy, SGLang's or TensorRT-LLM's.

    `kv_blocks` is what memory left for KV; `waiting_requests` bounds the queue (None: no bound);
    `long_prefill_tokens` caps one request's prefill in one step (vLLM's long_prefill_token_threshold).
    `request_overhead_s` is what a request spends outside the steps before its client has the first token, and
    `crowd_overhead_s` what every sequence that decodes in that step adds to it: the server sends their tokens from the
    same loop. TTFT and E2E have both in them, and so have the SLOs on them.

    With speculation a decoding sequence computes `step_positions` positions in a step, those drafted and one, and gains
    `tokens_per_step` of them on average; `step` then holds the times of such wide steps. Acceptance is taken in
    expectation: a step brings every sequence the same whole number of tokens, and what is left of a token is carried.

    `host_blocks` is a second tier of the prefix cache in host memory (0: none): blocks that the device evicts are
    kept there, and a prompt that begins with them has them loaded, each in `host_block_s`, in the step that admits it.
    """

    step: StepTable
    kv_blocks: int
    block_tokens: int = 16
    max_sequences: int = 256
    budget_tokens: int = 8192
    waiting_requests: int | None = None
    long_prefill_tokens: int | None = None
    scheduling: Literal["fcfs", "priority"] = "fcfs"
    capacity: CapacityPolicy = PRESENT_NEED
    request_overhead_s: float = 0.0
    crowd_overhead_s: float = 0.0
    tokens_per_step: float = 1.0
    step_positions: int = 1
    host_blocks: int = 0
    host_block_s: float = 0.0

    def __post_init__(self) -> None:
        if not min(self.request_overhead_s, self.crowd_overhead_s) >= 0.0:
            raise InputError(
                field="engine.request_overhead_s",
                value=(self.request_overhead_s, self.crowd_overhead_s),
                problem="what a request spends outside the steps is not negative",
                fix="Give 0 or more.",
            )
        if self.host_blocks < 0 or not self.host_block_s >= 0.0:
            raise InputError(
                field="engine.host_blocks",
                value=(self.host_blocks, self.host_block_s),
                problem="a tier in host memory has no less than no blocks, which take no less than no time to load",
                fix="Give 0 blocks for no tier.",
            )
        for name in ("kv_blocks", "max_sequences", "budget_tokens"):
            if getattr(self, name) < 1:
                raise InputError(
                    field=f"engine.{name}", value=getattr(self, name), problem="must be at least 1", fix="Raise it."
                )
        if not _is_power_of_two(self.block_tokens):
            raise InputError(
                field="engine.block_tokens",
                value=self.block_tokens,
                problem="is not a power of two",
                fix="Give the engine's block size, for example 16.",
            )
        self._check_steps()
        if self.step.max_sequences < self.max_sequences:
            raise InputError(
                field="engine.max_sequences",
                value=self.max_sequences,
                problem=f"is above the step table's {self.step.max_sequences}",
                fix="Extend the table, or lower max_sequences.",
            )
        for name in ("waiting_requests", "long_prefill_tokens"):
            limit = getattr(self, name)
            if limit is not None and limit < (1 if name == "long_prefill_tokens" else 0):
                raise InputError(
                    field=f"engine.{name}",
                    value=limit,
                    problem="is too small",
                    fix="Raise it, or give None for no limit.",
                )

    @property
    def _times_positions(self) -> str:
        return "" if self.step_positions == 1 else f" times the {self.step_positions} positions each computes"

    def _check_steps(self) -> None:
        if not 1.0 <= self.tokens_per_step <= self.step_positions:
            raise InputError(
                field="engine.tokens_per_step",
                value=self.tokens_per_step,
                problem=f"is not between 1 and the {self.step_positions} positions that a step computes",
                fix="A step brings its own token and those drafted that are accepted: at most what was drafted, and 1.",
            )
        if self.budget_tokens < self.max_sequences * self.step_positions:
            raise InputError(
                field="engine.budget_tokens",
                value=self.budget_tokens,
                problem=f"is below max_sequences = {self.max_sequences}{self._times_positions}, "
                "so not every sequence could decode in a step",
                fix="Raise budget_tokens or lower max_sequences; vLLM refuses this too.",
            )

    @property
    def kv_tokens(self) -> int:
        """The longest prompt plus output, less one, that can ever run here."""
        return self.kv_blocks * self.block_tokens


def _is_power_of_two(number: int) -> bool:
    return number >= 1 and number & (number - 1) == 0
