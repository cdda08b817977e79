"""AIPerf's aggregate, `profile_export_aiperf.json`: every metric an object with its own unit.

`request_count` is of those that succeeded. `inter_token_latency` is one mean a request, `inter_chunk_latency` the raw
gaps. Sequence lengths are the client's tokenizer's; `usage_*` are the server's, and the two may differ.
"""

from __future__ import annotations

from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, latency, lengths, present, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Denominator,
    Flag,
    GoodputLimits,
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

# Where the law of arrivals stands, newest first.
_KINDS = ("type", "arrival_pattern", "request_rate_mode")
TIME_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}


def recognise(content: Content) -> bool:
    first = _flat(content.first)
    if "timeslices" in first or not isinstance(first.get("request_latency"), dict):
        return False
    config = first.get("input_config")
    return "aiperf_version" in first or (isinstance(config, dict) and ("loadgen" in config or "phases" in config))


def _flat(export: dict[str, Any]) -> dict[str, Any]:
    """The first versions kept all metrics under `records`."""
    records = export.get("records")
    return {**export, **records} if isinstance(records, dict) else export


def read(content: Content) -> LoadTest:
    fields = Fields(_flat(content.first), content.file)
    return LoadTest(
        file=content.file,
        reader="aiperf",
        tool="aiperf",
        tool_version=fields.text("aiperf_version"),
        format_version=f"schema {fields.text('schema_version') or 'before 1.0'}",
        run_at=fields.text("start_time"),
        points=(_point(fields),),
    )


def _point(fields: Fields) -> Point:
    duration_s = _time_s(fields, "benchmark_duration")
    counted = _value(fields, "request_count")
    if counted is None:
        counted = fields.child("request_latency").number("count")
    completed = None if counted is None else int(counted)
    stated = _value(fields, "request_throughput")
    return Point(
        name="profiling",
        subject=_subject(fields),
        load=load_of(fields.child("input_config")),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=_failed(fields, completed),
        unfinished_count=fields.child("cancelled_request_count").whole("avg"),
        achieved_rps=rate(completed, duration_s) or stated,
        stated_rps=stated,
        output_tokens_per_s=_value(fields, "output_token_throughput"),
        mean_concurrency_count=_value(fields, "effective_concurrency"),
        tokens=_tokens(fields),
        latencies=metric_latencies(fields),
        client_delay=metric_latency(fields, "credit_to_start_latency", Definition.CLIENT_DELAY),
        stated_goodput=_goodput(fields),
        anomalies=_anomalies(fields),
    )


def _failed(fields: Fields, completed: int | None) -> int | None:
    """Errors, however they are reported: by count, by all that ended, or by an empty list of kinds."""
    errors, ended = _value(fields, "error_request_count"), _value(fields, "completed_request_count")
    if errors is not None:
        return int(errors)
    if ended is not None and completed is not None and ended >= completed:
        return int(ended) - completed
    return 0 if fields.raw("error_summary") == [] else None


def metric_latencies(fields: Fields) -> tuple[LatencySummary, ...]:
    return present(
        metric_latency(fields, "time_to_first_token", Definition.TTFT),
        metric_latency(fields, "inter_token_latency", Definition.ITL_PER_REQUEST),
        metric_latency(fields, "inter_chunk_latency", Definition.ITL_POOLED),
        metric_latency(fields, "request_latency", Definition.E2E),
    )


def metric_latency(fields: Fields, name: str, definition: Definition) -> LatencySummary | None:
    """One latency metric, in the unit that it states itself."""
    if name not in fields:
        return None
    inside = fields.child(name)
    return latency(inside, definition, scale=unit_s(inside), mean="avg")


def unit_s(metric: Fields) -> float:
    """Seconds in one of the metric's unit."""
    unit = metric.text("unit") or ""
    if unit not in TIME_UNITS:
        raise metric.wrong("unit", "is not a unit of time", f"Known: {', '.join(TIME_UNITS)}.")
    return TIME_UNITS[unit]


def load_of(config: Fields) -> OfferedLoad:
    """Since 0.13 the load stands in phases, before in loadgen; genai-perf has it flat or under perf_analyzer."""
    phases = [each for each in config.children("phases") if each.text("kind") in (None, "profiling")]
    where = phases[0] if phases else config.child("loadgen") if "loadgen" in config else config
    kind = next((each for name in _KINDS if (each := where.text(name))), "").lower()
    offered = where.amount("rate") if "rate" in where else where.amount("request_rate")
    cap = where.whole("concurrency")
    if "schedule" in kind or "trace" in kind or config.child("input").raw("fixed_schedule") is True:
        return OfferedLoad(loop=Loop.TRACE, concurrency_cap_count=cap)
    if offered is not None:
        return OfferedLoad(
            loop=Loop.OPEN,
            offered_rps=offered,
            concurrency_cap_count=cap,
            burstiness_ratio=1.0 if kind == "poisson" else where.amount("arrival_smoothness"),
            even=kind == "constant" if kind else None,
        )
    return OfferedLoad(loop=Loop.CLOSED if cap is not None else Loop.BURST, concurrency_cap_count=cap)


def _subject(fields: Fields) -> LoadTestSubject:
    config = fields.child("input_config")
    named = [each.text("name") for each in config.child("models").children("items")]
    older = config.child("endpoint").raw("model_names")
    names = named or (older if isinstance(older, list) else [])
    return LoadTestSubject(model=str(names[0]) if names and names[0] else None)


def _tokens(fields: Fields) -> Tokens:
    return Tokens(
        prompt_tokens=_total(fields, "total_isl", "input_sequence_length"),
        output_tokens=_total(fields, "total_osl", "output_sequence_length"),
        counted_by=CountedBy.CLIENT,
        cached_prompt_tokens=_value(fields, "total_usage_prompt_cache_read_tokens"),
        other_prompt_tokens=_total(fields, "total_usage_prompt_tokens", "usage_prompt_tokens"),
        other_output_tokens=_total(fields, "total_usage_completion_tokens", "usage_completion_tokens"),
        prompt_lengths=_lengths(fields, "input_sequence_length"),
        output_lengths=_lengths(fields, "output_sequence_length"),
    )


def _lengths(fields: Fields, name: str) -> LengthSummary | None:
    return lengths(fields.child(name), mean="avg") if name in fields else None


def _total(fields: Fields, name: str, each: str) -> float | None:
    stated = _value(fields, name)
    return stated if stated is not None else fields.child(each).amount("sum")


def _value(fields: Fields, name: str) -> float | None:
    return fields.child(name).amount("avg")


def _time_s(fields: Fields, name: str) -> float | None:
    value = _value(fields, name)
    return None if value is None else value * unit_s(fields.child(name))


def _goodput(fields: Fields) -> StatedGoodput | None:
    rps = _value(fields, "goodput")
    if rps is None:
        return None
    config = fields.child("input_config")
    stated = config.child("slos") if "slos" in config else config.child("input", "goodput")
    return StatedGoodput(
        rps=rps,
        attained_fraction=_value(fields, "good_request_fraction"),
        limits=limits_of(stated, fields),
        single_token=SingleToken.BAD,
        denominator=Denominator.ENDED,
    )


def limits_of(stated: Fields, metrics: Fields) -> GoodputLimits | None:
    """Limits are in the unit that their metric is shown in."""
    in_s = {
        name: None if (limit := stated.amount(name)) is None else limit * unit_s(metrics.child(name))
        for name in ("time_to_first_token", "inter_token_latency", "request_latency")
        if name in stated and name in metrics
    }
    if not in_s:
        return None
    return GoodputLimits(
        ttft_s=in_s.get("time_to_first_token"),
        itl_s=in_s.get("inter_token_latency"),
        e2e_s=in_s.get("request_latency"),
    )


def _anomalies(fields: Fields) -> tuple[PointAnomaly, ...]:
    found = []
    if fields.raw("was_cancelled") is True or fields.raw("is_complete") is False:
        found.append(anomaly(Flag.INCOMPLETE_RUN, "AIPerf says that the run was cut off.", Severity.SERIOUS))
    mismatched = _value(fields, "osl_mismatch_count")
    if mismatched:
        found.append(
            anomaly(
                Flag.STATED_BY_TOOL,
                f"AIPerf counts {mismatched:g} answers whose length is not the requested one.",
            )
        )
    return tuple(found)
