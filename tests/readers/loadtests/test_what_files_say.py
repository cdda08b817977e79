"""What each tool's file says of one and the same run: nothing that stands in it is lost, and all of it is the run's.

The contract asks that a value be right where there is one. This asks that it be there.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from support.loadtest_samples import DURATION_S, E2E_S, OUTPUT, PROMPT, REQUESTS, SAMPLES, TPOT_S, TTFT_S
from ullage.readers.loadtests import read_bytes
from ullage.service.loadtests.loadtest import Definition, LengthSummary, Loop, Point

# By reader: the loop it ran in, the latencies it has, and the fields that are given.
SAYS: dict[str, tuple[Loop, str, str]] = {
    "vllm": (
        Loop.CLOSED,
        "TTFT TPOT ITL_POOLED E2E",
        (
            "subject.model load.concurrency_cap_count duration_s completed_count failed_count achieved_rps "
            "stated_rps output_tokens_per_s tokens.prompt_tokens tokens.output_tokens"
        ),
    ),
    "sglang": (
        Loop.CLOSED,
        "TTFT TPOT ITL_POOLED E2E",
        (
            "subject.model subject.engine subject.engine_version subject.tp subject.dataset "
            "load.concurrency_cap_count duration_s completed_count achieved_rps stated_rps output_tokens_per_s "
            "mean_concurrency_count tokens.prompt_tokens tokens.output_tokens tokens.counted_by "
            "tokens.other_output_tokens tokens.nominal_prompt_tokens tokens.nominal_output_tokens "
            "stated_goodput.rps stated_goodput.attained_fraction stated_goodput.limits.ttft_s "
            "stated_goodput.limits.tpot_s stated_goodput.single_token stated_goodput.denominator "
            "tokens.rule.law tokens.rule.said_by tokens.rule.least_fraction tokens.rule.prompt_std_tokens "
            "tokens.rule.output_std_tokens"
        ),
    ),
    "guidellm": (
        Loop.CLOSED,
        "TTFT TPOT_WITH_FIRST ITL_PER_REQUEST_BY_TOKEN E2E",
        (
            "subject.model load.concurrency_cap_count duration_s completed_count failed_count unfinished_count "
            "achieved_rps stated_rps output_tokens_per_s mean_concurrency_count tokens.prompt_tokens "
            "tokens.output_tokens tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.std_tokens "
            "tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens tokens.prompt_lengths.percentiles "
            "tokens.output_lengths.mean_tokens tokens.output_lengths.std_tokens tokens.output_lengths.min_tokens "
            "tokens.output_lengths.max_tokens tokens.output_lengths.percentiles stated_goodput.rps "
            "stated_goodput.attained_fraction stated_goodput.limits.ttft_s stated_goodput.limits.itl_s "
            "stated_goodput.single_token stated_goodput.denominator client_delay"
        ),
    ),
    "guidellm_csv": (
        Loop.CLOSED,
        "TTFT TPOT_WITH_FIRST ITL_PER_REQUEST_BY_TOKEN E2E",
        (
            "subject.model load.concurrency_cap_count duration_s completed_count failed_count unfinished_count "
            "achieved_rps tokens.prompt_tokens tokens.output_tokens tokens.prompt_lengths.mean_tokens "
            "tokens.prompt_lengths.std_tokens tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens "
            "tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens tokens.output_lengths.std_tokens "
            "tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens tokens.output_lengths.percentiles"
        ),
    ),
    "guidellm_guidance": (
        Loop.OPEN,
        "TTFT TPOT NTPOT E2E",
        (
            "subject.model load.offered_rps load.even duration_s completed_count failed_count achieved_rps "
            "sent_rps output_tokens_per_s tokens.prompt_tokens tokens.output_tokens "
            "tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.std_tokens tokens.prompt_lengths.min_tokens "
            "tokens.prompt_lengths.max_tokens tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens "
            "tokens.output_lengths.std_tokens tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens "
            "tokens.output_lengths.percentiles"
        ),
    ),
    "aiperf": (
        Loop.OPEN,
        "TTFT ITL_PER_REQUEST E2E",
        (
            "subject.model load.offered_rps load.burstiness_ratio load.even duration_s completed_count "
            "failed_count achieved_rps stated_rps tokens.prompt_tokens tokens.output_tokens tokens.counted_by "
            "tokens.prompt_lengths.mean_tokens tokens.output_lengths.mean_tokens stated_goodput.rps "
            "stated_goodput.limits.ttft_s stated_goodput.limits.itl_s stated_goodput.single_token "
            "stated_goodput.denominator"
        ),
    ),
    "aiperf_requests": (
        Loop.TRACE,
        "TTFT TPOT ITL_PER_REQUEST NTPOT E2E",
        (
            "duration_s completed_count failed_count unfinished_count achieved_rps sent_rps output_tokens_per_s "
            "tokens.prompt_tokens tokens.output_tokens tokens.counted_by tokens.prompt_lengths.mean_tokens "
            "tokens.prompt_lengths.std_tokens tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens "
            "tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens tokens.output_lengths.std_tokens "
            "tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens tokens.output_lengths.percentiles "
            "client_delay"
        ),
    ),
    "aiperf_server": (
        Loop.OPEN,
        "TTFT ITL_POOLED E2E",
        (
            "subject.engine duration_s completed_count achieved_rps stated_rps output_tokens_per_s "
            "tokens.prompt_tokens tokens.output_tokens tokens.counted_by"
        ),
    ),
    "genai_perf": (
        Loop.CLOSED,
        "TTFT ITL_PER_REQUEST E2E",
        (
            "subject.model subject.engine load.concurrency_cap_count duration_s completed_count achieved_rps "
            "tokens.counted_by tokens.prompt_lengths.mean_tokens tokens.output_lengths.mean_tokens"
        ),
    ),
    "engine_metrics": (
        Loop.OPEN,
        "TTFT TPOT ITL_POOLED E2E",
        (
            "subject.model subject.engine load.offered_rps duration_s completed_count failed_count achieved_rps "
            "output_tokens_per_s tokens.prompt_tokens tokens.output_tokens tokens.counted_by"
        ),
    ),
    "inference_perf": (
        Loop.OPEN,
        "TTFT TPOT NTPOT ITL_POOLED E2E",
        (
            "load.offered_rps duration_s completed_count failed_count achieved_rps sent_rps stated_rps "
            "output_tokens_per_s tokens.prompt_tokens tokens.output_tokens tokens.counted_by "
            "tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens "
            "tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens tokens.output_lengths.min_tokens "
            "tokens.output_lengths.max_tokens tokens.output_lengths.percentiles client_delay"
        ),
    ),
    "inference_perf_requests": (
        Loop.TRACE,
        "TTFT TPOT ITL_PER_REQUEST NTPOT E2E",
        (
            "duration_s completed_count failed_count achieved_rps sent_rps output_tokens_per_s "
            "tokens.prompt_tokens tokens.output_tokens tokens.cached_prompt_tokens tokens.counted_by "
            "tokens.other_output_tokens tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.std_tokens "
            "tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens tokens.prompt_lengths.percentiles "
            "tokens.output_lengths.mean_tokens tokens.output_lengths.std_tokens tokens.output_lengths.min_tokens "
            "tokens.output_lengths.max_tokens tokens.output_lengths.percentiles client_delay"
        ),
    ),
    "inference_perf_server": (
        Loop.OPEN,
        "TTFT TPOT E2E",
        (
            "completed_count achieved_rps output_tokens_per_s tokens.counted_by tokens.prompt_lengths.mean_tokens "
            "tokens.output_lengths.mean_tokens"
        ),
    ),
    "llmd_report": (
        Loop.OPEN,
        "TTFT TPOT E2E",
        (
            "subject.model subject.engine subject.engine_version subject.hardware subject.devices subject.tp "
            "subject.pp subject.ep subject.notes load.offered_rps duration_s completed_count failed_count "
            "achieved_rps stated_rps tokens.nominal_prompt_tokens tokens.prompt_lengths.mean_tokens "
            "tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens tokens.output_lengths.mean_tokens "
            "tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens"
        ),
    ),
    "inferencex": (
        Loop.CLOSED,
        "TTFT TPOT ITL_POOLED E2E",
        (
            "subject.model subject.engine subject.engine_version subject.hardware subject.devices subject.tp "
            "subject.pp subject.ep subject.precision load.concurrency_cap_count output_tokens_per_s "
            "tokens.nominal_prompt_tokens tokens.nominal_output_tokens "
            "tokens.rule.law tokens.rule.said_by tokens.rule.least_fraction tokens.rule.prompt_std_tokens "
            "tokens.rule.output_std_tokens"
        ),
    ),
    "mlperf_summary": (
        Loop.OPEN,
        "TTFT TPOT E2E",
        (
            "load.offered_rps load.burstiness_ratio achieved_rps sent_rps output_tokens_per_s tokens.counted_by "
            "stated_goodput.limits.ttft_s stated_goodput.limits.tpot_s stated_goodput.single_token "
            "stated_goodput.denominator stated_goodput.verdict"
        ),
    ),
    "mlperf_detail": (
        Loop.OPEN,
        "TTFT TPOT E2E",
        (
            "load.offered_rps load.burstiness_ratio duration_s completed_count achieved_rps sent_rps "
            "output_tokens_per_s tokens.counted_by stated_goodput.limits.ttft_s stated_goodput.limits.tpot_s "
            "stated_goodput.single_token stated_goodput.denominator stated_goodput.verdict"
        ),
    ),
    "llmperf_summary": (
        Loop.CLOSED,
        "TTFT NTPOT E2E",
        (
            "subject.model load.concurrency_cap_count duration_s completed_count failed_count achieved_rps "
            "tokens.counted_by tokens.nominal_prompt_tokens tokens.nominal_output_tokens "
            "tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.min_tokens tokens.prompt_lengths.percentiles "
            "tokens.output_lengths.mean_tokens tokens.output_lengths.min_tokens tokens.output_lengths.percentiles"
        ),
    ),
    "llmperf_requests": (
        Loop.CLOSED,
        "TTFT TPOT NTPOT E2E",
        (
            "completed_count failed_count tokens.prompt_tokens tokens.output_tokens tokens.counted_by "
            "tokens.prompt_lengths.mean_tokens tokens.prompt_lengths.std_tokens tokens.prompt_lengths.min_tokens "
            "tokens.prompt_lengths.max_tokens tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens "
            "tokens.output_lengths.std_tokens tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens "
            "tokens.output_lengths.percentiles"
        ),
    ),
    "engine_timestamps": (
        Loop.TRACE,
        "TTFT TPOT NTPOT E2E",
        (
            "subject.engine duration_s completed_count failed_count achieved_rps sent_rps output_tokens_per_s "
            "tokens.prompt_tokens tokens.output_tokens tokens.counted_by tokens.prompt_lengths.mean_tokens "
            "tokens.prompt_lengths.std_tokens tokens.prompt_lengths.min_tokens tokens.prompt_lengths.max_tokens "
            "tokens.prompt_lengths.percentiles tokens.output_lengths.mean_tokens tokens.output_lengths.std_tokens "
            "tokens.output_lengths.min_tokens tokens.output_lengths.max_tokens tokens.output_lengths.percentiles"
        ),
    ),
    "console": (
        Loop.CLOSED,
        "TTFT TPOT E2E",
        (
            "subject.model subject.engine subject.dataset load.concurrency_cap_count duration_s completed_count "
            "achieved_rps stated_rps tokens.prompt_tokens tokens.output_tokens tokens.counted_by tokens.rule.law "
            "tokens.rule.said_by tokens.rule.least_fraction tokens.rule.prompt_std_tokens tokens.rule.output_std_tokens"
        ),
    ),
    "points_csv": (
        Loop.CLOSED,
        "TTFT TPOT E2E",
        (
            "subject.model load.concurrency_cap_count duration_s completed_count failed_count achieved_rps "
            "tokens.prompt_lengths.mean_tokens tokens.output_lengths.mean_tokens"
        ),
    ),
}
NOT_FIELDS = ("latencies", "requests", "anomalies", "name", "load.loop")
MEANS_S = {
    Definition.TTFT: TTFT_S,
    Definition.TPOT: TPOT_S,
    Definition.E2E: E2E_S,
    Definition.NTPOT: E2E_S / OUTPUT,
    Definition.TPOT_WITH_FIRST: E2E_S / OUTPUT,
    Definition.ITL_POOLED: TPOT_S,
    Definition.ITL_PER_REQUEST: TPOT_S,
    Definition.ITL_PER_REQUEST_BY_TOKEN: TPOT_S,
}


def point_of(name: str) -> Point:
    return read_bytes(SAMPLES[name].make(1.0), file="sample").points[0]


def given(value: Any, name: str = "") -> dict[str, Any]:
    """Every field that holds something, by its path."""
    if dataclasses.is_dataclass(value) and name != "client_delay":
        return {
            path: each
            for field in dataclasses.fields(value)
            for path, each in given(getattr(value, field.name), f"{name}.{field.name}" if name else field.name).items()
        }
    return {} if value in (None, (), "") or name in NOT_FIELDS else {name: value}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_nothing_that_the_file_says_is_lost(name: str) -> None:
    loop, latencies, fields = SAYS[name]
    point = point_of(name)
    assert point.load.loop is loop
    assert [each.definition.name for each in point.latencies] == latencies.split()
    assert sorted(given(point)) == sorted(fields.split())


@pytest.mark.parametrize("name", sorted(SAYS))
def test_what_it_says_is_the_run(name: str) -> None:
    point = point_of(name)
    found = given(point)
    # Files of requests end with the last answer: 39 gaps of 0.25 s and one second more. GuideLLM states its own end.
    span_s = DURATION_S + 0.75 if point.requests and name != "guidellm" else DURATION_S
    numbers = {
        "duration_s": span_s,
        "completed_count": REQUESTS,
        "failed_count": 0,
        "achieved_rps": REQUESTS / span_s,
        "sent_rps": REQUESTS / DURATION_S,
        "output_tokens_per_s": REQUESTS * OUTPUT / span_s,
        "mean_concurrency_count": REQUESTS * E2E_S / DURATION_S,
        "load.offered_rps": REQUESTS / DURATION_S,
        "load.concurrency_cap_count": 4,
        "tokens.prompt_tokens": REQUESTS * PROMPT,
        "tokens.output_tokens": REQUESTS * OUTPUT,
        "tokens.other_output_tokens": REQUESTS * OUTPUT,
        "tokens.nominal_prompt_tokens": PROMPT,
        "tokens.nominal_output_tokens": OUTPUT,
        "tokens.prompt_lengths.mean_tokens": PROMPT,
        "tokens.output_lengths.mean_tokens": OUTPUT,
        "subject.tp": 2,
    }
    checked = {path: found[path] for path in numbers if path in found}
    assert checked == pytest.approx({path: numbers[path] for path in checked}, rel=1e-6)
    for path in ("subject.model", "subject.engine"):
        assert found.get(path) in (None, "example/model", "example", "vllm", "sglang")


@pytest.mark.parametrize("name", sorted(SAYS))
def test_latencies_are_narrow_around_their_means(name: str) -> None:
    """Samples spread every latency from nine tenths of its mean to eleven, or not at all."""
    for each in point_of(name).latencies:
        mean_s = MEANS_S[each.definition]
        assert each.mean_s == pytest.approx(mean_s, rel=1e-6)
        for fraction, value_s in each.percentiles:
            low, high = (0.9, 1.0) if fraction < 0.5 else (1.0, 1.0) if fraction == 0.5 else (1.0, 1.1)
            assert low - 1e-6 <= value_s / mean_s <= high + 1e-6, (each.definition, fraction)
        # The sample of LLMPerf has its minimum in whole seconds.
        assert each.min_s is None or name == "llmperf_summary" or 0.9 - 1e-6 <= each.min_s / mean_s <= 1.0 + 1e-6
        assert each.max_s is None or 1.0 - 1e-6 <= each.max_s / mean_s <= 1.1 + 1e-6
        assert each.std_s is None or 0.0 <= each.std_s / mean_s <= 0.05 + 1e-6


@pytest.mark.parametrize("name", sorted(SAYS))
def test_lengths_are_narrow_around_their_means(name: str) -> None:
    tokens = point_of(name).tokens
    for found, mean in ((tokens.prompt_lengths, PROMPT), (tokens.output_lengths, OUTPUT)):
        if not isinstance(found, LengthSummary):
            continue
        assert found.mean_tokens == pytest.approx(mean)
        for value in (found.min_tokens, found.max_tokens, *(each for _, each in found.percentiles)):
            assert value is None or 0.9 - 1e-6 <= value / mean <= 1.1 + 1e-6
        assert found.std_tokens is None or found.std_tokens <= 0.05 * mean + 1e-6
