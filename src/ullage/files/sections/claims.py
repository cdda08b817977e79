"""`claims:` of a plan file: what others claim about the service, for `ullage check` to compare with the plan."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from ullage.cost.attribution.attribution import ATTRIBUTION_RULES
from ullage.errors import InputError, unknown_name
from ullage.evidence import Assumption
from ullage.files.sections.provenance import Provenance
from ullage.files.sections.quantities import RequestRate
from ullage.files.sections.section import Count, Name, Section
from ullage.planning.checks.claims import Claims, CostClaim
from ullage.units import DURATION, parse, parse_money


def _start(written: Any) -> float:
    """A duration that may be 0: that is what is claimed where scaling is taken to be instant."""
    text = str(written).strip()
    try:
        return 0.0 if text in ("0", "0s") else parse(text, DURATION, field="")
    except InputError as error:
        raise PydanticCustomError("quantity", "{problem}", {"problem": error.problem, "fix": error.fix}) from None


def _usd(written: Any) -> float:
    try:
        money = parse_money(str(written), field="")
    except InputError as error:
        raise PydanticCustomError("quantity", "{problem}", {"problem": error.problem, "fix": error.fix}) from None
    if money.currency != "USD":
        fix = "Give USD, as the bill is in."
        raise PydanticCustomError("quantity", "{problem}", {"problem": "is in another currency", "fix": fix})
    return float(money.amount)


_Start = Annotated[
    float,
    BeforeValidator(_start),
    WithJsonSchema({"type": ["string", "number"], "description": "A duration, may be 0.", "examples": ["30s"]}),
]
_Usd = Annotated[
    float,
    BeforeValidator(_usd),
    WithJsonSchema({"type": "string", "description": "An amount in USD.", "examples": ["0.004 USD"]}),
]


class CostClaimSection(Section):
    """The claimed cost of a success."""

    per_success: Annotated[_Usd, Field(description="Claimed cost of one success, such as 0.004 USD.")]
    dated: Annotated[datetime.date | None, Field(description="Of which day its prices are.")] = None
    region: Annotated[str, Field(description="Where.")] = ""
    model: Annotated[str, Field(description="For which model.")] = ""
    success: Annotated[str, Field(description="What counts as a success.")] = ""


class ClaimsSection(Section):
    """Claims made elsewhere, on a slide or in a spreadsheet, to be checked."""

    pool: Annotated[Name | None, Field(description="Of which pool, among several; the first where none is named.")] = (
        None
    )
    replicas: Annotated[Count | None, Field(description="Steady replicas that somebody would buy.")] = None
    capacity: Annotated[RequestRate | None, Field(description="Claimed capacity of a replica, requests a second.")] = (
        None
    )
    concurrency: Annotated[
        Count | None, Field(description="Claimed concurrency of a replica at the longest context.")
    ] = None
    scale_up: Annotated[_Start | None, Field(description="Claimed time until a new replica serves.")] = None
    least_replicas: Annotated[Count | None, Field(description="The minimum that an autoscaler is set to.")] = None
    attribution: Annotated[
        str | None,
        Field(
            description="The rule by which shared devices are divided.",
            json_schema_extra={"enum": [*ATTRIBUTION_RULES, None]},
        ),
    ] = None
    cost: Annotated[CostClaimSection | None, Field(description="Claimed cost of a success.")] = None


def claims_of(section: ClaimsSection, pools: tuple[str, ...], provenance: Provenance) -> Claims:
    """The claims as values; a pool or a rule that is not known is an InputError with the nearest."""
    if section.pool is not None and section.pool not in pools:
        raise unknown_name(field="claims.pool", name=section.pool, known=pools)
    if section.attribution is not None and section.attribution not in ATTRIBUTION_RULES:
        raise unknown_name(field="claims.attribution", name=section.attribution, known=ATTRIBUTION_RULES)

    def said(name: str, unit: str) -> Assumption | None:
        value = getattr(section, name)
        return None if value is None else provenance.says(f"claims.{name}", value, unit, 0)

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
        per_success=provenance.says("claims.cost.per_success", section.per_success, "USD", 0),
        dated=section.dated,
        region=section.region,
        model=section.model,
        success=section.success,
    )
