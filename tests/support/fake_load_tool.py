"""A program that stands for `vllm bench serve`: it reads the trace, asks the endpoint once, and writes a result file.

Latencies are plain functions of the lengths. Its calls are listed in CALLS, a file beside it; where FAIL_AT is set, the
call of that number ends badly after it has begun.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path


def main(words: list[str]) -> int:
    given = {words[at]: words[at + 1] for at in range(2, len(words) - 1) if words[at].startswith("--")}
    calls = Path(os.environ["CALLS"])
    with calls.open("a") as out:
        out.write(" ".join([given["--base-url"], given["--dataset-path"], os.environ.get("HF_HUB_OFFLINE", "")]) + "\n")
    if len(calls.read_text().splitlines()) == int(os.environ.get("FAIL_AT", "0")):
        sys.stdout.write("the engine went away\n")
        return 7
    asked = {"model": given["--served-model-name"], "prompt": "a", "max_tokens": 1, "stream": True}
    url = f"{given['--base-url']}{given['--endpoint']}"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode())) as answer:
        assert b"data:" in answer.read()
    rows = [json.loads(line) for line in Path(given["--dataset-path"]).read_text().splitlines()]
    sent = [row["timestamp"] / 1000.0 for row in rows]
    first = [0.08 + 6e-5 * row["input_length"] for row in rows]
    gaps = [[0.022] * (row["output_length"] - 1) for row in rows]
    ends = [at + begun + sum(each) for at, begun, each in zip(sent, first, gaps, strict=True)]
    tpots = [1000.0 * 0.022 for _ in rows]
    outputs = [row["output_length"] for row in rows]
    result = {
        "date": "20261116-120000",
        "backend": "openai",
        "model_id": given["--model"],
        "num_prompts": len(rows),
        "request_rate": float(given["--request-rate"]),
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": max(ends),
        "completed": len(rows),
        "failed": 0,
        "total_input_tokens": sum(row["input_length"] for row in rows),
        "total_output_tokens": sum(outputs),
        "request_throughput": len(rows) / max(ends),
        "output_throughput": sum(outputs) / max(ends),
        "input_lens": [row["input_length"] for row in rows],
        "output_lens": outputs,
        "ttfts": first,
        "itls": gaps,
        "start_times": sent,
        "errors": [""] * len(rows),
        "mean_ttft_ms": 1000.0 * sum(first) / len(first),
        "mean_tpot_ms": sum(tpots) / len(tpots),
    }
    place = Path(given["--result-dir"]) / given["--result-filename"]
    place.write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
