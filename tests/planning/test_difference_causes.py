"""Causes of a difference sum to it, whatever changed; each names the inputs behind it, and chance is one of them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage import verbs
from ullage.errors import Rejection
from ullage.planning.differences.causes import PROGRAM, SEED, CausedChange, causes_of
from ullage.planning.differences.difference import Difference, difference
from ullage.planning.differences.record import Entry, PlanRecord, RecordedPool, RecordedStep
from ullage.planning.document import Plan
from ullage.report.encode import to_text
from ullage.report.markdown import to_markdown
from ullage.report.plan.difference import difference_page
from ullage.report.plan.json_document import plan_json

STEPS = ("nominal", "untested step times", "failure")


def entry(name: str, value: float, *rests_on: str, unit: str = "x") -> Entry:
    return Entry(name=name, value=value, unit=unit, evidence="stated", rests_on=rests_on)


def made(
    *,
    rate: float = 10.0,
    price: float = 3.0,
    slow: float = 1.0,
    replicas: tuple[int, ...] = (10, 4, 2),
    spare: int = 1,
    storage: float = 5.0,
    seed: int = 0,
    pools: tuple[str, ...] = ("",),
) -> PlanRecord:
    """Each pool: rate -> load -> nominal <- slow, reserves by their own rules, and a price apiece."""
    inputs = {"rate": rate, "price": price, "slow": slow, "disk": storage}
    figures: list[Entry] = [entry("answer.storage_usd", storage, "disk")]
    recorded, total = [], storage
    for pool in pools:
        figures.append(entry(f"{pool}load", 2.0 * rate, "rate", unit="req/s"))
        steps = []
        for step, count in zip(STEPS, replicas, strict=True):
            amount, usd = f"{pool}{step}", f"{pool}{step}.usd"
            rests = (f"{pool}load", "slow") if step == "nominal" else (f"{pool}nominal",)
            figures += [entry(amount, count, *rests, unit="replicas"), entry(usd, count * price, amount, "price")]
            steps.append(RecordedStep(name=step, amount=amount, usd=usd if count else ""))
            total += count * price
        figures += [entry(f"{pool}spare", spare, f"{pool}nominal", unit="devices")]
        figures += [entry(f"{pool}spare.usd", spare * price, f"{pool}spare", "price")]
        steps.append(RecordedStep(name="rounding to machines", amount=f"{pool}spare", usd=f"{pool}spare.usd"))
        total += spare * price
        recorded.append(RecordedPool(name=pool or "pool", load=f"{pool}load", steps=tuple(steps)))
    figures.append(entry("bill.total_usd", total, *(each.name for each in figures if each.name.endswith("usd"))))
    return PlanRecord(
        service="test",
        as_of="2026-11-15",
        seed=seed,
        verdict="BUY",
        figures={each.name: each for each in figures},
        inputs={name: entry(name, value) for name, value in inputs.items()},
        pools=tuple(recorded),
        lines={"storage": "answer.storage_usd"},
    )


def usd(record: PlanRecord) -> float:
    return float(record.figures["bill.total_usd"].value)


def fleet(record: PlanRecord) -> float:
    return sum(float(each.value) for each in record.figures.values() if each.unit == "replicas")


def by_name(found: tuple[CausedChange, ...]) -> dict[str, CausedChange]:
    return {each.name: each for each in found}


plans = st.builds(
    made,
    rate=st.floats(0.1, 1000.0),
    price=st.floats(0.1, 100.0),
    slow=st.floats(0.5, 2.0),
    replicas=st.tuples(st.integers(1, 500), st.integers(0, 200), st.integers(0, 50)),
    spare=st.integers(0, 7),
    storage=st.floats(0.0, 1000.0),
    seed=st.integers(0, 3),
    pools=st.sampled_from([("",), ("a",), ("a", "b"), ("b", "c")]),
)


@given(plans, plans)
def test_causes_sum_to_the_change_of_fleet_and_bill(old: PlanRecord, new: PlanRecord) -> None:
    found = causes_of(old, new)
    assert sum(each.replicas for each in found) == pytest.approx(fleet(new) - fleet(old), abs=1e-6)
    # What is left out of the list is less than half a cent each.
    assert sum(each.usd or 0.0 for each in found) == pytest.approx(usd(new) - usd(old), abs=0.1)
    assert all(each.because for each in found)


@given(plans, plans, plans)
def test_with_a_plan_at_the_old_seed_chance_is_a_cause_of_its_own(
    old: PlanRecord, new: PlanRecord, same_seed: PlanRecord
) -> None:
    found = causes_of(old, new, same_seed=same_seed)
    assert sum(each.replicas for each in found) == pytest.approx(fleet(new) - fleet(old), abs=1e-6)
    assert sum(each.usd or 0.0 for each in found) == pytest.approx(usd(new) - usd(old), abs=0.1)
    seed = by_name(found).get(SEED)
    moved = fleet(new) - fleet(same_seed)
    assert (0.0 if seed is None else seed.replicas) == pytest.approx(moved, abs=1e-6)


@given(plans)
def test_nothing_moves_between_a_plan_and_itself(plan: PlanRecord) -> None:
    assert causes_of(plan, plan) == ()


def test_each_cause_has_the_amount_that_its_input_moved() -> None:
    """Twice the load at the same replicas per load, then a dearer device: worked out by hand."""
    found = by_name(causes_of(made(), made(rate=20.0, price=4.0, replicas=(21, 4, 2))))
    assert found["demand"].because == ("rate",)
    assert (found["demand"].replicas, found["demand"].usd) == pytest.approx((10.0, 30.0))
    # One more than twice as many, because of the load too: no other input behind it changed.
    assert found["capacity per replica"].replicas == pytest.approx(1.0)
    assert found["capacity per replica"].because == ("rate",)
    assert found["price of a device"].usd == pytest.approx(21 + 4 + 2 + 1)
    assert found["price of a device"].because == ("price",)
    assert "failure" not in found
    assert "storage" not in found


def test_an_input_that_slows_a_replica_is_told_from_the_load() -> None:
    found = by_name(causes_of(made(), made(rate=20.0, slow=1.5, replicas=(30, 4, 2))))
    assert found["demand"].because == ("rate",)
    assert found["capacity per replica"].because == ("slow",)
    assert found["capacity per replica"].replicas == pytest.approx(10.0)


def test_what_no_input_explains_is_the_seeds_or_another_programs() -> None:
    moved = made(replicas=(11, 4, 2), seed=1)
    assert by_name(causes_of(made(), moved))["capacity per replica"].because == (SEED,)
    same = made(replicas=(11, 4, 2))
    assert by_name(causes_of(made(), same))["capacity per replica"].because == (PROGRAM,)


def test_a_seed_that_was_not_told_apart_is_named_beside_the_inputs() -> None:
    found = by_name(causes_of(made(), made(rate=20.0, replicas=(21, 5, 2), seed=1)))
    assert found["demand"].because == ("rate",), "no chance is in the load"
    assert found["capacity per replica"].because == ("rate", SEED)
    assert SEED in found["untested step times"].because


def test_a_pool_that_is_new_or_gone_is_one_cause() -> None:
    found = [(each.name, each.pool, each.replicas) for each in causes_of(made(pools=("a",)), made(pools=("b",)))]
    assert found[:2] == [("pool removed", "a", -16.0), ("pool added", "b", 16.0)]


FILE = """
version: 1
service: chat
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: RATE req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
prices: {provider: me, own: {devices: [{device: h100-sxm, provider: me, price: PRICE USD/h}]}}
"""


@pytest.mark.slow
def test_two_real_plans_of_other_traffic_price_and_seed(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(FILE.replace("RATE", "10").replace("PRICE", "2"))
    new.write_text(FILE.replace("RATE", "30").replace("PRICE", "3"))
    as_of = datetime.date(2026, 11, 15)
    before = verbs.plan(old, as_of=as_of, seed=0, quick=True)
    assert isinstance(before, Plan)
    saved = tmp_path / "old.json"
    saved.write_text(to_text(plan_json(before)))
    found = verbs.compare(saved, new, as_of=as_of, seed=1)
    assert isinstance(found, Difference)
    assert not isinstance(found, Rejection)
    total = {each.name: each for each in found.figures}["bill.total_usd"]
    assert total.old is not None
    assert total.new is not None
    moved = float(total.new.value) - float(total.old.value)
    assert sum(each.usd or 0.0 for each in found.causes) == pytest.approx(moved, abs=0.1)
    causes = by_name(found.causes)
    assert causes["demand"].because == ("chat.mean_rate",)
    assert any("price" in each for each in causes["price of a device"].because)
    assert all(SEED not in each.because for each in found.causes if each.name != SEED), "its part is its own"
    assert "What changed the fleet and the bill" in to_markdown(difference_page(found))


def test_a_difference_carries_its_causes() -> None:
    found = difference(made(), made(price=4.0))
    assert [each.name for each in found.causes] == ["price of a device"]


def test_a_bill_without_devices_is_not_compared_with_a_whole_one() -> None:
    old = made()
    new = replace(made(price=1.0), is_of_devices=False)
    names = {each.name for each in difference(old, replace(new, is_of_devices=True)).figures}
    assert "bill.total_usd" in names
    found = difference(old, new)
    assert not any(each.name.startswith("bill.total") for each in found.figures)
    assert all(each.usd is None for each in found.causes)
    assert any("the new plan has no price for its devices" in each for each in found.also)
