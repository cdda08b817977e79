"""InferenceX (InferenceMAX): one object a configuration and concurrency, or a list of them.

Two stages of the same pipeline are found in the wild: the raw result with `_ms` taken off its keys, and the aggregate
with `tput_per_gpu`. Both are in seconds. Interactivity (`*_intvty`) is 1 / TPOT: its `std` is 1 / std and means
nothing, its p99 is the slow tail, and all of it is in TPOT already, so none of it is read. For disaggregated serving
the throughput per GPU is divided by the GPUs of one side only.
"""

from __future__ import annotations

from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, anomaly, present, rate
from ullage.readers.loadtests.serving_arrays import flat_latency, load_of
from ullage.service.loadtests.loadtest import (
    Definition,
    Flag,
    LatencySummary,
    LengthLaw,
    LengthRule,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    Tokens,
)

# Its client draws lengths so, whatever the configuration.
_RULE = LengthRule(law=LengthLaw.UNIFORM, least_fraction=0.8, said_by="InferenceX's own rule")


def recognise(content: Content) -> bool:
    keys = set(content.first)
    aggregate = {"hw", "conc", "tput_per_gpu"} <= keys
    raw = {"max_concurrency", "completed", "median_ttft"} <= keys
    return aggregate or raw


def read(content: Content) -> LoadTest:
    runs = [Fields(run, content.file, f"[{index}]") for index, run in enumerate(content.mappings)]
    aggregate = "tput_per_gpu" in runs[0]
    return LoadTest(
        file=content.file,
        reader="inferencex",
        tool="InferenceX",
        format_version="aggregate" if aggregate else "raw result in seconds",
        run_at=runs[0].text("date"),
        points=tuple(_aggregate(each) if "tput_per_gpu" in each else _raw(each) for each in runs),
    )


def _aggregate(fields: Fields) -> Point:
    concurrency = fields.need_whole("conc")
    return Point(
        name=f"{fields.text('hw')} concurrency {concurrency}",
        subject=_subject(fields),
        load=OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=concurrency),
        duration_s=None,
        completed_count=None,
        output_tokens_per_s=_output_rate(fields),
        tokens=Tokens(
            nominal_prompt_tokens=fields.amount("isl"),
            nominal_output_tokens=fields.amount("osl"),
            rule=_RULE,
        ),
        latencies=_latencies(fields),
        anomalies=_anomalies(fields),
    )


def _raw(fields: Fields) -> Point:
    duration_s, completed = fields.need("duration"), fields.need_whole("completed")
    prompts = fields.whole("num_prompts")
    return Point(
        name=f"concurrency {fields.text('max_concurrency')}",
        subject=LoadTestSubject(model=fields.text("model_id")),
        load=load_of(fields),
        duration_s=duration_s,
        completed_count=completed,
        failed_count=None if prompts is None else max(prompts - completed, 0),
        achieved_rps=rate(completed, duration_s),
        stated_rps=fields.amount("request_throughput"),
        output_tokens_per_s=fields.amount("output_throughput"),
        tokens=Tokens(
            prompt_tokens=fields.amount("total_input_tokens"),
            output_tokens=fields.amount("total_output_tokens"),
            rule=_RULE,
        ),
        latencies=_latencies(fields),
    )


def _latencies(fields: Fields) -> tuple[LatencySummary, ...]:
    return present(
        flat_latency(fields, "_ttft", Definition.TTFT, scale=1.0),
        flat_latency(fields, "_tpot", Definition.TPOT, scale=1.0),
        flat_latency(fields, "_itl", Definition.ITL_POOLED, scale=1.0),
        flat_latency(fields, "_e2el", Definition.E2E, scale=1.0),
    )


def _subject(fields: Fields) -> LoadTestSubject:
    notes = []
    if (speculative := fields.text("spec_decoding")) not in (None, "none", "False", "false"):
        notes.append(f"speculative decoding: {speculative}")
    if _is_true(fields, "disagg"):
        notes.append("prefill and decode on separate GPUs")
    if _is_true(fields, "dp_attention"):
        notes.append("data-parallel attention")
    return LoadTestSubject(
        model=fields.text("model") or fields.text("infmax_model_prefix"),
        engine=fields.text("framework"),
        engine_version=fields.text("image"),
        hardware=fields.text("hw"),
        devices=_devices(fields),
        tp=fields.whole("tp"),
        pp=fields.whole("pp"),
        ep=fields.whole("ep"),
        precision=fields.text("precision"),
        is_apart=_is_true(fields, "disagg") or None,
        notes=tuple(notes),
    )


def _devices(fields: Fields) -> int | None:
    """tp x pp x prefill context parallel; decode context parallel shares the GPUs of tp and does not multiply."""
    sides = [fields.whole(name) for name in ("num_prefill_gpu", "num_decode_gpu")]
    if sides[0] is not None and sides[1] is not None:
        return sides[0] + sides[1]
    tp = fields.whole("tp")
    return None if tp is None else tp * (fields.whole("pp") or 1) * (fields.whole("pcp_size") or 1)


def _output_rate(fields: Fields) -> float | None:
    per_gpu = fields.amount("output_tput_per_gpu")
    gpus = fields.whole("num_decode_gpu") if _is_true(fields, "disagg") else _devices(fields)
    return None if per_gpu is None or gpus is None else per_gpu * gpus


def _anomalies(fields: Fields) -> tuple[PointAnomaly, ...]:
    found = [
        anomaly(
            Flag.STATED_BY_TOOL,
            "Prompts and answers are drawn evenly from 80 to 100 % of the nominal lengths, all clients start at once, "
            "and a run has about ten prompts a client: figures include that first burst.",
        )
    ]
    if "std_intvty" in fields:
        found.append(anomaly(Flag.FIGURE_IGNORED, "std_intvty is 1 / std of TPOT and means nothing. It is not used."))
    if _is_true(fields, "disagg"):
        found.append(
            anomaly(
                Flag.STATED_BY_TOOL,
                "Output tokens per GPU count decode GPUs only, input tokens per GPU prefill GPUs only.",
            )
        )
    return tuple(found)


def _is_true(fields: Fields, name: str) -> bool:
    return str(fields.raw(name)).lower() == "true"
