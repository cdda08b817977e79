"""Logs of providers and proxies: what each says where, by small files of their shapes and by published ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.traces.open import open_trace
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.profile import profile
from ullage.workload.trace import Trace


def opened(path: Path) -> Trace:
    trace = open_trace([str(path)])
    assert isinstance(trace, Trace)
    return trace


def rows(trace: Trace, columns: str) -> list[tuple[object, ...]]:
    return trace.query(f"SELECT {columns} FROM trace ORDER BY arrival_s, request").fetchall()


def written(folder: Path, text: str, name: str = "some.log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


CALL = '"POST /v1/chat/completions HTTP/1.1"'
AGENT = '"-" "sdk"'
ENVOY = f'[2026-11-01T10:00:00.250Z] {CALL} 200 - 120 4410 5321 5200 {AGENT} "0123456789abcdef0" "h" "u"'
ISTIO = (
    f'[2026-11-01T10:00:01.250Z] {CALL} 200 - via_upstream - "-" 120 4410 900 880 {AGENT} "1123456789abcdef0" "h" "u" x'
)
GONE = f'[2026-11-01T10:00:02.250Z] {CALL} 0 DC 120 77 700 - {AGENT} "2123456789abcdef0" "h" "u"'


def test_envoy_and_istio_lines_have_durations_and_cancellations(tmp_path: Path) -> None:
    found = rows(opened(written(tmp_path, f"{ENVOY}\n{ISTIO}\n{GONE}\n")), "duration_s, status, path, arrival_s")
    path = "/v1/chat/completions"
    assert found == [
        (pytest.approx(5.321), "ok", path, 0.0),
        (pytest.approx(0.9), "ok", path, 1.0),
        (pytest.approx(0.7), "cancelled", path, 2.0),
    ]


def test_a_line_inside_a_containers_record_is_read_at_its_own_time(tmp_path: Path) -> None:
    wrapped = json.dumps({"message": ISTIO, "time": "2026-12-24T00:00:00Z"})
    trace = opened(written(tmp_path, f"{ENVOY}\n{wrapped}\n"))
    assert rows(trace, "arrival_s, duration_s") == [(0.0, 5.321), (1.0, 0.9)]


@pytest.mark.parametrize("tail", [" 0.532", ' rt=0.532 uct="0.000"', ' "-" 0.532 0.530'])
def test_nginx_times_a_request_where_its_layout_does(tail: str, tmp_path: Path) -> None:
    line = f'10.0.0.1 - bob [01/Nov/2026:11:00:00 +0100] "POST /v1/chat HTTP/1.1" 499 12 "-" "curl"{tail}\n'
    trace = opened(written(tmp_path, line))
    assert rows(trace, "duration_s, status") == [(0.532, "cancelled")]
    assert trace.start_epoch_s == 1793527200


def test_a_clients_span_and_the_engines_below_it_are_one_request(tmp_path: Path) -> None:
    def span(own: str, parent: str | None, at: int, **attributes: object) -> str:
        named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
        times = {"start_time": f"2026-11-01T10:00:0{at}Z", "end_time": f"2026-11-01T10:00:0{at + 1}Z"}
        return json.dumps({"span_id": own, "parent_span_id": parent, **times, "attributes": named}) + "\n"

    client = {"operation__name": "chat", "request__model": "m", "conversation__id": "s1"}
    engine = {"latency__time_to_first_token": 0.25, "usage__prompt_tokens": 30, "usage__completion_tokens": 4}
    text = span("a", None, 0, **client) + span("b", "a", 0, **engine)
    # A call that the engine below does not tell of, and one of the engine's whose client does not.
    text += span("c", "", 2, **client, usage__input_tokens=50) + span("d", "gone", 4, **engine)
    trace = opened(written(tmp_path, text, "spans.jsonl"))
    assert rows(trace, "arrival_s, prompt_tokens, ttft_s, model, session") == [
        (0.0, 30, 0.25, "m", "s1"),
        (2.0, 50, None, "m", "s1"),
        (4.0, 30, 0.25, None, None),
    ]
    assert [each.rows for each in trace.rows.dropped] == [1]


def test_traefik_numbers_its_requests_and_counts_none(tmp_path: Path) -> None:
    def line(at: int, status: int, **other: object) -> str:
        record = {"StartUTC": f"2026-11-01T10:00:0{at}.5Z", "DownstreamStatus": status, "Duration": 2_500_000_000}
        record |= {"RequestCount": 70 + at, "RequestMethod": "POST", "RequestPath": "/v1/chat/completions?x=1"}
        return json.dumps({**record, **other}) + "\n"

    text = line(0, 200, ServiceName="chat@docker") + line(1, 499) + line(2, 0) + line(3, 502)
    text += line(4, 200, RequestPath="/health") + line(5, 200, RequestMethod="OPTIONS")
    trace = opened(written(tmp_path, text))
    assert trace.format == "traefik"
    assert rows(trace, "arrival_s, duration_s, status, path, product") == [
        (float(at), 2.5, status, "/v1/chat/completions", product)
        for at, status, product in (
            (0, "ok", "chat@docker"),
            (1, "cancelled", None),
            (2, "cancelled", None),
            (3, "failed", None),
        )
    ]


def test_haproxy_says_who_broke_off_and_how_long_it_took(tmp_path: Path) -> None:
    called = "POST /v1/chat/completions?x=1 HTTP/1.1"

    def line(at: int, times: str, code: int, ended: str, request: str = called) -> str:
        before = f"Nov 19 11:00:00 edge haproxy[7]: 10.1.2.3:4321 [19/Nov/2026:10:00:0{at}.123] in~ chat/gpu1"
        return f'{before} {times} {code} 4410 - - {ended} 9/9/8/2/0 0/12 {{api|sdk}} {{}} "{request}"\n'

    whole = "0/0/1/180/2500"
    text = "Nov 19 11:00:00 edge haproxy[7]: Proxy in started.\n" + line(0, whole, 200, "----")
    text += line(1, whole + "   ", 200, "CD--") + line(2, "0/-1/-1/-1/2500", 503, "SC--") + line(3, whole, 200, "SD--")
    # Logged before the answer ended; with its host, cut where lines end; nothing that was a request; a probe.
    text += line(4, "0/0/1/180/+200", 200, "----") + line(5, whole, 200, "----", "POST https://api/v1/chat/completions")
    text += line(6, "-1/-1/-1/-1/5", 400, "CR--", "<BADREQ>") + line(7, whole, 200, "----", "GET /health HTTP/1.1")
    trace = opened(written(tmp_path, text))
    assert trace.format == "haproxy"
    assert trace.start_epoch_s == pytest.approx(1795082400.123)
    outcomes = ("ok", "cancelled", "failed", "failed", "ok", "ok")
    assert rows(trace, "arrival_s, duration_s, status, path, product") == [
        (float(at), None if at == 4 else 2.5, status, "/v1/chat/completions", "chat")
        for at, status in enumerate(outcomes)
    ]
    assert sum(each.rows for each in trace.rows.dropped) == 3


def test_a_line_that_begins_with_a_time_in_brackets_is_no_json(tmp_path: Path) -> None:
    text = "[Mon Nov 02 10:00:00 2026] [error] no such model\n[Mon Nov 02 10:00:01 2026] [error] no such model\n"
    with pytest.raises(InputError, match="is csv of no known format"):
        opened(written(tmp_path, text))


def test_probes_and_scrapes_are_no_requests(tmp_path: Path) -> None:
    lines = [f'1.1.1.1 - - [01/Nov/2026:11:00:0{at} +0100] "GET {path} HTTP/1.1" 200 5\n'
             for at, path in enumerate(("/health", "/metrics", "/v1/models", "/v1/completions"))]  # fmt: skip
    trace = opened(written(tmp_path, "".join(lines)))
    assert rows(trace, "path") == [("/v1/completions",)]
    assert trace.rows.dropped[0].rows == 3


def test_uvicorn_without_times_says_what_it_lacks_and_with_times_is_read(tmp_path: Path) -> None:
    line = 'INFO:     10.1.2.3:43210 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    with pytest.raises(InputError, match="without times"):
        open_trace([str(written(tmp_path, line))])
    trace = opened(written(tmp_path, f"2026-11-01 10:00:00,500 {line}2026-11-01 10:00:01,500 {line}"))
    assert rows(trace, "arrival_s, status") == [(0.0, "ok"), (1.0, "ok")]


def test_a_web_log_says_that_it_lacks_lengths(tmp_path: Path) -> None:
    found = profile(opened(written(tmp_path, f"{ENVOY}\n{ISTIO}\n")))
    (lacking,) = [each for each in found.anomalies if each.kind is AnomalyKind.MISSING_LENGTHS]
    assert "carry no token counts" in lacking.sentence
    assert not any(each.kind is AnomalyKind.MISSING_OUTPUTS for each in found.anomalies)


def test_litellm_tags_keys_and_teams_are_products(tmp_path: Path) -> None:
    base = {"call_type": "acompletion", "startTime": "2026-11-01T10:00:00Z", "endTime": "2026-11-01T10:00:01Z",
            "prompt_tokens": 1, "completion_tokens": 1, "team_id": "t"}  # fmt: skip
    records = [
        base | {"request_id": "a", "request_tags": '["User-Agent: sdk", "search"]'},
        base | {"request_id": "b", "request_tags": "[]", "metadata": json.dumps({"user_api_key_alias": "mail"})},
        base | {"request_id": "c", "metadata": json.dumps({"user_api_key_team_alias": "shop"})},
        base | {"request_id": "d"},
    ]
    trace = opened(written(tmp_path, "".join(json.dumps(each) + "\n" for each in records)))
    assert rows(trace, "product, tenant") == [("search", "t"), ("mail", "t"), ("shop", "t"), (None, "t")]


def test_azure_reads_properties_as_object_and_as_text(tmp_path: Path) -> None:
    properties = {"requestTime": 638515262815394150, "modelDeploymentName": "chat"}
    base = {"time": "2024-05-17T07:04:43Z", "category": "RequestResponse", "durationMs": 1021, "resultSignature": "200"}
    records = [
        base | {"operationName": "ChatCompletions_Create", "correlationId": "a", "properties": properties},
        base | {"operationName": "ChatCompletions_Create", "correlationId": "b", "properties": json.dumps(properties)},
        base | {"operationName": "Create_Thread", "correlationId": "c", "properties": "{}"},
    ]
    trace = opened(written(tmp_path, "".join(json.dumps(each) + "\n" for each in records)))
    assert rows(trace, "model, duration_s, arrival_s") == [("chat", pytest.approx(1.021), 0.0)] * 2
    assert trace.start_epoch_s == pytest.approx(1715929481.539415)


PUBLISHED: dict[str, tuple[str, int, dict[str, float]]] = {
    "azure_openai_gateway.log": ("azure-openai", 3, {"prompt_tokens": 14, "output_tokens": 8, "duration_s": 1.44}),
    "azure_openai_reqresp.log": ("azure-openai", 1, {"duration_s": 1.021}),
    "bedrock_invocation.log": ("bedrock", 18, {"prompt_tokens": 8419, "output_tokens": 1567}),
    "envoy_text.log": ("access-log", 7, {"duration_s": 0.23}),
    "helicone.csv": ("helicone", 2, {"prompt_tokens": 200, "output_tokens": 100, "duration_s": 3.0, "ttft_s": 0.4}),
    "istio_json.log": ("envoy", 3, {"duration_s": 0.076}),
    "langfuse_gemini.json": ("langfuse", 1, {"prompt_tokens": 6, "output_tokens": 2055, "reasoning_tokens": 1104}),
    "langfuse_openai_agents.json": ("langfuse", 2, {"prompt_tokens": 140, "output_tokens": 44}),
    "nginx_access.log": ("access-log", 10, {}),
    "nginx_access2.log": ("access-log", 12, {}),
    "otel_otlp.json": ("otel", 1, {"prompt_tokens": 100, "output_tokens": 20, "duration_s": 2.0}),
    "vertex_prompt_response.json": ("vertex", 1, {"prompt_tokens": 3, "output_tokens": 930, "reasoning_tokens": 901}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_logs_add_up_to_what_is_written_in_them(name: str, shared_data: Path) -> None:
    format_name, kept, sums = PUBLISHED[name]
    trace = opened(shared_data / "found" / name)
    assert (trace.format, trace.rows.kept_rows) == (format_name, kept)
    for column, total in sums.items():
        assert trace.query(f"SELECT sum({column}) FROM trace").fetchall()[0][0] == pytest.approx(total), column
