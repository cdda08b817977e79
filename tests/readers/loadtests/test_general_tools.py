"""Results that know requests and no tokens, packed files and folders: what is read, and what the rest is called."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loadtest_samples import (
    E2E_S,
    REQUESTS,
    SAMPLES,
    TTFT_S,
    k6_summary,
    locust_stats,
    request_log,
    to_csv,
)
from ullage.errors import InputError
from ullage.load.evidence import load_tests
from ullage.readers.loadtests import read_bytes, read_loadtest
from ullage.service.loadtests.loadtest import Definition, Loop


def test_the_csv_of_aiperf_says_what_its_json_says(shared_data: Path) -> None:
    folder = shared_data / "loadtests" / "aiperf" / "v0.13.0_rate5_mock"
    (csv,), (json,) = (read_loadtest(folder / f"profile_export_aiperf.{each}").points for each in ("csv", "json"))
    assert csv.completed_count == json.completed_count
    for definition in (Definition.TTFT, Definition.ITL_PER_REQUEST, Definition.E2E):
        one, other = csv.latency(definition), json.latency(definition)
        assert one is not None
        assert other is not None
        assert one.mean_s == pytest.approx(other.mean_s, abs=1e-5)
        assert one.at(0.99) == pytest.approx(other.at(0.99), abs=1e-5)
    assert csv.mean_output_tokens == json.mean_output_tokens
    # The configuration is in the JSON alone: it says a rate, and the CSV only how many were under way.
    assert json.load.loop is Loop.OPEN
    assert csv.load.concurrency_cap_count == 3


def test_a_locust_file_of_other_pages_too_is_read_for_the_one_that_generates(shared_data: Path) -> None:
    found = read_loadtest(shared_data / "found" / "locust_results_stats.csv")
    (point,) = found.points
    e2e = point.latency(Definition.E2E)
    assert (point.name, point.completed_count) == ("/api/chat", 57)
    assert e2e is not None
    assert e2e.mean_s == pytest.approx(0.37057917)
    assert point.latency(Definition.TTFT) is None
    assert any("fire it as a request named ttft" in each.sentence for each in point.anomalies)


def test_two_generating_requests_in_one_locust_file_are_refused() -> None:
    text = locust_stats().decode().replace("/health", "/v1/completions")
    with pytest.raises(InputError, match="several rows of generating requests"):
        read_bytes(text.encode(), file="stats.csv")


def test_the_first_byte_is_no_first_token() -> None:
    text = k6_summary().decode().replace('"ttft"', '"page_time"')
    (point,) = read_bytes(text.encode(), file="summary.json").points
    assert point.latency(Definition.TTFT) is None
    assert any("http_req_waiting ends with the first byte" in each.sentence for each in point.anomalies)


def test_failures_of_k6_are_counted_once() -> None:
    text = k6_summary().decode().replace('"passes": 0', '"passes": 5')
    (point,) = read_bytes(text.encode(), file="summary.json").points
    assert (point.completed_count, point.failed_count) == (REQUESTS - 5, 5)


def test_a_unit_that_no_column_names_is_read_off_and_said() -> None:
    for factor, unit in ((1000.0, "milliseconds"), (1.0, "seconds")):
        rows = [["timestamp", "input_tokens", "output_tokens", "ttft", "latency"]]
        rows += [
            [str(1_790_000_000 + each), "200", "46", str(TTFT_S * factor), str(E2E_S * factor)] for each in range(9)
        ]
        (point,) = read_bytes(to_csv(rows), file="log.csv").points
        e2e = point.latency(Definition.E2E)
        assert e2e is not None
        assert e2e.mean_s == pytest.approx(E2E_S)
        assert any(f"read as {unit}" in each.sentence for each in point.anomalies)


def test_a_request_that_failed_is_in_no_latency() -> None:
    lines = request_log().decode().splitlines()
    lines[5] = lines[5].replace(",200", ",500").replace("1000.0", "90000.0")
    (point,) = read_bytes("\n".join(lines).encode(), file="log.csv").points
    e2e = point.latency(Definition.E2E)
    assert (point.completed_count, point.failed_count) == (REQUESTS - 1, 1)
    assert e2e is not None
    assert e2e.max_s == pytest.approx(E2E_S)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_packed_file_reads_like_the_file(name: str) -> None:
    plain = SAMPLES[name].make(1.0)
    found = read_bytes(gzip.compress(plain, mtime=0), file="run.gz")
    assert found.points == read_bytes(plain, file="run.gz").points


@given(st.data())
def test_a_damaged_packed_file_is_refused_and_never_a_fault(data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(SAMPLES["vllm"].make(1.0), mtime=0))
    at = data.draw(st.integers(2, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(2, len(packed)))
    for damaged in (bytes(packed), bytes(packed[:cut])):
        try:
            read_bytes(damaged, file="run.gz")
        except InputError:
            continue


def test_a_folder_is_all_results_in_it_and_nothing_else(tmp_path: Path) -> None:
    inside = tmp_path / "sweep" / "run-2"
    inside.mkdir(parents=True)
    (tmp_path / "sweep" / "run-1.json").write_bytes(SAMPLES["vllm"].make(1.0))
    (inside / "result.jsonl.gz").write_bytes(gzip.compress(SAMPLES["sglang"].make(1.0), mtime=0))
    (inside / "notes.txt").write_text("nothing to read here")
    (inside / "plot.png").write_bytes(b"\x89PNG\x00\x00")
    found = load_tests([tmp_path / "sweep"])
    assert [each.reader for each in found] == ["vllm", "sglang"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="without a result"):
        load_tests([tmp_path / "empty"])
