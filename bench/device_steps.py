"""Times the kernels of a serving step on the device at hand and writes them as a device fact.

    python bench/device_steps.py --out device_steps.json
    python bench/device_steps.py --small            a minute on a CPU: that the script runs, not a figure

Needs PyTorch and the standard library alone, so it can be copied to any machine with an accelerator. What a device or a
version of PyTorch cannot do is listed with its reason under `missing`; everything else is measured all the same.

    matrices     bf16, fp8 with one scale for each matrix, fp8 with a scale for each row: by tokens and shape
    experts      the grouped product of few wide and of many narrow experts, by tokens for each expert
    attention    prefills by length; decode steps by sequences and context, for grouped and latent heads
    memory       reading, and copying
    launches     kernels one by one, and replayed from a graph
    collectives  all-reduce and all-to-all by size, where there are several devices
    sustained    the matrix rate at the start and at the end of ten seconds, with clock and power
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import importlib
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MATRICES = ((8192, 28672), (4096, 6144), (7168, 2304), (2048, 4096))
"""Channels in and out: a wide feed-forward, an attention projection, latent attention, and a sharded slice."""
TOKENS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
EXPERTS = ((8, 4096, 14336), (8, 6144, 4096), (128, 2048, 1536), (128, 4096, 1536), (256, 7168, 512), (32, 7168, 4096))
"""Experts, channels in and out: wide ones as Mixtral's, and narrow ones, whole or sharded."""
TOKENS_PER_EXPERT = (1, 4, 16, 64, 256, 1024)
PREFILLS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
DECODES = ((1, 4096), (1, 65536), (8, 4096), (32, 1024), (32, 4096), (32, 32768), (128, 1024), (128, 4096))
MESSAGE_BYTES = (1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 28)
CACHE_BYTES = 512 << 20
"""More than any chip keeps near its cores: weights are rotated through so much that each product reads its own."""
SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One timed kernel: what it was, how long it took, and the bytes it read and operations it did."""

    kind: str
    name: str
    seconds: float
    read_bytes: float = 0.0
    flops: float = 0.0
    tokens: int = 0

    @property
    def bytes_per_s(self) -> float:
        return self.read_bytes / self.seconds

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds


@dataclass(kw_only=True)
class Measured:
    """What was measured on one device, and what could not be."""

    device: dict[str, object]
    kernels: list[Kernel] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        kernels = [{**asdict(each), "bytes_per_s": each.bytes_per_s, "flops_per_s": each.flops_per_s}
                   for each in self.kernels]  # fmt: skip
        return {"device": self.device, "fact": fact_of(self.kernels), "missing": self.missing, "kernels": kernels}


def fact_of(kernels: list[Kernel]) -> dict[str, float]:
    """The values of a device sheet: the best rate of each kind that was reached, and what a launch costs."""

    def best(kind: str, rate: str) -> float | None:
        return max((getattr(each, rate) for each in kernels if each.kind == kind), default=None)

    def median(kind: str) -> float | None:
        times = [each.seconds for each in kernels if each.kind == kind]
        return statistics.median(times) if times else None

    found = {
        "memory_bandwidth_achieved": best("memory", "bytes_per_s"),
        "bf16_achieved": best("bf16", "flops_per_s"),
        "fp8_achieved": best("fp8", "flops_per_s"),
        "fp8_rows_achieved": best("fp8 rows", "flops_per_s"),
        "expert_bf16_achieved": best("experts", "flops_per_s"),
        "attention_bf16_achieved": best("prefill attention", "flops_per_s"),
        "kv_bandwidth_achieved": best("decode attention", "bytes_per_s"),
        "launch_s": median("launch"),
        "graph_kernel_s": median("graph launch"),
    }
    return {name: value for name, value in found.items() if value is not None}


class Bench:
    """Kernels on one device of PyTorch."""

    def __init__(self, torch: Any, *, small: bool) -> None:
        self.torch, self.small = torch, small
        self.name = "cuda" if torch.cuda.is_available() else "cpu"
        self.measured = Measured(device=_identity(torch, self.name))

    def run(self) -> Measured:
        parts = (self.memory, self.launches, self.matrices, self.experts, self.prefills, self.decodes, self.latent,
                 self.sustained, self.collectives)  # fmt: skip
        for part in parts:
            with self._tried(part.__name__):
                part()
        return self.measured

    @contextlib.contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Whatever a device or a version refuses is a finding and no reason to stop."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.measured.missing[what] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if self.name == "cuda":
            self.torch.cuda.empty_cache()

    def add(
        self, kind: str, name: str, seconds: float, *, read: float = 0.0, flops: float = 0.0, tokens: int = 0
    ) -> None:
        kernel = Kernel(kind=kind, name=name, seconds=seconds, read_bytes=read, flops=flops, tokens=tokens)
        self.measured.kernels.append(kernel)

    def random(self, *shape: int, dtype: str = "bfloat16") -> Any:
        values = self.torch.randn(shape, device=self.name, dtype=self.torch.bfloat16)
        return values.to(getattr(self.torch, dtype))

    def timed(self, call: Callable[[], object], *, least_s: float = 0.02) -> float:
        """Seconds of one call: the median of five runs, replayed from a graph where there are graphs."""
        for _ in range(3):
            call()
        if self.name != "cuda":
            started = time.perf_counter()
            call()
            return time.perf_counter() - started
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            call()
        once = self._elapsed(graph.replay, 3)
        rounds = max(3, min(300, int(least_s / max(once, 1e-7))))
        return statistics.median(self._elapsed(graph.replay, rounds) for _ in range(5))

    def _elapsed(self, call: Callable[[], object], rounds: int) -> float:
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(rounds):
            call()
        end.record()
        self.torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / rounds

    def memory(self) -> None:
        count = (1 << 20) if self.small else (1 << 32)
        values = self.random(count)
        size = 2.0 * count
        self.add("memory", f"sum of {size / 2**30:.3g} GiB", self.timed(values.sum), read=size)
        half = values[: count // 2]
        target = self.torch.empty_like(half)
        self.add("memory", "copy, read and written", self.timed(lambda: target.copy_(half)), read=size)

    def launches(self) -> None:
        one = self.random(1, 1024)
        count = 100 if self.small else 1000

        def many() -> None:
            for _ in range(count):
                one.add_(1.0)

        self.add("graph launch", f"{count} additions of 1,024 values", self.timed(many) / count)
        times = []
        for _ in range(5):
            started = time.perf_counter()
            many()
            self._wait()
            times.append((time.perf_counter() - started) / count)
        self.add("launch", f"{count} additions of 1,024 values", statistics.median(times))
        for channels in (4096, 8192):
            hidden, weight = self.random(64, channels), self.random(channels)
            norm = self.torch.nn.functional.rms_norm
            self.add("norm", f"64 tokens of {channels}", self.timed(lambda: norm(hidden, (channels,), weight)))  # noqa: B023

    def _wait(self) -> None:
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def matrices(self) -> None:
        for inner, outer in MATRICES[: 1 if self.small else None]:
            for tokens in TOKENS[: 2 if self.small else None]:
                for kind in ("bf16", "fp8", "fp8 rows"):
                    with self._tried(f"{kind} {tokens} x {inner} x {outer}"):
                        self._matrix(kind, tokens, inner, outer)

    def _matrix(self, kind: str, tokens: int, inner: int, outer: int) -> None:
        torch, width = self.torch, 2 if kind == "bf16" else 1
        copies = 1 if self.small else max(2, min(64, CACHE_BYTES // (inner * outer * width) + 1))
        dtype = "bfloat16" if kind == "bf16" else "float8_e4m3fn"
        weights = [self.random(outer, inner, dtype=dtype) for _ in range(copies)]
        # fp8 products want a multiple of 16 rows; engines pad as well.
        rows = tokens if kind == "bf16" else max(16, tokens)
        hidden = self.random(rows, inner, dtype=dtype)
        one = torch.ones((), device=self.name)
        each = (torch.ones((rows, 1), device=self.name), torch.ones((1, outer), device=self.name))

        def call() -> None:
            for weight in weights:
                if kind == "bf16":
                    torch.matmul(hidden, weight.T)
                else:
                    scales = (one, one) if kind == "fp8" else each
                    torch._scaled_mm(hidden, weight.T, *scales, out_dtype=torch.bfloat16)  # noqa: SLF001

        name = f"{tokens} x {inner} x {outer}"
        size, work = float(inner * outer * width), 2.0 * tokens * inner * outer
        self.add(kind, name, self.timed(call) / copies, read=size, flops=work, tokens=tokens)

    def experts(self) -> None:
        for experts, inner, outer in EXPERTS[: 1 if self.small else None]:
            for tokens in TOKENS_PER_EXPERT[: 1 if self.small else None]:
                with self._tried(f"experts {experts} x {tokens} x {inner} x {outer}"):
                    self._experts(experts, tokens, inner, outer)

    def _experts(self, experts: int, tokens: int, inner: int, outer: int) -> None:
        torch = self.torch
        weights = self.random(experts, outer, inner)
        hidden = self.random(experts * tokens, inner)
        ends = torch.arange(1, experts + 1, device=self.name, dtype=torch.int32) * tokens

        def call() -> None:
            torch._grouped_mm(hidden, weights.transpose(1, 2), offs=ends)  # noqa: SLF001

        name = f"{experts} experts x {tokens} x {inner} x {outer}"
        size, work = 2.0 * experts * inner * outer, 2.0 * experts * tokens * inner * outer
        self.add("experts", name, self.timed(call), read=size, flops=work, tokens=tokens)

    def prefills(self) -> None:
        heads, channels = 32, 128
        for tokens in PREFILLS[: 1 if self.small else None]:
            with self._tried(f"prefill attention {tokens}"):
                query, keys, values = (self.random(1, heads, tokens, channels) for _ in range(3))
                seconds = self.timed(lambda: self._attend(query, keys, values, is_causal=True))  # noqa: B023
                work = 2.0 * tokens * tokens * channels * heads
                self.add("prefill attention", f"{tokens} tokens, {heads} heads", seconds, flops=work, tokens=tokens)

    def decodes(self) -> None:
        for sequences, context in DECODES[: 1 if self.small else None]:
            with self._tried(f"decode attention {sequences} x {context}"):
                keys, values = (self.random(sequences, 8, context, 128) for _ in range(2))
                query = self.random(sequences, 8, 4, 128)
                seconds = self.timed(lambda: self._attend(query, keys, values))  # noqa: B023
                name = f"{sequences} sequences of {context}, 8 KV heads"
                size, work = 4.0 * keys.numel(), 4.0 * 4 * keys.numel()
                self.add("decode attention", name, seconds, read=size, flops=work, tokens=sequences)

    def latent(self) -> None:
        """Latent attention when decoding: 128 queries look at one latent of 512 + 64 channels, by two products."""
        for sequences, context in DECODES[: 1 if self.small else None]:
            with self._tried(f"latent attention {sequences} x {context}"):
                latent, query = self.random(sequences, context, 576), self.random(sequences, 128, 576)

                def call() -> None:
                    scores = self.torch.softmax(query @ latent.transpose(1, 2), -1)  # noqa: B023
                    scores @ latent[:, :, :512]  # noqa: B023

                size, work = 2.0 * latent.numel(), 2.0 * 128 * (576 + 512) * sequences * context
                name = f"{sequences} sequences of {context}, 128 heads"
                self.add("latent attention", name, self.timed(call), read=size, flops=work, tokens=sequences)

    def _attend(self, *heads: Any, is_causal: bool = False) -> Any:
        return self.torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=is_causal)

    def sustained(self) -> None:
        """Whether power or heat take the clock down: the same product for ten seconds."""
        side = 256 if self.small else 8192
        left, right = self.random(side, side), self.random(side, side)
        limit = time.perf_counter() + (0.2 if self.small else SECONDS)
        rates = []
        while time.perf_counter() < limit:
            started = time.perf_counter()
            for _ in range(20):
                left @ right
            self._wait()
            rates.append(20 * 2.0 * side**3 / (time.perf_counter() - started))
        tenth = max(1, len(rates) // 10)
        self.measured.device["sustained"] = {
            "first_flops_per_s": statistics.median(rates[:tenth]),
            "last_flops_per_s": statistics.median(rates[-tenth:]),
            "state": _smi("clocks.sm,clocks.mem,power.draw,temperature.gpu"),
        }

    def collectives(self) -> None:
        count = self.torch.cuda.device_count() if self.name == "cuda" else 0
        if count < 2:
            self.measured.missing["collectives"] = f"{count} device"
            return
        queue = self.torch.multiprocessing.get_context("spawn").Queue()
        self.torch.multiprocessing.spawn(_collectives, args=(count, queue), nprocs=count)
        for name, size, seconds in queue.get():
            self.add(name, f"{size} bytes over {count} devices", seconds, read=float(size))


def _collectives(rank: int, count: int, queue: Any) -> None:
    torch: Any = importlib.import_module("torch")
    torch.cuda.set_device(rank)
    where = "tcp://127.0.0.1:29555"
    torch.distributed.init_process_group("nccl", init_method=where, rank=rank, world_size=count)
    found = []
    for size in MESSAGE_BYTES:
        one, other = (torch.ones(size // 2, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        calls: dict[str, Callable[[], object]] = {
            "all-reduce": functools.partial(torch.distributed.all_reduce, one),
            "all-to-all": functools.partial(torch.distributed.all_to_all_single, other, one),
        }
        for name, call in calls.items():
            for _ in range(5):
                call()
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(50):
                call()
            torch.cuda.synchronize()
            found.append((name, size, (time.perf_counter() - started) / 50))
    if rank == 0:
        queue.put(found)
    torch.distributed.destroy_process_group()


def _identity(torch: Any, name: str) -> dict[str, object]:
    found: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "torch": str(torch.__version__),
        "name": torch.cuda.get_device_name() if name == "cuda" else "CPU",
    }
    if name == "cuda":
        found |= {
            "devices": torch.cuda.device_count(),
            "memory_bytes": torch.cuda.mem_get_info()[1],
            "state": _smi("driver_version,power.limit,clocks.max.sm,clocks.max.mem"),
        }
    return found


def _smi(fields: str) -> str:
    """What nvidia-smi says of the first device, or nothing where there is none."""
    command = ("nvidia-smi", f"--query-gpu={fields}", "--format=csv", "-i", "0")
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="file to write, JSON; standard output when not given")
    parser.add_argument("--small", action="store_true", help="few and small kernels")
    options = parser.parse_args()
    measured = Bench(importlib.import_module("torch"), small=options.small).run()
    text = json.dumps(measured.document(), indent=1) + "\n"
    if options.out is None:
        print(text, end="")
    else:
        options.out.write_text(text)
        print(json.dumps(measured.document()["fact"], indent=1))


if __name__ == "__main__":
    main()
