"""Shares of a device's peak that single kernels reach, as a check of the fitted efficiencies.

Needs PyTorch and a GPU, neither of which ullage depends on: `python bench/kernel_efficiency.py BANDWIDTH BF16 FP8`
with the device's peak in TB/s and TFLOP/s. Prints a Markdown table.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    torch: Any = importlib.import_module("torch")
    bandwidth, bf16, fp8 = (float(text) * 1e12 for text in sys.argv[1:4])
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
    print("| kernel | time | share of peak |\n|---|---|---|")
    for tokens in (1, 16, 64):
        seconds, read = _matrix(torch, tokens, torch.bfloat16)
        print(
            f"| bf16 matrix 8192 x 28672, {tokens} tokens | {seconds * 1e6:.0f} us | {read / seconds / bandwidth:.2f} |"
        )
    for tokens in (1024, 8192):
        seconds, _ = _matrix(torch, tokens, torch.bfloat16)
        share = 2.0 * tokens * 8192 * 28672 / seconds / bf16
        print(f"| bf16 matrix, {tokens} tokens | {seconds * 1e6:.0f} us | {share:.2f} |")
        seconds, _ = _matrix(torch, tokens, torch.float8_e4m3fn)
        share = 2.0 * tokens * 8192 * 28672 / seconds / fp8
        print(f"| fp8 matrix, {tokens} tokens | {seconds * 1e6:.0f} us | {share:.2f} |")
    for heads, context in ((32, 4096), (8, 4096), (8, 32768)):
        seconds, read = _decode_attention(torch, heads, context)
        label = f"decode attention, 32 sequences of {context}, {heads} KV heads"
        print(f"| {label} | {seconds * 1e6:.0f} us | {read / seconds / bandwidth:.2f} |")
    seconds, flops = _prefill_attention(torch, 8192)
    print(f"| prefill attention, 8192 tokens, 32 heads | {seconds * 1e6:.0f} us | {flops / seconds / bf16:.2f} |")


def _timed(torch: Any, call: Callable[[], object], rounds: int = 30) -> float:
    """Seconds a call takes, replayed from a graph so that launching does not count."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(rounds):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / rounds


def _matrix(torch: Any, tokens: int, dtype: Any) -> tuple[float, float]:
    """Several weights in turn, so that none stays in the cache of the chip."""
    weights = [torch.randn(28672, 8192, device="cuda").to(dtype) for _ in range(3)]
    vectors = torch.randn(tokens, 8192, device="cuda").to(dtype)
    scale = torch.ones((), device="cuda")

    def call() -> None:
        for weight in weights:
            if dtype == torch.bfloat16:
                vectors @ weight.T
            else:
                torch._scaled_mm(vectors, weight.T, scale, scale, out_dtype=torch.bfloat16)  # noqa: SLF001

    return _timed(torch, call) / len(weights), float(weights[0].numel() * weights[0].element_size())


def _decode_attention(torch: Any, heads: int, context: int) -> tuple[float, float]:
    shape = (32, heads, context, 128)
    keys, values = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    query = torch.randn((32, heads, 32 // heads, 128), device="cuda", dtype=torch.bfloat16)
    attend = torch.nn.functional.scaled_dot_product_attention
    seconds = _timed(torch, lambda: attend(query, keys, values))
    return seconds, float(2 * keys.numel() * 2)


def _prefill_attention(torch: Any, tokens: int) -> tuple[float, float]:
    shape = (1, 32, tokens, 128)
    query, keys, values = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    seconds = _timed(torch, lambda: attend(query, keys, values, is_causal=True))
    return seconds, 2.0 * tokens * tokens * 128 * 32


if __name__ == "__main__":
    main()
