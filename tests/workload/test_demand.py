"""The demand stage: figures that walk back to sources, laws between them, and a stream of the same numbers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.demand_laws import hourly, known_law
from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source, walk
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand, MeasuredClass, forecast_demand
from ullage.workload.demand.stated import StatedShape
from ullage.workload.forecast.forecast import forecast
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import synthesised

SOURCE = Source(what="a test", where="tests", date=datetime.date(2026, 11, 15))


def given_input(name: str, value: float, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


@dataclass(frozen=True, kw_only=True)
class Stated:
    request_class: RequestClass
    mean_rate: Assumption
    longest_context: Assumption
    shape: StatedShape | None = None


def stated(name: str, rate_rps: float, longest_tokens: int) -> Stated:
    return Stated(
        request_class=RequestClass(name=name, slos=()),
        mean_rate=given_input(f"{name}.mean_rate", rate_rps, "req/s"),
        longest_context=given_input(f"{name}.longest_context", longest_tokens, "tokens"),
    )


EXAMPLE = (stated("chat", 20.0, 16_384), stated("coding", 4.0, 32_768))


def demand(
    classes: tuple[Stated, ...] = EXAMPLE, days: float = 30.0, percentile: float = 0.95, **more: object
) -> Demand:
    return forecast_demand(
        classes,
        horizon=given_input("horizon", days * 86_400.0, "s"),
        percentile=given_input("percentile", percentile, "fraction"),
        **more,  # type: ignore[arg-type]
    )


def test_every_figure_ends_in_sources_and_says_that_its_shape_is_assumed() -> None:
    found = demand()
    assert {"demand.planning_rate", "demand.chat.peak_minute", "demand.coding.prompt_p99"} <= set(found.figures)
    for name, figure in found.figures.items():
        assert figure.name == name
        assert any(isinstance(each, Source) for _, each in walk(figure))
        assert figure.evidence is Evidence.ASSUMED


def test_mean_hour_and_minute_rise_in_this_order() -> None:
    for each in demand().classes:
        assert each.mean_rps < each.planning_rps < each.peak_minute_rps


def test_the_total_is_one_hour_not_the_sum_of_peaks() -> None:
    found = demand()
    largest = max(each.planning_rps for each in found.classes)
    assert largest < found.planning_rps <= sum(each.planning_rps for each in found.classes) + 1e-9


@pytest.mark.slow
@given(factor=st.floats(1.0, 50.0), days=st.floats(1.0, 90.0), percentile=st.floats(0.5, 0.99))
def test_more_traffic_a_longer_horizon_and_more_caution_never_plan_for_less(
    factor: float, days: float, percentile: float
) -> None:
    base = demand(days=days, percentile=percentile)
    more = demand((stated("chat", 20.0 * factor, 16_384), EXAMPLE[1]), days=days, percentile=percentile)
    assert more.planning_rps >= base.planning_rps
    assert more.classes[0].planning_rps == pytest.approx(factor * base.classes[0].planning_rps)
    assert demand(days=days + 7.0, percentile=percentile).planning_rps >= base.planning_rps
    assert demand(days=days, percentile=percentile + 0.005).planning_rps >= base.planning_rps


@pytest.mark.parametrize(("name", "longest_tokens"), [("support", 4_096), ("agents", 131_072), ("chat", 2_048)])
def test_a_class_of_any_name_borrows_a_shape_that_fits_its_context(name: str, longest_tokens: int) -> None:
    found = demand((stated(name, 3.0, longest_tokens),))
    stream = synthesised(found.busy_model, span_s=3600.0, rng=np.random.default_rng(0))
    assert int((stream.prompt_tokens.astype(np.int64) + stream.output_tokens).max()) <= longest_tokens
    assert max(each.longest_context_tokens for each in found.classes) == longest_tokens


def test_the_busy_stream_has_the_planning_rate_and_the_bursts_of_its_class() -> None:
    found = demand()
    stream = synthesised(found.busy_model, span_s=6 * 3600.0, rng=np.random.default_rng(1))
    assert stream.class_names == ("chat", "coding")
    for each in found.classes:
        counts = stream.of_class(each.name).counts(60.0)
        assert counts.mean() / 60.0 == pytest.approx(each.planning_rps, rel=0.06)
        wanted = float(found.figures[f"demand.{each.name}.minute_dispersion"].value)
        assert counts.var() / counts.mean() == pytest.approx(wanted, rel=0.35)


def test_a_trace_takes_the_place_of_what_is_assumed() -> None:
    history = forecast(hourly(known_law(0, 8)), horizon_s=7 * 86_400.0, rng=np.random.default_rng(0))
    model = replace(builtin().named("chat"), mean_rate_rps=history.mean)
    found = demand(measured={"chat": MeasuredClass(forecast=history, model=model, source=SOURCE)})
    chat, coding = found.classes
    assert chat.planning_rps == pytest.approx(history.planning(0.95))
    assert found.figures["demand.chat.planning_rate"].evidence is Evidence.MEASURED
    assert found.figures["demand.coding.planning_rate"].evidence is Evidence.ASSUMED
    assert coding.planning_rps == demand().classes[1].planning_rps


def measured_pair(correlated: float) -> dict[str, MeasuredClass]:
    history = forecast(hourly(known_law(0, 8)), horizon_s=7 * 86_400.0, rng=np.random.default_rng(0))
    pair = {}
    for name, other in (("chat", "coding"), ("coding", "chat")):
        model = replace(builtin().named("chat"), name=name, mean_rate_rps=history.mean)
        pair[name] = MeasuredClass(forecast=history, model=model, source=SOURCE, correlations={other: correlated})
    return pair


def test_the_total_of_measured_classes_follows_their_correlation() -> None:
    """With one season and one margin: m + m + d sqrt(2 + 2r), which is the sum of the rates at r = 1."""
    totals = {}
    for correlated in (0.0, 0.5, 1.0):
        found = demand(measured=measured_pair(correlated))
        chat, coding = found.classes
        above = chat.planning_rps - chat.middle_rps
        wanted = chat.middle_rps + coding.middle_rps + above * np.sqrt(2.0 + 2.0 * correlated)
        assert found.planning_rps == pytest.approx(wanted)
        assert f"{correlated:.2f}" in found.figures["demand.planning_rate"].formula
        totals[correlated] = found.planning_rps
    assert totals[0.0] < totals[0.5] < totals[1.0] == pytest.approx(chat.planning_rps + coding.planning_rps)


def test_a_planning_rate_far_beyond_the_record_is_assumed() -> None:
    found = measured_pair(1.0)
    forecast_ = found["chat"].forecast
    assert forecast_ is not None
    wild = replace(forecast_, block_peaks=forecast_.block_peaks * 4.0)
    figures = demand(measured={**found, "chat": replace(found["chat"], forecast=wild)}).figures
    assert figures["demand.chat.planning_rate"].evidence is Evidence.ASSUMED
    assert figures["demand.coding.planning_rate"].evidence is Evidence.MEASURED


def test_no_traffic_is_refused() -> None:
    with pytest.raises(InputError, match=r"chat\.mean_rate = 0"):
        demand((stated("chat", 0.0, 16_384),))


def shaped(growth: float, *events: tuple[float, float]) -> Stated:
    """Chat with this weekly growth and events, each a ratio and the day of the horizon by which its one day is over."""
    shape = StatedShape(
        weekly_growth=given_input("chat.weekly_growth", growth, "fraction"),
        events=tuple(given_input(f"event.{at}.demand_ratio", ratio, "ratio") for at, (ratio, _) in enumerate(events)),
        event_spans_s=tuple(((days - 1.0) * 86_400.0, days * 86_400.0) for _, days in events),
    )
    return replace(stated("chat", 20.0, 16_384), shape=shape)


def busiest_rps(growth: float, *events: tuple[float, float], days: float = 30.0) -> float:
    (chat,) = demand((shaped(growth, *events),), days=days).classes
    return chat.planning_rps


@pytest.mark.parametrize("growth", [-0.02, -0.2])
def test_traffic_that_shrinks_is_busiest_today_and_planned_for_as_today(growth: float) -> None:
    assert busiest_rps(growth, days=365.0) == pytest.approx(busiest_rps(0.0))


def test_a_longer_horizon_never_plans_for_less() -> None:
    for growth in (-0.1, 0.0, 0.1):
        rates = [busiest_rps(growth, (1.5, 20.0), days=days) for days in (20.0, 30.0, 90.0)]
        assert rates == sorted(rates)


def test_an_event_is_multiplied_by_what_has_grown_until_it_ends() -> None:
    flat = busiest_rps(0.0, days=70.0)
    assert busiest_rps(0.1, (3.0, 14.0), days=70.0) == pytest.approx(flat * 3.0 * 1.1**2)
    # Ten weeks of growth are more than a small event in the second.
    assert busiest_rps(0.1, (1.2, 14.0), days=70.0) == pytest.approx(flat * 1.1**10)


def test_an_event_of_traffic_that_shrinks_is_planned_at_the_height_of_its_first_day() -> None:
    flat = busiest_rps(0.0, days=70.0)
    assert busiest_rps(-0.1, (3.0, 15.0), days=70.0) == pytest.approx(flat * 3.0 * 0.9**2)
    # After eight weeks what is left of an event lies below today.
    assert busiest_rps(-0.2, (3.0, 57.0), days=70.0) == pytest.approx(flat)
