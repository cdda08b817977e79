"""What every trace reader keeps to, whatever its format: one test over the table for each SLO."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support.trace_samples import REQUESTS, SAMPLES, START_EPOCH_S, Sample
from ullage.errors import InputError
from ullage.readers.traces.open import open_trace
from ullage.readers.traces.table import TRACE_READERS
from ullage.report.encode import to_json
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.profile import Profile, profile, profile_of
from ullage.workload.profile.windows import summarise_windows
from ullage.workload.trace import SQL_TYPES, Clock, RateTable, Trace

EVERY = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
LISTING = pytest.mark.parametrize(
    "sample", [each for each in SAMPLES.values() if not each.is_counted], ids=lambda each: each.name
)
# Sessions have no common clock to be out of order in.
ON_ONE_CLOCK = pytest.mark.parametrize(
    "sample",
    [each for each in SAMPLES.values() if not each.is_counted and each.name != "agent-sessions"],
    ids=lambda each: each.name,
)
# Formats whose times are no calendar times: a wrong unit cannot be proved, only flagged.
# Formats whose calendar times show their unit by their size, so that none is wrong.
SIZED = (
    "rates", "rates-long", "prometheus", "victoriametrics", "victoriametrics-csv", "cloudwatch", "azure-monitor",
    "openai-usage",
)  # fmt: skip
COUNT_FROM_ZERO = ("mooncake", "burstgpt", "agent-sessions")
MEGABYTES_10 = "x" * 10_000_000


def profiled(path: Path) -> Profile:
    trace = open_trace([str(path)])
    return profile_of(summarise_windows(trace)) if isinstance(trace, RateTable) else profile(trace)


def accounted(trace: Trace | RateTable) -> bool:
    return trace.rows.read_rows == trace.rows.kept_rows + sum(each.rows for each in trace.rows.dropped)


def test_every_reader_has_a_sample() -> None:
    assert set(SAMPLES) == set(TRACE_READERS)


@EVERY
def test_a_good_file_is_recognised_and_kept_whole(sample: Sample, tmp_path: Path) -> None:
    trace = open_trace([str(sample.write(tmp_path))])
    assert trace.format == sample.name
    assert trace.rows.kept_rows == trace.rows.read_rows == len(REQUESTS)
    assert not trace.rows.dropped


@LISTING
def test_rows_are_the_requests_that_were_written(sample: Sample, tmp_path: Path) -> None:
    trace = open_trace([str(sample.write(tmp_path))])
    assert isinstance(trace, Trace)
    assert trace.relation.columns == list(SQL_TYPES)
    rows = trace.query(f"SELECT {', '.join(sample.columns)} FROM trace ORDER BY arrival_s").fetchall()
    assert rows == [
        tuple(pytest.approx(getattr(each, column), abs=1e-5) for column in sample.columns) for each in REQUESTS
    ]
    if trace.clock is Clock.UTC:
        assert trace.start_epoch_s == pytest.approx(START_EPOCH_S, abs=1e-5)


@EVERY
def test_a_cut_file_is_an_error_or_a_counted_row(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path)
    whole = path.read_bytes()
    if not sample.lines:
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="may be cut"):
            open_trace([str(path)])
        return
    last = whole.rstrip().rfind(b"\n")
    path.write_bytes(whole[: last + 1 + 4])
    trace = open_trace([str(path)])
    assert accounted(trace)
    assert trace.rows.kept_rows == len(REQUESTS) - 1
    assert sum(each.rows for each in trace.rows.dropped) == 1
    if isinstance(trace, Trace):
        assert any(anomaly.kind is AnomalyKind.ROWS_DROPPED for anomaly in trace.anomalies)


@EVERY
def test_a_wrong_unit_is_an_error_or_an_anomaly(sample: Sample, tmp_path: Path) -> None:
    if sample.name in SIZED:
        times = [profiled(sample.write(tmp_path, scale=scale)).coverage.first_time for scale in (1.0, 1e3)]
        assert times[0] == times[1]
        return
    if sample.name in COUNT_FROM_ZERO:
        scale = 1e3 if sample.name == "agent-sessions" else 1e-3
        found = profiled(sample.write(tmp_path, scale=scale))
        assert any(anomaly.kind is AnomalyKind.UNIT_UNCERTAIN for anomaly in found.anomalies)
    else:
        with pytest.raises(InputError, match=r"time|windows are that far apart"):
            profiled(sample.write(tmp_path, scale=1e3))


@pytest.mark.slow
@EVERY
def test_order_does_not_matter(sample: Sample, tmp_path: Path) -> None:
    shuffled = list(REQUESTS)
    if sample.name in ("agent-sessions", "servegen"):
        # What these samples write beside a request depends on its place; reversing whole lines does not.
        path = sample.write(tmp_path)
        head, lines = ([], path.read_text().splitlines())
        if sample.name == "servegen":
            head, lines = lines[:1], lines[1:]
        other = tmp_path / f"other{sample.suffix}"
        other.write_text("\n".join([*head, *reversed(lines), ""]))
    else:
        random.Random(1).shuffle(shuffled)
        path, other = sample.write(tmp_path), sample.write(tmp_path, shuffled, name="other")
    straight, turned = to_json(profiled(path)), to_json(profiled(other))
    # Block hashes of the sample go by place, and places are what was exchanged.
    for different in ("anomalies", "sources", "reuse"):
        straight.pop(different)
        turned.pop(different)
    assert straight == turned


@ON_ONE_CLOCK
def test_a_file_out_of_order_says_so(sample: Sample, tmp_path: Path) -> None:
    found = profiled(sample.write(tmp_path, list(reversed(REQUESTS))))
    assert any(anomaly.kind is AnomalyKind.UNSORTED for anomaly in found.anomalies)


@EVERY
@pytest.mark.parametrize("content", [b"", b"\n"], ids=["no bytes", "a blank line"])
def test_an_empty_file_is_an_error(sample: Sample, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"empty{sample.suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError):
        open_trace([str(path)])


@EVERY
def test_a_file_without_requests_is_an_error(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        profiled(sample.write(tmp_path, []))


@EVERY
def test_binary_is_an_error(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / f"binary{sample.suffix}"
    path.write_bytes(random.Random(2).randbytes(100_000))
    with pytest.raises(InputError, match="neither text nor Parquet"):
        open_trace([str(path)])


@pytest.mark.slow
@EVERY
def test_a_line_of_ten_megabytes_is_kept_or_counted(sample: Sample, tmp_path: Path) -> None:
    path = sample.write(tmp_path, filler=MEGABYTES_10 if not sample.lines else "")
    if sample.lines:
        with path.open("a") as stream:
            stream.write(MEGABYTES_10 + "\n")
    if not sample.lines:
        # One window alone does not say how long it is.
        requests = REQUESTS[:2] if sample.is_counted else REQUESTS[:1]
        path = sample.write(tmp_path, requests, filler=MEGABYTES_10)
        assert open_trace([str(path)]).rows.kept_rows == len(requests)
        return
    trace = open_trace([str(path)])
    assert accounted(trace)
    assert trace.rows.kept_rows == len(REQUESTS)
    assert sum(each.rows for each in trace.rows.dropped) == 1


def test_a_record_with_a_prompt_of_ten_megabytes_is_kept(tmp_path: Path) -> None:
    path = SAMPLES["litellm"].write(tmp_path)
    with path.open("ab") as stream:
        stream.write(SAMPLES["litellm"].render(REQUESTS[:1], 1.0, MEGABYTES_10))
    assert open_trace([str(path)]).rows.kept_rows == len(REQUESTS) + 1


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,-3\n2,10,5\n")
    trace = open_trace([str(path)])
    (dropped,) = trace.rows.dropped
    assert (dropped.reason, dropped.rows, dropped.first_row) == ("negative output tokens", 1, 2)
    assert "output_tokens = -3" in dropped.example
