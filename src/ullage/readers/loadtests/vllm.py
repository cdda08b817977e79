"""`vllm bench serve` and `vllm bench sweep`: one JSON object a run, several in one file after each other or in a list.

Statistics are in ms, arrays in seconds. The limits behind `request_goodput` are not stored. `max_concurrent_requests`
counts requests that touch the same second, so it exceeds the cap and is not a concurrency.
"""

from __future__ import annotations

from typing import Any

from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, Fields, anomaly, present, rate
from ullage.readers.loadtests.serving_arrays import array_requests, flat_latency, load_of
from ullage.service.loadtests.loadtest import (
    Definition,
    Denominator,
    Flag,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    OfferedLoad,
    Point,
    PointAnomaly,
    SingleToken,
    StatedGoodput,
    Tokens,
)
from ullage.service.loadtests.requests import latency_of, lengths_of, sending_rate_rps

_KEYS = {"request_rate", "completed", "duration", "request_throughput"}


def recognise(content: Content) -> bool:
    keys = set(content.first) or (set(content.rows[0]) if content.rows else set())
    # SGLang's is a descendant; until 0.6.4 vLLM's own had no burstiness to tell them apart.
    is_vllm = "burstiness" in keys or not any(key.endswith("_e2e_latency_ms") for key in keys)
    return keys >= _KEYS and is_vllm and any(key.endswith(("_ttft_ms", "_e2el_ms")) for key in keys)


def read(content: Content) -> LoadTest:
    runs = _rows(content) if content.shape is FileShape.CSV else content.mappings
    points = tuple(_point(Fields(run, content.file, f"run {index + 1}"), index) for index, run in enumerate(runs))
    return LoadTest(
        file=content.file,
        reader="vllm",
        tool="vllm bench sweep" if "run_number" in runs[0] else "vllm bench serve",
        format_version=_generation(set(runs[0])),
        run_at=None if runs[0].get("date") is None else str(runs[0]["date"]),
        points=points,
    )


def _point(fields: Fields, index: int) -> Point:
    duration_s, completed = fields.need("duration"), fields.need_whole("completed")
    prompts = fields.whole("num_prompts")
    failed = fields.whole("failed")
    if failed is None and prompts is not None and prompts >= completed:
        failed = prompts - completed
    requests = array_requests(fields)
    load = load_of(fields)
    return Point(
        name=f"run {index + 1}",
        subject=_subject(fields),
        load=load,
        duration_s=duration_s,
        completed_count=completed,
        failed_count=failed,
        achieved_rps=rate(completed, duration_s),
        sent_rps=sending_rate_rps(requests),
        stated_rps=fields.amount("request_throughput"),
        output_tokens_per_s=fields.amount("output_throughput"),
        tokens=Tokens(
            prompt_tokens=fields.amount("total_input_tokens"),
            output_tokens=fields.amount("total_output_tokens"),
            prompt_lengths=lengths_of(each.prompt_tokens for each in requests),
            output_lengths=lengths_of(each.output_tokens for each in requests),
        ),
        latencies=_latencies(fields),
        client_delay=latency_of(fields.numbers("queue_times") or [], Definition.CLIENT_DELAY),
        stated_goodput=_goodput(fields),
        requests=requests,
        anomalies=_anomalies(fields, load),
    )


def _latencies(fields: Fields) -> tuple[LatencySummary, ...]:
    return present(
        flat_latency(fields, "_ttft_ms", Definition.TTFT, scale=MS),
        flat_latency(fields, "_tpot_ms", Definition.TPOT, scale=MS),
        flat_latency(fields, "_itl_ms", Definition.ITL_POOLED, scale=MS),
        flat_latency(fields, "_e2el_ms", Definition.E2E, scale=MS),
    )


def _subject(fields: Fields) -> LoadTestSubject:
    notes = []
    if (accepted := fields.number("spec_decode_acceptance_length")) is not None:
        notes.append(f"speculative decoding, {accepted:g} tokens accepted per step")
    if (strategy := fields.text("ramp_up_strategy")) is not None:
        notes.append(f"the rate ramped up ({strategy})")
    tp = fields.text("tp")
    return LoadTestSubject(
        model=fields.text("model_id"),
        hardware=fields.text("gpu") or fields.text("hardware"),
        tp=int(tp) if tp is not None and tp.isdigit() else None,
        notes=tuple(notes),
    )


def _goodput(fields: Fields) -> StatedGoodput | None:
    # Up to 0.8.5 the key ends in a colon.
    name = "request_goodput:" if "request_goodput:" in fields else "request_goodput"
    rps = fields.amount(name)
    if rps is None:
        return None
    return StatedGoodput(
        rps=rps,
        attained_fraction=None,
        limits=None,
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
            f"{load.concurrency_cap_count}. It is not used.",
        ),
    )


def _generation(keys: set[str]) -> str:
    """The file does not state its version; its keys bound it."""
    if "queue_times" in keys:
        return "keys of 0.32"
    if "burstiness" not in keys:
        return "keys of 0.6.3 or earlier"
    if "failed" in keys:
        return "keys of 0.12 or later"
    if "request_goodput:" in keys:
        return "keys of 0.8.5 or earlier"
    return "keys of 0.9.2 or later"


def _rows(content: Content) -> list[dict[str, Any]]:
    """The rows of a sweep's summary.csv, as objects of the same keys."""
    header, *rows = content.rows
    short = next((index for index, row in enumerate(rows) if len(row) != len(header)), None)
    if short is not None or not rows:
        fields = Fields({"row": short}, content.file)
        raise fields.wrong("row", f"has not the {len(header)} columns of the header: the file is cut short")
    return [{key: _cell(cell) for key, cell in zip(header, row, strict=True)} for row in rows]


def _cell(text: str) -> Any:
    if text in ("", "None", "nan"):
        return None
    try:
        return float(text) if text != "inf" else text
    except ValueError:
        # Arrays in a cell are left alone; the JSON file beside the CSV has them.
        return None if text.startswith("[") else text
