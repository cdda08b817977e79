"""Every name that a document prints can be asked for, and is explained down to its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.planned import AS_OF, planned
from ullage import verbs
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.memory.budget import MemoryBudget
from ullage.verbs.curve import CurveAnswer
from ullage.verbs.memory import figure_of
from ullage.verbs.plan_answer import PlanAnswer

pytestmark = pytest.mark.slow


def names(value: Any) -> Iterator[str]:
    """The names of numbers in a document: of what has a value, of what it lists, and of what that rests on."""
    if isinstance(value, list):
        for each in value:
            yield from names(each)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str) and "value" in value and "unit" in value:
            yield value["name"]
        for key, each in value.items():
            if key in ("figures", "assumptions") and isinstance(each, dict):
                yield from each
            if key == "inputs" and isinstance(each, list):
                yield from (one for one in each if isinstance(one, str))
            yield from names(each)


def assert_explained(document: dict[str, Any], find: Callable[[str], Figure | Assumption]) -> None:
    found = set(names(document))
    assert found
    for name in found:
        below = [each for _, each in walk(find(name))]
        assert isinstance(below[-1], Source), name


def test_every_name_of_a_plan_is_explained() -> None:
    made = planned()
    assert isinstance(made, PlanAnswer)
    assert_explained(made.to_dict(), made.find)


@pytest.mark.slow
def test_every_name_of_a_curve_is_explained() -> None:
    made = verbs.curve(as_of=AS_OF)
    assert isinstance(made, CurveAnswer)
    assert_explained(made.to_dict(), made.find)


def test_every_name_of_a_memory_budget_is_explained() -> None:
    made = verbs.memory("llama-3.1-8b", device="h100-sxm")
    assert isinstance(made.found, MemoryBudget)
    budget = made.found
    assert_explained(made.to_dict(), lambda name: figure_of(budget, name))
