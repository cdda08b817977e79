"""Every trap that was found in real result files, each as a small file of our own that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.loadtest_samples import (
    DURATION_S,
    E2E_S,
    OUTPUT,
    PROMPT,
    REQUESTS,
    SAMPLES,
    TPOT_S,
    TTFT_S,
    aiperf_csv,
    aiperf_export,
    aiperf_record,
    aiperf_server,
    console_text,
    guide_request,
    guide_statistic,
    guidellm_csv,
    guidellm_oldest,
    guidellm_report,
    inferencex_run,
    lifecycle,
    lifecycle_newer,
    llmd_report,
    llmperf_summary,
    mlperf_detail,
    mlperf_offline_summary,
    mlperf_summary,
    perf_latency,
    perf_metric,
    prometheus,
    sglang_run,
    spread,
    to_json,
    to_lines,
    vllm_arrays,
    vllm_older,
    vllm_run,
)
from ullage.errors import InputError
from ullage.readers.loadtests import read_bytes, read_loadtest
from ullage.readers.loadtests.general.clients import clients_by_little
from ullage.service.loadtests.loadtest import (
    Definition,
    Denominator,
    Flag,
    GoodputLimits,
    LoadTest,
    Loop,
    OfferedLoad,
    Point,
    SingleToken,
    Status,
)


def read(data: bytes) -> LoadTest:
    return read_bytes(data, file="sample")


def one(value: Any) -> Point:
    found = read(value if isinstance(value, bytes) else to_json(value))
    assert len(found.points) == 1
    return found.points[0]


def flags(point: Point) -> set[Flag]:
    return {each.flag for each in point.anomalies}


def sentence(point: Point, flag: Flag) -> str:
    return next(each.sentence for each in point.anomalies if each.flag is flag)


# ---- 1: coordinated omission -------------------------------------------------------------------------


def test_a_stage_sent_late_is_closed_loop_limited_and_its_ttft_hides_the_wait() -> None:
    late = lifecycle()
    late["load_summary"] |= {"requested_rate": 8.0, "achieved_rate": 4.2, "schedule_delay": spread(2.0)}
    point = one(late)
    assert {Flag.CLOSED_LOOP_SATURATION, Flag.COORDINATED_OMISSION} <= flags(point)
    assert point.load.offered_rps == 8.0
    assert point.sent_rps == 4.2
    assert point.client_delay is not None
    assert point.client_delay.mean_s == 2.0
    assert "2.1 s from when each was due" in sentence(point, Flag.COORDINATED_OMISSION)


def test_vllm_queue_times_are_the_clients_delay() -> None:
    arrays = vllm_arrays(gap_s=0.25)
    # Due every 0.1 s, sent every 0.25 s: each request is later than the one before.
    arrays["queue_times"] = [0.15 * each for each in range(REQUESTS)]
    point = one(vllm_run(request_rate=10.0, **arrays))
    assert point.load.loop is Loop.OPEN
    assert point.load.offered_rps == 10.0
    assert {Flag.CLOSED_LOOP_SATURATION, Flag.COORDINATED_OMISSION} <= flags(point)
    assert "under a cap of 4" in sentence(point, Flag.CLOSED_LOOP_SATURATION)
    assert point.requests[2].due_s == pytest.approx(0.2)
    assert point.requests[2].sent_s == pytest.approx(0.5)


def test_a_delay_behind_the_cap_of_a_closed_loop_is_no_omission() -> None:
    assert Flag.COORDINATED_OMISSION not in flags(one(vllm_run(**vllm_arrays(waited_s=3.0))))


def test_guidellm_dispatch_delay_and_its_own_warning() -> None:
    report = guidellm_report(warnings=[{"code": "root_late", "message": "p95 was 2.7s"}])
    benchmark = report["benchmarks"][0]
    benchmark["config"]["strategy"] = {"type_": "poisson", "rate": 4.0, "max_concurrency": 10240}
    benchmark["metrics"]["request_dispatch_delay"] = {"total": guide_statistic(0.5)}
    point = one(report)
    assert {Flag.COORDINATED_OMISSION, Flag.CLIENT_LIMITED} <= flags(point)
    assert "root_late" in sentence(point, Flag.CLIENT_LIMITED)
    assert point.load.concurrency_cap_count is None, "10240 is the client's own bound, not the user's"


def test_aiperf_credit_to_start() -> None:
    point = one(aiperf_export(credit_to_start_latency=perf_latency(0.3)))
    assert Flag.COORDINATED_OMISSION in flags(point)


def test_a_short_open_run_that_waits_for_its_last_answers_is_not_saturated() -> None:
    # 40 requests at 10 a second and 4 s to drain: 40 / 8 s = 5 a second, and nothing is wrong.
    slow = {f"{name}_e2el_ms": 4000.0 for name in ("mean", "median", "p99")}
    point = one(vllm_run(request_rate=10.0, max_concurrency=None, duration=8.0, request_throughput=5.0, **slow))
    assert flags(point).isdisjoint({Flag.CLOSED_LOOP_SATURATION, Flag.OVERLOAD})


# ---- 2 and 3: vLLM -----------------------------------------------------------------------------------


def test_the_goodput_key_with_a_colon() -> None:
    found = read(vllm_older())
    assert found.format_version == "keys of 0.8.5 or earlier"
    stated = found.points[0].stated_goodput
    assert stated is not None
    assert stated.rps == 3.5
    assert stated.limits is None, "vLLM does not store the SLOs"
    assert stated.single_token is SingleToken.GOOD


def test_no_goodput_asked_for_is_none_and_not_zero() -> None:
    assert one(vllm_run()).stated_goodput is None


def test_max_concurrent_requests_is_not_a_concurrency() -> None:
    point = one(vllm_run(max_concurrent_requests=16))
    assert point.mean_concurrency_count is None
    assert "= 16" in sentence(point, Flag.FIGURE_IGNORED)


def test_appended_results_are_several_points() -> None:
    found = read(to_json(vllm_run()) + b"\n" + to_json(vllm_run(max_concurrency=8)) + b"\n")
    assert [each.load.concurrency_cap_count for each in found.points] == [4, 8]


def test_a_cut_appended_result_says_how_many_are_whole() -> None:
    data = to_json(vllm_run()) + b"\n" + to_json(vllm_run())[:100]
    with pytest.raises(InputError, match="cut short after 1 whole ones"):
        read(data)


def test_a_sweep_as_a_list_and_as_csv() -> None:
    runs = [vllm_run(run_number=number, max_concurrency=cap) for number, cap in enumerate((4, 8))]
    listed = read(to_json(runs))
    assert listed.tool == "vllm bench sweep"
    header = list(runs[0])
    rows = "\n".join(",".join("" if run[key] is None else str(run[key]) for key in header) for run in runs)
    as_csv = read(f"{','.join(header)}\n{rows}\n".encode())
    assert as_csv.points == listed.points


def test_rates_and_caps_make_the_loop() -> None:
    loops = {
        (rate, cap): one(vllm_run(request_rate=rate, max_concurrency=cap)).load.loop
        for rate in ("inf", 2.0)
        for cap in (None, 4)
    }
    assert loops == {
        ("inf", None): Loop.BURST,
        ("inf", 4): Loop.CLOSED,
        (2.0, None): Loop.OPEN,
        (2.0, 4): Loop.OPEN,
    }


def test_end_to_end_of_a_version_without_latencies_is_the_sum_of_its_parts() -> None:
    arrays = vllm_arrays()
    del arrays["latencies"]
    assert one(vllm_run(**arrays)).requests[0].e2e_s == pytest.approx(1.0)


def test_a_failed_request_has_no_latency() -> None:
    arrays = vllm_arrays()
    arrays["errors"][3], arrays["ttfts"][3], arrays["latencies"][3], arrays["output_lens"][3] = "timeout", 0.0, 0.0, 0
    point = one(vllm_run(completed=REQUESTS - 1, failed=1, **arrays))
    request = point.requests[3]
    assert request.status is Status.FAILED
    assert (request.ttft_s, request.e2e_s, request.output_tokens) == (None, None, None)


def test_arrays_of_different_length_are_refused() -> None:
    arrays = vllm_arrays()
    arrays["ttfts"] = arrays["ttfts"][:-1]
    with pytest.raises(InputError, match="differ in length"):
        one(vllm_run(**arrays))


def test_a_mean_of_zero_is_nothing_measured() -> None:
    point = one(vllm_run(mean_ttft_ms=0.0, median_ttft_ms=0.0, p99_ttft_ms=0.0))
    assert point.latency(Definition.TTFT) is None


# ---- SGLang ------------------------------------------------------------------------------------------


def test_a_bare_infinity_is_a_closed_loop() -> None:
    data = to_lines(
        [sglang_run(), sglang_run(request_rate=4.0, max_concurrency=None), sglang_run(request_rate="trace")]
    )
    assert b"Infinity" in data
    assert [each.load.loop for each in read(data).points] == [Loop.CLOSED, Loop.OPEN, Loop.TRACE]


def test_a_retokenised_count_that_differs_is_flagged() -> None:
    point = one(sglang_run(total_output_tokens_retokenized=REQUESTS * OUTPUT * 1.05))
    assert Flag.TOKEN_COUNT_MISMATCH in flags(point)
    assert point.mean_output_tokens == OUTPUT


def test_stored_limits_come_in_seconds() -> None:
    stated = one(sglang_run()).stated_goodput
    assert stated is not None
    assert stated.limits == GoodputLimits(ttft_s=0.5, tpot_s=0.06)
    assert stated.denominator is Denominator.SENT


# ---- 4 and 5: AIPerf ---------------------------------------------------------------------------------


def test_client_and_server_count_tokens_differently() -> None:
    point = one(
        aiperf_export(
            total_usage_completion_tokens=perf_metric("tokens", REQUESTS * 56),
            osl_mismatch_count=perf_metric("requests", REQUESTS),
        )
    )
    assert {Flag.TOKEN_COUNT_MISMATCH, Flag.STATED_BY_TOOL} <= flags(point)
    assert (point.tokens.output_tokens, point.tokens.other_output_tokens) == (REQUESTS * OUTPUT, REQUESTS * 56)


def test_requests_take_the_servers_count_where_there_is_one() -> None:
    records = [aiperf_record(index) for index in range(REQUESTS)]
    for record in records:
        record["metrics"]["usage_completion_tokens"] = {"value": 56, "unit": "tokens"}
    point = read(to_lines(records)).points[0]
    assert point.requests[0].output_tokens == 56
    assert point.tokens.other_output_tokens == REQUESTS * OUTPUT
    assert Flag.TOKEN_COUNT_MISMATCH in flags(point)


def test_warm_up_requests_are_left_out_and_cancelled_ones_are_unfinished() -> None:
    records = [aiperf_record(index) for index in range(4)]
    records[0]["metadata"]["benchmark_phase"] = "warmup"
    records[1]["metadata"]["was_cancelled"] = True
    records[2]["error"] = {"code": 500}
    point = read(to_lines(records)).points[0]
    assert (point.completed_count, point.failed_count, point.unfinished_count) == (1, 1, 1)


def test_server_rates_are_totals_over_the_phase() -> None:
    point = one(aiperf_server())
    assert point.achieved_rps == pytest.approx(REQUESTS / DURATION_S)
    assert point.output_tokens_per_s == pytest.approx(REQUESTS * OUTPUT / DURATION_S)
    assert "2.857 req/s" in sentence(point, Flag.RATE_DISAGREES)


def test_a_histogram_says_what_it_cannot_resolve() -> None:
    fast = aiperf_server()
    series = fast["metrics"]["vllm:inter_token_latency_seconds"]["series"][0]
    series["stats"] |= {"sum": 0.006 * REQUESTS * 45, "p50_estimate": 0.005}
    point = one(fast)
    assert "first bucket ends at 10 ms" in sentence(point, Flag.HISTOGRAM_FLOOR)
    found = point.latency(Definition.ITL_POOLED)
    assert found is not None
    assert found.floor_s == 0.01
    assert found.mean_s == pytest.approx(0.006), "sum over count is exact whatever the buckets"


@pytest.mark.parametrize("watched", ["", "http://h:9400/metrics,0,NVIDIA H200,GPU-1,Power (W),410.0,400.0\n"])
def test_what_aiperf_saw_of_the_devices_is_no_metric_of_the_test(watched: str) -> None:
    alone = aiperf_csv()
    head = "\n\nEndpoint,GPU_Index,GPU_Name,GPU_UUID,Metric,avg,min,max\n"
    both = alone + (head + watched).encode()
    assert read_bytes(both, file="a.csv").points == read_bytes(alone, file="a.csv").points


def test_what_aiperf_cancelled_itself_did_not_fail() -> None:
    point = one(
        aiperf_export(
            error_request_count=perf_metric("requests", 2), cancelled_request_count=perf_metric("requests", 3)
        )
    )
    assert (point.completed_count, point.failed_count, point.unfinished_count) == (REQUESTS, 2, 3)
    assert point.stated_goodput is not None
    assert point.stated_goodput.denominator is Denominator.ENDED


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"loadgen": {"request_rate": 4.0, "request_rate_mode": "constant"}}, (Loop.OPEN, 4.0, None)),
        ({"loadgen": {"request_rate": 4.0, "concurrency": 8}}, (Loop.OPEN, 4.0, 8)),
        ({"loadgen": {"concurrency": 8}}, (Loop.CLOSED, None, 8)),
        ({"loadgen": {}, "input": {"fixed_schedule": True}}, (Loop.TRACE, None, None)),
        (
            {"phases": [{"kind": "warmup", "rate": 1.0}, {"type": "concurrency", "concurrency": 8}]},
            (Loop.CLOSED, None, 8),
        ),
        ({"phases": [{"type": "gamma", "rate": 4.0, "arrival_smoothness": 0.5}]}, (Loop.OPEN, 4.0, None)),
    ],
)
def test_aiperf_states_its_load_in_several_ways(
    config: dict[str, Any], expected: tuple[Loop, float | None, int | None]
) -> None:
    load = one(aiperf_export(input_config=config, goodput=None)).load
    assert (load.loop, load.offered_rps, load.concurrency_cap_count) == expected


def test_a_metric_in_seconds_is_read_in_seconds() -> None:
    metric = perf_metric("sec", TTFT_S, p99=TTFT_S * 1.1)
    found = one(aiperf_export(time_to_first_token=metric, goodput=None)).latency(Definition.TTFT)
    assert found is not None
    assert found.mean_s == pytest.approx(TTFT_S)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(InputError, match=r"time_to_first_token\.unit = 'fortnights'"):
        one(aiperf_export(time_to_first_token=perf_metric("fortnights", 1.0)))


# ---- 6: inference-perf's engine section --------------------------------------------------------------


def test_the_engine_section_of_old_files_is_distrusted() -> None:
    point = one(prometheus(prompt_mean=10721, kv=0.0))
    assert point.mean_prompt_tokens == pytest.approx(PROMPT)
    assert {Flag.SERVER_SECTION_UNCERTAIN, Flag.FIGURE_IGNORED} <= flags(point)
    assert "10,721 tokens" in sentence(point, Flag.SERVER_SECTION_UNCERTAIN)


def test_two_chunks_a_token_halve_the_time_per_token() -> None:
    halved = lifecycle()
    halved["successes"]["latency"]["time_per_output_token"] = spread(TPOT_S / 2)
    point = one(halved)
    assert "gives 20 ms a token" in sentence(point, Flag.DECODE_TIME_DISAGREES)


def test_newer_files_keep_cached_tokens_and_goodput() -> None:
    point = one(lifecycle_newer())
    assert point.tokens.cached_prompt_tokens == REQUESTS * 128
    assert point.mean_prompt_tokens == PROMPT
    stated = point.stated_goodput
    assert stated is not None
    assert (stated.rps, stated.attained_fraction) == (3.2, 0.8)
    assert stated.denominator is Denominator.SUCCEEDED


def test_a_concurrency_stage_is_a_closed_loop() -> None:
    stage = lifecycle()
    stage["load_summary"]["concurrency"] = 4
    assert one(stage).load.loop is Loop.CLOSED


def test_a_yaml_report_reads_as_the_json_one() -> None:
    import yaml

    assert one(yaml.safe_dump(lifecycle()).encode()) == one(lifecycle())


# ---- 7: MLPerf ---------------------------------------------------------------------------------------


def test_meaningless_figures_of_a_server_run_are_not_used() -> None:
    point = one(mlperf_detail())
    assert point.output_tokens_per_s == 184.0, "not 6.9e-09"
    assert point.failed_count is None, "not the over-latency count"
    assert "mean nothing" in sentence(point, Flag.FIGURE_IGNORED)
    assert point.load.burstiness_ratio == 1.0


def test_interactive_is_told_by_its_limits_alone() -> None:
    assert one(mlperf_summary(ttft_ms=450, tpot_ms=40)).name == "Interactive (printed as Server)"
    assert one(mlperf_summary()).name == "Server"


def test_an_invalid_result_says_so() -> None:
    assert "INVALID" in sentence(one(mlperf_summary(verdict="INVALID")), Flag.INCOMPLETE_RUN)


def test_summary_and_detail_of_one_run_agree() -> None:
    summary, detail = one(mlperf_summary()), one(mlperf_detail())
    for definition in (Definition.TTFT, Definition.TPOT, Definition.E2E):
        left, right = summary.latency(definition), detail.latency(definition)
        assert left is not None
        assert right is not None
        assert left.mean_s == pytest.approx(right.mean_s)
        assert left.at(0.99) == pytest.approx(right.at(0.99))
    assert summary.stated_goodput == detail.stated_goodput


def test_offline_counts_what_was_generated_not_what_was_set() -> None:
    detail = one(mlperf_detail(scenario="Offline"))
    assert detail.load.loop is Loop.BURST
    assert detail.completed_count == REQUESTS
    summary = one(mlperf_offline_summary())
    assert summary.completed_count is None
    assert Flag.FIGURE_IGNORED in flags(summary)


# ---- 8: InferenceX -----------------------------------------------------------------------------------


def test_interactivity_is_not_read() -> None:
    point = one(inferencex_run())
    assert {each.definition for each in point.latencies} == {
        Definition.TTFT,
        Definition.TPOT,
        Definition.ITL_POOLED,
        Definition.E2E,
    }
    assert "std_intvty" in sentence(point, Flag.FIGURE_IGNORED)


def test_gpus_are_tp_x_pp_x_prefill_context_parallel() -> None:
    point = one(inferencex_run(tp=4, pp=2, pcp_size=2, dcp_size=4, output_tput_per_gpu=10.0))
    assert point.subject.devices == 16
    assert point.output_tokens_per_s == 160.0


def test_disaggregated_output_is_divided_by_decode_gpus_alone() -> None:
    point = one(inferencex_run(disagg=True, num_prefill_gpu=8, num_decode_gpu=4, output_tput_per_gpu=46.0))
    assert point.subject.devices == 12
    assert point.output_tokens_per_s == 184.0
    assert "prefill and decode on separate GPUs" in point.subject.notes


def test_a_list_of_configurations_is_a_list_of_points() -> None:
    found = read(to_json([inferencex_run(conc=cap) for cap in (1, 2, 4)]))
    assert [each.load.concurrency_cap_count for each in found.points] == [1, 2, 4]


# ---- 9 and 10: GuideLLM ------------------------------------------------------------------------------


def test_the_rate_is_a_count_over_the_duration() -> None:
    point = one(guidellm_report())
    assert point.achieved_rps == REQUESTS / DURATION_S
    assert point.stated_rps == 3.9
    assert Flag.RATE_DISAGREES in flags(point)


def test_tpot_counts_the_first_token_and_its_limit_is_held_against_itl() -> None:
    point = one(guidellm_report())
    assert point.latency(Definition.TPOT) is None
    assert point.latency(Definition.TPOT_WITH_FIRST) is not None
    stated = point.stated_goodput
    assert stated is not None
    assert stated.limits == GoodputLimits(ttft_s=0.15, itl_s=0.025)
    assert stated.single_token is SingleToken.UNDETERMINED


def test_the_oldest_reports_have_another_tpot_and_no_itl_of_one_token() -> None:
    found = read(guidellm_oldest())
    assert found.format_version == "report of 0.3 or earlier"
    point = found.points[0]
    assert point.latency(Definition.TPOT_OVER_ALL) is not None
    assert point.latency(Definition.TPOT_WITH_FIRST) is None
    assert point.load.even is True
    assert point.requests[0].itl_s is None
    assert point.client_delay is not None
    assert point.client_delay.mean_s == 0.002


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ({"metadata": {"version": 2}, "config": {}}, "report schema 2"),
        ({"metadata": {"version": 1}, "args": {}}, "report schema 1"),
        ({"args": {"target": "x"}}, "report of 0.4"),
        ({}, "report of 0.3 or earlier"),
    ],
)
def test_every_generation_is_told_apart(head: dict[str, Any], expected: str) -> None:
    found = read(to_json({**head, "benchmarks": guidellm_report()["benchmarks"]}))
    assert found.format_version == expected


def test_a_schema_newer_than_known_is_read_with_a_caution() -> None:
    report = guidellm_report() | {"metadata": {"version": 3}}
    assert "newer than those known" in read(to_json(report)).anomalies[0].sentence


def test_a_report_in_yaml_and_in_csv_is_the_same_run() -> None:
    import yaml

    report = guidellm_report()
    as_json = one(report)
    assert one(yaml.safe_dump(report).encode()) == as_json
    as_csv = one(guidellm_csv())
    for latency in as_json.latencies:
        other = as_csv.latency(latency.definition)
        assert other is not None
        assert other.mean_s == pytest.approx(latency.mean_s)
        for fraction in (0.01, 0.1, 0.25, 0.5, 0.75, 0.99):
            assert other.at(fraction) == pytest.approx(latency.at(fraction)), fraction
    assert as_csv.load == as_json.load


@pytest.mark.parametrize(
    ("strategy", "profile", "place", "expected"),
    [
        ("concurrent", {"streams": [1, 4, 16]}, 1, (Loop.CLOSED, None, 4)),
        ("poisson", {"rate": [2.0, 4.0]}, 1, (Loop.OPEN, 4.0, None)),
        ("constant", {"measured_rates": [2.0, 4.0], "max_concurrency": 64}, 3, (Loop.OPEN, 4.0, 64)),
        (
            "constant",
            {"completed_strategies": [{"type_": "synchronous"}, {"type_": "constant", "rate": 4.0}]},
            1,
            (Loop.OPEN, 4.0, None),
        ),
        ("synchronous", {}, 0, (Loop.CLOSED, None, 1)),
        ("throughput@4", {}, 0, (Loop.BURST, None, 4)),
        ("throughput@unlimited", {}, 0, (Loop.BURST, None, None)),
    ],
)
def test_a_csv_that_names_the_kind_alone_has_its_load_in_the_profile(
    strategy: str, profile: dict[str, Any], place: int, expected: tuple[Loop, float | None, int | None]
) -> None:
    load = one(guidellm_csv(strategy=strategy, profile=profile, place=place)).load
    assert (load.loop, load.offered_rps, load.concurrency_cap_count) == expected


def test_a_csv_that_states_no_load_asks_for_the_report() -> None:
    with pytest.raises(InputError, match=r"Give benchmarks\.json"):
        one(guidellm_csv(strategy="poisson"))


def test_requests_that_were_sampled_are_not_counted_as_all() -> None:
    point = one(guidellm_report())
    assert not point.has_every_request
    assert "5 of 41 requests" in sentence(point, Flag.REQUESTS_SAMPLED)
    assert point.requests[0].cached_tokens == 128


def test_an_unknown_strategy_is_refused_by_name() -> None:
    report = guidellm_report()
    report["benchmarks"][0]["config"]["strategy"] = {"type_": "zigzag"}
    with pytest.raises(InputError, match="zigzag"):
        one(report)


def test_a_conclusion_is_passed_on() -> None:
    report = guidellm_report() | {"conclusions": [{"kind": "goodput", "best_passing_streams": 8, "probes": []}]}
    assert "best passing streams 8" in read(to_json(report)).anomalies[0].sentence


def test_one_token_answers_have_no_itl() -> None:
    report = guidellm_report(requests={"successful": [guide_request(0, output=1)], "errored": [], "incomplete": []})
    assert one(report).requests[0].itl_s is None


# ---- llm-d, LLMPerf ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.2", "0.2.1"])
def test_each_statistic_is_read_in_its_own_unit(version: str) -> None:
    for unit in ("s", "ms"):
        point = one(llmd_report(version=version, unit=unit))
        found = point.latency(Definition.TPOT)
        assert found is not None
        assert found.mean_s == pytest.approx(TPOT_S)
        assert found.at(0.999) == pytest.approx(TPOT_S * 1.1)
        assert point.load.concurrency_cap_count is None, ".inf is no cap"
        assert point.subject.devices == 4
        assert point.stated_goodput is None


def test_units_that_are_wrong_by_a_thousand_are_kept_and_flagged() -> None:
    # The published example of 0.1 says ms where its numbers are seconds.
    report = json.loads(to_json(llmd_report()))
    for statistic in report["results"]["request_performance"]["aggregate"]["latency"].values():
        statistic["units"] = statistic["units"].replace("s", "ms", 1)
    point = one(report)
    assert "100 us" in sentence(point, Flag.UNIT_UNCERTAIN)
    assert "100 ms" in sentence(point, Flag.UNIT_UNCERTAIN)


def test_a_report_version_that_is_not_known_is_read_with_a_caution() -> None:
    assert "0.9" in read(to_json(llmd_report(version="0.9"))).anomalies[0].sentence


def test_llmperf_counts_per_minute_and_calls_e2e_over_tokens_itl() -> None:
    point = one(llmperf_summary())
    assert point.achieved_rps == pytest.approx(REQUESTS / DURATION_S)
    assert point.latency(Definition.ITL_POOLED, Definition.ITL_PER_REQUEST) is None
    found = point.latency(Definition.NTPOT)
    assert found is not None
    assert found.mean_s == pytest.approx(1.0 / OUTPUT)
    assert point.tokens.prompt_lengths is not None
    assert point.tokens.prompt_lengths.min_tokens == PROMPT, "a number in quotes"


def test_the_workers_of_inference_perf_bound_what_it_has_under_way(tmp_path: Path) -> None:
    """44 workers of 10 requests send 440 at once at most; where only one of the two is stated, nothing is known."""
    (tmp_path / "stage_0_lifecycle_metrics.json").write_bytes(to_json(lifecycle(1.0)))
    load = "data: {type: random}\nload: {num_workers: 44, worker_max_concurrency: 10}\n"
    (tmp_path / "config.yaml").write_text(load, encoding="utf-8")
    (point,) = read_loadtest(tmp_path / "stage_0_lifecycle_metrics.json").points
    assert (point.load.loop, point.load.concurrency_cap_count) == (Loop.OPEN, 440)
    (tmp_path / "config.yaml").write_text(load.replace("num_workers: 44, ", ""), encoding="utf-8")
    (point,) = read_loadtest(tmp_path / "stage_0_lifecycle_metrics.json").points
    assert point.load.concurrency_cap_count is None


def test_vllm_before_0_6_4_wrote_no_burstiness() -> None:
    run = {name: value for name, value in vllm_run(request_rate=4.0).items() if name not in ("burstiness", "failed")}
    del run["max_concurrency"]
    test = read(to_json(run))
    assert (test.reader, test.format_version) == ("vllm", "keys of 0.6.3 or earlier")
    assert (test.points[0].load.loop, test.points[0].load.offered_rps) == (Loop.OPEN, 4.0)


def test_a_rate_that_ramped_up_is_no_burst() -> None:
    """vLLM writes inf as the rate of a ramp: nothing was sent at once."""
    ramp: dict[str, Any] = {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 20}
    point = one(to_json(vllm_run(request_rate="inf", max_concurrency=None, **ramp)))
    assert (point.load.loop, point.load.offered_rps) == (Loop.OPEN, None)


def block_alone() -> str:
    return console_text().decode().split("\n", 3)[3]


def test_a_block_without_its_load_is_no_burst_of_all_requests() -> None:
    """What people paste: the block, without the lines above it. Who was under way is known from the block itself."""
    load = one(block_alone().encode()).load
    assert (load.loop, load.concurrency_cap_count) == (Loop.CLOSED, round(REQUESTS / DURATION_S * E2E_S))
    newer = block_alone().replace("Benchmark duration", "Failed requests:     0\nBenchmark duration")
    assert one(newer.encode()).load.loop is Loop.BURST


@pytest.mark.parametrize(
    "before",
    ["> ", "2026-11-01T10:10:1{0}.12{0}Z ", "(APIServer pid=12) INFO 11-01 10:10:1{0} ", "\x1b[32m"],
    ids=["quoted", "a CI's times", "an engine's log", "coloured"],
)
def test_a_block_is_read_behind_what_a_log_puts_before_its_lines(before: str) -> None:
    lines = console_text().decode().splitlines()
    logged = "\n".join(before.format(place % 10) + line for place, line in enumerate(lines))
    found, plain = one(logged.encode()), one(console_text())
    assert (found.load, found.tokens, found.latencies) == (plain.load, plain.tokens, plain.latencies)


def test_sglangs_second_count_of_tokens_does_not_replace_the_first() -> None:
    text = console_text(backend="sglang").decode()
    text = text.replace("Request throughput", "Total generated tokens (retokenized):   77\nRequest throughput")
    tokens = one(text.encode()).tokens
    assert (tokens.output_tokens, tokens.other_output_tokens) == (REQUESTS * OUTPUT, 77.0)


def test_a_block_is_of_the_tool_that_its_backend_names() -> None:
    tools = {backend: read(console_text(backend=backend)).tool for backend in ("sglang", "vllm")}
    assert tools == {"sglang": "sglang bench_serving", "vllm": "vllm bench serve"}


def test_the_first_aiperf_kept_its_metrics_under_records() -> None:
    newer = aiperf_export()
    records = {name: newer.pop(name) for name in [*newer] if isinstance(newer[name], dict) and "unit" in newer[name]}
    assert one(to_json({**newer, "records": records})) == one(to_json(aiperf_export()))


def test_the_tables_that_aiperf_prints_are_its_csv() -> None:
    table = [
        "               NVIDIA AIPerf | LLM Metrics",
        "\u250f\u2501\u2501\u2501\u2533\u2501\u2501\u2513",
        "\u2503 Metric \u2503 avg \u2503 min \u2503 max \u2503 p50 \u2503",
        "\u2502 Time to First Token (ms) \u2502 93.74 \u2502 50.64 \u2502 133.16 \u2502 93.38 \u2502",
        "\u2502 Request Latency (ms) \u2502 1,465.03 \u2502 333.65 \u2502 1,611.53 \u2502 459.22 \u2502",
        "\u2502 Inter Token Latency (ms) \u2502 14.85 \u2502 10.22 \u2502 19.39 \u2502 14.89 \u2502",
        "\u2502 Output Token Throughput Per User \u2502 68.88 \u2502 51.58 \u2502 97.84 \u2502 67.17 \u2502",
        "\u2502 (tokens/sec/user) \u2502 \u2502 \u2502 \u2502 \u2502",
        "\u2502 Output Sequence Length (tokens) \u2502 26.00 \u2502 26.00 \u2502 26.00 \u2502 26.00 \u2502",
        "\u2502 Input Sequence Length (tokens) \u2502 63.00 \u2502 63.00 \u2502 63.00 \u2502 63.00 \u2502",
        "\u2502 Request Throughput (requests/sec) \u2502 2.00 \u2502 N/A \u2502 N/A \u2502 N/A \u2502",
        "\u2502 Request Count (requests) \u2502 60.00 \u2502 N/A \u2502 N/A \u2502 N/A \u2502",
    ]
    point = one("\n".join(table).encode())
    e2e = point.latency(Definition.E2E)
    assert e2e is not None
    assert e2e.mean_s == pytest.approx(1.46503)
    assert (point.completed_count, point.mean_output_tokens) == (60, 26.0)
    assert (point.load.loop, point.load.concurrency_cap_count) == (Loop.CLOSED, 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"elapsed_time": 10.0, "num_requests": 100, "tokens_per_second": 3000.0}, "vllm bench throughput"),
        ({"avg_latency": 1.2, "latencies": [1.2], "percentiles": {"50": 1.2}}, "vllm bench latency"),
    ],
)
def test_results_without_a_requests_latency_say_which_tool_to_run(content: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"{said}.*vllm bench serve"):
        read(to_json(content))


def test_the_engines_arguments_beside_its_timestamps_are_the_tests(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_bytes(SAMPLES["engine_timestamps"].make(1.0))
    arguments = {"tensor_parallel_size": 2, "max_num_seqs": 128, "max_num_batched_tokens": 2048, "max_model_len": None}
    meta = {"schema_version": 1, "model": "example/model", "vllm_version": "0.19.0", "engine_kwargs": arguments}
    (tmp_path / "meta.json").write_bytes(to_json(meta))
    subject = read_loadtest(tmp_path / "requests.jsonl").points[0].subject
    assert (subject.model, subject.engine_version, subject.tp) == ("example/model", "0.19.0", 2)
    assert (subject.max_sequences, subject.step_tokens) == (128, 2048)


def test_sglangs_server_says_what_it_runs_and_what_its_cache_holds() -> None:
    server = {"version": "0.5.5", "tp_size": 4, "pp_size": 1, "ep_size": 4, "max_running_requests": None}
    server |= {"chunked_prefill_size": 16384, "max_total_num_tokens": 456_048, "dp_size": 1}
    subject = one(to_lines([sglang_run(server_info=server)])).subject
    assert (subject.tp, subject.pp, subject.ep) == (4, 1, 4)
    assert (subject.max_sequences, subject.step_tokens, subject.kv_tokens) == (None, 16384, 456_048)
    # Each group of attention has a scheduler and a cache of its own; -1 is no limit.
    for groups in (2, 4):
        apart = one(to_lines([sglang_run(server_info={**server, "dp_size": groups})])).subject
        assert (apart.step_tokens, apart.kv_tokens) == (None, None)
    unlimited = one(to_lines([sglang_run(server_info={**server, "chunked_prefill_size": -1})])).subject
    assert (unlimited.step_tokens, unlimited.kv_tokens) == (None, 456_048)


def test_a_load_that_is_not_stated_is_as_many_clients_as_were_under_way() -> None:
    # By Little's law 2.4 requests are under way at 1.2 a second that take two; 0.2 are one client all the same.
    for rps, clients in ((1.2, 2), (0.1, 1), (1.3, 3)):
        load, (said,) = clients_by_little(rps, 2.0)
        assert (load.loop, load.concurrency_cap_count) == (Loop.CLOSED, clients)
        assert f": {clients} clients are assumed" in said.sentence
    for rate, mean_s in ((None, 2.0), (1.2, None), (0.0, 2.0)):
        assert clients_by_little(rate, mean_s) == (OfferedLoad(loop=Loop.BURST), ())


def test_one_replica_is_no_remark_and_several_are() -> None:
    report = json.loads(to_json(llmd_report()))
    (engine,) = [each for each in report["scenario"]["stack"] if each["standardized"].get("kind") == "inference_engine"]
    for replicas, notes in ((1, ()), (3, ("3 replicas",))):
        engine["standardized"]["replicas"] = replicas
        assert one(report).subject.notes == notes
