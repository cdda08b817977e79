"""Latencies, hours short, loads and replayed plans of level demand (tests/support/by_hand.py), worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.by_hand import ALONE, DAY_S, EXPECTED, HOUR_S, also, observed, one_class
from ullage.errors import InputError
from ullage.reconcile.backtest import backtest_plans
from ullage.reconcile.buckets import BucketCounts
from ullage.reconcile.expectation import ExpectedSlo
from ullage.reconcile.forecast_scores import forecast_scores, risk_score, scored_band, stated_risk
from ullage.reconcile.observation import Observation, ObservedQuantity
from ullage.reconcile.refit import _little, _load, _loads, _targets
from ullage.reconcile.service_levels import Attained, shortfall_hours, slos_observed


def slo(metric: str, limit_s: float, percentile: float = 0.95) -> ExpectedSlo:
    return ExpectedSlo(metric=metric, percentile_fraction=percentile, limit_s=limit_s)


def counted(quick: float, middle: float, slow: float) -> BucketCounts:
    """So many within a second, between one and three, and beyond."""
    return BucketCounts(edges_s=(1.0, 3.0), counts=(quick, middle, slow), sum_s=0.5 * quick + 2.0 * middle + 4.0 * slow)


def with_slos(chat: tuple[ExpectedSlo, ...], coding: tuple[ExpectedSlo, ...]) -> Any:
    classes = (one_class("chat", "small", 6.0, 0.1, slos=chat), one_class("coding", "large", 2.0, 0.3, slos=coding))
    return replace(EXPECTED, classes=classes)


def told(seen: Observation, expected: Any) -> dict[str, Attained]:
    return {f"{each.class_name} {each.slo}": each.attained for each in slos_observed(expected, seen)}


def test_an_slo_is_met_where_the_strictest_is_and_violated_where_the_loosest_is() -> None:
    both = with_slos((slo("ttft", 1.0),), (slo("ttft", 3.0),))
    plain = observed()

    def latency(*counts: float) -> Observation:
        return replace(plain, latencies={ObservedQuantity.TTFT: (counted(*counts),) * plain.steps})

    # Engines count both classes together: five in a hundred may be late.
    assert set(told(latency(95, 5, 0), both).values()) == {Attained.MET}
    assert set(told(latency(90, 5, 5), both).values()) == {Attained.UNDECIDED}
    assert set(told(latency(50, 44, 6), both).values()) == {Attained.VIOLATED}
    (first, _) = slos_observed(both, latency(90, 4, 6))
    assert (first.class_name, first.slo, first.limit_s) == ("chat", "ttft_p95", 1.0)
    assert (first.low_s, first.high_s) == (3.0, math.inf)
    assert first.beyond_low_fraction == first.beyond_high_fraction == pytest.approx(0.1)
    # Another percentile and another metric are no rivals.
    apart = with_slos((slo("ttft", 1.0), slo("ttft", 0.5, 0.5)), (slo("e2e", 3.0),))
    assert told(latency(95, 5, 0), apart)["chat ttft_p95"] is Attained.MET
    assert told(latency(95, 5, 0), apart)["coding e2e_p95"] is Attained.UNDECIDED


def test_the_mean_gap_between_tokens_stands_in_for_the_mean_of_a_request() -> None:
    expected = with_slos((slo("tpot", 1.0),), (slo("tpot", 1.0),))
    gaps = (counted(100, 0, 0),) * 168
    assert set(told(replace(observed(), latencies={ObservedQuantity.ITL: gaps}), expected).values()) == {Attained.MET}
    late = (counted(0, 0, 100),) * 168
    both = replace(observed(), latencies={ObservedQuantity.ITL: gaps, ObservedQuantity.TPOT: late})
    assert set(told(both, expected).values()) == {Attained.VIOLATED}


def test_hours_are_short_one_by_one() -> None:
    """Of a day 3 h are late, 2 cannot be told, 5 had too few requests to ask, 1 was not seen, and 13 were fine."""
    expected = with_slos((slo("ttft", 1.0),), (slo("ttft", 3.0),))
    parts = [*[counted(0, 0, 100)] * 3, *[counted(0, 100, 0)] * 2, *[counted(0, 0, 49)] * 5, None]
    parts += [counted(50, 0, 0)] * 13
    rate = np.full(24, 8.0)
    rate[:4], rate[5], rate[6] = 12.0, 12.1, np.nan
    seen = replace(
        observed(1), latencies={ObservedQuantity.TTFT: tuple(parts)},
        counted={ObservedQuantity.ARRIVALS: rate * HOUR_S},
    )  # fmt: skip
    found = shortfall_hours(expected, seen)
    assert (found.hours, found.violated_hours, found.undecided_hours) == (18.0, 3.0, 2.0)
    # Twelve are planned for.
    assert found.above_plan_hours == 1.0
    # In steps of half an hour two make an hour: 18 and 8 a second are 13 together, 15 and 8 are below 12.
    rate = np.full(48, 8.0)
    rate[0], rate[2] = 18.0, 15.0
    halves = replace(
        observed(1), step_s=HOUR_S / 2, steps=48, counted={ObservedQuantity.ARRIVALS: rate * HOUR_S / 2},
        latencies={ObservedQuantity.TTFT: (counted(0, 0, 100),) * 3},
    )  # fmt: skip
    found = shortfall_hours(expected, halves)
    assert (found.hours, found.violated_hours, found.above_plan_hours) == (1.5, 1.5, 1.0)


def test_forecasts_are_scored_whole_by_week_and_by_class() -> None:
    # 8 expected; 10 in the first week, 8 in the second: 2 of 10 and nothing, together 2 of 18.
    rate = np.repeat([10.0, 8.0], 168)
    seen = replace(
        observed(14), counted={ObservedQuantity.ARRIVALS: rate * HOUR_S},
        arrivals_by_class={"chat": np.full(336, 6.0 * HOUR_S)},
    )  # fmt: skip
    found = {(each.class_name, each.week): each for each in forecast_scores(EXPECTED, seen, seed=0)}
    assert list(found) == [
        ("all", "whole"), ("all", "1"), ("all", "2"), ("chat", "whole"), ("chat", "1"), ("chat", "2"),
    ]  # fmt: skip
    assert found["all", "whole"].wape_fraction == pytest.approx(2 / 18)
    assert found["all", "1"].wape_fraction == pytest.approx(0.2)
    assert found["all", "1"].bias_fraction == pytest.approx(-0.2)
    assert found["all", "2"].wape_fraction == pytest.approx(0.0)
    assert found["chat", "1"].wape_fraction == pytest.approx(0.0)
    assert (found["all", "1"].observations, found["all", "whole"].observations) == (168, 336)
    # Bands of a fifth, 1.28 of them to each side, hold a quarter more.
    assert found["all", "1"].coverage_fraction == 1.0
    assert found["all", "1"].nominal_fraction == 0.8
    wide = replace(EXPECTED, classes=(replace(EXPECTED.classes[0], band_ratio=2.0), EXPECTED.classes[1]))
    ratios = {each.class_name: each.band_ratio for each in forecast_scores(wide, seen, seed=0)}
    assert ratios == {"all": 1.5, "chat": 2.0}
    # A stretch of one week has no weeks; a single class is all of them; five hours are too few.
    assert [each.week for each in forecast_scores(EXPECTED, observed(7), seed=0)] == ["whole"]
    alone = replace(observed(7), arrivals_by_class={"chat": np.full(168, 6.0)})
    assert [each.class_name for each in forecast_scores(ALONE, alone, seed=0)] == ["all"]
    few = replace(observed(1), steps=5, counted={ObservedQuantity.ARRIVALS: np.full(5, 1.0)})
    assert forecast_scores(EXPECTED, few, seed=0) == ()
    enough = replace(observed(1), steps=6, counted={ObservedQuantity.ARRIVALS: np.full(6, 1.0)})
    assert len(forecast_scores(EXPECTED, enough, seed=0)) == 1


def test_a_stated_risk_is_shared_over_its_horizon() -> None:
    # A tenth in thirty days; three of them; and no more than all of it in sixty.
    assert stated_risk(EXPECTED, observed(3)) == pytest.approx(1 - 0.9**0.1)
    assert stated_risk(EXPECTED, observed(60)) == pytest.approx(0.1)


def test_risks_are_put_in_bins_by_what_was_stated() -> None:
    found = risk_score(0.05, False, [(0.0, False), (0.02, True), (0.04, False), (0.5, True), (1.0, True)])
    assert [(round(each.stated_fraction, 6), each.observed_fraction, each.stretches) for each in found.bins] == [
        (0.01, 0.5, 2), (0.045, 0.0, 2), (0.5, 1.0, 1), (1.0, 1.0, 1),
    ]  # fmt: skip
    assert found.brier_ratio == pytest.approx((0.05**2 + 0.98**2 + 0.04**2 + 0.25) / 6)
    assert found.recalibrated_fraction == pytest.approx((3 + 0.5) / 16)


def test_bands_are_scored_by_hours_and_have_ends() -> None:
    def score(inside: float, hours: int, week: str = "whole", name: str = "all") -> dict[str, object]:
        return {
            "class_name": name, "week": week, "observations": hours, "coverage_fraction": inside,
            "coverage_low_fraction": inside, "coverage_high_fraction": inside, "nominal_fraction": 0.8,
        }  # fmt: skip

    # By a normal table z(80 %) = 1.2816, z(50 %) = 0.6745, z(20 %) = 0.2533, z(10 %) = 0.1257.
    half = math.log(1.2816 / 0.6745)
    fifth = math.log(1.2816 / 0.2533)
    found = scored_band([[score(0.5, 300)], [score(0.2, 100)]], "chat")
    assert found is not None
    assert found.ratio == pytest.approx(math.exp((3 * half + fifth) / 4), rel=1e-3)
    assert found.stretches == 2
    # None inside says no more than a tenth does, and no band is made more than four times as wide.
    assert (few := scored_band([[score(0.0, 100)]], "chat")) is not None
    assert few.ratio == 4.0
    own = scored_band([[score(0.5, 100), score(0.2, 100, name="chat"), score(0.0, 9, week="1", name="chat")]], "chat")
    assert own is not None
    assert own.ratio == pytest.approx(min(4.0, 1.2816 / 0.2533), rel=1e-3)
    # Four calm stretches narrow a band, to six tenths at the least; three do not.
    assert scored_band([[score(0.99, 100)]] * 3, "chat") is None
    calm = scored_band([[score(0.99, 100)]] * 4, "chat")
    assert calm is not None
    assert calm.ratio == 0.6
    assert scored_band([[score(0.5, 0)]], "chat") is None


def test_a_plan_of_level_demand_is_replayed_without_a_short_hour() -> None:
    """Eight a second, always: two replicas of 88 / 12, and the 0.909 that they do not use is idle."""
    expected = replace(EXPECTED, reconcile_every_s=7 * DAY_S)
    found = backtest_plans(expected, observed(28), seed=0)
    assert (found.origins, found.period_s) == (2, 7 * DAY_S)
    assert found.stated_percentile == pytest.approx(0.9)
    assert [each.percentile for each in found.rows] == [0.5, 0.8, 0.9, 0.95, 0.99]
    for each in found.rows:
        assert (each.periods, each.hours, each.short_hours, each.short_periods) == (2, 336, 0, 0)
        assert each.mean_replicas == pytest.approx(2.0, abs=0.01)
        assert each.idle_fraction == pytest.approx(1 - 8 / (2 * 88 / 12), abs=0.01)
        assert each.usd == pytest.approx(336 * 2 * 3.0, rel=0.01)
    # A jump that nobody could know makes every hour short of the two.
    rate = np.full(672, 8.0)
    rate[336:] = 30.0
    jumped = backtest_plans(expected, replace(observed(28), counted={ObservedQuantity.ARRIVALS: rate * HOUR_S}), seed=0)
    middle = jumped.rows[0]
    assert (middle.short_periods, middle.short_hours) == (1, 168)
    with pytest.raises(InputError, match=r"2.9 weeks.*at least 3 are needed for a period of 7 d"):
        backtest_plans(expected, observed(20), seed=0)
    assert backtest_plans(expected, observed(21), seed=0).origins == 1


def test_loads_of_a_replica_are_where_requests_came() -> None:
    # Ten replicas: 12 h of 10 a second and 12 h of 40. A fifth of all requests came at 1 a replica, the rest at 4.
    rate = np.repeat([10.0, 40.0], 12)
    seen = replace(
        observed(1), counted={ObservedQuantity.ARRIVALS: rate * HOUR_S},
        levels={ObservedQuantity.REPLICAS: np.full(24, 10.0)},
    )  # fmt: skip
    found = {middle: mask.tolist() for middle, mask in _loads(seen)}
    assert found == {1.0: [True] * 12 + [False] * 12, 4.0: [False] * 12 + [True] * 12}
    assert list(_loads(replace(seen, levels={}))) == []
    assert list(_loads(replace(seen, levels={ObservedQuantity.REPLICAS: np.zeros(24)}))) == []
    level = replace(seen, counted={ObservedQuantity.ARRIVALS: np.full(24, 20.0 * HOUR_S)})
    assert [middle for middle, _ in _loads(level)] == [2.0]


def test_what_steps_are_fitted_to_is_what_was_counted_or_what_is_left() -> None:
    every = np.ones(24, dtype=bool)
    seen = also(observed(1), output_tokens=8.0 * HOUR_S * 11)
    first = (counted(100, 0, 0),) * 24
    whole = (counted(0, 0, 100),) * 24

    def targets(**latencies: Any) -> list[tuple[str, float]]:
        kinds = {ObservedQuantity(name): parts for name, parts in latencies.items()}
        found = list(_targets(replace(seen, latencies=kinds), every))
        assert {each.statistic for each in found} <= {"mean"}
        return [(each.latency, each.value) for each in found]

    # Half a second to the first token, four in all, ten gaps between: 0.35 s each.
    assert targets(ttft=first, e2e=whole) == [("engine_ttft", 0.5), ("itl", pytest.approx(0.35))]
    assert targets(ttft=first, tpot=whole, itl=first) == [("engine_ttft", 0.5), ("tpot", 4.0)]
    assert targets(itl=first) == [("itl", 0.5)]
    assert targets(e2e=whole) == []
    # By Little's law: 24 run and 8 wait while 8 a second come, so that each is there for four seconds.
    levels = {ObservedQuantity.RUNNING: np.full(24, 24.0), ObservedQuantity.WAITING: np.full(24, 8.0)}
    seen = replace(seen, levels={**seen.levels, **levels})
    assert targets(ttft=first) == [("engine_ttft", 0.5), ("itl", pytest.approx(0.35))]
    agreed = replace(seen, latencies={ObservedQuantity.E2E: whole})
    assert list(_little(agreed, [(1.0, every)])) == []
    wrong = replace(seen, latencies={ObservedQuantity.E2E: first})
    (said,) = _little(wrong, [(1.0, every)])
    assert said.startswith("at 1 req/s per replica requests take 0.5 s by their histogram and 4 s by Little's law")


def test_a_fit_is_checked_against_the_buckets_it_must_lie_in() -> None:
    # Of twelve of the hours: half of all within a second, nine tenths within three.
    parts = (counted(60, 35, 5),) * 24
    seen = replace(observed(1), latencies={ObservedQuantity.TTFT: parts, ObservedQuantity.E2E: parts})
    measured: Any = SimpleNamespace(targets=(SimpleNamespace(latency="tpot", statistic="mean"),))
    told_s = {
        ("engine_ttft", "p50"): 0.7, ("engine_ttft", "p90"): 3.5, ("e2e", "p50"): 0.9, ("e2e", "p90"): 2.0,
    }  # fmt: skip
    replayed: Any = SimpleNamespace(statistic=lambda latency, name: told_s[latency, name])
    found = _load(seen, 0.5, np.arange(24) < 12, measured, replayed)
    assert (found.rate_rps, found.hours, found.requests) == (0.5, 12.0, 12 * 8.0 * HOUR_S)
    assert found.fitted == ("tpot mean",)
    assert (found.checked_count, found.held_count) == (4, 3)
