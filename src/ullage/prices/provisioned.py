"""Provisioned units: how many a load of tokens needs, and what they cost by the hour, used or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ullage.evidence import Figure
from ullage.prices.book import PROVISIONED, MissingPrice, PriceBook, ProvisionedUnit
from ullage.prices.effective import usd
from ullage.prices.wanted import HOWTO


@dataclass(frozen=True, kw_only=True)
class TokenLoad:
    """Tokens per second that have to be carried, at the busiest."""

    input_tokens_per_s: float
    output_tokens_per_s: float


@dataclass(frozen=True, kw_only=True)
class Provision:
    """So many units of an offer, and what they cost together by the hour."""

    unit: ProvisionedUnit
    units: int
    usd_per_hour: Figure


def provision(
    book: PriceBook, model: str, load: TokenLoad, *, providers: tuple[str, ...] = ()
) -> Provision | MissingPrice:
    """The cheapest order that carries the load: units = load / what one carries, at least and in steps as sold.

    Input and output share a unit: one that carries 50 input or 12.5 output tokens a second is half used by 25 of the
    one and full with 6.25 of the other on top.
    """
    found: list[Provision] = []
    for unit in book.provisioned:
        if unit.model == model and (not providers or unit.provider in providers):
            hourly = usd(book, unit.hourly, provider=unit.provider, kind=PROVISIONED)
            units = _units(unit, load)
            if isinstance(hourly, Figure) and units is not None:
                found.append(Provision(unit=unit, units=units, usd_per_hour=_total(unit, units, hourly)))
    if not found:
        return MissingPrice(
            what=f"provisioned units of {model}",
            why="the book has no such unit with a price and what it carries",
            fix=f"Give its price and its tokens per second ({HOWTO}).",
        )
    return min(found, key=lambda each: (each.usd_per_hour.value, each.unit.key))


def _units(unit: ProvisionedUnit, load: TokenLoad) -> int | None:
    """None where the unit does not say what it carries of a kind that the load has."""
    used = 0.0
    for tokens_per_s, rate in (
        (load.input_tokens_per_s, unit.input_rate),
        (load.output_tokens_per_s, unit.output_rate),
    ):
        if tokens_per_s and rate is None:
            return None
        if tokens_per_s and rate is not None:
            used += tokens_per_s / float(rate.value)
    steps = max(0, math.ceil((used - unit.least_units) / unit.step_units))
    return unit.least_units + steps * unit.step_units


def _total(unit: ProvisionedUnit, units: int, hourly: Figure) -> Figure:
    rates = tuple(each for each in (unit.input_rate, unit.output_rate) if each is not None)
    return Figure(
        name=f"price.{unit.provider}.{unit.model}.{unit.unit.lower()}.total",
        value=float(hourly.value) * units,
        unit="USD/h",
        formula=f"{units} units x hourly; units = load / what one carries, from {unit.least_units} on in steps of "
        f"{unit.step_units}",
        inputs=(hourly, *rates),
    )
