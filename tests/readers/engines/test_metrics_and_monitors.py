"""Metrics pages and device monitors: the figures, their units, and what each refuses."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from support.engine_logs import DCGM, METRICS, NVIDIA_SMI, NVIDIA_SMI_TABLE, VLLM
from ullage.errors import InputError
from ullage.readers.engines import device_monitor, metrics, read_engine_report

DATE = datetime.date(2026, 11, 15)
MIB = 2**20


def test_vllm_blocks_times_their_size_are_tokens() -> None:
    memory = metrics.read(METRICS, file="m.txt", date=DATE)
    assert memory.engine == "vllm"
    assert memory.number("kv_blocks") == 11_878
    assert memory.number("kv_tokens") == 11_878 * 16
    assert memory.number("memory_fraction") == 0.92
    assert memory.number("kv_usage") == 0.25
    assert memory.number("kv_cache") is None, "the label says None"


def test_vllm_data_parallel_engines_are_summed() -> None:
    one = next(line for line in METRICS.splitlines() if line.startswith("vllm:cache_config_info"))
    memory = metrics.read(one + "\n" + one.replace('engine="0"', 'engine="1"') + "\n", file="m.txt", date=DATE)
    assert memory.number("kv_tokens") == 2 * 11_878 * 16


def test_sglang_gigabytes_are_gibibytes_and_ranks_are_one_cache() -> None:
    text = "".join(
        f'sglang:max_total_num_tokens{{model_name="m",tp_rank="{rank}",pp_rank="0"}} 600000.0\n'
        f'sglang:weight_memory_usage_gb{{model_name="m",tp_rank="{rank}",pp_rank="0"}} {40 + rank}.5\n'
        f'sglang:kv_cache_memory_usage_gb{{model_name="m",tp_rank="{rank}",pp_rank="0"}} 60.0\n'
        for rank in (0, 1)
    )
    memory = metrics.read(text, file="m.txt", date=DATE)
    assert memory.engine == "sglang"
    assert memory.number("kv_tokens") == 600_000
    assert memory.number("weights") == 41.5 * 2**30
    assert memory.kv_bytes_per_token == 60 * 2**30 / 600_000


TRITON = (
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="m",version="1"} 4032\n'
    'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="m",version="1"} 64\n'
)


@pytest.mark.parametrize(
    "text",
    [
        "trtllm_kv_cache_max_blocks 4032\ntrtllm_kv_cache_tokens_per_block 64\n",
        TRITON,
    ],
    ids=["trtllm-serve", "triton"],
)
def test_tensorrt_llm_blocks(text: str) -> None:
    memory = metrics.read(text, file="m.txt", date=DATE)
    assert (memory.engine, memory.number("kv_tokens")) == ("tensorrt-llm", 258_048)


def test_a_page_of_two_engines_is_refused() -> None:
    with pytest.raises(InputError, match="several engines"):
        metrics.read(METRICS + "sglang:max_total_num_tokens 5\n", file="m.txt", date=DATE)


def test_a_page_without_capacity_is_refused() -> None:
    with pytest.raises(InputError, match="does not state the KV capacity"):
        metrics.read('vllm:num_requests_running{engine="0"} 3\n', file="m.txt", date=DATE)


def test_nvidia_smi_peak_is_of_the_fullest_device_over_time() -> None:
    memory = device_monitor.read_nvidia_smi(NVIDIA_SMI, file="smi.csv", date=DATE)
    assert memory.engine == ""
    assert memory.number("resident_peak") == 130_000 * MIB
    assert memory.number("resident_last") == 128_500 * MIB
    assert memory.number("device_memory") == 143_771 * MIB


def test_nvidia_smi_of_one_device_without_clock() -> None:
    memory = device_monitor.read_nvidia_smi("memory.used [MiB]\n10 MiB\n30 MiB\n20 MiB\n", file="smi.csv", date=DATE)
    assert memory.number("resident_peak") == 30 * MIB


def test_the_table_of_nvidia_smi_is_read_device_by_device_and_print_by_print() -> None:
    later = NVIDIA_SMI_TABLE.replace("130000MiB", "131000MiB").replace("128500MiB", "  1200MiB")
    memory = device_monitor.read_nvidia_smi_table(NVIDIA_SMI_TABLE + later, file="smi.txt", date=DATE)
    assert memory.number("resident_peak") == memory.number("resident_last") == 131_000 * MIB
    assert memory.number("device_memory") == 143_771 * MIB
    shared = NVIDIA_SMI_TABLE.replace("130000MiB / 143771MiB", "Not Supported        ")
    with pytest.raises(InputError, match=r"smi\.txt:10 = 'Not Supported': .*Give the engine's log"):
        device_monitor.read_nvidia_smi_table(shared, file="smi.txt", date=DATE)


def test_a_log_that_begins_with_the_table_of_nvidia_smi_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "boot.log"
    path.write_text(NVIDIA_SMI_TABLE + VLLM)
    assert read_engine_report(path, date=DATE).engine == "vllm"


def test_dcgm_monitor_and_csv_say_the_same() -> None:
    table = device_monitor.read_dcgm(DCGM, file="dmon.txt", date=DATE)
    sheet = device_monitor.read_dcgm(
        "timestamp,gpu,DCGM_FI_DEV_FB_USED,DCGM_FI_DEV_FB_FREE\n"
        "1763190000,0,1000,142771\n1763190000,1,1100,142671\n"
        "1763190001,0,130000,13771\n1763190001,1,129000,14771\n",
        file="dcgm.csv",
        date=DATE,
    )
    for memory in (table, sheet):
        assert memory.number("resident_peak") == 130_000 * MIB
        assert memory.number("device_memory") == 143_771 * MIB


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NVIDIA_SMI.replace("130000 MiB", "[N/A]"), "not a number of MiB"),
        (NVIDIA_SMI.splitlines()[0] + "\n", "no sample"),
    ],
)
def test_a_damaged_monitor_file_is_refused_by_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        device_monitor.read_nvidia_smi(text, file="smi.csv", date=DATE)


def test_columns_of_a_monitor_in_any_order_and_without_units() -> None:
    plain = device_monitor.read_nvidia_smi(
        "index, memory.used [MiB], memory.total [MiB]\n0, 100 MiB, 46068 MiB\n1, 300 MiB, 46068 MiB\n",
        file="smi.csv",
        date=DATE,
    )
    for text in (
        "memory.total, utilization.gpu [%], memory.used, index\n46068, 3 %, 100, 0\n46068, 4 %, 300, 1\n",
        "gpu_index,mem_total_mib,mem_used_mib\n0,46068,100\n1,46068,300\n",
    ):
        assert device_monitor.recognises_nvidia_smi(text)
        other = device_monitor.read_nvidia_smi(text, file="smi.csv", date=DATE)
        for quantity, known in {"resident_peak": 300, "resident_last": 300, "device_memory": 46068}.items():
            assert other.number(quantity) == plain.number(quantity) == known * MIB


def test_a_page_of_the_dcgm_exporter_is_read_scrape_by_scrape() -> None:
    page = """# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used in MiB.
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-a",modelName="NVIDIA L40S"}} {used}
DCGM_FI_DEV_FB_USED{{gpu="1",UUID="GPU-b",modelName="NVIDIA L40S"}} 7
# HELP DCGM_FI_DEV_FB_FREE Framebuffer memory free in MiB.
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{{gpu="0",UUID="GPU-a",modelName="NVIDIA L40S"}} {free}
DCGM_FI_DEV_FB_FREE{{gpu="1",UUID="GPU-b",modelName="NVIDIA L40S"}} 46061
"""
    text = page.format(used=100, free=45968) + page.format(used=300, free=45768)
    assert device_monitor.recognises_dcgm(text)
    found = device_monitor.read_dcgm(text, file="dcgm.prom", date=DATE)
    assert found.number("resident_peak") == 300 * MIB
    peaks = {each.rank.within: each.figure.value for each in found.ranks if each.quantity == "resident_peak"}
    assert peaks == {"device 0": 300 * MIB, "device 1": 7 * MIB}
    assert found.number("device_memory") == 46068 * MIB


@pytest.mark.parametrize("name", ["dcgm-sample.prom", "nvidia-smi-sample.csv", "club_gpu_monitor.csv"])
def test_monitors_of_others_are_read(shared_data: Path, name: str) -> None:
    found = read_engine_report(shared_data / "found" / name, date=DATE)
    assert (found.number("resident_peak") or 0) > 2**30
