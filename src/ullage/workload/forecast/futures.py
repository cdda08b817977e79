"""Whole futures, drawn from a forecast and the errors of past ones: what the busiest step of a horizon is read off.

The highest of 720 hours is higher than any single hour is likely to be, and how much higher depends on which errors
last. In a drawn future the level goes from day to day as past errors did, and growth is one draw for all of it. Of its
days one half has the noise of past days, hour by hour, so that what happened may happen again; the other half has drawn
noise of the same variance, so that what has not happened yet may.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from ullage.workload.forecast.error_model import ErrorModel, counted
from ullage.workload.forecast.point_forecasts import Floats

FUTURES = 400
# A past error is enlarged by no more than this where more is expected now than was then: it is added rather than
# multiplied where next to nothing had been expected.
_MOST_ENLARGED = 1.5
# Blocks that are drawn at once, so that years of hours fit in memory.
_TOGETHER = 64


def busiest_blocks(predicted: Floats, errors: ErrorModel, *, rng: Generator, futures: int = FUTURES) -> Floats:
    """The highest step of each block (a column) in each of many futures (a row), in the unit of `predicted`."""
    size, blocks = errors.block_steps, errors.level_variances.size
    counts = np.zeros(blocks * size)
    counts[: predicted.size] = predicted * errors.step_s
    expected = counts.reshape(blocks, size)
    inside = (np.arange(counts.size) < predicted.size).reshape(blocks, size)
    levels = np.exp(_levels(errors, predicted.size, futures, rng))
    found = np.empty((futures, blocks))
    for first in range(0, blocks, _TOGETHER):
        rows = slice(first, first + _TOGETHER)
        mean = levels[:, rows, None] * expected[None, rows]
        steps = _noisy(mean, errors, rng)
        found[:, rows] = np.where(inside[None, rows], steps, 0.0).max(axis=2)
    return found / errors.step_s


def _levels(errors: ErrorModel, steps: int, futures: int, rng: Generator) -> Floats:
    """The logarithm of each future's level, by block."""
    blocks = errors.level_variances.size
    drawn = rng.standard_normal((blocks, futures))
    kept, new = errors.follow_fraction, np.sqrt(1.0 - errors.follow_fraction**2)
    for block in range(1, blocks):
        drawn[block] = kept * drawn[block - 1] + new * drawn[block]
    lasting = rng.standard_normal((errors.season_blocks, futures))[np.arange(blocks) % errors.season_blocks]
    # The highest of several days that were each learnt from few is high by chance already: its error lies rather below.
    chosen = min(blocks, errors.season_blocks)
    drawn = np.sqrt(1.0 - errors.lasting_fraction) * drawn + np.sqrt(errors.lasting_fraction / chosen) * lasting
    # Student: the variance itself is known only as well as so many errors know it.
    scale = np.sqrt(errors.witnesses / rng.chisquare(errors.witnesses, futures))
    growth = errors.growth.deviation_fraction * rng.standard_normal(futures)
    level = (np.sqrt(errors.level_variances)[:, None] * drawn * scale).T
    if errors.unseen_ratio:
        level = level + errors.unseen_ratio * rng.standard_normal((futures, 1))
    found: Floats = (
        level + errors.growth.weekly_fraction * errors.grown_weeks(steps) + np.outer(growth, errors.unseen_weeks(steps))
    )
    return found


def _noisy(mean: Floats, errors: ErrorModel, rng: Generator) -> Floats:
    """Steps around their means: drawn, and for one half of the blocks those of a past block."""
    scores = rng.standard_normal(mean.shape)
    found = counted(mean, errors.noise_variance_ratio, scores, mean_variance=errors.noise_variance_ratio)
    days = errors.day_errors.shape[0]
    if days < 2:
        return found
    which = rng.integers(0, days, mean.shape[:2])
    again = rng.random(mean.shape[:2]) < 0.5
    then, happened = errors.day_forecasts[which[again]], errors.day_errors[which[again]]
    now = mean[again]
    floor = 0.1 * max(float(errors.day_forecasts.max()), 1e-12)
    found[again] = np.maximum(now + happened * np.minimum((now + floor) / (then + floor), _MOST_ENLARGED), 0.0)
    return found
