"""The figures of a profile that a plan leans on, each with its evidence: measured, from this trace, on this day."""

from __future__ import annotations

import datetime

from ullage.evidence import Evidence, Figure, Source
from ullage.workload.profile.lengths import LengthProfile
from ullage.workload.profile.profile import Profile
from ullage.workload.profile.series import Distribution

PERCENTILES = (0.5, 0.9, 0.99)


def profile_figures(profile: Profile, *, as_of: datetime.date) -> tuple[Figure, ...]:
    """Arrival rates, dispersion, bursts, lengths, reuse and outcomes as figures.

    A trace without a calendar has no date of its own; its source is then dated by the day it was read.
    """
    source = profile_source(profile, as_of=as_of)
    return tuple(
        Figure(
            name=f"workload.{name.replace(' ', '_')}",
            value=value,
            unit=unit,
            sources=(source,),
            own_evidence=Evidence.MEASURED,
        )
        for name, value, unit in _values(profile)
        if value is not None
    )


def profile_source(profile: Profile, *, as_of: datetime.date) -> Source:
    """The trace as a source: what, where, and the day of its last request."""
    last = profile.coverage.last_time
    date = as_of if last is None else datetime.date.fromisoformat(last[:10])
    shown = (
        profile.sources[0] if len(profile.sources) == 1 else f"{profile.sources[0]} and {len(profile.sources) - 1} more"
    )
    return Source(what=f"{profile.format} trace of {profile.whole.requests:,} requests", where=shown, date=date)


def _values(profile: Profile) -> list[tuple[str, float | int | None, str]]:
    whole = profile.whole
    values: list[tuple[str, float | int | None, str]] = [("requests", whole.requests, "requests")]
    arrivals = whole.arrivals
    if arrivals is not None:
        values += [
            ("trace span", arrivals.span_s, "s"),
            ("mean arrival rate", arrivals.mean_rps, "req/s"),
            ("gap deviation over mean", arrivals.gap_cv_ratio, "ratio"),
        ]
        for window in arrivals.windows:
            if window.artefact:
                continue
            name = f"in windows of {window.width_s:g} s"
            values += [(f"arrival rate p{100 * p:g} {name}", window.rates.at(p), "req/s") for p in (*PERCENTILES, 1.0)]
            values.append((f"dispersion {name}", window.dispersion_ratio, "ratio"))
    if whole.bursts is not None:
        values += [
            ("burst episodes", whole.bursts.episodes, "episodes"),
            ("time in bursts", whole.bursts.time_fraction, "fraction"),
        ]
        values += _quantiles("burst height over its level", whole.bursts.height_ratio, "ratio")
    values += _length_values(whole.lengths)
    if whole.outcomes is not None:
        values += [
            ("failed requests", whole.outcomes.failed_fraction, "fraction"),
            ("cancelled requests", whole.outcomes.cancelled_fraction, "fraction"),
        ]
    if whole.inflight is not None:
        values.append(("mean requests in flight", whole.inflight.mean_requests, "requests"))
        values += _quantiles("active tokens", whole.inflight.active_tokens, "tokens")
    if whole.season is not None:
        values += [
            ("peak hour over mean", whole.season.peak_ratio, "ratio"),
            ("season strength", whole.season.strength_fraction, "fraction"),
        ]
    if whole.growth is not None:
        values.append(("growth a week", whole.growth.per_week_fraction, "fraction"))
    if profile.reuse is not None:
        values.append(("prefix reuse of an endless cache", profile.reuse.endless_warm_fraction, "fraction"))
    return values


def _length_values(lengths: LengthProfile) -> list[tuple[str, float | int | None, str]]:
    values: list[tuple[str, float | int | None, str]] = []
    for name, found in (
        ("prompt length", lengths.prompt_tokens),
        ("output length", lengths.output_tokens),
        ("cached prompt length", lengths.cached_tokens),
        ("reasoning length", lengths.reasoning_tokens),
    ):
        if found is not None:
            values.append((f"mean {name}", found.mean_value, "tokens"))
            values += _quantiles(name, found, "tokens")
    values.append(("cached share of prompts", lengths.cached_prompt_fraction, "fraction"))
    return values


def _quantiles(name: str, found: Distribution | None, unit: str) -> list[tuple[str, float | int | None, str]]:
    return [] if found is None else [(f"{name} p{100 * p:g}", found.at(p), unit) for p in PERCENTILES]
