"""The bill: every line, what it is for, and what a success costs.

    use      what is paid for, from the plan's simulation or a log   (service_use.py)
    quotes   the prices it needs, from the price book                (quotes.py)
    policy   what drives the lines around the devices                (policy.py)

A bill is complete where every line is priced. A line that is not stays on the bill by name, with what to give; it is
never counted as 0 without saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ullage.cost.attribution.attribution import TokenWeights
from ullage.cost.lines.line import Behaviour, BillLine, Origin, Sharing
from ullage.cost.lines.lines import bill_lines
from ullage.cost.lines.power import power_figures
from ullage.cost.lines.provider import cache_saving
from ullage.cost.money import usd_of
from ullage.cost.policy import CostPolicy
from ullage.cost.quotes import Quotes
from ullage.cost.service_use import ServiceUse
from ullage.cost.units import UnitCost, unit_costs
from ullage.evidence import Figure, number


@dataclass(frozen=True, kw_only=True)
class Bill:
    """One period's bill. `lines` stand in the order of the table of lines; `units` are what one of anything costs."""

    use: ServiceUse
    quotes: Quotes
    policy: CostPolicy
    lines: tuple[BillLine, ...]
    units: tuple[UnitCost, ...]
    figures: Mapping[str, Figure]

    @property
    def total_cents(self) -> int:
        return sum(each.cents or 0 for each in self.lines)

    @property
    def total_usd(self) -> float:
        return usd_of(self.total_cents)

    @property
    def unpriced(self) -> tuple[BillLine, ...]:
        return tuple(each for each in self.lines if not each.is_priced)

    @property
    def is_complete(self) -> bool:
        return not self.unpriced

    @property
    def is_of_devices(self) -> bool:
        """Whether the devices are in it: without them a cost of a success would be that of everything else."""
        return all(each.name != "compute_usage" for each in self.unpriced)

    def cents_of(self, name: str) -> int:
        """The sum of the lines of one name."""
        return sum(each.cents or 0 for each in self.lines if each.name == name)

    @property
    def notes(self) -> tuple[str, ...]:
        found = []
        if self.quotes.dates:
            oldest, newest = self.quotes.dates
            dated = f"{oldest.isoformat()}" + ("" if oldest == newest else f" to {newest.isoformat()}")
            where = f", {', '.join(self.quotes.regions)}" if self.quotes.regions else ""
            found.append(f"Prices: {dated}{where}. They may change; the plan does not guarantee them.")
        found += self.quotes.notes
        saving = self.figures.get("bill.released_saving_usd")
        if saving is not None:
            found.append(_released_note(number(saving), follows=any(each.hourly_replicas for each in self.use.pools)))
        cached = self.figures.get("bill.cache_saved_usd")
        if cached is not None and abs(number(cached)) >= _CENT:
            less = "less" if number(cached) >= 0.0 else "more"
            found.append(f"Providers' caches, writes included: {abs(number(cached)):,.2f} USD {less} than without.")
        if self.unpriced:
            names = ", ".join(dict.fromkeys(each.name.replace("_", " ") for each in self.unpriced))
            found.append(f"Not priced, and so not in the total: {names}.")
        return tuple(found)


def _released_note(saving_usd: float, *, follows: bool) -> str:
    if follows:
        return f"Machines emptied by the scaling rule are released: {saving_usd:,.2f} USD less than if they were kept."
    if saving_usd < 0.5:
        return "Machines are paid for all the time; the scaling rule empties none of them."
    return (
        "Machines are paid for all the time. Releasing those that the scaling rule empties would save "
        f"{saving_usd:,.2f} "
        "USD (scaling.machines: released)."
    )


_CENT = 0.01
# Which lines a sum is over; a sum that is not about all lines says so in its formula.
_SUMS: dict[str, tuple[str, Callable[[BillLine], bool]]] = {
    "total": ("sum of the priced lines", lambda _: True),
    "compute": (
        "reservation and usage of the steady fleet",
        lambda each: each.name in ("compute_reservation", "compute_usage"),
    ),
    "idle_reserve": ("reserves, by name", lambda each: each.name == "idle_reserve"),
    "failed_work": ("work without success", lambda each: each.name == "failed_work"),
    "fixed": ("lines that do not depend on use", lambda each: each.behaviour is Behaviour.FIXED),
    "variable": ("lines that grow with use", lambda each: each.behaviour is Behaviour.VARIABLE),
    "shared": ("lines for shared resources", lambda each: each.sharing is Sharing.SHARED),
    "direct": ("lines caused by single requests", lambda each: each.sharing is Sharing.DIRECT),
    "external": ("lines bought per unit from others", lambda each: each.origin is Origin.EXTERNAL),
}


def monthly_bill(
    use: ServiceUse,
    quotes: Quotes,
    policy: CostPolicy = CostPolicy(),  # noqa: B008 - frozen
    *,
    weights: TokenWeights = TokenWeights(),  # noqa: B008 - frozen
) -> Bill:
    """Every line of the period, their sums, and what one request, token, success and task costs."""
    lines = bill_lines(use, quotes, policy)
    sums = {figure.name: figure for figure in _sums(lines, policy)}
    total = sums.get("bill.total_usd")
    units = unit_costs(use, lines, quotes, total, weights=weights) if total is not None else ()
    own = {each.figure.name: each.figure for each in lines if each.figure is not None}
    beside = [*power_figures(use, policy), *([] if (saved := cache_saving(use, quotes)) is None else [saved])]
    return Bill(
        use=use,
        quotes=quotes,
        policy=policy,
        lines=lines,
        units=units,
        figures={**sums, **{each.name: each.figure for each in units}, **own, **{each.name: each for each in beside}},
    )


def _sums(lines: tuple[BillLine, ...], policy: CostPolicy) -> list[Figure]:
    """Sums in whole cents, each over the figures of its lines.

    A sum without any line is 0 where nothing of its kind is missing, and is not given where something is.
    """
    found = []
    for name, (formula, belongs) in _SUMS.items():
        own = [each for each in lines if belongs(each)]
        chosen = [each for each in own if each.figure is not None]
        if own and not chosen:
            continue
        found.append(
            Figure(
                name=f"bill.{name}_usd",
                value=usd_of(sum(each.cents or 0 for each in chosen)),
                unit="USD",
                formula=f"{formula}, each to the cent" if chosen else f"{formula}: there are none",
                inputs=tuple(each.figure for each in chosen if each.figure is not None) or (policy.period,),
            )
        )
    return found
