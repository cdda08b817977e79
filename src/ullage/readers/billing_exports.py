"""Bills and price lists of providers that are known by name and not read here, and what to give in their place.

Every large provider writes the same bill as FOCUS, which is read. A file that is refused without its name sends people
to look for what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

CUR_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("line_item_usage_start_date", "line_item_unblended_cost", "line_item_currency_code"),
    ("lineItem/UsageStartDate", "lineItem/UnblendedCost", "lineItem/CurrencyCode"),
)
"""Of an AWS Cost and Usage Report, version 2 and 1: when a charge began, its part of the invoice, and the currency."""

_OWN = "or write the prices that you pay into a CSV of ours: docs/reference/price-book.md."


@dataclass(frozen=True, kw_only=True)
class BillingExport:
    """A file of a provider: any of `keys` are together in it, as columns or as keys of the document."""

    what: str
    keys: tuple[tuple[str, ...], ...]
    fix: str


EXPORTS: tuple[BillingExport, ...] = (
    BillingExport(
        what="an AWS Cost and Usage Report",
        keys=CUR_COLUMNS,
        fix=f"AWS Data Exports writes the same bill as FOCUS, whose prices are read; {_OWN}",
    ),
    BillingExport(
        what="an Azure cost export",
        keys=(
            ("CostInBillingCurrency",),
            ("costInBillingCurrency",),
            ("PreTaxCost", "MeterId"),
            ("properties", "meterId"),
            ("KostenInAbrechnungswährung",),
            ("Datum", "Kosten"),
        ),
        fix="It says what was paid, not prices: give it, with the currency of its rows, to ullage reconcile --paid. "
        f"Cost Management exports 'Cost and usage details (FOCUS)', whose prices are read; {_OWN}",
    ),
    BillingExport(
        what="a Google Cloud billing export",
        keys=(("usage_start_time", "cost", "currency"), ("service.description", "sku.description", "cost")),
        fix=f"Google publishes a FOCUS view of the same BigQuery tables; export that; {_OWN}",
    ),
    BillingExport(
        what="an AWS price list",
        keys=(("offerCode", "products"), ("formatVersion", "offerCode")),
        fix=f"Give a SkyPilot catalogue, which is made from it, {_OWN}",
    ),
    BillingExport(
        what="a page of Azure's retail prices",
        keys=(("Items", "BillingCurrency"),),
        fix=f"Give a SkyPilot catalogue, which is made from them, {_OWN}",
    ),
    BillingExport(
        what="a page of Google Cloud's price catalogue", keys=(("skus",),), fix=f"Give a SkyPilot catalogue, {_OWN}"
    ),
    BillingExport(
        what="an answer of OpenCost's or Kubecost's allocation API",
        keys=(("code", "data"),),
        fix="It says what was paid, not prices: give it to ullage reconcile --paid.",
    ),
)


def export_named(keys: Collection[str] | Mapping[str, object]) -> BillingExport | None:
    """The export that has these columns or keys, where it is one that is known."""
    there = {*keys}
    return next((each for each in EXPORTS if any({*some} <= there for some in each.keys)), None)
