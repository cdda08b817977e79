"""inference-perf's lifecycle reports: one stage, or the summary over stages. JSON, or YAML as llm-d keeps it.

All times are in seconds. `achieved_rate` is how fast requests were sent, not finished; `requests_per_sec` is successes
over the whole time. `schedule_delay` is the client's own lateness, which TTFT leaves out. ITL is pooled over gaps, and
in older files two chunks came for a token, so that ITL and TPOT are half of what they should be.
"""

from __future__ import annotations

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, latency, lengths, present, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Denominator,
    Flag,
    LatencySummary,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    SingleToken,
    StatedGoodput,
    Tokens,
)
from ullage.workload.anomalies import Severity


def recognise(content: Content) -> bool:
    first = content.first
    successes = first.get("successes")
    return {"load_summary", "failures"} <= set(first) and isinstance(successes, dict) and "latency" in successes


def read(content: Content) -> LoadTest:
    fields = Fields(content.first, content.file)
    is_stage = "requested_rate" in fields.child("load_summary")
    return LoadTest(
        file=content.file,
        reader="inference_perf",
        tool="inference-perf",
        format_version=_generation(fields),
        points=(_point(fields, "stage" if is_stage else "summary over stages"),),
        anomalies=()
        if is_stage
        else (
            anomaly(
                Flag.STATED_BY_TOOL,
                "This is a summary over all stages, and states no load; calibrate from the files of single stages.",
                Severity.CAUTION,
            ),
        ),
    )


def _point(fields: Fields, name: str) -> Point:
    load, good = fields.child("load_summary"), fields.child("successes")
    completed = good.need_whole("count")
    stated = good.child("throughput").amount("requests_per_sec")
    duration_s = fields.amount("benchmark_time_seconds") or rate(completed, stated)
    return Point(
        name=name,
        subject=LoadTestSubject(),
        load=_load(load),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=fields.child("failures").whole("count"),
        achieved_rps=rate(completed, duration_s),
        sent_rps=load.amount("achieved_rate") or None,
        stated_rps=stated,
        output_tokens_per_s=good.child("throughput").amount("output_tokens_per_sec"),
        tokens=_tokens(good, completed),
        latencies=_latencies(good.child("latency")),
        client_delay=latency(load.child("schedule_delay"), Definition.CLIENT_DELAY, scale=1.0),
        stated_goodput=_goodput(good.child("goodput_metrics")),
        anomalies=_anomalies(good),
    )


def _load(load: Fields) -> OfferedLoad:
    concurrency = load.whole("concurrency")
    offered = load.amount("requested_rate")
    if concurrency is not None:
        return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=concurrency)
    # The law of arrivals stands in config.yaml, not here.
    return OfferedLoad(loop=Loop.OPEN, offered_rps=offered)


def _tokens(good: Fields, completed: int) -> Tokens:
    """Newer files count prompt tokens by the server and keep totals; older ones have only the client's lengths."""
    prompts, outputs = good.child("prompt_tokens"), good.child("output_tokens")
    prompt_lengths = lengths(good.child("prompt_len")) or lengths(prompts)
    output_lengths = lengths(good.child("output_len")) or lengths(outputs)
    counted = prompts.amount("total")
    return Tokens(
        prompt_tokens=counted if counted is not None else _total(prompt_lengths, completed),
        output_tokens=_total(output_lengths, completed),
        cached_prompt_tokens=prompts.amount("cached"),
        counted_by=CountedBy.CLIENT,
        other_output_tokens=outputs.amount("total"),
        prompt_lengths=prompt_lengths,
        output_lengths=output_lengths,
    )


def _total(found: LengthSummary | None, completed: int) -> float | None:
    return None if found is None or found.mean_tokens is None else found.mean_tokens * completed


def _latencies(inside: Fields) -> tuple[LatencySummary, ...]:
    return present(
        latency(inside.child("time_to_first_token"), Definition.TTFT, scale=1.0),
        latency(inside.child("time_per_output_token"), Definition.TPOT, scale=1.0),
        latency(inside.child("normalized_time_per_output_token"), Definition.NTPOT, scale=1.0),
        latency(inside.child("inter_token_latency"), Definition.ITL_POOLED, scale=1.0),
        latency(inside.child("request_latency"), Definition.E2E, scale=1.0),
    )


def _goodput(stated: Fields) -> StatedGoodput | None:
    rps = stated.amount("request_goodput")
    percent = stated.amount("goodput_percentage")
    if rps is None:
        return None
    return StatedGoodput(
        rps=rps,
        attained_fraction=None if percent is None else percent / 100.0,
        # The limits stand in config.yaml under report.goodput.constraints, or in the headers of each request.
        limits=None,
        single_token=SingleToken.BAD,
        denominator=Denominator.SUCCEEDED,
    )


def _anomalies(good: Fields) -> tuple[PointAnomaly, ...]:
    mismatched = good.whole("token_count_mismatches")
    if not mismatched:
        return ()
    return (
        anomaly(
            Flag.TOKEN_COUNT_MISMATCH,
            f"In {mismatched:,} requests the chunks did not add up to the tokens the server counted.",
            Severity.CAUTION,
        ),
    )


def _generation(fields: Fields) -> str:
    good = fields.child("successes")
    if "output_tokens" in good:
        return "lifecycle report with server token counts"
    if "prompt_tokens" in good:
        return "lifecycle report with cached prompt tokens"
    return "lifecycle report of 0.5 or earlier"
