"""Estimates of rows that the fit had not seen, and the bands that their errors make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from bench.published.cases import Case
from bench.published.fit import Floats, Linearised, Simulated, solve
from numpy.typing import NDArray

FAMILY = "family"
# Two vendors are too few to tell how different a third is. Generations of one vendor share compilers, libraries and
# habits. AMD's devices, predicted from NVIDIA's alone, erred about three times as far as one of NVIDIA's generations
# predicted from the other in TPOT, and no further in TTFT: one case, and the only one. By TTFT and TPOT.
VENDOR_SPREAD = np.array([1.0, 3.0])


def held_out(simulated: Simulated, linear: Linearised, attribute: str) -> Floats:
    """Log latencies of every case, simulated with coefficients fitted to the others."""
    members = np.array([str(getattr(case, attribute)) for case in linear.cases])
    found: Floats = np.zeros_like(linear.base)
    for member in sorted(set(members)):
        out = members == member
        solution = solve(linear, ~out)
        logs = [solution.logs(case) for case in simulated.cases]
        found[out] = simulated.logs(logs, np.flatnonzero(out).tolist())
    return found


def is_vendor_known(cases: Sequence[Case], attribute: str) -> NDArray[np.bool_]:
    """Whether a case's vendor is still known with its family (or generation, ...) left out: else it is new with it."""
    others: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        others[case.vendor].add(str(getattr(case, attribute)))
    return np.array([len(others[case.vendor]) > 1 for case in cases])


def band_logs(errors: Floats, *, families: int | None = None) -> Floats:
    """The 10th and the 90th percentile of errors.

    A family that is new is one more draw beside those known: the errors of n of them spread sqrt(1 + 1 / n) times as
    far around the next one as among themselves.
    """
    low, middle, high = np.percentile(errors, (10, 50, 90), axis=0)
    stretch = 1.0 if families is None else np.sqrt(1.0 + 1.0 / families)
    return np.array([middle + stretch * (low - middle), middle + stretch * (high - middle)])
