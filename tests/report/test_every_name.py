"""Every name that a document prints can be asked for, and is explained down to its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.planned import AS_OF, SMALL, planned
from ullage import verbs
from ullage.cli.app import _command
from ullage.cli.help import VERBS
from ullage.errors import InputError
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.memory.budget import MemoryBudget
from ullage.verbs.curve import CurveAnswer
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
    assert_explained(made.to_dict(), made.explained)


@pytest.mark.slow
def test_every_name_of_a_curve_is_explained() -> None:
    made = verbs.curve(as_of=AS_OF)
    assert isinstance(made, CurveAnswer)
    assert_explained(made.to_dict(), made.explained)


def test_every_name_of_a_memory_budget_is_explained() -> None:
    made = verbs.memory("llama-3.1-8b", device="h100-sxm")
    assert isinstance(made.found, MemoryBudget)
    assert_explained(made.to_dict(), made.explained)


@pytest.mark.parametrize("verb", ["size", "options", "drill", "cost", "risk", "buy"])
def test_every_name_of_other_verbs_is_explained(verb: str) -> None:
    made = getattr(verbs, verb)(SMALL, as_of=AS_OF)
    assert_explained(made.to_dict(), made.explained)
    with pytest.raises(InputError, match="--explain"):
        made.explained("no.such.number")


def test_a_verb_whose_document_explains_numbers_takes_the_option() -> None:
    """Whatever lists figures and assumptions at its end, or figures with inputs, can be asked about each."""
    taking = {verb for verb in VERBS if any("--explain" in each.opts for each in _command(verb).params)}
    assert taking >= {"plan", "curve", "memory", "size", "options", "drill", "cost", "buy", "risk"}
