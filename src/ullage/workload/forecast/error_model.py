"""How far demand may lie from its forecast: the errors of past forecasts, told apart by how long they last.

    demand = forecast x exp(level(day)) x noise(hour), and requests that are counted one by one

The level's variance is that of past days' errors, by how many days ahead they were. The noise's is what is left within
a day beyond the chance of counting: (x - p)^2 - p, over p^2. Where little or nothing was expected, chance is nearly all
there is and errors are added, not multiplied; so a forecast of next to nothing, which is easily off by a factor of a
thousand, says nothing about the busiest hour. Both variances start from what is assumed of any service and give way to
what was seen as evidence adds up, which keeps a band of few past errors, or of none, within reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ullage.workload.forecast.point_forecasts import DAY_S, DampedGrowth, Floats, damped_weeks

# Nine deciles of the band and the tails that plans ask for.
FRACTIONS: Floats = np.array([0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975])
_NORMAL: Floats = np.array([NormalDist().inv_cdf(fraction) for fraction in FRACTIONS.tolist()]).round(12)
_MIDDLE = int(np.argmin(np.abs(FRACTIONS - 0.5)))
# The level of a day, against its forecast, before any error was seen: a tenth, worth this many errors.
LEVEL_DEVIATION, _LEVEL_WITNESSES = 0.065, 6.0
# So many tests of a lead show half of what growth does to it.
_SHOWN_WITNESSES = 3.0
# How much of a day's error is left on the next day, before any was seen, and how many pairs of days that is worth.
_FOLLOW, _FOLLOW_PAIRS = 0.6, 5.0
# Errors of days are taken against this share of a mean day, as well as against the day's own forecast.
_FLOOR_SHARE = 0.05
# The band is fitted to its tenth and nine tenths, and no further than by this factor.
_HELD_SCORE, _WIDEST = (0.9, NormalDist().inv_cdf(0.9)), 1.5
# A band that was never tested is so much wider.
_UNTESTED = 1.5
# In the noise, one error counts for no more than so many deviations: a spike is kept as a past day, not as a variance.
_FARTHEST_DEVIATIONS = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PastErrors:
    """Past forecasts against what was observed: rows are origins, columns are leads, in requests a step.

    NaN is not observed. Origins lie `apart_steps` apart; a block is a day, or less where less was seen.
    """

    observed: Floats
    predicted: Floats
    apart_steps: int
    block_steps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorModel:
    """The variances of a forecaster's errors, of logarithms: `level_variances` by block ahead, and a step's within it.

    `lasting_fraction` of the level's variance comes back with the same block of every season (its factor was learnt
    from so few), `follow_fraction` of the rest is left in the next block. The variances rest on so many `witnesses`.
    `unseen_ratio` is the deviation of what was not seen at all, days of the week, and is one for a whole future.
    `growth` is applied beyond `shown_steps`: up to there its error is among those that were seen, as far as so few
    tests of the longest lead, `tested_steps`, show it. `day_errors` and `day_forecasts` are the noise of whole past
    blocks, in requests, and what had been forecast for them. `band_ratio` widens the band of single steps until it
    holds as many past outcomes as it should: variances are those of busy steps, which decide a plan, while a band is to
    hold for quiet ones too.
    """

    block_steps: int
    step_s: float
    level_variances: Floats
    unseen_ratio: float
    noise_variance_ratio: float
    season_blocks: int
    lasting_fraction: float
    follow_fraction: float
    witnesses: float
    growth: DampedGrowth
    tested_steps: int
    shown_steps: float
    day_errors: Floats
    day_forecasts: Floats
    band_ratio: float = 1.0

    def grown_weeks(self, steps: int) -> Floats:
        """Damped weeks of growth that no past error has seen, by block ahead."""
        shown_s, ends_s = self._leads_s(steps)
        found: Floats = damped_weeks(ends_s) - damped_weeks(np.array([shown_s]))
        return found

    def unseen_weeks(self, steps: int) -> Floats:
        """Weeks ahead, beyond what past errors have seen, over which growth may be another: it need not be damped."""
        shown_s, ends_s = self._leads_s(steps)
        found: Floats = (ends_s - shown_s) / (7.0 * DAY_S)
        return found

    def _leads_s(self, steps: int) -> tuple[float, Floats]:
        shown_s = self.shown_steps * self.step_s
        ends = np.minimum(np.arange(1, self.level_variances.size + 1) * self.block_steps, steps)
        return shown_s, np.maximum(ends * self.step_s, shown_s)

    def band(self, predicted: Floats) -> Floats:
        """Quantiles of each step ahead, columns by `FRACTIONS`."""
        block = np.arange(predicted.size) // self.block_steps
        other_variance = np.square(self.growth.deviation_fraction * self.unseen_weeks(predicted.size))
        other_variance = other_variance + self.unseen_ratio**2
        grown = np.exp(self.growth.weekly_fraction * self.grown_weeks(predicted.size))
        return self.quantiles(predicted * self.step_s * grown[block], block, other_variance[block]) / self.step_s

    def quantiles(self, counts: Floats, block: NDArray[np.int64], other_variance: Floats | float = 0.0) -> Floats:
        """Of the requests of steps so many blocks ahead, in which so many are expected."""
        by_chance = 1.0 / np.maximum(counts, 1e-3)
        tested = self.band_ratio**2 * (self.level_variances[block] + self.noise_variance_ratio + by_chance) - by_chance
        scores = _NORMAL * np.array([student_ratio(score, self.witnesses) for score in _NORMAL.tolist()])
        found = counted(
            counts[..., None],
            np.maximum(tested + other_variance, 0.0)[..., None],
            scores,
            mean_variance=self.noise_variance_ratio,
        )
        return np.maximum.accumulate(found, axis=-1)


def counted(means: Floats, variance: Floats | float, scores: Floats, *, mean_variance: float) -> Floats:
    """Requests at normal scores, where so many are expected, at a rate whose logarithm has this variance.

    Of that variance `mean_variance` is around the expected rate as a mean, the rest around it as a middle.

    The rate is lognormal and the count around it gamma, a Poisson count made continuous; both go up together on the
    likeliest way to a score, each by its share of the variance.
    """
    by_chance = 1.0 / np.maximum(means, 1e-3)
    total = np.sqrt(variance + by_chance)
    rate = np.exp(scores * (variance / total) - 0.5 * mean_variance)
    found: Floats = means * rate * gamma_ratio(by_chance, scores * (np.sqrt(by_chance) / total))
    return found


def gamma_ratio(variance: Floats, scores: Floats) -> Floats:
    """A gamma variable of mean one and this variance at normal scores: Wilson and Hilferty's cube."""
    root = np.maximum(1.0 - variance / 9.0 + scores * (np.sqrt(variance) / 3.0), 0.0)
    found: Floats = root * root * root
    return found


def student_ratio(z: float, freedom: float) -> float:
    """Student's quantile over the normal one (Cornish and Fisher's expansion, good to 1 % from six degrees on)."""
    if z == 0.0:
        return 1.0
    first = (z**3 + z) / (4.0 * freedom)
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * freedom**2)
    return (z + first + second) / z


def error_model(
    past: PastErrors,
    fitted: PastErrors,
    *,
    step_s: float,
    steps: int,
    growth: DampedGrowth,
    seasons: float,
    season_blocks: int,
    unseen_deviation: float = 0.0,
) -> ErrorModel:
    """The variances of a forecaster from its past errors.

    `fitted` is the history against the season and levels fitted to it, one block a row: it shows the noise within a day
    where no forecast could be tested. `unseen_deviation` is what the history was too short to show at all.
    """
    tested = _Blocks.of(past)
    within = tested if tested.known.any() and past.block_steps > 1 else _Blocks.of(fitted)
    noise = within.noise_variance()
    blocks = -(-steps // past.block_steps)
    variances, witnesses, last_witnesses, tested_blocks = _by_lead(
        tested, past, noise, blocks, LEVEL_DEVIATION**2 * (1.0 + 1.0 / seasons)
    )
    days, forecasts = _past_days(within, tested, past, fitted)
    found = ErrorModel(
        block_steps=past.block_steps,
        step_s=step_s,
        level_variances=variances,
        unseen_ratio=unseen_deviation,
        noise_variance_ratio=noise,
        season_blocks=season_blocks,
        # The mean of n looks is off by 1/n of what one look is, and a look's own error comes on top.
        lasting_fraction=1.0 / (1.0 + seasons),
        follow_fraction=tested.follow(),
        witnesses=_LEVEL_WITNESSES + witnesses,
        growth=growth,
        tested_steps=min(steps, tested_blocks * past.block_steps),
        shown_steps=tested_blocks * past.block_steps * last_witnesses / (last_witnesses + _SHOWN_WITNESSES),
        day_errors=days,
        day_forecasts=forecasts,
    )
    return replace(found, band_ratio=_band_ratio(found, past))


def _band_ratio(errors: ErrorModel, past: PastErrors) -> float:
    """What the middle 80 % of past errors are wider than the band's, as far as there are enough of them."""
    known = ~np.isnan(past.observed) & (past.predicted >= 1.0)
    if not known.any():
        return _UNTESTED
    block = np.broadcast_to(np.arange(past.observed.shape[1]) // past.block_steps, past.observed.shape)[known]
    came, expected = past.observed[known], past.predicted[known]
    deviation = np.sqrt(errors.level_variances[block] + errors.noise_variance_ratio + 1.0 / expected)
    away = np.abs(np.log((came + 0.5) / (expected + 0.5))) / deviation
    ratio = float(np.quantile(away, 1.0 - 2.0 * (1.0 - _HELD_SCORE[0]))) / _HELD_SCORE[1]
    seen = errors.witnesses - _LEVEL_WITNESSES
    trust = seen / (seen + _LEVEL_WITNESSES)
    return float(min(_WIDEST, max(1.0 / _WIDEST, ratio)) ** trust * _UNTESTED ** ((1.0 - trust) ** 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Blocks:
    """Errors by origin, block ahead and step of the block: the block's own error `logs`, and the steps around it."""

    seen: NDArray[np.bool_]
    observed: Floats
    around: Floats
    known: NDArray[np.bool_]
    logs: Floats
    weights: Floats
    chance: Floats

    @classmethod
    def of(cls, errors: PastErrors) -> _Blocks:
        origins, leads = errors.observed.shape
        blocks = -(-leads // errors.block_steps)
        size = (origins, blocks * errors.block_steps)
        observed, predicted = np.full(size, np.nan), np.zeros(size)
        observed[:, :leads], predicted[:, :leads] = errors.observed, errors.predicted
        shape = (origins, blocks, errors.block_steps)
        seen = ~np.isnan(observed).reshape(shape)
        observed = np.where(seen, observed.reshape(shape), 0.0)
        predicted = np.where(seen, predicted.reshape(shape), 0.0)
        came, expected = observed.sum(axis=2), predicted.sum(axis=2)
        known = (seen.mean(axis=2) >= 0.5) & (came + expected > 0.0)
        floor = 0.5 + _FLOOR_SHARE * (float(came[known].mean()) if known.any() else 0.0)
        around = predicted * (came / np.maximum(expected, 1e-12))[:, :, None]
        own = np.square(around).sum(axis=2) / np.square(np.maximum(came, 0.5))
        return cls(
            seen=seen,
            observed=observed,
            around=around,
            known=known,
            logs=np.where(known, np.log((came + floor) / (expected + floor)), 0.0),
            weights=np.where(known, 0.5 * (came + expected), 0.0),
            chance=np.stack([1.0 / np.maximum(expected, 0.5), own]),
        )

    def noise_variance(self) -> float:
        """The variance of a step's logarithm within its block, beyond the chance of counting."""
        steps = self.seen.shape[2]
        if not self.known.any() or steps < 2:
            return 0.0
        mean = self.around[self.known]
        squares = np.square(self.observed[self.known] - mean) * (steps / (steps - 1.0))
        under = max(float(np.square(mean).sum()), 1e-12)
        found = max(0.0, float((squares - mean).sum()) / under)
        for _ in range(2):
            most = _FARTHEST_DEVIATIONS**2 * (mean + found * np.square(mean))
            found = max(0.0, float((np.minimum(squares, most) - mean).sum()) / under)
        return math.log1p(found)

    def variance(self, low: int, high: int, noise: float) -> float:
        """Of the level of the blocks from `low` to `high` ahead."""
        weights = self.weights[:, low:high]
        by_chance = self.chance[0, :, low:high] + noise * self.chance[1, :, low:high]
        excess = np.square(self.logs[:, low:high]) - by_chance
        return max(0.0, float((weights * excess).sum()) / max(float(weights.sum()), 1e-12))

    def follow(self) -> float:
        """The correlation of a block's error with the next one's."""
        both = self.known[:, 1:] & self.known[:, :-1]
        here, after = self.logs[:, :-1][both], self.logs[:, 1:][both]
        under = 0.5 * float(here @ here + after @ after)
        # Origins overlap: what they share is counted once, a pair for each block ahead.
        pairs = float(both.any(axis=0).sum() + both.any(axis=1).sum()) if both.size else 0.0
        own = float(here @ after) / under if under > 0.0 else _FOLLOW
        return min(0.95, max(0.0, (pairs * own + _FOLLOW_PAIRS * _FOLLOW) / (pairs + _FOLLOW_PAIRS)))

    def days(self, blocks: int) -> tuple[Floats, Floats]:
        """Whole blocks of noise, each past one about once: the first ones ahead of each origin."""
        whole = (self.known & self.seen.all(axis=2))[:, :blocks]
        mean = self.around[:, :blocks][whole]
        return self.observed[:, :blocks][whole] - mean, mean


def _past_days(within: _Blocks, tested: _Blocks, past: PastErrors, fitted: PastErrors) -> tuple[Floats, Floats]:
    """The noise of every past block, in requests, and what was expected: forecast, or fitted before there was one."""
    apart = max(1, past.apart_steps // past.block_steps)
    errors, expected = within.days(apart)
    if within is not tested:
        return errors, expected
    earlier = max(0, fitted.observed.shape[0] - tested.known.shape[0] * apart)
    before = replace(fitted, observed=fitted.observed[:earlier], predicted=fitted.predicted[:earlier])
    first_errors, first_expected = _Blocks.of(before).days(1)
    return np.concatenate([first_errors, errors]), np.concatenate([first_expected, expected])


def _by_lead(
    tested: _Blocks, past: PastErrors, noise: float, blocks: int, assumed: float
) -> tuple[Floats, float, float, int]:
    """The level's variance by block ahead, rising as far as the past shows it; the errors that the first and the last
    tested block rest on; the blocks that were tested."""
    pools: list[tuple[float, float, int]] = []
    usual = max(float(tested.weights[tested.known].mean()), 1e-12) if tested.known.any() else 1.0
    for low, high in pairwise(_edges(min(blocks, tested.known.shape[1]))):
        rows = np.flatnonzero(tested.known[:, low:high].any(axis=1))
        if rows.size == 0:
            continue
        span_steps = float(rows[-1] - rows[0]) * past.apart_steps
        witnesses = min(1.0 + span_steps / max(high * past.block_steps, past.apart_steps), float(rows.size))
        # Where only quiet days lie so far ahead, their errors say little of busy ones.
        busy = min(1.0, float(tested.weights[:, low:high][tested.known[:, low:high]].mean()) / usual)
        pools.append((tested.variance(low, high, noise), witnesses * busy, high))
    variances = np.full(blocks, assumed)
    start = 0
    for value, (_, witnesses, high) in zip(_never_falling(pools), pools, strict=True):
        # Each lead starts from what is known of the one before, the first from what is assumed of any service.
        assumed = (_LEVEL_WITNESSES * assumed + witnesses * value) / (_LEVEL_WITNESSES + witnesses)
        variances[start:] = assumed
        start = high
    if not pools:
        return variances, 0.0, 0.0, 0
    return variances, pools[0][1], pools[-1][1], pools[-1][2]


def _never_falling(pools: list[tuple[float, float, int]]) -> list[float]:
    """The nearest sequence that never falls: neighbours that do are given their weighted mean."""
    groups: list[list[float]] = []
    for value, weight, _ in pools:
        groups.append([value, weight, 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            last = groups.pop()
            total = groups[-1][1] + last[1]
            groups[-1] = [(groups[-1][0] * groups[-1][1] + last[0] * last[1]) / total, total, groups[-1][2] + last[2]]
    return [value for value, _, count in groups for _ in range(int(count))]


def _edges(blocks: int) -> list[int]:
    """Pools of leads: each about half as long again as the one before, so that few origins still fill them."""
    edges = [0]
    while edges[-1] < blocks:
        edges.append(min(blocks, max(edges[-1] + 1, math.ceil(edges[-1] * 1.5))))
    return edges
