"""Charges: bill lines as rows that a FinOps tool reads, one for each thing, period and owner.

A row has four costs, as FOCUS defines them: `list` before any discount, `contracted` after the user's discount,
`billed` what the invoice shows in the period, `effective` what the use cost with upfront payments spread over their
term. Costs are decimals, so that rows which sum to a bill do so in the file too. Unit prices follow from cost and
quantity; they are not given twice.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Period:
    """From the first moment to the first moment after, in UTC."""

    start: datetime.datetime
    end: datetime.datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None or not self.start < self.end:
            raise ValueError(f"a period starts before it ends, both with their zone; got {self.start}, {self.end}")


@dataclass(frozen=True, kw_only=True)
class Commitment:
    """The commitment a charge falls under. `is_used` is False for the part of it that nothing used."""

    id: str
    name: str
    kind: str
    quantity: Decimal
    unit: str
    is_spend: bool = False
    is_used: bool = True


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """By which rule a part of a shared cost came to this row, and whose it is.

    The row's own resource is what was shared; `resource_id`, `resource_name` and `tags` are of the owner of the part.
    `ratio` is the part, and `details` are how the rule was set.
    """

    method: str
    ratio: Decimal
    details: Mapping[str, str]
    resource_id: str
    resource_name: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ChargeRow:
    """One charge. `category` is Usage, Purchase, Tax, Credit or Adjustment; `pricing` Standard, Committed, Dynamic
    or Other. `own` are columns of one's own; their names start with `x_`.
    """

    provider: str
    service: str
    service_category: str
    service_subcategory: str
    sku: str
    description: str
    category: str
    pricing: str
    quantity: Decimal
    unit: str
    list: Decimal
    contracted: Decimal
    billed: Decimal
    effective: Decimal
    period: Period
    billing_period: Period
    currency: str = "USD"
    frequency: str = "Usage-Based"
    publisher: str = ""
    issuer: str = ""
    region: str = ""
    region_name: str = ""
    zone: str = ""
    resource_id: str = ""
    resource_name: str = ""
    resource_type: str = ""
    price_id: str = ""
    commitment: Commitment | None = None
    allocation: Allocation | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str | Decimal] = field(default_factory=dict)

    @property
    def is_priced_by_unit(self) -> bool:
        return self.category in ("Usage", "Purchase")
