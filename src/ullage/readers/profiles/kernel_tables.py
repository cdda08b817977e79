"""Steps that AIConfigurator or AISimulate add up from kernels measured by NVIDIA, as rows of our profile table.

Both packages answer the same questions by the same public class, `sdk.engine.EngineHandle` of their core. None of their
data is in ullage: they are asked for steps on a grid, and the answers are the profile. This file needs the standard
library alone, so that it runs in the environment of the package, where ullage is not installed:

    their-environment/bin/python kernel_tables.py --package aisimulate --model Qwen/Qwen3-32B --device h100-sxm \\
        --engine vllm --tp 2 > steps.csv

`python -c "from ullage.readers.profiles import kernel_tables; print(kernel_tables.__file__)"` says where it lies.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

# What users call it: the distribution that has the kernels, and the package that answers.
PACKAGES = {"aiconfigurator": "aiconfigurator-core", "aisimulate": "aisimulate"}
_CORES = {"aiconfigurator": "aiconfigurator_core", "aisimulate": "aisimulate_core"}
# Their names of devices and engines, by ours.
SYSTEMS = {
    "a100-80gb-pcie": "a100_pcie",
    "a100-80gb-sxm": "a100_sxm",
    "b200-sxm": "b200_sxm",
    "b300-sxm": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100-pcie": "h100_pcie",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "l4": "l4",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
COLUMNS = (
    "kind", "sequences", "kv_tokens", "tokens", "prefix_tokens", "duration_s", "timed", "device", "engine", "tp", "pp",
    "ep",
)  # fmt: skip
# Twice as many at each step: ratios to the estimate change little between two of them.
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS_TOKENS = (128, 512, 2_048, 8_192, 32_768)
MOST_KV_TOKENS = 8_000_000
PROMPTS_TOKENS = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384)
PREFIXES_TOKENS = (0, 4_096)
# Attention that a checkpoint's own precisions have no kernels for is asked for once more at 16 bits.
_PRECISIONS: tuple[dict[str, str], ...] = (
    {},
    {"fmha_quant_mode": "bfloat16"},
    {"fmha_quant_mode": "bfloat16", "kvcache_quant_mode": "bfloat16"},
)
_MS = 1e-3
Row = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class KernelQuery:
    """The replica whose steps are wanted; `model_names` are tried in order, as the packages know models by their hub's
    name."""

    model_names: Sequence[str]
    device: str
    engine: str
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1


class NoKernelsError(LookupError):
    """The package knows no such model, or has no kernels for it there."""


def kernel_rows(package: str, asked: KernelQuery) -> list[Row]:
    """Steps of this replica; without those of a kind that the package has no kernels for."""
    # They talk at length about tables that they load for other models.
    logging.getLogger(_CORES[package]).setLevel(logging.CRITICAL)
    handle = importlib.import_module(f"{_CORES[package]}.sdk.engine").EngineHandle
    reasons: list[str] = []
    for name in asked.model_names:
        if found := _of_model(handle, name, asked, reasons):
            return [row for rows in found.values() for row in rows]
    raise NoKernelsError(reasons[-1] if reasons else "it knows models by the name of their repository")


def _of_model(handle: Any, name: str, asked: KernelQuery, reasons: list[str]) -> dict[str, list[Row]]:
    """Decode and prefill steps, each at the first precision that has kernels."""
    said = {
        "timed": "kernels",
        "device": asked.device,
        "engine": asked.engine,
        "tp": str(asked.tp),
        "pp": str(asked.pp),
        "ep": str(asked.ep),
    }
    found: dict[str, list[Row]] = {}
    for precision in _PRECISIONS:
        try:
            engine = handle.compile(
                name,
                SYSTEMS[asked.device],
                BACKENDS[asked.engine],
                tp_size=asked.tp,
                pp_size=asked.pp,
                attention_dp_size=asked.dp_attention,
                moe_tp_size=asked.tp // asked.ep,
                moe_ep_size=asked.ep,
                **precision,
            )
        except Exception as error:  # noqa: BLE001 - whatever it refuses with, it does not know the model or its cut
            reasons.append(_reason(error))
            return found
        for kind, steps in (("decode", _decode), ("prefill", _prefill)):
            if kind not in found:
                try:
                    found[kind] = [{**row, **said} for row in steps(engine)]
                except Exception as error:  # noqa: BLE001 - whatever it refuses with, it has no such kernels
                    reasons.append(_reason(error))
        if len(found) == 2:
            break
    return found


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _decode(engine: Any) -> Iterator[Row]:
    for sequences in SEQUENCES:
        for context in CONTEXTS_TOKENS:
            if sequences * context <= MOST_KV_TOKENS:
                duration_s = float(engine.predict_decode_latency(sequences, context, 2)) * _MS
                yield _row("decode", duration_s, sequences=sequences, kv_tokens=sequences * context)


def _prefill(engine: Any) -> Iterator[Row]:
    for tokens in PROMPTS_TOKENS:
        for prefix in PREFIXES_TOKENS:
            duration_s = float(engine.predict_prefill_latency(1, tokens + prefix, prefix)) * _MS
            yield _row("prefill", duration_s, tokens=tokens, prefix_tokens=prefix)


def _row(kind: str, duration_s: float, **counts: int) -> Row:
    named = ("sequences", "kv_tokens", "tokens", "prefix_tokens")
    return {"kind": kind, **{each: str(counts.get(each, 0)) for each in named}, "duration_s": repr(duration_s)}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--package", choices=PACKAGES, required=True)
    parser.add_argument("--model", required=True, help="the repository of its checkpoint, as the package knows it")
    parser.add_argument("--device", choices=SYSTEMS, required=True)
    parser.add_argument("--engine", choices=BACKENDS, required=True)
    for degree in ("tp", "pp", "ep", "dp-attention"):
        parser.add_argument(f"--{degree}", type=int, default=1)
    given = parser.parse_args()
    asked = KernelQuery(
        model_names=(given.model,), device=given.device, engine=given.engine, tp=given.tp, pp=given.pp, ep=given.ep,
        dp_attention=given.dp_attention,
    )  # fmt: skip
    try:
        rows = kernel_rows(given.package, asked)
    except (ImportError, NoKernelsError) as error:
        sys.exit(f"{given.package} has no steps of {given.model} on {given.device}: {error}")
    origin = {"model": given.model, "source": f"{PACKAGES[given.package]} {metadata.version(PACKAGES[given.package])}"}
    writer = csv.DictWriter(sys.stdout, (*COLUMNS, *origin), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **origin} for row in rows)


if __name__ == "__main__":
    main()
