"""The range that load tests covered: so many sequences at once, so many KV tokens, prompts so long.

A fit is right where it was fitted. Beyond that the model's shape carries it, and a plan that goes there says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ullage.service.calibration.calibration import Measurement
from ullage.service.calibration.replay import LoadTestReplay, RequestTimes, replay
from ullage.service.steps.step_model import MeasuredRange


def range_tested(times: RequestTimes, measurements: Sequence[Measurement]) -> MeasuredRange:
    """What the tests reached on average at their highest loads, by the model that was fitted to them.

    Little's law gives the sequences of an open loop, the time that all requests spent over that of the test; a closed
    loop keeps as many under way as it has clients.
    """
    loads = [load_of(times, each.trial) for each in measurements]
    sequences, held, longest = (max((1.0, *each)) for each in zip(*loads, strict=True)) if loads else (1.0, 1.0, 1.0)
    return MeasuredRange(sequences=math.ceil(sequences), kv_tokens=math.ceil(held), prefill_tokens=math.ceil(longest))


def load_of(times: RequestTimes, trial: LoadTestReplay) -> tuple[float, float, float]:
    """The sequences and KV tokens that a test keeps under way on average, and its long prompts as they are computed."""
    running = float(trial.clients) if trial.clients is not None else _little(times, trial)
    running /= 1 if trial.apart is None else trial.apart.decode_replicas
    running = min(running, float(trial.limits.max_sequences))
    # A sequence holds its prompt throughout and half of its answer on average.
    context = float(np.mean(trial.prompt_tokens) + np.mean(trial.output_tokens) / 2)
    computes = trial.limits if trial.apart is None else trial.apart.prefill_limits
    longest = float(min(np.percentile(trial.prompt_tokens, 95), computes.budget_tokens))
    return running, min(running * context, float(trial.limits.kv_tokens)), longest


def _little(times: RequestTimes, trial: LoadTestReplay) -> float:
    seen = replay(times, trial)
    return float(np.sum(seen.e2e_s)) / max(seen.duration_s, 1e-9)


def range_of(document: Any) -> MeasuredRange | None:
    """The range that a document states; None where it states none, as documents of earlier versions do."""
    names = ("sequences", "kv_tokens", "prefill_tokens")
    if not isinstance(document, Mapping) or not all(isinstance(document.get(name), int) for name in names):
        return None
    return MeasuredRange(**{name: int(document[name]) for name in names})
