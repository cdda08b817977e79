"""The contract of every load-test reader: a good file, a cut one, a wrong unit, another version, nothing, noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.loadtest_samples import DURATION_S, E2E_S, OUTPUT, REQUESTS, SAMPLES, TPOT_S, TTFT_S
from ullage.errors import InputError
from ullage.readers.loadtests import LOADTEST_READERS, read_bytes
from ullage.service.loadtests.loadtest import Definition, Flag, Loop, Point, SeenBy

NAMES = sorted(LOADTEST_READERS)
GAPS = (Definition.TPOT, Definition.ITL_PER_REQUEST, Definition.ITL_PER_REQUEST_BY_TOKEN, Definition.ITL_POOLED)


def read(name: str, factor: float = 1.0) -> Point:
    found = read_bytes(SAMPLES[name].make(factor), file="sample")
    assert found.reader == name
    assert len(found.points) == 1
    return found.points[0]


def test_every_reader_has_a_sample_and_every_sample_a_reader() -> None:
    assert sorted(SAMPLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_same_run_reads_the_same_whatever_tool_wrote_it(name: str) -> None:
    point = read(name)
    e2e, ttft, gap = point.latency(Definition.E2E), point.latency(Definition.TTFT), point.latency(*GAPS)
    assert e2e is not None
    assert e2e.mean_s == pytest.approx(E2E_S)
    assert ttft is not None
    assert ttft.mean_s == pytest.approx(TTFT_S)
    if name == "llmperf_summary":
        # LLMPerf knows no time per token but E2E / tokens.
        assert point.latency(Definition.NTPOT) is not None
        assert gap is None
    else:
        assert gap is not None
        assert gap.mean_s == pytest.approx(TPOT_S)
    assert point.mean_output_tokens in (None, pytest.approx(OUTPUT))
    assert point.completed_count in (None, REQUESTS)
    if point.load.loop is Loop.CLOSED and name != "llmperf_requests":
        assert point.load.concurrency_cap_count == 4
    if point.load.offered_rps is not None:
        assert point.load.offered_rps == pytest.approx(4.0)


@pytest.mark.parametrize("name", NAMES)
def test_rate_duration_and_concurrency_hang_together(name: str) -> None:
    point = read(name)
    if point.achieved_rps is not None and point.duration_s is not None:
        assert point.completed_count is not None
        assert point.achieved_rps == pytest.approx(point.completed_count / point.duration_s)
    if point.requests:
        # A file of requests ends with the last answer, not at the end of the sending.
        assert point.duration_s in (None, pytest.approx(DURATION_S), pytest.approx(DURATION_S + E2E_S, rel=0.05))
    elif point.little_concurrency_count is not None:
        assert point.little_concurrency_count == pytest.approx(4.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_consistent_run_has_nothing_serious_to_say(name: str) -> None:
    grave = [each for each in read(name).anomalies if each.weight.value == "serious"]
    assert grave == []


@pytest.mark.parametrize("name", NAMES)
def test_missing_is_none_and_never_zero(name: str) -> None:
    point = read(name)
    for latency in point.latencies:
        assert latency.mean_s is None or latency.mean_s > 0
        assert all(value > 0 for _, value in latency.percentiles)
        assert latency.percentiles == tuple(sorted(latency.percentiles))
    if "client_delay" not in name and point.client_delay is not None:
        assert point.client_delay.definition is Definition.CLIENT_DELAY
    engine = name in ("aiperf_server", "engine_metrics", "inference_perf_server", "engine_timestamps")
    assert all((each.seen_by is SeenBy.ENGINE) == engine for each in point.latencies)


@pytest.mark.parametrize("name", NAMES)
def test_provenance_is_kept(name: str) -> None:
    data = SAMPLES[name].make(1.0)
    found = read_bytes(data, file="folder/run.json")
    assert found.file == "folder/run.json"
    assert found.tool
    assert found.sha256 is not None
    assert len(found.sha256) == 64
    assert found.tool_version is not None or found.format_version is not None or name == "mlperf_summary"


@pytest.mark.parametrize("name", NAMES)
def test_another_version_of_the_format_is_read_too(name: str) -> None:
    found = read_bytes(SAMPLES[name].older(), file="older")
    assert found.reader == name
    e2e = found.points[0].latency(Definition.E2E)
    assert e2e is not None
    assert e2e.middle_s is not None
    assert E2E_S <= e2e.middle_s < 10 * E2E_S or found.points[0].load.loop is Loop.OPEN


@pytest.mark.parametrize("direction", ["larger", "smaller"])
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_unit_is_refused_or_flagged_with_both_readings_and_never_rescaled(name: str, direction: str) -> None:
    factor = SAMPLES[name].wrong_factor if direction == "larger" else 0.001
    try:
        point = read(name, factor)
    except InputError as error:
        assert "in a unit a thousand times smaller it would be" in str(error)  # noqa: PT017
        return
    warnings = [each.sentence for each in point.anomalies if each.flag is Flag.UNIT_UNCERTAIN]
    assert len(warnings) == 1
    assert "in the neighbouring unit it would be" in warnings[0]
    e2e = point.latency(Definition.E2E)
    assert e2e is not None
    assert e2e.mean_s == pytest.approx(E2E_S * factor, rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_cut_in_the_middle_is_refused(name: str) -> None:
    data = SAMPLES[name].make(1.0)
    cut = data[: len(data) // 2]
    # A cut that falls on the end of a line cannot be told from a shorter file; two bytes on, it can.
    if cut.endswith((b"\n", b"}")):
        cut = data[: len(data) // 2 + 2]
    with pytest.raises(InputError):
        read_bytes(cut, file="cut")


@pytest.mark.parametrize("name", NAMES)
@given(share=st.floats(0.0, 0.999))
def test_no_cut_ever_ends_in_anything_but_an_answer_or_an_input_error(name: str, share: float) -> None:
    data = SAMPLES[name].make(1.0)
    try:
        found = read_bytes(data[: int(share * len(data))], file="cut")
    except InputError:
        return
    assert found.points


@pytest.mark.parametrize("data", [b"", b" \n\n", bytes(range(256)) * 20, b"\x1f\x8b\x08 packed", b"\xff\xfe{}"])
def test_nothing_and_noise_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        read_bytes(data, file="noise")


@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_at_all_end_in_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError):
        read_bytes(data, file="any")


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="GuideLLM report") as caught:
        read_bytes(b'{"something": "else"}', file="other.json")
    assert "vllm bench serve" in str(caught.value)


def test_a_file_that_two_readers_claim_names_both() -> None:
    both = SAMPLES["vllm"].make(1.0)[:-1] + b', "median_e2e_latency_ms": 1.0}'
    with pytest.raises(InputError, match="more than one format: vllm, sglang"):
        read_bytes(both, file="both.json")


def test_a_wrong_type_names_file_and_field() -> None:
    data = SAMPLES["vllm"].make(1.0).replace(b'"duration": 10.0', b'"duration": "ten"')
    with pytest.raises(InputError, match=r"run\.json: run 1\.duration = 'ten': is not a number"):
        read_bytes(data, file="run.json")


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(InputError, match="a latency is not negative"):
        read("vllm", -1.0)
