"""The `/metrics` page of vLLM or SGLang: what production itself measured, as a point of a load test.

One page counts from the engine's start; its rate is not known, so the load is told by how many sequences an average
step had. Several scrapes of the page in one file, each after a line `# SCRAPE <seconds since 1970>`, count from the
first to the last, and have a rate:

    while sleep 60; do echo "# SCRAPE $(date +%s)"; curl -s localhost:8000/metrics; done > metrics.txt

What such a page cannot say: what the client waited before the server read its request and after it sent the token; how
the load varied inside the window (a mean over a day of quiet and busy hours is a load that never was); percentiles, but
to the width of a bucket, so that means alone are taken, which are exact. Requests that were aborted are in the count of
first tokens and in no other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ullage.errors import InputError
from ullage.readers.engines.exposition import parse_sample
from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import anomaly, present, rate
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
    PointAnomaly,
    SeenBy,
    Tokens,
)
from ullage.workload.anomalies import Severity

_OWN = re.compile(r"^(vllm|sglang):time_to_first_token_seconds_(?:count|sum|bucket)[{ ]", re.MULTILINE)
_SCRAPE = re.compile(r"^# SCRAPE (\d+(?:\.\d+)?)\s*$", re.MULTILINE)
# Names by definition; later ones are what earlier versions called it.
_HISTOGRAMS = {
    Definition.TTFT: ("time_to_first_token_seconds",),
    Definition.TPOT: ("request_time_per_output_token_seconds",),
    Definition.ITL_POOLED: ("inter_token_latency_seconds", "time_per_output_token_seconds"),
    Definition.E2E: ("e2e_request_latency_seconds",),
}
_CACHED = ("prompt_tokens_cached_total", "prefix_cache_hits_total", "cached_tokens_total")


@dataclass(frozen=True, kw_only=True)
class _Page:
    """One scrape: sums over engines and labels by name, the first bucket edges, and the labels that name things."""

    at_s: float | None
    totals: Mapping[str, float]
    first_edges_s: Mapping[str, float]
    models: frozenset[str]
    cache: Mapping[str, str]

    def of(self, *names: str) -> float | None:
        return next((self.totals[name] for name in names if name in self.totals), None)


def recognise(content: Content) -> bool:
    return _OWN.search(content.text) is not None


def read(content: Content) -> LoadTest:
    if not content.text.endswith("\n"):
        last = content.text.splitlines()[-1]
        raise _wrong(content.file, last, "the page ends inside a line: it is cut", "Give the whole page.")
    pages = _pages(content)
    before, after = (None, pages[0]) if len(pages) == 1 else (pages[0], pages[-1])
    found = _OWN.search(content.text)
    engine = "vllm" if found is None else found.group(1)
    totals = dict(after.totals) if before is None else _difference(before, after, content.file)
    window_s = None if before is None else (after.at_s or 0.0) - (before.at_s or 0.0)
    if window_s is not None and window_s <= 0:
        raise _wrong(content.file, window_s, "the last scrape is not after the first", "Give them in order of time.")
    point = _point(_counted(after, totals), engine, window_s, [each.of("num_requests_running") for each in pages])
    return LoadTest(
        file=content.file,
        reader="engine_metrics",
        tool=f"{engine} metrics",
        format_version=f"{len(pages)} scrape{'s' if len(pages) > 1 else ''} of /metrics",
        points=(point,),
    )


def _counted(page: _Page, totals: Mapping[str, float]) -> _Page:
    """The page with counts of a window in place of counts since the start."""
    return _Page(at_s=page.at_s, totals=totals, first_edges_s=page.first_edges_s, models=page.models, cache=page.cache)


def _point(page: _Page, engine: str, window_s: float | None, running: Sequence[float | None]) -> Point:
    arrived, ended = _whole(page.of("time_to_first_token_seconds_count")), _whole(page.of(_COUNT))
    last = running[-1] or 0.0
    first = (running[0] or 0.0) if len(running) > 1 else 0.0
    aborted = None if arrived is None or ended is None else max(0, round(arrived - ended - (last - first)))
    output = page.of("request_generation_tokens_sum", "generation_tokens_total")
    return Point(
        name="since the engine's start" if window_s is None else "between the first and the last scrape",
        subject=LoadTestSubject(engine=engine, model=next(iter(page.models), None)),
        load=_load(page, arrived, window_s),
        duration_s=window_s,
        completed_count=ended,
        failed_count=aborted,
        achieved_rps=rate(ended, window_s),
        output_tokens_per_s=rate(output, window_s),
        tokens=Tokens(
            prompt_tokens=page.of("request_prompt_tokens_sum", "prompt_tokens_total"),
            output_tokens=output,
            cached_prompt_tokens=page.of(*_CACHED),
            counted_by=CountedBy.SERVER,
        ),
        latencies=present(*(_latency(page, names, definition) for definition, names in _HISTOGRAMS.items())),
        anomalies=tuple(_anomalies(page, window_s, aborted)),
    )


_COUNT = "e2e_request_latency_seconds_count"


def _load(page: _Page, arrived: int | None, window_s: float | None) -> OfferedLoad:
    """A rate where there is a window; else as many clients as an average step had sequences."""
    if window_s is not None:
        return OfferedLoad(loop=Loop.OPEN, offered_rps=rate(arrived, window_s))
    steps, made = page.of("iteration_tokens_total_count"), page.of("generation_tokens_total")
    if not steps or not made:
        return OfferedLoad(loop=Loop.OPEN)
    return OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=max(1, round(made / steps)))


def _latency(page: _Page, names: Sequence[str], definition: Definition) -> LatencySummary | None:
    for name in names:
        count, total_s = page.of(f"{name}_count"), page.of(f"{name}_sum")
        if count and total_s is not None and total_s > 0:
            return LatencySummary(
                definition=definition,
                mean_s=total_s / count,
                sample_count=round(count),
                seen_by=SeenBy.ENGINE,
                floor_s=page.first_edges_s.get(name),
            )
    return None


def _anomalies(page: _Page, window_s: float | None, aborted: int | None) -> list[PointAnomaly]:
    found = [
        anomaly(
            Flag.STATED_BY_TOOL,
            "These are the engine's own metrics: they leave out what the client waited outside it, and are means "
            + (
                "since its start, taken as one level load of as many sequences as an average step had."
                if window_s is None
                else "over the window, taken as one level load."
            ),
            Severity.CAUTION,
        )
    ]
    if aborted:
        found.append(
            anomaly(
                Flag.FAILURES,
                f"{aborted:,} requests got a first token and no end: they were aborted, and other metrics miss them.",
                Severity.CAUTION,
            )
        )
    tokens = page.cache.get("kv_cache_size_tokens", "")
    blocks, size = page.cache.get("num_gpu_blocks", ""), page.cache.get("block_size", "")
    held = int(tokens) if tokens.isdigit() else int(blocks) * int(size) if blocks.isdigit() and size.isdigit() else None
    if held:
        found.append(anomaly(Flag.STATED_BY_TOOL, f"The page states a KV cache of {held} tokens: --kv-tokens {held}."))
    return found


# ---- the text ------------------------------------------------------------------------------------------


def _pages(content: Content) -> list[_Page]:
    marks = list(_SCRAPE.finditer(content.text))
    if not marks:
        return [_page(content.text, None, content.file)]
    ends = [each.start() for each in marks[1:]] + [len(content.text)]
    found = [
        _page(content.text[mark.end() : end], float(mark.group(1)), content.file)
        for mark, end in zip(marks, ends, strict=True)
    ]
    return [each for each in found if each.totals] or [_page("", None, content.file)]


def _page(text: str, at_s: float | None, file: str) -> _Page:
    totals: dict[str, float] = {}
    edges: dict[str, float] = {}
    models: set[str] = set()
    cache: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith(("vllm:", "sglang:")):
            continue
        sample = parse_sample(line)
        if sample is None:
            raise _wrong(file, line, "is not a sample of a metric; the page seems to be cut", "Give the whole page.")
        name, labels, value = sample.name.partition(":")[2], dict(sample.labels), sample.value
        models |= {labels["model_name"]} if labels.get("model_name") else set()
        if name == "cache_config_info":
            cache = labels
        elif name.endswith("_bucket"):
            edge = _number(labels.get("le", ""))
            if edge is not None and math.isfinite(edge):
                base = name.removesuffix("_bucket")
                edges[base] = min(edge, edges.get(base, math.inf))
        else:
            totals[name] = totals.get(name, 0.0) + value
    if len(models) > 1:
        raise _wrong(file, sorted(models), "are the metrics of several models", "Give the page of one engine.")
    return _Page(at_s=at_s, totals=totals, first_edges_s=edges, models=frozenset(models), cache=cache)


def _difference(before: _Page, after: _Page, file: str) -> dict[str, float]:
    """Counters of the window; a gauge stays what it last was."""
    found = dict(after.totals)
    for name, value in after.totals.items():
        if name.endswith(("_count", "_sum", "_total")):
            found[name] = value - before.totals.get(name, 0.0)
            if found[name] < 0:
                problem = "fell between two scrapes: the engine was restarted"
                raise _wrong(file, name, problem, "Give scrapes of one run of the engine.")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _wrong(file: str, value: object, problem: str, fix: str) -> InputError:
    return InputError(field=file, value=value, problem=problem, fix=fix)
