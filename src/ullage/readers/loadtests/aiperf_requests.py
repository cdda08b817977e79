"""AIPerf's single requests, `profile_export.jsonl`: one object a request, times in ns since 1970.

The server's token counts (`usage_*`) are taken where they are kept, for they are those the engine worked by; the
client's stand beside them.
"""

from __future__ import annotations

from ullage.errors import InputError
from ullage.readers.loadtests.aiperf import unit_s
from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import NS, Fields
from ullage.service.loadtests.loadtest import (
    CountedBy,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import known_sum, summed_up


def recognise(content: Content) -> bool:
    metadata = content.first.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata


def read(content: Content) -> LoadTest:
    records = [Fields(each, content.file, f"line {index + 1}") for index, each in enumerate(content.mappings)]
    kept = [each for each in records if each.child("metadata").text("benchmark_phase") in (None, "profiling")]
    if not kept:
        problem = "has no request of the phase that is profiled"
        raise InputError(
            field=content.file, value=f"{len(records)} requests", problem=problem, fix="Give the whole run."
        )
    first_ns = min(each.child("metadata").need("request_start_ns") for each in kept)
    last_ns = max(each.child("metadata").need("request_end_ns") for each in kept)
    requests = tuple(_request(each, first_ns) for each in kept)
    by_server = any("usage_completion_tokens" in each.child("metrics") for each in kept)
    point = Point(
        name="profiling",
        subject=LoadTestSubject(),
        # The file keeps when each request was due, not by what law; a replay of those times is what can be simulated.
        load=OfferedLoad(loop=Loop.TRACE),
        duration_s=(last_ns - first_ns) * NS,
        unfinished_count=sum(each.status is Status.UNFINISHED for each in requests),
        tokens=Tokens(
            counted_by=CountedBy.SERVER if by_server else CountedBy.CLIENT,
            other_prompt_tokens=_other(kept, "input_sequence_length") if by_server else None,
            other_output_tokens=_other(kept, "output_sequence_length") if by_server else None,
        ),
        requests=requests,
    )
    return LoadTest(
        file=content.file,
        reader="aiperf_requests",
        tool="aiperf",
        format_version="requests",
        points=(summed_up(point),),
    )


def _request(record: Fields, first_ns: float) -> MeasuredRequest:
    metadata, metrics = record.child("metadata"), record.child("metrics")
    sent_ns, due_ns = metadata.need("request_start_ns"), metadata.number("credit_issued_ns")
    return MeasuredRequest(
        status=_status(record),
        sent_s=(sent_ns - first_ns) * NS,
        due_s=None if due_ns is None else (due_ns - first_ns) * NS,
        ttft_s=_time_s(metrics, "time_to_first_token"),
        e2e_s=_time_s(metrics, "request_latency"),
        itl_s=_time_s(metrics, "inter_token_latency"),
        prompt_tokens=_count(metrics, "usage_prompt_tokens", "input_sequence_length"),
        output_tokens=_count(metrics, "usage_completion_tokens", "output_sequence_length"),
        cached_tokens=_count(metrics, "usage_prompt_cache_read_tokens"),
    )


def _status(record: Fields) -> Status:
    if record.child("metadata").raw("was_cancelled") is True:
        return Status.UNFINISHED
    return Status.FAILED if "error" in record else Status.OK


def _time_s(metrics: Fields, name: str) -> float | None:
    if name not in metrics:
        return None
    metric = metrics.child(name)
    value = metric.amount("value")
    return None if value is None else value * unit_s(metric)


def _count(metrics: Fields, *names: str) -> int | None:
    return next((value for name in names if (value := metrics.child(name).whole("value")) is not None), None)


def _other(records: list[Fields], name: str) -> float | None:
    good = (each for each in records if _status(each) is Status.OK)
    return known_sum(each.child("metrics").value_of(name) for each in good)
