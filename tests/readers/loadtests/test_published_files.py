"""Every published result file is read, and different files of one run say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.loadtests import read_loadtest
from ullage.service.loadtests.loadtest import Definition, Flag, Loop, Point

# Files beside results that are not results, by the end of their names.
NOT_RESULTS = (
    "config.yaml",
    "profile.yaml",
    "manifests.yaml",
    "logging.json",
    "meta.json",
    "timeseries.csv",
    "schema.json",
    "timeslices.json",
    "timeslices.csv",
    "server_metrics_export.csv",
    "server_metrics_export.jsonl",
    "system_8xMI300X.json",
)


@pytest.fixture
def folder(shared_data: Path) -> Path:
    return shared_data / "loadtests"


def one(path: Path) -> Point:
    found = read_loadtest(path)
    assert len(found.points) == 1
    return found.points[0]


def mean_s(point: Point, definition: Definition) -> float:
    found = point.latency(definition)
    assert found is not None
    assert found.mean_s is not None
    return found.mean_s


def flags(point: Point) -> set[Flag]:
    return {each.flag for each in point.anomalies}


def test_every_file_is_read_or_is_known_not_to_be_a_result(folder: Path) -> None:
    read = 0
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if path.name.endswith(NOT_RESULTS):
            with pytest.raises(InputError):
                read_loadtest(path)
            continue
        found = read_loadtest(path)
        assert found.points, path
        for point in found.points:
            assert point.latency(Definition.E2E) is not None, path
            if point.achieved_rps is not None and point.duration_s is not None:
                assert point.completed_count is not None
                assert point.achieved_rps == pytest.approx(point.completed_count / point.duration_s)
        read += 1
    assert read >= 80


def test_littles_law_holds_where_a_concurrency_is_known(folder: Path) -> None:
    held = 0
    for path in (*folder.glob("vllm/*.json"), *folder.glob("sglang/*.jsonl"), *folder.glob("guidellm/v0.8.1*")):
        for point in read_loadtest(path).points:
            little = point.little_concurrency_count
            assert little is not None
            if point.load.loop is Loop.CLOSED:
                assert point.load.concurrency_cap_count is not None
                assert 0.85 * point.load.concurrency_cap_count <= little <= 1.001 * point.load.concurrency_cap_count
                held += 1
            elif point.mean_concurrency_count is not None and Flag.OVERLOAD not in flags(point):
                assert little == pytest.approx(point.mean_concurrency_count, rel=0.1)
                held += 1
    assert held >= 11


@pytest.mark.parametrize("name", ["rate2_detailed", "rate20_conc4_detailed"])
def test_vllm_statistics_are_those_of_its_requests(folder: Path, name: str) -> None:
    from ullage.service.loadtests.requests import summarise

    point = one(folder / "vllm" / f"{name}.json")
    assert point.has_every_request
    for definition in (Definition.TTFT, Definition.TPOT, Definition.E2E):
        stated, counted = point.latency(definition), summarise(point.requests, definition)
        assert stated is not None
        assert counted is not None
        assert counted.mean_s == pytest.approx(stated.mean_s)
        assert counted.std_s == pytest.approx(stated.std_s)
        for fraction in (0.5, 0.9, 0.95, 0.99):
            assert counted.at(fraction) == pytest.approx(stated.at(fraction))


def test_the_capped_vllm_run_is_seen_through(folder: Path) -> None:
    point = one(folder / "vllm" / "rate20_conc4_detailed.json")
    assert {Flag.CLOSED_LOOP_SATURATION, Flag.COORDINATED_OMISSION, Flag.FIGURE_IGNORED} <= flags(point)
    assert point.client_delay is not None
    assert point.client_delay.mean_s == pytest.approx(0.424, abs=0.001)
    assert point.client_delay.max_s == pytest.approx(1.08, abs=0.01)
    assert flags(one(folder / "vllm" / "rate2_detailed.json")) == {Flag.FEW_REQUESTS}


def test_the_late_stage_of_inference_perf_is_seen_through(folder: Path) -> None:
    point = one(folder / "inference-perf" / "stage_6_lifecycle_metrics.json")
    assert {Flag.CLOSED_LOOP_SATURATION, Flag.COORDINATED_OMISSION, Flag.DECODE_TIME_DISAGREES} <= flags(point)
    assert point.load.offered_rps == 183.38
    assert point.sent_rps == pytest.approx(106.55, abs=0.01)
    first = one(folder / "inference-perf" / "stage_0_lifecycle_metrics.json")
    assert flags(first).isdisjoint({Flag.CLOSED_LOOP_SATURATION, Flag.COORDINATED_OMISSION})


def test_an_overload_with_timeouts_is_seen_through(folder: Path) -> None:
    runs = folder.glob("inference-perf/inference-sim-training/*reasoning/results/stage_0_lifecycle_metrics.json")
    points = [one(path) for path in runs]
    assert len(points) == 2
    for point in points:
        assert {Flag.OVERLOAD, Flag.FAILURES} <= flags(point)


def test_the_engine_section_of_inference_perf_gives_the_true_length(folder: Path) -> None:
    point = one(folder / "inference-perf" / "stage_3_prometheus_metrics.json")
    assert point.mean_prompt_tokens == pytest.approx(205.0, abs=1.0)
    assert Flag.SERVER_SECTION_UNCERTAIN in flags(point)


def test_guidellm_json_and_csv_of_one_run_agree(folder: Path) -> None:
    left = read_loadtest(folder / "guidellm" / "v0.8.1_concurrent_slo.requests_trimmed.json")
    right = read_loadtest(folder / "guidellm" / "v0.8.1_concurrent_slo.csv")
    assert left.tool_version == right.tool_version == "0.8.1"
    for a, b in zip(left.points, right.points, strict=True):
        assert a.load == b.load
        assert a.achieved_rps == b.achieved_rps
        for latency in a.latencies:
            other = b.latency(latency.definition)
            assert other is not None
            assert other.mean_s == latency.mean_s
            for fraction in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99):
                assert other.at(fraction) == latency.at(fraction), (latency.definition, fraction)
    assert left.points[0].achieved_rps == 15 / 8
    assert left.points[0].stated_rps == 1.75


def test_aiperf_requests_add_up_to_its_aggregate(folder: Path) -> None:
    run = folder / "aiperf" / "v0.13.0_rate5_mock"
    aggregate, requests = one(run / "profile_export_aiperf.json"), one(run / "profile_export.jsonl")
    for definition in (Definition.TTFT, Definition.ITL_PER_REQUEST, Definition.E2E):
        left, right = aggregate.latency(definition), requests.latency(definition)
        assert left is not None
        assert right is not None
        assert right.mean_s == pytest.approx(left.mean_s)
        assert right.at(0.99) == pytest.approx(left.at(0.99))
    assert aggregate.client_delay is not None
    assert requests.client_delay is not None
    assert requests.client_delay.mean_s == pytest.approx(aggregate.client_delay.mean_s, rel=0.05)
    assert (aggregate.tokens.output_tokens, aggregate.tokens.other_output_tokens) == (60 * 26, 60 * 32)
    assert Flag.TOKEN_COUNT_MISMATCH in flags(aggregate) & flags(requests)


def test_aiperf_server_metrics_are_rated_over_the_phase(folder: Path) -> None:
    point = one(folder / "aiperf" / "v0.13.0_vllm0.32cpu_rate4" / "server_metrics_export.json")
    assert point.stated_rps == pytest.approx(2.856, abs=0.001)
    assert point.achieved_rps == pytest.approx(60 / 15.641, rel=1e-3)
    assert Flag.HISTOGRAM_FLOOR in flags(point)


def test_inferencex_and_llmperf_files_made_of_vllm_runs_report_what_vllm_reported(folder: Path) -> None:
    vllm = one(folder / "vllm" / "conc8_summary.json")
    inferencex = one(folder / "inferencex" / "agg_res_from_vllm0.32_conc8.json")
    for definition in (Definition.TTFT, Definition.TPOT, Definition.ITL_POOLED, Definition.E2E):
        assert mean_s(inferencex, definition) == pytest.approx(mean_s(vllm, definition))
    assert inferencex.output_tokens_per_s == pytest.approx(vllm.output_tokens_per_s)
    detailed = one(folder / "vllm" / "rate2_detailed.json")
    llmperf = one(folder / "llmperf" / "llmperf_tiny_64_32_summary.json")
    single = one(folder / "llmperf" / "llmperf_tiny_64_32_individual_responses.json")
    for point in (llmperf, single):
        assert mean_s(point, Definition.TTFT) == pytest.approx(mean_s(detailed, Definition.TTFT))
        assert mean_s(point, Definition.E2E) == pytest.approx(mean_s(detailed, Definition.E2E))
        assert mean_s(point, Definition.NTPOT) == pytest.approx(mean_s(detailed, Definition.E2E) / 32)
    assert llmperf.achieved_rps == pytest.approx(detailed.achieved_rps)


def test_mlperf_summary_and_detail_agree(folder: Path) -> None:
    stem = folder / "mlperf" / "amd_8xMI300X_llama2-70b-99.9_Server"
    summary, detail = one(Path(f"{stem}_summary.txt")), one(Path(f"{stem}_detail.txt"))
    for definition in (Definition.TTFT, Definition.TPOT, Definition.E2E):
        left, right = summary.latency(definition), detail.latency(definition)
        assert left is not None
        assert right is not None
        assert left.percentiles == right.percentiles
        assert left.mean_s == right.mean_s
    assert detail.completed_count == 73728
    assert detail.output_tokens_per_s == pytest.approx(24593.8)
    offline = one(folder / "mlperf" / "amd_8xMI300X_llama2-70b-99.9_Offline_detail.txt")
    assert offline.completed_count == 245760, "not the 245520 that were set"


def test_the_published_llmd_examples_keep_their_units_and_are_flagged(folder: Path) -> None:
    oldest = one(folder / "llm-d-benchmark" / "br_v0_1_example.yaml")
    assert Flag.UNIT_UNCERTAIN in flags(oldest)
    assert mean_s(oldest, Definition.TTFT) == pytest.approx(0.000801, rel=1e-3)
    newest = read_loadtest(folder / "llm-d-benchmark" / "br_v0_2_1_example.yaml")
    assert newest.tool_version == "0.3.0"
    assert newest.points[0].subject.devices == 16
    assert newest.points[0].load.concurrency_cap_count is None


def test_goodput_counted_anew_matches_the_tool_where_all_requests_are_kept(folder: Path) -> None:
    from ullage.service.loadtests.goodput import goodput_of, rule_of
    from ullage.service.loadtests.loadtest import GoodputLimits

    point = one(folder / "vllm" / "rate2_detailed.json")
    generous = goodput_of(point, rule_of("vllm", GoodputLimits(ttft_s=5.0, tpot_s=5.0)))
    assert generous is not None
    assert point.stated_goodput is not None
    assert generous.rps == pytest.approx(point.stated_goodput.rps)
    aiperf = one(folder / "aiperf" / "v0.13.0_rate5_mock" / "profile_export_aiperf.json")
    requests = one(folder / "aiperf" / "v0.13.0_rate5_mock" / "profile_export.jsonl")
    assert aiperf.stated_goodput is not None
    assert aiperf.stated_goodput.limits is not None
    counted = goodput_of(requests, rule_of("aiperf", aiperf.stated_goodput.limits))
    assert counted is not None
    assert counted.attained_fraction == aiperf.stated_goodput.attained_fraction == 1.0
