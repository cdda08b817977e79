"""What is stated, or assumed, about those who send the requests: their patience, their retries, who they are.

Clients decide how an overload goes: how long they wait, how often they ask again, and whether anything bounds their
asking. None of it can be seen in a service curve, so every number here is an assumption with its source, and a plan
file may state it instead.
"""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ullage.errors import InputError
from ullage.evidence import Assumption, Evidence, Source, number
from ullage.simulate.load import Retry
from ullage.workload.classes import RequestClass

_DAY = datetime.date(2026, 11, 15)
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_SDK = Source(
    what="OpenAI's Python client: DEFAULT_TIMEOUT, DEFAULT_MAX_RETRIES, INITIAL_RETRY_DELAY, jitter of a quarter",
    where="https://github.com/openai/openai-python/blob/main/src/openai/_constants.py",
    date=_DAY,
)
_PROXY = Source(
    what="nginx, proxy_read_timeout: the time between two reads, 60 s unless set; load balancers do the same",
    where="https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_read_timeout",
    date=_DAY,
)
_BUDGET = Source(
    what="Site Reliability Engineering, Handling Overload: retries stay below 10 % of a client's requests",
    where="https://sre.google/sre-book/handling-overload/",
    date=_DAY,
)
_CHECKED = Source(
    what="default of Ullage: what limits are checked against", where="docs/explanation/admission-limits.md", date=_DAY
)
_SCALER = Source(
    what="Kubernetes: metrics every 15 s, the horizontal autoscaler looks every 15 s",
    where="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
    date=_DAY,
)


class Success(enum.StrEnum):
    """What makes a request a success: its SLOs met, an answer before its deadline, or any answer at all."""

    SLOS = "slo"
    DEADLINE = "deadline"
    ANSWER = "answer"


def _assumed(
    name: str,
    value: float,
    unit: str,
    source: Source,
    low: float | None = None,
    high: float | None = None,
    *,
    decision: bool = False,
) -> Assumption:
    return Assumption(
        name=f"admission.{name}",
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=source,
        low=low,
        high=high,
        decision=decision,
    )


# Three attempts: the first and two more. Scripts and gateways on top of the client raise it.
ATTEMPTS = _assumed("retry_attempts", 3, "attempts", _SDK, 1, 6)
BACKOFF = _assumed("retry_backoff", 0.5, "s", _SDK, 0.1, 8.0)
GROWTH = _assumed("retry_growth", 2.0, "ratio", _SDK, 1.0, 3.0)
JITTER = _assumed("retry_jitter", 0.25, "fraction", _SDK, 0.0, 1.0)
# The clients themselves have no budget; this is the one that a gateway in front of the pool is to enforce.
RETRY_BUDGET = _assumed("retry_budget", 0.1, "fraction", _BUDGET, decision=True)
FIRST_TOKEN_TIMEOUT = _assumed("first_token_timeout", 60.0, "s", _PROXY, 10.0, 600.0)
DEADLINE = _assumed("deadline", 600.0, "s", _SDK, 30.0, 600.0)
# Half as much again as the pool can carry: enough that a queue without bound never ends.
OVERLOAD = _assumed("overload", 1.5, "ratio", _CHECKED, decision=True)
# Whoever is on call will have been paged and have stepped in by then.
RECOVERY = _assumed("recovery", 600.0, "s", _CHECKED, decision=True)
# An SLO on a percentile is judged over a window; error budgets burn by the hour.
SLO_WINDOW = _assumed("slo_window", 3600.0, "s", _CHECKED, decision=True)
# Of a pool of eight, one; where a plan file states a number of replicas, that number.
WARM_SHARE = _assumed("warm_share", 0.125, "fraction", _CHECKED, decision=True)
SCALE_DELAY = _assumed("scale_delay", 30.0, "s", _SCALER, 5.0, 120.0)
# Warned at half of the queue a gateway still has the other half to react in.
BACKPRESSURE = _assumed("backpressure", 0.5, "fraction", _CHECKED, decision=True)


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """Whose requests these are. `share` is the part of the traffic that it sends, `weight` what it is entitled to,
    `most` the largest part of the pool that it may take, whatever the others leave."""

    name: str
    share: Assumption
    weight: Assumption
    most: Assumption

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        return (self.share, self.weight, self.most)


@dataclass(frozen=True, kw_only=True)
class ClassPolicy:
    """What is known of one class beyond its SLOs. Without a `deadline` its clients wait for the policy's."""

    deadline: Assumption | None = None
    success: Success = Success.SLOS


@dataclass(frozen=True, kw_only=True)
class AdmissionPolicy:
    """Clients, tenants and what the limits are checked against; every part has a sourced default."""

    attempts: Assumption = ATTEMPTS
    backoff: Assumption = BACKOFF
    growth: Assumption = GROWTH
    jitter: Assumption = JITTER
    retry_budget: Assumption = RETRY_BUDGET
    first_token_timeout: Assumption = FIRST_TOKEN_TIMEOUT
    deadline: Assumption = DEADLINE
    overload: Assumption = OVERLOAD
    recovery: Assumption = RECOVERY
    slo_window: Assumption = SLO_WINDOW
    warm_share: Assumption = WARM_SHARE
    warm_replicas: Assumption | None = None
    scale_delay: Assumption = SCALE_DELAY
    backpressure: Assumption = BACKPRESSURE
    classes: Mapping[str, ClassPolicy] = field(default_factory=dict)
    tenants: tuple[Tenant, ...] = ()

    def __post_init__(self) -> None:
        _require(self.attempts, 1, 20, "Give 2 or 3.")
        _require(self.overload, 1.01, 10.0, "Give a ratio above 1, for example 1.5.")
        _require(self.recovery, 1.0, 6 * _HOUR_S, "Give the time until an operator would intervene, for example 10min.")
        _require(self.slo_window, 60.0, 30 * 24 * _HOUR_S, "Give a window, for example 1h.")
        _require(self.retry_budget, 0.0, 1.0, "Give a share, for example 10%.")
        _require(self.backpressure, 0.0, 1.0, "Give a share of the queue, for example 50%.")
        longest_s = number(self.backoff) * number(self.growth) ** (number(self.attempts) - 1)
        if longest_s > _DAY_S:
            raise InputError(
                field=self.growth.name,
                value=self.growth.value,
                problem=f"makes the last of {self.attempts.value} attempts wait for {longest_s:.3g} s",
                fix="Give fewer attempts, or a growth nearer to 1.",
            )
        names = [each.name for each in self.tenants]
        for name in names:
            if names.count(name) > 1:
                raise InputError(
                    field="admission.tenants", value=name, problem="appears twice", fix="Use each name once."
                )
        shares = sum(number(each.share) for each in self.tenants)
        if shares > 1.0 + 1e-9:
            raise InputError(
                field="admission.tenants",
                value=shares,
                problem="shares of the traffic add up to more than 1",
                fix="Give the share of requests that each tenant sends.",
            )

    @property
    def warm(self) -> Assumption:
        """The input that sets the warm replicas: a stated number, or a share of the pool."""
        return self.warm_replicas or self.warm_share

    def warm_count(self, replicas: int) -> int:
        if self.warm_replicas is not None:
            return int(number(self.warm_replicas))
        return math.ceil(number(self.warm_share) * replicas)

    def of_class(self, name: str) -> ClassPolicy:
        return self.classes.get(name, ClassPolicy())

    def deadline_of(self, name: str) -> Assumption:
        """The time after which an answer to this class is of no use to anybody."""
        return self.of_class(name).deadline or self.deadline

    def deadlines_s(self, classes: Sequence[RequestClass]) -> dict[str, float]:
        """When clients of these classes give up, by name."""
        return {each.name: number(self.deadline_of(each.name)) for each in classes}

    def retry(self, *, budget_fraction: float = 1.0) -> Retry:
        """How clients repeat. A budget below 1 also has a small bucket, as that of gRPC: ten retries saved up."""
        return Retry(
            most_attempts=int(number(self.attempts)),
            backoff_s=number(self.backoff),
            growth_ratio=number(self.growth),
            jitter_fraction=number(self.jitter),
            budget_fraction=budget_fraction,
            budget_retries=10**6 if budget_fraction >= 1.0 else 10,
        )

    @property
    def retry_inputs(self) -> tuple[Assumption, ...]:
        return (self.attempts, self.backoff, self.growth, self.jitter, self.first_token_timeout)

    @property
    def inputs(self) -> tuple[Assumption, ...]:
        """Everything, in the order in which it is used."""
        return tuple(self._each_input())

    @property
    def stated(self) -> tuple[Assumption, ...]:
        """Stated values, beside our defaults."""
        defaults = AdmissionPolicy().inputs
        return tuple(each for each in self.inputs if each not in defaults)

    def _each_input(self) -> Iterator[Assumption]:
        yield from (self.overload, self.first_token_timeout, self.deadline)
        yield from (each.deadline for each in self.classes.values() if each.deadline is not None)
        yield from (self.attempts, self.backoff, self.growth, self.jitter, self.retry_budget, self.recovery)
        yield from (self.slo_window, self.warm, self.scale_delay, self.backpressure)
        for tenant in self.tenants:
            yield from tenant.inputs


def _require(given: Assumption, least: float, most: float, fix: str) -> None:
    if not least <= number(given) <= most:
        raise InputError(
            field=given.name, value=given.value, problem=f"must lie between {least:g} and {most:g}", fix=fix
        )
