"""A small file of every trace format, made here: twelve requests two seconds apart, whatever the format calls them.

A sample can be written with its times in another unit, with its rows in another order, with one very long
text in a record where the format has room for text, and without any request.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

START_EPOCH_S = 1_760_000_000.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """What every sample writes, in its own format."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int

    def epoch_s(self, scale: float = 1.0) -> float:
        return (START_EPOCH_S + self.arrival_s) * scale

    def stamp(self, scale: float = 1.0) -> str:
        """ISO 8601 with a zone; a number in place of it where the unit is wrong."""
        if scale != 1.0:
            return str(int(self.epoch_s(scale)))
        moment = datetime.datetime.fromtimestamp(self.epoch_s(), tz=datetime.UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")

    def end(self) -> str:
        return Request(arrival_s=self.arrival_s + 1, prompt_tokens=0, output_tokens=0).stamp()


REQUESTS = tuple(Request(arrival_s=2.0 * at, prompt_tokens=100 + 7 * at, output_tokens=10 + at) for at in range(12))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How one format is written: `render(requests, scale, filler)` gives the bytes of a file."""

    name: str
    suffix: str
    render: Callable[[Sequence[Request], float, str], bytes]
    lines: bool = True
    columns: tuple[str, ...] = ("arrival_s", "prompt_tokens", "output_tokens")
    is_counted: bool = False

    def write(
        self,
        folder: Path,
        requests: Sequence[Request] = REQUESTS,
        *,
        scale: float = 1.0,
        filler: str = "",
        name: str = "sample",
    ) -> Path:
        path = folder / f"{name}{self.suffix}"
        path.write_bytes(self.render(requests, scale, filler))
        return path


def _lines(records: Sequence[object]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _document(record: object) -> bytes:
    return json.dumps(record, indent=1).encode()


def _canonical(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f"{r.epoch_s(scale)!r},{r.prompt_tokens},{r.output_tokens}" for r in requests]
    return "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows, ""]).encode()


def _azure(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    def stamp(request: Request) -> str:
        return request.stamp(scale).rstrip("Z").replace("T", " ") + ("0" if scale == 1.0 else "")

    rows = [f"{stamp(r)},{r.prompt_tokens},{r.output_tokens}" for r in requests]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]).encode()


def _mooncake(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "timestamp": int(r.arrival_s * 1000 * scale),
                "input_length": r.prompt_tokens * (1000 if scale != 1.0 else 1),
                "output_length": r.output_tokens,
                "hash_ids": [0, at],
                "note": filler,
            }
            for at, r in enumerate(requests)
        ]
    )


def _agents(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "session": f"s{at % 2}",
                "subagent": "",
                "turn": at // 2,
                "arrival_in_session_s": r.arrival_s * scale,
                "prompt_tokens": r.prompt_tokens,
                "output_tokens": r.output_tokens,
                "model": "m",
                "tool_result_in": at >= 4,
                "tool_use_out": True,
                "api_time_s": 1.0,
                "think_time_s": 3.0 if at >= 2 else 0.0,
                "ttft_s": None,
                "blocks": 10,
                "prefix_blocks_from_prev": 8,
                "note": filler,
            }
            for at, r in enumerate(requests)
        ]
    )


def _otel(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    spans = [
        {
            "trace_id": "t",
            "span_id": f"x{r.prompt_tokens}",
            "name": "chat m",
            "start_time": r.stamp(scale),
            "end_time": r.end(),
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": r.prompt_tokens,
                "gen_ai.usage.output_tokens": r.output_tokens,
                "gen_ai.input.messages": filler,
            },
            "status": {"code": 1},
        }
        for r in requests
    ]
    return _document({"trace_id": "t", "span_count": len(spans), "spans": spans})


def _openinference(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "name": "completion",
                "span_id": f"x{r.prompt_tokens}",
                "start_time": r.stamp(scale),
                "end_time": r.end(),
                "status_code": "OK",
                "attributes": {
                    "openinference.span.kind": "LLM",
                    "llm.model_name": "m",
                    "llm.token_count.prompt": r.prompt_tokens,
                    "llm.token_count.completion": r.output_tokens,
                    "input.value": filler,
                },
            }
            for r in requests
        ]
    )


def _litellm(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "request_id": f"r{r.prompt_tokens}",
                "call_type": "acompletion",
                "api_key": "hashed-key",
                "startTime": r.stamp(scale),
                "endTime": r.end(),
                "completionStartTime": r.end(),
                "model": "m",
                "prompt_tokens": r.prompt_tokens,
                "completion_tokens": r.output_tokens,
                "status": "success",
                "metadata": '{"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}}',
                "messages": filler,
            }
            for r in requests
        ]
    )


def _sglang(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "request_parameters": json.dumps({"model": "m", "text": filler}),
                "id": f"r{r.prompt_tokens}",
                "finish_reason": {"type": "stop", "matched": 2},
                "prompt_tokens": r.prompt_tokens,
                "completion_tokens": r.output_tokens,
                "cached_tokens": 16,
                "e2e_latency": 0.9,
                "request_received_ts": r.epoch_s(scale),
                "prefill_finished_ts": r.epoch_s(scale) + 0.25,
            }
            for r in requests
        ]
    )


def _guidellm(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    kept = [
        {
            "request_id": f"r{r.prompt_tokens}",
            "output": filler,
            "info": {
                "timings": {
                    "targeted_start": r.epoch_s(scale),
                    "request_start": r.epoch_s(scale) + 0.1,
                    "first_token_iteration": r.epoch_s(scale) + 0.5,
                    "request_end": r.epoch_s(scale) + 1.0,
                }
            },
            "input_metrics": {"text_tokens": r.prompt_tokens, "cached_tokens": None},
            "output_metrics": {"text_tokens": r.output_tokens},
        }
        for r in requests
    ]
    benchmark = {
        "config": {"strategy": {"type_": "poisson"}},
        "requests": {"successful": kept, "errored": [], "incomplete": []},
    }
    return _document({"metadata": {"version": 2}, "benchmarks": [benchmark]})


def _aiperf(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "metadata": {
                    "x_request_id": f"r{r.prompt_tokens}",
                    "credit_issued_ns": int(r.epoch_s(scale) * 1e9),
                    "request_start_ns": int(r.epoch_s(scale) * 1e9) + 1000,
                    "request_end_ns": int(r.epoch_s(scale) * 1e9) + 10**9,
                    "benchmark_phase": "profiling",
                    "was_cancelled": False,
                },
                "metrics": {
                    "input_sequence_length": {"value": 5, "unit": "tokens"},
                    "usage_prompt_tokens": {"value": r.prompt_tokens, "unit": "tokens"},
                    "usage_completion_tokens": {"value": r.output_tokens, "unit": "tokens"},
                    "time_to_first_token": {"value": 250.0, "unit": "ms"},
                },
                "error": None,
                "note": filler,
            }
            for r in requests
        ]
    )


def _servegen(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f"language,m,{at % 3},{600 * (at // 3) * scale:g},{at / 10},1.5" for at, _ in enumerate(requests)]
    return "\n".join(["category,model,client,t_s,rate_rps,cv", *rows, ""]).encode()


def _burstgpt(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    huge = 1000 if scale != 1.0 else 1
    rows = [
        f"{r.arrival_s * scale:g},ChatGPT,{r.prompt_tokens * huge},{r.output_tokens},0,API log{filler}"
        for r in requests
    ]
    return "\n".join(["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", *rows, ""]).encode()


def _langfuse(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "id": f"r{r.prompt_tokens}",
                "type": "GENERATION",
                "startTime": r.stamp(scale),
                "endTime": r.end(),
                "model": "m",
                "usageDetails": {"input": r.prompt_tokens, "output": r.output_tokens},
                "level": "DEFAULT",
                "traceId": "t",
                "input": filler,
            }
            for r in requests
        ]
    )


def _envoy(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "start_time": r.stamp(scale),
                "duration": 1000,
                "response_code": 200,
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": str(r.prompt_tokens),
                "gen_ai.usage.output_tokens": str(r.output_tokens),
                "gen_ai.usage.reasoning_tokens": "-",
                "request.path": "/v1/chat/completions",
                "x-request-id": f"r{r.prompt_tokens}",
                "user-agent": filler,
            }
            for r in requests
        ]
    )


def _traefik(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "DownstreamStatus": 200,
                "Duration": 1_000_000_000,
                "RequestCount": 40 + number,
                "RequestMethod": "POST",
                "RequestPath": "/v1/chat/completions",
                "StartUTC": r.stamp(scale),
                "request_User-Agent": filler,
            }
            for number, r in enumerate(requests)
        ]
    )


def _haproxy(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    def stamp(request: Request) -> str:
        if scale != 1.0:
            return request.stamp(scale)
        moment = datetime.datetime.fromtimestamp(request.epoch_s(), tz=datetime.UTC)
        return moment.strftime("%d/%b/%Y:%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"

    behind = 'in~ chat/gpu1 0/0/1/180/5230 200 4410 - - ---- 9/9/8/2/0 0/0 "POST /v1/chat/completions HTTP/1.1"\n'
    return "".join(f"Nov 19 10:00:00 edge haproxy[7]: 10.0.0.1:4321 [{stamp(r)}] {behind}" for r in requests).encode()


def _access_line(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    def stamp(request: Request) -> str:
        if scale != 1.0:
            return request.stamp(scale)
        moment = datetime.datetime.fromtimestamp(request.epoch_s(), tz=datetime.UTC)
        return moment.strftime("%d/%b/%Y:%H:%M:%S +0000")

    lines = [f'10.0.0.1 - - [{stamp(r)}] "POST /v1/chat/completions HTTP/1.1" 200 571 "-" "curl"\n' for r in requests]
    return "".join(lines).encode()


def _bedrock(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "schemaType": "ModelInvocationLog",
                "timestamp": r.stamp(scale),
                "requestId": f"r{r.prompt_tokens}",
                "operation": "Converse",
                "modelId": "m",
                "input": {"inputTokenCount": r.prompt_tokens, "inputBodyJson": {"messages": filler}},
                "output": {"outputTokenCount": r.output_tokens, "outputBodyJson": {"metrics": {"latencyMs": 1000}}},
            }
            for r in requests
        ]
    )


def _azure_openai(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    def properties(request: Request) -> str:
        usage = {"prompt_tokens": request.prompt_tokens, "completion_tokens": request.output_tokens}
        body = json.dumps({"model": "m", "usage": usage, "text": filler})
        return json.dumps({"operationId": "ChatCompletions_Create", "responseCode": 200, "responseBody": body})

    return _lines(
        [
            {
                "time": r.stamp(scale),
                "category": "GatewayLogs",
                "operationName": "Microsoft.ApiManagement/GatewayLogs",
                "durationMs": 1000,
                "correlationId": f"r{r.prompt_tokens}",
                "properties": properties(r),
            }
            for r in requests
        ]
    )


def _vertex(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    return _lines(
        [
            {
                "logging_time": r.end() if scale == 1.0 else r.stamp(scale),
                "request_id": f"r{r.prompt_tokens}",
                "model": "publishers/google/models/m",
                "metadata": {"request_latency": 1000.0},
                "full_response": json.dumps(
                    {
                        "text": filler,
                        "usageMetadata": {
                            "promptTokenCount": r.prompt_tokens,
                            "candidatesTokenCount": 4,
                            "thoughtsTokenCount": r.output_tokens - 4,
                        },
                    }
                ),
            }
            for r in requests
        ]
    )


def _helicone(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f"a{r.prompt_tokens},{r.stamp(scale)},200,m,{r.prompt_tokens},{r.output_tokens},1000,200" for r in requests]
    head = "request_id,request_created_at,response_status,response_model,prompt_tokens,completion_tokens,latency,"
    return "\n".join([f"{head}time_to_first_token", *rows, ""]).encode()


# What these say of a window counts requests in it: the sample's requests are its windows, a count each.


def _rates(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f"{r.stamp(scale)},{r.prompt_tokens},{r.output_tokens}" for r in requests]
    return "\n".join(["minute,requests,input_tokens", *rows, ""]).encode()


def _prometheus(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    values = [[r.epoch_s(scale), str(r.prompt_tokens)] for r in requests]
    result = {"metric": {"model_name": "m", "note": filler}, "values": values}
    return _document({"status": "success", "data": {"resultType": "matrix", "result": [result]}})


def _victoria_metrics(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    metric = {"__name__": "http_requests_total", "instance": "a"}
    return _lines(
        [{"metric": metric, "values": [r.prompt_tokens], "timestamps": [int(r.epoch_s(scale))]} for r in requests]
    )


def _victoria_metrics_csv(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f"http_requests_total,10.0.0.1:8000,{r.prompt_tokens},{int(r.epoch_s(scale))}\n" for r in requests]
    return "".join(rows).encode()


def _rates_long(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    rows = [f'{r.stamp(scale)},"sum(rate(http_requests_total[1m]))",{r.prompt_tokens}\n' for r in requests]
    return "".join(["Time,Metric,Value\n", *rows]).encode()


def _cloudwatch(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    result = {
        "Id": filler,
        "Label": "Invocations",
        "Timestamps": [r.stamp(scale) for r in requests],
        "Values": [float(r.prompt_tokens) for r in requests],
    }
    return _document({"MetricDataResults": [result]})


def _azure_monitor(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    data = [{"timeStamp": r.stamp(scale), "total": float(r.prompt_tokens)} for r in requests]
    series = {"metadatavalues": [{"name": {"value": "modeldeploymentname"}, "value": "m"}], "data": data}
    metric = {"name": {"value": "AzureOpenAIRequests"}, "unit": "Count", "timeseries": [series]}
    return _document({"interval": "PT1M", "namespace": filler, "value": [metric]})


def _openai_usage(requests: Sequence[Request], scale: float, filler: str) -> bytes:
    buckets = [
        {
            "start_time": r.epoch_s(scale),
            "end_time": r.epoch_s(scale) + 2 * scale,
            "results": [{"num_model_requests": r.prompt_tokens, "model": "m"}],
        }
        for r in requests
    ]
    return _document({"object": filler, "data": buckets})


NO_LENGTHS = ("arrival_s",)
SAMPLES: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample(name="columns", suffix=".csv", render=_canonical),
        Sample(name="azure", suffix=".csv", render=_azure),
        Sample(name="mooncake", suffix=".jsonl", render=_mooncake),
        Sample(name="agent-sessions", suffix=".jsonl", render=_agents),
        Sample(name="otel", suffix=".json", render=_otel, lines=False),
        Sample(name="litellm", suffix=".jsonl", render=_litellm),
        Sample(name="sglang", suffix=".log", render=_sglang),
        Sample(name="guidellm", suffix=".json", render=_guidellm, lines=False),
        Sample(name="aiperf", suffix=".jsonl", render=_aiperf),
        Sample(name="servegen", suffix=".csv", render=_servegen, is_counted=True),
        Sample(name="burstgpt", suffix=".csv", render=_burstgpt),
        Sample(name="openinference", suffix=".jsonl", render=_openinference),
        Sample(name="langfuse", suffix=".jsonl", render=_langfuse),
        Sample(name="envoy", suffix=".log", render=_envoy),
        Sample(name="traefik", suffix=".log", render=_traefik, columns=NO_LENGTHS),
        Sample(name="access-log", suffix=".log", render=_access_line, columns=NO_LENGTHS),
        Sample(name="haproxy", suffix=".log", render=_haproxy, columns=NO_LENGTHS),
        Sample(name="bedrock", suffix=".log", render=_bedrock),
        Sample(name="azure-openai", suffix=".json", render=_azure_openai),
        Sample(name="vertex", suffix=".json", render=_vertex),
        Sample(name="helicone", suffix=".csv", render=_helicone),
        Sample(name="rates", suffix=".csv", render=_rates, is_counted=True),
        Sample(name="prometheus", suffix=".json", render=_prometheus, lines=False, is_counted=True),
        Sample(name="victoriametrics", suffix=".jsonl", render=_victoria_metrics, is_counted=True),
        Sample(name="victoriametrics-csv", suffix=".csv", render=_victoria_metrics_csv, is_counted=True),
        Sample(name="rates-long", suffix=".csv", render=_rates_long, is_counted=True),
        Sample(name="cloudwatch", suffix=".json", render=_cloudwatch, lines=False, is_counted=True),
        Sample(name="azure-monitor", suffix=".json", render=_azure_monitor, lines=False, is_counted=True),
        Sample(name="openai-usage", suffix=".json", render=_openai_usage, lines=False, is_counted=True),
    )
}
