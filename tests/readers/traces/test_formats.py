"""What each format means by its fields: one test for each meaning that is easy to get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.trace_samples import REQUESTS, SAMPLES, START_EPOCH_S
from ullage.readers.traces.open import open_trace
from ullage.workload.profile.profile import profile_of
from ullage.workload.profile.windows import summarise_windows
from ullage.workload.trace import RateTable, Trace


def rows(path: Path, columns: str, *more: Path) -> list[tuple[Any, ...]]:
    trace = open_trace([str(path), *(str(each) for each in more)])
    assert isinstance(trace, Trace)
    return trace.query(f"SELECT {columns} FROM trace ORDER BY arrival_s").fetchall()


def lines(folder: Path, *records: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def span(attributes: dict[str, object], **more: object) -> dict[str, object]:
    return {
        "name": "llm",
        "start_time": "2026-02-25T10:00:00Z",
        "end_time": "2026-02-25T10:00:02Z",
        "attributes": attributes,
        **more,
    }


def test_otel_reads_old_and_new_names(tmp_path: Path) -> None:
    old: dict[str, object] = {
        "gen_ai.usage.prompt_tokens": 30,
        "gen_ai.usage.completion_tokens": 4,
        "gen_ai.latency.e2e": 1.5,
    }
    new: dict[str, object] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 6,
    }
    new |= {"gen_ai.usage.cache_read.input_tokens": 32, "gen_ai.response.time_to_first_chunk": 0.2}
    path = lines(tmp_path, span(old), span(new, start_time="2026-02-25T10:00:01Z"))
    columns = "prompt_tokens, output_tokens, cached_tokens, ttft_s, duration_s"
    assert rows(path, columns) == [(30, 4, None, None, 1.5), (50, 6, 32, 0.2, 1.0)]


def test_otel_counts_a_model_call_once_and_names_what_it_leaves_out(tmp_path: Path) -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 50}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 50}
    trace = open_trace([str(lines(tmp_path, span(call), span(agent)))])
    assert trace.rows.kept_rows == 1
    assert [(each.reason, each.rows) for each in trace.rows.dropped] == [
        (
            "a span that is not a model call, or lies around one",
            1,
        )
    ]


def test_otel_reads_otlp(tmp_path: Path) -> None:
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "70"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "8"}},
        {"key": "gen_ai.conversation.id", "value": {"stringValue": "c1"}},
    ]
    one = {
        "spanId": "a",
        "startTimeUnixNano": "1760000000000000000",
        "endTimeUnixNano": "1760000001500000000",
        "attributes": attributes,
        "status": {"code": 2},
    }
    path = lines(tmp_path, {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]})
    columns = "prompt_tokens, output_tokens, session, status, duration_s"
    assert rows(path, columns) == [(70, 8, "c1", "failed", 1.5)]


def test_openinference_counts_spans_of_kind_llm(tmp_path: Path) -> None:
    call = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 9, "llm.token_count.completion": 3}
    chain = {"openinference.span.kind": "CHAIN", "llm.token_count.prompt": 9}
    path = lines(tmp_path, span(call, status_code="ERROR"), span(chain))
    assert rows(path, "prompt_tokens, output_tokens, status") == [(9, 3, "failed")]


def test_openinference_reads_flat_tables(tmp_path: Path) -> None:
    path = tmp_path / "spans.csv"
    path.write_text(
        "context.span_id,span_kind,start_time,end_time,status_code,attributes.llm.token_count.prompt,"
        "attributes.llm.token_count.completion,attributes.llm.model_name\n"
        "a,LLM,2026-02-25 10:00:00+00:00,2026-02-25 10:00:01+00:00,OK,11,2,m\n"
    )
    assert rows(path, "prompt_tokens, output_tokens, model, duration_s") == [(11, 2, "m", 1.0)]


def test_litellm_finds_cached_tokens_and_a_first_token_only_where_streamed(tmp_path: Path) -> None:
    base = json.loads(SAMPLES["litellm"].render(REQUESTS[:1], 1.0, ""))
    streamed = base | {"completionStartTime": base["startTime"].replace(".000000", ".300000")}
    found = rows(lines(tmp_path, base), "cached_tokens, ttft_s, tenant, status")
    assert found == [(64, None, "hashed-key", "ok")]
    ((ttft_s,),) = rows(lines(tmp_path, streamed), "ttft_s")
    assert ttft_s == pytest.approx(0.3)


def test_sglang_reads_flat_and_nested_meta(tmp_path: Path) -> None:
    flat = json.loads(SAMPLES["sglang"].render(REQUESTS[:1], 1.0, ""))
    parameters = flat.pop("request_parameters")
    nested = {"request_parameters": parameters, "meta_info": flat | {"finish_reason": {"type": "abort"}}}
    columns = "prompt_tokens, cached_tokens, status, model"
    assert rows(SAMPLES["sglang"].write(tmp_path, REQUESTS[:1]), columns) == [(100, 16, "ok", "m")]
    assert rows(lines(tmp_path, nested), columns) == [(100, 16, "cancelled", "m")]


def test_aiperf_prefers_the_servers_tokens_and_leaves_warm_up_out(tmp_path: Path) -> None:
    one = json.loads(SAMPLES["aiperf"].render(REQUESTS[:1], 1.0, ""))
    warm = json.loads(SAMPLES["aiperf"].render(REQUESTS[1:2], 1.0, ""))
    warm["metadata"]["benchmark_phase"] = "warmup"
    path = lines(tmp_path, one, warm)
    ((prompt, ttft_s, duration_s),) = rows(path, "prompt_tokens, ttft_s, duration_s")
    assert (prompt, ttft_s) == (100, 0.25)
    assert duration_s == pytest.approx(1.0)
    assert open_trace([str(path)]).rows.dropped[0].reason == "sent in a warm-up phase"


def test_guidellm_counts_from_when_a_request_was_due(tmp_path: Path) -> None:
    path = SAMPLES["guidellm"].write(tmp_path, REQUESTS[:1])
    ((ttft_s, duration_s, group),) = rows(path, 'ttft_s, duration_s, "class"')
    assert (ttft_s, duration_s, group) == (pytest.approx(0.5, abs=1e-6), pytest.approx(1.0, abs=1e-6), "poisson-0")


def test_burstgpt_takes_an_answer_of_no_tokens_as_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "burst.csv"
    path.write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,s1,1.5,ChatGPT,472,18,490,Conversation log\n45,s1,0.1,GPT-4,300,0,300,API log\n"
    )
    found = rows(path, "arrival_s, output_tokens, status, session, duration_s")
    assert found == [(0.0, 18, "ok", "s1", 1.5), (40.0, None, "failed", "s1", 0.1)]


def test_langfuse_reads_batches_and_exports(tmp_path: Path) -> None:
    body = {
        "id": "g",
        "startTime": "2025-01-22T08:38:25.5-08:00",
        "endTime": "2025-01-22T08:38:26.5-08:00",
        "model": "m",
        "usageDetails": {"input": 10, "output": 20, "cache_read_input_tokens": 4},
        "level": "ERROR",
    }
    batch = tmp_path / "batch.json"
    batch.write_text(
        json.dumps({"batch": [{"type": "trace-create", "body": {}}, {"type": "generation-create", "body": body}]})
    )
    columns = "prompt_tokens, output_tokens, cached_tokens, status, duration_s"
    assert rows(batch, columns) == [(10, 20, 4, "failed", 1.0)]
    export = tmp_path / "export.csv"
    export.write_text(
        "id,type,start_time,end_time,provided_model_name,usage_details,level\n"
        'a,GENERATION,2025-01-22 08:38:25,2025-01-22 08:38:27,m,"{""input"":3,""output"":4}",DEFAULT\n'
    )
    assert rows(export, columns) == [(3, 4, None, "ok", 2.0)]


def test_envoy_takes_dashes_for_nothing_and_a_client_gone_for_cancelled(tmp_path: Path) -> None:
    one = json.loads(SAMPLES["envoy"].render(REQUESTS[:1], 1.0, ""))
    gone = json.loads(SAMPLES["envoy"].render(REQUESTS[1:2], 1.0, "")) | {
        "response_code": 0,
        "response_flags": "DC",
        "gen_ai.usage.output_tokens": "-",
    }
    refused = json.loads(SAMPLES["envoy"].render(REQUESTS[2:3], 1.0, "")) | {"response_code": 429}
    found = rows(lines(tmp_path, one, gone, refused), "reasoning_tokens, output_tokens, status, duration_s")
    assert found == [(None, 10, "ok", 1.0), (None, None, "cancelled", 1.0), (None, 12, "failed", 1.0)]


def test_agent_sessions_wait_only_from_the_second_turn_on(tmp_path: Path) -> None:
    found = rows(SAMPLES["agent-sessions"].write(tmp_path), "wait_s, after_tool, tool_calls")
    assert found[:3] == [(None, False, 1), (None, False, 1), (3.0, False, 1)]


def test_servegen_takes_rates_and_lengths_together(tmp_path: Path) -> None:
    rates = SAMPLES["servegen"].write(tmp_path)
    lengths = tmp_path / "lengths.csv"
    lengths.write_text(
        "category,model,client,window_s,field,mean,support,quantiles\n"
        "language,m,0,0,input_tokens,400,9,[]\nlanguage,m,0,0,output_tokens,40,9,[]\n"
        "language,m,1,0,input_tokens,800,9,[]\nlanguage,m,1,0,output_tokens,80,9,[]\n"
    )
    table = open_trace([str(lengths), str(rates)])
    assert isinstance(table, RateTable)
    found = profile_of(summarise_windows(table))
    # 0.1 req/s a step over twelve rows of ten minutes.
    assert found.whole.requests == round(sum(range(12)) / 10 * 600)
    assert found.whole.lengths.prompt_tokens is not None
    assert found.whole.lengths.prompt_tokens.values[-1] == 800


def test_azure_times_are_utc_unless_a_zone_is_named(tmp_path: Path) -> None:
    path = SAMPLES["azure"].write(tmp_path)
    plain = open_trace([str(path)])
    berlin = open_trace([str(path)], zone="Europe/Berlin")
    assert isinstance(plain, Trace)
    assert isinstance(berlin, Trace)
    assert plain.start_epoch_s == pytest.approx(START_EPOCH_S)
    # 2025-10-09 is summer time in Berlin: two hours ahead of UTC.
    assert berlin.start_epoch_s == pytest.approx(START_EPOCH_S - 7200)
