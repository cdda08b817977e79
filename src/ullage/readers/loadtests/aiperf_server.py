"""AIPerf's `server_metrics_export.json`: the engine's own counters and histograms while a benchmark ran.

A counter's `rate` is divided by the whole time of scraping, not by the phase that was measured (2.86 for a true 4 a
second), so rates are computed anew from totals and the phase. Histograms keep their first bucket edge, because nothing
below it can be told apart.
"""

from __future__ import annotations

import re
from typing import Any

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import NS, Fields, anomaly, fraction_of, present, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Flag,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    SeenBy,
    Tokens,
)
from ullage.workload.anomalies import Severity

# vLLM's and SGLang's names for the same histograms; AIPerf takes the colon's prefix as it is.
_PREFIXES = ("vllm:", "sglang:")
_HISTOGRAMS = {
    Definition.TTFT: ("time_to_first_token_seconds",),
    Definition.ITL_POOLED: ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    Definition.TPOT: ("request_time_per_output_token_seconds",),
    Definition.E2E: ("e2e_request_latency_seconds",),
}


def recognise(content: Content) -> bool:
    summary = content.first.get("summary")
    return isinstance(summary, dict) and "phase_time_ranges" in summary and "metrics" in content.first


def read(content: Content) -> LoadTest:
    fields = Fields(content.first, content.file)
    metrics = fields.child("metrics")
    phase = fields.child("summary", "phase_time_ranges", fields.text("metrics_phase") or "profiling")
    duration_s = (phase.need("end_ns") - phase.need("start_ns")) * NS
    completed = _histogram_count(metrics, "e2e_request_latency_seconds")
    prompt, output = (_counter(metrics, f"{side}_tokens") for side in ("prompt", "generation"))
    point = Point(
        name="profiling, by the engine's metrics",
        subject=_subject(metrics),
        # The engine saw arrivals, not who decided them.
        load=OfferedLoad(loop=Loop.OPEN),
        duration_s=duration_s,
        completed_count=completed,
        achieved_rps=rate(completed, duration_s),
        stated_rps=_stated(metrics, "e2e_request_latency_seconds"),
        output_tokens_per_s=rate(output, duration_s),
        tokens=Tokens(
            prompt_tokens=prompt,
            output_tokens=output,
            cached_prompt_tokens=_counter(metrics, "prompt_tokens_cached"),
            counted_by=CountedBy.SERVER,
        ),
        latencies=present(*(_histogram(metrics, names, definition) for definition, names in _HISTOGRAMS.items())),
        anomalies=(
            anomaly(
                Flag.STATED_BY_TOOL,
                "These are the engine's own metrics: they leave out what the client waited. Rates are totals over the "
                "measured phase, not the file's, which are over the whole time of scraping.",
                Severity.CAUTION,
            ),
        ),
    )
    return LoadTest(
        file=content.file,
        reader="aiperf_server",
        tool="aiperf",
        tool_version=fields.text("aiperf_version"),
        format_version=f"server metrics {fields.text('schema_version')}",
        points=(point,),
    )


def _subject(metrics: Fields) -> LoadTestSubject:
    engine = next((name.split(":")[0] for name in metrics if name.startswith(_PREFIXES)), None)
    series = _series(metrics, "e2e_request_latency_seconds")
    return LoadTestSubject(engine=engine, model=series[0].child("labels").text("model_name") if series else None)


def _series(metrics: Fields, name: str) -> list[Fields]:
    found = next((f"{prefix}{name}" for prefix in _PREFIXES if f"{prefix}{name}" in metrics), name)
    return metrics.child(found).children("series")


def _histogram(metrics: Fields, names: tuple[str, ...], definition: Definition) -> LatencySummary | None:
    series = next((found for name in names if (found := _series(metrics, name))), [])
    stats = [each.child("stats") for each in series]
    count = sum(each.amount("count") or 0.0 for each in stats)
    total_s = sum(each.amount("sum") or 0.0 for each in stats)
    if not count:
        return None
    return LatencySummary(
        definition=definition,
        # Sum over count is exact; percentiles are only known for one series, and only to the width of a bucket.
        mean_s=total_s / count,
        percentiles=_estimates(stats[0]) if len(stats) == 1 else (),
        sample_count=int(count),
        seen_by=SeenBy.ENGINE,
        floor_s=_first_edge(series[0]),
    )


def _estimates(stats: Fields) -> tuple[tuple[float, float], ...]:
    found: dict[float, float] = {}
    for key in stats:
        match = re.fullmatch(r"p([\d.]+)_estimate", key)
        fraction = fraction_of(match.group(1)) if match else None
        if fraction is not None and (value := stats.number(key)) is not None:
            found[fraction] = value
    return tuple(sorted(found.items()))


def _first_edge(series: Fields) -> float | None:
    buckets: Any = series.raw("buckets")
    if not isinstance(buckets, dict):
        return None
    try:
        edges = {edge: float(edge) for edge in buckets if edge != "+Inf"}
    except ValueError:
        raise series.wrong("buckets", "has an edge that is not a number") from None
    checked = series.with_data(edges, "buckets")
    return min((value for edge in edges if (value := checked.number(edge)) is not None), default=None)


def _histogram_count(metrics: Fields, name: str) -> int | None:
    counts = [each.child("stats").whole("count") for each in _series(metrics, name)]
    return sum(each for each in counts if each is not None) if counts else None


def _stated(metrics: Fields, name: str) -> float | None:
    rates = [each.child("stats").amount("count_rate") for each in _series(metrics, name)]
    return sum(each for each in rates if each is not None) if rates else None


def _counter(metrics: Fields, name: str) -> float | None:
    totals = [each.child("stats").amount("total") for each in _series(metrics, name)]
    return sum(each for each in totals if each is not None) if totals else None
