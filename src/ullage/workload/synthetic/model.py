"""The synthetic model: season x bursts x joint lengths x sessions, every parameter printed and editable.

    rate(t) = mean_rate x season(hour of week) x growth(t) x bursts(t)

Arrivals are Poisson at that rate. A request's prompt and output are drawn together: the quantiles of each, joined by
one rank correlation. A session sends its next turn after an exponential think time and ends after each turn with
probability 1 / turns. A prompt's cached part and the size of the cache that still holds it are drawn from quantiles.
docs/reference/synthetic-model.md describes each parameter and where the model is known to be wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ullage.errors import InputError, check_name, unknown_name
from ullage.workload.synthetic.modulation import Modulation, drawn_levels
from ullage.workload.synthetic.stream import LONGEST_S, Floats, Recipe, RowTables, Stream, generate

HOURS_PER_WEEK = 168
WEEK_S = 604_800.0
# Where the quantiles of a length stand: close at the tail, because the tail decides.
FRACTIONS: tuple[float, ...] = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
# Rows of the table from which pairs of lengths are picked: the 99.9th percentile still has eight rows above it.
_PAIRS = 8192
_SHARES = 64
_DISTANCES = 256
_TENANT_SLOTS = 4096
# One second: the shortest time over which the rate is held constant, hence the shortest burst.
CELL_S = 1.0
# Rates are worked out for so many cells at once, so that what lies between season and rate stays in the cache.
_CELLS_AT_ONCE = 16_384
# The grid is set off against the clock's seconds by this share of a cell, of which share^2 + (1 - share)^2 = 2/3:
# windows of a second then vary as they would on average over all ways to place them.
_LEAD_FRACTION = (1.0 - math.sqrt(1.0 / 3.0)) / 2.0
# The normal quantile at 1,024 ranks: enough for a table whose rows are ranked again afterwards.
_RANKS = (np.arange(1024) + 0.5) / 1024
_NORMALS = np.array([NormalDist().inv_cdf(rank) for rank in _RANKS.tolist()])


@dataclass(frozen=True, kw_only=True)
class LengthModel:
    """Prompt and output together: quantiles at `FRACTIONS`, and how strongly their ranks go together."""

    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]
    rank_correlation_ratio: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens"):
            _check_quantiles(f"lengths.{name}", getattr(self, name), len(FRACTIONS))
        if not -1.0 < self.rank_correlation_ratio < 1.0:
            raise InputError(
                field="lengths.rank_correlation_ratio",
                value=self.rank_correlation_ratio,
                problem="must lie strictly between -1 and 1",
                fix="Give 0 where nothing is known.",
            )

    def pairs(self, rows: int = _PAIRS) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """An evenly weighted table of pairs: the quantiles to within its resolution, and the same every time."""
        return _pairs(self, rows)


@dataclass(frozen=True, kw_only=True)
class SessionModel:
    """Turns that belong together. `mean_turns` of 1 means that every request stands alone."""

    mean_turns: float = 1.0
    mean_think_s: float = 60.0

    def __post_init__(self) -> None:
        _check_at_least("sessions.mean_turns", self.mean_turns, 1.0)
        _check_positive("sessions.mean_think_s", self.mean_think_s)


@dataclass(frozen=True, kw_only=True)
class ReuseModel:
    """Prefix reuse: evenly spaced quantiles of a prompt's cached share, and of the cache that is needed to hold it."""

    first_turn_fractions: tuple[float, ...] = (0.0, 0.0)
    later_turn_fractions: tuple[float, ...] = (0.0, 0.0)
    distance_blocks: tuple[float, ...] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("first_turn_fractions", "later_turn_fractions"):
            _check_quantiles(f"reuse.{name}", getattr(self, name), None, most=1.0)
        _check_quantiles("reuse.distance_blocks", self.distance_blocks, None)


@dataclass(frozen=True, kw_only=True)
class Tenants:
    """How many, and how unequal: the k-th largest sends in proportion to k^-exponent."""

    tenants: int = 1
    skew_ratio: float = 1.0

    def __post_init__(self) -> None:
        _check_at_least("tenants.tenants", self.tenants, 1)
        _check_at_least("tenants.skew_ratio", self.skew_ratio, 0.0)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A rush from `at_s` on: up to `peak_ratio` over `ramp_s`, then down to `settled_ratio` over about `settle_s`."""

    at_s: float
    peak_ratio: float
    settled_ratio: float = 1.0
    ramp_s: float = 3600.0
    settle_s: float = 3 * 86_400.0

    def __post_init__(self) -> None:
        _check_at_least("launch.peak_ratio", self.peak_ratio, 0.0)
        _check_at_least("launch.settled_ratio", self.settled_ratio, 0.0)
        _check_positive("launch.ramp_s", self.ramp_s)
        _check_positive("launch.settle_s", self.settle_s)

    def factor_at(self, time_s: Floats) -> Floats:
        since_s = time_s - self.at_s
        climbing = 1.0 + (self.peak_ratio - 1.0) * np.clip(since_s / self.ramp_s, 0.0, 1.0)
        sinking = np.exp(-np.maximum(0.0, since_s - self.ramp_s) / self.settle_s)
        settling = self.settled_ratio + (self.peak_ratio - self.settled_ratio) * sinking
        return np.where(since_s < self.ramp_s, climbing, settling)


@dataclass(frozen=True, kw_only=True)
class ClassModel:
    """One class of requests. A batch class has a deadline; an interactive one has None."""

    name: str
    mean_rate_rps: float
    lengths: LengthModel
    season: tuple[float, ...] = (1.0,) * HOURS_PER_WEEK
    weekly_growth_fraction: float = 0.0
    bursts: Modulation = field(default_factory=Modulation)
    sessions: SessionModel = field(default_factory=SessionModel)
    reuse: ReuseModel = field(default_factory=ReuseModel)
    tenants: Tenants = field(default_factory=Tenants)
    launches: tuple[Launch, ...] = ()
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        _check_at_least(f"{self.name}.mean_rate_rps", self.mean_rate_rps, 0.0)
        if len(self.season) != HOURS_PER_WEEK or min(self.season) < 0.0 or sum(self.season) <= 0.0:
            raise InputError(
                field=f"{self.name}.season",
                value=len(self.season),
                problem=f"must be {HOURS_PER_WEEK} factors, none negative, not all 0",
                fix="Give one factor for each hour from Monday 00:00.",
            )
        if self.weekly_growth_fraction <= -1.0:
            raise InputError(
                field=f"{self.name}.weekly_growth_fraction",
                value=self.weekly_growth_fraction,
                problem="traffic cannot shrink by all of itself",
                fix="Give for example 0.01 for one per cent a week.",
            )
        if self.deadline_s is not None:
            _check_positive(f"{self.name}.deadline_s", self.deadline_s)

    def season_at(self, time_s: Floats) -> Floats:
        """The season's factor, mean one over a week, straight between the middles of the hours."""
        factors = np.array(self.season) / np.mean(self.season)
        hours = time_s / 3600.0 - 0.5
        # The remainder by hand: numpy's is three times as slow, and a stream asks for every second of a week.
        hours = hours - HOURS_PER_WEEK * np.floor(hours / HOURS_PER_WEEK)
        around = np.append(factors, factors[0])
        interpolated: Floats = np.interp(hours, np.arange(HOURS_PER_WEEK + 1), around)
        return interpolated

    def rate_at(self, time_s: Floats) -> Floats:
        """The expected rate, before bursts."""
        growth = np.exp(math.log1p(self.weekly_growth_fraction) / WEEK_S * time_s)
        rate: Floats = self.mean_rate_rps * self.season_at(time_s) * growth
        for each in self.launches:
            rate = rate * each.factor_at(time_s)
        return rate


@dataclass(frozen=True, kw_only=True)
class SyntheticModel:
    """Classes side by side. Time 0 is a Monday, 00:00, in the zone the season was read in."""

    classes: tuple[ClassModel, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.classes]
        if not names or len(set(names)) != len(names):
            raise InputError(
                field="classes", value=names, problem="must be at least one, each named once", fix="Name each class."
            )

    def named(self, name: str) -> ClassModel:
        for each in self.classes:
            if each.name == name:
                return each
        raise unknown_name(field="class", name=name, known=[each.name for each in self.classes])


def synthesised(model: SyntheticModel, *, span_s: float, rng: Generator, start_s: float = 0.0) -> Stream:
    """A stream of `span_s` seconds from `start_s` on; the same generator state gives the same bytes."""
    _check_positive("span_s", span_s)
    if span_s > LONGEST_S:
        raise InputError(
            field="span_s", value=span_s, problem="is longer than a stream can be, 104 days", fix="Draw a part of it."
        )
    return generate(recipe(model, span_s=span_s, start_s=start_s, rng=rng), rng)


def recipe(model: SyntheticModel, *, span_s: float, rng: Generator, start_s: float = 0.0) -> Recipe:
    """The model as the rates and tables that the drawing loop reads."""
    cells = cells_in(span_s)
    lead_s = _LEAD_FRACTION * CELL_S
    time_s = start_s - lead_s + (np.arange(cells, dtype=np.float64) + 0.5) * CELL_S
    rates = np.empty((cells, len(model.classes)))
    for column, each in enumerate(model.classes):
        levels = drawn_levels(each.bursts, cells, CELL_S, rng)
        for first in range(0, cells, _CELLS_AT_ONCE):
            part = slice(first, first + _CELLS_AT_ONCE)
            rates[part, column] = each.rate_at(time_s[part]) * levels[part]
    pairs = [each.lengths.pairs() for each in model.classes]
    return Recipe(
        rates_rps=rates,
        cell_s=CELL_S,
        lead_s=lead_s,
        span_s=span_s,
        tables=RowTables(
            prompt_tokens=np.stack([prompt for prompt, _ in pairs]),
            output_tokens=np.stack([output for _, output in pairs]),
            first_share=np.stack([_spread(each.reuse.first_turn_fractions, _SHARES) for each in model.classes]),
            later_share=np.stack([_spread(each.reuse.later_turn_fractions, _SHARES) for each in model.classes]),
            reuse_blocks=np.stack([_spread(each.reuse.distance_blocks, _DISTANCES) for each in model.classes]).astype(
                np.int32
            ),
            tenants=np.stack([_tenant_slots(each.tenants) for each in model.classes]),
        ),
        mean_turns=np.array([each.sessions.mean_turns for each in model.classes]),
        mean_think_s=np.array([each.sessions.mean_think_s for each in model.classes]),
        class_names=tuple(each.name for each in model.classes),
        deadlines_s=tuple(math.inf if each.deadline_s is None else each.deadline_s for each in model.classes),
    )


def cells_in(span_s: float) -> int:
    """Cells of a stream's rates: one more than its span holds, because they begin a part of a cell before it."""
    return math.ceil(span_s / CELL_S) + 1


def from_document(document: Mapping[str, Any]) -> SyntheticModel:
    """The model that `as_document` printed, edited or not; an unknown key is an error with the nearest known one."""
    found = _read(SyntheticModel, "model", {"classes": _class_models}, document)
    assert isinstance(found, SyntheticModel)
    return found


def _class_models(listed: Any) -> tuple[ClassModel, ...]:
    nested = {
        "lengths": LengthModel,
        "bursts": Modulation,
        "sessions": SessionModel,
        "reuse": ReuseModel,
        "tenants": Tenants,
    }
    readers: dict[str, Any] = {key: partial(_read, kind, key, {}) for key, kind in nested.items()}
    readers["launches"] = lambda several: tuple(_read(Launch, "launch", {}, each) for each in several)
    return tuple(_read(ClassModel, "class", readers, each) for each in listed)


def _read(kind: type[Any], where: str, readers: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    known = {each.name for each in fields(kind)}
    for key in document:
        check_name(str(key), known, field=where)
    values = {key: tuple(value) if isinstance(value, list) and key not in readers else value
              for key, value in document.items()}  # fmt: skip
    return kind(**{key: readers[key](value) if key in readers else value for key, value in values.items()})


@functools.lru_cache(maxsize=64)
def _pairs(lengths: LengthModel, rows: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The table does not depend on a seed, and streams are drawn for many; it is read and never written."""
    first = (np.arange(rows, dtype=np.float64) + 0.5) / rows
    # The golden ratio spreads the second coordinate evenly against the first, without a random number.
    second = (np.arange(rows, dtype=np.float64) * 0.6180339887498949 + 0.5 / rows) % 1.0
    normal, other = _normal_quantiles(first), _normal_quantiles(second)
    # A normal copula whose correlation r gives the rank correlation s: r = 2 sin(pi s / 6).
    r = 2.0 * math.sin(math.pi * lengths.rank_correlation_ratio / 6.0)
    mixed = r * normal + math.sqrt(1.0 - r * r) * other
    ranks = (np.argsort(np.argsort(mixed)) + 0.5) / rows
    prompt, output = _at(lengths.prompt_tokens, first), _at(lengths.output_tokens, ranks)
    prompt.setflags(write=False)
    output.setflags(write=False)
    return prompt, output


def _at(quantiles: tuple[float, ...], ranks: Floats) -> NDArray[np.int32]:
    """Lengths at these ranks: straight between the quantiles' logarithms, whole, at least one token."""
    logs = np.log(np.maximum(1.0, np.array(quantiles)))
    tokens: NDArray[np.int32] = np.maximum(1, np.round(np.exp(np.interp(ranks, FRACTIONS, logs)))).astype(np.int32)
    return tokens


def _normal_quantiles(ranks: Floats) -> Floats:
    found: Floats = np.interp(ranks, _RANKS, _NORMALS)
    return found


def _spread(quantiles: tuple[float, ...], slots: int) -> Floats:
    """Evenly spaced quantiles stretched to a table of slots of equal weight."""
    places = np.linspace(0.0, 1.0, len(quantiles))
    return np.interp((np.arange(slots) + 0.5) / slots, places, np.array(quantiles, np.float64))


def _tenant_slots(tenants: Tenants) -> NDArray[np.int16]:
    weight = np.arange(1, tenants.tenants + 1, dtype=np.float64) ** -tenants.skew_ratio
    reached = np.cumsum(weight) / weight.sum()
    slots = np.searchsorted(reached, (np.arange(_TENANT_SLOTS) + 0.5) / _TENANT_SLOTS)
    # Numbered anew, so that tenants too small for a slot take no number either.
    return np.unique(slots, return_inverse=True)[1].astype(np.int16)


def _check_quantiles(name: str, values: tuple[float, ...], places: int | None, most: float = math.inf) -> None:
    rises = all(low <= high for low, high in pairwise(values))
    if (
        len(values) < 2
        or (places is not None and len(values) != places)
        or not rises
        or values[0] < 0.0
        or values[-1] > most
    ):
        wanted = f"{places} quantiles" if places is not None else "two or more quantiles"
        raise InputError(
            field=name,
            value=values,
            problem=f"must be {wanted} that rise from 0 or more{'' if math.isinf(most) else f' to at most {most:g}'}",
            fix="Give them in order, the smallest first.",
        )


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(field=name, value=value, problem="must be greater than 0", fix="Give a positive number.")


def _check_at_least(name: str, value: float, least: float) -> None:
    if not (math.isfinite(value) and value >= least):
        raise InputError(field=name, value=value, problem=f"must be {least:g} or more", fix="Give a larger number.")
