"""How long a start took, from logs written as the engines write them and from results of `vllm bench startup`."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.engine_logs import TENSORRT_LLM
from ullage.errors import InputError
from ullage.readers.engines.startup import read_start_file, read_starts
from ullage.startup.phases import Phase
from ullage.startup.settings import MeasuredStart

DAY = datetime.date(2026, 11, 15)

# 06:00:00 to 06:02:00: weights 40, compile 30, graphs 10, warm-up 10, and 30 s that nobody names.
FULL = """\
(APIServer pid=1) INFO 06-05 06:00:00 [utils.py:344]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.22.0
(EngineCore pid=2) INFO 06-05 06:00:14 [core.py:112] Initializing a V1 LLM engine (v0.22.0) with config: model='m'
(Worker_TP0 pid=3) INFO 06-05 06:00:55 [default_loader.py:397] Loading weights took 38.00 seconds
(Worker_TP0 pid=3) INFO 06-05 06:00:57 [runner.py:5132] Model loading took 8.66 GiB memory and 39.500000 seconds
(Worker_TP1 pid=4) INFO 06-05 06:00:57 [runner.py:5132] Model loading took 8.66 GiB memory and 40.000000 seconds
(Worker_TP0 pid=3) INFO 06-05 06:01:20 [backends.py:393] Compiling a graph for compile range (1, 8192) takes 6.50 s
(Worker_TP0 pid=3) INFO 06-05 06:01:27 [decorators.py:708] saved AOT compiled function to /cache/model
(Worker_TP0 pid=3) INFO 06-05 06:01:27 [monitor.py:53] torch.compile took 30.00 s in total
(Worker_TP0 pid=3) INFO 06-05 06:01:47 [gpu_model_runner.py:6456] Graph capturing finished in 10 secs, took 1.00 GiB
(EngineCore pid=2) INFO 06-05 06:01:47 [core.py:302] init engine (profile, warmup) took 50.00 s (compilation: 30.00 s)
(APIServer pid=1) INFO 06-05 06:02:00 [api_server.py:596] Starting vLLM server on http://0.0.0.0:8000
(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) INFO 06-05 09:00:00 [loggers.py:335] Engine 000: Avg prompt throughput: 393.3 tokens/s
"""
NAMED = {Phase.WEIGHTS: 40.0, Phase.COMPILE: 30.0, Phase.GRAPHS: 10.0, Phase.WARMUP: 10.0, Phase.BOOT: 30.0}

SERVED = """\
[2026-06-09 22:03:50] server_args=ServerArgs(model_path='m', disable_cuda_graph=False)
[2026-06-09 22:04:10 TP0] Load weight begin. avail mem=275.73 GB
[2026-06-09 22:04:10 TP1] Load weight begin. avail mem=275.73 GB
[2026-06-09 22:05:50 TP0] Load weight end. elapsed=99.50 s, type=M, avail mem=149.07 GB, mem usage=126.66 GB.
[2026-06-09 22:05:50 TP1] Load weight end. elapsed=100.00 s, type=M, avail mem=149.07 GB, mem usage=126.66 GB.
[2026-06-09 22:05:50 TP0] KV Cache is allocated. #tokens: 911040, K size: 53.87 GB, V size: 53.87 GB
[2026-06-09 22:06:07 TP0] Capture cuda graph end. Time elapsed: 17.00 s. mem usage=1.13 GB. avail mem=37.53 GB.
[2026-06-09 22:06:10 TP0] Capture draft cuda graph end. Time elapsed: 3.00 s. mem usage=0.13 GB. avail mem=37.40 GB.
[2026-06-09 22:06:14] INFO:     Application startup complete.
[2026-06-09 22:06:20] The server is fired up and ready to roll!
"""


def one(text: str) -> MeasuredStart:
    (start,) = read_start_file(text, file="start.log", date=DAY)
    return start


# ---- logs ---------------------------------------------------------------------------------------------


def test_the_phases_of_a_vllm_start() -> None:
    start = one(FULL)
    assert dict(start.phases) == NAMED
    assert (start.engine, start.version) == ("vllm", "0.22.0")
    assert start.source.where == "start.log:1"


def test_phases_add_up_to_the_clock() -> None:
    assert sum(one(FULL).phases.values()) == 120.0
    assert sum(one(SERVED).phases.values()) == 150.0


def test_the_phases_of_an_sglang_start() -> None:
    """The slowest rank counts; the graphs of a draft model come on top."""
    assert dict(one(SERVED).phases) == {Phase.WEIGHTS: 100.0, Phase.GRAPHS: 20.0, Phase.BOOT: 30.0}


def test_an_sglang_start_that_does_not_say_how_long_weights_took() -> None:
    old = SERVED.replace("elapsed=99.50 s, ", "").replace("elapsed=100.00 s, ", "")
    assert one(old).phases[Phase.WEIGHTS] == 100.0


def test_a_compiled_graph_from_the_cache_is_told_apart() -> None:
    cached = FULL.replace(
        "Compiling a graph for compile range (1, 8192) takes 6.50 s",
        "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 3.058 s",
    ).replace("saved AOT compiled function to", "Directly load AOT compilation from path")
    assert one(cached).phases[Phase.COMPILE_CACHED] == 30.0
    assert Phase.COMPILE not in one(cached).phases


def test_half_a_cache_is_no_cache() -> None:
    """The graph was found, but the function around it had to be traced and saved again."""
    half = FULL.replace(
        "Compiling a graph for compile range (1, 8192) takes 6.50 s",
        "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 3.058 s",
    )
    assert one(half).phases[Phase.COMPILE] == 30.0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("torch.compile took 30.00 s in total", "torch.compile takes 30.00 s in total"),
        ("8.66 GiB memory and 40", "8.66 GiB and 40"),
        ("took 50.00 s (compilation: 30.00 s)", "took 50.00 seconds"),
        ("Starting vLLM server on", "Starting vLLM API server 0 on"),
    ],
)
def test_wordings_of_other_versions(ours: str, theirs: str) -> None:
    assert ours in FULL
    assert dict(one(FULL.replace(ours, theirs)).phases) == NAMED


def test_an_eager_engine_states_that_it_does_not_compile() -> None:
    lines = [line for line in FULL.splitlines() if "compile" not in line and "Graph capturing" not in line]
    lines.insert(
        1, "(APIServer pid=1) WARNING 06-05 06:00:01 [vllm.py:1703] Enforce eager set, disabling torch.compile"
    )
    phases = one("\n".join(lines)).phases
    assert [phases[each] for each in (Phase.COMPILE, Phase.COMPILE_CACHED, Phase.GRAPHS)] == [0.0, 0.0, 0.0]


def test_an_sglang_server_without_graphs_says_so() -> None:
    text = SERVED.replace("disable_cuda_graph=False", "disable_cuda_graph=True")
    assert one("\n".join(line for line in text.splitlines() if "Capture" not in line)).phases[Phase.GRAPHS] == 0.0


def test_a_restart_is_a_second_start() -> None:
    slower = FULL.replace("06-05 06:", "06-06 06:").replace("06:02:00", "06:02:20")
    first, second = read_start_file(FULL + slower, file="start.log", date=DAY)
    assert (first.phases[Phase.BOOT], second.phases[Phase.BOOT]) == (30.0, 50.0)
    assert second.source.where == "start.log:14"


def test_a_start_that_broke_off_says_what_it_knows() -> None:
    cut = "\n".join(FULL.splitlines()[:9])
    assert set(one(cut).phases) == {Phase.WEIGHTS, Phase.COMPILE, Phase.GRAPHS}


def test_requests_after_the_start_do_not_count() -> None:
    later = "(APIServer pid=1) INFO 06-05 09:00:00 [x.py:1] Graph capturing finished in 999 secs, took 1.00 GiB\n"
    assert dict(one(FULL + later).phases) == NAMED


def test_a_log_over_new_year_leaves_the_boot_out() -> None:
    text = FULL.replace("06-05 06:00:00", "12-31 23:59:50", 1).replace("06-05 06:0", "01-01 00:0")
    assert Phase.BOOT not in one(text).phases


def test_real_logs(shared_data: Path) -> None:
    """The CPU backend: eager, weights by the older line, 59 s from the first line to the server."""
    path = shared_data / "engines" / "vllm" / "vllm_0.32.0_cpu_serve.log"
    (start,) = read_starts([path], date=DAY)
    assert start.version == "0.32.0"
    assert start.phases[Phase.WEIGHTS] == 0.07
    assert start.phases[Phase.WARMUP] == 0.95
    assert start.phases[Phase.COMPILE] == 0.0
    assert start.phases[Phase.BOOT] == pytest.approx(59 - 0.07 - 0.95)


# ---- vllm bench startup -------------------------------------------------------------------------------


def bench(**changes: Any) -> str:
    content = {
        "avg_cold_startup_time": 60.0,
        "cold_startup_times": [58.0, 60.0, 62.0],
        "cold_startup_percentiles": {"10": 58.4, "50": 60.0},
        "cold_compilation_times": [18.0, 20.0, 22.0],
        "warm_startup_times": [44.0, 45.0, 46.0],
        "warm_compilation_times": [4.0, 5.0, 6.0],
    }
    return json.dumps({key: value for key, value in (content | changes).items() if value is not None})


def test_each_run_of_a_bench_is_a_start() -> None:
    starts = read_start_file(bench(), file="startup.json", date=DAY)
    assert [each.phases.get(Phase.COMPILE) for each in starts] == [18.0, 20.0, 22.0, None, None, None]
    assert [each.phases.get(Phase.COMPILE_CACHED) for each in starts] == [None, None, None, 4.0, 5.0, 6.0]
    assert [each.phases[Phase.ENGINE] for each in starts] == [40.0] * 6


def test_cold_runs_alone_are_enough() -> None:
    text = bench(warm_startup_times=None, warm_compilation_times=None)
    assert len(read_start_file(text, file="startup.json", date=DAY)) == 3


# ---- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bench()[:-9], "is not whole JSON"),
        ("{}", "is not a result of vllm bench startup"),
        (bench(cold_compilation_times=[1.0]), "does not match the 3 start-up times"),
        (bench(cold_compilation_times=[1.0, 2.0, 99.0]), "is longer than the start of 62 s"),
        (bench(cold_startup_times="soon"), "is not a list of seconds"),
        (bench(cold_startup_times=[1, -2, 3]), "is not a list of seconds"),
        (bench(cold_startup_times=[1, 10**400, 3]), "is not a list of seconds"),
        (bench(cold_startup_times=[1, float("nan"), 3]), "is not a list of seconds"),
        (bench(cold_startup_times=[True, 2, 3]), "is not a list of seconds"),
        ("once upon a time\n", "is neither a start-up log"),
        (TENSORRT_LLM, "is neither a start-up log"),
        (FULL.splitlines()[0], "does not say how long any phase"),
    ],
)
def test_a_file_that_tells_of_no_start_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_start_file(text, file="file", date=DAY)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_starts([tmp_path / "missing.log"], date=DAY)


LINES = FULL.splitlines() + SERVED.splitlines()


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=60)), max_size=30))
def test_any_order_of_lines_is_read_or_refused(lines: list[str]) -> None:
    try:
        starts = read_start_file("\n".join(lines), file="file", date=DAY)
    except InputError:
        return
    assert all(seconds >= 0 for start in starts for seconds in start.phases.values())
    assert all(start.phases for start in starts)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(sorted(json.loads(bench()))),
        st.recursive(st.none() | st.floats() | st.text(), st.lists),
        max_size=6,
    )
)
def test_any_json_is_read_or_refused(content: dict[str, Any]) -> None:
    try:
        read_start_file(json.dumps(content), file="file", date=DAY)
    except InputError:
        return
