"""What is past its maximum age is known by less and may have drifted; what moves a plan has an owner, or is named."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import pytest

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Figure, Source, number
from ullage.load.plan import load_plan
from ullage.planning.answer.basis import InputBasis, unowned_drivers
from ullage.planning.owners import Owners
from ullage.planning.planned_for import planned_for
from ullage.planning.spec import PlanSpec
from ullage.prices.age import price_drift
from ullage.service.calibration.aged import step_drift
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.workload.demand.ageing import WANDER, rate_drift

AS_OF = datetime.date(2026, 11, 16)
DAY = datetime.timedelta(days=1)


def _plan(**more: Any) -> dict[str, Any]:
    chat = {
        "name": "chat",
        "rate": "4 req/s",
        "longest_context": 4096,
        "slo": {"ttft_p95": "2s"},
        "prompt": {"p50": 900},
    }
    return {
        "version": 1,
        "service": "made",
        "workload": {"classes": [chat]},
        "pool": {"model": "llama-3.1-8b", "device": "l40s"},
        **more,
    }


def _spec(days: int, **more: Any) -> PlanSpec:
    return load_plan(_plan(dated=(AS_OF - days * DAY).isoformat(), **more), as_of=AS_OF)


def test_a_rate_past_its_age_keeps_its_middle_and_widens_as_a_random_walk_does() -> None:
    fresh, old = (planned_for(_spec(days)) for days in (90, 90 + 365))
    assert old[2].planning_rps == pytest.approx(fresh[2].planning_rps)
    own = fresh[0].demand_deviation_fraction
    drift = number(WANDER) * math.sqrt(365.0 / (365.25 / 12.0))
    assert old[0].demand_deviation_fraction == pytest.approx(math.hypot(own, drift), rel=1e-6)


def test_every_day_past_the_age_asks_for_more_and_none_before() -> None:
    rates = [planned_for(_spec(days))[1].planning_rps for days in (0, 90, 91, 120, 400)]
    assert rates[0] == rates[1] < rates[2] < rates[3] < rates[4]


def test_what_is_past_its_age_is_of_a_weaker_class_and_a_longer_age_restores_it() -> None:
    def known(spec: PlanSpec) -> dict[str, Evidence]:
        figures = planned_for(spec)[1].figures
        return {name: each.evidence for name, each in figures.items()}

    fresh, old, allowed = (
        known(each) for each in (_spec(10), _spec(100), _spec(100, ages={"rates": "200d", "lengths": "200d"}))
    )
    assert fresh == allowed
    assert (fresh["demand.chat.prompt_p95"], old["demand.chat.prompt_p95"]) == (Evidence.STATED, Evidence.ASSUMED)
    by_name = {each.name: each for each in _spec(100).inputs}
    assert by_name["chat.mean_rate"].is_stale(AS_OF)
    assert by_name["chat.mean_rate"].evidence is Evidence.ASSUMED
    # What is decided and what is a name cannot be too old.
    assert not by_name["policy.shortfall"].is_stale(AS_OF)
    assert not by_name["pool.model"].is_stale(AS_OF)


def test_a_band_of_steps_widens_in_squares_by_the_drift_of_engines() -> None:
    drift = step_drift(datetime.timedelta(days=365.25))
    assert drift is not None
    assert step_drift(datetime.timedelta()) is None
    band = DEFAULT_BANDS[Evidence.CALIBRATED]
    wide = band.widened(drift)
    score = 1.2815515655446004
    assert math.log(wide.slow_ratio) == pytest.approx(math.hypot(math.log(1.10), score * number(drift)))
    assert math.log(wide.fast_ratio) == pytest.approx(-math.log(wide.slow_ratio))
    assert wide.evidence is Evidence.ESTIMATED
    later = step_drift(datetime.timedelta(days=2 * 365.25))
    assert later is not None
    assert number(later) == pytest.approx(2.0 * number(drift))


def test_a_price_past_its_age_drifts_by_the_falls_on_record() -> None:
    def price(days: int) -> Assumption:
        source = Source(what="a list", where="tests", date=AS_OF - days * DAY)
        return Assumption(
            name="price.made", value=2.0, unit="USD/h", evidence=Evidence.STATED, source=source, max_age=180 * DAY
        )

    fall = Assumption(name="fall", value=0.4, unit="fraction", evidence=Evidence.ASSUMED, source=price(0).source)
    assert price_drift([price(180)], AS_OF, fall) is None
    year = price_drift([price(20), price(180 + 365)], AS_OF, fall)
    assert year is not None
    # One year in twenty falls by more than the largest on record.
    assert math.exp(-1.6448536 * number(year) * 365.25 / 365.0) == pytest.approx(0.6, rel=1e-6)


def test_a_drift_needs_a_time_past_its_age() -> None:
    assert rate_drift("chat", datetime.timedelta()) is None


def test_the_nearest_owner_counts() -> None:
    owners = Owners(
        by_key={"workload": "ana", "workload.classes.chat.rate": "ben", "pools.big": "cy"}, classes=("chat",)
    )
    assert owners.of_input("chat.mean_rate") == "ben"
    assert owners.of_input("chat.prompt_p95") == "ana"
    assert owners.of_input("policy.horizon") is None
    assert owners.of_key("pools.big.evidence") == "cy"


@pytest.mark.parametrize(
    ("owners", "named"),
    [({"workloads": "ana"}, "workload"), ({"workload.classes.char.rate": "ana"}, "chat"), ({"pool": " "}, "team")],
)
def test_an_owner_of_nothing_is_refused(owners: Mapping[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        _spec(0, owners=owners)


def test_only_what_explains_a_part_that_matters_asks_for_an_owner() -> None:
    def basis(name: str, part: float, *unowned: str) -> InputBasis:
        source = Source(what="a test", where="tests", date=AS_OF)
        explained = Figure(
            name=f"driver.{name}", value=part, unit="fraction", sources=(source,), own_evidence=Evidence.STATED
        )
        return InputBasis(
            name=name, influence=explained, evidence=Evidence.STATED, age_days=0, max_age_days=None, is_past=False,
            drift=None, owners=(), unowned=unowned,
        )  # fmt: skip

    found = unowned_drivers([basis("demand", 0.6), basis("step_time", 0.3, "pool"), basis("price", 0.01, "prices")])
    assert [each.name for each in found] == ["step_time"]
