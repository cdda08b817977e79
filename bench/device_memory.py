"""What a serving process takes of a CUDA device beside weights and cache: run on the device, needs torch.

    python bench/device_memory.py

Prints what the driver reports in total, what a bare context takes, what the first matrix product adds, the peak
of one Llama-shaped layer and of a sampler against their formulas in memory/activations.py, what the caching
allocator reserves beyond that peak, and what a captured CUDA graph costs per kernel. The figures that this
program assumes in facts/engines were checked against one run of this script; see bench/RESULTS.md.
"""

from __future__ import annotations

import importlib
import json
import resource
from typing import Any

torch: Any = importlib.import_module("torch")

STEP_TOKENS, SEQUENCES = 8192, 1024
HIDDEN, INNER, QUERY_HEADS, KV_HEADS, HEAD, VOCABULARY = 4096, 14336, 32, 8, 128, 128256


def used_bytes() -> int:
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def layer(hidden: Any, residual: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
    """One decoder layer as engines run it: norm, attention, norm, gated feed-forward."""
    functional = torch.nn.functional
    residual = hidden if residual is None else hidden + residual
    hidden = functional.rms_norm(residual, (HIDDEN,))
    mixed = hidden @ weights["qkv"]
    query, key, value = mixed.split([QUERY_HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], dim=-1)
    heads = [each.view(1, -1, count, HEAD).transpose(1, 2) for each, count in ((query, 32), (key, 8), (value, 8))]
    attended = functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
    hidden = attended.transpose(1, 2).reshape(-1, HIDDEN) @ weights["out"]
    del mixed, query, key, value, heads, attended
    residual = hidden + residual
    hidden = functional.rms_norm(residual, (HIDDEN,))
    both = hidden @ weights["gate_up"]
    del hidden
    gate, up = both.chunk(2, dim=-1)
    inner = functional.silu(gate).mul_(up)
    del both, gate, up
    return inner @ weights["down"], residual


def random_weights() -> dict[str, Any]:
    shapes = {
        "qkv": (HIDDEN, (QUERY_HEADS + 2 * KV_HEADS) * HEAD),
        "out": (QUERY_HEADS * HEAD, HIDDEN),
        "gate_up": (HIDDEN, 2 * INNER),
        "down": (INNER, HIDDEN),
    }
    return {name: torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.01 for name, shape in shapes.items()}


def peak_of(run: Any) -> tuple[int, int]:
    """Bytes allocated at the peak of `run` beyond those before it, and bytes reserved beyond that peak."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    reserved_before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    reserved = torch.cuda.max_memory_reserved() - reserved_before
    return peak, reserved - peak


def sample(logits: Any) -> Any:
    wide = logits.to(torch.float32)
    chances = torch.softmax(wide, dim=-1, dtype=torch.float32)
    return chances.argmax(dim=-1)


def graph_bytes(weights: dict[str, Any], layers: int, sizes: list[int]) -> int:
    """Device bytes that capturing one decode graph per size takes, with one shared pool."""
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
    inputs = [torch.randn((size, HIDDEN), device="cuda", dtype=torch.bfloat16) for size in sizes]
    with torch.cuda.stream(stream):
        for hidden in inputs:
            decode(hidden, weights, layers)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = used_bytes()
    graphs = []
    for hidden in inputs:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            decode(hidden, weights, layers)
        graphs.append(graph)
    return used_bytes() - before


def decode(hidden: Any, weights: dict[str, Any], layers: int) -> Any:
    residual = None
    for _ in range(layers):
        hidden, residual = layer(hidden, residual, weights)
    return hidden


def kernels_of(weights: dict[str, Any], layers: int) -> int:
    hidden = torch.randn((64, HIDDEN), device="cuda", dtype=torch.bfloat16)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        decode(hidden, weights, layers)
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages())


def kept_by_libraries(out: dict[str, Any], weights: dict[str, Any]) -> None:
    """What the first layer adds for good: code modules outside torch, and the workspace of matrix products."""
    small = torch.randn((64, HIDDEN), device="cuda", dtype=torch.bfloat16)
    layer(small, None, weights)
    torch.cuda.empty_cache()
    out["non_torch_bytes"] = used_bytes() - torch.cuda.memory_reserved() - out["context_bytes"]
    known = small.nbytes + sum(each.nbytes for each in weights.values())
    out["matrix_workspace_bytes"] = torch.cuda.memory_allocated() - known


def peaks(out: dict[str, Any], weights: dict[str, Any]) -> None:
    hidden = torch.randn((STEP_TOKENS, HIDDEN), device="cuda", dtype=torch.bfloat16)
    out["layers_peak_bytes"], out["layers_reserved_beyond_bytes"] = peak_of(lambda: decode(hidden, weights, 4))
    out["layers_formula_bytes"] = STEP_TOKENS * (2 * HIDDEN + 3 * INNER) * 2
    logits = torch.randn((SEQUENCES, VOCABULARY), device="cuda", dtype=torch.bfloat16)
    peak, out["sampler_reserved_beyond_bytes"] = peak_of(lambda: sample(logits))
    out["sampler_peak_bytes"] = peak + logits.nbytes
    out["sampler_formula_bytes"] = SEQUENCES * VOCABULARY * 10


def main() -> None:
    out: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    out["device"] = torch.cuda.get_device_name()
    out["total_bytes"] = int(torch.cuda.mem_get_info()[1])
    out["context_bytes"] = used_bytes()
    with torch.inference_mode():
        weights = random_weights()
        kept_by_libraries(out, weights)
        peaks(out, weights)
        torch.cuda.empty_cache()
        for layers in (8, 32):
            out[f"graph_{layers}_layers_kernels"] = kernels_of(weights, layers)
            out[f"graph_{layers}_layers_8_sizes_bytes"] = graph_bytes(weights, layers, [256, 128, 64, 32, 16, 8, 4, 2])
    out["host_peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
