"""What `vllm bench serve` and `sglang.bench_serving` print: the block that people paste into issues and notes.

    Maximum request concurrency: 16
    ============ Serving Benchmark Result ============
    Successful requests:                     300
    ...
    ==================================================

A text may hold many blocks, one for each load. Before each the tools print the load, and vLLM its arguments as
`Namespace(...)`; what stands before a block is taken for that block alone. A block without either states no load:
clients are as many as were under way. Times are in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content, FileShape
from ullage.readers.loadtests.fields import MS, Fields, present, rate
from ullage.readers.loadtests.general.clients import clients_by_little
from ullage.readers.loadtests.serving_arrays import flat_latency, load_of
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    LengthLaw,
    LengthRule,
    LoadTest,
    LoadTestSubject,
    Point,
    Tokens,
)

_HEADER = re.compile(r"^=+ *[A-Za-z ]*Benchmark Result *=+\s*$", re.MULTILINE)
_LINE = re.compile(r"^\s*([A-Za-z0-9][^:\n]*?)(?: \(([^)\n]*)\))?:\s+(\S.*?)\s*$", re.MULTILINE)
_LATENCY = re.compile(r"^(Mean|Median|Std|Min|Max|P\d+(?:\.\d+)?) (TTFT|TPOT|ITL|E2EL|E2E Latency)$")
_NAMES = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Benchmark duration": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput": "request_throughput",
    "Output token throughput": "output_throughput",
    "Concurrency": "concurrency",
    "Accept length": "accept_length",
    "Backend": "backend",
    "Traffic request rate": "request_rate",
    "Burstiness factor": "burstiness",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured": "request_rate",
}
# Arguments that vLLM prints as it starts; SGLang writes them as benchmark_args=Namespace(...).
_ARGUMENT = re.compile(
    r"\b(model|dataset_name|random_input_len|random_output_len|random_range_ratio|max_concurrency|request_rate|backend)"
    r"=('[^']*'|\"[^\"]*\"|[^,\s)]+)"
)


def recognise(content: Content) -> bool:
    return content.shape is FileShape.TEXT and bool(_HEADER.search(content.text))


def read(content: Content) -> LoadTest:
    runs = [
        Fields(run, content.file, f"result {place + 1}")
        for place, run in enumerate(_blocks(content.text, content.file))
    ]
    is_sglang = any(run.text("backend") is not None and "sglang" in str(run.text("backend")) for run in runs)
    return LoadTest(
        file=content.file,
        reader="console",
        tool="sglang bench_serving" if is_sglang else "vllm bench serve",
        format_version="as printed",
        points=tuple(_point(each, place) for place, each in enumerate(runs)),
    )


def _blocks(text: str, file: str) -> Iterator[dict[str, Any]]:
    """The numbers of each block, with what was printed since the last one; arguments hold until they change."""
    arguments: dict[str, Any] = {}
    end = 0
    for header in _HEADER.finditer(text):
        before = text[end : header.start()]
        found = {name: _value(value.strip("'\"")) for name, value in _ARGUMENT.findall(before)}
        arguments = {**arguments, **found} if not _starts_anew(before) else found
        end = text.find("\n====", header.end())
        if end < 0:
            raise InputError(
                field=file,
                value=header.group().strip(" =\n"),
                problem="has no closing line, so the text is cut short",
                fix="Copy the whole block, down to its line of equals signs.",
            )
        yield {**arguments, **_numbers(before), **_numbers(text[header.end() : end])}


def _starts_anew(before: str) -> bool:
    return "Namespace(" in before


def _numbers(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, unit, value in _LINE.findall(text):
        latency = _LATENCY.match(name)
        if latency is not None:
            which = {"e2e latency": "e2el"}.get(latency.group(2).lower(), latency.group(2).lower())
            found[f"{latency.group(1).lower()}_{which}_ms"] = _value(value)
        elif name in _NAMES:
            second = "_retokenized" if unit == "retokenized" else ""
            found[_NAMES[name] + second] = _value(value.split(" ")[0])
    return found


def _value(text: str) -> Any:
    if text in ("None", "none", "not", "nan"):
        return None
    try:
        return float(text.replace(",", "")) if text != "inf" else text
    except ValueError:
        return text


def _point(fields: Fields, place: int) -> Point:
    duration_s, completed = fields.need("duration"), fields.need_whole("completed")
    accepted = fields.number("accept_length")
    point = Point(
        name=f"result {place + 1}",
        subject=LoadTestSubject(
            model=fields.text("model"),
            engine=fields.text("backend"),
            dataset=fields.text("dataset_name"),
            notes=() if accepted is None else (f"speculative decoding, {accepted:g} tokens accepted per step",),
        ),
        load=load_of(fields),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=fields.whole("failed"),
        achieved_rps=rate(completed, duration_s),
        stated_rps=fields.amount("request_throughput"),
        output_tokens_per_s=fields.amount("output_throughput"),
        mean_concurrency_count=fields.amount("concurrency"),
        tokens=Tokens(
            prompt_tokens=fields.amount("total_input_tokens"),
            output_tokens=fields.amount("total_output_tokens"),
            counted_by=CountedBy.SERVER,
            other_output_tokens=fields.amount("total_output_tokens_retokenized"),
            rule=_rule(fields),
        ),
        latencies=present(
            flat_latency(fields, "_ttft_ms", Definition.TTFT, scale=MS),
            flat_latency(fields, "_tpot_ms", Definition.TPOT, scale=MS),
            flat_latency(fields, "_itl_ms", Definition.ITL_POOLED, scale=MS),
            flat_latency(fields, "_e2el_ms", Definition.E2E, scale=MS),
        ),
    )
    return point if _states_its_load(fields) else _by_little(point)


def _states_its_load(fields: Fields) -> bool:
    """Older versions of vLLM print the load above the block alone, and newer ones print it where there was a limit."""
    return any(name in fields for name in ("request_rate", "max_concurrency", "failed"))


def _by_little(point: Point) -> Point:
    """The point with as many clients as were under way; where the end of a request is not stated, by its tokens."""
    e2e, ttft, tpot = (point.latency(each) for each in (Definition.E2E, Definition.TTFT, Definition.TPOT))
    mean_s = None if e2e is None else e2e.mean_s
    if mean_s is None and ttft and tpot and ttft.mean_s and tpot.mean_s and point.mean_output_tokens:
        mean_s = ttft.mean_s + tpot.mean_s * (point.mean_output_tokens - 1.0)
    load, said = clients_by_little(point.achieved_rps, mean_s)
    return replace(point, load=load, anomalies=(*point.anomalies, *said))


def _rule(fields: Fields) -> LengthRule | None:
    """Random lengths: vLLM spreads them by the ratio around the nominal length, SGLang from the ratio up to it."""
    if fields.text("dataset_name") not in ("random", "random-ids"):
        return None
    ratio = fields.amount("random_range_ratio") or 0.0
    if "sglang" in str(fields.text("backend")):
        law = LengthLaw.FIXED if ratio >= 1.0 else LengthLaw.UNIFORM
        return LengthRule(law=law, least_fraction=min(ratio, 1.0), said_by="sglang's random_range_ratio")
    law = LengthLaw.FIXED if ratio == 0.0 else LengthLaw.UNIFORM
    return LengthRule(law=law, least_fraction=(1.0 - ratio) / (1.0 + ratio), said_by="vllm's random_range_ratio")
