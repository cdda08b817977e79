"""Runs in the environment of slosizer: units of reserved throughput for the question's requests."""

from __future__ import annotations

import json
import sys

# This file is called as the package is; its own folder would hide it.
sys.path.pop(0)
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import slosizer as slz

rate_rps, requests, prompt_tokens, output_tokens, wait_s = (float(each) for each in sys.argv[1:])
MODEL = "gemini-2.5-flash-lite"
rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {
        "at_s": np.cumsum(rng.exponential(1 / rate_rps, int(requests))),
        "prompt": int(prompt_tokens),
        "output": int(output_tokens),
    }
)
schema = slz.RequestSchema(time_col="at_s", input_tokens_col="prompt", output_tokens_col="output")
trace = slz.from_dataframe(frame, schema=schema, provider="vertex", model=MODEL)
slo = slz.LatencySLO(threshold_s=wait_s, percentile=0.95, metric="queue_delay")
found = slz.plan_capacity(trace, slz.vertex_profile(MODEL), slz.LatencyTarget(slo))
print(json.dumps({"units": found.recommended_units, "unit": found.unit_name, "model": MODEL}))
