"""The answer on one screen: it fits, its numbers are the plan's, and it survives narrow and plain terminals."""

from __future__ import annotations

import io
import itertools
import re
import statistics
from dataclasses import fields, is_dataclass, replace

import pytest
from rich.console import Console

from support.made_up import MadeUp
from support.page_text import check_page
from support.planned import ONE_REPLICA, TWO_POOLS, planned, read
from ullage.errors import Rejection, Remedy
from ullage.evidence import Assumption, Figure, number
from ullage.planning.answer.answer import Answer, answer
from ullage.planning.answer.parts import LimitToSet, LossOutcome, MoneyLine, PoolAnswer
from ullage.planning.answer.verdict import Verdict
from ullage.planning.document import Plan
from ullage.report.plan.screen import MOST_LINES, WIDTH, Screen, _limits, _losses, _money, _scales, _stops
from ullage.report.quantity import show, show_usd
from ullage.report.refusal import MOST_REMEDIES, refusal_page
from ullage.scaling.judged import RuleResult

HOSTILE = "x\x1b[2J" + "a very long name | with\n`marks` " * 4


def crowded(found: Answer) -> Answer:
    """Twelve pools with names that nobody should give, every paragraph as long as it may be, and four warnings."""
    pool = found.pools[0]
    losses = tuple(replace(each, outcome="violated") for each in pool.losses)
    pools = tuple(replace(pool, name=f"{place} {HOSTILE}", losses=losses) for place in range(12))
    return replace(
        found,
        service=HOSTILE,
        reasons=(HOSTILE,) * 4,
        warnings=(HOSTILE,) * 4,
        pools=pools,
        causes=tuple(replace(found.causes[0], name=f"{HOSTILE} {place}") for place in range(9)),
        orders=tuple(replace(found.orders[0], device=f"{HOSTILE} {place}") for place in range(5)),
        unpriced=(HOSTILE,) * 5,
        prices=HOSTILE,
    )


PLANS = [
    pytest.param(None, id="built-in"),
    pytest.param(TWO_POOLS, id="two pools", marks=pytest.mark.slow),
    pytest.param(ONE_REPLICA, id="one replica", marks=pytest.mark.slow),
]
ANSWERS = [
    pytest.param(lambda: answer(planned()), id="built-in"),
    pytest.param(lambda: crowded(answer(planned())), id="crowded"),
    pytest.param(lambda: answer(planned(TWO_POOLS)), id="two pools", marks=pytest.mark.slow),
    pytest.param(lambda: answer(planned(ONE_REPLICA)), id="one replica, no prices", marks=pytest.mark.slow),
]


def lines_of(found: Answer, **asked: object) -> list[str]:
    return [each.plain for each in Screen(answer=found).lines(**asked)]  # type: ignore[arg-type]


@pytest.mark.parametrize("made", ANSWERS)
def test_it_fits_on_one_screen(made: object) -> None:
    lines = lines_of(made())  # type: ignore[operator]
    assert len(lines) <= MOST_LINES == 45
    assert max(len(each) for each in lines) <= WIDTH == 100
    assert all(each.isprintable() for each in lines)


@pytest.mark.parametrize("made", ANSWERS)
@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_plain_terminal_gets_the_same_words_without_blocks(made: object, width: int) -> None:
    found: Answer = made()  # type: ignore[operator]
    lines = lines_of(found, width=width, ascii_only=True)
    assert max(len(each) for each in lines) <= width
    assert all(each.isascii() for each in lines)
    assert found.verdict.value in lines[0]
    assert "total" in "\n".join(lines)


def test_a_console_that_cannot_draw_blocks_gets_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=100).print(Screen(answer=answer(planned())))
    file.seek(0)
    shown = file.read()
    assert "####" in shown
    assert "?" not in shown


def numbers_in(value: object) -> list[float]:
    if isinstance(value, Figure | Assumption):
        return [number(value)]
    if isinstance(value, tuple):
        return [one for each in value for one in numbers_in(each)]
    if is_dataclass(value):
        return [one for each in fields(value) for one in numbers_in(getattr(value, each.name))]
    return [float(value)] if isinstance(value, int) and not isinstance(value, bool) else []


def spellings(value: float) -> set[str]:
    written = {show(value, each) for each in ("", "s", "req/s", "fraction")} | {show_usd(value), f"{value:g}"}
    written |= {
        f"{value:.3g}",
        f"{value:.0f}",
        f"{100 * value:.0f}",
        f"{100 * value:g}",
        f"{100 * value:.2g}",
        f"{value:.2g}",
    }
    return {each for text in written for each in re.findall(r"\d[\d,]*\.?\d*", text)}


def by_hand(plan: Plan, found: Answer) -> list[float]:
    """Numbers of the screen that are sums, ratios or parts of sentences, worked out from the plan itself."""
    rates = [number(each.amount) for each in found.traffic]
    values = [after / before for before, after in itertools.pairwise(rates)]
    values += [number(each.mean_rate) for each in plan.spec.demands]
    values += [len(plan.pools), plan.spec.policy.horizon.value / 86_400.0, 1.0]  # type: ignore[operator]
    for total in ("nodes", "devices"):
        values.append(sum(getattr(each.packing.chosen, total) for each in plan.pools))
    values.append(sum(each.reserves.total_replicas for each in plan.pools))
    values.append(sum(each.steady_fleet.replicas for each in plan.pools))
    values.append(sum(number(each.usd) for each in found.pools if each.usd is not None))
    for pool in plan.pools:
        values += [pool.demand.planning_rps / pool.steady_fleet.nominal_replicas, pool.reserves.warm.rise_rps]
        values += [pool.reserves.replicas, pool.memory.runtime.sharding.devices]
        values += [float(each) for line in pool.reserves.lines for each in re.findall(r"\d+", line.rule)]
    usd = [number(each.usd) for each in found.money]
    values.append(sum(each for each in usd if each < 0.01 * sum(usd)))
    values += [1.0 - sum(number(one) for one in each.drivers) for each in found.risks]
    for surprise in found.surprises:
        behind = [number(each) for each in surprise.moves.inputs]
        prices = [number(each) for each in surprise.moves.inputs if each.unit == "USD/device-hour"]
        values += [*behind, len(prices), *([statistics.median(prices)] if prices else [])]
    for pool in plan.pools:
        shapes = [(each.devices, each.shape.devices) for each in pool.packing.rows]
        values += [one for each in shapes for one in each]
        values.append(pool.packing.chosen.spare_devices + pool.packing.chosen.stranded_devices)
    return values


NAMES = re.compile(r"\d{4}-\d\d-\d\d|\d{4}-[\d-]*…|\bp\d\d\b|for (2|15) min|[A-Za-z]+[\w.-]*\d[\w.-]*")
"""Dates, percentiles, the lengths of bursts, and names with digits in them."""


@pytest.mark.parametrize("text", PLANS)
def test_every_number_on_it_is_a_figure_of_the_plan(text: str | None) -> None:
    plan = planned(text)
    found = answer(plan)
    known = {one for value in (*numbers_in(found), *by_hand(plan, found)) for one in spellings(value)}
    said = re.findall(r"\d[\d,]*\.?\d*", NAMES.sub(" ", "\n".join(lines_of(found)).replace(" x", " ")))
    assert len(said) > 40
    assert {each.rstrip(".,") for each in said} <= known | {"100"}


def test_bars_are_as_long_as_their_numbers() -> None:
    found = answer(planned())
    rows = [each for each in lines_of(found) if re.match(r"  (mean|busiest)", each)]
    lengths = [each.count("█") for each in rows]
    rates = [number(each.amount) for each in found.traffic]
    assert lengths[-1] == 16
    for length, rate in zip(lengths, rates, strict=True):
        assert length == pytest.approx(16 * rate / rates[-1], abs=1.0)


def test_the_decision_stands_above_everything() -> None:
    found = answer(planned())
    lines = lines_of(found)
    assert lines[0].endswith(found.verdict.value)
    assert found.as_of.isoformat() in lines[0]
    # The study's lines stand with the decision and below the money; without a study there are none.
    risk = next(each for each in lines if each.startswith("Risk "))
    assert f"{100 * number(found.risks[0].shortfall):.2g} %" in risk
    assert lines.index(risk) < next(place for place, each in enumerate(lines) if each.startswith("Traffic"))
    assert any(each.startswith("Drivers") for each in lines)
    assert not any(each.startswith(("Risk", "Drivers")) for each in lines_of(replace(found, risks=())))
    warned = replace(found, warnings=("loss of a node violates an SLO despite its reserve",))
    place = next(place for place, each in enumerate(lines_of(warned)) if "loss of a node violates" in each)
    assert place < next(place for place, each in enumerate(lines_of(warned)) if each.startswith("Traffic"))


def test_what_the_screen_adds_up_adds_up() -> None:
    """With a pocket calculator, from the printed figures: money to the headline, drivers to all of the spread."""
    (pool,) = (found := answer(planned())).pools
    text = " ".join(" ".join(lines_of(found)).split())
    (headline,) = re.findall(r"replicas: ([\d.]+ k) USD a month", text)
    (lines,) = re.findall(r"Monthly cost (.*?) Per success", text)
    (drivers,) = re.findall(r"Drivers cost spread: (.*?) Order", text)
    thousands = [float(each) for each in re.findall(r"([\d.]+) k\b", lines)]
    assert sum(thousands) == pytest.approx(float(headline.removesuffix(" k")), abs=0.5)
    assert sum(int(each) for each in re.findall(r"(\d+) %", drivers)) == pytest.approx(100, abs=3)
    # What stops growth is of the steady replicas, utilisation of all that serve: both stand there.
    (steady, serving, carried) = re.findall(r"on (\d+) steady replicas \(all (\d+): ([\d.]+)\)", text)[0]
    assert (int(steady), int(serving)) == (number(pool.steady), number(pool.serving))
    planned_fraction = next(each.utilisation for each in pool.utilisation if each.name == "planned")
    assert number(pool.load) / float(carried) == pytest.approx(number(planned_fraction), rel=0.01)


@pytest.mark.parametrize(("verdict", "verb"), [(Verdict.BUY, "Buy 14 machines"), (Verdict.HOLD, "Needed: 14 machines")])
def test_the_sentence_below_the_verdict_says_what_to_do(verdict: Verdict, verb: str) -> None:
    nodes = answer(planned()).pools[0].machines.nodes
    lines = lines_of(replace(answer(planned()), verdict=verdict))
    assert lines[1].startswith(verb.replace("14", f"{number(nodes):g}"))


@pytest.mark.slow
def test_without_prices_it_says_so_and_shows_no_money() -> None:
    text = "\n".join(lines_of(answer(planned(ONE_REPLICA))))
    assert "no device price is known" in text.replace("\n", " ")
    assert "USD a month" not in text
    assert "Per success" not in text
    assert "not priced: compute usage" in text


@pytest.mark.slow
def test_several_pools_have_a_line_each_and_a_total() -> None:
    plan = planned(TWO_POOLS)
    lines = lines_of(answer(plan))
    for pool in plan.pools:
        (row,) = [each for each in lines if each.startswith(f"  {pool.spec.name} ")]
        assert row.split()[1] == str(pool.reserves.total_replicas)
    (total,) = [each for each in lines if each.startswith("  total ")]
    assert total.split()[1] == str(sum(each.reserves.total_replicas for each in plan.pools))


def test_a_refusal_is_one_screen_too() -> None:
    remedies = tuple(Remedy(change=f"change {place}", effect="it fits") for place in range(80))
    refused = Rejection(
        stage="memory", reason="too large", figure=read("memory.needed_bytes", 1.0, "bytes"), remedies=remedies
    )
    console = Console(width=100, file=io.StringIO(), record=True)
    for each in refusal_page(refused):
        console.print(each)
    lines = console.export_text().splitlines()
    assert lines[0] == "REFUSED at memory: too large"
    assert len(lines) <= MOST_LINES
    assert f"and {80 - MOST_REMEDIES} more" in lines[-1]


def test_a_rule_that_violated_an_slo_is_set_beside_the_fleet_that_never_scales() -> None:
    found = answer(planned())
    (pool,) = found.pools
    fixed = replace(pool.scaling[0], name="scaling.fixed_attained_fraction", value=0.961, unit="fraction")
    bad, as_bad = (
        replace(
            pool,
            scaling_violates="chat tpot_p95",
            scaling_required_fraction=0.95,
            scaling_fixed=fixed,
            scaling_advised=advised,
        )
        for advised in (False, True)
    )
    good, worse, even = (
        re.sub(r"\s+", " ", " ".join(lines_of(replace(found, pools=(each,)))))
        .partition("Autoscale")[2]
        .partition("Set limits")[0]
        for each in (pool, bad, as_bad)
    )
    assert re.search(r"\w+ \w+ [0-9.]+ % \(SLO 95 %\)", good)
    assert "violates" not in good
    # The row ends with what releasing machines would save: nothing of it is cut.
    assert good.endswith(" USD a month ")
    most = f"{number(pool.scaling[2]):g}"
    assert f"Autoscale{worse}".startswith("Autoscale not advised: violates")
    assert f"not advised: violates {pool.scaling_slo}: " in worse
    assert f" % (SLO 95 %), {most} fixed 96.1 %;" in worse
    # What is not to be applied saves nothing.
    assert "USD" not in worse
    assert "fewer" not in worse
    assert "not advised" not in even


def test_a_rule_is_advised_where_it_attains_what_is_required_or_what_a_fixed_fleet_attains() -> None:
    stage = planned().pools[0].scaling

    def said(ours: float, fixed: float | None) -> bool:
        def made(value: float) -> RuleResult:
            attained = replace(stage.played.attainment.attained, value=value)
            return replace(stage.played, attainment=replace(stage.played.attainment, attained=attained))

        return replace(stage, played=made(ours), fixed=None if fixed is None else made(fixed)).is_advised

    assert stage.is_advised
    assert said(0.96, None)
    assert said(0.93, 0.934)
    assert not said(0.93, 0.94)


def test_rows_of_a_made_up_answer() -> None:
    """Three limits to set, in their order; what every pool survives, and what one of them does not."""
    made = MadeUp()
    outcomes = ("met", "violated", "undecided", "outage")
    pools = tuple(
        made(
            PoolAnswer,
            limits=tuple(made(LimitToSet) for _ in range(3)),
            losses=tuple(made(LossOutcome, name=f"a loss that is {each}", outcome=each) for each in outcomes),
            scaling=tuple(made(MoneyLine).usd for _ in range(7)),
            scaling_advised=place == 1,
        )
        for place in range(2)
    )
    found = made(Answer, pools=pools)
    check_page(
        [draw(found) for draw in (_stops, _losses, _limits, _scales, _money)],
        """
        name 429: name 427 at 706 req/s (+47500 %) on 611 steady replicas (all 600: 377), then name 428 at +47700%
        SLO met: a loss that is met; violated: a loss that is violated (80300 % met) of name 429, a loss that is
          violated (80600 % met) of name 430; undecided: a loss that is undecided (80400 % met) of name 429, a loss that
          is undecided (80700 % met) of name 430; outage: a loss that is outage (80500 % met) of name 429, a loss that
          is outage (80800 % met) of name 430
        name 429: gateway 421 req/s, reject at 423 waiting per replica; engine 422 running; shed shed first 149 first;
          name 430: gateway 424 req/s, reject at 426 waiting per replica; engine 425 running; shed shed first 150 first
        name 429: not advised: violates scaling slo 805: 42,300 % (SLO 34.9 %), 420 fixed 81,100 %; at 418 in flight per
          replica, 419 to 420 replicas; lag 7.02 min, 422 reversals/h; name 430: at 425 in flight per replica, 426 to
          427 replicas; lag 7.13 min, 429 reversals/h; violates scaling slo 806: 43,000 % (SLO 35 %), 427 fixed 81,200 %
        name 432 433, name 431 432; not priced: unpriced 285, unpriced 286
        """,
    )
    bare = MadeUp(is_bare=True, scaling_advised=True)
    alone = bare(PoolAnswer, limits=pools[0].limits, scaling=pools[0].scaling, losses=pools[0].losses)
    check_page(
        [draw(bare(Answer, pools=(alone,))) for draw in (_stops, _losses, _limits, _scales, _money)],
        """
        none up to +17000 % traffic; nearest is name 427
        SLO met: a loss that is met; violated: a loss that is violated (80300 % met); undecided: a loss that is
          undecided (80400 % met); outage: a loss that is outage (80500 % met)
        gateway 421 req/s, reject at 423 waiting per replica; engine 422 running; shed shed first 149 first
        at 418 in flight per replica, 419 to 420 replicas; lag 7.02 min, 422 reversals/h; scaling slo 805 42,300 % (SLO
          34.9 %), 42400 % fewer replica-hours
        name 430 419, name 429 418; not priced: unpriced 285, unpriced 286
        """,
    )
