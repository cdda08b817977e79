"""Times as people's tools write them: each is the same moment, and which of day and month comes first is no guess."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.traces.dates import ORDERS
from ullage.readers.traces.open import connect, open_trace
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.trace import RateTable, Trace

MOMENT = datetime.datetime(2026, 11, 18, 13, 5, 0, tzinfo=datetime.UTC)
WRITTEN = (
    "2026-11-18T13:05:00Z",
    "2026-11-18 13:05",
    "2026-11-18 13:05:00,000",
    "2026-11-18 01:05:00 PM",
    "2026-11-18 13:05:00 +0000 UTC",
    "2026/11/18 13:05:00",
    "18/11/2026 13:05:00",
    "18/11/2026 1:05:00 p.m.",
    "18/11/26 13:05",
    "18-11-2026 13:05:00",
    "18.11.2026 13:05",
    "18/Nov/2026:13:05:00 +0000",
    "[18/Nov/2026:13:05:00 +0000]",
    "18-Nov-2026 13:05:00",
    "Nov 18, 2026, 1:05:00\u202fPM",
    "November 18, 2026 13:05",
    "Wed, 18 Nov 2026 13:05:00 GMT",
    "Wed Nov 18 13:05:00 2026",
    "Wed Nov 18 13:05:00 UTC 2026",
    "20261118T130500Z",
    "20261118130500",
    "18/11/2026 18:35:00 +05:30",
)
NO_TIMES = ("", "hello", "12", "24:00", "31/31/2026", "18 Xxx 2026 13:05", "2026-13-40 00:00:00")


def test_every_spelling_is_the_same_moment() -> None:
    connection = connect()
    found = {each: connection.execute("SELECT ullage_epoch(?)", [each]).fetchall()[0][0] for each in WRITTEN}
    assert found == dict.fromkeys(WRITTEN, MOMENT.timestamp())


@pytest.mark.parametrize("written", NO_TIMES)
def test_what_is_no_time_is_none(written: str) -> None:
    assert connect().execute("SELECT ullage_epoch(?)", [written]).fetchall() == [(None,)]


def test_a_time_without_a_zone_is_in_the_one_named() -> None:
    berlin = connect("Europe/Berlin")
    for written in ("18/11/2026 14:05", "Nov 18, 2026 2:05 PM", "20261118140500"):
        assert berlin.execute("SELECT ullage_epoch(?)", [written]).fetchall() == [(MOMENT.timestamp(),)]


def log(folder: Path, times: Sequence[str]) -> str:
    path = folder / "log.csv"
    path.write_text("\n".join(["timestamp,prompt_tokens,output_tokens", *(f'"{each}",100,20' for each in times), ""]))
    return str(path)


def days(layout: str, count: int, first: datetime.datetime = MOMENT) -> list[str]:
    return [(first + datetime.timedelta(days=day)).strftime(layout) for day in range(count)]


def start_and_span(trace: Trace | RateTable) -> tuple[float | None, float]:
    assert isinstance(trace, Trace)
    (span,) = trace.relation.max("arrival_s").fetchall()[0]
    return trace.start_epoch_s, span


@pytest.mark.parametrize(("order", "layout"), [("day", "%d/%m/%Y %H:%M:%S"), ("month", "%m/%d/%Y %I:%M:%S %p")])
@pytest.mark.parametrize("first", [MOMENT, MOMENT.replace(day=2)])
def test_the_file_decides_the_order(order: str, layout: str, first: datetime.datetime, tmp_path: Path) -> None:
    # From the 18th on a field is above 12; from the 2nd the days follow each other in one reading only.
    trace = open_trace([log(tmp_path, days(layout, 5, first))])
    assert start_and_span(trace) == (first.timestamp(), 4 * 86400.0)
    (said,) = (each for each in trace.anomalies if each.kind is AnomalyKind.UNIT_UNCERTAIN)
    assert f"are read {order} first" in said.sentence
    # Only where the days could be read otherwise is the other reading offered.
    other = {"day": "month", "month": "day"}[order]
    offered = f"If they are {other} first, give --column arrival_{other}_first=COLUMN."
    assert said.sentence.endswith(offered) == (first.day == 2)


def test_one_day_that_is_two_dates_is_refused_with_both_until_one_is_named(tmp_path: Path) -> None:
    path = log(tmp_path, ["02/11/2026 10:00:00", "02/11/2026 10:00:05"])
    with pytest.raises(InputError, match=r"2026-11-02 day first and 2026-02-11 month first.*arrival_day_first"):
        open_trace([path])
    starts = {ours: start_and_span(open_trace([path], mapping={ours: "timestamp"}))[0] for ours in ORDERS}
    assert starts == {
        "arrival_day_first": datetime.datetime(2026, 11, 2, 10, tzinfo=datetime.UTC).timestamp(),
        "arrival_month_first": datetime.datetime(2026, 2, 11, 10, tzinfo=datetime.UTC).timestamp(),
    }


def test_dates_of_both_orders_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dates of both orders: no month is 18, which stands first, nor 19"):
        open_trace([log(tmp_path, ["18/11/2026 10:00:00", "11/19/2026 10:00:05"])])


def test_an_end_is_read_in_the_order_of_the_arrival(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "start_time,end_time,prompt_tokens,output_tokens\n"
        "11/18/2026 1:00:00 PM,11/18/2026 1:00:07 PM,10,5\n"
        "11/19/2026 1:00:00 PM,11/19/2026 1:00:09 PM,10,5\n"
    )
    trace = open_trace([str(path)])
    assert isinstance(trace, Trace)
    assert trace.relation.order("arrival_s").project("duration_s").fetchall() == [(7.0,), (9.0,)]


def test_a_date_beside_a_time_of_day_is_one_time(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "18/11/2026,1:05:00 PM,100,20\n19/11/2026,2:05:00 PM,100,20\n"
    path.write_text(f"Date,Time,prompt_tokens,output_tokens\n{rows}")
    assert start_and_span(open_trace([str(path)])) == (MOMENT.timestamp(), 90_000.0)


def test_a_line_that_cannot_be_split_counts_once_though_the_file_is_read_twice(tmp_path: Path) -> None:
    path = log(tmp_path, days("%m/%d/%Y %H:%M:%S", 40))
    with open(path, "a") as file:
        file.write("too,many,columns,here,1,2\n")
    assert open_trace([path]).rows.read_rows == 41


def test_rates_are_read_in_either_order(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    for layout in ("%d/%m/%Y", "%m/%d/%Y"):
        path.write_text("\n".join(["date,requests", *(f"{each},1000" for each in days(layout, 4)), ""]))
        table = open_trace([str(path)])
        assert isinstance(table, RateTable)
        assert table.width_s == 86400.0
        assert table.rates.min("window_s").fetchall() == [(MOMENT.replace(hour=0, minute=0).timestamp(),)]
    path.write_text("date,requests\n02/11/2026,1000\n")
    named = open_trace([str(path)], mapping={"arrival_day_first": "date"})
    assert isinstance(named, RateTable)
