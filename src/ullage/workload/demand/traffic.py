"""What a trace says to a plan: its profile, and of every class its forecast and the model that draws its streams."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from numpy.random import Generator

from ullage.errors import unknown_name
from ullage.evidence import Figure, Source
from ullage.workload.demand.demand import MeasuredClass
from ullage.workload.demand.outcomes import ClassOutcomes
from ullage.workload.demand.stated import BorrowedLengths
from ullage.workload.forecast.demand_series import DemandEvent, DemandSeries
from ullage.workload.forecast.forecast import LEAST_STEPS
from ullage.workload.forecast.part_forecast import ALL, forecast_parts, histories_of
from ullage.workload.forecast.together import correlation
from ullage.workload.profile.figures import profile_figures, profile_source
from ullage.workload.profile.profile import PartProfile, Profile
from ullage.workload.profile.seasons import HOUR_S
from ullage.workload.synthetic.fit import fitted


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The user's own traffic. `mean_rates_rps` are those of the trace itself, by class."""

    source: Source
    profile: Profile
    classes: Mapping[str, MeasuredClass]
    mean_rates_rps: Mapping[str, float]
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        """Anomalies of the trace, and of each forecast made from it."""
        forecasts = (anomaly for each in self.classes.values() for anomaly in each.anomalies)
        return tuple(dict.fromkeys(anomaly.sentence for anomaly in (*self.profile.anomalies, *forecasts)))

    def times(self, ratio: float) -> Traffic:
        """So many times the users: rates, forecasts and streams; the profile stays that of the trace."""
        return replace(
            self,
            classes={name: each.times(ratio) for name, each in self.classes.items()},
            mean_rates_rps={name: rate * ratio for name, rate in self.mean_rates_rps.items()},
        )

    def at_rates(self, rates_rps: Mapping[str, float], to: str = "the stated rate") -> Traffic:
        """Classes scaled to other mean rates: the same users, more or fewer of them; their sources say so."""
        classes, means = dict(self.classes), dict(self.mean_rates_rps)
        for name, rate_rps in rates_rps.items():
            ratio = rate_rps / means[name]
            scaled = classes[name].times(ratio)
            what = f"{scaled.source.what}, scaled {ratio:.3g} times to {to}"
            classes[name], means[name] = replace(scaled, source=replace(scaled.source, what=what)), rate_rps
        return replace(self, classes=classes, mean_rates_rps=means)


def traffic_of(
    profile: Profile,
    names: Sequence[str],
    *,
    horizon_s: float,
    percentile_fraction: float,
    as_of: datetime.date,
    rng: Generator,
    events: Sequence[DemandEvent] = (),
    borrowed: Mapping[str, BorrowedLengths] | None = None,
) -> Traffic:
    """The classes of a plan in a trace. A plan with one class takes all requests for it; with several, the trace (or
    the rules it was profiled by) must tell them apart. A trace too short to forecast from still says all but season and
    growth. `borrowed` are lengths of classes that the trace has none of."""
    source = profile_source(profile, as_of=as_of)
    histories = {each.name: each for each in histories_of(profile, horizon_s=horizon_s)}
    elsewhere = borrowed or {}
    groups = {each.name for each in profile.of("class")}
    lengths = {name if name in groups and len(groups) > 1 else ALL: each.model for name, each in elsewhere.items()}
    models = {each.name: each for each in fitted(profile, lengths=lengths).classes}
    found: dict[str, MeasuredClass] = {}
    rates: dict[str, float] = {}
    series: dict[str, DemandSeries] = {}
    for name in names:
        known = name if name in models else ALL if len(names) == 1 else None
        if known is None or known not in histories or known not in models:
            fix = "Add a match to the class, or name it as the trace does."
            raise unknown_name(field="workload.classes", name=name, known=models, fix=fix)
        forecast = None
        # The hour that is planned for is not in windows of a day: its height over the mean is then borrowed.
        if histories[known].series.observed >= LEAST_STEPS and profile.coverage.window_s <= HOUR_S:
            (part,) = forecast_parts(
                [histories[known]], horizon_s=horizon_s, percentile_fraction=percentile_fraction, rng=rng, events=events
            )
            forecast = part.forecast
            series[name] = histories[known].series
        found[name] = MeasuredClass(
            forecast=forecast,
            # All requests of a trace go by the name of the plan's only class.
            model=replace(models[known], name=name),
            source=source,
            logged_s=profile.coverage.span_s,
            lengths_from=elsewhere.get(name),
            outcomes=_outcomes(_part(profile, known)),
            knows_reuse=profile.reuse is not None or profile.whole.lengths.cached_prompt_fraction is not None,
        )
        rates[name] = models[known].mean_rate_rps
    for name, here in series.items():
        pairs = {other: correlation(here, there) for other, there in series.items() if other != name}
        found[name] = replace(found[name], correlations=pairs)
    figures = {each.name: each for each in profile_figures(profile, as_of=as_of)}
    return Traffic(source=source, profile=profile, classes=found, mean_rates_rps=rates, figures=figures)


def _part(profile: Profile, known: str) -> PartProfile:
    return next((group.profile for group in profile.of("class") if group.name == known), profile.whole)


def _outcomes(part: PartProfile) -> ClassOutcomes | None:
    """How requests of the log ended. Of a cancelled answer it has the tokens that were written."""
    found = part.outcomes
    if found is None or not found.known_count:
        return None
    return ClassOutcomes(
        refused_fraction=found.refused_fraction,
        failed_fraction=found.failed_fraction - found.refused_fraction,
        cancelled_fraction=found.cancelled_fraction,
    )
