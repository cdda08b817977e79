"""Prices: what a sheet in prices/ holds. A sheet is one provider's list, or one subject's defaults.

Each row is dated by its source. How long a price stays valid depends on what it is of. In the weekly history of
one provider, 2023 to 2026 (`python -m bench.price_moves`), a spot price had moved by more than a tenth after two weeks
in 35 % of cases and after four in 49 %; an on-demand price had moved at all after half a year in 10 % of cases, by up
to 44 %.
"""

from __future__ import annotations

import datetime
import functools

from ullage.facts.catalogue import Catalogue, packaged
from ullage.facts.sheet import Field, RowKind, SheetKind

LIST_MAX_AGE = datetime.timedelta(days=180)
"""On-demand, committed and token lists: after half a year one in ten has changed."""
SPOT_MAX_AGE = datetime.timedelta(days=14)
"""Spot: after two weeks one in three is off by more than a tenth."""
RATE_MAX_AGE = datetime.timedelta(days=730)
"""Storage, egress, wages: lists that are changed every few years."""

_PER = {
    "per_hour": ("USD/h", "an hour"),
    "per_byte": ("USD/byte", "a byte"),
    "per_byte_month": ("USD/byte-month", "a byte kept for a month"),
    "per_call": ("USD/call", "a call"),
    "per_span": ("USD/span", "a span"),
    "per_item": ("USD/item", "an item"),
    "per_series_month": ("USD/series-month", "a time series for a month"),
    "per_kwh": ("USD/kWh", "a kilowatt-hour"),
}


def _listed(unit: str, meaning: str, *, required: bool = False) -> Field:
    return Field(unit=unit, meaning=meaning, required=required, max_age=LIST_MAX_AGE)


def _kept(unit: str, meaning: str) -> Field:
    return Field(unit=unit, meaning=meaning, max_age=RATE_MAX_AGE)


PRICES = SheetKind(
    noun="price list",
    folder="prices",
    howto="docs/howto/bring-your-prices.md",
    texts={"title": True, "provider": False},
    listed={"title": "", "provider": ""},
    fields={
        "residual": _kept("fraction", "what a machine is worth at the end of its life, of what it cost"),
        "life": _kept("s", "how long a machine is used"),
        "cooling": _kept("ratio", "power of the facility over power of the machines (PUE)"),
        "upkeep": _kept("fraction", "support and spares in a year, of what the machine cost"),
        "capital": _kept("fraction", "interest in a year on what is bound in the machine"),
        "electricity": _kept("USD/kWh", "a kilowatt-hour at the site"),
        "space": _kept("USD/kW-month", "space and power connection of one kilowatt for a month"),
        "staff": _kept("USD/month", "hands that one machine needs in a month"),
    },
    rows={
        "devices": RowKind(
            texts={"device": True, "purchase": True, "region": False, "zone": False, "instance": False},
            fields={
                "hourly": _listed("USD/h", "the instance for an hour"),
                "spot_hourly": Field(unit="USD/h", meaning="the same on spot", max_age=SPOT_MAX_AGE),
                "upfront": _listed("USD", "paid once for the term"),
                "devices": Field(unit="count", meaning="devices in the instance", required=True),
                "interruptions": Field(
                    unit="1/h", meaning="how often spot takes a running instance away", max_age=LIST_MAX_AGE
                ),
            },
        ),
        "tokens": RowKind(
            texts={"model": True, "tier": False, "region": False},
            fields={
                "input": _listed("USD/token", "a prompt token"),
                "output": _listed("USD/token", "an answer token"),
                "cached_read": _listed("USD/token", "a prompt token found in the cache"),
                "cache_write": _listed("USD/token", "a prompt token written to the cache"),
                "from_prompt": Field(unit="tokens", meaning="the shortest prompt this price holds for"),
            },
        ),
        "provisioned": RowKind(
            texts={"model": True, "unit": True, "purchase": False, "region": False},
            fields={
                "hourly": _listed("USD/h", "one unit for an hour", required=True),
                "input_rate": _listed("tokens/s", "prompt tokens one unit carries"),
                "output_rate": _listed("tokens/s", "answer tokens one unit carries"),
                "least_units": Field(unit="count", meaning="the smallest order"),
                "step_units": Field(unit="count", meaning="the next larger order is so many more"),
            },
        ),
        "machines": RowKind(
            texts={"device": True, "region": False},
            fields={
                "capex": _listed("USD", "the machine with its share of the fabric, installed", required=True),
                "devices": Field(unit="count", meaning="devices in the machine", required=True),
                "power": Field(unit="W", meaning="what it draws on average while it serves", required=True),
            },
        ),
        "falls": RowKind(
            texts={"device": True},
            fields={"fall": _kept("fraction", "how far its list price fell within a year, at the most")},
        ),
        "rates": RowKind(
            texts={"item": True, "region": False, "name": False},
            fields={name: _kept(unit, meaning) for name, (unit, meaning) in _PER.items()},
        ),
    },
)


@functools.cache
def prices() -> Catalogue:
    """The price lists that come with ullage."""
    return packaged(PRICES)
