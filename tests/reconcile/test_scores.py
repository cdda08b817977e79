"""Scores of forecasts and risks, cadence, service levels and backtests, against figures worked out by hand."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from support.kept_case import TWO_CLASSES, KeptCase
from support.planned import AS_OF
from support.production import Planted
from ullage.errors import InputError
from ullage.ledger.body import EntryBody, EntryKind
from ullage.ledger.ledger import opened
from ullage.load.plan import load_plan
from ullage.planning.planned_for import planned_for
from ullage.reconcile.backtest import backtest_plans
from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.expectation import FRACTIONS, _season
from ullage.reconcile.forecast_scores import cadence, forecast_scores, risk_score, scored_band, stated_risk
from ullage.reconcile.inputs import DriftInputs, InputVerdict, ratio_by_day
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.reconcile.service_levels import Attained, shortfall_hours, slos_observed

HOUR_S = 3600.0


def exact(kept: KeptCase, ratio: float = 1.0, weeks: float = 2.0) -> Observation:
    """Demand that is the forecast's median times a ratio, to the last digit."""
    seen = kept.production.observation(Planted(), start_s=kept.start_s, weeks=weeks, seed=1)
    middle = kept.expected.quantiles_rps(seen.at_s)[:, FRACTIONS.index(0.5)]
    return replace(
        seen, counted={**seen.counted, ObservedQuantity.ARRIVALS: middle * ratio * HOUR_S}, arrivals_by_class={}
    )


@pytest.mark.slow
def test_a_forecast_that_is_off_by_a_quarter_says_so(kept: KeptCase) -> None:
    right = forecast_scores(kept.expected, exact(kept), seed=0)[0]
    assert right.wape_fraction == pytest.approx(0.0, abs=1e-9)
    assert right.coverage_fraction == 1.0
    low = forecast_scores(kept.expected, exact(kept, 1.25), seed=0)[0]
    # Forecast 1, observed 1.25: the error is a fifth of the observed demand, and the forecast was too low by it.
    assert low.wape_fraction == pytest.approx(0.2)
    assert low.bias_fraction == pytest.approx(-0.2)
    assert low.pinball_ratio > right.pinball_ratio
    # A band of 80 % at a deviation of a fifth ends at exp(1.28 / 5) = 1.29 times the median.
    assert low.coverage_fraction == 1.0
    far = forecast_scores(kept.expected, exact(kept, 1.4), seed=0)[0]
    assert far.coverage_fraction == 0.0
    assert far.is_band_too_narrow


@pytest.mark.slow
def test_a_stated_busiest_hour_is_that_of_the_expected_week() -> None:
    content = yaml.safe_load(TWO_CLASSES)
    content["workload"]["classes"][0]["peak_hour"] = 1
    content["workload"]["classes"][1]["peak_hour"] = 3
    shapes = [each.shape for each in load_plan(content, as_of=AS_OF).demands]
    built_in = (0.5, 1.0, 1.5, 1.0)
    assert _season(built_in, shapes[0]) == (1.0, 1.0, 1.0, 1.0)
    assert max(_season(built_in, shapes[1])) == pytest.approx(3.0)
    assert _season(built_in, None) == built_in


@pytest.mark.slow
def test_weeks_after_the_plan_are_scored_apart(kept: KeptCase) -> None:
    found = forecast_scores(kept.expected, exact(kept, weeks=3.0), seed=0)
    assert [each.week for each in found] == ["whole", "1", "2", "3", "4"]


def test_a_risk_is_scored_by_brier_and_the_record_moves_it() -> None:
    found = risk_score(0.1, True, [(0.1, False)] * 9)
    assert found.stretches == 10
    assert found.brier_ratio == pytest.approx((9 * 0.01 + 0.81) / 10)
    assert [(each.stretches, each.observed_fraction) for each in found.bins] == [(10, 0.1)]
    assert found.recalibrated_fraction == pytest.approx((1 + 10 * 0.1) / 20)
    surprised = risk_score(0.01, True, [(0.01, True)] * 9)
    assert surprised.recalibrated_fraction > 0.4
    assert surprised.brier_ratio > 0.9


@pytest.mark.slow
def test_a_shorter_stretch_has_a_smaller_share_of_the_stated_risk(kept: KeptCase) -> None:
    whole = 1.0 - (1.0 - kept.expected.risk_fraction) ** (14 / 30)
    assert stated_risk(kept.expected, exact(kept)) == pytest.approx(whole)


@pytest.mark.slow
def test_a_level_that_drifts_by_a_hundredth_a_day_is_looked_at_in_time(kept: KeptCase) -> None:
    seen = exact(kept)
    days = np.floor((seen.at_s - seen.start_s) / 86_400.0)
    arrivals = seen.counted[ObservedQuantity.ARRIVALS] * np.exp(0.05 * days)
    found = cadence(kept.expected, replace(seen, counted={**seen.counted, ObservedQuantity.ARRIVALS: arrivals}))
    # Two steady replicas move by one when demand is half up or down: 0.5 / 0.05 a day is ten days.
    assert kept.expected.pools[0].steady_replicas == 2
    assert found.derived_s == pytest.approx(10 * 86_400.0, rel=0.05)
    assert not found.is_too_seldom
    steady = cadence(kept.expected, exact(kept))
    assert steady.derived_s is None or steady.derived_s > 100 * 86_400.0


def of_latency(seen: Observation, quick: float, slow: float) -> Observation:
    """TTFT of every hour: so many within a quarter of a second, so many beyond ten."""
    one = BucketCounts(edges_s=(0.25, 2.5, 10.0), counts=(quick, 0.0, 0.0, slow), sum_s=quick * 0.1 + slow * 20.0)
    return replace(seen, latencies={ObservedQuantity.TTFT: (one,) * seen.steps})


@pytest.mark.slow
def test_slos_are_met_violated_or_cannot_be_told(kept: KeptCase) -> None:
    seen = exact(kept)
    met = {each.slo: each.attained for each in slos_observed(kept.expected, of_latency(seen, 990.0, 10.0))}
    assert met["ttft_p95"] is Attained.MET
    assert met["tpot_p95"] is Attained.UNDECIDED
    bad = of_latency(seen, 900.0, 100.0)
    assert {each.attained for each in slos_observed(kept.expected, bad) if each.slo == "ttft_p95"} == {
        Attained.VIOLATED
    }
    assert shortfall_hours(kept.expected, bad).violated_hours == pytest.approx(seen.steps)
    good = shortfall_hours(kept.expected, of_latency(seen, 990.0, 10.0))
    assert (good.violated_hours, good.undecided_hours) == (0.0, 0.0)
    # Nothing between 0.25 and 2.5 s is told apart, and the limit of chat is 2 s.
    between = BucketCounts(edges_s=(0.25, 2.5, 10.0), counts=(900.0, 100.0, 0.0, 0.0), sum_s=200.0)
    unclear = replace(seen, latencies={ObservedQuantity.TTFT: (between,) * seen.steps})
    assert {each.attained for each in slos_observed(kept.expected, unclear) if each.slo == "ttft_p95"} == {
        Attained.UNDECIDED
    }


@pytest.mark.slow
def test_demand_above_the_plan_is_counted_by_the_hour(kept: KeptCase) -> None:
    seen = exact(kept)
    arrivals = seen.counted[ObservedQuantity.ARRIVALS].copy()
    arrivals[:3] = 1.01 * kept.expected.planning_rps * HOUR_S
    seen = replace(seen, counted={**seen.counted, ObservedQuantity.ARRIVALS: arrivals})
    assert shortfall_hours(kept.expected, seen).above_plan_hours == 3.0


def test_a_ratio_by_day_has_an_interval_that_holds_the_truth() -> None:
    rng = np.random.default_rng(3)
    at_s = HOUR_S * np.arange(14 * 24, dtype=np.float64)
    inside = 0
    for _ in range(200):
        day = np.repeat(rng.normal(0.0, 0.05, 14), 24)
        expected = 10.0 + 3.0 * np.sin(at_s / 13_750.0)
        found = ratio_by_day(1.2 * expected * (1.0 + day), expected, at_s)
        assert found is not None
        inside += found.low <= 1.2 <= found.high
        assert found.verdict is InputVerdict.DRIFTED
    assert inside >= 180
    assert ratio_by_day(np.full(48, np.nan), np.ones(48), at_s[:48]) is None


@pytest.mark.slow
def test_a_backtest_is_short_less_often_at_a_higher_percentile(kept: KeptCase) -> None:
    seen = kept.production.observation(
        Planted(inputs=DriftInputs(traffic_ratio=6.0)), start_s=kept.start_s, weeks=5.0, seed=4
    )
    found = backtest_plans(kept.expected, seen, seed=0)
    assert found.origins == 3
    rows = found.rows
    assert [each.percentile for each in rows] == sorted(each.percentile for each in rows)
    for less, more in pairwise(rows):
        assert more.short_hours <= less.short_hours
        assert more.mean_replicas >= less.mean_replicas
        assert more.idle_fraction >= less.idle_fraction - 1e-12
        assert (more.usd or 0.0) >= (less.usd or 0.0)
    assert rows[-1].short_hours == 0
    with pytest.raises(InputError, match="too few"):
        backtest_plans(kept.expected, exact(kept, weeks=2.5), seed=0)


@pytest.mark.slow
def test_a_backtest_knows_nothing_of_what_came_later(kept: KeptCase) -> None:
    seen = exact(kept, weeks=3.0)
    arrivals = seen.counted[ObservedQuantity.ARRIVALS].copy()
    arrivals[14 * 24 :] *= 20.0
    jumped = replace(seen, counted={**seen.counted, ObservedQuantity.ARRIVALS: arrivals})
    before, after = (backtest_plans(kept.expected, each, seed=0).rows for each in (seen, jumped))
    assert [each.mean_replicas for each in before] == [each.mean_replicas for each in after]
    assert after[0].short_hours > before[0].short_hours


def kept_score(inside: float, *, reach: float = 0.05, band_ratio: float = 1.0) -> list[dict[str, object]]:
    return [
        {
            "class_name": "all",
            "week": "whole",
            "observations": 336,
            "coverage_fraction": inside,
            "coverage_low_fraction": inside - reach,
            "coverage_high_fraction": inside + reach,
            "nominal_fraction": 0.8,
            "band_ratio": band_ratio,
        }
    ]


def test_bands_become_what_they_should_have_been_and_stay_so() -> None:
    # By tables: 80 % lie within 1.2816 spreads, half within 0.6745; a band of half should have been 1.9 times as wide.
    found = scored_band([kept_score(0.5)], "chat")
    assert found is not None
    assert found.ratio == pytest.approx(1.2816 / 0.6745, rel=1e-3)
    assert found.low_ratio < found.ratio < found.high_ratio
    # Once it is as wide as that and holds what it states, it stays.
    again = scored_band([kept_score(0.8, band_ratio=found.ratio)], "chat")
    assert again is not None
    assert again.ratio == pytest.approx(found.ratio)
    # A band that may be right is left alone, and one calm stretch narrows nothing, where four do.
    assert scored_band([kept_score(0.78)], "chat") is None
    assert scored_band([kept_score(0.95, reach=0.02)], "chat") is None
    calm = scored_band([kept_score(0.95, reach=0.02)] * 4, "chat")
    assert calm is not None
    assert calm.ratio == pytest.approx(1.2816 / 1.96, rel=1e-2)
    assert scored_band([], "chat") is None


@pytest.mark.slow
def test_the_next_plan_of_a_service_has_the_band_that_scores_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    body = EntryBody(
        kind=EntryKind.FORECAST_SCORES, service="two classes", as_of="2026-11-14", summary="", about=(),
        content={"scores": kept_score(0.5)},
    )  # fmt: skip
    with opened(str(ledger), create=True) as kept_ledger:
        kept_ledger.keep_all([body], at=datetime.datetime(2026, 11, 14, tzinfo=datetime.UTC))
    content = yaml.safe_load(TWO_CLASSES)
    before = planned_for(load_plan(content, as_of=AS_OF))[1].classes[0]
    monkeypatch.setenv("ULLAGE_LEDGER", str(ledger))
    spec = load_plan(content, as_of=AS_OF)
    after = planned_for(spec)[1].classes[0]
    assert after.middle_rps == pytest.approx(before.middle_rps)
    wider = math.log(after.planning_rps / after.middle_rps) / math.log(before.planning_rps / before.middle_rps)
    shape = spec.demands[0].shape
    assert shape is not None
    assert shape.band is not None
    assert wider == pytest.approx(float(shape.band.value))
    # What was scored after the day of the plan is not known to it.
    earlier = {**content, "dated": "2026-11-01"}
    shape = load_plan(earlier, as_of=datetime.date(2026, 11, 1)).demands[0].shape
    assert shape is None or shape.band is None
