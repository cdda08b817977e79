"""MLPerf loadgen: `mlperf_log_summary.txt` and `mlperf_log_detail.txt`, times in ns.

The summary is printed for people, the detail is one `:::MLLOG {json}` a line. Some of what they say misleads:

- `result_token_throughput` and `result_overlatency_query_count` mean nothing for token latencies and are not read;
- the Interactive scenario also prints `Scenario : Server`, and only its limits tell;
- with `sample_concatenate_permutation` the summary's `samples_per_query` is not the number that was run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ullage.errors import InputError
from ullage.readers.loadtests.content import Content
from ullage.readers.loadtests.fields import NS, Fields, anomaly, fraction_of, present, rate
from ullage.service.loadtests.loadtest import (
    CountedBy,
    Definition,
    Denominator,
    Flag,
    GoodputLimits,
    LatencySummary,
    LoadTest,
    LoadTestSubject,
    Loop,
    OfferedLoad,
    Point,
    PointAnomaly,
    SingleToken,
    StatedGoodput,
    Tokens,
)
from ullage.workload.anomalies import Severity

_BANNER = "MLPerf Results Summary"
_LAST_SECTION = "Test Parameters Used"
_LINE = re.compile(r"^\s*(.+?)\s*:\s*(.*?)\s*$")
_MARK = ":::MLLOG "
# Limits on p99 in ms by which the two scenarios of llama2-70b differ; both print the word Server.
_INTERACTIVE_MS = (450.0, 40.0)


def recognise_summary(content: Content) -> bool:
    return _BANNER in content.text[:400]


def recognise_detail(content: Content) -> bool:
    return content.text.lstrip().startswith(_MARK)


def read_summary(content: Content) -> LoadTest:
    if _LAST_SECTION not in content.text:
        raise _cut(content, f"has no section '{_LAST_SECTION}'")
    found = {match.group(1): match.group(2) for line in content.text.splitlines() if (match := _LINE.match(line))}
    numbers = _checked({key: number for key, value in found.items() if (number := _number(value)) is not None}, content)
    scenario = found.get("Scenario", "")
    achieved = _first(numbers, "Completed samples per second", "Samples per second")
    count = None
    notes = []
    if scenario == "Offline" and "sample_concatenate_permutation" in content.text:
        notes.append(
            anomaly(
                Flag.FIGURE_IGNORED,
                "samples_per_query is not what was run where samples are concatenated; the detail log has the number.",
            )
        )
    point = _point(
        scenario=scenario,
        target_rps=numbers.get("target_qps"),
        scheduled_rps=numbers.get("Scheduled samples per second"),
        achieved_rps=achieved,
        count=count,
        tokens_per_s=_first(numbers, "Completed tokens per second", "Tokens per second"),
        latencies=present(
            _printed(numbers, "First Token latency", "first token latency", Definition.TTFT),
            _printed(numbers, "Time to Output Token", "time to output token", Definition.TPOT),
            _printed(numbers, "latency", "latency", Definition.E2E),
        ),
        limits=_limits(numbers.get("ttft_latency (ns)"), numbers.get("tpot_latency (ns)")),
        verdict=found.get("Result is"),
        anomalies=notes,
    )
    return LoadTest(file=content.file, reader="mlperf_summary", tool="mlperf loadgen", points=(point,))


def read_detail(content: Content) -> LoadTest:
    logged = _logged(content)
    if "result_validity" not in logged:
        raise _cut(content, "ends before its result")
    numbers = _checked({key: value for key, value in logged.items() if _is_number(value)}, content)
    queries, samples = numbers.get("generated_query_count"), numbers.get("generated_samples_per_query")
    count = None if queries is None or samples is None else int(queries * samples)
    point = _point(
        scenario=str(logged.get("effective_scenario", "")),
        target_rps=numbers.get("effective_target_qps"),
        scheduled_rps=numbers.get("result_scheduled_samples_per_sec"),
        achieved_rps=_first(numbers, "result_completed_samples_per_sec", "result_samples_per_second"),
        count=count,
        tokens_per_s=_first(numbers, "result_completed_tokens_per_second", "result_tokens_per_second"),
        latencies=present(
            _kept(numbers, "result_first_token_{}_latency_ns", "result_first_token_{}_latency_ns", Definition.TTFT),
            _kept(numbers, "result_time_per_output_token_{}_ns", "result_time_to_output_token_{}", Definition.TPOT),
            _kept(numbers, "result_{}_latency_ns", "result_{}_latency_ns", Definition.E2E),
        ),
        limits=_limits(numbers.get("requested_server_ttft_latency"), numbers.get("requested_server_tpot_latency")),
        verdict=str(logged["result_validity"]),
        anomalies=_ignored(numbers, count),
    )
    return LoadTest(
        file=content.file,
        reader="mlperf_detail",
        tool="mlperf loadgen",
        tool_version=str(logged["loadgen_version"]) if "loadgen_version" in logged else None,
        run_at=str(logged["test_datetime"]) if "test_datetime" in logged else None,
        points=(point,),
    )


def _point(
    *,
    scenario: str,
    target_rps: float | None,
    scheduled_rps: float | None,
    achieved_rps: float | None,
    count: int | None,
    tokens_per_s: float | None,
    latencies: tuple[LatencySummary, ...],
    limits: GoodputLimits | None,
    verdict: str | None,
    anomalies: list[PointAnomaly],
) -> Point:
    is_server = scenario == "Server"
    if is_server:
        load = OfferedLoad(loop=Loop.OPEN, offered_rps=target_rps, burstiness_ratio=1.0)
    elif scenario == "Offline":
        load = OfferedLoad(loop=Loop.BURST)
    else:
        load = OfferedLoad(loop=Loop.CLOSED, concurrency_cap_count=1)
    return Point(
        name=_scenario_name(scenario, limits),
        subject=LoadTestSubject(),
        load=load,
        duration_s=rate(count, achieved_rps),
        completed_count=count,
        achieved_rps=achieved_rps,
        # Poisson arrivals of a fixed seed come in at this rate, not quite at the target.
        sent_rps=scheduled_rps if is_server else None,
        output_tokens_per_s=tokens_per_s,
        tokens=Tokens(counted_by=CountedBy.SERVER),
        latencies=latencies,
        stated_goodput=StatedGoodput(
            rps=None,
            attained_fraction=None,
            limits=limits if is_server else None,
            single_token=SingleToken.BAD,
            denominator=Denominator.SENT,
            verdict=verdict,
        ),
        anomalies=(*anomalies, *_verdict_anomalies(verdict, is_server, limits)),
    )


def _scenario_name(scenario: str, limits: GoodputLimits | None) -> str:
    interactive = (
        scenario == "Server"
        and limits is not None
        and (limits.ttft_s, limits.tpot_s) == tuple(ms / 1000.0 for ms in _INTERACTIVE_MS)
    )
    return "Interactive (printed as Server)" if interactive else scenario


def _verdict_anomalies(verdict: str | None, is_server: bool, limits: GoodputLimits | None) -> list[PointAnomaly]:
    found = []
    if verdict != "VALID":
        found.append(anomaly(Flag.INCOMPLETE_RUN, f"Loadgen says that the result is {verdict}.", Severity.SERIOUS))
    if is_server and limits is not None and limits.ttft_s is not None and limits.tpot_s is not None:
        found.append(
            anomaly(
                Flag.STATED_BY_TOOL,
                f"The limits hold for p99: TTFT {limits.ttft_s * 1000:g} ms, TPOT {limits.tpot_s * 1000:g} ms. Loadgen "
                "prints Server for the Interactive scenario too; only these limits show which it was.",
            )
        )
    return found


def _ignored(numbers: Mapping[str, float], count: int | None) -> list[PointAnomaly]:
    over = numbers.get("result_overlatency_query_count")
    if over is None or over != count:
        return []
    return [
        anomaly(
            Flag.FIGURE_IGNORED,
            f"result_overlatency_query_count = {over:,.0f} is every query, because no limit on E2E was set; it and "
            "result_token_throughput mean nothing here and are not used.",
        )
    ]


def _printed(
    numbers: Mapping[str, float], moment: str, percentile: str, definition: Definition
) -> LatencySummary | None:
    """`Mean First Token latency (ns)`, `99.00 percentile first token latency (ns)`."""
    pairs = _pairs(numbers, re.compile(rf"([\d.]+) percentile {percentile} \(ns\)"))
    moments = {name: numbers.get(f"{name} {moment} (ns)") for name in ("Mean", "Min", "Max")}
    return _summary(definition, moments["Mean"], moments["Min"], moments["Max"], pairs)


def _kept(numbers: Mapping[str, float], percentile: str, moment: str, definition: Definition) -> LatencySummary | None:
    """`result_first_token_mean_latency_ns`, `result_first_token_99.00_percentile_latency_ns`."""
    pairs = _pairs(numbers, re.compile(re.escape(percentile).replace(r"\{\}", r"([\d.]+)_percentile")))
    moments = {name: numbers.get(moment.format(name)) for name in ("mean", "min", "max")}
    return _summary(definition, moments["mean"], moments["min"], moments["max"], pairs)


def _pairs(numbers: Mapping[str, float], pattern: re.Pattern[str]) -> list[tuple[float, float]]:
    found = ((match, value) for key, value in numbers.items() if (match := pattern.fullmatch(key)))
    return [(fraction, value * NS) for match, value in found if (fraction := fraction_of(match.group(1))) is not None]


def _summary(
    definition: Definition,
    mean: float | None,
    low: float | None,
    high: float | None,
    pairs: list[tuple[float, float]],
) -> LatencySummary | None:
    found = LatencySummary(
        definition=definition,
        mean_s=None if mean is None else mean * NS,
        min_s=None if low is None else low * NS,
        max_s=None if high is None else high * NS,
        percentiles=tuple(sorted(pairs)),
    )
    return None if found.is_empty else found


def _limits(ttft_ns: float | None, tpot_ns: float | None) -> GoodputLimits | None:
    if not ttft_ns or not tpot_ns:
        return None
    return GoodputLimits(ttft_s=ttft_ns / 1e9, tpot_s=tpot_ns / 1e9)


def _logged(content: Content) -> dict[str, Any]:
    """Every key with its last value."""
    found: dict[str, Any] = {}
    for index, line in enumerate(content.text.splitlines()):
        if not line.startswith(_MARK):
            continue
        try:
            record = json.loads(line.removeprefix(_MARK))
        except ValueError:
            raise _cut(content, f"line {index + 1} is not whole") from None
        if not isinstance(record, dict):
            raise _cut(content, f"line {index + 1} has no key and value")
        found[str(record.get("key"))] = record.get("value")
    return found


def _checked(numbers: Mapping[str, Any], content: Content) -> dict[str, float]:
    """Those that are numbers, each finite and of a size that can have been measured."""
    fields = Fields(numbers, content.file)
    return {key: value for key in numbers if (value := fields.number(key)) is not None}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _first(numbers: Mapping[str, float], *names: str) -> float | None:
    return next((numbers[name] for name in names if name in numbers), None)


def _cut(content: Content, problem: str) -> InputError:
    return InputError(
        field=content.file,
        value=f"{len(content.text)} characters",
        problem=f"{problem}: the file is cut short",
        fix="Copy it again from the results folder.",
    )
