"""Charges as a FOCUS file: the columns of version 1.2, and those of 1.3 that say how a shared cost was split.

Every column that a plan can fill stands in every file, empty or not: tools that read FOCUS look for them by name. The
columns of capacity reservations, invoices, other currencies and splits stand in it where a row has a value for them.
Decimals carry a point, times are UTC.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from ullage.cost.charges import Allocation, ChargeRow
from ullage.emit.focus_rules import ALLOCATED, COLUMNS, MANDATORY, OWN, problems
from ullage.errors import InternalError
from ullage.foreign import csv_cell, json_text

_UNIT_PRICE_DIGITS = 18
_RARE = ("CapacityReservation", "PricingCurrency", "InvoiceId", "SkuPriceDetails")


def focus_csv(rows: Sequence[ChargeRow], *, account_id: str, account_name: str = "") -> str:
    """The file's text. One that breaks the rules of FOCUS is our error and is never handed out."""
    cells = [_cells(row, account_id, account_name) for row in rows]
    own = sorted({name for row in cells for name in row if name.startswith(OWN)})
    used = [
        name
        for name, column in COLUMNS.items()
        if column.level == MANDATORY or not _is_rare(name, column.level) or any(row.get(name) for row in cells)
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=[*used, *own], restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    # Names of services, regions, tenants and resources are other people's text.
    writer.writerows({name: csv_cell(each) for name, each in row.items()} for row in cells)
    text = out.getvalue()
    found = problems(text)
    if found:
        raise InternalError(law="a FOCUS file keeps the rules of FOCUS", left=found[0], right=f"{len(found)} breaches")
    return text


def _is_rare(name: str, level: str) -> bool:
    return level == ALLOCATED or name.startswith(_RARE)


def _cells(row: ChargeRow, account_id: str, account_name: str) -> dict[str, str]:
    used = row.category == "Usage" and (row.commitment is None or row.commitment.is_used)
    return {
        "BilledCost": _decimal(row.billed),
        "EffectiveCost": _decimal(row.effective),
        "ListCost": _decimal(row.list),
        "ContractedCost": _decimal(row.contracted),
        "BillingAccountId": account_id,
        "BillingAccountName": account_name,
        "BillingAccountType": "Service",
        "BillingCurrency": row.currency,
        "BillingPeriodStart": _moment(row.billing_period.start),
        "BillingPeriodEnd": _moment(row.billing_period.end),
        "ChargePeriodStart": _moment(row.period.start),
        "ChargePeriodEnd": _moment(row.period.end),
        "ChargeCategory": row.category,
        "ChargeDescription": row.description,
        "ChargeFrequency": row.frequency,
        "InvoiceIssuerName": row.issuer or row.provider,
        "ProviderName": row.provider,
        "PublisherName": row.publisher or row.provider,
        "ServiceCategory": row.service_category,
        "ServiceSubcategory": row.service_subcategory,
        "ServiceName": row.service,
        "RegionId": row.region,
        "RegionName": row.region_name or row.region,
        "AvailabilityZone": row.zone,
        "ResourceId": row.resource_id,
        "ResourceName": row.resource_name,
        "ResourceType": row.resource_type,
        "ConsumedQuantity": _decimal(row.quantity) if used else "",
        "ConsumedUnit": row.unit if used else "",
        "Tags": _object(row.tags),
        **(_unit_cells(row) if row.is_priced_by_unit else {}),
        **_commitment_cells(row),
        **_allocation_cells(row),
        **{name: _decimal(each) if isinstance(each, Decimal) else each for name, each in row.own.items()},
    }


def _unit_cells(row: ChargeRow) -> dict[str, str]:
    return {
        "PricingCategory": row.pricing,
        "PricingQuantity": _decimal(row.quantity),
        "PricingUnit": row.unit,
        "ListUnitPrice": _unit_price(row.list, row.quantity),
        "ContractedUnitPrice": _unit_price(row.contracted, row.quantity),
        "SkuId": row.sku,
        "SkuMeter": row.unit,
        "SkuPriceId": row.price_id or row.sku,
    }


def _commitment_cells(row: ChargeRow) -> dict[str, str]:
    commitment = row.commitment
    if commitment is None:
        return {}
    status = "Used" if commitment.is_used else "Unused"
    return {
        "CommitmentDiscountId": commitment.id,
        "CommitmentDiscountName": commitment.name,
        "CommitmentDiscountType": commitment.kind,
        "CommitmentDiscountCategory": "Spend" if commitment.is_spend else "Usage",
        "CommitmentDiscountStatus": status if row.category == "Usage" else "",
        "CommitmentDiscountQuantity": _decimal(commitment.quantity),
        "CommitmentDiscountUnit": commitment.unit,
    }


def _allocation_cells(row: ChargeRow) -> dict[str, str]:
    allocation = row.allocation
    if allocation is None:
        return {}
    return {
        "AllocatedMethodId": allocation.method,
        "AllocatedMethodDetails": _details(allocation),
        "AllocatedResourceId": allocation.resource_id,
        "AllocatedResourceName": allocation.resource_name,
        "AllocatedTags": _object(allocation.tags),
    }


def _details(allocation: Allocation) -> str:
    """The part, and how the rule was set: FOCUS has names for the one, and `x_` for what is ours."""
    own = {f"{OWN}{key}": each for key, each in sorted(allocation.details.items())}
    found = {"Elements": [{"AllocatedRatio": float(allocation.ratio), **own}]}
    return json_text(json.dumps(found, ensure_ascii=False))


def _unit_price(cost: Decimal, quantity: Decimal) -> str:
    """Cost by quantity; the price of nothing is 0, for FOCUS wants one."""
    if not quantity:
        return _decimal(Decimal(0))
    price = cost / quantity
    return _decimal(price.quantize(Decimal(1).scaleb(price.adjusted() - _UNIT_PRICE_DIGITS)) if price else price)


def _decimal(value: Decimal) -> str:
    """Plain, with a point: FOCUS tells a decimal from a whole number by it."""
    text = format(value, "f")
    if "." not in text:
        return f"{text}.0"
    whole, part = text.split(".")
    return f"{whole}.{part.rstrip('0') or '0'}"


def _moment(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(values: Mapping[str, str]) -> str:
    return json_text(json.dumps(values, sort_keys=True, ensure_ascii=False)) if values else ""
