"""Logs that are hard to read are read right, or say what is wrong: from the file to the sentence."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ullage.readers.traces.open import open_trace
from ullage.workload.anomalies import Anomaly, AnomalyKind, Severity
from ullage.workload.profile.profile import Profile, profile
from ullage.workload.trace import Trace

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
# Two weeks around the Sunday on which summer time ends, and around that on which it begins.
AUTUMN = datetime.datetime(2026, 10, 19, tzinfo=datetime.UTC)
SPRING = datetime.datetime(2026, 3, 23, tzinfo=datetime.UTC)
Stamp = Callable[[int, datetime.datetime], str]


def times(start: datetime.datetime = AUTUMN, *, days: int = 14, count: int = 6000) -> list[datetime.datetime]:
    rng = np.random.default_rng(4)
    return [start + datetime.timedelta(seconds=float(each)) for each in np.sort(rng.uniform(0, days * 86400, count))]


def read(folder: Path, moments: Sequence[datetime.datetime], stamp: Stamp, *, zone: str = "") -> Profile:
    path = folder / "log.csv"
    rows = [f"{stamp(at, moment)},100,20" for at, moment in enumerate(moments)]
    path.write_text("\n".join(["timestamp,prompt_tokens,output_tokens", *rows, ""]))
    trace = open_trace([str(path)], zone=zone)
    assert isinstance(trace, Trace)
    return profile(trace)


def zoned(_at: int, moment: datetime.datetime) -> str:
    return moment.isoformat()


def local(_at: int, moment: datetime.datetime) -> str:
    return moment.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M:%S.%f")


def of_kind(found: Profile, kind: AnomalyKind) -> list[Anomaly]:
    return [each for each in found.anomalies if each.kind is kind]


def series(found: Profile) -> tuple[int, ...]:
    assert found.whole.arrivals is not None
    return found.whole.arrivals.series.counts


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000, 1_000_000_000])
def test_numbers_of_any_unit_are_the_same_times(unit: int, tmp_path: Path) -> None:
    found = read(tmp_path, times(), lambda _at, moment: str(round(moment.timestamp() * 1000) * unit // 1000))
    plain = read(tmp_path, times(), zoned)
    assert sum(abs(one - other) for one, other in zip(series(found), series(plain), strict=True)) <= 40
    assert found.coverage.zone == "UTC"


@pytest.mark.slow
def test_two_zones_in_one_log_are_one_time(tmp_path: Path) -> None:
    found = read(tmp_path, times(), lambda at, moment: (moment.astimezone(BERLIN) if at % 2 else moment).isoformat())
    assert series(found) == series(read(tmp_path, times(), zoned))
    (said,) = of_kind(found, AnomalyKind.LOCAL_TIME)
    assert "3 offsets (+01:00, +02:00, UTC)" in said.sentence


def test_zones_beside_none_are_serious(tmp_path: Path) -> None:
    found = read(tmp_path, times(), lambda at, moment: zoned(at, moment) if at % 2 else local(at, moment))
    (said,) = of_kind(found, AnomalyKind.LOCAL_TIME)
    assert said.weight is Severity.SERIOUS
    assert "3,000 of 6,000" in said.sentence


def test_time_that_goes_backwards_is_sorted_and_said(tmp_path: Path) -> None:
    moments = times()
    early = moments[3000] - datetime.timedelta(hours=5)
    found = read(tmp_path, [*moments[:3000], early, *moments[3001:]], zoned)
    assert of_kind(found, AnomalyKind.CLOCK_STEP)
    assert sum(series(found)) == 6000


@pytest.mark.slow
def test_the_end_of_summer_time_in_a_local_log_is_found_and_mended_by_its_zone(tmp_path: Path) -> None:
    bare = read(tmp_path, times(), local)
    (said,) = of_kind(bare, AnomalyKind.SUMMER_TIME)
    assert said.weight is Severity.SERIOUS
    named = read(tmp_path, times(), local, zone="Europe/Berlin")
    true = read(tmp_path, times(), zoned)
    # The hour that is there twice is laid upon itself; all other windows, of ten minutes each, are right.
    different = [one != other for one, other in zip(series(named), series(true), strict=True)]
    assert 0 < sum(different) <= 12
    assert named.coverage.first_time == true.coverage.first_time


@pytest.mark.slow
def test_the_hour_that_summer_time_skips_is_found(tmp_path: Path) -> None:
    found = read(tmp_path, times(SPRING, count=60_000), local)
    assert of_kind(found, AnomalyKind.SUMMER_TIME)


def test_an_empty_week_is_a_hole_and_no_quiet(tmp_path: Path) -> None:
    moments = [each + datetime.timedelta(days=7 if each.day >= 25 else 0) for each in times()]
    found = read(tmp_path, moments, zoned)
    (hole,) = of_kind(found, AnomalyKind.HOLES)
    assert hole.weight is Severity.SERIOUS
    assert "7 days" in hole.sentence
    assert found.coverage.covered_fraction == pytest.approx(14 / 21, abs=0.02)


def test_one_request_is_a_profile(tmp_path: Path) -> None:
    found = read(tmp_path, times()[:1], zoned)
    assert (found.whole.requests, found.whole.arrivals) == (1, None)


@pytest.mark.slow
def test_rows_of_a_table_are_scanned_where_they_lie(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    duckdb.connect().execute(
        "COPY (SELECT 1793491200 + i / 50.0 AS arrival_s, 100 + i % 900 AS prompt_tokens, 5 + i % 70 AS output_tokens "
        f"FROM range(2000000) t(i)) TO '{path}' (FORMAT parquet)"
    )
    trace = open_trace([str(path)])
    assert isinstance(trace, Trace)
    # A view over the file, and no copy of it: what a billion rows would take is the scan alone.
    tables = trace.query("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'ullage_rows%'").fetchall()
    assert tables == [(0,)]
    assert profile(trace).whole.requests == 2_000_000
