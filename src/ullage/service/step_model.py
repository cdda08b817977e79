"""The step model: how long one engine iteration takes."""

from __future__ import annotations

from ullage.errors import NotBuilt


def step_model(*given: object) -> NotBuilt:
    """This version has no such stage and says so; `given` is what the stage will work from."""
    return NotBuilt(
        stage="step model", gives="the time of one engine step from decode sequences, KV tokens and prefill tokens"
    )
