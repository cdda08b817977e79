"""Two plans of a handful of numbers compared, and the numbers of two pools told apart, without planning anything."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from ullage.evidence import Assumption, Evidence, Figure, Source
from ullage.planning.differences.difference import Difference, difference
from ullage.planning.differences.record import Entry, PlanRecord
from ullage.planning.names import PoolNames, shared_names

SOURCE = Source(what="test", where="here", date=datetime.date(2026, 11, 15))


def entry(name: str, value: float | str, *rests_on: str, unit: str = "x") -> Entry:
    return Entry(name=name, value=value, unit=unit, evidence="stated", rests_on=rests_on)


def record(
    rate: float = 2.0, price: float = 3.0, *, seed: int = 0, verdict: str = "holds", **more: float
) -> PlanRecord:
    """rate -> demand -> replicas -> cost <- price; `memory` rests on nothing that changes."""
    figures = [
        entry("demand", 2.0 * rate, "rate"),
        entry("replicas", 4.0 * rate, "demand"),
        entry("cost", 4.0 * rate * price, "replicas", "price"),
        entry("memory", 80.0, "size"),
        *(entry(name, value) for name, value in more.items()),
    ]
    inputs = [entry("rate", rate), entry("price", price), entry("size", 80.0)]
    return PlanRecord(
        service="test",
        as_of="2026-11-15",
        seed=seed,
        verdict=verdict,
        figures={each.name: each for each in figures},
        inputs={each.name: each for each in inputs},
    )


def because(found: Difference) -> dict[str, tuple[str, ...]]:
    return {each.name: each.because for each in found.figures}


def test_a_number_rests_on_the_inputs_at_the_end_of_its_ways() -> None:
    assert record().grounds("cost") == {"rate", "price"}
    assert record().grounds("demand") == {"rate"}
    assert record().grounds("rate") == {"rate"}
    assert record().grounds("unheard of") == set()


def test_nothing_differs_from_itself() -> None:
    found = difference(record(), record())
    assert found.is_empty
    assert found.also == ()


def test_what_changed_is_named_with_its_cause_and_its_size() -> None:
    found = difference(record(rate=2.0), record(rate=6.0))
    assert [each.name for each in found.inputs] == ["rate"]
    assert because(found) == {"cost": ("rate",), "demand": ("rate",), "replicas": ("rate",)}
    assert [each.ratio for each in found.figures] == [pytest.approx(3.0)] * 3
    assert not found.is_empty


def test_two_causes_are_both_named() -> None:
    found = difference(record(), record(rate=4.0, price=5.0))
    assert because(found)["cost"] == ("price", "rate")
    assert because(found)["demand"] == ("rate",)


def test_a_number_in_one_plan_alone_is_a_change_without_a_ratio() -> None:
    found = difference(record(), record(extra=7.0))
    (change,) = found.figures
    assert (change.name, change.old, change.ratio) == ("extra", None, None)
    assert change.new == entry("extra", 7.0)
    assert any("another version" in each for each in found.also)


def test_a_ratio_needs_two_numbers_and_the_first_not_nothing() -> None:
    (change,) = difference(record(extra=0.0), record(extra=7.0)).figures
    assert change.ratio is None
    (change,) = difference(record(extra=7.0), record(extra=0.0)).figures
    assert change.ratio == 0.0


def test_another_unit_or_evidence_is_a_change() -> None:
    before, after = record(), record()
    memory = after.figures["memory"]
    for other in (replace(memory, unit="other"), replace(memory, evidence="other")):
        changed = replace(after, figures={**after.figures, "memory": other})
        assert [each.name for each in difference(before, changed).figures] == ["memory"]
    # What a formula is called is not what it gives.
    reworded = {**after.figures, "memory": replace(memory, formula="in other words")}
    assert difference(before, replace(after, figures=reworded)).is_empty


def test_seed_and_verdict_are_reasons_beside_the_inputs() -> None:
    found = difference(record(), record(seed=5, verdict="breaks", extra=1.0))
    assert found.also == ("the seed changed from 0 to 5", "the verdict changed from holds to breaks")


def assumption(name: str, value: float) -> Assumption:
    return Assumption(name=name, value=value, unit="x", evidence=Evidence.STATED, source=SOURCE)


def figure(name: str, value: float, *inputs: Figure | Assumption) -> Figure:
    return Figure(name=name, value=value, unit="x", formula="by hand", inputs=inputs)


def test_numbers_of_two_pools_are_called_by_the_pool_and_shared_ones_are_not() -> None:
    rate, sheet = assumption("rate", 1.0), assumption("h100.memory", 80.0)
    demand = figure("demand", 2.0, rate)
    pools = {
        name: figure("fleet.replicas", value, demand, sheet, assumption("engine.memory", value))
        for name, value in (("small", 3.0), ("large", 5.0))
    }
    shared = shared_names([demand], [[each] for each in pools.values()])
    assert set(shared) == {"demand", "rate", "h100.memory"}
    for pool, each in pools.items():
        found = PoolNames(pool, shared)(each)
        assert isinstance(found, Figure)
        assert found.name == f"{pool}.fleet.replicas"
        assert found.value == each.value
        assert [one.name for one in found.inputs] == ["demand", "h100.memory", f"{pool}.engine.memory"]
        assert found.inputs[0] is demand


def test_a_name_is_given_once_and_a_number_met_twice_is_one() -> None:
    own = figure("own", 1.0, assumption("local", 1.0))
    names = PoolNames("small", {})
    both = names(figure("both", 2.0, own, figure("other", 3.0, own)))
    assert isinstance(both, Figure)
    first, second = both.inputs
    assert isinstance(second, Figure)
    assert first is second.inputs[0]
    # A number that bears the pool's name already keeps it.
    assert names(figure("small.said", 1.0, assumption("small.local", 1.0))).name == "small.said"
    assert set(names.figures({"own": own})) == {"own"}
