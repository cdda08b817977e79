"""inference-perf's `*_prometheus_metrics.json`: what the engine's own metrics showed over a stage.

Seconds, from histograms on the engine, without what the client waited. In old files the mean prompt length is
that of something else (10,721 where prompts had 205 tokens) and cache use is 0.0 throughout, so lengths are
taken as tokens a second over requests a second, and cache figures are not read.
"""

from __future__ import annotations

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, latency, present
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Flag,
    LatencySummary,
    LengthSummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    SeenBy,
    Tokens,
)
from ullage.workload.anomalies import Severity


def recognise(content: Content) -> bool:
    successes = content.first.get("successes")
    return isinstance(successes, dict) and "queue_len" in successes and "time_to_first_token" in successes


def read(content: Content) -> LoadTest:
    good = Fields(content.first, content.file).child("successes")
    rps, count = good.amount("rate"), good.whole("count")
    prompt, output = (_length(good, side, rps) for side in ("prompt_len", "output_len"))
    point = Point(
        name="stage, by the engine's metrics",
        subject=LoadTestSubject(),
        # The engine saw arrivals, not who decided them.
        load=OfferedLoad(loop=Loop.OPEN),
        duration_s=None,
        completed_count=count,
        achieved_rps=rps,
        output_tokens_per_s=good.child("output_len").amount("rate"),
        tokens=Tokens(
            counted_by=CountedBy.SERVER,
            prompt_lengths=None if prompt is None else LengthSummary(mean_tokens=prompt),
            output_lengths=None if output is None else LengthSummary(mean_tokens=output),
        ),
        latencies=present(
            _latency(good, "time_to_first_token", Definition.TTFT),
            _latency(good, "time_per_output_token", Definition.TPOT),
            _latency(good, "request_latency", Definition.E2E),
        ),
        anomalies=tuple(_anomalies(good, prompt)),
    )
    return LoadTest(
        file=content.file,
        reader="inference_perf_server",
        tool="inference-perf",
        format_version="engine metrics",
        points=(point,),
    )


def _latency(good: Fields, name: str, definition: Definition) -> LatencySummary | None:
    return latency(good.child(name), definition, scale=1.0, seen_by=SeenBy.ENGINE) if name in good else None


def _length(good: Fields, name: str, rps: float | None) -> float | None:
    tokens_per_s = good.child(name).amount("rate")
    return tokens_per_s / rps if tokens_per_s is not None and rps else None


def _anomalies(good: Fields, prompt_tokens: float | None) -> list[PointAnomaly]:
    found = [
        anomaly(
            Flag.SERVER_SECTION_UNCERTAIN,
            "These are the engine's averages over its own window: they leave out what the client waited and who "
            "failed. Use the lifecycle file of the same stage.",
            Severity.CAUTION,
        )
    ]
    stated = good.child("prompt_len").amount("mean")
    if stated and prompt_tokens and abs(stated / prompt_tokens - 1.0) > 0.1:
        found.append(
            anomaly(
                Flag.SERVER_SECTION_UNCERTAIN,
                f"prompt_len.mean says {stated:,.0f} tokens, tokens a second over requests a second say "
                f"{prompt_tokens:,.0f}; the latter is used.",
                Severity.SERIOUS,
            )
        )
    if good.child("kv_cache_usage_percentage").number("mean") == 0.0:
        found.append(
            anomaly(Flag.FIGURE_IGNORED, "kv_cache_usage_percentage is 0 throughout, as in old files. It is not used.")
        )
    return found
