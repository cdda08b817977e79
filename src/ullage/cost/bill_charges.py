"""A bill as charges that FinOps tools read: one row for each line and, where it was attributed, each owner.

Costs are whole cents as decimals, so that the rows of a file sum to the bill. A plan knows what will be paid, not what
was listed before discounts: all four costs of a row are the same effective cost. A line that is not priced is no charge
and has no row.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal

from ullage.cost.attribution.attribution import Attribution
from ullage.cost.attribution.dimensions import group_tags
from ullage.cost.bill import Bill
from ullage.cost.charges import Allocation, ChargeRow, Period
from ullage.cost.lines.line import BillLine, Origin
from ullage.cost.money import apportion
from ullage.cost.quotes import DeviceQuote
from ullage.prices.book import MissingPrice
from ullage.prices.purchase import Purchase

SERVICE = "Self-hosted inference"

# The category and subcategory of FOCUS for each line.
_CATEGORIES: dict[str, tuple[str, str]] = {
    "compute_reservation": ("Compute", "Virtual Machines"),
    "compute_usage": ("Compute", "Virtual Machines"),
    "idle_hours": ("Compute", "Virtual Machines"),
    "idle_reserve": ("Compute", "Virtual Machines"),
    "stranded_devices": ("Compute", "Virtual Machines"),
    "failed_work": ("Compute", "Virtual Machines"),
    "storage": ("Storage", "Storage Platforms"),
    "network": ("Networking", "Network Connectivity"),
    "provider_tokens": ("AI and Machine Learning", "Generative AI"),
    "tool_apis": ("Integration", "API Management"),
    "observability": ("Management and Governance", "Observability"),
    "evaluation": ("Developer Tools", "Quality Assurance"),
    "engineering": ("Management and Governance", "Support"),
}


def month_after(day: datetime.date) -> Period:
    """The calendar month that begins next."""
    start = (day.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)
    end = (start + datetime.timedelta(days=32)).replace(day=1)
    return Period(start=_midnight(start), end=_midnight(end))


def charge_rows(bill: Bill, period: Period, attribution: Attribution | None = None) -> tuple[ChargeRow, ...]:
    """Rows that sum to the bill to the cent; with an attribution, one for each owner of a part."""
    lines = [each for each in bill.lines if each.is_priced]
    if attribution is None:
        return tuple(_row(bill, each, period, each.cents or 0, Decimal(str(each.amount.value))) for each in lines)
    rows = []
    for place, line in enumerate(attribution.lines):
        cents = [row.cents[place] for row in attribution.rows]
        # Quantities are divided as the money is, in millionths, so that they sum as well.
        whole = round(line.amount.value * 1e6)
        parts = apportion(whole, cents) if any(cents) else [0] * len(cents)
        rows += [
            _row(
                bill,
                line,
                period,
                part,
                Decimal(quantity).scaleb(-6),
                allocation=_allocation(attribution, line, owner.name, part),
                tags=group_tags(attribution.choice.by, owner.name),
            )
            for owner, part, quantity in zip(attribution.rows, cents, parts, strict=True)
            if part
        ]
    return tuple(rows)


def _row(
    bill: Bill,
    line: BillLine,
    period: Period,
    cents: int,
    quantity: Decimal,
    *,
    allocation: Allocation | None = None,
    tags: Mapping[str, str] | None = None,
) -> ChargeRow:
    cost = Decimal(cents).scaleb(-2)
    category, subcategory = _CATEGORIES[line.name]
    quote = _quote(bill, line)
    evidence = "" if line.figure is None else str(line.figure.evidence)
    return ChargeRow(
        provider=_seller(line, quote),
        service=SERVICE,
        service_category=category,
        service_subcategory=subcategory,
        sku=line.label,
        description=line.label.replace("_", " "),
        category="Usage",
        pricing=_pricing(quote),
        quantity=quantity,
        unit=line.amount.unit,
        list=cost,
        contracted=cost,
        billed=cost,
        effective=cost,
        period=period,
        billing_period=period,
        region=quote.region if quote else "",
        resource_id=f"pool/{line.pool}" if line.pool else f"service/{bill.use.service}",
        resource_name=line.pool or bill.use.service,
        resource_type="Pool" if line.pool else "Service",
        allocation=allocation,
        tags={"line": line.name, "behaviour": line.behaviour.value, **(tags or {})},
        own={"x_Evidence": evidence, "x_Sharing": line.sharing.value, "x_Origin": line.origin.value},
    )


def _allocation(attribution: Attribution, line: BillLine, owner: str, cents: int) -> Allocation:
    choice = attribution.choice
    share = Decimal(cents) / Decimal(line.cents) if line.cents else Decimal(0)
    return Allocation(
        method=f"ullage:{choice.rule}",
        ratio=share.quantize(Decimal("0.000001")),
        details={"Basis": choice.basis.value, "Driver": line.driver.value, "Idle": choice.idle.value},
        resource_id=f"{choice.by}/{owner}",
        resource_name=owner,
        tags=group_tags(choice.by, owner),
    )


def _quote(bill: Bill, line: BillLine) -> DeviceQuote | None:
    """The device price behind a line of a pool: the committed one for reservations, else the first."""
    found = bill.quotes.devices.get(line.pool)
    if not line.pool or found is None or isinstance(found, MissingPrice) or not found:
        return None
    committed = [each for each in found if each.purchase.is_committed]
    if line.name == "compute_reservation" and committed:
        return committed[0]
    return next((each for each in found if not each.purchase.is_committed), found[0])


def _seller(line: BillLine, quote: DeviceQuote | None) -> str:
    if line.origin is Origin.EXTERNAL and line.name != "tool_apis" and line.item:
        return line.item.split()[-1]
    return (quote.provider if quote else "") or "own account"


def _pricing(quote: DeviceQuote | None) -> str:
    if quote is None:
        return "Standard"
    if quote.purchase.is_committed:
        return "Committed"
    return "Dynamic" if quote.purchase is Purchase.SPOT else "Standard"


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time(), tzinfo=datetime.UTC)
