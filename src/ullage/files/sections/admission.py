"""The `admission` section of a plan file: who sends the requests, how they ask again, what limits must stand up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from ullage.admission import policy as defaults
from ullage.admission.policy import AdmissionPolicy, ClassPolicy, Success, Tenant
from ullage.errors import check_name
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import DAY_S, HOUR_S, Count, Duration, Range, Ratio, Share, ShareOrNone, StartTime
from ullage.files.sections.section import Key, Name, Section, ours
from ullage.units import DURATION

SuccessName = Literal["slo", "deadline", "answer"]

# A tenant that says nothing of itself counts like every other, and may take the whole pool where the others leave it.
WEIGHT = ours("tenant.weight", 1.0, "ratio", "tenants have equal weight", decision=True)
MOST = ours("tenant.most", 1.0, "fraction", "a tenant may use what the others leave", decision=True)
_RETRIES = "retry.overload_limited_ratio"


class RetrySection(Section):
    """How clients repeat what was refused, timed out or failed."""

    attempts: Annotated[
        Count | None,
        Range(least=1, most=20),
        Key(means="The first attempt included.", default=defaults.ATTEMPTS, moves=_RETRIES),
    ] = None
    backoff: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(means="The wait before the first repetition.", default=defaults.BACKOFF, moves=_RETRIES),
    ] = None
    growth: Annotated[
        Ratio | None,
        Range(least=0.1, most=100.0),
        Key(means="The factor by which each further wait grows.", default=defaults.GROWTH, moves=_RETRIES),
    ] = None
    jitter: Annotated[
        ShareOrNone | None,
        Key(means="Random jitter, up to this share of the wait.", default=defaults.JITTER, moves=_RETRIES),
    ] = None
    retry_budget: Annotated[
        ShareOrNone | None,
        Field(alias="budget"),
        Key(
            means="The most retries a gateway admits, as a share of requests.",
            default=defaults.RETRY_BUDGET,
            moves="retry.budget_fraction",
        ),
    ] = None


class TenantSection(Section):
    """One of those who share the pools."""

    name: Annotated[Name, Key(means="As the gateway calls it.", still="It is a label in the names of its limits.")]
    share: Annotated[Share, Key(means="Its share of the traffic.", moves="limit.tenant.*.granted_rps")]
    weight: Annotated[
        Ratio | None,
        Key(means="Its weight against the others.", default=WEIGHT, moves="limit.tenant.*.rate_rps"),
    ] = None
    most: Annotated[
        Share | None,
        Key(means="The largest share of a pool it may use.", default=MOST, moves="limit.tenant.*.granted_rps"),
    ] = None


class AdmissionSection(Section):
    """Where to stop admitting work, and what that must stand up to."""

    deadline: Annotated[
        Duration | None,
        Range(least=0.001, most=30 * DAY_S, dimension=DURATION),
        Key(
            means="When clients give up, if a class has no deadline of its own.",
            default=defaults.DEADLINE,
            moves="limit.*.latest_start_s",
        ),
    ] = None
    first_token_timeout: Annotated[
        Duration | None,
        Range(least=0.001, most=DAY_S, dimension=DURATION),
        Key(
            means="Without a first token by then, clients or proxies close the connection.",
            default=defaults.FIRST_TOKEN_TIMEOUT,
            moves="limit.*.first_token_s",
        ),
    ] = None
    retry: RetrySection = RetrySection()
    overload: Annotated[
        Ratio | None,
        Range(least=1.01, most=10.0),
        Key(
            means="The load that limits must withstand, as a multiple of capacity.",
            default=defaults.OVERLOAD,
            moves="retry.overload_bare_ratio",
        ),
    ] = None
    recovery: Annotated[
        Duration | None,
        Range(least=1.0, most=6 * HOUR_S, dimension=DURATION),
        Key(
            means="How soon after a burst SLOs must be met again.",
            default=defaults.RECOVERY,
            moves="retry.recovers_bare_rps",
        ),
    ] = None
    slo_window: Annotated[
        Duration | None,
        Range(least=60.0, most=30 * DAY_S, dimension=DURATION),
        Key(
            means="The window over which SLOs are judged.", default=defaults.SLO_WINDOW, moves="burst.queue_120s_ratio"
        ),
    ] = None
    warm_replicas: Annotated[
        Count | None,
        Range(least=1, most=20000),
        Key(
            means="Replicas kept warm against bursts, in each pool.",
            default="a share of the pool: admission.warm_share",
            moves="burst.hot_*_ratio",
        ),
    ] = None
    scale_delay: Annotated[
        StartTime | None,
        Range(least=0.0, most=DAY_S, dimension=DURATION),
        Key(
            means="How long a burst lasts before it is noticed.",
            default=defaults.SCALE_DELAY,
            moves="burst.hot_*_ratio",
        ),
    ] = None
    backpressure: Annotated[
        Share | None,
        Key(
            means="The share of the queue bound at which clients are asked to slow down.",
            default=defaults.BACKPRESSURE,
            moves="limit.backpressure_requests",
        ),
    ] = None
    success: Annotated[
        dict[Name, SuccessName],
        Field(default_factory=dict),
        Key(
            means="By class, what recovery is judged by: its SLOs, an answer before the deadline, or any answer.",
            default="slo",
            moves="retry.recovers_*_rps",
        ),
    ]
    tenants: tuple[TenantSection, ...] = ()


def admission_of(
    section: AdmissionSection, deadlines: Mapping[str, float | None], provenance: Provenance
) -> AdmissionPolicy:
    """The policy; `deadlines` are those of the classes, by name, None where a class has none of its own."""
    for name in section.success:
        check_name(name, deadlines, field="admission.success")
    return AdmissionPolicy(
        **provenance.filled(section),
        **provenance.filled(section.retry),
        warm_replicas=(
            None
            if section.warm_replicas is None
            else provenance.decides("admission.warm_replicas", section.warm_replicas, "replicas")
        ),
        classes={
            name: ClassPolicy(
                deadline=provenance.may_say(f"{name}.deadline", deadline_s, "s"),
                success=Success(section.success.get(name, "slo")),
            )
            for name, deadline_s in deadlines.items()
        },
        tenants=tuple(_tenant(each, provenance) for each in section.tenants),
    )


def _tenant(section: TenantSection, provenance: Provenance) -> Tenant:
    name = f"tenant.{section.name}"
    return Tenant(
        name=section.name,
        share=provenance.says(f"{name}.share", section.share, "fraction"),
        weight=provenance.over(WEIGHT, section.weight, name=f"{name}.weight"),
        most=provenance.over(MOST, section.most, name=f"{name}.most"),
    )
