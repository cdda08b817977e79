"""Runs in the environment of AISimulate or AIConfigurator: a published row a line of JSON in, its TTFT and TPOT out.

The first argument is the package's name. AISimulate simulates the requests of the row, length by length; AIConfigurator
estimates a steady batch of their mean length, and knows means alone.
"""

import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

BLOCK_TOKENS = 512
Row = Mapping[str, Any]
Answer = dict[str, float | str]


def aisimulate(row: Row) -> Answer:
    from aisimulate.config.cli import CorePredictionConfig
    from aisimulate.predict import run_prediction
    from aisimulate.stack import resolve_runner_factory

    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "requests.jsonl"
        trace.write_text("\n".join(json.dumps(each) for each in requests(row)) + "\n")
        config = CorePredictionConfig.model_validate(prediction(row, trace))
        found = run_prediction(config, stack="engine", runner_factory=resolve_runner_factory("engine")).summary
    if found["completed_requests"] != len(row["prompt_tokens"]):
        raise ValueError("it answers some of the requests only")
    return {
        f"{latency}_{ours}_s": found[f"{theirs}_{latency}_ms"] / 1e3
        for latency in ("ttft", "tpot")
        for ours, theirs in (("mean", "mean"), ("p50", "median"))
    }


def requests(row: Row) -> Iterator[dict[str, Any]]:
    """No two prompts share a block, so that none is a prefix hit."""
    used = 0
    for prompt, output in zip(row["prompt_tokens"], row["output_tokens"], strict=True):
        blocks = -(-prompt // BLOCK_TOKENS)
        yield {"input_length": prompt, "output_length": output, "hash_ids": list(range(used, used + blocks))}
        used += blocks


def prediction(row: Row, trace: Path) -> dict[str, Any]:
    scheduler = {"max_batched_tokens": row["budget_tokens"], "max_sequences": row["max_sequences"]}
    if row["interval_steps"]:
        scheduler["prefill_decode_interval"] = row["interval_steps"]
    timing = {f"{each}_quant_mode": row[each] for each in ("kvcache", "gemm") if row[each]}
    parallelism = {"tensor": row["tp"], "moe_tensor": row["tp"] // row["ep"], "moe_expert": row["ep"]}
    worker = {"parallelism": parallelism, "scheduler": scheduler, "timing": timing}
    return {
        "traffic": {
            "source": {"type": "trace", "format": "mooncake", "paths": [str(trace)], "block_size": BLOCK_TOKENS},
            "load": {"type": "concurrency", "concurrency": row["clients"]},
        },
        "engine": {
            "mode": "aggregated",
            "model": row["model"],
            "hardware": row["system"],
            "backend": row["backend"],
            "workers": {"aggregated": worker},
        },
    }


def aiconfigurator(row: Row) -> Answer:
    from aiconfigurator.cli.api import cli_estimate

    count = len(row["prompt_tokens"])
    found = cli_estimate(
        row["model"],
        row["system"],
        backend_name=row["backend"],
        isl=round(sum(row["prompt_tokens"]) / count),
        osl=round(sum(row["output_tokens"]) / count),
        batch_size=row["clients"],
        tp_size=row["tp"],
        moe_tp_size=row["tp"] // row["ep"],
        moe_ep_size=row["ep"],
        **{f"{each}_quant_mode": row[each] for each in ("kvcache", "gemm") if row[each]},
    )
    means = {"ttft": found.ttft / 1e3, "tpot": found.tpot / 1e3}
    return {f"{latency}_{each}_s": value for latency, value in means.items() for each in ("mean", "p50")}


PACKAGES: dict[str, Callable[[Row], Answer]] = {"aisimulate": aisimulate, "aiconfigurator": aiconfigurator}


def main() -> None:
    logging.disable(logging.CRITICAL)
    ask = PACKAGES[sys.argv[1]]
    # What the packages print goes beside the answers.
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            answer = ask(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it refuses with is the reason
            answer = {"reason": (str(error).splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
