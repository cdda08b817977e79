"""Logs of minutes: what they say goes into a plan, what they cannot say is assumed by name."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ullage import verbs
from ullage.errors import Rejection
from ullage.evidence import Assumption, Evidence, Source, walk
from ullage.readers.traces.open import open_trace
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand, forecast_demand
from ullage.workload.demand.stated import StatedShape
from ullage.workload.demand.traffic import Traffic, traffic_of
from ullage.workload.forecast.short_trace import RATE_DEVIATION, short_deviation
from ullage.workload.profile.profile import profile
from ullage.workload.synthetic.builtin import builtin
from ullage.workload.synthetic.model import SyntheticModel, synthesised
from ullage.workload.trace import Trace

AS_OF = datetime.date(2026, 11, 15)
HORIZON_S = 30 * 86_400.0
USER = Source(what="a test", where="tests", date=AS_OF)
CHAT = replace(builtin().named("chat"), mean_rate_rps=2.0)


def log(folder: Path, minutes: float) -> Path:
    """A log of the built-in chat class, as a table that any service could write."""
    model = SyntheticModel(classes=(CHAT,))
    stream = synthesised(model, span_s=60.0 * minutes, rng=np.random.default_rng(0), start_s=10 * 3600.0)
    path = folder / "log.csv"
    rows = np.column_stack([stream.arrival_ps / 1e12, stream.prompt_tokens, stream.output_tokens])
    np.savetxt(path, rows, fmt=["%.6f", "%d", "%d"], delimiter=",", header="arrival_s,prompt_tokens,output_tokens",
               comments="")  # fmt: skip
    return path


def traffic(path: Path) -> Traffic:
    trace = open_trace([str(path)])
    assert isinstance(trace, Trace)
    return traffic_of(
        profile(trace),
        ["chat"],
        horizon_s=HORIZON_S,
        percentile_fraction=0.95,
        as_of=AS_OF,
        rng=np.random.default_rng(0),
    )


def given(name: str, value: float, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=USER)


@dataclass(frozen=True, kw_only=True)
class Stated:
    request_class: RequestClass
    mean_rate: Assumption
    longest_context: Assumption
    shape: StatedShape | None


def demand(found: Traffic, *, percentile: float = 0.95, shape: StatedShape | None = None) -> Demand:
    chat = Stated(
        request_class=RequestClass(name="chat", slos=()),
        mean_rate=given("chat.mean_rate", 1.0, "req/s"),
        longest_context=given("chat.longest_context", 16_384, "tokens"),
        shape=shape,
    )
    return forecast_demand(
        (chat,),
        horizon=given("horizon", HORIZON_S, "s"),
        percentile=given("percentile", percentile, "fraction"),
        measured=found.classes,
    )


def test_twenty_minutes_give_rate_lengths_and_bursts_and_borrow_the_rest(tmp_path: Path) -> None:
    found = traffic(log(tmp_path, 20.0))
    measured = found.classes["chat"]
    assert measured.forecast is None
    asked = demand(found)
    (chat,) = asked.classes
    assert chat.model.season == CHAT.season
    assert chat.model.weekly_growth_fraction == CHAT.weekly_growth_fraction
    assert chat.model.lengths == measured.model.lengths
    assert chat.model.bursts == measured.model.bursts
    assert chat.mean_rps == pytest.approx(found.mean_rates_rps["chat"] * 1.01 ** (30 / 14), rel=1e-6)
    assert chat.mean_rps < chat.planning_rps < chat.peak_minute_rps


def test_what_is_borrowed_is_named_and_the_weakest_word_wins(tmp_path: Path) -> None:
    figures = demand(traffic(log(tmp_path, 20.0))).figures
    planning = figures["demand.chat.planning_rate"]
    assert planning.evidence is Evidence.ASSUMED
    assert figures["demand.chat.prompt_p95"].evidence is Evidence.MEASURED
    named = {each.name: each for _, each in walk(planning) if isinstance(each, Assumption)}
    for name in ("chat.peak_hour_ratio", "chat.weekly_growth", "chat.rate_deviation"):
        assert named[name].evidence is Evidence.ASSUMED


def test_the_trace_says_that_it_is_too_short(tmp_path: Path) -> None:
    (said,) = [each for each in traffic(log(tmp_path, 20.0)).notes if "too short to forecast" in each]
    assert "The log of chat is 20 minutes long" in said
    assert "season and growth are assumed" in said


def test_what_is_stated_takes_the_place_of_what_would_be_borrowed(tmp_path: Path) -> None:
    found = traffic(log(tmp_path, 20.0))
    stated = StatedShape(peak_hour=given("chat.peak_hour_ratio", 1.0, "ratio"),
                         weekly_growth=given("chat.weekly_growth", 0.0, "fraction"))  # fmt: skip
    (chat,) = demand(found, percentile=0.5, shape=stated).classes
    assert chat.planning_rps == pytest.approx(found.mean_rates_rps["chat"])
    assert chat.planning_rps < demand(found, percentile=0.5).classes[0].planning_rps


def test_an_event_is_planned_for_beside_a_short_log_too(tmp_path: Path) -> None:
    found = traffic(log(tmp_path, 20.0))
    launch = StatedShape(events=(given("event.launch.demand_ratio", 3.0, "ratio"),), event_spans_s=((0.0, HORIZON_S),))
    (chat,), (usual,) = demand(found, shape=launch).classes, demand(found).classes
    assert chat.planning_rps == pytest.approx(3.0 * usual.planning_rps)


def test_the_shorter_the_log_the_wider_the_band_of_its_hour() -> None:
    season = np.array(CHAT.season)
    warnings = [short_deviation(season, hours * 3600.0) for hours in (1 / 3, 3, 11, 24, 168)]
    assert all(wide >= narrow for wide, narrow in pairwise(warnings))
    assert warnings[0] == pytest.approx(np.hypot(RATE_DEVIATION, np.log(season).std()))
    assert warnings[-1] == pytest.approx(RATE_DEVIATION)


@pytest.mark.slow
def test_enough_steps_are_forecast_as_ever(tmp_path: Path) -> None:
    found = traffic(log(tmp_path, 16 * 60.0)).classes["chat"]
    assert found.forecast is not None
    assert found.anomalies == found.forecast.anomalies


PLAN = """
version: 1
service: a short log
dated: 2026-11-15
workload:
  trace: [{trace}]
  classes: [{{name: chat, longest_context: 16384, slo: {{ttft_p95: 5s}}}}]
pool: {{model: llama-3.1-8b, device: h100-sxm, approved_concurrency: 2}}
"""


@pytest.mark.slow
def test_a_plan_is_made_from_twenty_minutes(tmp_path: Path) -> None:
    log(tmp_path, 20.0)
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.format(trace="log.csv"))
    found = verbs.plan(file, as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection)
    assert found.find("demand.chat.planning_rate").evidence is Evidence.ASSUMED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["azure2023_conv", "mooncake_conversation"])
def test_published_traces_of_an_hour_or_less_give_a_plan(name: str, tmp_path: Path, shared_data: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.format(trace=shared_data / "traces" / f"{name}.parquet"))
    found = verbs.plan(file, as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection)
    assert found.find("demand.chat.prompt_p95").evidence is Evidence.MEASURED
