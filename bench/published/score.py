"""Errors as the tables print them: MAPE, median absolute error and signed bias of simulated against measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from bench.published.fit import Floats


@dataclass(frozen=True, kw_only=True)
class Score:
    rows: int
    mape: float
    median: float
    bias: float

    def __str__(self) -> str:
        return f"{100 * self.mape:.1f} / {100 * self.median:.1f} ({100 * self.bias:+.0f})"


def score(log_errors: Floats) -> Score:
    """`log_errors` are log(simulated / measured); the bias is the median of the signed error."""
    errors = np.expm1(log_errors)
    return Score(
        rows=errors.size,
        mape=float(np.mean(np.abs(errors))),
        median=float(np.median(np.abs(errors))),
        bias=float(np.median(errors)),
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
