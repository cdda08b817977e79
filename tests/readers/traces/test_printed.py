"""Files as spreadsheets, dashboards and search engines export them are read as what they say, or refused by name."""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.traces.numerals import decimal_mark, printed_duration, printed_number
from ullage.readers.traces.open import connect, open_trace
from ullage.workload.anomalies import AnomalyKind, Severity
from ullage.workload.trace import RateTable, Trace

Floats = tuple[float, ...]
START = datetime.datetime(2026, 11, 2, tzinfo=datetime.UTC)
RECORDS = [
    {"timestamp": f"2026-11-02T10:00:{second:02}Z", "prompt_tokens": 100 + second, "output_tokens": 20}
    for second in range(5)
]
NUMBERS = {
    "12.4": 12.4, "1,204": 1204.0, "1,204,000.5": 1204000.5, "1 204": 1204.0, "1\u2019204": 1204.0, "12.3 req/s": 12.3,
    "1.2 K": 1200.0, "1.2K req/s": 1200.0, "1.23 Mil": 1.23e6, "45 req/m": 45.0, "7 requests": 7.0, "12 parsecs": None,
    "nothing": None, "-": None, "1.5e3": 1500.0,
}  # fmt: skip
DURATIONS = {"12.3s": 12.3, "450ms": 0.45, "450 ms": 0.45, "2m": 120.0, "00:00:12.5": 12.5, "12 parsecs": None}


def read(path: Path) -> Trace:
    trace = open_trace([str(path)])
    assert isinstance(trace, Trace)
    return trace


def rates(path: Path) -> tuple[float, ...]:
    table = open_trace([str(path)])
    assert isinstance(table, RateTable)
    found = table.rates.project("window_s, sum(requests) OVER (PARTITION BY window_s)").distinct()
    return tuple(row[1] for row in found.order("window_s").fetchall())


def table(folder: Path, header: str, rows: list[str]) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join([header, *rows, ""]))
    return path


def hours(values: list[str], mark: str = ",") -> list[str]:
    return [f"2026-11-02 {hour:02}:00:00{mark}{value}" for hour, value in enumerate(values)]


def test_printed_numbers_and_durations() -> None:
    connection = connect()
    for sql, expected in ((printed_number("$1"), NUMBERS), (printed_duration("$1"), DURATIONS)):
        found = {each: connection.execute(f"SELECT {sql}", [each]).fetchall()[0][0] for each in expected}
        assert found == pytest.approx(expected)
    assert connection.execute(f"SELECT {printed_number('$1', ',')}", ["1.204,5"]).fetchall() == [(1204.5,)]


@pytest.mark.parametrize(
    ("values", "whole", "delimiter", "mark"),
    [
        (["1,204", "980"], True, ",", "."),
        (["1.204", "980"], True, ";", ","),
        (["12,345", "0,9"], False, ",", ","),
        (["12,345"], False, ";", ","),
        (["12,345"], False, ",", "."),
        (["1.204,5"], False, ",", ","),
        (["1,204,000"], False, ";", "."),
        (["554.000", "980.0"], True, ",", "."),
        (["12.345"], False, ";", "."),
    ],
)
def test_the_column_says_which_mark_parts_the_decimals(
    values: list[str], whole: bool, delimiter: str, mark: str
) -> None:
    assert decimal_mark(values, whole=whole, delimiter=delimiter) == mark


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("timestamp,prompt_tokens,output_tokens,latency", '"1,554",20,12.3s', (1554, 12.3)),
        ("timestamp;prompt_tokens;output_tokens;latency (s)", "1.554;20;12,3", (1554, 12.3)),
        ("timestamp,prompt_tokens,output_tokens,latency", "1554,20,450 ms", (1554, 0.45)),
        ("timestamp,prompt_tokens,output_tokens,latency_ms", '1554,20,"1,250"', (1554, 1.25)),
    ],
)
def test_tokens_and_durations_of_a_spreadsheet(header: str, row: str, expected: Floats, tmp_path: Path) -> None:
    mark = ";" if ";" in header else ","
    trace = read(table(tmp_path, header, [f"2026-11-02T10:00:0{second}Z{mark}{row}" for second in range(3)]))
    found = trace.relation.project("prompt_tokens, duration_s").distinct().fetchall()
    assert found == [pytest.approx(expected)]


def test_what_is_no_number_is_named_and_what_is_empty_is_not(tmp_path: Path) -> None:
    rows = [f"2026-11-02T10:00:0{at},10,5,{latency}" for at, latency in enumerate(("1.5", "", "N/A", "12 parsecs"))]
    trace = read(table(tmp_path, "timestamp,prompt_tokens,output_tokens,latency_s", rows))
    (said,) = (each for each in trace.anomalies if each.kind is AnomalyKind.UNREAD_VALUES)
    assert "1 value of latency_s cannot be read as a number (the first: 12 parsecs)" in said.sentence
    assert said.weight is Severity.SERIOUS


@pytest.mark.parametrize(
    ("header", "values", "rate_rps"),
    [
        ("Time,requests", ["12.3 req/s", "11.0 req/s"], (12.3, 11.0)),
        ("Time,requests", ["1.2 K req/s", "1.1K req/s"], (1200.0, 1100.0)),
        ("Time,requests", ["60 req/m", "120.0 req/m"], (1.0, 2.0)),
        ("Time,Value", ["12.3 req/s", "11 req/s"], (12.3, 11.0)),
        ('Time,"{job=""vllm""}"', ["12.3 c/s", "900 c/s"], (12.3, 900.0)),
        ("Time;requests", ["12,4", "1.200,5"], (12.4, 1200.5)),
        ("Time;requests per second", ["12,345", "11,000"], (12.345, 11.0)),
    ],
)
def test_rates_with_units_and_decimal_commas(header: str, values: list[str], rate_rps: Floats, tmp_path: Path) -> None:
    mark = ";" if ";" in header else ","
    found = rates(table(tmp_path, header, hours(values, mark)))
    assert tuple(each / 3600.0 for each in found) == pytest.approx(rate_rps)


@pytest.mark.parametrize(
    "document",
    [
        *({key: RECORDS, "count": 5, "next": None} for key in ("data", "results", "items", "records", "value", "logs")),
        {"data": {"items": RECORDS}},
        {"hits": {"total": {"value": 5}, "hits": [{"_id": "1", "_source": each} for each in RECORDS]}},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_records_inside_an_object(document: dict[str, object], indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document, indent=indent))
    trace = read(path)
    assert trace.rows.kept_rows == 5
    assert trace.relation.sum("prompt_tokens").fetchall() == [(510,)]


def test_lines_whose_record_stands_in_an_object(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(json.dumps({"_index": "a", "_source": each}) for each in RECORDS))
    assert read(path).relation.sum("prompt_tokens").fetchall() == [(510,)]


def test_two_lists_of_records_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"before": RECORDS, "after": RECORDS}))
    with pytest.raises(InputError, match=r'holds records at \$."before"\[\*\] and at \$."after"'):
        read(path)


def test_a_list_of_rates_in_json(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    points = [{"time": f"2026-11-02T0{hour}:00:00Z", "requests": 100 + hour} for hour in range(3)]
    for document in (points, {"data": points}):
        path.write_text(json.dumps(document, indent=1))
        assert rates(path) == (100, 101, 102)


def test_days_of_a_spreadsheet_are_not_seconds(tmp_path: Path) -> None:
    first = (START - datetime.datetime(1899, 12, 30, tzinfo=datetime.UTC)).days
    rows = [f"{first + hour / 24!r},100,20" for hour in range(5)]
    path = table(tmp_path, "timestamp,prompt_tokens,output_tokens", rows)
    with pytest.raises(InputError, match=r"2026-11-02 and after as Excel counts days, or seconds"):
        read(path)
    named = open_trace([str(path)], mapping={"arrival_excel": "timestamp"})
    assert isinstance(named, Trace)
    assert named.start_epoch_s == START.timestamp()
    assert named.relation.max("arrival_s").fetchall()[0][0] == pytest.approx(4 * 3600.0)


def test_packed_files_are_named_as_what_they_are(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("log.csv", "timestamp,prompt_tokens\n")
    path = tmp_path / "log"
    for content, says in ((packed.getvalue(), "is a ZIP archive"), ("timestamp\n".encode("utf-16"), "is UTF-16 text")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=says):
            read(path)


def test_points_that_repeat_are_said_to_be_counted_twice(tmp_path: Path) -> None:
    rows = hours(["100", "120", "90"])
    for given, repeats in ((rows, 0), ([*rows, *rows], 3)):
        found = open_trace([str(table(tmp_path, "Time,requests", given))])
        said = [each.sentence for each in found.anomalies if each.kind is AnomalyKind.DUPLICATES]
        assert [each[:36] for each in said] == ["3 of 6 points repeat another one, ti"][:repeats]
