"""A bill as a page in the terminal: the sum and the success first, then every line with its bar, then who caused it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ullage.cost.attribution.attribution import Attribution, RuleSpread
from ullage.cost.attribution.causation import OTHERS
from ullage.cost.bill import Bill
from ullage.cost.lines.line import Amount, BillLine, Origin
from ullage.cost.money import usd_of
from ullage.report.evidence_style import evidence_text
from ullage.report.quantity import show
from ullage.report.tables import bar, plain_table
from ullage.units import brief_number

if TYPE_CHECKING:
    from ullage.cost.attribution.causation import Causation
    from ullage.cost.change import BillChange
    from ullage.cost.commitment import CommitmentAdvice
    from ullage.cost.marginal import Marginal
    from ullage.cost.units import UnitCost
    from ullage.evidence import Figure

# What a reader can hold: beyond it groups are summed up, and --json has them all.
_MOST_GROUPS = 20
# So few groups stand side by side in a terminal of a hundred columns.
_MOST_ABREAST = 4


def bill_parts(bill: Bill) -> list[RenderableType]:
    """The bill for a plan's page: headline, lines, unit costs, notes."""
    return [
        _headline(bill),
        "",
        lines_table(bill),
        *_missing(bill),
        "",
        units_table(bill.units),
        *_power(bill),
        *(Text(f"Note: {note}") for note in bill.notes),
    ]


def money(usd: float) -> str:
    """Dollars to the cent, or to three digits where cents would hide them.

    >>> money(1234.5), money(0.00374), money(0)
    ('1,234.50', '0.00374', '0.00')
    """
    return f"{usd:,.2f}" if usd == 0 or abs(usd) >= 1.0 else f"{usd:.3g}"


def _headline(bill: Bill) -> Text:
    text = Text(f"{money(bill.total_usd)} USD for {bill.policy.period_hours:g} hours of the {bill.use.service}", "bold")
    success = [each for each in bill.units if each.name == "bill.per_success_usd"]
    if success and bill.is_of_devices:
        text.append(f": {money(success[0].usd)} USD per success", style="bold")
    text.append(". ", style="bold")
    if not bill.is_complete:
        count = len(bill.unpriced)
        are = "1 line is" if count == 1 else f"{count} lines are"
        devices = "" if bill.is_of_devices else " Devices are among them, so this is the cost of everything else."
        text.append(f"{are} not priced and not in it.{devices}", style="not bold")
    return text


def lines_table(bill: Bill) -> Table:
    """Every priced line: what for, how much of it, what it costs, as a bar, its tags and its evidence."""
    table = plain_table("Lines", "line", "for", "amount", "USD", "", "kind", "evidence")
    table.columns[3].justify = "right"
    table.columns[4].no_wrap = True
    priced = [each for each in bill.lines if each.is_priced]
    most = max((each.cents or 0 for each in priced), default=0)
    for each in priced:
        table.add_row(
            _title(each.name),
            " ".join(part for part in (each.pool, each.item) if part),
            _amount(each.amount),
            money(each.usd),
            bar(each.cents or 0, most),
            _kind(each),
            Text() if each.figure is None else evidence_text(each.figure.evidence),
        )
    table.add_row(Text("total", style="bold"), "", "", Text(money(bill.total_usd), style="bold"), "", "", "")
    return table


def _kind(line: BillLine) -> str:
    """The tags; internal is what most lines are, and is not printed."""
    words = (line.behaviour.value, line.sharing.value, line.origin.value if line.origin is Origin.EXTERNAL else "")
    return " ".join(words).rstrip()


def _missing(bill: Bill) -> list[RenderableType]:
    """Lines that are not priced, and what to give."""
    if bill.is_complete:
        return []
    table = plain_table("Not priced", "line", "for", "what to give")
    for each in bill.unpriced:
        table.add_row(_title(each.name), " ".join(part for part in (each.pool, each.item) if part), each.missing)
    return ["", table]


def units_table(units: Sequence[UnitCost]) -> Table:
    """What one of anything costs, with model, place and date of the prices beside it."""
    table = plain_table("Unit costs, all lines included", "of", "per", "USD", "model", "prices", "evidence")
    table.columns[2].justify = "right"
    for each in units:
        where = " ".join((each.region, *(date.isoformat() for date in sorted(set(each.dates))))).strip()
        table.add_row(
            each.of or "all", each.per, money(each.usd), each.model, where, evidence_text(each.figure.evidence)
        )
    # What several classes share has the criteria of each, which stand there already.
    success = [each for each in units if each.per == "success"]
    named = [each for each in success if each.of] or success
    criteria = list(dict.fromkeys(part for each in named for part in each.criterion.split("; ")))
    if criteria:
        table.caption, table.caption_justify, table.caption_style = "; ".join(criteria), "left", "dim"
        table.caption = f"A success is {table.caption}."
    return table


def _power(bill: Bill) -> list[RenderableType]:
    found = {name: each for name, each in bill.figures.items() if name.startswith("power.")}
    if not found:
        return []
    watts = [f"{name.removeprefix('power.').removesuffix('_watts')} {show(each.value, each.unit)}"
             for name, each in found.items() if name.endswith("_watts")]  # fmt: skip
    text = f"Devices draw at most, by their data sheets: {', '.join(watts)}"
    energy = found.get("power.joules_per_success")
    site = [found[name] for name in ("power.kwh_per_success", "power.co2e_kg_per_success") if name in found]
    said = "".join(f", {float(each.value):.3g} {each.unit}{' of CO2e' if each.unit == 'kg' else ''}" for each in site)
    return [Text(text + (f"; {show(energy.value, energy.unit)}{said} a success." if energy is not None else "."))]


def attribution_parts(attribution: Attribution, spread: Sequence[RuleSpread]) -> list[RenderableType]:
    """Who pays what, and how far the rule moves it."""
    choice = attribution.choice
    how = f"by {choice.by}, rule {choice.rule}, {choice.basis.value} basis, idle {choice.idle.value}"
    table = plain_table(f"Who caused it: {how}", choice.by, "USD", "", "share", "between rules")
    table.columns[1].justify = "right"
    total = attribution.total_cents
    by_name = {each.name: each for each in spread}
    shown = sorted(attribution.rows, key=lambda each: (not each.is_group, -each.total_cents))
    rest = [each for each in shown if each.is_group][_MOST_GROUPS:]
    for each in shown:
        if each in rest:
            continue
        table.add_row(
            each.name if each.is_group else Text(each.name, style="italic"),
            money(usd_of(each.total_cents)),
            bar(each.total_cents, max(row.total_cents for row in attribution.rows)),
            show(each.total_cents / total, "fraction") if total else "",
            _between(by_name.get(each.name)) if each.is_group else "",
        )
    if rest:
        table.add_row(f"{len(rest)} others", money(usd_of(sum(each.total_cents for each in rest))), "", "", "")
    groups = {each.name for each in attribution.rows if each.is_group}
    return [table, *_spread_table(choice.by, [each for each in spread if each.name in groups])]


def _between(spread: RuleSpread | None) -> str:
    if spread is None or spread.least_cents == spread.most_cents:
        return ""
    return f"{money(usd_of(spread.least_cents))} to {money(usd_of(spread.most_cents))}"


def cause_parts(causes: Mapping[str, Causation]) -> list[RenderableType]:
    """How large each pool would be for some of its classes: what the rule of causation rests on."""
    parts: list[RenderableType] = []
    for pool, each in causes.items():
        said = "; ".join(
            f"{name} alone needs {alone:.1f}, without it {each.without[name]:.1f}" for name, alone in each.alone.items()
        )
        joint = (
            f" {each.joint_replicas:.0f} are shared: they go only when several leave."
            if each.joint_replicas >= 1
            else ""
        )
        few = (
            f" {OTHERS} are the {len(each.caused) - len(each.alone) + 1} smallest together; where the rest are small "
            "too, what several cause is the sum of what each does."
            if OTHERS in each.alone
            else ""
        )
        parts.append(Text(f"Steady replicas of {pool}, {each.replicas:.1f} for all: {said}.{joint}{few}"))
    return ["", *parts] if parts else []


def _spread_table(by: str, spread: Sequence[RuleSpread]) -> list[RenderableType]:
    """Every group by every rule; one group alone pays the same by all of them."""
    if len(spread) < 2:
        return []
    rules = list(spread[0].cents)
    if len(spread) <= _MOST_ABREAST:
        return ["", _rules_table(spread, rules)]
    table = plain_table("By every rule, USD", by, *rules)
    for each in sorted(spread, key=lambda one: -one.most_cents)[:_MOST_GROUPS]:
        table.add_row(each.name, *(money(usd_of(each.cents[rule])) for rule in rules))
    for column in table.columns[1:]:
        column.justify = "right"
    return ["", table]


def _rules_table(spread: Sequence[RuleSpread], rules: Sequence[str]) -> RenderableType:
    """A rule a row, and how much of what the groups pay it charges to others than those who cause it."""
    groups = sorted(spread, key=lambda one: -one.most_cents)
    is_known = "causation" in rules
    table = plain_table(
        "By every rule, USD", "rule", *(each.name for each in groups), *(["from causation"] if is_known else [])
    )
    for rule in rules:
        cents = [each.cents[rule] for each in groups]
        moved = sum(abs(each.cents[rule] - each.cents["causation"]) for each in groups) / 2 if is_known else 0.0
        distance = [show(moved / max(sum(cents), 1), "fraction")] if is_known else []
        table.add_row(rule, *(money(usd_of(each)) for each in cents), *distance)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def marginal_parts(marginals: Sequence[Marginal], replicas: Sequence[Figure]) -> list[RenderableType]:
    """What one more costs."""
    if not marginals and not replicas:
        return []
    table = plain_table("What one more costs", "step", "adds USD", "USD per", "")
    for figure in replicas:
        pool = figure.name.split(".")[1]
        table.add_row(f"one more replica of {pool}", money(float(figure.value)), money(float(figure.value)), "replica")
    for each in marginals:
        if each.figure is None or each.cents is None:
            table.add_row(each.title, "", "", each.why)
        else:
            table.add_row(each.title, money(usd_of(each.cents)), money(float(each.figure.value)), each.per)
    return ["", table]


def commitment_parts(advice: Sequence[CommitmentAdvice]) -> list[RenderableType]:
    """How many replicas to commit, and what a fleet that follows demand would cost with none, the best and all."""
    if not advice:
        return []
    table = plain_table(
        "How much to commit, of steady replicas that follow demand", "pool", "commit", "none", "best", "all", "because"
    )
    for each in advice:
        table.add_row(
            each.pool,
            f"{each.best.committed_replicas} of {each.levels[-1].committed_replicas}",
            *(money(one.usd) for one in (each.levels[0], each.best, each.levels[-1])),
            each.figures[0].formula,
        )
    return ["", table]


def change_table(change: BillChange) -> Table:
    """Two bills: what each cause added, and on which lines."""
    table = plain_table("Why the bill changed", "cause", "USD", "lines")
    table.columns[1].justify = "right"
    table.add_row("before", money(usd_of(change.before_cents)), "")
    for each in change.causes:
        lines = ", ".join(f"{_title(name)} {money(usd_of(cents))}" for name, cents in each.by_line.items())
        table.add_row(each.name, money(each.usd), lines)
    table.add_row("after", money(usd_of(change.after_cents)), "")
    return table


def _amount(amount: Amount) -> str:
    if amount.unit in ("bytes", "byte-months"):
        kept = "-months" if amount.unit == "byte-months" else ""
        return f"{show(amount.value, 'bytes')}{kept}"
    return f"{brief_number(amount.value)} {amount.unit}"


def _title(name: str) -> str:
    return name.replace("_", " ")
