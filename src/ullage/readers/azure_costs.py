"""Azure's own cost files: which columns hold time, amount and currency, and how their times and amounts are written.

    Exports          Date (11/01/2026), CostInBillingCurrency, BillingCurrency; pay as you go: PreTaxCost, Currency
    Cost analysis    UsageDate, CostUSD, Cost, Currency
    In German        Datum (1.11.2026), Kosten (12,50), Währung, behind semicolons where a spreadsheet saved it

A column in dollars (CostUSD, costInUsd) is taken before one in the currency of the bill.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TIMES = ("date", "usagedate", "usagedatetime", "datum", "nutzungsdatum", "verwendungsdatum", "verbrauchsdatum")
_IN_USD = ("costinusd", "costusd", "kosteninusd", "kostenusd")
_AMOUNTS = (
    "costinbillingcurrency",
    "pretaxcost",
    "kosteninabrechnungswahrung",
    "kostenvorsteuern",
    "vorsteuerkosten",
    "cost",
    "kosten",
)
_CURRENCIES = (
    "billingcurrency",
    "billingcurrencycode",
    "currency",
    "abrechnungswahrung",
    "abrechnungswahrungscode",
    "wahrung",
    "wahrungscode",
)


@dataclass(frozen=True, kw_only=True)
class CostColumns:
    """The columns of a cost file; one in dollars needs no currency."""

    begins: str
    cost: str
    currency: str | None


def cost_columns(header: Sequence[str]) -> CostColumns | None:
    """The columns of an Azure cost file; None where it is none, or does not say in which currency it is."""
    begins = _first(header, _TIMES)
    if begins is None:
        return None
    if (dollars := _first(header, _IN_USD)) is not None:
        return CostColumns(begins=begins, cost=dollars, currency=None)
    cost, currency = _first(header, _AMOUNTS), _first(header, _CURRENCIES)
    if cost is None or currency is None:
        return None
    return CostColumns(begins=begins, cost=cost, currency=currency)


def _first(header: Sequence[str], spelt: Sequence[str]) -> str | None:
    plain = {_plain(each): each for each in reversed(header)}
    return next((plain[each] for each in spelt if each in plain), None)


def _plain(name: str) -> str:
    """Letters alone, small, without their dots.

    >>> _plain("Kosten (Abrechnungswährung)"), _plain("costInUsd")
    ('kostenabrechnungswahrung', 'costinusd')
    """
    letters = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in letters if letter.isascii() and letter.isalpha())


def day_reader(written: Sequence[str]) -> Callable[[str], datetime.datetime]:
    """Reads the days of a file: ISO, 1.11.2026, and 11/1/2026 month first, as Azure writes it, unless one contradicts.

    Whatever is none of these raises a ValueError.
    """
    slashed = [match for each in written if (match := re.match(r"(\d{1,2})/(\d{1,2})/\d", each))]
    is_day_first = any(int(match.group(1)) > 12 for match in slashed)

    def read(text: str) -> datetime.datetime:
        match = re.fullmatch(r"(\d{1,2})([./])(\d{1,2})[./](\d{4})(?:[ T](.*))?", text.strip())
        if match is None:
            return datetime.datetime.fromisoformat(text)
        one, mark, two, year, clock = match.groups()
        day, month = (one, two) if mark == "." or is_day_first else (two, one)
        return datetime.datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{(clock or '00:00:00'):0>8}")

    return read


def plain_amount(text: str, mark: str) -> str:
    """An amount as Python reads it, from one with groups of thousands and this decimal mark.

    >>> plain_amount("1.204,50", ","), plain_amount("1,204.50", ".")
    ('1204.50', '1204.50')
    """
    return re.sub(r"[\s']", "", text).replace("." if mark == "," else ",", "").replace(mark, ".")
