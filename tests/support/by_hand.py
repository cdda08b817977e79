"""Two pools and two classes small enough to be reconciled with pencil and paper; what is simulated is stated instead.

Demand is level: 6 requests a second of chat on ten small replicas, 2 of coding on five large ones, planned for 12.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np

from ullage.reconcile.evaluate import Evaluation, PlayedMeans
from ullage.reconcile.expectation import Expectation, ExpectedClass, ExpectedPool, ExpectedSlo
from ullage.reconcile.inputs import DriftInputs
from ullage.reconcile.observation import Observation, ObservedQuantity

HOUR_S, DAY_S = 3600.0, 86_400.0
YEAR_S = 365.25 * DAY_S
DATED = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC).timestamp()
"""A Monday."""


def one_class(name: str, pool: str, mean_rps: float, failed: float, **more: Any) -> ExpectedClass:
    given: dict[str, Any] = {
        "name": name, "pool": pool, "mean_rps": mean_rps, "planning_rps": 1.5 * mean_rps, "season": (1.0,) * 168,
        "weekly_growth_fraction": 0.0, "deviation_ratio": 0.2, "prompt_tokens": 1000.0, "prompt_p50_tokens": 800.0,
        "prompt_p95_tokens": 3000.0, "output_tokens": 200.0, "output_p50_tokens": 150.0, "output_p95_tokens": 600.0,
        "cached_fraction": 0.4, "failed_fraction": failed,
        "slos": (ExpectedSlo(metric="ttft", percentile_fraction=0.95, limit_s=2.0),),
    }  # fmt: skip
    return ExpectedClass(**{**given, **more})


def one_pool(name: str, **more: Any) -> ExpectedPool:
    given: dict[str, Any] = {
        "name": name, "replicas": 10, "steady_replicas": 8, "devices": 1, "capacity_rps": 80.0, "service_time_s": 2.0,
        "goodput_rps": 9.0, "active_tokens": 1000.0, "kv_tokens": 4000.0, "kv_peak_fraction": 0.7,
        "queue_requests": 1.0, "queue_age_s": 0.5, "preemptions_per_s": 0.01, "ready_s": 200.0, "ready_low_s": 100.0,
        "ready_high_s": 300.0, "failures_per_year": 2.0, "repair_s": 3600.0, "rise_rps_per_s": 0.02,
        "step_fast_ratio": 0.9, "step_slow_ratio": 1.2,
    }  # fmt: skip
    return ExpectedPool(**{**given, **more})


SMALL = one_pool("small")
LARGE = one_pool("large", replicas=5, steady_replicas=4, devices=4, capacity_rps=8.0, kv_tokens=7000.0, goodput_rps=1.5)
EXPECTED = Expectation(
    service="desk", as_of="2026-11-16", horizon_s=30 * DAY_S, planning_rps=12.0, risk_fraction=0.1,
    reconcile_every_s=30 * DAY_S, usd_per_month=50_000.0, usd_per_success=0.01, replica_usd_per_hour=3.0,
    classes=(one_class("chat", "small", 6.0, 0.1), one_class("coding", "large", 2.0, 0.3)),
    pools=(SMALL, LARGE), inputs=(),
)  # fmt: skip
ALONE = replace(EXPECTED, classes=EXPECTED.classes[:1], pools=EXPECTED.pools[:1])


def observed(days: int = 7, *, ratio: float = 1.0, start_s: float = DATED, **more: Any) -> Observation:
    """Eight requests a second, or so many times as many, in every hour, seen on fifteen replicas."""
    hours = 24 * days
    given: dict[str, Any] = {
        "source": "by hand", "start_s": start_s, "step_s": HOUR_S, "steps": hours,
        "counted": {ObservedQuantity.ARRIVALS: np.full(hours, 8.0 * ratio * HOUR_S)},
        "levels": {ObservedQuantity.REPLICAS: np.full(hours, 15.0)}, "latencies": {},
    }  # fmt: skip
    return Observation(**{**given, **more})


def also(seen: Observation, **levels: float) -> Observation:
    """With more levels and counts by hour, under the names of quantities."""
    counted, held = dict(seen.counted), dict(seen.levels)
    for name, value in levels.items():
        quantity = ObservedQuantity(name)
        level = {ObservedQuantity.KV_USE, ObservedQuantity.KV_PEAK, ObservedQuantity.WAITING,
                 ObservedQuantity.TIME_TO_READY, ObservedQuantity.DEVICE_HOUR_USD}  # fmt: skip
        (held if quantity in level else counted)[quantity] = np.full(seen.steps, value)
    return replace(seen, counted=counted, levels=held)


PLAYED = PlayedMeans(
    prompt_tokens=1000.0, output_tokens=200.0, cached_fraction=0.4, itl_s=0.05, tpot_s=0.06, ttft_s=0.3,
    preemptions_per_request=0.0,
)  # fmt: skip


class Stated(Evaluation):
    """A replica carries 10 requests a second, as many times fewer as its steps or its prompts are longer."""

    def __init__(self, expected: Expectation, pool: ExpectedPool) -> None:
        super().__init__(expected, pool, None, seed=0)  # type: ignore[arg-type]

    def capacity_rps(self, inputs: DriftInputs) -> float:
        return 10.0 / inputs.step_ratio / inputs.prompt_ratio

    def played(self, inputs: DriftInputs, *, rate_rps: float, replicas: int) -> PlayedMeans:
        self.asked = rate_rps, replicas
        return replace(PLAYED, itl_s=0.05 * inputs.step_ratio, tpot_s=0.06 * inputs.step_ratio)
