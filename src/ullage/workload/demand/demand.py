"""Demand: the load on the fleet by class, at the planning percentile.

What a user states is a mean rate and a longest context. Everything else about the traffic (season, growth, bursts,
lengths, sessions) comes from what was measured, or, where nothing was, from the built-in profile, and then says
`assumed`. The stage hands over figures for the plan and streams for the simulator, from the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Protocol

import numpy as np

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, number, weakened
from ullage.workload.anomalies import Anomaly
from ullage.workload.classes import RequestClass
from ullage.workload.demand.ageing import drifted_rps
from ullage.workload.demand.outcomes import ALL_SUCCEED, ClassOutcomes
from ullage.workload.demand.rate import check_rate
from ullage.workload.demand.stand_in import LentAssumption, built_in_like, fitting_lengths
from ullage.workload.demand.stated import BorrowedLengths, StatedShape, with_lengths
from ullage.workload.forecast.forecast import Forecast, peak_minute_rps
from ullage.workload.forecast.short_trace import RATE_DEVIATION, short_deviation, too_short
from ullage.workload.forecast.together import busiest_together
from ullage.workload.synthetic.builtin import SOURCE
from ullage.workload.synthetic.model import (
    HOURS_PER_WEEK,
    WEEK_S,
    ClassModel,
    ReuseModel,
    SessionModel,
    SyntheticModel,
)
from ullage.workload.synthetic.whatif import traffic

_PERCENTILES = (0.5, 0.95, 0.99)


class StatedClass(Protocol):
    """What a plan knows about a class before any traffic is read."""

    @property
    def request_class(self) -> RequestClass: ...
    @property
    def mean_rate(self) -> Assumption: ...
    @property
    def longest_context(self) -> Assumption: ...
    @property
    def shape(self) -> StatedShape | None: ...


@dataclass(frozen=True, kw_only=True)
class MeasuredClass:
    """The measurements of a class by its trace: its forecast, the model fitted to it, and where both come from.

    A trace of `logged_s` seconds that is too short to forecast from has no forecast; its model still has the rate, the
    lengths and the bursts, and season and growth are then borrowed. One without lengths has them from elsewhere.
    `correlations` says how far the errors of other classes go the same way, by their names.
    """

    forecast: Forecast | None
    model: ClassModel
    source: Source
    logged_s: float = math.inf
    lengths_from: BorrowedLengths | None = None
    outcomes: ClassOutcomes | None = None
    knows_reuse: bool = True
    correlations: Mapping[str, float] = field(default_factory=dict)

    @property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """Anomalies of the log that make this class's demand less reliable."""
        return self.forecast.anomalies if self.forecast is not None else (too_short(self.model.name, self.logged_s),)

    def times(self, ratio: float) -> MeasuredClass:
        """The traffic of so many times the users."""
        (model,) = traffic(ratio)(SyntheticModel(classes=(self.model,))).classes
        forecast = None if self.forecast is None else self.forecast.times(ratio)
        return replace(self, forecast=forecast, model=model)


@dataclass(frozen=True, kw_only=True)
class ClassTraffic:
    """One class over the horizon: its mean, the busiest hour that is planned for, and the busiest minute inside it.

    `middle_rps` is the median of the busiest hour. `correlations` says how far it and other classes, by
    name, are above theirs together; a class that is not named there is taken to be so always. `model` draws its
    ordinary traffic, at the mean rate with its season.
    """

    name: str
    mean_rps: float
    middle_rps: float
    planning_rps: float
    peak_minute_rps: float
    longest_context_tokens: int
    model: ClassModel
    figures: Mapping[str, Figure]
    outcomes: ClassOutcomes = ALL_SUCCEED
    correlations: Mapping[str, float] = field(default_factory=dict)

    @property
    def busy_model(self) -> ClassModel:
        """The busiest hour, repeated: the planning rate without a season, with the class's bursts."""
        calmer = tuple(each * self.model.mean_rate_rps / self.planning_rps for each in self.model.bursts.variances)
        return replace(
            self.model,
            mean_rate_rps=self.planning_rps,
            season=(1.0,) * HOURS_PER_WEEK,
            weekly_growth_fraction=0.0,
            bursts=replace(self.model.bursts, variances=calmer),
        )


@dataclass(frozen=True, kw_only=True)
class Demand:
    """All classes together. The total is that of one hour, at the percentile: classes whose hours differ do not add up
    at their peaks, nor do those whose errors do."""

    classes: tuple[ClassTraffic, ...]
    planning_rps: float
    horizon_s: float
    figures: Mapping[str, Figure]

    @property
    def model(self) -> SyntheticModel:
        """Ordinary traffic, a week with its season."""
        return SyntheticModel(classes=tuple(each.model for each in self.classes))

    @property
    def busy_model(self) -> SyntheticModel:
        """Every class at its own planning rate at once: what a fleet is sized for."""
        return SyntheticModel(classes=tuple(each.busy_model for each in self.classes))


def forecast_demand(
    stated: Sequence[StatedClass],
    *,
    horizon: Assumption,
    percentile: Assumption,
    measured: Mapping[str, MeasuredClass] | None = None,
) -> Demand:
    """Every class at the planning percentile of the horizon's busiest hour.

    `measured` maps class names to the measurements of a trace; a class that is not in it takes its shape from the
    built-in profile at the rate that was stated.
    """
    if not 0.0 < number(percentile) < 1.0:
        raise InputError(
            field=percentile.name,
            value=percentile.value,
            problem="must lie strictly between 0 and 1: no rate is certain never to be exceeded",
            fix="Give for example 95%.",
        )
    found = measured or {}
    classes = tuple(
        completed(
            _measured(each, found[each.request_class.name], horizon, percentile)
            if each.request_class.name in found
            else _from_statement(each, horizon, percentile),
            each.shape or StatedShape(),
            found.get(each.request_class.name),
        )
        for each in stated
    )
    total = _total(classes, horizon, percentile)
    check_rate(total.name, float(total.value))
    tokens = Figure(
        name="demand.token_rate",
        value=sum(_value(each, "token_rate") for each in classes),
        unit="tokens/s",
        formula="sum of the classes' prompt and output tokens in their busiest hours",
        inputs=tuple(_figure(each, "token_rate") for each in classes),
    )
    return Demand(
        classes=classes,
        planning_rps=float(total.value),
        horizon_s=number(horizon),
        figures=_by_name(total, tokens, *(figure for each in classes for figure in each.figures.values())),
    )


def _from_statement(stated: StatedClass, horizon: Assumption, percentile: Assumption) -> ClassTraffic:
    name = stated.request_class.name
    mean_rps, longest = number(stated.mean_rate), int(number(stated.longest_context))
    if mean_rps <= 0.0:
        raise InputError(
            field=stated.mean_rate.name,
            value=mean_rps,
            problem="must be greater than 0",
            fix="Give for example 20 req/s.",
        )
    shape = stated.shape or StatedShape()
    like = shape.model or built_in_like(name, longest)
    model = replace(like, name=name, mean_rate_rps=mean_rps, lengths=fitting_lengths(like.lengths, longest))
    if shape.prompt is not None or shape.output is not None:
        model = with_lengths(model, shape, longest_tokens=longest)
    assumed = LentAssumption(name, like.name)
    peak = shape.peak_hour or assumed(
        "peak_hour_ratio", max(model.season) / float(np.mean(model.season)), "ratio", 1.0, 6.0
    )
    growth = shape.weekly_growth or assumed("weekly_growth", model.weekly_growth_fraction, "fraction", -0.02, 0.05)
    deviation = assumed("rate_deviation", RATE_DEVIATION, "ratio", 0.05, 0.5)
    weeks = number(horizon) / WEEK_S
    score = NormalDist().inv_cdf(number(percentile))
    busiest = shape.busiest(number(growth), number(horizon))
    middle_rps = mean_rps * number(peak) * busiest.ratio
    planning_rps = drifted_rps(
        middle_rps, middle_rps * math.exp(score * RATE_DEVIATION), number(percentile), shape.drift, shape.band
    )
    check_rate(f"demand.{name}.planning_rate", planning_rps)
    planning = Figure(
        name=f"demand.{name}.planning_rate",
        value=planning_rps,
        unit="req/s",
        formula=f"mean rate x peak hour x {busiest.formula} x exp(z(percentile) x deviation){_with_drift(shape)}",
        inputs=(stated.mean_rate, peak, growth, horizon, percentile, deviation, *busiest.events, *shape.widened),
    )
    mean = Figure(
        name=f"demand.{name}.mean_rate",
        value=mean_rps * ((1.0 + number(growth)) ** (weeks / 2.0)),
        unit="req/s",
        formula="mean rate x (1 + weekly growth)^(weeks / 2)",
        inputs=(stated.mean_rate, growth, horizon),
    )
    model = replace(model, weekly_growth_fraction=number(growth))
    own = shape.model is not None and shape.model_source is not None
    return _traffic(
        stated,
        model,
        mean,
        planning,
        middle_rps=middle_rps,
        source=shape.model_source if own and shape.model_source is not None else SOURCE,
        evidence=Evidence.STATED if own else Evidence.ASSUMED,
    )


def _from_short_trace(
    stated: StatedClass, found: MeasuredClass, horizon: Assumption, percentile: Assumption
) -> ClassTraffic:
    """The rate, lengths and bursts of the log; the season and the growth of the built-in class that is most alike."""
    name, shape = stated.request_class.name, stated.shape or StatedShape()
    like = built_in_like(name, int(number(stated.longest_context)))
    assumed = LentAssumption(name, like.name)
    season = np.array(like.season) / np.mean(like.season)
    peak = shape.peak_hour or assumed("peak_hour_ratio", float(season.max()), "ratio", 1.0, 6.0)
    growth = shape.weekly_growth or assumed("weekly_growth", like.weekly_growth_fraction, "fraction", -0.02, 0.05)
    deviation = assumed("rate_deviation", short_deviation(season, found.logged_s), "ratio", 0.05, 1.0)
    logged = Figure(
        name=f"demand.{name}.logged_rate",
        value=found.model.mean_rate_rps,
        unit="req/s",
        sources=(found.source,),
        own_evidence=_known(shape),
    )
    weeks = number(horizon) / WEEK_S
    score = NormalDist().inv_cdf(number(percentile))
    busiest = shape.busiest(number(growth), number(horizon))
    middle_rps = float(logged.value) * number(peak) * busiest.ratio
    planning = Figure(
        name=f"demand.{name}.planning_rate",
        value=drifted_rps(
            middle_rps, middle_rps * math.exp(score * number(deviation)), number(percentile), shape.drift, shape.band
        ),
        unit="req/s",
        formula=f"logged rate x peak hour x {busiest.formula} x exp(z(percentile) x deviation){_with_drift(shape)}",
        inputs=(logged, peak, growth, horizon, percentile, deviation, *busiest.events, *shape.widened),
    )
    mean = Figure(
        name=f"demand.{name}.mean_rate",
        value=float(logged.value) * (1.0 + number(growth)) ** (weeks / 2.0),
        unit="req/s",
        formula="logged rate x (1 + weekly growth)^(weeks / 2), the log treated as an average hour",
        inputs=(logged, growth, horizon),
    )
    model = replace(found.model, season=like.season, weekly_growth_fraction=number(growth))
    return _traffic(
        stated, model, mean, planning, middle_rps=middle_rps, source=found.source, evidence=Evidence.MEASURED
    )


def _from_trace(stated: StatedClass, found: MeasuredClass, horizon: Assumption, percentile: Assumption) -> ClassTraffic:
    name, forecast = stated.request_class.name, found.forecast
    if forecast is None:
        return _from_short_trace(stated, found, horizon, percentile)
    shape = stated.shape or StatedShape()
    middle_rps = forecast.planning(0.5)
    planning = Figure(
        name=f"demand.{name}.planning_rate",
        value=drifted_rps(
            middle_rps, forecast.planning(number(percentile)), number(percentile), shape.drift, shape.band
        ),
        unit="req/s",
        formula=f"the busiest step of the horizon at the percentile, forecast by {forecast.model}{_with_drift(shape)}",
        inputs=(horizon, percentile, *shape.widened),
        sources=(found.source,),
        # Far above anything on record, it rests on what was assumed of growth and of levels, not on the record.
        own_evidence=_known(shape) if forecast.defensible(number(percentile)) else Evidence.ASSUMED,
    )
    mean = Figure(
        name=f"demand.{name}.mean_rate",
        value=forecast.mean,
        unit="req/s",
        formula="mean over the horizon of the forecast's median",
        inputs=(horizon,),
        sources=(found.source,),
        own_evidence=_known(shape),
    )
    traffic = _traffic(
        stated,
        found.model,
        mean,
        planning,
        middle_rps=middle_rps,
        source=found.source,
        evidence=Evidence.MEASURED,
    )
    return replace(traffic, correlations=found.correlations)


def _known(shape: StatedShape) -> Evidence:
    """How a trace's rate is known: measured, or an estimate where it is past its maximum age."""
    return Evidence.MEASURED if shape.drift is None else weakened(Evidence.MEASURED)


def _with_drift(shape: StatedShape) -> str:
    scored = "" if shape.band is None else ", the deviation scaled by scores of earlier forecasts"
    return scored if shape.drift is None else f"{scored}, the deviation plus its drift, in squares"


def _traffic(
    stated: StatedClass,
    model: ClassModel,
    mean: Figure,
    planning: Figure,
    *,
    middle_rps: float,
    source: Source,
    evidence: Evidence,
) -> ClassTraffic:
    """What follows from the rates, whichever way they were found."""
    name = stated.request_class.name
    planning_rps = float(planning.value)

    shape = stated.shape or StatedShape()
    stated_lengths = shape.lengths if evidence is not Evidence.MEASURED else {}
    if shape.has_old_lengths:
        evidence = weakened(evidence)

    def read(what: str, value: float, unit: str) -> Figure:
        return Figure(name=f"demand.{name}.{what}", value=value, unit=unit, sources=(source,), own_evidence=evidence)

    def length(what: str, value: float, sides: tuple[str, ...]) -> Figure:
        if not all(stated_lengths.get(side) for side in sides):
            return read(what, value, "tokens")
        return Figure(
            name=f"demand.{name}.{what}",
            value=value,
            unit="tokens",
            formula="of the distribution through the stated percentiles",
            inputs=tuple(each for side in sides for each in stated_lengths[side]),
        )

    # Dispersion belongs to the users, not to their number: it is that of the model at its own rate.
    dispersion = Figure(
        name=f"demand.{name}.minute_dispersion",
        value=model.bursts.dispersion(60.0, model.mean_rate_rps),
        unit="ratio",
        formula="variance over mean of the requests of a minute, at the mean rate",
        inputs=(stated.mean_rate,),
        sources=(source,),
        own_evidence=evidence,
    )
    minute = Figure(
        name=f"demand.{name}.peak_minute",
        value=peak_minute_rps(planning_rps, float(dispersion.value)),
        unit="req/s",
        formula="median of the largest of 60 minutes whose counts have this mean and dispersion",
        inputs=(planning, dispersion),
    )
    prompts, outputs = model.lengths.pairs()
    request = length("request_tokens", float(prompts.mean() + outputs.mean()), ("prompt", "output"))
    tokens = Figure(
        name=f"demand.{name}.token_rate",
        value=planning_rps * float(request.value),
        unit="tokens/s",
        formula="planning rate x mean tokens of prompt and output",
        inputs=(planning, request),
    )
    lengths = tuple(
        length(f"{what}_p{100 * fraction:g}", float(np.quantile(column, fraction)), (what,))
        for what, column in (("prompt", prompts), ("output", outputs))
        for fraction in _PERCENTILES
    )
    return ClassTraffic(
        name=name,
        mean_rps=float(mean.value),
        middle_rps=middle_rps,
        planning_rps=planning_rps,
        peak_minute_rps=float(minute.value),
        longest_context_tokens=int(number(stated.longest_context)),
        model=model,
        figures=_by_name(planning, minute, mean, tokens, request, dispersion, *lengths),
    )


def total_rps(classes: Sequence[ClassTraffic]) -> float:
    """The busiest hour of the week of these classes together, each as far above its middle as their errors agree."""
    pairs = [[1.0 if one is other else one.correlations.get(other.name, 1.0) for other in classes] for one in classes]
    return busiest_together(
        np.array([each.middle_rps for each in classes]),
        np.array([each.planning_rps for each in classes]),
        np.array([each.model.season for each in classes]),
        np.array(pairs),
    )


def together_formula(classes: Sequence[ClassTraffic], which: str) -> str:
    """How the total came about, with the correlations that were measured."""
    names = [each.name for each in classes]
    known = [
        f"{one.name} and {other} {one.correlations[other]:.2f}"
        for at, one in enumerate(classes)
        for other in names[at + 1 :]
        if other in one.correlations
    ]
    measured = f"measured correlation of {', '.join(known)}" if known else "all at their planning margins at once"
    return f"the busiest hour of the week of {which}: {measured}"


def _total(classes: Sequence[ClassTraffic], horizon: Assumption, percentile: Assumption) -> Figure:
    return Figure(
        name="demand.planning_rate",
        value=total_rps(classes),
        unit="req/s",
        formula=together_formula(classes, "all classes together"),
        inputs=(*(_figure(each, "planning_rate") for each in classes), horizon, percentile),
    )


def _measured(stated: StatedClass, found: MeasuredClass, horizon: Assumption, percentile: Assumption) -> ClassTraffic:
    """A class of a trace. Where the trace has no lengths, those that were stated or borrowed come with their source."""
    origin, shape = found.lengths_from, stated.shape or StatedShape()
    if origin is None:
        return _from_trace(stated, found, horizon, percentile)
    longest = int(number(stated.longest_context))
    model = replace(found.model, lengths=fitting_lengths(found.model.lengths, longest))
    if shape.prompt is not None or shape.output is not None:
        model = with_lengths(model, shape, longest_tokens=longest)
    traffic = _from_trace(stated, replace(found, model=model), horizon, percentile)
    figures = dict(traffic.figures)
    for key, figure in traffic.figures.items():
        what = key.removeprefix(f"demand.{traffic.name}.")
        sides = ("prompt", "output") if what == "request_tokens" else (what.partition("_p")[0],)
        if what != "request_tokens" and not (sides[0] in shape.lengths and "_p" in what):
            continue
        given = tuple(each for side in sides for each in shape.lengths[side])
        is_stated = all(shape.lengths[side] for side in sides)
        figures[key] = replace(
            figure,
            sources=() if is_stated else (origin.source,),
            own_evidence=None if is_stated else origin.evidence,
            formula="of the distribution through the stated percentiles" if given else "",
            inputs=given,
        )
    rate = figures[f"demand.{traffic.name}.token_rate"]
    request = figures[f"demand.{traffic.name}.request_tokens"]
    figures[rate.name] = replace(
        rate, inputs=tuple(request if each.name == request.name else each for each in rate.inputs)
    )
    return replace(traffic, figures=figures)


# ---- what is reused, how requests end, who sends them ------------------------------------------------------------

_NOT_LOGGED = replace(SOURCE, what="neither logged nor stated: no reuse assumed")
_NO_OUTCOMES = replace(SOURCE, what="no outcome is logged or stated: every answer in time counts")


def completed(traffic: ClassTraffic, shape: StatedShape, found: MeasuredClass | None) -> ClassTraffic:
    """The class with its users' week, its cached share, and what its ends leave of it for the engine."""
    model = traffic.model
    if shape.users is not None:
        sessions = SessionModel(mean_turns=number(shape.users.turns), mean_think_s=number(shape.users.think))
        model = replace(model, season=shape.users.season, sessions=sessions)
    if shape.cached is not None:
        share = (number(shape.cached),) * 2
        model = replace(model, reuse=ReuseModel(first_turn_fractions=share, later_turn_fractions=share))
    stated = shape.outcomes
    outcomes = stated or (found.outcomes if found is not None else None) or ALL_SUCCEED
    ends = _success_figure(traffic.name, outcomes, found if stated is None else None)
    cached = _cached_figure(traffic.name, model, shape, found)
    with_ends = _reaching(replace(traffic, model=model), outcomes)
    return replace(with_ends, figures={**with_ends.figures, ends.name: ends, cached.name: cached}, outcomes=outcomes)


def _reaching(traffic: ClassTraffic, outcomes: ClassOutcomes) -> ClassTraffic:
    """Rates and answers as the engine sees them: without what was refused, and with what was cut."""
    model = outcomes.applied(traffic.model)
    if model == traffic.model:
        return traffic
    prompts, outputs = model.lengths.pairs()
    reached, name = outcomes.reached_fraction, traffic.name
    tokens = float(prompts.mean() + outputs.mean())
    values = {f"demand.{name}.{what}": _value(traffic, what) * reached
              for what in ("planning_rate", "mean_rate", "peak_minute")}  # fmt: skip
    values[f"demand.{name}.request_tokens"] = tokens
    values[f"demand.{name}.token_rate"] = values[f"demand.{name}.planning_rate"] * tokens
    for fraction in _PERCENTILES:
        values[f"demand.{name}.output_p{100 * fraction:g}"] = float(np.quantile(outputs, fraction))
    figures = {
        key: figure
        if values.get(key, figure.value) == figure.value
        else replace(
            figure,
            value=values[key],
            formula=f"{figure.formula or 'as measured'}, for requests that reach an engine and answers that are "
            "written",
            inputs=(*figure.inputs, *outcomes.inputs),
        )
        for key, figure in traffic.figures.items()
    }
    return replace(
        traffic,
        model=model,
        mean_rps=traffic.mean_rps * reached,
        planning_rps=traffic.planning_rps * reached,
        middle_rps=traffic.middle_rps * reached,
        peak_minute_rps=traffic.peak_minute_rps * reached,
        figures=figures,
    )


def _success_figure(name: str, outcomes: ClassOutcomes, found: MeasuredClass | None) -> Figure:
    is_logged = found is not None and found.outcomes is not None
    return Figure(
        name=f"demand.{name}.success_fraction",
        value=outcomes.success_fraction,
        unit="fraction",
        formula="1 - (failed + cancelled) / (1 - refused), before SLOs" if outcomes.inputs else "",
        inputs=outcomes.inputs,
        sources=() if outcomes.inputs else (found.source if is_logged and found is not None else _NO_OUTCOMES,),
        own_evidence=None if outcomes.inputs else Evidence.MEASURED if is_logged else Evidence.ASSUMED,
    )


def _cached_figure(name: str, model: ClassModel, shape: StatedShape, found: MeasuredClass | None) -> Figure:
    """The share of prompt tokens that an endless cache would hold."""
    first = 1.0 / model.sessions.mean_turns
    reuse = model.reuse
    value = first * float(np.mean(reuse.first_turn_fractions)) + (1.0 - first) * float(
        np.mean(reuse.later_turn_fractions)
    )
    if shape.cached is not None:
        return Figure(
            name=f"demand.{name}.cached_fraction",
            value=value,
            unit="fraction",
            formula="the stated share, of every prompt",
            inputs=(shape.cached,),
        )
    own = shape.model is not None and shape.model_source is not None
    if found is not None:
        measured = weakened(Evidence.MEASURED) if shape.has_old_lengths else Evidence.MEASURED
        source, evidence = (found.source, measured) if found.knows_reuse else (_NOT_LOGGED, Evidence.ASSUMED)
    elif own and shape.model_source is not None:
        source, evidence = shape.model_source, Evidence.STATED
    else:
        source, evidence = SOURCE, Evidence.ASSUMED
    return Figure(
        name=f"demand.{name}.cached_fraction", value=value, unit="fraction", sources=(source,), own_evidence=evidence
    )


def _by_name(*figures: Figure) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def _figure(traffic: ClassTraffic, what: str) -> Figure:
    return traffic.figures[f"demand.{traffic.name}.{what}"]


def _value(traffic: ClassTraffic, what: str) -> float:
    return float(_figure(traffic, what).value)
