"""What may stand beside a plan in its report: answers of `ullage drill` and `ullage reconcile`, with made values."""

from __future__ import annotations

from typing import Any


def _figure(name: str, value: float, unit: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "evidence": "estimated", "formula": "played"}


def drilled(service: str) -> dict[str, Any]:
    """One drill that fails, one that passes, one that could not be played."""
    zone = {
        "name": "zone",
        "title": "loss of a zone",
        "pool": "pool",
        "verdict": "fails",
        "figure": "requests within chat ttft_p95",
        "before": _figure("drill.zone.before_fraction", 0.97, "fraction"),
        "during": _figure("drill.zone.during_fraction", 0.41, "fraction"),
        "wanted": "95 %",
        "played": "2 of 4 replicas are lost for 10 min.",
        "change": "2 more replicas",
    }
    passed = {"verdict": "passes", "change": ""}
    absent = {"verdict": "not played", "before": None, "during": None, "wanted": "", "figure": "", "change": ""}
    results = [
        zone,
        {**zone, **passed, "name": "warm-up", "title": "ignored warm-up"},
        {**zone, **absent, "name": "tool-outage", "title": "tool outage", "played": "There is no tool."},
    ]
    return {
        "schema": "ullage.drill/2",
        "service": service,
        "as_of": "2026-11-15",
        "seed": 0,
        "results": results,
        "notes": ["3 runs of each drill."],
        "failed": ["zone"],
    }


def reconciled(service: str) -> dict[str, Any]:
    """Traffic drifted, the rest holds; a price is past its age."""
    arrival = {"unit": "req/s", "low": 9.0, "high": 9.4}
    planned, observed = (
        {"replicas": replicas, "usd_per_month": 5000.0 * replicas, "usd_per_success": 0.001} for replicas in (3.0, 4.3)
    )
    traffic = {"replicas": 1.3, "usd_per_month": 6500.0, "usd_per_success": 0.0}
    found = {
        "service": service,
        "plan": "0123456789ab",
        "planned_on": "2026-11-15",
        "start": "2026-11-16",
        "end": "2026-11-30",
        "source": "files",
        "scorecard": [
            {"what": "arrival rate", "planned_value": 7.0, "observed_value": 9.2, "note": "", **arrival},
            {"what": "cost per success", "unit": "USD", "planned_value": 0.001, "observed_value": None, "low": None,
             "high": None, "note": ""},
        ],
        "causes": {
            "planned": planned,
            "observed": observed,
            "shares": [{"cause": "traffic", "in_order": traffic, "shapley": traffic}],
        },
        "ran_replicas": 3.0,
        "inputs": [
            {"cause": "traffic", "name": "arrival rate", "stated_value": 7.0, "observed_value": 9.2,
             "verdict": "drifted", "why": "", **arrival},
            {"cause": "prices", "name": "price of a replica-hour", "unit": "USD/h", "stated_value": 6.9,
             "observed_value": None, "low": None, "high": None, "verdict": "unknown", "why": "nobody exports it"},
        ],
        "drift": {"traffic_ratio": 1.3, "class_ratios": {}, "prompt_ratio": 1, "output_ratio": 1, "cached_ratio": 1,
                  "step_ratio": 1, "more_failures_per_year": 0, "failed_fraction": None, "ready_ratio": 1,
                  "price_ratio": 1},
        "stale": [{"name": "a price", "age_days": 90, "max_age_days": 30}],
        "slos": [{"class_name": "chat", "slo": "ttft_p95", "limit_s": 2.0, "low_s": 0.1, "high_s": 0.25,
                  "beyond_low_fraction": 0, "beyond_high_fraction": 0, "attained": "met"}],
        "shortfall": {"hours": 336, "violated_hours": 0, "undecided_hours": 2, "above_plan_hours": 1},
        "forecast": [],
        "risk": {"stated_fraction": 0.02, "happened": False, "stretches": 1, "brier_ratio": 0.0, "bins": [],
                 "recalibrated_fraction": 0.02},
        "cadence": {"stated_s": 604800, "derived_s": None, "error_per_day_fraction": None, "moves_at_fraction": 0.5},
        "memory": {"predicted_preemptions_per_s": 0, "observed_preemptions_per_s": None, "oom_kills": 0,
                   "contradicts": ""},
        "past": ["the service needs +1.3 replicas against the plan"],
        "notes": [],
        "left_out": [],
        "refit": None,
    }  # fmt: skip
    change = {"key": "workload.classes.chat.rate", "old": "7 req/s", "new": "9.2 req/s", "evidence": "observed"}
    return {
        "schema": "ullage.reconcile/2",
        "found": found,
        "updates": [change],
        "elsewhere": [],
        "kept_as": "",
        "diff": "",
        "calibration": None,
        "backtest": None,
    }
