"""The physics guard: a measurement above what the device can do is an anomaly that names both sides.

What is checked are rates that no schedule can beat: tokens decoded per second, with every sequence of the batch on the
device at once and its context as short as the test allows; and prompt tokens computed per second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ullage.service.steps.floor import Floor

# Clocks, token counts and data sheets are each good to a few percent; within that a breach is not one.
TOLERANCE_FRACTION = 0.03


@dataclass(frozen=True, kw_only=True)
class Breach:
    """A measured time below the floor, or a rate above it."""

    what: str
    measured_value: float
    limit_value: float
    unit: str
    sentence: str


def tpot_breach(floor: Floor, *, tpot_s: float, sequences: float, context_tokens: float) -> Breach | None:
    """A time per token below the least time of a step that holds this many sequences of this context."""
    held = max(sequences, 1.0)
    least_s = float(floor.decode_s(np.array([held]), np.array([held * max(context_tokens, 1.0)]))[0])
    if tpot_s >= least_s * (1 - TOLERANCE_FRACTION):
        return None
    return Breach(
        what="tpot",
        measured_value=tpot_s,
        limit_value=least_s,
        unit="s",
        sentence=(
            f"TPOT of {tpot_s * 1e3:.2f} ms with {sequences:g} sequences at once is below the "
            f"{least_s * 1e3:.2f} ms in which the device can read weights and KV cache at its peak bandwidth: "
            f"speculative decoding, another precision, or another device than stated"
        ),
    )


def prefill_breach(floor: Floor, *, prompt_tokens_per_s: float, prompt_tokens: int) -> Breach | None:
    """More prompt tokens a second than the device's peak rate computes."""
    tokens = np.array([float(prompt_tokens)])
    pairs = prompt_tokens * (prompt_tokens + 1) / 2
    least_s = floor.step_s(0.0, 0.0, float(tokens[0]), pairs)
    limit = prompt_tokens / least_s
    if prompt_tokens_per_s <= limit * (1 + TOLERANCE_FRACTION):
        return None
    return Breach(
        what="prefill",
        measured_value=prompt_tokens_per_s,
        limit_value=limit,
        unit="tokens/s",
        sentence=(
            f"{prompt_tokens_per_s:,.0f} prompt tokens a second are above the {limit:,.0f} that the replica computes "
            f"at its peak rate: prefix-cache hits that are not counted, or another device than stated"
        ),
    )
