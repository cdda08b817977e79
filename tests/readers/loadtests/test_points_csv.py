"""The plain CSV of points: the unit stands in the name of the column, and nothing is guessed."""

from __future__ import annotations

import pytest

from ullage.errors import InputError
from ullage.readers.loadtests import read_bytes
from ullage.service.loadtests.loadtest import Definition, LoadTest, Loop


def read(text: str) -> LoadTest:
    return read_bytes(text.encode(), file="points.csv")


def test_milliseconds_and_seconds_may_stand_side_by_side() -> None:
    point = read("offered_rps,ttft_mean_ms,e2e_p99.9_s\n4,100,2.5\n").points[0]
    ttft, e2e = point.latency(Definition.TTFT), point.latency(Definition.E2E)
    assert ttft is not None
    assert ttft.mean_s == pytest.approx(0.1)
    assert e2e is not None
    assert e2e.at(0.999) == 2.5


def test_an_empty_cell_is_unknown() -> None:
    point = read("concurrency,completed,failed,ttft_mean_ms,tpot_mean_ms\n4,40,,100,\n").points[0]
    assert point.load.loop is Loop.CLOSED
    assert point.failed_count is None
    assert point.latency(Definition.TPOT) is None
    assert point.achieved_rps is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("offered_rps,ttft_mean_ms,tpto_mean_ms\n4,100,20\n", "tpto_mean_ms.*Did you mean tpot_mean_ms"),
        ("offered_rps,ttft_mean_ms,tpot_mean\n4,100,20\n", "tpot_mean'.*is not known"),
        ("offered_rps,ttft_mean_ms,ttft_mean_s\n4,100,0.1\n", "given twice"),
        ("offered_rps,ttft_mean_ms\n4,100ms\n", "100ms.*The unit belongs in the header"),
        ("offered_rps,concurrency,ttft_mean_ms\n,,100\n", "neither a rate nor a concurrency"),
        ("offered_rps,ttft_mean_ms\n", "no point"),
        ("offered_rps,ttft_mean_ms\n4\n", "cut short"),
        ("offered_rps,ttft_mean_ms\n-4,100\n", "must be 0 or more"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(text)


def test_rows_are_points_in_order() -> None:
    found = read("name,offered_rps,ttft_mean_ms\nlow,1,50\nhigh,8,400\n")
    assert [each.name for each in found.points] == ["low", "high"]
