"""Load-test results in: one small file a format, one table that lists them, one function that reads any.

To add a tool, see docs/howto/add-a-load-test-format.md: write `recognise` and `read`, list them in LOADTEST_READERS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ullage.bounded import bounded_bytes
from ullage.documents import reading
from ullage.errors import InputError
from ullage.readers import misplaced
from ullage.readers.loadtests import (
    aiperf,
    aiperf_csv,
    aiperf_requests,
    aiperf_server,
    console,
    engine_metrics,
    engine_timestamps,
    genai_perf,
    inference_perf,
    inference_perf_requests,
    inference_perf_server,
    inferencex,
    llmd_report,
    llmperf,
    mlperf,
    points_csv,
    sglang,
    vllm,
)
from ullage.readers.loadtests.beside.config import ToolConfiguration, configurations_beside, with_configurations
from ullage.readers.loadtests.beside.side_files import known_side_file
from ullage.readers.loadtests.content import Content, parse
from ullage.readers.loadtests.general import k6, locust, request_log
from ullage.readers.loadtests.guidellm import csv_export, guidance, report
from ullage.service.loadtests.anomalies import examined, impossible
from ullage.service.loadtests.loadtest import LoadTest


@dataclass(frozen=True, kw_only=True)
class LoadTestReader:
    """A format: what it is, whether a file is of it, and how it is read."""

    what: str
    recognise: Callable[[Content], bool]
    read: Callable[[Content], LoadTest]


def _reader(what: str, recognise: Callable[[Content], bool], read: Callable[[Content], LoadTest]) -> LoadTestReader:
    return LoadTestReader(what=what, recognise=recognise, read=read)


LOADTEST_READERS: dict[str, LoadTestReader] = {
    "vllm": _reader("vllm bench serve or sweep", vllm.recognise, vllm.read),
    "sglang": _reader("SGLang bench_serving", sglang.recognise, sglang.read),
    "guidellm": _reader("GuideLLM report", report.recognise, report.read),
    "guidellm_csv": _reader("GuideLLM CSV", csv_export.recognise, csv_export.read),
    "guidellm_guidance": _reader("GuideLLM guidance report of 0.1", guidance.recognise, guidance.read),
    "aiperf": _reader("AIPerf aggregate", aiperf.recognise, aiperf.read),
    "aiperf_csv": _reader("AIPerf aggregate as CSV", aiperf_csv.recognise, aiperf_csv.read),
    "aiperf_requests": _reader("AIPerf requests", aiperf_requests.recognise, aiperf_requests.read),
    "aiperf_server": _reader("AIPerf server metrics", aiperf_server.recognise, aiperf_server.read),
    "genai_perf": _reader("genai-perf aggregate", genai_perf.recognise, genai_perf.read),
    "inference_perf": _reader("inference-perf stage or summary", inference_perf.recognise, inference_perf.read),
    "inference_perf_requests": _reader(
        "inference-perf requests", inference_perf_requests.recognise, inference_perf_requests.read
    ),
    "inference_perf_server": _reader(
        "inference-perf engine metrics", inference_perf_server.recognise, inference_perf_server.read
    ),
    "llmd_report": _reader("llm-d benchmark report", llmd_report.recognise, llmd_report.read),
    "inferencex": _reader("InferenceX result", inferencex.recognise, inferencex.read),
    "mlperf_summary": _reader("MLPerf loadgen summary", mlperf.recognise_summary, mlperf.read_summary),
    "mlperf_detail": _reader("MLPerf loadgen detail", mlperf.recognise_detail, mlperf.read_detail),
    "llmperf_summary": _reader("LLMPerf summary", llmperf.recognise_summary, llmperf.read_summary),
    "llmperf_requests": _reader("LLMPerf requests", llmperf.recognise_requests, llmperf.read_requests),
    "engine_metrics": _reader("vLLM or SGLang /metrics", engine_metrics.recognise, engine_metrics.read),
    "engine_timestamps": _reader("vLLM request timestamps", engine_timestamps.recognise, engine_timestamps.read),
    "console": _reader("console text of vLLM's or SGLang's benchmark", console.recognise, console.read),
    "locust": _reader("Locust stats", locust.recognise, locust.read),
    "k6": _reader("k6 summary", k6.recognise, k6.read),
    "request_log": _reader("a request log with TTFT and durations", request_log.recognise, request_log.read),
    "points_csv": _reader("a CSV of points", points_csv.recognise, points_csv.read),
}


def result_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or every result in a folder and those below it, in order of their names.

    What lies beside results and is none (logs, configurations, plots) is passed over; a folder without any is refused.
    """
    if not path.is_dir():
        return (path,)
    found = tuple(each for each in sorted(path.rglob("*")) if each.is_file() and _is_result(each))
    if not found:
        raise InputError(
            field="file",
            value=str(path),
            problem="is a folder without a result of a load test in it",
            fix="Give the folder that the tool wrote, or its files.",
        )
    return found


def _is_result(path: Path) -> bool:
    try:
        content = parse(_bytes(path), file=str(path))
        return any(reader.recognise(content) for reader in LOADTEST_READERS.values())
    except (InputError, OSError):
        return False


def _bytes(path: Path) -> bytes:
    return bounded_bytes(path, fix="Give the file as the tool wrote it, or a part of it.")


def read_loadtest(path: Path) -> LoadTest:
    """Read one file, whichever tool wrote it."""
    try:
        data = _bytes(path)
    except OSError as error:
        raise InputError(
            field="file", value=str(path), problem=f"cannot be read ({error.strerror})", fix="Give the path of a file."
        ) from None
    try:
        return read_bytes(data, file=str(path), beside=configurations_beside(path))
    except InputError:
        if not _is_result(path) and (other := misplaced(path, asked="load test")) is not None:
            raise other from None
        raise


def read_bytes(data: bytes, *, file: str, beside: Sequence[ToolConfiguration] = ()) -> LoadTest:
    """The load test in these bytes, every point examined; a result that contradicts itself is refused.

    `beside` are configurations of the tool that lie with the file.
    """
    with reading(file, fix="Give the file as the tool wrote it."):
        content = parse(data, file=file)
        found = with_configurations(LOADTEST_READERS[recognised(content)].read(content), beside)
    for point in found.points:
        contradiction = impossible(point)
        if contradiction is not None:
            raise InputError(
                field=f"{file}: {point.name}.{contradiction.definition}",
                value=contradiction.shown,
                problem=contradiction.sentence,
                fix="Find out which unit the file is in; nothing is rescaled here.",
            )
    return replace(found, sha256=content.sha256, points=tuple(examined(point) for point in found.points))


def recognised(content: Content) -> str:
    """The name of the one reader whose format this is; none or several is an error that names them."""
    names = [name for name, reader in LOADTEST_READERS.items() if reader.recognise(content)]
    if len(names) == 1:
        return names[0]
    if names:
        raise InputError(
            field=content.file,
            value=content.shape.value,
            problem=f"looks like more than one format: {', '.join(names)}",
            fix="Give the file as one tool wrote it.",
        )
    side = known_side_file(content)
    if side is not None:
        raise InputError(
            field=content.file, value=content.shape.value, problem=f"is {side.what}, not a result", fix=side.instead
        )
    known = "; ".join(reader.what for reader in LOADTEST_READERS.values())
    raise InputError(
        field=content.file,
        value=content.shape.value,
        problem="is not in a known load-test format, or is cut short",
        fix=f"Known: {known}. Or write the points into a CSV: docs/reference/loadtest-formats.md.",
    )
