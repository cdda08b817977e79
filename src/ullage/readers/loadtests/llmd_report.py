"""llm-d's benchmark report, 0.1, 0.2 and 0.2.1, YAML or JSON: every statistic states its own `units`.

The units are taken as written. A report without a goodput field has none: no version of the schema does.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, latency, lengths, present, rate
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    Tokens,
)
from ullage.workload.anomalies import Severity

KNOWN_VERSIONS = ("0.1", "0.2", "0.2.1")
_UNITS = {"s": 1.0, "ms": 1e-3, "s/token": 1.0, "ms/token": 1e-3}
_ISO_DURATION = re.compile(r"^P(?:(\d{1,5})D)?T(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d*)?)S)?$")


def recognise(content: Content) -> bool:
    first = content.first
    return {"version", "scenario"} <= set(first) and ("metrics" in first or "results" in first)


def read(content: Content) -> LoadTest:
    report = Fields(content.first, content.file)
    version = report.text("version") or ""
    oldest = "metrics" in report
    load = report.child("scenario", "load") if oldest else report.child("scenario", "load", "standardized")
    known = version in KNOWN_VERSIONS
    return LoadTest(
        file=content.file,
        reader="llmd_report",
        tool=load.text("name" if oldest else "tool") or "llm-d-benchmark",
        tool_version=load.text("tool_version"),
        format_version=f"benchmark report {version}",
        run_at=report.child("run", "time").text("start"),
        points=(_oldest_point(report) if oldest else _point(report),),
        anomalies=()
        if known
        else (
            anomaly(
                Flag.STATED_BY_TOOL,
                f"Report version {version} is not one of those known here ({', '.join(KNOWN_VERSIONS)}); it was read "
                "by the rules of the nearest.",
                Severity.CAUTION,
            ),
        ),
    )


def _point(report: Fields) -> Point:
    aggregate = report.child("results", "request_performance", "aggregate")
    if not any(True for _ in aggregate):
        raise report.child("results").wrong("request_performance", "is missing: the report holds no measured latency")
    requests, throughput = aggregate.child("requests"), aggregate.child("throughput")
    load = report.child("scenario", "load", "standardized")
    completed, duration_s = _completed(requests), _duration_s(report.child("run", "time"))
    stated = throughput.child("request_rate").amount("mean")
    return Point(
        name=f"stage {load.whole('stage') or 0}",
        subject=_subject(report),
        load=_load(load),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=requests.whole("failures"),
        unfinished_count=requests.whole("incomplete"),
        achieved_rps=rate(completed, duration_s) or stated,
        stated_rps=stated,
        output_tokens_per_s=throughput.child("output_token_rate").amount("mean"),
        tokens=Tokens(
            nominal_prompt_tokens=load.child("input_seq_len").amount("value"),
            nominal_output_tokens=load.child("output_seq_len").amount("value"),
            prompt_lengths=_lengths(requests, "input_length"),
            output_lengths=_lengths(requests, "output_length"),
        ),
        latencies=_latencies(aggregate.child("latency")),
    )


def _oldest_point(report: Fields) -> Point:
    metrics = report.child("metrics")
    requests, throughput = metrics.child("requests"), metrics.child("throughput")
    completed, duration_s = _completed(requests), metrics.child("time").amount("duration")
    stated = throughput.amount("requests_per_sec")
    arguments = report.child("scenario", "load", "args")
    # Some harnesses keep a list of rates here, of which the report is one; then it is not known which.
    several = isinstance(arguments.raw("qps_values"), list | str)
    return Point(
        name="report",
        subject=_oldest_subject(report),
        load=OfferedLoad(loop=Loop.OPEN, offered_rps=None if several else arguments.amount("qps_values")),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=requests.whole("failures"),
        unfinished_count=requests.whole("incomplete"),
        achieved_rps=rate(completed, duration_s) or stated,
        stated_rps=stated,
        output_tokens_per_s=throughput.amount("output_tokens_per_sec"),
        tokens=Tokens(
            prompt_lengths=_lengths(requests, "input_length"), output_lengths=_lengths(requests, "output_length")
        ),
        latencies=_latencies(metrics.child("latency")),
    )


def _latencies(inside: Fields) -> tuple[LatencySummary, ...]:
    return present(
        _latency(inside, "time_to_first_token", Definition.TTFT),
        _latency(inside, "time_per_output_token", Definition.TPOT),
        _latency(inside, "normalized_time_per_output_token", Definition.NTPOT),
        _latency(inside, "inter_token_latency", Definition.ITL_POOLED),
        _latency(inside, "request_latency", Definition.E2E),
    )


def _latency(inside: Fields, name: str, definition: Definition) -> LatencySummary | None:
    if name not in inside:
        return None
    statistic = inside.child(name)
    units = statistic.text("units") or ""
    if units not in _UNITS:
        raise statistic.wrong("units", "is not a unit of time", f"Known: {', '.join(_UNITS)}.")
    return latency(statistic, definition, scale=_UNITS[units], std="stddev")


def _lengths(requests: Fields, name: str) -> LengthSummary | None:
    return lengths(requests.child(name), std="stddev") if name in requests else None


def _load(load: Fields) -> OfferedLoad:
    """A rate makes it an open loop; a finite concurrency alone makes it a closed one; .inf is no cap."""
    offered, concurrency = load.amount("rate_qps"), load.number_or_inf("concurrency")
    cap = None if concurrency is None or math.isinf(concurrency) else int(concurrency)
    if offered is not None:
        return OfferedLoad(loop=Loop.OPEN, offered_rps=offered, concurrency_cap_count=cap)
    return OfferedLoad(loop=Loop.BURST if cap is None else Loop.CLOSED, concurrency_cap_count=cap)


def _subject(report: Fields) -> LoadTestSubject:
    engines = [
        each.child("standardized")
        for each in report.child("scenario").children("stack")
        if each.child("standardized").text("kind") == "inference_engine"
    ]
    if not engines:
        return LoadTestSubject()
    first = engines[0]
    accelerator = first.child("accelerator")
    counts = [(each.child("accelerator").whole("count") or 0) * (each.whole("replicas") or 1) for each in engines]
    replicas = sum(each.whole("replicas") or 1 for each in engines)
    parallelism = accelerator.child("parallelism")
    return LoadTestSubject(
        model=first.child("model").text("name"),
        engine=first.text("tool"),
        engine_version=first.text("tool_version"),
        hardware=accelerator.text("model"),
        devices=sum(counts) or None,
        tp=parallelism.whole("tp"),
        pp=parallelism.whole("pp"),
        ep=parallelism.whole("ep"),
        notes=(f"{replicas} replicas",) if replicas > 1 else (),
    )


def _oldest_subject(report: Fields) -> LoadTestSubject:
    accelerators = report.child("scenario", "host").children("accelerator")
    engines = report.child("scenario", "platform").children("engine")
    roles: Any = report.child("scenario", "host").raw("type")
    return LoadTestSubject(
        model=report.child("scenario", "model").text("name"),
        engine=engines[0].text("name") if engines else None,
        engine_version=engines[0].text("version") if engines else None,
        hardware=accelerators[0].text("model") if accelerators else None,
        devices=sum(each.whole("count") or 0 for each in accelerators) or None,
        precision=report.child("scenario", "model").text("quantization"),
        notes=(f"roles: {', '.join(map(str, roles))}",) if isinstance(roles, list) else (),
    )


def _duration_s(time: Fields) -> float | None:
    """A number of seconds, or ISO 8601 such as PT49.97S."""
    if not isinstance(time.raw("duration"), str):
        return time.amount("duration")
    match = _ISO_DURATION.match(time.raw("duration"))
    if match is None:
        raise time.wrong("duration", "is not a duration", "Give seconds, or ISO 8601 such as PT49.97S.")
    days, hours, minutes, seconds = (float(part) if part else 0.0 for part in match.groups())
    return ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds


def _completed(requests: Fields) -> int:
    rest = (requests.whole("failures") or 0) + (requests.whole("incomplete") or 0)
    completed = requests.need_whole("total") - rest
    if completed < 0:
        raise requests.wrong("total", f"is less than the {rest} that failed or did not end")
    return completed
