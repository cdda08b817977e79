"""Runs in the environment of vllm-sr-sim: its optimizer with its own profile of the question's replica."""

from __future__ import annotations

import json
import sys

from fleet_sim.gpu_profiles import ProfileBuilder, ServingConfig
from fleet_sim.hardware import H100_SXM
from fleet_sim.models.catalog import QWEN3_32B
from fleet_sim.optimizer import FleetOptimizer

rate_rps, tokens, devices, ttft_s = (float(each) for each in sys.argv[1:])
serving = ServingConfig(tp=int(devices), dtype_bytes=2, mean_ctx_tokens=int(tokens))
profile = ProfileBuilder().build(hw=H100_SXM, model=QWEN3_32B, cfg=serving)
optimizer = FleetOptimizer(gpu_short=profile, gpu_long=profile, B_short=4096, t_slo_ms=1e3 * ttft_s, long_max_ctx=8192)
report = optimizer.optimize(
    cdf=[(int(tokens) - 1, 0.0), (int(tokens), 1.0)],
    lam=rate_rps,
    gammas=[1.0],
    n_sim_requests=30_000,
    verify_top_n=1,
    verbose=False,
)
best = report.best_simulated
print(json.dumps({"replicas": best.n_s + best.n_l, "ttft_p99_s": best.p99_ttft_short_ms / 1e3}))
