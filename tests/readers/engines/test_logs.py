"""What the engines' logs say, line by line and rank by rank."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import pytest

from support.engine_logs import OUT_OF_MEMORY, SGLANG, TENSORRT_LLM, VLLM
from ullage.errors import InputError
from ullage.evidence import Source
from ullage.memory.engine_report import EngineMemory, OomKind
from ullage.readers.engines import read_engine_report, read_engine_reports, sglang, tensorrt_llm, vllm
from ullage.readers.engines.lines import LogFormat, line_values, rank_of, read_log, recognises

DATE = datetime.date(2026, 11, 15)
GIB = 2**30
LOGS = {"vllm": vllm.LOG, "vllm-ascend": vllm.LOG, "sglang": sglang.LOG, "trtllm": tensorrt_llm.LOG}


def reported(log: LogFormat, text: str) -> EngineMemory:
    return read_log(log, text, file="engine.log", date=DATE)


def numbers(memory: EngineMemory, *names: str) -> list[float | None]:
    return [memory.number(name) for name in names]


def test_vllm_of_two_devices_is_one_cache_and_its_fullest_device_counts() -> None:
    memory = reported(vllm.LOG, VLLM)
    assert (memory.engine, memory.version) == ("vllm", "0.26.0")
    assert numbers(memory, "weights", "kv_cache") == [41 * GIB, 29 * GIB]
    assert numbers(memory, "kv_tokens", "context_tokens", "max_concurrency") == [190_054, 8192, 23.20]
    assert numbers(memory, "graphs", "graphs_estimated") == [round(0.75 * GIB), round(0.80 * GIB)]
    assert numbers(memory, "token_budget", "kv_usage") == [8192, 0.125]
    assert memory.kv_bytes_per_token == pytest.approx(29 * GIB / 190_054)
    assert memory.figures["weights"].formula == "largest of the ranks"
    assert memory.figures["kv_tokens"].sources[0].where == "engine.log:9"


def test_sglang_sums_tokens_over_data_parallel_ranks_and_adds_pools_and_captures() -> None:
    memory = reported(sglang.LOG, SGLANG)
    assert numbers(memory, "kv_tokens", "kv_cache") == [1_200_000, 60 * GIB]
    assert numbers(memory, "weights", "graphs") == [round(40.5 * GIB), 2 * GIB]
    assert numbers(memory, "free_after_start", "max_sequences", "token_budget") == [34 * GIB, 512, 8192]
    assert numbers(memory, "memory_fraction", "block_size") == [0.85, 1]
    assert memory.kv_bytes_per_token == pytest.approx(60 * GIB / 600_000)


def test_sglang_of_tensor_parallel_ranks_does_not_sum() -> None:
    plain = SGLANG.replace("DP0 TP0 EP0", "TP0").replace("DP1 TP1 EP1", "TP1")
    assert numbers(reported(sglang.LOG, plain), "kv_tokens") == [600_000]


def test_sglang_a_draft_model_adds_bytes_but_no_tokens() -> None:
    text = (
        "[2026-05-01 10:00:41 TP0] KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB\n"
        "[2026-05-01 10:00:42 TP0] KV Cache is allocated. #tokens: 1040, KV size: 0.25 GB\n"
        "[2026-05-01 10:00:42 TP0] Mamba Cache is allocated. max_mamba_cache_size: 64, conv_state size: 0.05GB, "
        "ssm_state size: 2.00GB \n"
    )
    memory = reported(sglang.LOG, text)
    assert numbers(memory, "kv_tokens", "kv_cache", "state_cache") == [1000, 2.25 * GIB, round(2.05 * GIB)]
    assert numbers(reported(sglang.LOG, text + text), "kv_cache") == [2.25 * GIB], "a line kept twice counts once"


def test_sglang_weights_of_target_and_draft_both_count() -> None:
    text = (
        "[2026-05-01 10:00:01 TP0] Load weight begin. avail mem=137.00 GB\n"
        "[2026-05-01 10:00:31 TP0] Load weight end. type=M, avail mem=57.00 GB, mem usage=80.00 GB.\n"
        "[2026-05-01 10:00:32 TP0] Load weight begin. avail mem=56.90 GB\n"
        "[2026-05-01 10:00:40 TP0] Load weight end. type=D, avail mem=55.00 GB, mem usage=1.50 GB.\n"
        "[2026-05-01 10:00:41 TP0] KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB\n"
    )
    assert numbers(reported(sglang.LOG, text), "weights", "free_at_start") == [81.5 * GIB, 137 * GIB]


def test_sglang_sizing_after_capture_replaces_the_upper_bound() -> None:
    text = (
        "[2026-08-01 10:00:41 TP0] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9000, KV size: 90.00 GB\n"
        "[2026-08-01 10:00:50 TP0] Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 5000, "
        "KV size: 50.00 GB, avail mem=4.00 GB\n"
    )
    assert numbers(reported(sglang.LOG, text), "kv_tokens", "kv_cache", "free_after_start") == [5000, 50 * GIB, 4 * GIB]


def test_tensorrt_llm() -> None:
    memory = reported(tensorrt_llm.LOG, TENSORRT_LLM)
    assert memory.version == "0.17.0"
    assert numbers(memory, "weights", "activations") == [6214 * 2**20, round(928.75 * 2**20)]
    assert numbers(memory, "workspace") == [223_000_000]
    assert numbers(memory, "device_memory", "free_for_kv") == [round(79.1 * GIB), 70 * GIB]
    assert memory.number("free_at_start") is None, "the weights are loaded by then"
    assert numbers(memory, "kv_cache", "kv_tokens", "kv_blocks", "block_size") == [63 * GIB, 258_048, 4032, 64]
    assert memory.kv_bytes_per_token == 63 * GIB / 258_048


def test_tensorrt_llm_a_pool_that_the_executor_did_not_allocate_is_not_stated() -> None:
    zero = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.00 GiB for max tokens in paged KV cache (3958272).\n"
    found = reported(tensorrt_llm.LOG, zero)
    assert (found.number("kv_tokens"), found.number("kv_cache")) == (3_958_272, None)


def test_tensorrt_llm_allocates_twice_and_the_last_counts() -> None:
    again = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 30.00 GiB for max tokens in paged KV cache (122880).\n"
    assert numbers(reported(tensorrt_llm.LOG, TENSORRT_LLM + again), "kv_cache", "kv_tokens") == [30 * GIB, 122_880]


WHOLE_BUDGET = (
    "INFO [gpu_worker.py:794] Free memory on device (78.00/79.11 GiB) on startup. Desired GPU memory utilization is "
    "(0.92, 72.78 GiB). Actual usage is 20.5 GiB for consumed memory (weights + non-torch), 1.5 GiB for peak "
    "activation, and 0.5 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` "
    "(0.0 GiB) to fit into requested memory, or `--kv-cache-memory=2` (0.0 GiB) to fully utilize gpu memory. Current "
    "kv cache memory in use is 50.25 GiB."
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # the newest wording, in which weights and the rest are one figure
        (
            WHOLE_BUDGET,
            {
                "weights_and_non_torch": 20.5,
                "activations": 1.5,
                "graphs": 0.5,
                "kv_cache": 50.25,
                "device_memory": 79.11,
            },
        ),
        # with the device by its name
        (
            WHOLE_BUDGET.replace("on device (", "on device cuda:1 ("),
            {"weights_and_non_torch": 20.5, "free_at_start": 78.0, "device_memory": 79.11, "kv_cache": 50.25},
        ),
        (
            "non-default args: {'model': 'm', 'max_num_seqs': 64, 'gpu_memory_utilization': 0.85}",
            {"max_sequences": 64 / GIB, "memory_fraction": 0.85 / GIB},
        ),
        (
            "n2-7B-Instruct', 'max_num_seqs': 64, 'max_num_batched_tokens': 512, 'gpu_memory_utilization': 0.5}",
            {"max_sequences": 64 / GIB, "token_budget": 512 / GIB, "memory_fraction": 0.5 / GIB},
        ),
        ("Setting kv cache block size to 64 for FLASHMLA backend.", {"block_size": 64 / GIB}),
        ("Graph capturing finished in 18 secs, took 0.25 GiB", {"graphs": 0.25}),
        ("Model loading took 16.06 GiB memory and 5.1 seconds", {"weights": 16.06}),
        ("Model loading took 15.4137 GB and 9.033798 seconds", {"weights": 15.4137}),
        ("GPU + host KV cache size: 1,000 tokens", {"kv_tokens": 1000 / GIB}),
        ("INFO executor_base.py:110] # CUDA blocks: 78115, # CPU blocks: 9362", {"kv_blocks": 78115 / GIB}),
        (
            "Initial free memory 70.5 GiB, reserved 40.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes",
            {"kv_cache": 40.0},
        ),
    ],
)
def test_vllm_wordings(line: str, expected: dict[str, float]) -> None:
    values, _ = line_values(vllm.LOG, line)
    for quantity, value in expected.items():
        assert values[quantity] == pytest.approx(value * GIB)


def test_vllm_of_the_old_engine_states_blocks_and_concurrency_which_make_tokens() -> None:
    text = (
        "INFO kv_cache_utils.py:395] # GPU blocks: 1381\nINFO Maximum concurrency for 2048 tokens per request: 10.79x\n"
    )
    memory = reported(vllm.LOG, text)
    assert memory.number("kv_tokens") == pytest.approx(1381 * 16, rel=1e-3)
    assert memory.figures["kv_tokens"].formula == "max_concurrency x context_tokens"


def test_tensorrt_llm_of_the_pytorch_backend() -> None:
    start = "[12/20/2025-04:21:50] [TRT-LLM] [I] "
    text = (
        f"{start}Memory used after loading model weights (inside torch) in memory usage profiling: 60.00 GiB\n"
        f"{start}Memory used after loading model weights (outside torch) in memory usage profiling: 1.50 GiB\n"
        f"{start}Memory dynamically allocated during inference (inside torch) in memory usage profiling: 4.00 GiB\n"
        f"{start}Memory used outside torch (e.g., NCCL and CUDA graphs) in memory usage profiling: 2.00 GiB\n"
        f"{start}Peak memory during memory usage profiling (torch + non-torch): 66.00 GiB, available KV cache memory "
        "when calculating max tokens: 11.00 GiB, fraction is set 0.8999999761581421, kv size is 73728. device total "
        "memory 79.10 GiB, , tmp kv_mem 0.56 GiB\n"
        "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2080], tokens per block=32, primary "
        "blocks=5000, secondary blocks=0, max sequence length=2080\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 11.00 GiB for max tokens in paged KV cache (160000).\n"
    )
    memory = reported(tensorrt_llm.LOG, text)
    assert numbers(memory, "weights", "activations", "non_torch") == [60 * GIB, 4 * GIB, 2 * GIB]
    assert numbers(memory, "memory_fraction", "device_memory") == [0.9, round(79.1 * GIB)]
    assert numbers(memory, "kv_cache", "kv_tokens", "kv_blocks", "block_size") == [11 * GIB, 160_000, 5000, 32]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("(Worker_TP1 pid=148) INFO x", "TP1"),
        ("(Worker_PP1_TP3 pid=148) INFO x", "PP1 TP3"),
        ("(Worker_DP2_TP0_EP4 pid=148) INFO x", "DP2 TP0"),
        ("INFO (EngineCore_DP3 pid=123) GPU KV cache size", "DP3"),
        ("(EngineCore pid=4088) INFO x", ""),
        ("(VllmWorkerProcess pid=507) INFO x", "rank 507"),
        ("(VllmWorker rank=5 pid=10) INFO x", "rank 5"),
        ("(VllmWorker TP3 pid=10) INFO x", "TP3"),
        ("(RayWorkerWrapper pid=77, ip=10.0.0.2) INFO x", "rank 77"),
        ("(APIServer pid=10) INFO x", ""),
        ("INFO x", ""),
    ],
)
def test_vllm_ranks(line: str, rank: str) -> None:
    assert str(rank_of(vllm.LOG, line)) == rank


def test_vllm_sums_data_parallel_engines() -> None:
    text = "".join(f"INFO (EngineCore_DP{n} pid={n}) GPU KV cache size: {1000 + n} tokens\n" for n in range(4))
    memory = reported(vllm.LOG, text)
    assert numbers(memory, "kv_tokens") == [4006]
    assert memory.kv_caches == 4


def test_a_forced_number_of_blocks_leaves_the_rest_of_the_cache_untaken() -> None:
    text = (
        "INFO [cpu_worker.py:260] Explicitly set (2.0/8.00) GiB for KV cache on node 0.\n"
        "INFO [kv_cache_utils.py:2619] Overriding num_gpu_blocks=1000 with num_gpu_blocks_override=250\n"
        "INFO [kv_cache_utils.py:2327] CPU KV cache size: 4,000 tokens\n"
    )
    memory = reported(vllm.LOG, text)
    assert numbers(memory, "kv_cache", "kv_tokens") == [GIB // 2, 4000]


def test_an_override_printed_before_anything_was_counted_changes_nothing() -> None:
    # 0.19 and 0.20 set the blocks themselves while they profile CUDA graphs, in a cache of no bytes.
    profile = "INFO [kv_cache_utils.py:1] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=250\n"
    for text in (VLLM + profile, profile + VLLM):
        assert numbers(reported(vllm.LOG, text), "kv_cache", "kv_blocks", "kv_tokens") == [29 * GIB, None, 190_054]


def test_tokens_of_one_group_of_layers_are_not_the_tokens_of_the_cache() -> None:
    # Until about 0.20: 900 blocks of 1,000 tokens for 3 groups of layers. A request of 40,000 takes 40 blocks of the
    # one group with a cache that grows and one of each of the others: 900 / 42 = 21.43 requests, not 300,000 / 40,000.
    text = (
        "INFO [core.py:107] Initializing a V1 LLM engine (v0.19.1) with config: x\n"
        "INFO [gpu_worker.py:440] Available KV cache memory: 20.00 GiB\n"
        "INFO [kv_cache_utils.py:1337] GPU KV cache size: 300,000 tokens\n"
        "INFO [kv_cache_utils.py:1342] Maximum concurrency for 40,000 tokens per request: 21.43x\n"
    )
    tokens = reported(vllm.LOG, text).figures["kv_tokens"]
    assert tokens.value == round(21.43 * 40_000)
    assert "not the tokens of one group of layers" in tokens.formula
    assert [each.value for each in tokens.inputs if not isinstance(each, Source)] == [21.43, 40_000, 300_000]


def test_a_log_of_a_start_that_failed_says_where_it_failed() -> None:
    text = "".join(VLLM.splitlines(keepends=True)[:3]) + (
        "(EngineCore pid=9) ERROR [core.py:1330] Traceback (most recent call last):\n"
        "(EngineCore pid=9) ERROR [core.py:1330] RuntimeError: no kernel for this device\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed.\n"
    )
    with pytest.raises(InputError, match=r"failed at line 5: RuntimeError: no kernel for this device.* that succeeded"):
        reported(vllm.LOG, text)


# ---- restarts and memory that ran out -----------------------------------------------------------------


def test_an_oom_is_one_event_however_often_it_is_printed() -> None:
    text = VLLM + "".join(f"(Worker_TP0 pid=120) ERROR [core.py:{n}] {OUT_OF_MEMORY}\n" for n in range(5))
    (event,) = reported(vllm.LOG, text).oom_events
    assert (event.kind, event.while_serving) == (OomKind.DEVICE, True)
    assert event.shortfall_bytes == round(1.5 * GIB)
    assert event.source.where == f"engine.log:{len(VLLM.splitlines()) + 1}"


def test_an_oom_before_the_engine_is_up_is_a_word_too() -> None:
    memory = reported(vllm.LOG, "".join(VLLM.splitlines(keepends=True)[:5]) + OUT_OF_MEMORY + "\n")
    assert [event.while_serving for event in memory.oom_events] == [False]
    assert memory.number("kv_tokens") is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", OomKind.KV),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", OomKind.KV),
        ("  lastState: terminated: reason: OOMKilled", OomKind.HOST),
        ("Memory cgroup: Out of memory: Killed process 4711 (VLLM::Worker)", OomKind.HOST),
        ("container exited with code 137", OomKind.HOST),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB", OomKind.DEVICE),
    ],
)
def test_kinds_of_memory_that_ran_out(line: str, kind: OomKind) -> None:
    assert [event.kind for event in reported(vllm.LOG, VLLM + line + "\n").oom_events] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "If out-of-memory error occurs during cudagraph capture, consider decreasing gpu_memory_utilization",
        "INFO request 137 finished",
        "GPU memory usage 90%",
    ],
)
def test_talk_of_memory_is_no_event(line: str) -> None:
    assert reported(vllm.LOG, VLLM + line + "\n").oom_events == ()


def test_a_restarted_engine_speaks_with_its_last_start() -> None:
    second = VLLM.replace("190,054", "150,000").replace("23.20x", "18.31x").replace("41.00 GiB", "42.00 GiB")
    memory = reported(vllm.LOG, VLLM + OUT_OF_MEMORY + "\n" + second)
    assert numbers(memory, "kv_tokens", "weights") == [150_000, 42 * GIB]
    assert [source.where for source in memory.restarts] == [f"engine.log:{len(VLLM.splitlines()) + 2}"]
    assert len(memory.oom_events) == 1


def test_several_api_processes_of_one_start_are_no_restart() -> None:
    banner = VLLM.splitlines(keepends=True)[0]
    assert reported(vllm.LOG, banner * 4 + VLLM).restarts == ()


# ---- the published lines and logs ---------------------------------------------------------------------

EXPECTED = [
    {"weights": 67.7229 * GIB},
    {"kv_blocks": 1381},
    {"context_tokens": 2048, "max_concurrency": 10.79},
    {"device_memory": 23.58 * GIB, "memory_fraction": 0.99, "requested_memory": 23.35 * GIB},
    {"weights": 21.21 * GIB, "non_torch": 0.20 * GIB, "activations": 0.37 * GIB, "kv_cache": 1.57 * GIB},
    {"kv_cache": 8.11 * GIB},
    {"kv_tokens": 178_880},
    {
        "free_at_start": 177.66 * GIB,
        "device_memory": 178.36 * GIB,
        "memory_fraction": 0.9,
        "requested_memory": 160.53 * GIB,
        "weights": 8.58 * GIB,
        "activations": 9.96 * GIB,
        "non_torch": 0.07 * GIB,
        "graphs": 0.65 * GIB,
    },
    {
        "free_at_start": 60.86 * GIB,
        "device_memory": 61.27 * GIB,
        "memory_fraction": 0.9,
        "requested_memory": 55.14 * GIB,
        "weights": 1.14 * GIB,
        "activations": 0.22 * GIB,
        "non_torch": 0.13 * GIB,
        "graphs": 0.04 * GIB,
    },
    {"graphs_estimated": 0.17 * GIB},
    {"kv_cache": 15.72 * GIB},
    {"kv_cache": 6.87 * GIB},
    {"kv_tokens": 215_401},
    {"context_tokens": 8192, "max_concurrency": 26.29},
    {"kv_tokens": 11_577_333},
    {"kv_tokens": 524_288, "context_tokens": 1024, "max_concurrency": 512.0},
    {"kv_cache": 1.0 * GIB, "device_memory": 23.54 * GIB},
    {"kv_usage": 0.974},
    {"kv_tokens": 2_795_207, "kv_cache": 106.62 * GIB},
    {"free_after_start": 11.87 * GIB},
    {"graphs": 1.44 * GIB},
    {"weights": 15.50 * GIB},
    {"kv_tokens": 2_206_208, "kv_cache": 134.66 * GIB},
    {"kv_tokens": 367_404, "kv_cache": 16.46 * GIB},
    {"kv_tokens": 1_172_224, "token_budget": 4096},
    {"kv_cache": 69_524_783_104},
    {"kv_tokens": 132_608},
]
"""What each line of engine_startup_lines.tsv states, in its order."""


def test_all_27_published_lines_are_read(shared_data: Path) -> None:
    path = shared_data / "engines" / "logs" / "engine_startup_lines.tsv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == len(EXPECTED) == 27
    for row, expected in zip(rows, EXPECTED, strict=True):
        log = LOGS[row["engine"]]
        values, _ = line_values(log, row["line"])
        assert values == pytest.approx(expected), row["line"]
        assert recognises(log, row["line"]), row["line"]
        assert not any(recognises(other, row["line"]) for other in LOGS.values() if other is not log)


def test_kv_bytes_per_token_of_published_lines_match_the_models_arithmetic() -> None:
    """2 x layers x kv heads x 128 channels x 2 bytes / tp: Qwen3-235B tp4, Qwen3-32B tp4, Llama-2-7B tp1."""
    pairs = [
        ((8.23 + 8.23) * GIB / 367_404, 2 * 94 * 4 * 128 * 2 / 4),
        ((67.33 + 67.33) * GIB / 2_206_208, 2 * 64 * 8 * 128 * 2 / 4),
        (69_524_783_104 / 132_608, 2 * 32 * 32 * 128 * 2 / 1),
    ]
    for stated, computed in pairs:
        assert stated == pytest.approx(computed, rel=1e-3)


@pytest.mark.parametrize(
    ("log", "metrics", "kv_tokens", "usage"),
    [
        ("vllm_0.32.0_cpu_serve.log", "vllm_0.32.0_cpu_metrics.txt", 524_288, 0.001),
        ("vllm_0.32.0_cpu_serve_smallkv.log", "vllm_0.32.0_cpu_metrics_overload_preempt_abort.txt", 1280, 0.974),
    ],
)
def test_the_published_cpu_logs_and_their_metrics_agree(
    shared_data: Path, log: str, metrics: str, kv_tokens: int, usage: float
) -> None:
    paths = [shared_data / "engines" / "vllm" / log, shared_data / "engines" / "prometheus" / metrics]
    alone = read_engine_report(paths[0], date=DATE, engine="vllm")
    both = read_engine_reports(paths, date=DATE)
    for memory in (alone, both):
        assert (memory.engine, memory.version) == ("vllm", "0.32.0")
        assert memory.number("kv_tokens") == kv_tokens
        assert memory.kv_bytes_per_token == 2048
        assert memory.number("kv_usage") == pytest.approx(usage)
        assert memory.oom_events == ()


def test_logs_of_two_deployments_disagree(shared_data: Path) -> None:
    folder = shared_data / "engines" / "vllm"
    with pytest.raises(InputError, match=r"disagree"):
        read_engine_reports(
            [folder / "vllm_0.32.0_cpu_serve.log", folder / "vllm_0.32.0_cpu_serve_smallkv.log"], date=DATE
        )


def test_a_time_series_of_scrapes_keeps_the_highest_use(shared_data: Path) -> None:
    path = shared_data / "engines" / "prometheus" / "vllm_0.32.0_cpu_scrape_timeseries_overload.txt"
    memory = read_engine_report(path, date=DATE)
    assert numbers(memory, "kv_tokens", "kv_usage") == [1280, 1.0]
