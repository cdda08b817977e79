"""The built-in example: a chat and coding service on two zones, made up by us and described here.

It is what `ullage plan` plans without a file. No number in it is about anybody's system, so each is
`assumed`; the source says so. The shapes are ordinary: a chat class that people watch as it is written, a coding class
with long prompts whose first token matters less, one mid-size dense model, one current data-centre device.
"""

from __future__ import annotations

import datetime

from ullage.evidence import Assumption, Evidence, Source
from ullage.plan.spec import ClassDemand, PlanSpec, Policy, PoolSpec, promises
from ullage.workload.classes import Metric, RequestClass, Slo

_SOURCE = Source(
    what="built-in example, made up",
    where="docs/reference/example.md",
    date=datetime.date(2026, 11, 15),
    licence="Apache-2.0",
)


def example() -> PlanSpec:
    """The service described in docs/reference/example.md."""
    return PlanSpec(
        name="built-in example",
        demands=(
            _demand(
                RequestClass(
                    name="chat",
                    slos=(_slo(Metric.TTFT, 0.95, 1.0), _slo(Metric.TPOT, 0.95, 0.050)),
                    priority=0,
                ),
                mean_rate_rps=20.0,
                longest_context_tokens=16_384,
            ),
            _demand(
                RequestClass(
                    name="coding",
                    slos=(_slo(Metric.TTFT, 0.95, 3.0), _slo(Metric.TPOT, 0.95, 0.040)),
                    priority=1,
                ),
                mean_rate_rps=4.0,
                longest_context_tokens=32_768,
            ),
        ),
        pool=PoolSpec(
            model=_input("pool.model", "qwen3-32b", ""),
            engine=_input("pool.engine", "vllm", ""),
            engine_version=_input("pool.engine_version", "0.32.0", ""),
            device=_input("pool.device", "h100-sxm", ""),
            tensor_parallel=_input("pool.tensor_parallel", 2, "devices"),
            approved_concurrency=_input("pool.approved_concurrency", 8, "requests"),
        ),
        policy=Policy(
            horizon=_input("policy.horizon", 30 * 86_400.0, "s"),
            planning_percentile=_input("policy.planning_percentile", 0.95, "fraction"),
            zones=_input("policy.zones", 2, "zones"),
            reconcile_every=_input("policy.reconcile_every", 7 * 86_400.0, "s"),
        ),
    )


def _demand(request_class: RequestClass, *, mean_rate_rps: float, longest_context_tokens: int) -> ClassDemand:
    name = request_class.name
    return ClassDemand(
        request_class=request_class,
        promises=promises(request_class, evidence=Evidence.ASSUMED, source=_SOURCE),
        mean_rate=_input(f"{name}.mean_rate", mean_rate_rps, "req/s"),
        longest_context=_input(f"{name}.longest_context", longest_context_tokens, "tokens"),
    )


def _slo(metric: Metric, percentile_fraction: float, limit_s: float) -> Slo:
    return Slo(metric=metric, percentile_fraction=percentile_fraction, limit_s=limit_s)


def _input(name: str, value: int | float | str, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.ASSUMED, source=_SOURCE)
