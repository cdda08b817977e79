"""Laws of the chain: every stage is there in order, and every printed number can be explained."""

from __future__ import annotations

import datetime
import io

import pytest
from rich.console import Console

from support.planned import planned
from ullage import verbs
from ullage.errors import NotGiven
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.planning.document import Plan
from ullage.report.plan.json_document import plan_json
from ullage.report.plan.page import plan_document

AS_OF = datetime.date(2026, 11, 15)

STAGES = [
    "workload",
    "demand",
    "routing",
    "memory",
    "step_model",
    "service_curve",
    "operating_point",
    "time_to_ready",
    "steady_fleet",
    "headroom",
    "tools",
    "binding",
    "admission_limits",
    "reserves",
    "packing",
    "loss_checks",
    "scaling",
    "margins",
    "utilisation",
    "scorecard",
    "bill",
    "uncertainty",
    "reconcile",
]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned()


def test_every_stage_is_in_the_plan_in_order(plan: Plan) -> None:
    assert [stage.name for stage in plan.stages] == STAGES


def test_a_stage_that_was_given_something_hands_over_figures(plan: Plan) -> None:
    for stage in plan.stages:
        assert bool(stage.figures) == (not isinstance(stage.answer, NotGiven)), stage.name


@pytest.mark.slow
def test_every_number_is_explained_down_to_sources(plan: Plan) -> None:
    numbers: list[Figure | Assumption] = [*plan.figures, *plan.assumptions]
    for each in numbers:
        assert plan.find(each.name) == each
        leaves = [one for _, one in walk(each)]
        assert isinstance(leaves[-1], Source)
        assert any(isinstance(one, Source) for one in leaves)


def test_names_are_unique(plan: Plan) -> None:
    """A name is what `--explain` looks up, so it means one number."""
    by_name: dict[str, object] = {}
    roots: list[Figure | Assumption] = [*plan.spec.inputs, *plan.figures]
    for root in roots:
        for _, each in walk(root):
            if not isinstance(each, Source):
                assert by_name.setdefault(each.name, each) == each


def test_every_input_is_listed_among_the_assumptions(plan: Plan) -> None:
    assert set(plan.spec.inputs) <= set(plan.assumptions)
    assert all(isinstance(each, Assumption) for each in plan.assumptions)


@pytest.mark.slow
@pytest.mark.fresh
def test_one_input_one_seed_one_answer(plan: Plan) -> None:
    """Worked out anew, and not taken from what the session keeps."""
    assert verbs.plan(as_of=AS_OF, seed=0) == plan


@pytest.mark.slow
def test_what_a_stage_has_to_say_reaches_the_reader(plan: Plan) -> None:
    """An approximation that only the value knows is one the reader was not told of."""
    said = [note for stage in plan.stages for note in stage.notes]
    assert any("prefix" in note for note in said)
    assert any("start-up log" in note for note in said)
    assert [note for each in plan_json(plan)["stages"] for note in each.get("notes", [])] == said
    console = Console(width=10_000, file=io.StringIO(), record=True)
    for part in plan_document(plan):
        console.print(part)
    shown = console.export_text()
    assert all(f"Note: {note}" in shown for note in said)


def test_margins_cost_what_is_bought_and_no_more(plan: Plan) -> None:
    """A reserve that another stands in for is not paid for twice, in the table of margins or on the bill."""
    (pool,) = plan.pools
    costs = [each.cost for each in pool.margins.rows if each.where.endswith("reserve") and each.cost is not None]
    assert sum(int(each.value) for each in costs) == pool.reserves.replicas <= pool.reserves.sum_replicas
