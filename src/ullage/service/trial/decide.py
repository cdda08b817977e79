"""Whether a pool meets its SLOs at a load: met, violated, or undecided after so many windows.

The question is the share of requests over all windows of this load: an SLO on the 95th percentile is met where at
most one request in twenty misses its limit, and an error budget where no more are lost than it allows. Windows are
simulated stratum by stratum (strata.py) until every such share is decided: its distance from what is allowed is more
than DECIDED_ERRORS standard errors. A backlog that grows is a violation of its own.

The standard error of a share p over strata of weights W, n windows each and K candidates in all, with residuals
r = missed - p sent, is

    sqrt(sum W^2 var(r) / n  +  var(mean of r by stratum) / K) / mean of sent

A stratum in which no window has been hurt yet says little about how rare that is; next to one in which some were, it
is taken to hide half a window that is hurt as badly.

Of many replicas a window's rates predict most of what it misses (strata.py). With x a window's surge less the mean of
the mix, and b the slope of r over x, the sum of r - b x takes the place of that of r: an estimate by regression,
in which it no longer matters whether the windows so far were heavier than most. Of several surges, and none, each
share takes the one that leaves the smallest error.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ullage.service.trial.quantile import CONFIDENCE_FRACTION, half_widths, pooled_quantiles
from ullage.service.trial.stability import Instability, instability
from ullage.service.trial.strata import Strata, allocated, strata_of
from ullage.service.trial.trial import Trial
from ullage.service.trial.window import Probe, Window, criterion, error_budget, window
from ullage.simulate.statistics import Interval, t_quantile
from ullage.workload.classes import Metric, RequestClass

STABILITY = "stability"
# So many standard errors between a share and what is allowed leave one seed in a hundred on the other side.
DECIDED_ERRORS = 2.33
# An error that few windows tell is itself uncertain: before the first windows are all there, Student's t for half as
# rare a mistake takes the place of the normal's, with as many degrees of freedom as windows beyond one a stratum.
_EARLY_FRACTION = 0.995
_EARLY_LOOKS = (0.4, 0.65)
# An excess is measured up to twenty times what is allowed, or down to a twentieth: beyond that it is meaningless.
MOST_EXCESS = 3.0
# What is undecided counts as violated, by so little.
_UNSURE = 1e-6
# From so many windows on an error is known well enough to forecast how many a decision takes; many times the budget
# is hopeless.
_HOPELESS_WINDOWS, _HOPELESS_RATIO = 48, 4.0
# Where so small a part of a replica would turn the answer, and at most so much of what is allowed, a pool stands on the
# edge: the windows that would tell on which side cost more than knowing it is worth.
_EDGE_PART, _MOST_EDGE = 0.25, 1 / 15
# What is missed grows about so many times as fast as the load does.
STEEPNESS = 8.0
# A window is hurt where it misses twice as much as most, and a hundredth at least.
_HURT_RATIO, _HURT_FRACTION = 2.0, 0.01

# Windows of fewer requests are mostly spent outside the kernel, and threads would wait for each other's interpreter.
_SPREAD_REQUESTS = 16_000.0
# Few windows err by at most so many times, or the difference is not noise.
_MOST_LUCK = 3.0
# So many replicas stand for a pool of more than twice as many where loads are compared.
_PART_REPLICAS = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much simulation one decision may cost: windows, and requests in them, whichever ends first."""

    most_windows: int = 256
    most_requests: float = 9e6
    growth_ratio: float = 1.6
    first_fraction: float = 1.0

    def first_windows(self, strata: Strata, part: float = 1.0) -> tuple[int, ...]:
        """Windows of every stratum before anything is judged; two of each, or one of the lightest, at least.

        A `part` of them is enough for what is clear at once.
        """
        return tuple(
            max(2 if weight < 0.2 else 1, round(part * self.first_fraction * count))
            for weight, count in zip(strata.weights, strata.first_windows, strict=True)
        )

    def windows(self, requests_per_window: float, least: int) -> int:
        return max(least, min(self.most_windows, int(self.most_requests / max(requests_per_window, 1.0))))


FULL = Effort()
# A figure that decides no purchase takes fewer windows, and one that only guides the search fewer still.
BRIEF = Effort(most_windows=32, most_requests=2e6)
SCOUT = Effort(most_windows=12, most_requests=1e6, first_fraction=0.4)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One SLO, error budget or the backlog at a load: the share that missed it, its standard error, what is allowed.

    The part of the error that is `common` is the same at other loads: it lies in what their windows are compared with.
    """

    name: str
    missed_fraction: float
    error_fraction: float
    allowed_fraction: float
    common_fraction: float = 0.0

    @property
    def distance(self) -> float:
        """Standard errors between what is allowed and what was found: positive where it is met."""
        room = self.allowed_fraction - self.missed_fraction
        return room / self.error_fraction if self.error_fraction > 0.0 else math.copysign(math.inf, room)

    @property
    def is_met(self) -> bool:
        return self.missed_fraction <= self.allowed_fraction

    @property
    def use_fraction(self) -> float:
        """The share of what is allowed that is used."""
        return self.missed_fraction / self.allowed_fraction

    @property
    def sure_use_fraction(self) -> float:
        """The same where as much more is missed as the error leaves open."""
        return (self.missed_fraction + DECIDED_ERRORS * self.error_fraction) / self.allowed_fraction


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Windows of one load by stratum, and the weights of the strata."""

    weights: tuple[float, ...]
    windows: tuple[tuple[Window, ...], ...]
    candidates: int
    surges: tuple[Floats, ...] = field(default=(), compare=False)
    reference_windows: int = 0

    @property
    def count(self) -> int:
        return sum(len(each) for each in self.windows)

    @property
    def each(self) -> tuple[Window, ...]:
        return tuple(one for part in self.windows for one in part)

    @property
    def each_weight(self) -> Floats:
        """The weight of every window; they sum to 1."""
        return np.concatenate(
            [np.full(len(part), weight / len(part)) for weight, part in zip(self.weights, self.windows, strict=True)]
        )

    def first(self, counts: Sequence[int]) -> Sample | None:
        """The first so many windows of every stratum; None where there are fewer."""
        if len(counts) != len(self.windows) or any(len(a) < b for a, b in zip(self.windows, counts, strict=True)):
            return None
        return replace(
            self,
            windows=tuple(part[:count] for part, count in zip(self.windows, counts, strict=True)),
            surges=tuple(part[:, :count] for part, count in zip(self.surges, counts, strict=False)),
        )

    def mean(self, read: Callable[[Window], float]) -> Interval:
        """The mean over all windows of the load, with an interval that covers what another seed would find."""
        parts = [np.array([read(one) for one in part], np.float64) for part in self.windows]
        value = float(sum(weight * part.mean() for weight, part in zip(self.weights, parts, strict=True)))
        residuals = [(part - value)[None, :] for part in parts]
        half = float(half_widths(residuals, self.weights, candidates=self.candidates)[0])
        return Interval(value=value, low=value - half, high=value + half, confidence_fraction=CONFIDENCE_FRACTION)

    def judged(self, criteria: Mapping[str, float]) -> tuple[Judged, ...]:
        """The share of requests that missed each SLO or error budget, over all windows of the load.

        Criteria are what is allowed, by name. All are evaluated together: a pool of many classes has hundreds.
        """
        missed, sent = self._counts(list(criteria))
        total = self._sum(sent)
        share = np.divide(self._sum(missed), total, out=np.zeros_like(total), where=total > 0.0)
        residuals = [one - share[:, None] * other for one, other in zip(missed, sent, strict=True)]
        error, common = self._error(residuals, self._hidden(missed, sent, residuals))
        moved = np.zeros_like(share)
        if self.surges and min(len(part) for part in self.windows) < 2:
            # One window of a stratum tells nothing of how much its windows differ.
            error = np.full_like(share, math.inf)
        for surge in zip(*self.surges, strict=True):
            by, rest = self._predicted(residuals, surge)
            smaller, shared = self._error(rest, self._hidden(missed, sent, rest), residuals)
            is_told = smaller < error
            moved, common = np.where(is_told, by, moved), np.where(is_told, shared, common)
            error = np.minimum(smaller, error)
        error, common, moved = (
            np.divide(each, total, out=np.zeros_like(total), where=total > 0.0) for each in (error, common, moved)
        )
        rows = np.stack([np.maximum(share - moved, 0.0), error, common], axis=1).tolist()
        return tuple(
            Judged(
                name=name,
                missed_fraction=one,
                error_fraction=other,
                allowed_fraction=max(allowed, 1e-12),
                common_fraction=shared,
            )
            for (name, allowed), (one, other, shared) in zip(criteria.items(), rows, strict=True)
        )

    def spreads(self, name: str, share: float) -> list[float]:
        """How much windows of each stratum differ in what they missed."""
        if self.surges:
            # What rates leave open differs little from stratum to stratum.
            return [1.0] * len(self.windows)
        missed, sent = self._counts([name])
        residuals = [one - share * other for one, other in zip(missed, sent, strict=True)]
        hidden = self._hidden(missed, sent, residuals)
        return [
            math.sqrt(max(float(_variance(one)[0]), float(low[0]))) for one, low in zip(residuals, hidden, strict=True)
        ]

    def quantiles(
        self, request_class: RequestClass, metric: Metric, fractions: Sequence[float]
    ) -> tuple[Interval | None, ...]:
        """Percentiles of all requests of the load, with intervals that cover what another seed would find."""
        return pooled_quantiles(
            [one.histograms[request_class.name][metric] for one in self.each],
            fractions,
            weights=self.each_weight,
            strata=[len(part) for part in self.windows],
        )

    @property
    def instability(self) -> Instability | None:
        return instability([one.drift for one in self.each], self.each_weight)

    def _counts(self, names: Sequence[str]) -> tuple[list[Floats], list[Floats]]:
        """Of every stratum what was missed and sent, a row for each name and a column for each window."""
        missed, sent = [], []
        for part in self.windows:
            tallies = [[one.tallies[name] for one in part] for name in names]
            missed.append(np.array([[one.missed_count for one in row] for row in tallies], np.float64))
            sent.append(np.array([[one.sent_count for one in row] for row in tallies], np.float64))
        return missed, sent

    def _sum(self, parts: Sequence[Floats]) -> Floats:
        found: Floats = sum(
            (weight * part.mean(axis=1) for weight, part in zip(self.weights, parts, strict=True)), start=np.zeros(1)
        )
        return found

    def _predicted(self, residuals: Sequence[Floats], surge: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
        """How much of the weighted sum of residuals is due to these windows' surges, and what each leaves open."""
        mean = sum(weight * float(part.mean()) for weight, part in zip(self.weights, surge, strict=True))
        offset = [part - mean for part in surge]
        spread = sum(w * float(np.mean(part**2)) for w, part in zip(self.weights, offset, strict=True))
        slope = self._sum([one * other for one, other in zip(residuals, offset, strict=True)]) / max(spread, 1e-300)
        return slope * mean, [one - slope[:, None] * other for one, other in zip(residuals, offset, strict=True)]

    def _error(
        self, residuals: Sequence[Floats], hidden: Sequence[Floats], whole: Sequence[Floats] | None = None
    ) -> tuple[Floats, Floats]:
        """Of every row of residuals, the standard error of their weighted sum over strata, and its part that is common.

        Where they are what a surge leaves of the `whole`, they lie about zero in every stratum, and two were fitted.
        """
        own, between = np.zeros(1), np.zeros(1)
        for place, (weight, part, least) in enumerate(zip(self.weights, residuals, hidden, strict=True)):
            variance = _variance(part) if whole is None else _fitted_ratio(self.count) * np.mean(part**2, axis=1)
            own = own + weight**2 * np.maximum(variance, least) / part.shape[1]
            between = between + weight * (part.mean(axis=1) ** 2 if whole is None else (whole[place] ** 2).mean(axis=1))
        common = between / (self.candidates if whole is None else max(self.reference_windows, 1))
        return np.sqrt(own + common), np.sqrt(common)

    def _hidden(self, missed: Sequence[Floats], sent: Sequence[Floats], open_: Sequence[Floats]) -> list[Floats]:
        """The variance that strata may hide: half a window, as badly hurt as those of the stratum that is heavier.

        How badly is what is `open_` of them: what nothing else has told.
        """
        found = [np.zeros(len(each)) for each in missed]
        shares = [one / np.maximum(other, 1.0) for one, other in zip(missed, sent, strict=True)]
        hurt_from = np.maximum(_HURT_RATIO * np.median(np.concatenate(shares, axis=1), axis=1), _HURT_FRACTION)
        hurt = [each > hurt_from[:, None] for each in shares]
        for place in range(1, len(missed)):
            rare = 0.5 / (missed[place].shape[1] + 1.0)
            for row in np.flatnonzero(hurt[place - 1].any(axis=1) & ~hurt[place].any(axis=1)).tolist():
                worst = float(open_[place - 1][row][hurt[place - 1][row]].mean())
                found[place][row] = worst**2 * rare * (1.0 - rare)
        return found


def _variance(values: Floats) -> Floats:
    """Of every row."""
    return values.var(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))


def _fitted_ratio(count: int) -> float:
    """What a variance is more than the mean square that a slope and a mean leave of so many; few tell none."""
    return count / (count - 2) if count > 2 else math.inf


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The verdict of the windows of one load. `violated` names what fails, the clearest first.

    `is_decided` is false where the budget of windows ended with a share too close to what is allowed; `violated` then
    names the verdict so far, and a purchase takes the safe side. It rests on `beside_windows` of other loads too.
    """

    rate_rps: float
    judged: tuple[Judged, ...]
    sample: Sample
    is_decided: bool
    instability: Instability | None
    beside_windows: int = 0

    @property
    def violated(self) -> tuple[str, ...]:
        names = [] if self.instability is None else [STABILITY]
        failed = sorted((each for each in self.judged if not each.is_met), key=lambda each: each.distance)
        return (*names, *(each.name for each in failed))

    @property
    def passes(self) -> bool:
        return not self.violated

    @property
    def holds(self) -> bool:
        """Surely met: what may be bought."""
        return self.passes and self.is_decided

    @property
    def distance(self) -> float:
        """The least distance of any share from what it is allowed, in standard errors."""
        if self.instability is not None:
            return -math.inf
        return min((each.distance for each in self.judged), default=math.inf)

    @property
    def excess(self) -> float:
        """The logarithm of the largest part used of what is allowed: positive where something is violated."""
        if self.instability is not None:
            return MOST_EXCESS
        used = max((each.use_fraction for each in self.judged), default=0.0)
        return min(max(math.log(max(used, 1e-9)), -MOST_EXCESS), MOST_EXCESS)

    @property
    def sure_excess(self) -> float:
        """The excess within the error so far: positive where a violation cannot be excluded.

        It moves with the load as smoothly as the excess does, so that a search for a confident answer can step by it.
        """
        if self.instability is not None:
            return MOST_EXCESS
        used = max((each.sure_use_fraction for each in self.judged), default=0.0)
        found = min(max(math.log(max(used, 1e-9)), -MOST_EXCESS), MOST_EXCESS)
        # Decided by the same errors, so the sign is that of `holds`, whatever the rounding.
        return min(found, 0.0) if self.holds else max(found, _UNSURE)

    @property
    def windows(self) -> int:
        return self.sample.count + self.beside_windows

    @property
    def first(self) -> Judged | None:
        """What comes closest to what it is allowed, or exceeds it most."""
        return max(self.judged, key=lambda each: each.use_fraction, default=None)


Look = Callable[[Trial, float, int], Window]
"""Simulates one window of a trial: at a rate, with a seed."""


def decide(
    trial: Trial,
    rate_rps: float,
    probe: Probe,
    *,
    seed: int,
    effort: Effort = FULL,
    in_passing: bool = False,
    turn: int = 0,
    look: Look = window,
    map: Any = map,  # noqa: A002
) -> Decision:
    """Simulate windows until every SLO is decided, or the effort is spent.

    A try of a search, `in_passing` and not shown, ends at fewer windows where those are clear. Tries with another
    `turn` begin with other windows. `look` is how a window is simulated, where the trial's replicas are not all there
    is to it.
    """
    strata = trial_strata(trial, probe, seed).turned(turn)
    counts = effort.first_windows(strata)
    for part in _EARLY_LOOKS if in_passing and effort.first_fraction == 1.0 else ():
        few = effort.first_windows(strata, part)
        early = judge(trial, rate_rps, sampled(trial, rate_rps, strata, few, look=look, map=map))
        if _is_plain(early, sum(few) - len(few)):
            return early
    most = effort.windows(rate_rps * trial.span_s, sum(counts))
    while True:
        sample = sampled(trial, rate_rps, strata, counts, look=look, map=map)
        found = judge(trial, rate_rps, sample)
        if found.is_decided or sample.count >= min(most, strata.candidates) or _is_hopeless(found, most):
            return found
        if in_passing and is_on_edge(found, trial.replicas):
            return found
        more = min(most, math.ceil(effort.growth_ratio * sample.count)) - sample.count
        counts = allocated(strata, _worst_spreads(found), counts, more)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A pool and its load that many windows decided: the few windows of its neighbours are corrected by it."""

    trial: Trial
    found: Decision


def decide_beside(
    trial: Trial,
    rate_rps: float,
    probe: Probe,
    base: Beside,
    *,
    seed: int,
    effort: Effort,
    map: Any = map,  # noqa: A002
) -> Decision:
    """The verdict of a few windows on a load or pool near one that many decided, `base`, of the same classes.

    Both meet the same windows, heavy and light alike, so what the few miss too much or too little at `base` they do
    here: each share is corrected by it, and is as uncertain in proportion. A part of a large pool stands for it at
    both. Where `base` has other windows, or too few, the load is decided by itself, with `effort`.
    """
    part, part_rps = _part(trial, rate_rps)
    strata = trial_strata(part, probe, seed)
    counts, many = scout_windows(strata), base.found
    known = many.sample.first(counts)
    begun = None if known is None else strata.begun_with([each[0].seed for each in known.windows])
    strata = strata if begun is None else begun
    is_alike = known is not None and [one.seed for one in known.each] == strata.first_seeds(counts)
    if not is_alike or many.instability is not None or _names(many) != criteria_names(trial):
        return decide(trial, rate_rps, probe, seed=seed, effort=effort, map=map)
    found = judge(part, part_rps, sampled(part, part_rps, strata, counts, map=map))
    if found.instability is not None:
        return replace(found, rate_rps=rate_rps)
    base_part, base_rps = _part(base.trial, many.rate_rps)
    by_few = judge(base_part, base_rps, sampled(base_part, base_rps, strata, counts, map=map)).judged
    judged = tuple(_corrected(*each) for each in zip(found.judged, by_few, many.judged, strict=True))
    is_decided = are_decided([each.distance for each in judged])
    return replace(found, rate_rps=rate_rps, judged=judged, is_decided=is_decided)


def trial_strata(trial: Trial, probe: Probe, seed: int) -> Strata:
    """The windows of a pool by how heavy they are for it."""
    return strata_of(trial.load_at, span_s=trial.span_s, seed=seed, work_s=probe.work_s, replicas=trial.replicas)


def _names(found: Decision) -> tuple[str, ...]:
    return tuple(each.name for each in found.judged)


def _part(trial: Trial, rate_rps: float) -> tuple[Trial, float]:
    """The pool, or of a large one a part with its share of the load."""
    if trial.replicas <= 2 * _PART_REPLICAS:
        return trial, rate_rps
    return replace(trial, replicas=_PART_REPLICAS), rate_rps * _PART_REPLICAS / trial.replicas


def _corrected(here: Judged, by_few: Judged, by_many: Judged) -> Judged:
    """A share that few windows found, by what the same few and many found beside it."""
    missed = here.missed_fraction + by_many.missed_fraction
    if by_few.missed_fraction > 0.0:
        luck = by_many.missed_fraction / by_few.missed_fraction
        missed = here.missed_fraction * min(max(luck, 1.0 / _MOST_LUCK), _MOST_LUCK)
    missed = min(missed, 1.0)
    relative = by_many.error_fraction / by_many.missed_fraction if by_many.missed_fraction > 0.0 else 0.0
    return replace(here, missed_fraction=missed, error_fraction=max(relative * missed, by_many.error_fraction))


def scout_windows(strata: Strata) -> tuple[int, ...]:
    """The few windows that guide a search: one of every stratum, or some of the only one."""
    return (1,) * len(strata.weights) if len(strata.weights) > 1 else SCOUT.first_windows(strata)


def _is_plain(found: Decision, freedom: int) -> bool:
    """Whether a few windows decide by more than their own uncertainty, for or against."""
    if found.instability is not None or freedom < 1:
        return False
    errors = t_quantile(_EARLY_FRACTION, freedom)
    distances = [each.distance for each in found.judged]
    return any(each <= -errors for each in distances) or all(each >= errors for each in distances)


def _is_hopeless(found: Decision, most: int) -> bool:
    """Whether more windows than may be spent would be needed to tell: errors fall with the root of their number.

    Where something seems violated nothing is bought on the answer, and a forecast that the windows will not suffice is
    enough; where all seems met it must be certain.
    """
    if found.windows < _HOPELESS_WINDOWS:
        return False
    least = min((each.distance for each in found.judged), default=math.inf)
    needed = found.windows * (DECIDED_ERRORS / max(abs(least), 1e-9)) ** 2
    return needed > (most if least < 0.0 else _HOPELESS_RATIO * most)


def is_on_edge(found: Decision, replicas: int) -> bool:
    """Whether the use of the allowance is, with confidence, within a part of a replica of the whole.

    A search then takes the number as undecided, as it would after many more windows.
    """
    if found.instability is not None:
        return False
    width = min(_MOST_EDGE, _EDGE_PART * STEEPNESS / replicas)
    most = max((each.sure_use_fraction for each in found.judged), default=0.0)
    least = max((2.0 * each.use_fraction - each.sure_use_fraction for each in found.judged), default=0.0)
    return 1.0 - width < least and most < 1.0 + width


def sampled(
    trial: Trial,
    rate_rps: float,
    strata: Strata,
    counts: Sequence[int],
    *,
    look: Look = window,
    map: Any = map,  # noqa: A002
) -> Sample:
    """So many windows of every stratum, each simulated once."""
    spread = map if rate_rps * trial.span_s >= _SPREAD_REQUESTS else builtins.map
    found = iter(list(spread(lambda seed: look(trial, rate_rps, seed), strata.first_seeds(counts))))
    return Sample(
        weights=strata.weights,
        windows=tuple(tuple(next(found) for _ in range(count)) for count in counts),
        candidates=strata.candidates,
        surges=tuple(part[:, :count] for part, count in zip(strata.surges, counts, strict=False)),
        reference_windows=strata.reference_windows,
    )


def judge(trial: Trial, rate_rps: float, sample: Sample) -> Decision:
    """Every SLO and error budget by the windows so far."""
    judged = sample.judged(dict(_criteria(trial)))
    unstable = sample.instability
    is_decided = are_decided([each.distance for each in judged]) if unstable is None else unstable.is_decided
    return Decision(rate_rps=rate_rps, judged=judged, sample=sample, is_decided=is_decided, instability=unstable)


def are_decided(distances: Sequence[float]) -> bool:
    """Whether a criterion fails with confidence, or all pass with confidence."""
    return any(each <= -DECIDED_ERRORS for each in distances) or all(each >= DECIDED_ERRORS for each in distances)


def _criteria(trial: Trial) -> Iterator[tuple[str, float]]:
    for each in trial.classes:
        yield error_budget(each.name), trial.allowed_error_fraction(each.name)
        for slo in each.slos:
            yield criterion(each.name, slo), 1.0 - slo.percentile_fraction


def criteria_names(trial: Trial) -> tuple[str, ...]:
    """What a load can violate of this trial, class by class."""
    return tuple(name for name, _ in _criteria(trial))


def _worst_spreads(found: Decision) -> list[float]:
    """The spread, by stratum, of what is least decided."""
    open_ones = [each for each in found.judged if abs(each.distance) < DECIDED_ERRORS] or list(found.judged)
    worst = min(open_ones, key=lambda each: abs(each.distance))
    spreads = found.sample.spreads(worst.name, worst.missed_fraction)
    return spreads if any(spreads) else [1.0] * len(spreads)
