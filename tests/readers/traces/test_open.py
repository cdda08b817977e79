"""Finding files and formats: globs, folders, compression, mappings, and errors that say what to do."""

from __future__ import annotations

import datetime
import gzip
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.trace_samples import REQUESTS, SAMPLES
from ullage.errors import InputError
from ullage.readers.engines import read_engine_report
from ullage.readers.loadtests import read_loadtest
from ullage.readers.traces import azure, table
from ullage.readers.traces.files import _decoded, _inside_each
from ullage.readers.traces.open import open_trace
from ullage.workload.profile.profile import profile
from ullage.workload.trace import Clock, Trace

AZURE = SAMPLES["azure"]


def opened(*patterns: Path | str, mapping: dict[str, str] | None = None) -> Trace:
    trace = open_trace([str(each) for each in patterns], mapping=mapping)
    assert isinstance(trace, Trace)
    return trace


@pytest.mark.parametrize("header", [",timestamp,prompt_tokens,output_tokens", "id,timestamp,prompt_tokens,Id"])
def test_an_unnamed_column_and_a_name_twice_are_read(header: str, tmp_path: Path) -> None:
    file = tmp_path / "frame.csv"
    file.write_text(f"{header}\n0,2026-01-01T00:00:00,7,8\n1,2026-01-01T00:00:01,7,8\n")
    assert opened(file).relation.aggregate("sum(prompt_tokens)").fetchall() == [(14,)]


def test_a_glob_names_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        AZURE.write(tmp_path, name=name)
    assert opened(tmp_path / "[ab].csv").rows.kept_rows == 2 * len(REQUESTS)
    assert opened(tmp_path / "a.csv", tmp_path / "*.csv").rows.kept_rows == 3 * len(REQUESTS)


def test_a_name_with_magic_characters_is_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "run[1]"
    folder.mkdir()
    assert opened(AZURE.write(folder, name="what?")).rows.kept_rows == len(REQUESTS)


def test_a_folder_stands_for_what_is_in_it(tmp_path: Path) -> None:
    AZURE.write(tmp_path, name="a")
    deeper = tmp_path / "more"
    deeper.mkdir()
    AZURE.write(deeper, name="b")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden").write_text("x")
    assert opened(tmp_path).rows.kept_rows == 2 * len(REQUESTS)


@pytest.mark.parametrize("name", ["azure", "mooncake", "guidellm"])
def test_packed_files_are_read(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    plain = sample.write(tmp_path).read_bytes()
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(plain, mtime=0))
    assert opened(packed).rows.kept_rows == len(REQUESTS)


@pytest.mark.parametrize("layout", ["csv", "json"])
def test_zstd_is_read(layout: str, tmp_path: Path) -> None:
    source = tmp_path / "plain.csv"
    source.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,2\n1,3,4\n")
    target = tmp_path / f"packed.{layout}.zst"
    duckdb.connect().execute(f"COPY (SELECT * FROM '{source}') TO '{target}' (FORMAT {layout}, COMPRESSION zstd)")
    assert opened(target).rows.kept_rows == 2


def test_old_packed_logs_beside_a_plain_one(tmp_path: Path) -> None:
    sample = SAMPLES["litellm"]
    sample.write(tmp_path, REQUESTS[6:], name="now")
    (tmp_path / "old.jsonl.gz").write_bytes(gzip.compress(sample.render(REQUESTS[:6], 1.0, ""), mtime=0))
    assert opened(tmp_path).rows.kept_rows == len(REQUESTS)


@pytest.mark.parametrize("layout", ["parquet", "csv"])
def test_folders_of_a_partition_are_columns(layout: str, tmp_path: Path) -> None:
    duckdb.connect().execute(
        "COPY (SELECT i::DOUBLE AS arrival_s, 10 AS prompt_tokens, 5 AS output_tokens, 'm' || i % 2 AS model "
        f"FROM range(10) t(i)) TO '{tmp_path / 'out'}' (FORMAT {layout}, PARTITION_BY (model))"
    )
    trace = opened(tmp_path / "out")
    rows = trace.query("SELECT model, count(*) FROM trace GROUP BY model ORDER BY model").fetchall()
    assert rows == [("m0", 5), ("m1", 5)]


def test_a_mapping_names_columns_and_units(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("when,in,out,took\n1760000000000,10,5,250\n1760000002000,20,6,500\n")
    mapping = {"arrival_ms": "when", "prompt_tokens": "in", "output_tokens": "out", "duration_ms": "took"}
    trace = opened(path, mapping=mapping)
    assert trace.clock is Clock.UTC
    rows = trace.query("SELECT arrival_s, prompt_tokens, output_tokens, duration_s FROM trace").fetchall()
    assert rows == [(0.0, 10, 5, 0.25), (2.0, 20, 6, 0.5)]


def test_a_mapping_goes_into_nested_json(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    record = {"ts": "2026-01-05T00:00:00Z", "usage": {"in.tokens": 7}, "a.b": 3}
    path.write_text(json.dumps(record) + "\n")
    trace = opened(path, mapping={"arrival_time": "ts", "prompt_tokens": "usage.in.tokens", "output_tokens": "a.b"})
    assert trace.query("SELECT prompt_tokens, output_tokens FROM trace").fetchall() == [(7, 3)]


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"arival_s": "when"}, "Did you mean arrival_s"),
        ({"arrival_s": "wen"}, "Did you mean when"),
        ({"arrival_s": "when", "arrival_ms": "when"}, "a second time"),
        ({"arrival_s": "when"}, "2025-10-09 if it were in milliseconds"),
        ({"arrival_day_first": "when", "arrival_month_first": "when"}, "more than once how times are read"),
        ({"arrival_day_first": "when", "arrival_time": "when"}, "more than once how times are read"),
    ],
)
def test_a_wrong_mapping_is_explained(mapping: dict[str, str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("when,in,out\n1760000000000,10,5\n1760000002000,20,6\n")
    with pytest.raises(InputError, match=said):
        opened(path, mapping=mapping)


def test_an_unknown_file_says_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("when,in,out\n1,10,5\n")
    with pytest.raises(InputError, match=r"no known format; it has when, in, out.*--column"):
        opened(path)


def test_a_histogram_of_lengths_is_not_taken_for_requests(tmp_path: Path) -> None:
    path = tmp_path / "histogram.csv"
    path.write_text("prompt_tokens,output_tokens,prob\n10,5,0.5\n20,5,0.5\n")
    with pytest.raises(InputError, match="no known format"):
        opened(path)


def test_files_of_two_layouts_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("timestamp,prompt_tokens,output_tokens\n2026-01-01T00:00:00Z,1,2\n")
    (tmp_path / "b.jsonl").write_text('{"timestamp": "2026-01-01T00:00:00Z", "prompt_tokens": 1, "output_tokens": 2}\n')
    for mapping in (None, {"arrival_time": "timestamp", "prompt_tokens": "prompt_tokens"}):
        with pytest.raises(InputError, match=r"a\.csv, b\.jsonl': are csv and json"):
            open_trace([str(tmp_path)], mapping=mapping)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("2026-01-01T00:00:00Z,17,3\n", "has no line of column names; its first line is 2026-01-01T00:00:00Z, 17, 3"),
        (
            "INFO [gpu_worker.py:1] Available KV cache memory: 1 GiB\n",
            r"monitor's file \(vllm\), no trace.*--engine-log",
        ),
        ("[TensorRT-LLM][INFO] Number of tokens per block: 64.\n", r"\(tensorrt-llm\), no trace"),
        ('{"successful_requests": 1, "median_ttft_ms": 1}', "of no known format"),
        (
            "time,input_tokens,output_tokens\n13:20:11,1,2\n",
            r"neither a date and time.*time = 13:20:11",
        ),
        (f"ts,input_tokens,output_tokens\n1763000000,{10**18},2\n", "more prompt tokens than any request has"),
    ],
)
def test_what_is_no_trace_is_told_what_it_is(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "file.log"
    file.write_text(content)
    with pytest.raises(InputError, match=says):
        open_trace([str(file)])


def test_load_tests_and_engine_logs_are_told_apart_too(tmp_path: Path) -> None:
    log, result = tmp_path / "engine.log", tmp_path / "stats.csv"
    log.write_text("[TensorRT-LLM][INFO] Number of tokens per block: 64.\n")
    result.write_text(
        "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,"
        "Max Response Time,Average Content Size,Requests/s,Failures/s\nPOST,/v1,10,0,5,5,5,5,5,1,0\n"
    )
    with pytest.raises(InputError, match=r"load test = .*\(tensorrt-llm\), no load test\. Give it as --engine-log"):
        read_loadtest(log)
    with pytest.raises(
        InputError, match=r"engine log = .*\(Locust stats\), no engine log\. Give it to ullage calibrate"
    ):
        read_engine_report(result, date=datetime.date(2026, 11, 18))
    with pytest.raises(InputError, match=r"trace = .*\(Locust stats\), no trace"):
        open_trace([str(result)])


def test_a_log_that_begins_in_the_middle_of_a_line_is_read(tmp_path: Path) -> None:
    rows = [f'{{"timestamp": "2026-01-01T00:00:0{n}Z", "prompt_tokens": 5, "output_tokens": 2}}' for n in range(5)]
    file = tmp_path / "rotated.jsonl"
    file.write_text("\n".join(['{"timest', *rows]))
    found = open_trace([str(file)])
    assert isinstance(found, Trace)
    assert (found.rows.read_rows, found.rows.kept_rows) == (6, 5)


def test_several_formats_are_named(tmp_path: Path) -> None:
    paths = [SAMPLES[name].write(tmp_path, name=name) for name in ("azure", "mooncake")]
    with pytest.raises(InputError, match="several formats: azure, mooncake"):
        opened(*paths)


def test_ambiguity_names_the_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = replace(azure.READER, name="twin", title="like Azure")
    monkeypatch.setitem(table.TRACE_READERS, "twin", twin)
    path = AZURE.write(tmp_path)
    with pytest.raises(InputError, match=r"any of azure, twin.*--format"):
        opened(path)
    assert open_trace([str(path)], format_name="twin").format == "twin"


@pytest.mark.parametrize(("name", "said"), [("azur", "Did you mean azure"), ("mooncake", "is not Mooncake trace")])
def test_a_wrong_format_is_explained(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        open_trace([str(AZURE.write(tmp_path))], format_name=name)


def test_a_wrong_zone_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a time zone"):
        open_trace([str(AZURE.write(tmp_path))], zone="Berlin")


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no file"):
        opened(tmp_path / "*.csv")
    with pytest.raises(InputError, match="names no file"):
        opened(tmp_path / "nothing.csv")


def test_cut_parquet_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    duckdb.connect().execute(f"COPY (SELECT i AS arrival_s FROM range(1000) t(i)) TO '{path}'")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not whole Parquet"):
        opened(path)


@pytest.mark.parametrize(
    "hashes", [[["7", "8"], ["7", "9"]], [[7, 8], [7, 9]], [["a", "b"], ["a", "c"]], [["a", 8], ["a", 9]]]
)
def test_block_hashes_may_be_numbers_or_text(hashes: list[list[object]], tmp_path: Path) -> None:
    path = tmp_path / "blocks.jsonl"
    path.write_text("".join(json.dumps({"arrival_s": at, "hash_ids": each}) + "\n" for at, each in enumerate(hashes)))
    first, second = (
        row[0] for row in opened(path).query("SELECT block_hashes FROM trace ORDER BY arrival_s").fetchall()
    )
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_names_of_tenants_that_look_like_ours_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "tenants.csv"
    names = ["(others)"] * 30 + [f"t{at % 12}" for at in range(60)]
    rows = [f"{at},1,1,{name}" for at, name in enumerate(names)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,tenant", *rows, ""]))
    groups = {group.name: group.profile.requests for group in profile(opened(path)).of("tenant")}
    assert groups["'(others)'"] == 30
    assert sum(groups.values()) == 90


def test_repairs_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens,cached_tokens,duration_s\n0,10,5,12,1\n1,10,5,4,-1\n")
    trace = opened(path)
    assert {each.reason.split(",")[0]: each.rows for each in trace.rows.repaired} == {
        "cached tokens above the prompt": 1,
        "negative duration": 1,
    }
    assert trace.query("SELECT cached_tokens, duration_s FROM trace").fetchall() == [(10, 1.0), (4, None)]


def test_a_head_that_ends_inside_a_character_is_read_up_to_it() -> None:
    assert _decoded("log.csv", "naïve é".encode()[:-1]) == "naïve "


@given(st.lists(st.text(".[]ab", max_size=8), max_size=12))
def test_what_stands_inside_a_key_is_what_begins_with_its_path(fields: list[str]) -> None:
    inside = _inside_each(fields)
    for place in {*fields, *(f"{field}[]" for field in fields)}:
        expected = [each.removeprefix(f"{place}.") for each in fields if each.startswith(f"{place}.")]
        assert inside.get(place, []) == expected


def test_the_pieces_of_a_streamed_answer_are_one_request(tmp_path: Path) -> None:
    def piece(own: str, choices: object, usage: object = None, kind: str = "chat.completion.chunk") -> str:
        record = {"id": own, "object": kind, "created": 1772656349, "model": "m", "choices": choices, "usage": usage}
        return json.dumps(record) + "\n"

    usage = {"prompt_tokens": 16, "completion_tokens": 3}
    said: object = [{"finish_reason": None, "delta": {}}]
    stopped: object = [{"finish_reason": "stop", "delta": {}}]
    text = piece("a", said) * 3 + piece("a", stopped) + piece("a", [], usage)
    # Others count in the piece that ends the answer; one that was not streamed is a request as it is.
    text += piece("b", said) * 2 + piece("b", stopped, usage) + piece("c", stopped, usage, "chat.completion")
    path = tmp_path / "answers.jsonl"
    path.write_text(text)
    trace = open_trace([str(path)])
    assert (trace.rows.kept_rows, trace.rows.read_rows) == (3, 9)
    assert trace.rows.dropped[0].reason == "a piece of a streamed answer"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:5f\nsize 5648304\n",
            "pointer of Git LFS.*git lfs pull",
        ),
        ("../.git/annex/objects/Xx/9f/SHA256E-s1.jsonl\n", "pointer of git-annex"),
        ("# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.5\n", "one moment.*query_range"),
    ],
)
def test_what_stands_in_for_a_file_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        open_trace([str(path)])
