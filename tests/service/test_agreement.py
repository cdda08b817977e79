"""Several load tests of one configuration: equal ones agree, unequal ones are named, old or vague ones count less."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from support.loadtest_samples import to_json, vllm_run
from ullage.facts.device import find_device
from ullage.facts.model_sheet import find_model
from ullage.memory.kv import kv_dtype
from ullage.memory.sharding import Sharding
from ullage.readers.loadtests import read_loadtest
from ullage.service.calibration.agreement import HALF_LIFE_DAYS, agreement, day_of, weighings
from ullage.service.calibration.calibration import Measurement, fit_factors
from ullage.service.calibration.fitted import measurements_of
from ullage.service.calibration.repeats import RepeatTerms
from ullage.service.calibration.replay import EngineLimits
from ullage.service.loadtests.loadtest import Flag, LatencySummary, LoadTest, PointAnomaly, SeenBy
from ullage.service.steps.step_model import StepModel, roofline_model
from ullage.workload.anomalies import Severity

TERMS = RepeatTerms(limits=EngineLimits(max_sequences=64, budget_tokens=2048, kv_tokens=400_000))


@pytest.fixture(scope="module")
def step() -> StepModel:
    cache = kv_dtype("bf16")
    return roofline_model(
        find_model("llama-3.1-8b"), find_device("h100-sxm"), sharding=Sharding(), engine="vllm", cache=cache
    )


def a_test(folder: Path, name: str = "a", *, k: float = 1.0, day: str = "20261101") -> LoadTest:
    path = folder / f"{name}.json"
    path.write_bytes(to_json(vllm_run(k, date=f"{day}-101010", max_concurrency=round(4 * k) or 1)))
    return read_loadtest(path)


def test_the_same_test_twice_agrees(step: StepModel, tmp_path: Path) -> None:
    found = agreement(step, [a_test(tmp_path, "a"), a_test(tmp_path, "b")], TERMS)
    first, second = found.results
    assert first.decode_ratio == second.decode_ratio
    assert found.disagreements == ()


def test_tests_of_different_speed_disagree_and_both_are_named(step: StepModel, tmp_path: Path) -> None:
    found = agreement(step, [a_test(tmp_path, "fast"), a_test(tmp_path, "slow", k=3.0)], TERMS)
    assert found.results[1].decode_ratio > 2 * found.results[0].decode_ratio
    assert any("fast.json" in each and "slow.json" in each for each in found.disagreements)


def test_the_newest_counts_in_full_and_each_half_year_halves(tmp_path: Path) -> None:
    days = [datetime.date(2026, 11, 1) - datetime.timedelta(days=each * HALF_LIFE_DAYS) for each in (0, 1, 2)]
    tests = [a_test(tmp_path, f"t{place}", day=day.strftime("%Y%m%d")) for place, day in enumerate(days)]
    found = weighings(tests)
    assert [each.weight_fraction for each in found] == pytest.approx([1.0, 0.5, 0.25])
    behind = [f"{each * HALF_LIFE_DAYS:.0f} days behind the newest" in found[each].reason for each in (0, 1, 2)]
    assert behind == [False, True, True]


def test_a_test_without_a_day_counts_no_more_than_a_dated_one(tmp_path: Path) -> None:
    dated = a_test(tmp_path)
    first, second = weighings([dated, replace(dated, run_at=None)])
    assert second.day is None
    assert ("states no day" in first.reason, "states no day" in second.reason) == (False, True)
    assert second.weight_fraction == pytest.approx(first.weight_fraction / 2)


def test_one_test_alone_counts_in_full_whatever_its_age(tmp_path: Path) -> None:
    (found,) = weighings([a_test(tmp_path, day="20200101")])
    assert found.weight_fraction == 1.0


def test_the_engines_clock_and_a_serious_finding_count_less(tmp_path: Path) -> None:
    plain = a_test(tmp_path)
    (point,) = plain.points

    def by_engine(each: LatencySummary) -> LatencySummary:
        return replace(each, seen_by=SeenBy.ENGINE)

    engine = replace(plain, points=(replace(point, latencies=tuple(by_engine(each) for each in point.latencies)),))
    anomaly = PointAnomaly(flag=Flag.OVERLOAD, weight=Severity.SERIOUS, sentence="The queue grew.")
    overloaded = replace(plain, points=(replace(point, anomalies=(anomaly,)),))
    whole, inside, endless = weighings([plain, engine, overloaded])
    assert whole.weight_fraction == 1.0
    assert inside.weight_fraction < 1.0
    assert endless.weight_fraction < 1.0
    assert "overload" in endless.reason


@pytest.mark.slow
def test_a_common_fit_follows_the_heavier_test(step: StepModel, tmp_path: Path) -> None:
    """The weights reach the fit: with the slow test five years old, the factors are nearly those of the new one."""
    new, old = a_test(tmp_path, "new"), a_test(tmp_path, "old", k=1.6, day="20211101")
    young = replace(old, run_at=new.run_at)

    def fixed(*tests: LoadTest) -> float:
        used: list[Measurement] = measurements_of([(each.file, each) for each in tests], TERMS)[0]
        return fit_factors(step, step.floor, used).fixed_ratio

    assert fixed(new) < fixed(new, old) < fixed(new, young) < fixed(old)
    assert fixed(new, old) == pytest.approx(fixed(new), rel=0.02)


def test_days_are_read_as_tools_write_them() -> None:
    wanted = datetime.date(2025, 5, 2)
    assert [day_of(each) for each in ("2025-05-02T10:00:00Z", "20250502-101010", "1746153890.5")] == [wanted] * 3
    assert [day_of(each) for each in (None, "", "20259999-1", "soon")] == [None] * 4
