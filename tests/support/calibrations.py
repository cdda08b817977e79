"""What `ullage calibrate --out` writes, as far as readers of it look."""

from __future__ import annotations

from typing import Any

FACTORS = {"fixed_ratio": 1.5, "sequences_ratio": 1.0, "kv_ratio": 1.0, "prefill_ratio": 1.0, "request_ratio": 1.0}


def spread(each: float = 0.02, *, points: int = 2) -> dict[str, Any]:
    """Factors that are known to so much, each by itself, after a fit to so many points."""
    covariance = [[each**2 if row == column else 0.0 for column in range(5)] for row in range(5)]
    return {"covariance": covariance, "fit_spreads": {"tpot": 0.04, "ttft": 0.1}, "degrees": 4 + points}


def calibration_document(factors: dict[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    """A calibration of the default model on one H100; `changes` are of its provenance."""
    configuration = {
        "model": "llama-3.1-8b", "device": "h100-sxm", "engine": "vllm", "tp": 1, "pp": 1, "ep": 1, "dp_attention": 1,
        "kv_dtype": "bf16", "points": 2, "date": "2026-11-01",
    }  # fmt: skip
    return {
        "schema": "ullage.calibrate/2",
        "provenance": {**configuration, **changes},
        "calibration": {"factors": factors or FACTORS, "spread": spread()},
        "tested": {"sequences": 64, "kv_tokens": 80_000, "prefill_tokens": 1_000},
    }
