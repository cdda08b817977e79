"""`claims:` of a plan file: what others claim about the service, for `ullage check` to compare with the plan."""

from __future__ import annotations

import datetime
from typing import Annotated

from ullage.cost.attribution.attribution import ATTRIBUTION_RULES
from ullage.errors import unknown_name
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import Count, RequestRate, StartTime, Usd
from ullage.files.sections.section import Key, Name, Section
from ullage.planning.checks.claims import Claims, CostClaim

_NOT_STATED = "not claimed"
_LABELLED = "check.unlabelled-cost"


class CostClaimSection(Section):
    """The claimed cost of a success."""

    per_success: Annotated[
        Usd, Key(means="What one success is claimed to cost, such as 0.004 USD.", moves="check.partial-cost")
    ]
    dated: Annotated[
        datetime.date | None, Key(means="The date of its prices.", default=_NOT_STATED, moves=_LABELLED)
    ] = None
    region: Annotated[str, Key(means="Where.", default=_NOT_STATED, moves=_LABELLED)] = ""
    model: Annotated[str, Key(means="For which model.", default=_NOT_STATED, moves=_LABELLED)] = ""
    success: Annotated[str, Key(means="What counts as a success.", default=_NOT_STATED, moves=_LABELLED)] = ""


class ClaimsSection(Section):
    """Claims made elsewhere, on a slide or in a spreadsheet, to be checked."""

    pool: Annotated[
        Name | None,
        Key(means="Of which pool, among several.", default="the first pool", moves="check.maximum-throughput"),
    ] = None
    replicas: Annotated[
        Count | None,
        Key(means="Steady replicas claimed to be enough.", default=_NOT_STATED, moves="check.average-length"),
    ] = None
    capacity: Annotated[
        RequestRate | None,
        Key(
            means="Requests per second that a replica is claimed to carry.",
            default=_NOT_STATED,
            moves="check.maximum-throughput",
        ),
    ] = None
    concurrency: Annotated[
        Count | None,
        Key(
            means="Requests of the longest context that a replica is claimed to hold at once.",
            default=_NOT_STATED,
            moves="check.forgotten-memory",
        ),
    ] = None
    scale_up: Annotated[
        StartTime | None,
        Key(means="How soon a replica is claimed to be ready.", default=_NOT_STATED, moves="check.instant-scaling"),
    ] = None
    least_replicas: Annotated[
        Count | None,
        Key(means="The minimum that an autoscaler is set to.", default=_NOT_STATED, moves="check.instant-scaling"),
    ] = None
    attribution: Annotated[
        str | None,
        Key(
            means="The rule by which shared devices are divided.",
            default=_NOT_STATED,
            moves="check.split-by-requests",
            choices=tuple(ATTRIBUTION_RULES),
        ),
    ] = None
    cost: Annotated[CostClaimSection | None, Key(means="What a success is claimed to cost.")] = None


def claims_of(section: ClaimsSection, pools: tuple[str, ...], provenance: Provenance) -> Claims:
    """The claims as values; a pool or a rule that is not known is an InputError with the nearest."""
    if section.pool is not None and section.pool not in pools:
        raise unknown_name(field="claims.pool", name=section.pool, known=pools)
    if section.attribution is not None and section.attribution not in ATTRIBUTION_RULES:
        raise unknown_name(field="claims.attribution", name=section.attribution, known=ATTRIBUTION_RULES)

    def said(name: str, unit: str) -> Assumption | None:
        return provenance.may_say(f"claims.{name}", getattr(section, name), unit)

    return Claims(
        pool=section.pool or "",
        replicas=said("replicas", "replicas"),
        capacity=said("capacity", "req/s"),
        concurrency=said("concurrency", "requests"),
        scale_up=said("scale_up", "s"),
        least_replicas=said("least_replicas", "replicas"),
        attribution=said("attribution", ""),
        cost=None if section.cost is None else _cost(section.cost, provenance),
    )


def _cost(section: CostClaimSection, provenance: Provenance) -> CostClaim:
    return CostClaim(
        per_success=provenance.says("claims.cost.per_success", section.per_success, "USD"),
        dated=section.dated,
        region=section.region,
        model=section.model,
        success=section.success,
    )
