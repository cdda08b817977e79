"""The rules of FOCUS 1.2 that a file of charges can break, and the five columns of 1.3 for split costs.

Columns, levels and allowed values are of the specification's 1.2 (focus.finops.org, 30 May 2025); the allocated
columns are of 1.3. `problems` reads a file's text and names every breach by row, column and rule.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MANDATORY, CONDITIONAL, RECOMMENDED, ALLOCATED = "Mandatory", "Conditional", "Recommended", "Allocated"
DECIMAL, STRING, TIME, JSON = "Decimal", "String", "Date/Time", "JSON"
ELEMENTS = "JSON elements"
"""Of version 1.3: an object whose `Elements` say how a cost was split, each with its ratio."""


@dataclass(frozen=True, kw_only=True)
class FocusColumn:
    """What the specification says of a column."""

    level: str
    nulls: bool
    type: str
    values: tuple[str, ...] = ()


def _columns(level: str, nulls: bool, kind: str, names: str) -> dict[str, FocusColumn]:
    return {name: FocusColumn(level=level, nulls=nulls, type=kind) for name in names.split()}


_CATEGORIES = {
    "AI and Machine Learning": "AI Platforms|Bots|Generative AI|Machine Learning|Natural Language Processing",
    "Analytics": "Analytics Platforms|Business Intelligence|Data Processing|Search|Streaming Analytics",
    "Business Applications": "Productivity and Collaboration",
    "Compute": "Containers|End User Computing|Quantum Compute|Serverless Compute|Virtual Machines",
    "Databases": (
        "Caching|Data Warehouses|Ledger Databases|NoSQL Databases|Relational Databases|Time Series Databases"
    ),
    "Developer Tools": (
        "Developer Platforms|Continuous Integration and Deployment|Development Environments|Source Code Management|"
        "Quality Assurance"
    ),
    "Identity": "Identity and Access Management",
    "Integration": "API Management|Messaging|Workflow Orchestration",
    "Internet of Things": "IoT Analytics|IoT Platforms",
    "Management and Governance": (
        "Architecture|Compliance|Cost Management|Data Governance|Disaster Recovery|Endpoint Management|Observability|"
        "Support"
    ),
    "Media": "Content Creation|Gaming|Media Streaming|Mixed Reality",
    "Migration": "Data Migration|Resource Migration",
    "Mobile": "",
    "Multicloud": "Multicloud Integration",
    "Networking": (
        "Application Networking|Content Delivery|Network Connectivity|Network Infrastructure|Network Routing|"
        "Network Security"
    ),
    "Security": "Secret Management|Security Posture Management|Threat Detection and Response",
    "Storage": "Backup Storage|Block Storage|File Storage|Object Storage|Storage Platforms",
    "Web": "Application Platforms",
    "Other": "",
}
SUBCATEGORIES = {
    category: (*(each for each in names.split("|") if each), f"Other ({category})")
    for category, names in _CATEGORIES.items()
}
"""Service category -> its subcategories."""

_VALUES = {
    "ChargeCategory": ("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "ChargeClass": ("Correction",),
    "ChargeFrequency": ("One-Time", "Recurring", "Usage-Based"),
    "PricingCategory": ("Standard", "Dynamic", "Committed", "Other"),
    "CommitmentDiscountCategory": ("Spend", "Usage"),
    "CommitmentDiscountStatus": ("Used", "Unused"),
    "CapacityReservationStatus": ("Used", "Unused"),
    "ServiceCategory": tuple(SUBCATEGORIES),
    "ServiceSubcategory": tuple(each for names in SUBCATEGORIES.values() for each in names),
}

_PLAIN = {
    **_columns(MANDATORY, False, DECIMAL, "BilledCost ContractedCost EffectiveCost ListCost"),
    **_columns(MANDATORY, True, DECIMAL, "PricingQuantity"),
    **_columns(
        MANDATORY,
        False,
        STRING,
        "BillingAccountId BillingCurrency ChargeCategory InvoiceIssuerName ProviderName PublisherName"
        " ServiceCategory ServiceName",
    ),
    **_columns(MANDATORY, True, STRING, "BillingAccountName ChargeClass ChargeDescription PricingUnit"),
    **_columns(MANDATORY, False, TIME, "BillingPeriodStart BillingPeriodEnd ChargePeriodStart ChargePeriodEnd"),
    **_columns(CONDITIONAL, False, STRING, "BillingAccountType"),
    **_columns(
        CONDITIONAL,
        True,
        STRING,
        "CapacityReservationId CapacityReservationStatus CommitmentDiscountCategory CommitmentDiscountId"
        " CommitmentDiscountName CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit ConsumedUnit"
        " PricingCategory PricingCurrency RegionId RegionName ResourceId ResourceName ResourceType SkuId SkuMeter"
        " SkuPriceId SubAccountId SubAccountName SubAccountType",
    ),
    **_columns(
        CONDITIONAL,
        True,
        DECIMAL,
        "CommitmentDiscountQuantity ConsumedQuantity ContractedUnitPrice ListUnitPrice"
        " PricingCurrencyContractedUnitPrice PricingCurrencyEffectiveCost PricingCurrencyListUnitPrice",
    ),
    **_columns(CONDITIONAL, True, JSON, "SkuPriceDetails Tags"),
    **_columns(RECOMMENDED, True, STRING, "AvailabilityZone InvoiceId"),
    **_columns(RECOMMENDED, False, STRING, "ChargeFrequency ServiceSubcategory"),
}
_SPLIT = {
    **_columns(ALLOCATED, True, STRING, "AllocatedMethodId AllocatedResourceId AllocatedResourceName"),
    **_columns(ALLOCATED, True, JSON, "AllocatedTags"),
    **_columns(ALLOCATED, True, ELEMENTS, "AllocatedMethodDetails"),
}
COLUMNS = {
    name: FocusColumn(level=each.level, nulls=each.nulls, type=each.type, values=_VALUES.get(name, ()))
    for name, each in {**_PLAIN, **_SPLIT}.items()
}
"""Every column by name: the 57 of version 1.2 and the five of 1.3 that say how a cost was split."""

OWN = "x_"
"""How the name of a column that is not of the specification starts."""

Row = Mapping[str, str]


def problems(text: str) -> list[str]:
    """Every breach in a file, as `row 3: ListCost: ...`; none where the file keeps the rules."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    header = list(reader.fieldnames or ())
    found = [*_header_problems(header)]
    for number, row in enumerate(reader, 1):
        if None in row or None in row.values():
            found.append(f"row {number}: has not as many cells as the header")
            continue
        found += [f"row {number}: {each}" for each in _row_problems(row)]
    return found


def _header_problems(header: list[str]) -> Iterator[str]:
    for name, column in COLUMNS.items():
        if column.level == MANDATORY and name not in header:
            yield f"header: {name}: is mandatory and absent"
    for name in header:
        if name not in COLUMNS and not name.startswith(OWN):
            yield f"header: {name}: is not a column of FOCUS; one of your own starts with {OWN}"
        if header.count(name) > 1:
            yield f"header: {name}: appears twice"


def _row_problems(row: Row) -> Iterator[str]:
    for name, value in row.items():
        column = COLUMNS.get(name)
        if column is None:
            continue
        if not value:
            if not column.nulls:
                yield f"{name}: must not be null"
            continue
        problem = _value_problem(value, column) or _FORMATS.get(name, _no_format)(value)
        if problem:
            yield f"{name}: {value!r} {problem}"
    yield from _rules(row)


def _value_problem(value: str, column: FocusColumn) -> str:
    if column.values and value not in column.values:
        return "is not an allowed value"
    if column.type == DECIMAL:
        return "" if re.fullmatch(r"[+-]?\d+\.\d+(E[+-]?\d+)?", value) else "is not a decimal with its point"
    if column.type == TIME:
        return "" if _moment(value) is not None else "is not a UTC time such as 2026-11-01T00:00:00Z"
    if column.type == JSON:
        return _json_problem(value)
    if column.type == ELEMENTS:
        return _elements_problem(value)
    return "has blanks around it" if value != value.strip() else ""


def _json_problem(value: str) -> str:
    try:
        found = json.loads(value)
    except json.JSONDecodeError:
        return "is not JSON"
    flat = isinstance(found, dict) and all(
        each is None or isinstance(each, (str, bool, int, float)) for each in found.values()
    )
    return "" if flat else "is not a flat object of keys and values"


_ELEMENT_KEYS = ("AllocatedRatio", "UsageUnit", "UsageQuantity")


def _elements_problem(value: str) -> str:
    try:
        found = json.loads(value)
    except json.JSONDecodeError:
        return "is not JSON"
    elements = found.get("Elements") if isinstance(found, dict) else None
    if not isinstance(elements, list) or not elements or not all(isinstance(each, dict) for each in elements):
        return "has no Elements"
    for each in elements:
        ratio = each.get("AllocatedRatio")
        if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
            return "has an element without a ratio from 0 to 1"
        if any(key not in _ELEMENT_KEYS and not key.startswith(OWN) for key in each):
            return f"has a key of its own that does not start with {OWN}"
    return ""


def _currency_problem(value: str) -> str:
    return "" if re.fullmatch(r"[A-Z]{3}", value) else "is not a three-letter currency"


def _no_format(_value: str) -> str:
    return ""


_FORMATS = {"BillingCurrency": _currency_problem, "PricingCurrency": _currency_problem}


def _rules(row: Row) -> Iterator[str]:
    """What one column asks of another."""
    yield from _period_rules(row)
    yield from _nullity_rules(row)
    yield from _product_rules(row)
    parent, child = row.get("ServiceCategory", ""), row.get("ServiceSubcategory", "")
    if child and child not in SUBCATEGORIES.get(parent, ()):
        yield f"ServiceSubcategory: {child!r} is not of the category {parent!r}"
    if row.get("ChargeCategory") == "Purchase" and row.get("ChargeFrequency") == "Usage-Based":
        yield "ChargeFrequency: a purchase is not Usage-Based"


def _period_rules(row: Row) -> Iterator[str]:
    for kind in ("Billing", "Charge"):
        start, end = _moment(row.get(f"{kind}PeriodStart", "")), _moment(row.get(f"{kind}PeriodEnd", ""))
        if start is not None and end is not None and not start < end:
            yield f"{kind}PeriodEnd: is not after {kind}PeriodStart"


def _nullity_rules(row: Row) -> Iterator[str]:
    category, corrects = row.get("ChargeCategory"), row.get("ChargeClass") == "Correction"
    by_unit = ("PricingQuantity", "PricingCategory", "ListUnitPrice", "ContractedUnitPrice", "SkuId", "SkuPriceId")
    for name in by_unit:
        if category == "Tax" and row.get(name):
            yield f"{name}: must be null for a tax"
        if category in ("Usage", "Purchase") and not corrects and name in row and not row[name]:
            yield f"{name}: must not be null for {category}"
    unused = row.get("CommitmentDiscountStatus") == "Unused"
    consumed = bool(row.get("ConsumedQuantity"))
    if consumed and (category != "Usage" or unused):
        yield "ConsumedQuantity: must be null where nothing was used"
    if "ConsumedQuantity" in row and not consumed and category == "Usage" and not unused and not corrects:
        yield "ConsumedQuantity: must not be null for Usage"
    for one, other in _TOGETHER:
        if one in row and other in row and bool(row[one]) != bool(row[other]):
            yield f"{other}: must be null where {one} is, and not where it is not"
    if row.get("CommitmentDiscountId") and category == "Usage" and not row.get("CommitmentDiscountStatus"):
        yield "CommitmentDiscountStatus: must not be null for use of a commitment"
    if not row.get("CommitmentDiscountId") and row.get("CommitmentDiscountStatus"):
        yield "CommitmentDiscountStatus: must be null without a commitment"


_TOGETHER = (
    ("PricingQuantity", "PricingUnit"),
    ("ConsumedQuantity", "ConsumedUnit"),
    ("RegionId", "RegionName"),
    ("ResourceId", "ResourceType"),
    ("CommitmentDiscountId", "CommitmentDiscountCategory"),
    ("CommitmentDiscountId", "CommitmentDiscountType"),
    ("CommitmentDiscountQuantity", "CommitmentDiscountUnit"),
    ("AllocatedMethodId", "AllocatedMethodDetails"),
)
# Unit prices are quotients and end somewhere; FOCUS asks that the product match, and a hundredth of a cent is enough.
_MATCHES = Decimal("0.0001")


def _product_rules(row: Row) -> Iterator[str]:
    if row.get("ChargeClass") == "Correction":
        return
    quantity = _decimal(row.get("PricingQuantity", ""))
    for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
        unit, total = _decimal(row.get(price, "")), _decimal(row.get(cost, ""))
        if unit is not None and unit < 0:
            yield f"{price}: is negative"
        if None not in (quantity, unit, total) and abs(quantity * unit - total) > _MATCHES:  # type: ignore[operator]
            yield f"{cost}: {total} is not {price} x PricingQuantity"


def _decimal(value: str) -> Decimal | None:
    try:
        return Decimal(value) if value else None
    except InvalidOperation:
        return None


def _moment(value: str) -> datetime.datetime | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        return None
    try:
        return datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
