"""Columns that are there are read: usual names, units by size, what is left unread, and what may then be said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from ullage.errors import InputError
from ullage.readers.traces.aliases import USUAL_NAMES, plain_name
from ullage.readers.traces.open import open_trace
from ullage.report.workload.profile_page import profile_page
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.profile import Profile, profile
from ullage.workload.trace import Trace


def opened(folder: Path, text: str, *, name: str = "log.csv", mapping: dict[str, str] | None = None) -> Trace:
    path = folder / name
    path.write_text(text)
    trace = open_trace([str(path)], mapping=mapping)
    assert isinstance(trace, Trace)
    return trace


def rows(trace: Trace, *columns: str) -> list[tuple[object, ...]]:
    return trace.query(f"SELECT {', '.join(columns)} FROM trace ORDER BY arrival_s").fetchall()


def page(found: Profile) -> str:
    console = Console(width=2000, no_color=True)
    with console.capture() as captured:
        for part in profile_page(found):
            console.print(part)
    return captured.get()


@pytest.mark.parametrize("output", ["completion_tokens", "Completion Tokens", "generatedTokens", "osl"])
@pytest.mark.parametrize(
    ("launch", "first", "second"),
    [
        ("launch_time", "2026-11-01T10:00:00Z", "2026-11-01T10:00:02Z"),
        ("created", "1793527200", "1793527202"),
        ("timestamp", "1793527200000", "1793527202000"),
        ("ts", "1793527200000000", "1793527202000000"),
        ("startTime", "1793527200000000000", "1793527202000000000"),
    ],
)
def test_usual_names_are_known_and_calendar_times_show_their_unit(
    output: str, launch: str, first: str, second: str, tmp_path: Path
) -> None:
    trace = opened(tmp_path, f"{launch},input_tokens,{output}\n{first},10,5\n{second},20,6\n")
    assert rows(trace, "arrival_s", "prompt_tokens", "output_tokens") == [(0.0, 10, 5), (2.0, 20, 6)]
    assert trace.start_epoch_s == 1793527200
    (said,) = [each for each in trace.anomalies if each.kind is AnomalyKind.USUAL_NAMES]
    assert f"output_tokens from {output}" in said.sentence


@pytest.mark.parametrize(("latency", "seconds"), [("1500", 1.5), ("1.5", 1.5), ("0.9", 0.9), ("250", 0.25)])
@pytest.mark.parametrize("name", ["latency", "e2e", "elapsed_time"])
def test_a_latency_without_a_unit_is_read_by_what_a_token_takes(
    name: str, latency: str, seconds: float, tmp_path: Path
) -> None:
    trace = opened(tmp_path, f"arrival_s,prompt_tokens,output_tokens,{name}\n0,10,50,{latency}\n1,10,50,{latency}\n")
    assert rows(trace, "duration_s") == [(pytest.approx(seconds),)] * 2
    assert any(each.kind is AnomalyKind.UNIT_UNCERTAIN for each in trace.anomalies)


def test_a_unit_in_the_name_is_believed_without_a_word(tmp_path: Path) -> None:
    trace = opened(tmp_path, "arrival_s,prompt_tokens,output_tokens,latency_seconds\n0,10,2,1500\n1,10,2,1500\n")
    assert rows(trace, "duration_s") == [(1500.0,)] * 2
    assert not any(each.kind is AnomalyKind.UNIT_UNCERTAIN for each in trace.anomalies)


def test_an_end_and_a_first_token_become_times_from_the_arrival(tmp_path: Path) -> None:
    trace = opened(
        tmp_path,
        "start_time,end_time,first_token_time,prompt_tokens,output_tokens\n"
        "2026-11-01T10:00:00Z,2026-11-01T10:00:04Z,2026-11-01T10:00:01Z,10,5\n",
    )
    assert rows(trace, "duration_s", "ttft_s") == [(4.0, 1.0)]


def test_a_logged_duration_is_taken_before_an_end(tmp_path: Path) -> None:
    trace = opened(
        tmp_path,
        "start_time,end_time,duration_ms,prompt_tokens,output_tokens\n"
        "2026-11-01T10:00:00Z,2026-11-01T10:00:04Z,3000,10,5\n",
    )
    assert rows(trace, "duration_s") == [(3.0,)]
    assert trace.unread == ("end_time",)


def test_lengths_inside_json_are_found(tmp_path: Path) -> None:
    record = {"created_at": "2026-11-01T10:00:00Z", "usage": {"prompt_tokens": 10, "completion_tokens": 5}, "id": "a"}
    trace = opened(tmp_path, json.dumps(record) + "\n", name="log.jsonl")
    assert rows(trace, "prompt_tokens", "output_tokens", "request") == [(10, 5, "a")]


def test_unread_columns_are_listed_with_the_mapping_that_reads_them(tmp_path: Path) -> None:
    text = "arrival_s,prompt_tokens,output_tokens,team_id,user,zone_of_gpu\n0,10,5,a,b,c\n1,10,5,a,b,c\n"
    trace = opened(tmp_path, text)
    assert set(trace.unread) == {"user", "zone_of_gpu"}
    (said,) = [each for each in trace.anomalies if each.kind is AnomalyKind.UNREAD_COLUMNS]
    assert "--column tenant=user" in said.sentence
    again = opened(tmp_path, text, mapping={"tenant": "user"})
    assert rows(again, "tenant", "prompt_tokens") == [("b", 10)] * 2
    assert set(again.unread) == {"team_id", "zone_of_gpu"}


def test_a_known_format_lists_what_it_does_not_read_and_lacks(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens,latency_ms\n2026-11-01 10:00:00,10,5,100\n"
    trace = opened(tmp_path, text)
    assert (trace.format, trace.unread) == ("azure", ("latency_ms",))
    mapped = opened(tmp_path, text, mapping={"duration_ms": "latency_ms"})
    assert rows(mapped, "prompt_tokens", "output_tokens", "duration_s") == [(10, 5, 0.1)]


def test_not_logged_is_only_said_where_nothing_was_left_unread(tmp_path: Path) -> None:
    bare = profile(opened(tmp_path, "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,5\n"))
    assert "durations are not logged" in page(bare)
    more = profile(opened(tmp_path, "arrival_s,prompt_tokens,output_tokens,how_long\n0,10,5,3\n1,10,5,3\n"))
    assert "not logged" not in page(more)
    assert "unread: how_long; --column duration_ms=COLUMN" in page(more)


def test_active_tokens_of_unknown_lengths_are_unknown(tmp_path: Path) -> None:
    found = profile(opened(tmp_path, "arrival_s,duration_s,path\n0,2,/v1\n1,2,/v1\n5,2,/v1\n"))
    assert found.whole.inflight is not None
    assert found.whole.inflight.active_tokens is None
    assert "active tokens  " not in page(found)


@pytest.mark.parametrize("column", ["requests", "n_requests", "rps", "count"])
def test_a_table_that_counts_requests_is_not_taken_for_requests(column: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(f"timestamp,prompt_tokens,output_tokens,{column}\n2026-11-01T10:00:00Z,100,50,7\n")
    try:
        trace = open_trace([str(path)])
    except InputError:
        return
    assert not isinstance(trace, Trace)


def test_usual_names_are_written_as_they_are_compared_and_mean_one_column() -> None:
    for column, names in USUAL_NAMES.items():
        assert all(name == plain_name(name) for name in names), column
    every = [name for names in USUAL_NAMES.values() for name in names]
    # What nginx calls request_time is a duration, and an arrival where there is no other.
    assert sorted(name for name in set(every) if every.count(name) > 1) == ["requesttime"]


def test_no_bursts_is_not_printed_beside_a_large_dispersion(tmp_path: Path) -> None:
    times = [
        hour * 3600 + 3600 * at / busy
        for hour in range(72)
        for busy in [900 if hour % 24 < 9 else 90]
        for at in range(busy)
    ]
    text = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{time:.3f},10,5\n" for time in times)
    found = profile(opened(tmp_path, text))
    assert found.whole.bursts is not None
    assert found.whole.bursts.episodes == 0
    shown = page(found)
    assert "No bursts" not in shown
    assert "traffic is uneven" in shown


def test_one_burst_in_a_quiet_month_is_found(tmp_path: Path) -> None:
    quiet = [7200.0 * at for at in range(360)]
    burst = [1_000_000.0 + 0.1 * at for at in range(500)]
    text = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{time},10,5\n" for time in sorted(quiet + burst))
    found = profile(opened(tmp_path, text))
    assert found.whole.bursts is not None
    assert found.whole.bursts.episodes == 1
    assert found.whole.bursts.highest[0].start_s == pytest.approx(1_000_000, abs=120)
