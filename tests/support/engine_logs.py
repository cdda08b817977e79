"""Small logs, metrics pages and monitor files, written for the tests in the engines' own formats."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "readers" / "engines" / "samples"


def _sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def _first_lines(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[:lines])


VLLM = _sample("vllm.log")
SGLANG = _sample("sglang.log")
TENSORRT_LLM = _sample("tensorrt_llm.log")
METRICS = _sample("vllm_metrics.txt")
NVIDIA_SMI = _sample("nvidia_smi.csv")
NVIDIA_SMI_TABLE = _sample("nvidia_smi_table.txt")
DCGM = _sample("dcgm_dmon.txt")

GOOD_AND_CUT = {
    "vllm": (VLLM, _first_lines(VLLM, 5)),
    "sglang": (SGLANG, _first_lines(SGLANG, 6)),
    "tensorrt-llm": (TENSORRT_LLM, _first_lines(TENSORRT_LLM, 5)),
    "metrics": (METRICS, METRICS[: METRICS.index('gpu_memory_utilization="0.92"')]),
    "nvidia-smi": (NVIDIA_SMI, NVIDIA_SMI[: NVIDIA_SMI.rindex("NVIDIA H200")]),
    "nvidia-smi table": (NVIDIA_SMI_TABLE, _first_lines(NVIDIA_SMI_TABLE, 9)),
    "dcgm": (DCGM, DCGM[: DCGM.rindex("129000")]),
}
"""Reader -> a good file, and the same file cut short where it matters."""

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 512.00 MiB is free. Process 4242 has 78.60 GiB memory in use."
)
