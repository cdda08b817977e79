"""The synthetic model of a profile, and how far a stream drawn from it is from what the profile measured.

Quantiles of lengths, the season, growth and the reuse curve go over as they are; bursts are fitted to the dispersion at
every width. `matches` then draws the line under it: each figure of the source beside the stream's, with the tolerance
that was required and whether it held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import Generator

from ullage.errors import InputError
from ullage.workload.profile.arrivals import Arrivals
from ullage.workload.profile.lengths import LengthProfile
from ullage.workload.profile.profile import PartProfile, Profile
from ullage.workload.profile.reuse import ReuseProfile
from ullage.workload.profile.seasons import WEEK_HOURS, Season
from ullage.workload.profile.sessions import SessionProfile
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import (
    FRACTIONS,
    ClassModel,
    LengthModel,
    ReuseModel,
    SessionModel,
    SyntheticModel,
    synthesised,
)
from ullage.workload.synthetic.modulation import Modulation, from_dispersion
from ullage.workload.synthetic.stream import Stream

# Distances are kept at this many evenly spaced quantiles.
_DISTANCES = 33
# A listed trace shorter than this has no two windows either, but every gap of it is known.
LONGEST_UNSEEN_S = 7200.0
# Draws that are compared: many of a short trace, whose long bursts are few, one of a trace of weeks.
_MOST_DRAWS, _ENOUGH_REQUESTS = 24, 2_000_000
# What a fitted stream has to reproduce, as relative error. Dispersion is a variance of few windows at long widths,
# and the highest minute is a single one, hence the wide tolerance there; lengths are quantiles handed over.
TOLERANCE_FRACTIONS = {"rate": 0.05, "dispersion": 0.35, "length": 0.08, "burst height": 0.25, "reuse": 0.05}


@dataclass(frozen=True, kw_only=True)
class Match:
    """One figure of the source beside the same figure of a stream."""

    name: str
    unit: str
    source_value: float
    stream_value: float
    tolerance_fraction: float

    @property
    def error_fraction(self) -> float:
        if self.source_value == self.stream_value:
            return 0.0
        return abs(self.stream_value - self.source_value) / max(abs(self.source_value), 1e-12)

    @property
    def holds(self) -> bool:
        return self.error_fraction <= self.tolerance_fraction

    @property
    def sentence(self) -> str:
        """The warnings where the stream is not like its source."""
        return (
            f"The synthetic {self.name} is {self.stream_value:.4g} {self.unit} where the source has "
            f"{self.source_value:.4g}: off by {self.error_fraction:.0%}, tolerance {self.tolerance_fraction:.0%}."
        )


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """A model fitted to a profile, and how well streams drawn from it match it."""

    model: SyntheticModel
    matches: tuple[Match, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """A sentence for each property that the model does not reproduce within its tolerance."""
        return tuple(each.sentence for each in self.matches if not each.holds)


def synthesis(profile: Profile, rng: Generator) -> Synthesis:
    """Fit a model, draw from it for as long as the source, and say what is unlike it."""
    model = fitted(profile)
    expected = sum(each.mean_rate_rps for each in model.classes) * profile.coverage.span_s
    draws = max(1, min(_MOST_DRAWS, round(_ENOUGH_REQUESTS / max(expected, 1.0))))
    streams = [synthesised(model, span_s=profile.coverage.span_s, rng=rng) for _ in range(draws)]
    return Synthesis(model=model, matches=matches(profile, streams))


def fitted(profile: Profile, *, lengths: Mapping[str, LengthModel] | None = None) -> SyntheticModel:
    """A class for each class of the profile, or one for all where it has none.

    `lengths` are those of classes whose own the profile does not know, by name.
    """
    given = lengths or {}
    groups = profile.of("class")
    parts = [(group.name, group.profile) for group in groups] if len(groups) > 1 else [("all", profile.whole)]
    return SyntheticModel(classes=tuple(_class_model(name, part, profile, given.get(name)) for name, part in parts))


def matches(profile: Profile, streams: Sequence[Stream]) -> tuple[Match, ...]:
    """Rate, dispersion, lengths, burst heights and reuse: the source's figures beside the mean of the streams'.

    The streams are draws as long as the source. One draw of an hour has a handful of long bursts and says little about
    their law, so several are averaged.
    """
    whole = profile.whole
    found: list[tuple[str, str, str, float, Callable[[Stream], float]]] = []
    if whole.arrivals is not None:
        found.append(("mean rate", "req/s", "rate", whole.arrivals.mean_rps, lambda each: each.rate_rps))
        for window in whole.arrivals.windows:
            at = f"in windows of {window.width_s:g} s"
            if window.artefact:
                continue
            ratio = partial(_dispersion, width_s=window.width_s)
            found.append((f"dispersion {at}", "", "dispersion", window.dispersion_ratio, ratio))
            if window.width_s == 60.0:
                found.append((f"rate p99 {at}", "req/s", "burst height", window.rates.at(0.99), _minute_p99_rps))
    for name in ("prompt_tokens", "output_tokens"):
        source = getattr(whole.lengths, name)
        for fraction in (0.5, 0.9, 0.99) if source is not None else ():
            quantile = partial(_quantile, name=name, fraction=fraction)
            shown = f"{name.removesuffix('_tokens')} length p{100 * fraction:g}"
            found.append((shown, "tokens", "length", source.at(fraction), quantile))
    for point in profile.reuse.points if profile.reuse is not None else ():
        held = partial(_held_fraction, cache_blocks=point.cache_blocks)
        found.append((f"reuse of {point.cache_blocks} blocks", "", "reuse", point.warm_hit_fraction, held))
    return tuple(
        Match(
            name=name,
            unit=unit,
            source_value=source_value,
            stream_value=float(np.mean([figure(each) for each in streams])),
            tolerance_fraction=TOLERANCE_FRACTIONS[kind],
        )
        for name, unit, kind, source_value, figure in found
    )


def _dispersion(stream: Stream, width_s: float) -> float:
    counts = stream.counts(width_s)
    return float(counts.var(ddof=1) / counts.mean())


def _minute_p99_rps(stream: Stream) -> float:
    return float(np.quantile(stream.counts(60.0), 0.99)) / 60.0


def _quantile(stream: Stream, name: str, fraction: float) -> float:
    return float(np.quantile(getattr(stream, name), fraction))


def _held_fraction(stream: Stream, cache_blocks: int) -> float:
    return float(stream.served_by_cache(cache_blocks).cached_tokens.sum() / stream.prompt_tokens.sum())


def _class_model(name: str, part: PartProfile, profile: Profile, lengths: LengthModel | None) -> ClassModel:
    if part.arrivals is None:
        raise InputError(
            field=f"profile.{name}",
            value=profile.format,
            problem="has no arrivals, so there is no rate to synthesise",
            fix="Give a trace whose requests share a clock.",
        )
    season = _season(part.season)
    return ClassModel(
        name=name,
        mean_rate_rps=part.arrivals.mean_rps,
        season=season,
        weekly_growth_fraction=0.0 if part.growth is None else part.growth.per_week_fraction,
        bursts=_bursts(part.arrivals, float(np.var(season))),
        lengths=_lengths(name, part.lengths) if lengths is None else lengths,
        sessions=_sessions(part.sessions),
        reuse=_reuse(profile.reuse) if profile.reuse is not None else _logged_reuse(part.lengths),
    )


def _season(season: Season | None) -> tuple[float, ...]:
    if season is None:
        return (1.0,) * WEEK_HOURS
    shape = tuple(1.0 if factor is None else factor for factor in season.shape)
    return shape * (WEEK_HOURS // season.period_hours)


def _bursts(arrivals: Arrivals, season_variance: float) -> Modulation:
    honest = {window.width_s: window.dispersion_ratio for window in arrivals.windows if not window.artefact}
    if not honest:
        # Windows of hours say nothing of minutes: bursts are then unknown, which is not that there are none.
        return builtin().named("chat").bursts if arrivals.span_s > LONGEST_UNSEEN_S else Modulation()
    return from_dispersion(honest, rate_rps=arrivals.mean_rps, season_variance=season_variance)


def _lengths(name: str, lengths: LengthProfile) -> LengthModel:
    prompt, output = lengths.prompt_tokens, lengths.output_tokens
    if prompt is None or output is None:
        raise InputError(
            field=f"profile.{name}.lengths",
            value="prompt" if prompt is None else "output",
            problem="the source does not know this length",
            fix="Give a trace with both lengths.",
        )
    # Ranks of two jointly normal logarithms go together a little less than the logarithms do.
    correlation = 0.0 if lengths.correlation_ratio is None else lengths.correlation_ratio
    ranks = 6.0 / np.pi * np.arcsin(min(max(correlation, -0.99), 0.99) / 2.0)
    return LengthModel(
        prompt_tokens=tuple(prompt.at(fraction) for fraction in FRACTIONS),
        output_tokens=tuple(output.at(fraction) for fraction in FRACTIONS),
        rank_correlation_ratio=float(ranks),
    )


def _sessions(sessions: SessionProfile | None) -> SessionModel:
    if sessions is None:
        return SessionModel()
    waits = sessions.think_s or sessions.tool_s
    think_s = 60.0 if waits is None or waits.mean_value <= 0.0 else waits.mean_value
    return SessionModel(mean_turns=max(1.0, sessions.requests / sessions.sessions), mean_think_s=think_s)


def _logged_reuse(lengths: LengthProfile) -> ReuseModel:
    """The share that the log says came from a cache; how far back it lay is not known, so that any cache holds it."""
    share = lengths.cached_prompt_fraction
    return (
        ReuseModel() if not share else ReuseModel(first_turn_fractions=(share,) * 2, later_turn_fractions=(share,) * 2)
    )


def _reuse(reuse: ReuseProfile | None) -> ReuseModel:
    """Every prompt repeats the same share; how far back it lies follows the curve of the source."""
    if reuse is None or reuse.endless_warm_fraction <= 0.0 or not reuse.points:
        return ReuseModel()
    share = reuse.endless_warm_fraction
    sizes = np.array([point.cache_blocks for point in reuse.points], np.float64)
    reached = np.array([point.warm_hit_fraction for point in reuse.points]) / share
    places = np.linspace(0.0, 1.0, _DISTANCES)
    far = np.append(sizes, sizes[-1] * 4.0)
    distance = np.interp(places, np.append(np.maximum.accumulate(reached), 1.0), far, left=float(sizes[0]))
    # Below the smallest size that was counted nothing is known but the share that it holds.
    inside = np.where(places <= reached[0], sizes[0], distance)
    fractions = (share, share)
    return ReuseModel(
        first_turn_fractions=fractions, later_turn_fractions=fractions, distance_blocks=tuple(np.sort(inside).tolist())
    )
