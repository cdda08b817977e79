"""The `admission` section of a plan file: who sends the requests, how they ask again, what limits must stand up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from ullage.admission import policy as defaults
from ullage.admission.policy import AdmissionPolicy, ClassPolicy, Success, Tenant
from ullage.errors import unknown_name
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Duration, Ratio, Share
from ullage.files.sections.section import Count, Name, Section

SuccessName = Literal["slo", "deadline", "answer"]

# A tenant that says nothing of itself counts like every other, and may take the whole pool where the others leave it.
WEIGHT, MOST_FRACTION = 1.0, 1.0


class RetrySection(Section):
    """How clients repeat what was refused, timed out or failed."""

    attempts: Annotated[Count | None, Field(description="The first attempt included.", le=20)] = None
    backoff: Annotated[Duration | None, Field(description="The wait before the first repetition.")] = None
    growth: Annotated[Ratio | None, Field(description="Each further wait is so many times as long.")] = None
    jitter: Annotated[Share | None, Field(description="Up to this share of the wait is added by chance.")] = None
    budget: Annotated[Share | None, Field(description="The most retries a gateway lets through, of requests.")] = None


class TenantSection(Section):
    """One of those who share the pools."""

    name: Name
    share: Annotated[Share, Field(description="The part of the traffic that it sends.")]
    weight: Annotated[Ratio | None, Field(description="What it is entitled to, against the others.")] = None
    most: Annotated[Share | None, Field(description="The largest part of a pool that it may take.")] = None


class AdmissionSection(Section):
    """Where to stop admitting work, and what that must stand up to."""

    deadline: Annotated[
        Duration | None, Field(description="After so long clients give up, where a class has no deadline of its own.")
    ] = None
    first_token_timeout: Annotated[
        Duration | None, Field(description="Without a first token by then, clients or proxies close the connection.")
    ] = None
    retry: RetrySection = RetrySection()
    overload: Annotated[
        Ratio | None, Field(description="The load that limits must stand up to, in what replicas can do.")
    ] = None
    recovery: Annotated[Duration | None, Field(description="How soon after a burst all must be well again.")] = None
    slo_window: Annotated[Duration | None, Field(description="The window over which SLOs are judged.")] = None
    warm_replicas: Annotated[Count | None, Field(description="Replicas kept warm against bursts, in each pool.")] = None
    scale_delay: Annotated[Duration | None, Field(description="How long a burst lasts before it is noticed.")] = None
    backpressure: Annotated[
        Share | None, Field(description="At this share of the queue's bound senders are told to slow down.")
    ] = None
    success: Annotated[
        dict[Name, SuccessName],
        Field(
            default_factory=dict,
            description="By class, what recovery is judged by: SLOs (the default), an answer before the deadline, "
            "or any answer.",
        ),
    ]
    tenants: tuple[TenantSection, ...] = ()


def admission_of(
    section: AdmissionSection, deadlines: Mapping[str, float | None], provenance: Provenance
) -> AdmissionPolicy:
    """The policy; `deadlines` are those of the classes, by name, None where a class has none of its own."""
    for name in section.success:
        if name not in deadlines:
            raise unknown_name(field="admission.success", name=name, known=deadlines)
    retry = section.retry
    return AdmissionPolicy(
        attempts=provenance.over(defaults.ATTEMPTS, retry.attempts),
        backoff=provenance.over(defaults.BACKOFF, retry.backoff),
        growth=provenance.over(defaults.GROWTH, retry.growth),
        jitter=provenance.over(defaults.JITTER, retry.jitter),
        retry_budget=provenance.over(defaults.RETRY_BUDGET, retry.budget),
        first_token_timeout=provenance.over(defaults.FIRST_TOKEN_TIMEOUT, section.first_token_timeout),
        deadline=provenance.over(defaults.DEADLINE, section.deadline),
        overload=provenance.over(defaults.OVERLOAD, section.overload),
        recovery=provenance.over(defaults.RECOVERY, section.recovery),
        slo_window=provenance.over(defaults.SLO_WINDOW, section.slo_window),
        warm_replicas=(
            None
            if section.warm_replicas is None
            else provenance.decides("admission.warm_replicas", section.warm_replicas, "replicas", section.warm_replicas)
        ),
        scale_delay=provenance.over(defaults.SCALE_DELAY, section.scale_delay),
        backpressure=provenance.over(defaults.BACKPRESSURE, section.backpressure),
        classes={
            name: _class(name, deadline_s, section.success.get(name, "slo"), provenance)
            for name, deadline_s in deadlines.items()
        },
        tenants=tuple(_tenant(each, provenance) for each in section.tenants),
    )


def _class(name: str, deadline_s: float | None, success: SuccessName, provenance: Provenance) -> ClassPolicy:
    stated = None if deadline_s is None else provenance.says(f"{name}.deadline", deadline_s, "s", deadline_s)
    return ClassPolicy(deadline=stated, success=Success(success))


def _tenant(section: TenantSection, provenance: Provenance) -> Tenant:
    name = f"tenant.{section.name}"
    return Tenant(
        name=section.name,
        share=provenance.says(f"{name}.share", section.share, "fraction", section.share),
        weight=provenance.decides(f"{name}.weight", section.weight, "ratio", WEIGHT),
        most=provenance.decides(f"{name}.most", section.most, "fraction", MOST_FRACTION),
    )
