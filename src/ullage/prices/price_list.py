"""A price list as it was read: its book, and what was not taken over, by reason.

A row that is dropped is counted; a row that is kept although something is wrong with it is an anomaly, which says
what the list has, what it is compared with, and what was done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ullage.prices.book import AnyPrice, PriceBook, price_book


@dataclass(frozen=True, kw_only=True)
class PriceListAnomaly:
    """An anomaly in a list: how many rows, one of them, and what was done about it."""

    what: str
    rows: int
    example: str
    done: str

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{self.what}: {rows}, such as {self.example}; {self.done}."


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """What a file of prices holds. `dropped` counts by reason what did not become a price."""

    file: str
    format: str
    rows: int
    book: PriceBook
    dropped: Mapping[str, int]
    anomalies: tuple[PriceListAnomaly, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the plan has to know of this file: what was taken over, what was not, and its anomalies."""
        lost = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
        kept = f"{self.file}: {self.format}; {self.rows} rows, {len(self.book)} prices."
        return (
            f"{kept} Not taken over: {lost}." if lost else kept,
            *(f"{self.file}: {each}" for each in self.anomalies),
        )


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """Prices, drops and anomalies of one list while it is read."""

    prices: dict[tuple[type, tuple[str, ...]], AnyPrice] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    odd: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def keep(self, price: AnyPrice) -> None:
        """Take a price over. The same thing priced twice alike is a repeat; priced differently, the first one stays."""
        key = (type(price), price.key)
        known = self.prices.get(key)
        if known is None:
            self.prices[key] = price
        elif [each.value for each in known.amounts] == [each.value for each in price.amounts]:
            self.drop("repeats a row before it")
        else:
            self.drop("prices what a row before it prices otherwise")
            self.note("priced twice, differently", " ".join(filter(None, price.key)), "the first price is kept")

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1

    def note(self, what: str, example: str, done: str) -> None:
        self.odd.setdefault((what, done), []).append(example)

    def finished(self, *, file: str, format_name: str, rows: int) -> PriceList:
        return PriceList(
            file=file,
            format=format_name,
            rows=rows,
            book=price_book(self.prices.values()),
            dropped=dict(sorted(self.dropped.items())),
            anomalies=tuple(
                PriceListAnomaly(what=what, rows=len(examples), example=examples[0], done=done)
                for (what, done), examples in self.odd.items()
            ),
        )
