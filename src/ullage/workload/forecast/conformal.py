"""Bands from past errors: split conformal, in ratios of demand to forecast, by lead.

A forecaster is run from past origins, and observed demand is divided by predicted. The quantiles of these ratios,
times the new forecast, are its bands; nothing is assumed of the errors' distribution. Two caveats.
Ratios of one origin go up and down together, so many hours are few witnesses: `witnesses` counts how many, and the
bands are widened as Student widened them. And leads longer than the history can test are extrapolated and marked so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InputError

Floats = NDArray[np.float64]

# Nine deciles of the band and the tails that plans ask for.
FRACTIONS: Floats = np.array([0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975])
_NORMAL: Floats = np.array([NormalDist().inv_cdf(fraction) for fraction in FRACTIONS.tolist()]).round(12)
_LOW, _CENTRE, _HIGH = (int(np.argmin(np.abs(FRACTIONS - each))) for each in (0.1, 0.5, 0.9))
# Fewer origins than this under a lead, and its band is taken from shorter leads.
_LEAST_ORIGINS = 3
# At so many witnesses or fewer the side on which past forecasts erred is not trusted at all.
_SYMMETRIC_WITNESSES = 3.0
_FEW_WITNESSES = 12.0
# Demand over forecast beyond these says that the forecast was nothing, not that demand was without bound.
_LOWEST, _HIGHEST = 1e-3, 1e3
# No band reaches further than this in logarithms, a factor of ten thousand, and none counts as narrower than 1 %.
_FARTHEST, _LEAST_WIDTH = 9.2, 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastBand:
    """Ratios by lead and fraction: `ratios[h]` holds the quantiles of demand over forecast h + 1 steps ahead."""

    ratios: Floats
    tested_steps: int
    witnesses: float

    def quantiles(self, predicted: Floats) -> Floats:
        return predicted[:, None] * self.ratios[: predicted.size]


def conformal(
    actual: Floats, predicted: Floats, *, apart_steps: int, steps: int, unseen_deviation: float = 0.0
) -> ForecastBand:
    """The band of a forecaster from its past forecasts: rows are origins, columns are leads; NaN is not observed.

    `unseen_deviation` is the deviation, in logarithms, of what the history was too short to show at all; it is
    added in squares.
    """
    logs = np.log(np.clip(actual / np.maximum(predicted, 1e-12), _LOWEST, _HIGHEST))
    edges = _edges(steps)
    middles: list[float] = []
    rows: list[Floats] = []
    seen: list[tuple[int, float]] = []
    for low, high in pairwise(edges):
        pool = logs[:, low:high]
        origins = np.flatnonzero((~np.isnan(pool)).any(axis=1))
        if origins.size < _LEAST_ORIGINS:
            continue
        count = witnesses(pool, apart_steps=apart_steps, lead=high)
        middles.append(0.5 * (low + high))
        row = _joined(_widened(pool[~np.isnan(pool)], count), unseen_deviation)
        if rows and count < _FEW_WITNESSES:
            row = _no_wider(row, rows[-1], math.sqrt(middles[-1] / middles[-2]))
        rows.append(row)
        seen.append((high, count))
    if not rows:
        raise InputError(
            field="history",
            value=f"{int((~np.isnan(actual)).sum())} outcomes",
            problem="has too few observed steps to test a forecast on",
            fix="Give a longer trace, or one with fewer holes.",
        )
    return ForecastBand(
        ratios=_by_lead(np.array(middles), np.array(rows), steps), tested_steps=seen[-1][0], witnesses=seen[-1][1]
    )


def paths(actual: Floats, predicted: Floats, band: ForecastBand, *, futures: int, rng: Generator) -> Floats:
    """Ratios of demand to forecast for whole futures: past runs of errors, pieced together and fitted to the band.

    Each past origin's errors are put in relation to the width of their lead's pool, which keeps how errors follow each
    other and how far they reach; runs of origins drawn at random are strung together up to the horizon, and the
    band's own middle and width at each lead turn them back into ratios.
    """
    logs = np.log(np.clip(actual / np.maximum(predicted, 1e-12), _LOWEST, _HIGHEST))
    steps = band.ratios.shape[0]
    for low, high in pairwise(_edges(steps)):
        logs[:, low:high] = _standardised(logs[:, low:high])
    runs = [row[: int(np.flatnonzero(~np.isnan(row))[-1]) + 1] for row in logs if not np.isnan(row).all()]
    runs = [np.where(np.isnan(run), 0.0, run) for run in runs]
    drawn = np.empty((futures, steps))
    for row in drawn:
        filled = 0
        while filled < steps:
            run = runs[int(rng.integers(len(runs)))]
            taken = run[: steps - filled]
            row[filled : filled + taken.size] = taken
            filled += taken.size
    wide = np.log(band.ratios[:, _HIGH] / band.ratios[:, _LOW])
    found: Floats = np.exp(np.clip(np.log(band.ratios[:, _CENTRE]) + drawn * wide, -_FARTHEST, _FARTHEST))
    return found


def _standardised(pool: Floats) -> Floats:
    known = ~np.isnan(pool)
    if not known.any():
        return pool
    low, middle, high = np.quantile(pool[known], FRACTIONS[[_LOW, _CENTRE, _HIGH]])
    standard: Floats = (pool - middle) / max(float(high - low), _LEAST_WIDTH)
    return standard


def witnesses(pool: Floats, *, apart_steps: int, lead: int) -> float:
    """How many independent errors the pool is worth: 1 / (shared / origins that do not overlap + rest / all)."""
    known = ~np.isnan(pool)
    values = pool[known]
    if values.size < 2 or float(values.var()) <= 0.0:
        return float(values.size)
    rows = np.flatnonzero(known.any(axis=1))
    means = np.array([pool[row][known[row]].mean() for row in rows])
    within = float(values.var())
    shared = min(1.0, float(means.var()) / within)
    apart = 1.0 + (rows[-1] - rows[0]) * apart_steps / max(lead, apart_steps)
    return float(1.0 / (shared / apart + (1.0 - shared) / values.size))


def _widened(values: Floats, count: float) -> Floats:
    """Quantiles of the logarithms, moved away from their middle by Student's factor for so many witnesses.

    A few witnesses that all erred to one side say how large errors are, not on which side the next will be: the fewer
    they are, the more their errors count as if they could have had either sign.
    """
    symmetric = min(1.0, _SYMMETRIC_WITNESSES / count)
    plain = (1.0 - symmetric) * np.quantile(values, FRACTIONS) + symmetric * np.quantile(
        np.concatenate([values, -values]), FRACTIONS
    )
    freedom = max(count - 1.0, 1.5)
    factor = np.array([_student(z, freedom) for z in _NORMAL.tolist()]) * math.sqrt(1.0 + 1.0 / max(count, 1.0))
    widened: Floats = plain[_CENTRE] + (plain - plain[_CENTRE]) * factor
    return widened


def _no_wider(row: Floats, before: Floats, growth: float) -> Floats:
    """Few witnesses widen a band without end; no error grows faster with the lead than a random walk does."""
    away, most = row - row[_CENTRE], (before - before[_CENTRE]) * growth
    bounded: Floats = row[_CENTRE] + np.sign(away) * np.minimum(np.abs(away), np.abs(most))
    return bounded


def _joined(logs: Floats, deviation: float) -> Floats:
    away = logs - logs[_CENTRE]
    joined: Floats = logs[_CENTRE] + np.sign(_NORMAL) * np.hypot(away, deviation * _NORMAL)
    return joined


def _student(z: float, freedom: float) -> float:
    """Student's quantile over the normal one (Cornish and Fisher's expansion, good to 1 % from three degrees on)."""
    if z == 0.0:
        return 1.0
    first = (z**3 + z) / (4.0 * freedom)
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * freedom**2)
    return (z + first + second) / z


def _edges(steps: int) -> list[int]:
    """Pools of leads: each about half as long again as the one before, so that few origins still fill them."""
    edges = [0]
    while edges[-1] < steps:
        edges.append(min(steps, max(edges[-1] + 1, math.ceil(edges[-1] * 1.5))))
    return edges


def _by_lead(middles: Floats, logs: Floats, steps: int) -> Floats:
    """Straight between the pools' middles in the logarithm of the lead; beyond the last, wider with its square root."""
    lead = np.arange(steps) + 0.5
    between = np.stack([np.interp(np.log(lead), np.log(middles), column) for column in logs.T], axis=1)
    beyond = np.sqrt(np.maximum(lead / middles[-1], 1.0))[:, None]
    centre = between[:, _CENTRE : _CENTRE + 1]
    found: Floats = np.exp(np.clip(centre + (between - centre) * beyond, -_FARTHEST, _FARTHEST))
    return found
