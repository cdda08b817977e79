"""The guard: what is possible passes, what is not is named with both sides."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.replicas import floor_of, roofline
from ullage.service.steps.physics import prefill_breach, tpot_breach

TIMES = roofline()
FLOOR = floor_of(TIMES)


@given(sequences=st.integers(1, 256), context=st.integers(1, 8192))
def test_nothing_of_ours_breaks_physics(sequences: int, context: int) -> None:
    ours = TIMES.decode_s(np.array([float(sequences)]), np.array([float(sequences * context)]))[0]
    assert tpot_breach(FLOOR, tpot_s=float(ours), sequences=sequences, context_tokens=context) is None


def test_a_token_faster_than_the_weights_can_be_read_is_an_anomaly() -> None:
    breach = tpot_breach(FLOOR, tpot_s=0.001, sequences=1, context_tokens=100)
    assert breach is not None
    assert breach.measured_value < breach.limit_value
    assert "1.00 ms" in breach.sentence
    assert f"{breach.limit_value * 1e3:.2f} ms" in breach.sentence


def test_more_prompt_tokens_than_the_peak_rate_is_an_anomaly() -> None:
    assert prefill_breach(FLOOR, prompt_tokens_per_s=20_000, prompt_tokens=1024) is None
    breach = prefill_breach(FLOOR, prompt_tokens_per_s=200_000, prompt_tokens=1024)
    assert breach is not None
    assert "200,000" in breach.sentence
    assert breach.limit_value < 1e15 / (2 * 7e9) * 1.1
