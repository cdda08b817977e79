"""GuideLLM reports, JSON or YAML, of every generation since 0.2.

    metadata.version    program       the report's arguments stand under
    2                   0.7 on        config
    1                   0.5, 0.6      args
    absent              0.4           args
    absent              0.2, 0.3      args of each benchmark

`request_latency` is in seconds, fields that end in `_ms` in ms. TPOT counts the first token (up to 0.3 it left its time
out but not the token), ITL is one mean a request, and both are weighted by tokens. `requests_per_second` is the mean of
a rate over time, not a count over the duration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import MS, Fields, anomaly, latency, lengths, present, rate
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
    MeasuredRequest,
    OfferedLoad,
    Point,
    PointAnomaly,
    SingleToken,
    StatedGoodput,
    Status,
    Tokens,
)
from ullage.workload.anomalies import Severity

PERCENTILE_KEYS = {
    "p001": 0.001,
    "p01": 0.01,
    "p05": 0.05,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
}
_KNOWN_SCHEMAS = (1, 2)


def recognise(content: Content) -> bool:
    benchmarks = content.first.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks or not isinstance(benchmarks[0], dict):
        return False
    return "metrics" in benchmarks[0] and ("config" in benchmarks[0] or "args" in benchmarks[0])


def read(content: Content) -> LoadTest:
    report = Fields(content.first, content.file)
    metadata = report.child("metadata")
    generation = generation_of(report)
    benchmarks = report.children("benchmarks")
    return LoadTest(
        file=content.file,
        reader="guidellm",
        tool="guidellm",
        tool_version=metadata.text("guidellm_version"),
        format_version=generation,
        points=tuple(point_of(each, index, oldest="0.3" in generation) for index, each in enumerate(benchmarks)),
        anomalies=tuple(_file_anomalies(report)),
    )


def generation_of(report: Fields) -> str:
    schema = report.child("metadata").whole("version")
    if schema is not None:
        return f"report schema {schema}"
    return "report of 0.4" if "args" in report else "report of 0.3 or earlier"


def point_of(fields: Fields, index: int, *, oldest: bool = False) -> Point:
    """One benchmark of a report. `oldest` is a report of 0.3 or earlier, whose TPOT is another one."""
    metrics = fields.child("metrics")
    totals = metrics.child("request_totals") if "request_totals" in metrics else fields.child("request_totals")
    duration_s, completed = _duration_s(fields), totals.need_whole("successful")
    prompt, output = (_lengths(metrics, f"{side}_token_count") for side in ("prompt", "output"))
    load = _load(fields)
    return Point(
        name=f"benchmark {index + 1}",
        subject=_subject(fields),
        load=load,
        duration_s=duration_s,
        completed_count=completed,
        failed_count=totals.whole("errored"),
        unfinished_count=totals.whole("incomplete"),
        achieved_rps=rate(completed, duration_s),
        stated_rps=metrics.child("requests_per_second", "successful").amount("mean"),
        output_tokens_per_s=metrics.child("output_tokens_per_second", "successful").amount("mean"),
        mean_concurrency_count=metrics.child("request_concurrency", "successful").amount("mean"),
        tokens=Tokens(
            prompt_tokens=_total(prompt, completed),
            output_tokens=_total(output, completed),
            counted_by=CountedBy.SERVER if _prefers_server(fields) else None,
            prompt_lengths=prompt,
            output_lengths=output,
        ),
        latencies=present(
            _latency(metrics, "time_to_first_token_ms", Definition.TTFT, MS),
            _latency(
                metrics,
                "time_per_output_token_ms",
                Definition.TPOT_OVER_ALL if oldest else Definition.TPOT_WITH_FIRST,
                MS,
            ),
            _latency(metrics, "inter_token_latency_ms", Definition.ITL_PER_REQUEST_BY_TOKEN, MS),
            _latency(metrics, "request_latency", Definition.E2E, 1.0),
        ),
        client_delay=_client_delay(fields, metrics),
        stated_goodput=_goodput(fields, metrics),
        requests=tuple(_requests(fields)),
        anomalies=tuple(_warnings(fields)),
    )


def _duration_s(fields: Fields) -> float:
    if "duration" in fields:
        return fields.need("duration")
    return fields.need("end_time") - fields.need("start_time")


def _load(fields: Fields) -> OfferedLoad:
    arguments = fields.child("config") if "config" in fields else fields.child("args")
    strategy = arguments.child("strategy")
    kind = strategy.text("type_")
    # Every strategy carries a cap of the client's own, too high to bind; what the user set is the profile's.
    cap = arguments.child("profile").whole("max_concurrency")
    if kind == "synchronous":
        return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=1)
    if kind == "concurrent":
        return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=strategy.need_whole("streams"))
    if kind == "throughput":
        return OfferedLoad(loop=Loop.BURST, concurrency_cap_count=strategy.whole("max_concurrency"))
    if kind in ("constant", "poisson"):
        return OfferedLoad(
            loop=Loop.OPEN,
            offered_rps=strategy.need("rate"),
            concurrency_cap_count=cap,
            burstiness_ratio=1.0 if kind == "poisson" else None,
            even=kind == "constant",
        )
    if kind == "trace":
        return OfferedLoad(loop=Loop.TRACE, concurrency_cap_count=cap)
    raise strategy.wrong(
        "type_",
        "is not a strategy that is known here",
        "Known: synchronous, concurrent, throughput, constant, poisson.",
    )


def _subject(fields: Fields) -> LoadTestSubject:
    backend = fields.child("config", "backend")
    model = backend.text("model") or fields.child("worker").text("backend_model")
    return LoadTestSubject(model=model)


def _prefers_server(fields: Fields) -> bool:
    return fields.child("config").raw("prefer_response_metrics") is True


def _latency(metrics: Fields, name: str, definition: Definition, scale: float) -> LatencySummary | None:
    found = metrics.child(name, "successful") if _by_status(metrics, name) else metrics.child(name)
    if found.number("count") == 0:
        return None
    return latency(found, definition, scale=scale, std="std_dev", pairs=_pairs(found, scale))


def _lengths(metrics: Fields, name: str) -> LengthSummary | None:
    found = metrics.child(name, "successful")
    return None if found.number("count") == 0 else lengths(found, std="std_dev", pairs=_pairs(found, 1.0))


def _by_status(metrics: Fields, name: str) -> bool:
    return "successful" in metrics.child(name)


def _pairs(fields: Fields, scale: float) -> tuple[tuple[float, float], ...]:
    inside = fields.child("percentiles")
    known = {fraction: inside.number(key) for key, fraction in PERCENTILE_KEYS.items()}
    median = fields.number("median")
    if known[0.5] is None and median is not None:
        known[0.5] = median
    return tuple(sorted((fraction, value * scale) for fraction, value in known.items() if value is not None))


def _total(found: LengthSummary | None, completed: int) -> float | None:
    return None if found is None or found.mean_tokens is None else found.mean_tokens * completed


def _client_delay(fields: Fields, metrics: Fields) -> LatencySummary | None:
    """How late requests were sent: a distribution since 0.8, a mean before."""
    whole = metrics.child("request_dispatch_delay", "total")
    if "mean" in whole:
        return latency(whole, Definition.CLIENT_DELAY, scale=1.0, std="std_dev", pairs=_pairs(whole, 1.0))
    mean_s = fields.child("scheduler_metrics").number("request_targeted_start_delay_avg")
    if mean_s is None:
        mean_s = fields.child("run_stats").number("request_start_time_targeted_delay_avg")
    return None if mean_s is None else LatencySummary(definition=Definition.CLIENT_DELAY, mean_s=mean_s)


def _goodput(fields: Fields, metrics: Fields) -> StatedGoodput | None:
    limits = fields.child("config", "slo")
    attained = metrics.amount("slo_attainment")
    if attained is None:
        return None
    in_s = {
        name: None if (ms := limits.amount(name)) is None else ms * MS for name in ("ttft_ms", "tpot_ms", "e2el_ms")
    }
    return StatedGoodput(
        rps=metrics.child("request_goodput", "successful").amount("mean"),
        attained_fraction=attained,
        # The limit called tpot is compared with ITL.
        limits=GoodputLimits(ttft_s=in_s["ttft_ms"], itl_s=in_s["tpot_ms"], e2e_s=in_s["e2el_ms"])
        if any(value is not None for value in in_s.values())
        else None,
        single_token=SingleToken.UNDETERMINED,
        denominator=Denominator.DETERMINED,
    )


def _requests(fields: Fields) -> Iterator[MeasuredRequest]:
    kept = fields.child("requests")
    by_status = (("successful", Status.OK), ("errored", Status.FAILED), ("incomplete", Status.UNFINISHED))
    found = [(each, status) for name, status in by_status for each in kept.children(name)]
    starts = [start for each, _ in found if (start := _start_s(each)) is not None]
    first_s = min(starts, default=0.0)
    for each, status in found:
        yield _request(each, status, first_s)


def _start_s(fields: Fields) -> float | None:
    start = fields.child("info", "timings").number("request_start")
    return start if start is not None else fields.number("start_time")


def _request(fields: Fields, status: Status, first_s: float) -> MeasuredRequest:
    due_s = fields.child("info", "timings").number("targeted_start")
    if due_s is None:
        due_s = fields.child("scheduler_info").number("targeted_start_time")
    ttft_ms, itl_ms = fields.number("time_to_first_token_ms"), fields.number("inter_token_latency_ms")
    start_s, output = _start_s(fields), fields.whole("output_tokens")
    return MeasuredRequest(
        status=status,
        sent_s=None if start_s is None else start_s - first_s,
        due_s=None if due_s is None or start_s is None else due_s - first_s,
        ttft_s=None if ttft_ms is None else ttft_ms * MS,
        e2e_s=fields.number("request_latency"),
        # Up to 0.3 an answer of one token has an ITL of 0, which was not measured.
        itl_s=None if itl_ms is None or output is None or output < 2 else itl_ms * MS,
        prompt_tokens=fields.whole("prompt_tokens"),
        output_tokens=output,
        cached_tokens=fields.whole("cached_tokens"),
    )


def _warnings(fields: Fields) -> Iterator[PointAnomaly]:
    for each in fields.children("warnings"):
        yield anomaly(
            Flag.CLIENT_LIMITED,
            f"GuideLLM warns ({each.text('code')}): {each.text('message') or each.text('note')}",
            Severity.CAUTION,
        )


def _file_anomalies(report: Fields) -> Iterator[PointAnomaly]:
    schema = report.child("metadata").whole("version")
    if schema is not None and schema not in _KNOWN_SCHEMAS:
        yield anomaly(
            Flag.STATED_BY_TOOL,
            f"Report schema {schema} is newer than those known here (1, 2); it was read by the rules of 2.",
            Severity.CAUTION,
        )
    for each in report.children("conclusions"):
        best: Any = each.raw("best_passing_streams")
        yield anomaly(
            Flag.STATED_BY_TOOL,
            f"GuideLLM concludes by its {each.text('kind') or each.text('type_') or 'own'} profile: "
            f"best passing streams {best if best is not None else 'none'}.",
        )
