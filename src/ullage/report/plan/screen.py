"""The answer on one screen: at most 45 lines at 100 columns, bars where the terminal can draw them.

Every line is one field of the answer (planning/answer); nothing is computed here but shares for bars. Names of
services, classes and pools are the user's own text: they are cut, and stripped of what a terminal would act on.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ullage.evidence import number
from ullage.planning.answer.answer import Answer
from ullage.planning.answer.bridge import UNTESTED
from ullage.planning.answer.parts import BridgeStep, LossOutcome, PoolAnswer
from ullage.planning.answer.verdict import Verdict
from ullage.report.plan.room import clean, cut, cut_at_clause
from ullage.report.quantity import counted, show, show_usd
from ullage.report.tables import BAR_COLUMNS, bar

MOST_LINES = 45
WIDTH = 100
_LABEL = 13
_NAME = 21
_MOST_POOLS = 8
_MOST_WARNINGS = 3
_MOST_SURPRISES = 3
# A number and its unit stay on one line.
_GLUED = re.compile(r"(\d) (k|M|%|USD|req/s|min|h|d|s|ms)\b")
_STYLES = {Verdict.BUY: "bold green", Verdict.HOLD: "bold cyan", Verdict.TEST_FIRST: "bold yellow"}


@dataclass(frozen=True, kw_only=True)
class _Paper:
    """What is written on: its width, whether it takes only ASCII, and how many lines a paragraph may have."""

    width_columns: int
    ascii_only: bool
    paragraph_lines: int = 2

    @property
    def paragraph_characters(self) -> int:
        """Counted at the full width, so that a narrow terminal breaks a sentence and does not lose it."""
        return self.paragraph_lines * (WIDTH - _LABEL) - self.paragraph_lines


@dataclass(frozen=True, kw_only=True)
class Screen:
    """The answer as a part of a page."""

    answer: Answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(width=options.max_width, ascii_only=options.ascii_only)

    def lines(self, *, width: int = WIDTH, ascii_only: bool = False) -> list[Text]:
        """The lines; of too many, blank ones go first, from the end, then second lines, the decision's last."""
        paper = _Paper(width_columns=min(width, WIDTH), ascii_only=ascii_only)
        short = replace(paper, paragraph_lines=1)
        lines = _without_blanks(list(_all_lines(self.answer, paper, paper)))
        for decision in (paper, short):
            if len(lines) > MOST_LINES:
                lines = _without_blanks(list(_all_lines(self.answer, decision, short)))
        return [_ascii(each) for each in lines] if ascii_only else lines


def _without_blanks(lines: list[Text]) -> list[Text]:
    """The lines without as many blank ones, from the end, as are too many."""
    blank = [at for at, each in enumerate(lines) if not each.plain]
    gone = set(blank[max(0, len(blank) - max(0, len(lines) - MOST_LINES)) :])
    return [each for at, each in enumerate(lines) if at not in gone]


def _all_lines(found: Answer, decision: _Paper, paper: _Paper) -> Iterator[Text]:
    yield _title(found, paper)
    decided = (("", _bought(found)), ("Risk", _risk(found)), ("Why", _why(found)), ("Next", _next(found)))
    for label, sentence in decided:
        yield from _paragraph(label, sentence, decision)
    for sentence in _warnings(found):
        yield from _paragraph("Warning", sentence, decision, style="bold red")
    for sentence in _surprises(found):
        yield from _paragraph("Cost risk", sentence, decision, style="yellow")
    yield Text()
    yield _head("Traffic", "req/s", "", paper)
    yield from _traffic(found, paper)
    yield _head("Replicas", "", "USD a month" if found.total_usd is not None else "", paper)
    yield from (_pool_bridge(found.pools[0], paper) if len(found.pools) == 1 else _pools_bridge(found, paper))
    for group in _GROUPS:
        yield Text()
        for label, line in group.items():
            yield from _paragraph(label, line(found), paper)
    yield Text()
    yield from _paragraph("More", _READ_ON, paper)


# ---- the decision -----------------------------------------------------------------------------------------------


def _title(found: Answer, paper: _Paper) -> Text:
    days = (found.until - found.as_of).days
    verdict = found.verdict.value
    plain = f"Plan: {clean(found.service, 48)}, {days} days from {found.as_of.isoformat()}"
    text = Text(cut(plain, paper.width_columns - len(verdict) - 1), style="bold")
    return text.append(" " * max(1, paper.width_columns - len(text) - len(verdict))).append(
        verdict, _STYLES[found.verdict]
    )


def _bought(found: Answer) -> str:
    verb = {Verdict.BUY: "Buy", Verdict.HOLD: "Needed:", Verdict.TEST_FIRST: "On current evidence:"}[found.verdict]
    nodes = sum(int(number(each.machines.nodes)) for each in found.pools)
    replicas = sum(int(number(each.machines.replicas)) for each in found.pools)
    devices: dict[str, int] = {}
    for each in found.pools:
        devices[each.machines.device] = devices.get(each.machines.device, 0) + int(number(each.machines.devices))
    shapes = [each.machines.shape for each in found.pools] if len(found.pools) == 1 else []
    held = _listed([*shapes, *(f"{count} {clean(name)}" for name, count in devices.items())], most=4)
    of = f" in {len(found.pools)} pools" if len(found.pools) > 1 else ""
    cost = "no device price is known"
    if found.total_usd is not None:
        cost = f"{show_usd(number(found.total_usd))} USD a month"
    return f"{verb} {counted(nodes, 'machine')} ({held}), {counted(replicas, 'replica')}{of}: {cost}"


def _risk(found: Answer) -> str:
    """The chance that the fleet falls short, what the chosen chance would take, and the range of need and money."""
    if not found.risks:
        return ""
    worst = max(found.risks, key=lambda each: number(each.shortfall))
    of = f"{clean(worst.pool)}: " if len(found.risks) > 1 else ""
    chosen = worst.chosen_replicas
    fleet = "no fleet meets it" if chosen is None else f"{number(chosen):g} would do"
    hopeless = number(worst.hopeless)
    slow = f"; {_small(hopeless)} that none suffices" if hopeless > 0.0005 else ""
    needs = " to ".join(f"{number(each):g}" for each in worst.needs)
    usd = f", {' to '.join(show_usd(number(each)) for each in worst.usd)} USD" if worst.usd else ""
    service = found.service_risk
    joint = "" if service is None else f"{_small(number(service))} that some pool is short of capacity. "
    return (
        f"{joint}{of}{_small(number(worst.shortfall))} that the busiest hour exceeds capacity "
        f"(target {_small(number(worst.chosen))}: {fleet}), {number(worst.hours):.2g} h a month{slow}. "
        f"Its need, p10 to p90: {needs} replicas{usd}"
    )


def _small(fraction: float) -> str:
    return f"{100 * fraction:.2g} %"


def _drivers(found: Answer) -> str:
    """What explains most of the spread, of the pool that risks most."""
    if not found.risks:
        return ""
    worst = max(found.risks, key=lambda each: number(each.shortfall))
    named = [(each.name.rpartition("driver.")[2].removesuffix("_fraction"), number(each)) for each in worst.drivers]
    owners = {each.name: each.owners for each in found.bases}
    said = [
        f"{name.replace('_', ' ')} {_percent(value)}{_owned(owners.get(name, ()))}"
        for name, value in named
        if value >= 0.005
    ]
    of = f"{clean(worst.pool)}: " if len(found.risks) > 1 else ""
    rest = 1.0 - sum(value for _, value in named)
    said += [f"jointly {_percent(rest)}"] if said and rest >= 0.005 else []
    return f"{of}{'cost' if worst.usd else 'replica'} spread: {', '.join(said)}" if said else ""


def _owned(owners: Sequence[str]) -> str:
    return f" ({clean(_listed(owners, most=2))})" if owners else ""


def _why(found: Answer) -> str:
    return clean("; ".join(found.reasons), 400)


def _next(found: Answer) -> str:
    step = found.next_step
    cost = "" if step.cost_usd is None else f": {show_usd(number(step.cost_usd))} USD"
    if step.saves_replicas is None:
        return f"{step.what}{cost}"
    saved = counted(int(number(step.saves_replicas)), "replica")
    if step.saves_usd is None:
        usd = ""
    elif number(step.saves_usd):
        usd = f", {show_usd(number(step.saves_usd))} USD a month in whole machines"
    else:
        usd = ", but no whole machine: the bill stays"
    return f"{step.what}{cost}. Saves up to {saved}{usd}"


def _warnings(found: Answer) -> list[str]:
    more = len(found.warnings) - _MOST_WARNINGS
    shown = [clean(each, 400) for each in found.warnings[:_MOST_WARNINGS]]
    return [*shown, f"and {more} more: --section stages, --section losses"] if more > 0 else shown


def _surprises(found: Answer) -> list[str]:
    """Unstated inputs that move the bill most, each with the share of the bill it moves."""
    more = len(found.surprises) - _MOST_SURPRISES
    shown = [
        f"bill {number(each.moves):+.0%}: {clean(each.sentence, 400)}".replace("%", " %", 1)
        for each in found.surprises[:_MOST_SURPRISES]
    ]
    return [*shown, f"and {more} more: --json"] if more > 0 else shown


# ---- the bridge -------------------------------------------------------------------------------------------------


def _traffic(found: Answer, paper: _Paper) -> Iterator[Text]:
    most = max(number(each.amount) for each in found.traffic)
    before = 0.0
    for each in found.traffic:
        value = number(each.amount)
        remark = f"{value / before:.3g} times {each.remark}" if before else clean(each.remark, WIDTH)
        rate = show(value, "")
        yield _row(each.name, rate, value / most, "", remark, str(each.amount.evidence), paper, wide=True)
        before = value


def _pool_bridge(pool: PoolAnswer, paper: _Paper) -> Iterator[Text]:
    """The steps that add a replica, those that add none on one line, whole machines, and all of it."""
    whole = number(pool.machines.replicas)
    for each in pool.replicas:
        if number(each.amount):
            sign = "" if each is pool.replicas[0] else "+ "
            yield _row(
                each.name,
                f"{sign}{number(each.amount):g}",
                number(each.amount) / whole,
                _usd(each),
                each.remark,
                str(each.amount.evidence),
                paper,
            )
    zero = [each for each in pool.replicas if not number(each.amount)]
    none = [f"{each.name} ({each.remark})" if each.remark else each.name for each in zero]
    if none:
        yield _row("no extra replicas", "0", 0.0, "", f"for {', '.join(none)}", "", paper, wide=True)
    rounding = pool.rounding
    if number(rounding.amount):
        spare = f"{counted(int(number(rounding.amount)), 'device')} unused"
        yield _row(rounding.name, "", 0.0, _usd(rounding), spare, str(rounding.amount.evidence), paper)
    total = BridgeStep(name="total", amount=pool.machines.replicas, usd=pool.usd)
    machines = f"= {counted(int(number(pool.machines.nodes)), 'machine')}{'' if pool.usd is None else '; devices only'}"
    yield _row(total.name, f"{whole:g}", 1.0, _usd(total), machines, str(total.amount.evidence), paper)


def _pools_bridge(found: Answer, paper: _Paper) -> Iterator[Text]:
    """A line for each pool, the largest first, and their totals."""
    ordered = sorted(found.pools, key=lambda each: -number(each.machines.devices))
    most = max(number(each.machines.replicas) for each in found.pools)
    for each in ordered[:_MOST_POOLS]:
        by_name = {step.name: number(step.amount) for step in each.replicas}
        nominal, untested = by_name.pop("nominal"), by_name.pop(UNTESTED)
        made_of = f"{nominal:g}, {untested:g} untested, {sum(by_name.values()):g} reserve"
        replicas = each.machines.replicas
        yield _row(
            clean(each.name),
            f"{number(replicas):g}",
            number(replicas) / most,
            "" if each.usd is None else show_usd(number(each.usd)),
            made_of,
            str(replicas.evidence),
            paper,
        )
    rest = ordered[_MOST_POOLS:]
    if rest:
        count = sum(number(each.machines.replicas) for each in rest)
        yield _row(f"{len(rest)} more pools", f"{count:g}", 0.0, "", "--section fleet", "", paper)
    whole = sum(number(each.machines.replicas) for each in found.pools)
    nodes = sum(int(number(each.machines.nodes)) for each in found.pools)
    usd = [each.usd for each in found.pools if each.usd is not None]
    cost = show_usd(sum(number(each) for each in usd)) if len(usd) == len(found.pools) else ""
    yield _row("total", f"{whole:g}", 0.0, cost, f"= {counted(nodes, 'machine')}", "", paper)


# ---- the lines below it: one function for each ------------------------------------------------------------------


def _utilisation(found: Answer) -> str:
    """That of the fullest pool."""
    pool = max(found.pools, key=lambda each: max(number(one.utilisation) for one in each.utilisation))
    share = f"its p{100 * number(found.percentile):g}"
    words = {"planned": share, "machine lost": "one machine lost", "zone lost": "one zone lost"}
    states = [f"{words.get(one.name, one.name)} {_percent(number(one.utilisation))}" for one in pool.utilisation]
    return f"{_of(found, pool)}{', '.join(states)}"


def _stops(found: Answer) -> str:
    """What stops the pool that is stopped first."""
    pool = min(found.pools, key=lambda each: number(each.stops[0].growth) if each.stops[0].growth else float("inf"))
    first, *others = pool.stops
    if first.growth is None or first.load is None:
        tried = f"none up to +{_percent(number(pool.holds))} traffic"
        return f"{_of(found, pool)}{tried}; nearest is {first.name}"
    at = f"{first.name} at {show(number(first.load), 'req/s')} ({number(first.growth):+.0%})".replace("%", " %")
    then = [each.name if each.growth is None else f"{each.name} at {number(each.growth):+.0%}" for each in others[:1]]
    carrying = f" on {number(pool.steady):g} steady replicas" if number(pool.steady) != number(pool.serving) else ""
    whole = f" (all {number(pool.serving):g}: {show(number(pool.capacity), '')})" if carrying else ""
    return f"{_of(found, pool)}{at}{carrying}{whole}" + "".join(f", then {each}" for each in then)


def _losses(found: Answer) -> str:
    """What every pool survives, then what one of them does not, covered or not."""
    by_outcome: dict[str, dict[str, list[str]]] = {each: {} for each in ("met", "violated", "undecided", "outage")}
    for pool in found.pools:
        for loss in pool.losses:
            by_outcome[loss.outcome].setdefault(f"{loss.name}{_remark(loss)}", []).append(clean(pool.name))
    said = []
    for outcome, rows in by_outcome.items():
        names = [
            what if len(pools) == len(found.pools) else f"{what} of {_listed(pools)}"
            for what, pools in rows.items()
            if what not in _ORDINARY
        ]
        said += [f"{_WORDS.get(outcome, outcome)}: {', '.join(names)}"] if names else []
    return "; ".join(said)


_WORDS = {"met": "SLO met"}
_ORDINARY = ("normal day", "peak hour")


def _remark(loss: LossOutcome) -> str:
    if loss.outcome == "met":
        return ""
    said = [] if loss.attained is None else [f"{_percent(number(loss.attained))} met"]
    return f" ({', '.join([*said, *([] if loss.covered_by else ['no reserve'])])})"


def _bursts(found: Answer) -> str:
    """The bursts that the least able pool absorbs."""
    able = [each for each in found.pools if each.bursts]
    if not able:
        return ""
    pool = min(able, key=lambda each: number(each.bursts[0]))
    lengths = ("2 min", "15 min")
    heights = ", ".join(
        f"{f'x{number(each):.3g}' if number(each) > 1.0 else 'none'} for {length}"
        for each, length in zip(pool.bursts, lengths, strict=False)
    )
    p50, p90 = (show(number(each), "s") for each in pool.ready)
    return f"{_of(found, pool)}absorbs {heights}; new replica ready in {p50} (p90 {p90})"


def _limits(found: Answer) -> str:
    said = []
    for pool in found.pools[:_MOST_POOLS]:
        rate, running, waiting = (each.limit for each in pool.limits)
        limits = (
            f"gateway {show(number(rate), 'req/s')}, reject at {number(waiting):g} waiting per replica; "
            f"engine {number(running):g} running"
        )
        shed = f"; shed {clean(pool.shed_first)} first" if pool.shed_first else ""
        said.append(f"{_of(found, pool)}{limits}{shed}")
    return "; ".join(said)


def _scaled_slo(pool: PoolAnswer, attained: float, most: float) -> str:
    """What the rule attains on the busiest day that is planned for, what is required, what a fixed fleet attains."""
    slo, required = clean(pool.scaling_slo), show(pool.scaling_required_fraction, "fraction")
    if not pool.scaling_violates or pool.scaling_fixed is None:
        return f"{slo} {show(attained, 'fraction')} (SLO {required})"
    fixed = show(number(pool.scaling_fixed), "fraction")
    return f"violates {slo}: {show(attained, 'fraction')} (SLO {required}), {most:g} fixed {fixed}"


def _scales(found: Answer) -> str:
    """The rule in a line: what it tracks between which bounds, how late it is, what it saves."""
    said = []
    for pool in found.pools[:_MOST_POOLS]:
        if not pool.scaling:
            continue
        threshold, least, most, lag, turns, attained, saving = (number(each) for each in pool.scaling)
        bounds = f"{threshold:.3g} in flight per replica, {least:g} to {most:g} replicas"
        loop, slo = f"lag {show(lag, 's')}, {turns:.3g} reversals/h", _scaled_slo(pool, attained, most)
        if not pool.scaling_advised:
            said.append(f"{_of(found, pool)}not advised: {slo}; at {bounds}; {loop}")
            continue
        fewer = "" if found.released_saving is not None else f", {100 * saving:.0f} % fewer replica-hours"
        said.append(f"{_of(found, pool)}at {bounds}; {loop}; {slo}{fewer}")
    if not said or found.released_saving is None or not all(each.scaling_advised for each in found.pools):
        return "; ".join(said)
    usd = f"{show_usd(number(found.released_saving))} USD a month"
    money = (
        f"releasing empty machines saves {usd}"
        if found.machines == "released"
        else f"releasing empty machines would save {usd}"
        if number(found.released_saving) >= 0.5
        else "no machine is ever empty"
    )
    # Several pools do not fit the row, and the money is of all of them.
    return "; ".join((*said, money) if len(said) == 1 else (money, *said))


# Of the bill: what is less has its own amount in the bill, on the screen that of all such lines.
_SMALL_LINE = 0.01


def _money(found: Answer) -> str:
    """Lines of the bill, the largest first; those that would not show beside them by name, in one sum."""
    usd = {each.name: number(each.usd) for each in found.money if number(each.usd)}
    named = sorted((name for name in usd if usd[name] >= _SMALL_LINE * sum(usd.values())), key=lambda name: -usd[name])
    lines = [f"{name} {show_usd(usd[name])}" for name in named]
    small = [name for name in usd if name not in named]
    rest = f"; {_listed(small, most=2)} {show_usd(sum(usd[name] for name in small))}" if small else ""
    lacks = f"; not priced: {_listed(found.unpriced, most=5)}" if found.unpriced else ""
    return ", ".join(lines) + rest + lacks


def _per_success(found: Answer) -> str:
    if found.per_success is None:
        return ""
    prices = f"; prices: {clean(found.prices, 60)}" if found.prices else ""
    return f"{show_usd(number(found.per_success))} USD per request answered within every SLO{prices}"


def _causes(found: Answer) -> str:
    shown, more = found.causes[:5], len(found.causes) - 5
    if not shown:
        return ""
    said = ", ".join(f"{clean(each.name)} {_percent(number(each.bill))}" for each in shown)
    requests = ", ".join(_percent(number(each.requests)) for each in shown)
    return f"{said}{f', {more} more' if more > 0 else ''} of the cost (by request count {requests})"


def _orders(found: Answer) -> str:
    said = []
    for each in found.orders[:4]:
        quota = "quota not stated" if each.quota is None else f"quota {number(each.quota):g}"
        lead = f"{show(number(each.lead), 's')}, {each.lead.evidence}"
        late = ", after the plan ends" if each.is_late else ""
        where = f" in {clean(each.region)}" if each.region else ""
        devices = f"{number(each.devices):g} {clean(each.device)}{where}"
        said.append(f"{devices}, {quota}; order today for {each.there_on.isoformat()}{late} ({lead})")
    return "; ".join(said)


def _validity(found: Answer) -> str:
    """Of one pool its sentence; of several those that are validated, and the first that is not."""
    if len(found.validity) == 1:
        return clean(found.validity[0].sentence, 300)
    good = [each for each in found.validity if each.is_validated]
    others = [each for each in found.validity if not each.is_validated]
    said = [f"{clean(each.pool)} {each.sentence}" for each in (*good, *others[:1])]
    more = f"; {counted(len(others) - 1, 'other pool')} not validated either" if len(others) > 1 else ""
    return clean("; ".join(said), 300) + more


def _basis(found: Answer) -> str:
    due = found.as_of + datetime.timedelta(seconds=number(found.reconcile_every))
    return (
        f"{found.assumption_count}, of which {found.stale_count} past their maximum age; reconcile every "
        f"{show(number(found.reconcile_every), 's')}, first on {due.isoformat()}"
    )


_READ_ON = "--section limits|losses|money|fleet|reserves|..., --all, --explain NAME, ullage report"

_GROUPS: tuple[dict[str, Callable[[Answer], str]], ...] = (
    {
        "Utilisation": _utilisation,
        "Bottleneck": _stops,
        "Losses": _losses,
        "Bursts": _bursts,
        "Autoscale": _scales,
        "Set limits": _limits,
    },
    {
        "Monthly cost": _money,
        "Per success": _per_success,
        "Caused by": _causes,
        "Drivers": _drivers,
        "Order": _orders,
        "Assumptions": _basis,
        "Validation": _validity,
    },
)


# ---- layout -----------------------------------------------------------------------------------------------------


def _head(name: str, unit: str, money: str, paper: _Paper) -> Text:
    """The words above a table of bars, over the columns of `_row`."""
    bars = _bar_columns(paper)
    text = Text(f"{name:<{_NAME + 2}}{unit:>8}" if unit or money else name, style="bold")
    return (
        text
        if not money
        else text.append(f"{'':{bars + 2}}  {money}"[: max(0, paper.width_columns - len(text))], "dim")
    )


def _row(
    name: str, amount: str, share: float, usd: str, remark: str, evidence: str, paper: _Paper, *, wide: bool = False
) -> Text:
    """Name, amount, bar, money, remark, evidence; a narrow terminal loses remark, bar and evidence in that order."""
    bars = _bar_columns(paper)
    text = Text(f"  {cut(name, _NAME):<{_NAME}}{amount:>8}")
    if bars:
        text.append(f"  {bar(share, 1.0, columns=bars, ascii_only=paper.ascii_only):<{bars}}", style="green")
    left = paper.width_columns - len(text)
    if not wide:
        text.append(f"  {usd:>7}"[:left])
        left = paper.width_columns - len(text)
    room = left - 12 if evidence else left
    if room >= 8:
        text.append(f"  {cut(remark, room - 2):<{room - 2}}", style="dim")
        left = paper.width_columns - len(text)
    if left >= 12:
        text.append(f"  {evidence:<10}", style="dim")
    text.rstrip()
    return text


def _bar_columns(paper: _Paper) -> int:
    return max(0, min(BAR_COLUMNS, paper.width_columns - 60))


def _paragraph(label: str, sentence: str, paper: _Paper, *, style: str = "") -> Iterator[Text]:
    """A label and a sentence beside it, its further lines below its first; nothing where there is no sentence."""
    if not sentence:
        return
    indent = _LABEL if label else 0
    words = _GLUED.sub("\\1\xa0\\2", cut_at_clause(sentence, paper.paragraph_characters)).split(" ")
    line = f"{label:<{indent}}"
    empty = len(line)
    for word in words:
        gap = "" if len(line) == empty else " "
        if len(line) + len(gap) + len(word) > paper.width_columns and len(line) > empty:
            yield _labelled(line, label, style)
            line, gap, empty, label = " " * indent, "", indent, ""
        line += f"{gap}{word}"
    yield _labelled(line, label, style)


def _labelled(line: str, label: str, style: str) -> Text:
    text = Text(line.replace("\xa0", " "), style=style)
    text.stylize("bold", 0, len(label))
    return text


def _ascii(text: Text) -> Text:
    """The same line in ASCII; what has no ASCII sign becomes a question mark rather than an error."""
    plain = text.plain.replace("…", "~").encode("ascii", "replace").decode("ascii")
    return Text(plain, style=text.style, spans=list(text.spans))


def _of(found: Answer, pool: PoolAnswer) -> str:
    return f"{clean(pool.name)}: " if len(found.pools) > 1 else ""


def _usd(step: BridgeStep) -> str:
    return "" if step.usd is None else show_usd(number(step.usd))


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
