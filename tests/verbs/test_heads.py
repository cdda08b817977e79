"""What every verb's document says first: whose it is, of which service and day, with which seed, and what is behind it.

The answers are made up (tests/support/made_up.py), so that a day, a seed or a service can be traced to its field.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from support.made_up import MadeUp
from support.planned import AS_OF, read
from ullage import verbs
from ullage.planning.document import Plan
from ullage.verbs.answer import VerbAnswer

DAY, SEED = AS_OF.isoformat(), 71
# As a plan calls it, as a pool does; a document without one is about no service.
PLAN, POOL = "of the plan", "of the pool"
# The verb, and its head: day, seed, service.
HEADS: dict[str, tuple[str, bool, bool, str | None]] = {
    "BrownfieldPlan": ("brownfield", True, True, PLAN),
    "BuyAnswer": ("buy", True, True, PLAN),
    "Checked": ("check", True, True, PLAN),
    "CostAnswer": ("cost", True, True, POOL),
    "DifferenceAnswer": ("compare", False, False, None),
    "Drilled": ("drill", True, True, PLAN),
    "Emitted": ("emit", True, True, POOL),
    "Facts": ("facts", True, False, None),
    "GateAnswer": ("gate", True, True, POOL),
    "Inspections": ("calibrate", False, False, None),
    "LedgerAnswer": ("ledger", False, False, None),
    "MeasureAnswer": ("measure", True, True, POOL),
    "OptionsAnswer": ("options", True, True, POOL),
    "PortfolioAnswer": ("portfolio", True, True, None),
    "Profiled": ("profile", True, False, None),
    "ReconcileAnswer": ("reconcile", False, False, None),
    "Refusal": ("refusal", False, False, None),
    "RepeatedTests": ("simulate", True, False, None),
    "RiskAnswer": ("risk", True, True, PLAN),
    "ScenarioAnswer": ("scenarios", True, True, PLAN),
    "ShadowAnswer": ("shadow", True, True, POOL),
    "SidesSized": ("size", True, True, POOL),
    "Simulated": ("simulate", True, True, None),
    "SizeAnswer": ("size", True, True, POOL),
    "SplitSimulated": ("simulate", True, True, None),
    "Validation": ("validate", True, True, POOL),
}
# Their documents are another's, or are made of more than can be made up; other tests read them.
ELSEWHERE = {
    "CurveAnswer",
    "Fitted",
    "ForecastAnswer",
    "MemoryAnswer",
    "PlanAnswer",
    "ReportAnswer",
    "ScaleAnswer",
    "WhatIf",
}


# Those that print figures apart from where they are used, so that each can be explained.
EXPLAINED = {"BuyAnswer", "CostAnswer", "DifferenceAnswer", "RiskAnswer"}
# A name, a count or a verdict of each by which its answer is known in one line.
KNOWN_BY = {
    "Checked": {"mistakes": "0", "looked for": "2 kinds"},
    "DifferenceAnswer": {"changed inputs": "2", "changed figures": "1"},
    "Emitted": {"files": "2", "not as planned": "2"},
    "Facts": {"of facts": f"{PLAN}, {PLAN}"},
    "Inspections": {"h100.json": "2 points"},
    "LedgerAnswer": {"list": "2 entries", "damaged": "2"},
    "OptionsAnswer": {"chat.best": PLAN, "chat.behind.figure": "2 s"},
    "PortfolioAnswer": {"pools": "2", "replicas": "7 replicas", "devices": "56 devices", "dropped": "4 replicas"},
    "Refusal": {"refused at": "memory", "because": "it does not fit"},
    "ScenarioAnswer": {PLAN: "refused"},
    "Validation": {"verdict": "cannot tell", "inside their bands": "0 of 4"},
}
GIVEN = {
    "folder": "of facts", "file": "runs/h100.json", "action": "list", "pool": "chat", "devices": 56,
    "given_up_replicas": 2, "stage": "memory", "reason": "it does not fit",
}  # fmt: skip


def _below(kind: type[VerbAnswer]) -> Iterator[type[VerbAnswer]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _kinds() -> dict[str, type[VerbAnswer]]:
    for each in pkgutil.walk_packages(verbs.__path__, "ullage.verbs."):
        importlib.import_module(each.name)
    return {each.__name__: each for each in _below(VerbAnswer) if each.__module__.startswith("ullage.")}


KINDS = _kinds()


def _made(name: str, **given: Any) -> Any:
    behind = {"behind.figure": read("behind.figure", 2.0, "s")}
    fixed = {"as_of": AS_OF, "seed": SEED, "name": PLAN, "service": POOL, "figures": behind}
    made = MadeUp(is_bare=True, **{**fixed, "figure": read("refused.figure", 3.0, "s"), **given})
    return made(KINDS[name])


def test_every_answer_is_here_or_elsewhere() -> None:
    assert KINDS.keys() == HEADS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", HEADS)
def test_a_document_says_whose_it_is(name: str) -> None:
    verb, has_day, has_seed, service = HEADS[name]
    found = _made(name, **({"figures": {}} if name in ("SidesSized", "SizeAnswer") else {}))
    document = found.to_dict()
    assert document["schema"] == f"ullage.{verb}/2"
    assert document.get("as_of") == (DAY if has_day else None)
    assert document.get("seed") == (SEED if has_seed else None)
    assert document.get("service") == service
    if name in EXPLAINED:
        assert document["figures"]["behind.figure"]["value"] == 2.0
    # Ages are counted from the day that the document is of.
    if type(found).dated is not VerbAnswer.dated:
        assert found.dated() == AS_OF


@pytest.mark.parametrize("name", KNOWN_BY)
def test_an_answer_is_known_by_its_own_few_figures(name: str) -> None:
    replicas = {} if name == "ScenarioAnswer" else {"replicas": 7}
    said = {each.name: each.text for each in _made(name, **GIVEN, **replicas).headlines()}
    assert said.items() >= KNOWN_BY[name].items()


def test_a_pool_is_named_where_there_are_several() -> None:
    for name in ("OptionsAnswer", "Drilled"):
        several = {each.name for each in _made(name, pool="chat").headlines()}
        assert {each.split(".")[0] for each in several} == {"chat"}
        made = MadeUp(is_bare=True, pool="chat", name="best", figures={})
        kind: Any = KINDS[name]
        if name == "OptionsAnswer":
            alone = made(kind, pools=made(kind).pools[:1])
        else:
            plan = made(kind).plan
            alone = made(kind, plan=made(Plan, pools=plan.pools[:1]))
        assert {each.name for each in alone.headlines()} == {"best"}
