"""LLMPerf: `*_summary.json`, flat keys, and `*_individual_responses.json`, one object a request.

Seconds, but throughput is per *minute*. `inter_token_latency` is the sum of all gaps and of TTFT over the tokens, that
is E2E / output tokens, so it is read as what it is. Some extremes are numbers in quotes.
"""

from __future__ import annotations

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, latency, lengths, present, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    LatencySummary,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import summed_up

_SECONDS_A_MINUTE = 60.0


def recognise_summary(content: Content) -> bool:
    return {"results_ttft_s_mean", "results_num_completed_requests_per_min"} <= set(content.first)


def recognise_requests(content: Content) -> bool:
    return {"ttft_s", "inter_token_latency_s", "end_to_end_latency_s"} <= set(content.first)


def read_summary(content: Content) -> LoadTest:
    fields = Fields(content.first, content.file)
    completed = fields.need_whole("results_num_completed_requests")
    per_minute = fields.need("results_num_completed_requests_per_min")
    achieved = per_minute / _SECONDS_A_MINUTE
    point = Point(
        name=fields.text("name") or "summary",
        subject=LoadTestSubject(model=fields.text("model")),
        load=_load(fields),
        duration_s=rate(completed, achieved),
        completed_count=completed,
        failed_count=fields.whole("results_number_errors"),
        achieved_rps=achieved,
        output_tokens_per_s=fields.amount("results_mean_output_throughput_token_per_s"),
        tokens=Tokens(
            counted_by=CountedBy.CLIENT,
            nominal_prompt_tokens=fields.amount("mean_input_tokens"),
            nominal_output_tokens=fields.amount("mean_output_tokens"),
            prompt_lengths=_lengths(fields, "number_input_tokens"),
            output_lengths=_lengths(fields, "number_output_tokens"),
        ),
        latencies=present(
            _latency(fields, "ttft_s", Definition.TTFT),
            _latency(fields, "inter_token_latency_s", Definition.NTPOT),
            _latency(fields, "end_to_end_latency_s", Definition.E2E),
        ),
    )
    return LoadTest(
        file=content.file,
        reader="llmperf_summary",
        tool="llmperf",
        format_version=fields.text("version"),
        run_at=fields.text("timestamp"),
        points=(point,),
    )


def read_requests(content: Content) -> LoadTest:
    records = [Fields(each, content.file, f"[{index}]") for index, each in enumerate(content.mappings)]
    requests = tuple(_request(each) for each in records)
    point = Point(
        name="all requests",
        subject=LoadTestSubject(),
        # When requests were sent and how many at once is not in this file; the summary beside it has the latter.
        load=OfferedLoad(loop=Loop.CLOSED),
        tokens=Tokens(counted_by=CountedBy.CLIENT),
        requests=requests,
    )
    return LoadTest(
        file=content.file,
        reader="llmperf_requests",
        tool="llmperf",
        format_version="requests",
        points=(summed_up(point),),
    )


def _load(fields: Fields) -> OfferedLoad:
    concurrent = fields.whole("num_concurrent_requests")
    return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=concurrent or None)


def _latency(fields: Fields, name: str, definition: Definition) -> LatencySummary | None:
    return latency(_statistics(fields, name), definition, scale=1.0, std="stddev")


def _lengths(fields: Fields, name: str) -> LengthSummary | None:
    return lengths(_statistics(fields, name), std="stddev")


def _statistics(fields: Fields, name: str) -> Fields:
    """`results_ttft_s_quantiles_p99` and `results_ttft_s_mean` as p99 and mean."""
    start = f"results_{name}_"
    inside = {}
    for key in fields:
        if key.startswith(start):
            value = fields.raw(key)
            short = key.removeprefix(start).removeprefix("quantiles_")
            inside[short] = float(value) if isinstance(value, str) and value.replace(".", "").isdigit() else value
    return fields.with_data(inside, name)


def _request(fields: Fields) -> MeasuredRequest:
    failed = fields.raw("error_code") is not None
    return MeasuredRequest(
        status=Status.FAILED if failed else Status.OK,
        ttft_s=None if failed else fields.amount("ttft_s"),
        e2e_s=None if failed else fields.amount("end_to_end_latency_s"),
        prompt_tokens=fields.whole("number_input_tokens"),
        output_tokens=None if failed else fields.whole("number_output_tokens"),
    )
