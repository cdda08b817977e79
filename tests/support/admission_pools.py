"""A small pool whose limits are quick to find: two classes on replicas that decode up to 16 sequences."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from support.served import LLAMA_3_8B
from support.served_replicas import QUICK, PoissonLoad, class_with_slos, poisson_trial, short_bases
from ullage.admission.limits import AdmissionLimits, admission_limits
from ullage.admission.policy import (
    DEADLINE,
    FIRST_TOKEN_TIMEOUT,
    RECOVERY,
    AdmissionPolicy,
    ClassPolicy,
    Tenant,
)
from ullage.errors import Rejection
from ullage.evidence import Assumption, Evidence, Source
from ullage.facts.device import find_device
from ullage.memory.budget import MemoryBudget, memory_budget
from ullage.memory.settings import RuntimeSettings
from ullage.service.curve.curve import ServiceCurve, replica_curve
from ullage.service.trial.search import highest_load
from ullage.startup.ready import TimeToReady, time_to_ready
from ullage.startup.settings import StartSettings
from ullage.workload.classes import RequestClass
from ullage.workload.demand.demand import Demand, forecast_demand

SOURCE = Source(what="a test", where="tests/support/admission_pools.py", date=datetime.date(2026, 11, 15))


def stated(name: str, value: float, unit: str = "") -> Assumption:
    return Assumption(name=name, value=value, unit=unit, evidence=Evidence.STATED, source=SOURCE)


@dataclass(frozen=True, kw_only=True)
class Asked:
    request_class: RequestClass
    mean_rate: Assumption
    longest_context: Assumption
    shape: None = None


def two_classes(ttft_s: float = 0.5, tpot_s: float = 0.05) -> tuple[RequestClass, RequestClass]:
    urgent = class_with_slos("chat", ttft_p95=ttft_s, tpot_p95=tpot_s)
    return urgent, replace(class_with_slos("batch", ttft_p95=4 * ttft_s, tpot_p95=tpot_s), priority=1)


@functools.cache
def memory() -> MemoryBudget:
    settings = RuntimeSettings(source=SOURCE, engine="vllm", max_context_tokens=4096, max_sequences=16)
    found = memory_budget(LLAMA_3_8B, find_device("h200-sxm"), settings)
    assert isinstance(found, MemoryBudget)
    return found


@functools.cache
def ready() -> TimeToReady:
    where = Assumption(name="pool.storage", value="local-nvme", unit="", evidence=Evidence.STATED, source=SOURCE)
    return time_to_ready(memory(), StartSettings(storage=where), rng=np.random.default_rng(0))


@functools.cache
def served(ttft_s: float = 0.5, tpot_s: float = 0.05) -> ServiceCurve:
    classes = two_classes(ttft_s, tpot_s)
    load_at = PoissonLoad(classes=classes, prompt_tokens=400, output_tokens=40)
    bases = short_bases(poisson_trial(*classes, load_at=load_at), seed=0)
    return replica_curve(bases, seed=0, effort=QUICK, inputs=(stated("test.step", 0.01, "s"),))


@functools.cache
def capacity_rps() -> float:
    """What a replica of a pool of eight carries."""
    bases = served().bases
    pool = replace(bases.conservative, replicas=8, span_s=20.0)
    return highest_load(pool, bases.conservative_probe, seed=0, effort=QUICK, with_interval=False).rps


@functools.cache
def demand(rate_rps: float = 160.0) -> Demand:
    asked = [
        Asked(
            request_class=each,
            mean_rate=stated(f"{each.name}.mean_rate", rate_rps / 4, "req/s"),
            longest_context=stated(f"{each.name}.longest_context", 2048, "tokens"),
        )
        for each in two_classes()
    ]
    return forecast_demand(
        asked, horizon=stated("policy.horizon", 86_400.0, "s"), percentile=stated("policy.percentile", 0.5)
    )


def policy(
    *,
    attempts: int = 3,
    deadline_s: float = 20.0,
    first_token_timeout_s: float = 4.0,
    recovery_s: float = 60.0,
    tenants: tuple[Tenant, ...] = (),
) -> AdmissionPolicy:
    """Impatient clients and a short recovery: the same physics in less time."""
    return AdmissionPolicy(
        attempts=stated("admission.retry_attempts", attempts),
        first_token_timeout=replace(FIRST_TOKEN_TIMEOUT, value=first_token_timeout_s, low=None, high=None),
        deadline=replace(DEADLINE, value=deadline_s, low=None, high=None),
        recovery=replace(RECOVERY, value=recovery_s),
        tenants=tenants,
    )


def chat_deadline(deadline_s: float) -> AdmissionPolicy:
    return replace(policy(), classes={"chat": ClassPolicy(deadline=stated("chat.deadline", deadline_s, "s"))})


def limits_under(given: AdmissionPolicy, *, replicas: int = 8, map: Any = map) -> AdmissionLimits | Rejection:  # noqa: A002
    return admission_limits(
        served(),
        ready(),
        demand(),
        two_classes(),
        replicas=replicas,
        capacity_rps=replicas * capacity_rps(),
        memory=memory(),
        policy=given,
        map=map,
    )


@functools.cache
def limits(replicas: int = 8) -> AdmissionLimits:
    found = limits_under(policy(), replicas=replicas)
    assert isinstance(found, AdmissionLimits)
    return found
