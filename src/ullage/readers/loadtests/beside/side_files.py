"""Files that lie beside a load test's result and are not one: each is known by its content, and says what to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ullage.readers.loadtests.content import Content, FileShape


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that is not a load test, how it is known, and what to give in its place."""

    what: str
    recognise: Callable[[Content], bool]
    instead: str


def _is_object_with(*names: str) -> Callable[[Content], bool]:
    return lambda content: set(names) <= set(content.first)


def _is_aiperf_slices(content: Content) -> bool:
    return content.shape is FileShape.CSV and content.rows[0][:2] == ("Timeslice", "Start_NS")


def _is_scrape_lines(content: Content) -> bool:
    return len(content.documents) > 1 and {"endpoint_url", "timestamp_ns", "metrics"} <= set(content.first)


SIDE_FILES: tuple[SideFile, ...] = (
    SideFile(
        what="AIPerf's time slices",
        recognise=_is_object_with("timeslices"),
        instead="Give profile_export_aiperf.json or profile_export.jsonl of the same run.",
    ),
    SideFile(
        what="AIPerf's time slices as CSV",
        recognise=_is_aiperf_slices,
        instead="Give profile_export_aiperf.json or profile_export.jsonl of the same run.",
    ),
    SideFile(
        what="AIPerf's raw scrapes of the engine",
        recognise=_is_scrape_lines,
        instead="Give server_metrics_export.json, or the result itself.",
    ),
    SideFile(
        what="a description of a system under MLPerf",
        recognise=_is_object_with("accelerator_model_name", "submitter"),
        instead="Give mlperf_log_summary.txt or mlperf_log_detail.txt of a run.",
    ),
    SideFile(
        what="the configuration of inference-perf",
        recognise=_is_object_with("api", "data", "load", "server"),
        instead="Give stage_N_lifecycle_metrics.json of the run.",
    ),
    SideFile(
        what="the totals of vllm bench throughput, without the latency of any request",
        recognise=_is_object_with("elapsed_time", "num_requests", "tokens_per_second"),
        instead="Give a result of vllm bench serve.",
    ),
    SideFile(
        what="the times of whole batches by vllm bench latency",
        recognise=_is_object_with("avg_latency", "latencies", "percentiles"),
        instead="Give a result of vllm bench serve.",
    ),
    SideFile(
        what="AIPerf's server metrics as CSV",
        recognise=lambda content: content.text.startswith("# AIPerf Server Metrics Export"),
        instead="Give server_metrics_export.json of the same run.",
    ),
    SideFile(
        what="a JSON schema",
        recognise=_is_object_with("$defs", "properties"),
        instead="Give a report written by it.",
    ),
)


def known_side_file(content: Content) -> SideFile | None:
    return next((each for each in SIDE_FILES if each.recognise(content)), None)
