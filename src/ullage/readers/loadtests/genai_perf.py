"""genai-perf, which AIPerf replaces: the same metric objects, and an `input_config` that is flat or in sections."""

from __future__ import annotations

from dataclasses import replace

from ullage.readers.loadtests.aiperf import limits_of, load_of, metric_latencies
from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import Fields, lengths, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Denominator,
    LoadTest,
    LoadTestSubject,
    OfferedLoad,
    Point,
    SingleToken,
    StatedGoodput,
    Tokens,
)


def recognise(content: Content) -> bool:
    first = content.first
    config = first.get("input_config")
    if not isinstance(config, dict) or "aiperf_version" in first or not isinstance(first.get("request_latency"), dict):
        return False
    return "loadgen" not in config and "phases" not in config


def read(content: Content) -> LoadTest:
    fields = Fields(content.first, content.file)
    return LoadTest(
        file=content.file,
        reader="genai_perf",
        tool="genai-perf",
        format_version="sections" if "perf_analyzer" in fields.child("input_config") else "flat arguments",
        points=(_point(fields),),
    )


def _point(fields: Fields) -> Point:
    config = fields.child("input_config")
    stated = _number(fields, "request_throughput")
    counted = _number(fields, "request_count")
    duration_s = rate(counted, stated)
    prompt = lengths(fields.child("input_sequence_length"), mean="avg")
    output = lengths(fields.child("output_sequence_length"), mean="avg")
    return Point(
        name="profile",
        subject=LoadTestSubject(model=_model(config), engine=config.text("backend")),
        load=_load(config),
        duration_s=duration_s,
        completed_count=None if counted is None else int(counted),
        achieved_rps=stated,
        output_tokens_per_s=_number(fields, "output_token_throughput"),
        tokens=Tokens(counted_by=CountedBy.CLIENT, prompt_lengths=prompt, output_lengths=output),
        latencies=metric_latencies(fields),
        stated_goodput=_goodput(fields, config),
    )


def _load(config: Fields) -> OfferedLoad:
    stimulus = config.child("perf_analyzer", "stimulus")
    found = load_of(stimulus if any(True for _ in stimulus) else config)
    # genai-perf sends at equal gaps unless told otherwise, and its file does not say which.
    return replace(found, even=None, burstiness_ratio=None)


def _model(config: Fields) -> str | None:
    for name in ("model", "model_names"):
        value = config.raw(name)
        if isinstance(value, list) and value:
            return str(value[0])
    return config.text("formatted_model_name") or config.text("model_name")


def _goodput(fields: Fields, config: Fields) -> StatedGoodput | None:
    rps = _number(fields, "request_goodput")
    if rps is None or rps < 0:
        return None
    stated = config.child("goodput") if "goodput" in config else config.child("input", "goodput")
    return StatedGoodput(
        rps=rps,
        attained_fraction=None,
        limits=limits_of(stated, fields),
        single_token=SingleToken.BAD,
        denominator=Denominator.SUCCEEDED,
    )


def _number(fields: Fields, name: str) -> float | None:
    return fields.child(name).number("avg")
