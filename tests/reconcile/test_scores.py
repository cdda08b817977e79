"""Scores of forecasts and risks, cadence, service levels and backtests, against figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from support.kept_case import KeptCase
from support.production import Planted
from ullage.errors import InputError
from ullage.reconcile.backtest import backtest_plans
from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.expectation import FRACTIONS
from ullage.reconcile.forecast_scores import cadence, forecast_scores, risk_score, stated_risk
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


def test_a_shorter_stretch_has_a_smaller_share_of_the_stated_risk(kept: KeptCase) -> None:
    whole = 1.0 - (1.0 - kept.expected.risk_fraction) ** (14 / 30)
    assert stated_risk(kept.expected, exact(kept)) == pytest.approx(whole)


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


def test_a_backtest_knows_nothing_of_what_came_later(kept: KeptCase) -> None:
    seen = exact(kept, weeks=3.0)
    arrivals = seen.counted[ObservedQuantity.ARRIVALS].copy()
    arrivals[14 * 24 :] *= 20.0
    jumped = replace(seen, counted={**seen.counted, ObservedQuantity.ARRIVALS: arrivals})
    before, after = (backtest_plans(kept.expected, each, seed=0).rows for each in (seen, jumped))
    assert [each.mean_replicas for each in before] == [each.mean_replicas for each in after]
    assert after[0].short_hours > before[0].short_hours
