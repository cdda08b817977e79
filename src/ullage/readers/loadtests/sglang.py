"""SGLang's serving benchmark: JSON lines, one a run, each run appended to the last.

`request_rate` may be the bare word Infinity, or "trace". Statistics are in ms, arrays in seconds. Output tokens are
the server's, `total_output_tokens_retokenized` is the client's count of the same text. `concurrency` is a time average.
`server_info` is what the server says of itself: its arguments, and what its cache holds.
"""

from __future__ import annotations

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import MS, Fields, anomaly, present, rate
from ullage.readers.loadtests.serving_arrays import array_requests, flat_latency, load_of
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Denominator,
    Flag,
    GoodputLimits,
    LengthLaw,
    LengthRule,
    LoadTest,
    LoadTestSubject,
    OfferedLoad,
    Point,
    PointAnomaly,
    SingleToken,
    StatedGoodput,
    Status,
    Tokens,
)
from ullage.service.loadtests.requests import lengths_of, sending_rate_rps


def recognise(content: Content) -> bool:
    keys = set(content.first)
    return {"completed", "duration"} <= keys and any(key.endswith("_e2e_latency_ms") for key in keys)


def read(content: Content) -> LoadTest:
    runs = [Fields(run, content.file, f"run {index + 1}") for index, run in enumerate(content.mappings)]
    newest = "goodput_slos_ms" in content.first
    return LoadTest(
        file=content.file,
        reader="sglang",
        tool="sglang bench_serving",
        tool_version=runs[0].child("server_info").text("version"),
        format_version="keys of 0.5.19 or later" if newest else "keys of 0.5.18 or earlier",
        points=tuple(_point(fields, index) for index, fields in enumerate(runs)),
    )


def _point(fields: Fields, index: int) -> Point:
    duration_s, completed = fields.need("duration"), fields.need_whole("completed")
    requests = array_requests(fields)
    load = load_of(fields)
    failed = sum(each.status is Status.FAILED for each in requests) if requests else None
    return Point(
        name=fields.text("tag") or f"run {index + 1}",
        subject=_subject(fields),
        load=load,
        duration_s=duration_s,
        completed_count=completed,
        failed_count=failed,
        achieved_rps=rate(completed, duration_s),
        sent_rps=sending_rate_rps(requests),
        stated_rps=fields.amount("request_throughput"),
        output_tokens_per_s=fields.amount("output_throughput"),
        mean_concurrency_count=fields.amount("concurrency"),
        tokens=Tokens(
            prompt_tokens=fields.amount("total_input_tokens"),
            output_tokens=fields.amount("total_output_tokens"),
            cached_prompt_tokens=fields.child("cache_report").amount("total_cached_tokens"),
            counted_by=CountedBy.SERVER,
            other_output_tokens=fields.amount("total_output_tokens_retokenized"),
            nominal_prompt_tokens=fields.amount("random_input_len"),
            nominal_output_tokens=fields.amount("random_output_len"),
            prompt_lengths=lengths_of(each.prompt_tokens for each in requests),
            output_lengths=lengths_of(each.output_tokens for each in requests),
            rule=_rule(fields),
        ),
        latencies=present(
            flat_latency(fields, "_ttft_ms", Definition.TTFT, scale=MS),
            flat_latency(fields, "_tpot_ms", Definition.TPOT, scale=MS),
            flat_latency(fields, "_itl_ms", Definition.ITL_POOLED, scale=MS),
            flat_latency(fields, "_e2e_latency_ms", Definition.E2E, scale=MS),
        ),
        stated_goodput=_goodput(fields),
        requests=requests,
        anomalies=_anomalies(fields, load),
    )


def _rule(fields: Fields) -> LengthRule | None:
    """Random lengths are drawn evenly from a share of the nominal one, 0 unless the user gave another, up to all."""
    if fields.text("dataset_name") not in ("random", "random-ids"):
        return None
    least = fields.amount("random_range_ratio") or 0.0
    law = LengthLaw.FIXED if least >= 1.0 else LengthLaw.UNIFORM
    return LengthRule(law=law, least_fraction=min(least, 1.0), said_by="sglang's random_range_ratio")


def _subject(fields: Fields) -> LoadTestSubject:
    server = fields.child("server_info")
    accepted = fields.number("accept_length")

    def limit(name: str) -> int | None:
        """What the server states of one scheduler; several groups of attention have one each, -1 is no limit."""
        value = server.number(name) if (server.number("dp_size") or 1) <= 1 else None
        return int(value) if value is not None and value > 0 else None

    return LoadTestSubject(
        model=server.text("model_path"),
        engine=fields.text("backend"),
        engine_version=server.text("version"),
        tp=server.whole("tp_size"),
        pp=server.whole("pp_size"),
        ep=server.whole("ep_size"),
        max_sequences=limit("max_running_requests"),
        step_tokens=limit("chunked_prefill_size"),
        kv_tokens=limit("max_total_num_tokens"),
        poll_steps=server.whole("scheduler_recv_interval"),
        dataset=fields.text("dataset_name"),
        notes=() if accepted is None else (f"speculative decoding, {accepted:g} tokens accepted per step",),
    )


def _goodput(fields: Fields) -> StatedGoodput | None:
    rps = fields.amount("request_goodput")
    if rps is None:
        return None
    limits = fields.child("goodput_slos_ms")
    in_s = {name: None if (ms := limits.amount(name)) is None else ms * MS for name in ("ttft", "tpot", "e2e", "e2el")}
    return StatedGoodput(
        rps=rps,
        attained_fraction=fields.amount("slo_attainment"),
        limits=GoodputLimits(ttft_s=in_s["ttft"], tpot_s=in_s["tpot"], e2e_s=in_s["e2e"] or in_s["e2el"]),
        single_token=SingleToken.GOOD,
        denominator=Denominator.SENT,
    )


def _anomalies(fields: Fields, load: OfferedLoad) -> tuple[PointAnomaly, ...]:
    peak = fields.whole("max_concurrent_requests")
    if peak is None or load.concurrency_cap_count is None or peak <= load.concurrency_cap_count:
        return ()
    return (
        anomaly(
            Flag.FIGURE_IGNORED,
            f"max_concurrent_requests = {peak} counts requests that touch the same second; the cap was "
            f"{load.concurrency_cap_count}. `concurrency` is used.",
        ),
    )
