"""What nobody stated and what moves the bill by more than a tenth stands in the answer, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.planned import SMALL, planned
from ullage import files
from ullage.cost.bill import Bill, monthly_bill
from ullage.cost.quotes import PriceChoice, quotes_of
from ullage.evidence import Figure, assumptions_of, number
from ullage.fleet.packing import NodeShape, PackedShape
from ullage.planning.answer.answer import answer
from ullage.planning.answer.surprises import MOST_UNSAID_FRACTION, Surprise, surprises
from ullage.planning.document import Plan
from ullage.report.plan.screen import Screen
from ullage.workload.synthetic.builtin import builtin


def bill_of(plan: Plan) -> Bill:
    return next(each.answer for each in plan.stages if isinstance(each.answer, Bill))


def bought(plan: Plan, choice: PriceChoice) -> tuple[Plan, Bill]:
    """The same plan under other constraints of buying: its fleet stays, its bill is made anew."""
    assert plan.spec.prices is not None
    old = bill_of(plan)
    changed = replace(plan, spec=replace(plan.spec, buying=choice))
    return changed, monthly_bill(old.use, quotes_of(plan.spec.prices, old.use, old.policy, choice), old.policy)


def named(found: tuple[Surprise, ...]) -> dict[str, Surprise]:
    return {each.name: each for each in found}


def test_default_lengths_are_said_with_their_part_of_the_bill() -> None:
    plan = planned()
    found = named(answer(plan).surprises)
    assert "p95 4,799 in, 849 out" in found["default lengths"].sentence
    assert number(found["default lengths"].moves) == pytest.approx(1.0, abs=1e-6), "both classes have default lengths"
    text = "\n".join(each.plain for each in Screen(answer=answer(plan)).lines())
    assert "bill +100 %: lengths of chat" in text


@pytest.mark.slow
def test_cache_hits_that_nobody_stated_are_said_with_the_replicas_that_they_save() -> None:
    usual = planned()
    found = named(answer(usual).surprises)["default cache hits"]
    assert "prefix-cache hits (chat 29 %, coding 43 % of prompt tokens)" in found.sentence
    assert "State cached_fraction" in found.sentence
    text = (Path(files.__file__).parent / "example.yaml").read_text()
    stated = {
        share: planned(text.replace("      slo:", f"      cached_fraction: {share}\n      slo:"))
        for share in ("0%", "40%")
    }
    assert all("default cache hits" not in named(answer(each).surprises) for each in stated.values())
    # Stated at zero, the plan is dearer by at least what the sentence says.
    dearer = bill_of(stated["0%"]).total_usd / bill_of(usual).total_usd - 1.0
    assert MOST_UNSAID_FRACTION < number(found.moves) <= dearer


@pytest.mark.slow
def test_a_week_that_was_chosen_by_longest_context_is_said_with_the_key_that_states_it() -> None:
    """Chat by its name has its own week; a class of another name borrows one, and a stated peak hour ends that."""
    assert "default peak hour" not in named(answer(planned()).surprises)
    other = json.dumps(SMALL).replace('"chat"', '"support"')
    found = named(answer(planned(other)).surprises)["default peak hour"]
    assert "peak_hour and weekly_growth" in found.sentence
    # The one class causes the whole bill: the other week moves it by the ratio of the two peaks.
    plan = planned(other)
    (peak,) = (number(each) for each in plan.assumptions if each.name == "support.peak_hour_ratio")
    (high,) = (max(each.season) * 168 / sum(each.season) for each in builtin().classes if each.name == "coding")
    assert number(found.moves) == pytest.approx(high / peak - 1.0, rel=0.01)
    stated = other.replace('"support"', '"support", "peak_hour": 1.43', 1)
    assert "default peak hour" not in named(answer(planned(stated)).surprises)


def test_a_risk_study_around_a_plan_does_not_change_what_the_plan_rests_on() -> None:
    """`check` and `plan --quick` look at a plan without a study, the screen at one with it: they count alike."""
    plan = planned()
    drift = replace(plan.assumptions[0], name="study.drift")
    studied = plan.followed_by(
        uncertainty=SimpleNamespace(
            figures={"study.x": Figure(name="study.x", value=1, unit="", formula="drift", inputs=(drift,))}, notes=()
        )
    )
    assert "study.drift" in {each.name for figure in studied.figures for each in assumptions_of([figure])}
    assert studied.assumptions == plan.assumptions
    assert answer(studied).assumption_count == len(plan.assumptions)


def test_a_stated_seller_is_no_surprise_and_an_unstated_one_is() -> None:
    plan = planned()
    assert "seller" not in named(surprises(plan, bill_of(plan)))
    changed, bill = bought(plan, PriceChoice())
    quotes = bill.quotes.devices[plan.pools[0].spec.name]
    assert isinstance(quotes, tuple)
    found = named(surprises(changed, bill))
    assert "seller" in found, "the sellers of an H100 differ by far more than a tenth"
    assert quotes[0].provider in found["seller"].sentence
    assert number(found["seller"].moves) > MOST_UNSAID_FRACTION


def test_the_middle_seller_moves_the_bill_by_what_is_said() -> None:
    """Worked out by hand: the devices of the bill at the price of the middle seller."""
    changed, bill = bought(planned(), PriceChoice())
    said = named(surprises(changed, bill))["seller"]
    quotes = bill.quotes.devices[changed.pools[0].spec.name]
    assert isinstance(quotes, tuple)
    asked = float(said.sentence.rsplit(" ", 1)[1])
    devices = sum(
        each.usd for each in bill.lines if each.pool and each.name in
        ("compute_reservation", "compute_usage", "failed_work", "idle_reserve", "stranded_devices")
    )  # fmt: skip
    expected = devices * (asked / quotes[0].usd_per_hour - 1.0) / bill.total_usd
    assert number(said.moves) == pytest.approx(expected, rel=0.01)


def with_machines(plan: Plan, chosen: PackedShape, *others: PackedShape) -> Plan:
    pool = plan.pools[0]
    packing = replace(pool.packing, chosen=chosen, rows=(chosen, *others))
    return replace(plan, pools=(replace(pool, packing=packing),))


def test_another_size_of_machine_is_a_surprise_only_while_nobody_named_one() -> None:
    plan = planned()
    pool = plan.pools[0]
    chosen = pool.packing.chosen
    shape = NodeShape(name="half", provider="aws", size=replace(chosen.shape.size, value=4, low=None, high=None))
    twice = PackedShape(
        shape=shape,
        groups=tuple(replace(each, nodes=4 * each.nodes) for each in chosen.groups),
        spans_nodes=False,
    )
    assert twice.devices == 2 * chosen.devices
    changed = with_machines(plan, chosen, twice)
    found = named(surprises(changed, bill_of(plan)))
    assert "on half with 4 each the same replicas need" in found["node size"].sentence
    said = replace(changed.pools[0], spec=replace(pool.spec, instance=chosen.shape.name))
    assert "node size" not in named(surprises(replace(changed, pools=(said,)), bill_of(plan)))


def test_devices_that_a_whole_machine_brings_are_said_where_they_are_much() -> None:
    """The example has none to spare, which is no headline; 60 would be one."""
    plan = planned()
    bill = bill_of(plan)
    assert "whole machines" not in named(surprises(plan, bill))
    (pool,) = plan.pools
    groups = tuple(replace(each, spare_devices=6) for each in pool.packing.chosen.groups)
    chosen = replace(pool.packing.chosen, groups=groups)
    plan = replace(plan, pools=(replace(pool, packing=replace(pool.packing, chosen=chosen)),))
    use = replace(bill.use, pools=tuple(replace(each, stranded_devices=60) for each in bill.use.pools))
    dearer = monthly_bill(use, bill.quotes, bill.policy)
    found = named(surprises(plan, dearer))
    empty = chosen.spare_devices + chosen.stranded_devices
    said = f"is only sold with 8 devices: {empty} of the {chosen.devices} hold no replica but are paid for"
    assert found["whole machines"].sentence.endswith(said)
    stranded = sum(each.usd for each in dearer.lines if each.name == "stranded_devices")
    assert number(found["whole machines"].moves) == pytest.approx(stranded / dearer.total_usd)


def test_replicas_that_another_seed_may_decide_otherwise_are_said() -> None:
    plan = planned()
    pool = plan.pools[0]
    size = pool.steady_fleet.size
    low = max(1, size.conservative.replicas - 12)
    open_size = replace(size, conservative=replace(size.conservative, low_replicas=low))
    changed = replace(plan, pools=(replace(pool, steady_fleet=replace(pool.steady_fleet, size=open_size)),))
    found = named(surprises(changed, bill_of(plan)))
    assert f"{low} or {size.high_replicas} steady replicas" in found["seed"].sentence


def test_without_a_bill_there_is_nothing_to_move() -> None:
    assert surprises(planned(), None) == ()


def test_the_figures_are_explained_by_name() -> None:
    plan = planned()
    for each in answer(plan).surprises:
        assert plan.find(each.moves.name).value == each.moves.value
