"""What verbs hand back, as a prompt, a notebook and a program meet it; and that every verb uses the cores it has."""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ullage
from support.built_page import needs_page
from support.made_up import MadeUp
from support.planned import AS_OF, read
from support.planned import SMALL as PLAN
from ullage import verbs
from ullage.cost.bill import Bill
from ullage.cost.budget.budget import Budget
from ullage.cost.lines.line import BillLine
from ullage.errors import InputError, Rejection
from ullage.execute.pool import THREADS
from ullage.verbs.answer import FRAME_LIBRARIES, Refusal, VerbAnswer
from ullage.verbs.cost import CostAnswer
from ullage.verbs.plan_answer import bill_headlines
from ullage.verbs.report import ReportAnswer
from ullage.verbs.what_if import WhatIf, what_if

RUNS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - {name: vllm, args: [--model, meta-llama/Llama-3.1-8B], resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("runs") / "runs.yaml"
    file.write_text(RUNS)
    return file


def asked(verb: str, running: Path, **more: Any) -> VerbAnswer | Rejection:
    """The verb, asked of the small plan."""
    ask: Callable[..., Any] = getattr(verbs, verb)
    if verb == "brownfield":
        return ask([running], plan=PLAN, as_of=AS_OF, **more)  # type: ignore[no-any-return]
    if verb == "portfolio":
        return ask([PLAN], as_of=AS_OF, **more)  # type: ignore[no-any-return]
    if verb == "compare":
        return ask(PLAN, PLAN, as_of=AS_OF, **more)  # type: ignore[no-any-return]
    if verb in ("drill", "check"):
        more["names"] = {"drill": ["queue-collapse"], "check": ["maximum-throughput"]}[verb]
    return ask(PLAN, as_of=AS_OF, **more)  # type: ignore[no-any-return]


@contextmanager
def threads_seen() -> Iterator[set[str]]:
    """The names of the threads that run Python code, by the profiler's hook for new threads."""
    seen: set[str] = set()

    def note(_frame: FrameType, _event: str, _argument: object) -> None:
        seen.add(threading.current_thread().name)
        sys.setprofile(None)

    threading.setprofile(note)
    try:
        yield seen
    finally:
        threading.setprofile(None)


# One run of the simulator is one sequence of events, and a forecast simulates nothing.
ONE_CORE = {"simulate", "forecast", "validate"}


def test_every_verb_that_takes_a_seed_takes_cores() -> None:
    taken = {each: set(inspect.signature(getattr(verbs, each)).parameters) for each in verbs.__all__}
    assert {each for each, names in taken.items() if "seed" in names and "workers" not in names} == ONE_CORE


# Names of a cluster, a record of production, load tests and an endpoint are more than this plan has: others ask these.
ASKED_ELSEWHERE = {"emit", "reconcile", "gate", "measure", "shadow"}
SIMULATING = [
    each
    for each in verbs.__all__
    if "workers" in inspect.signature(getattr(verbs, each)).parameters and each not in ASKED_ELSEWHERE
]


# Whose document it is, where it is not the verb's own.
SCHEMAS = {"report": "plan"}

# Windows of this plan are of a few thousand requests, which are faster on one thread than divided.
TOO_SMALL = {"size"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", [pytest.param(each, marks=[needs_page] if each == "report" else []) for each in SIMULATING]
)
def test_every_verb_uses_the_cores_it_was_given_and_is_shown_as_all_are(verb: str, running: Path) -> None:
    with threads_seen() as seen:
        found = asked(verb, running, workers=3)
    assert {each for each in seen if each.startswith(THREADS)} or verb in TOO_SMALL
    assert isinstance(found, VerbAnswer)
    assert not isinstance(found, Refusal)
    check_answer(found)
    # A verb that handed on another's answer would say so here; a report holds the plan's document.
    assert found.to_dict()["schema"].startswith(f"ullage.{SCHEMAS.get(verb, verb)}/")


def small_answers(running: Path) -> Iterator[VerbAnswer]:
    yield verbs.memory("llama-3.1-8b", device="h100", as_of=AS_OF)
    yield verbs.memory("llama-3.1-70b", device="l4", as_of=AS_OF)
    yield verbs.facts("devices", as_of=AS_OF)
    yield verbs.facts("devices", "h100", as_of=AS_OF)
    yield verbs.forecast(as_of=AS_OF)
    refused = verbs.plan(PLAN, set={"pool.model": "llama-3.1-70b"}, as_of=AS_OF)
    assert isinstance(refused, Refusal)
    yield refused
    size = verbs.size(PLAN, as_of=AS_OF)
    assert isinstance(size, VerbAnswer)
    yield size


def check_answer(answer: VerbAnswer) -> None:
    assert "\n" not in repr(answer)
    assert len(repr(answer)) < 1000
    html = answer._repr_html_()
    # A report is a page of its own, so that it stands in a frame.
    element = "iframe" if isinstance(answer, ReportAnswer) else "pre"
    assert html.startswith(f"<{element}")
    assert html.rstrip().endswith(f"</{element}>")
    document = answer.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for rows in answer.tables.values():
        assert all(not isinstance(cell, dict | list) for row in rows for cell in row.values())


@pytest.mark.slow
def test_answers_are_short_at_a_prompt_and_whole_in_a_notebook(running: Path) -> None:
    for each in small_answers(running):
        check_answer(each)


@pytest.mark.parametrize("library", FRAME_LIBRARIES)
def test_tables_are_data_frames_where_a_library_is_installed(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed, and is no dependency")
    answer = verbs.memory("llama-3.1-8b", device="h100", as_of=AS_OF)
    frame = answer.frame("lines", library=library)
    assert len(frame) == len(answer.tables["lines"])


def test_a_table_that_is_not_there_names_those_that_are() -> None:
    answer = verbs.memory("llama-3.1-8b", device="h100", as_of=AS_OF)
    with pytest.raises(InputError, match="Did you mean lines"):
        answer.frame("line")
    with pytest.raises(InputError, match="Install pandas or polars, or take the rows"):
        answer.frame("lines", library="a-library-that-is-not-there")


@pytest.mark.slow
def test_what_if_shows_both_answers_and_changes_only_what_was_changed() -> None:
    def ask(**what: Any) -> VerbAnswer:
        return ullage.size(PLAN, as_of=AS_OF, **what)

    alone, both = ask(), what_if(ask, {"pool.max_sequences": 8}, "x20")
    assert isinstance(both, WhatIf)
    assert both.before.to_dict() == alone.to_dict()
    said = both.to_dict()
    rows = {each["name"]: each for each in said.pop("what_if")["headlines"]}
    assert said == both.after.to_dict()
    assert rows["rate"]["after"] == pytest.approx(20 * rows["rate"]["before"])
    assert rows["size"]["after"] >= rows["size"]["before"]
    assert what_if(ask).to_dict() == alone.to_dict()


def test_a_log_that_does_not_say_who_asked_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,prompt_tokens,output_tokens,duration_s\n0,100,10,1\n1,100,10,1\n")
    # The plan is refused in any case: whoever hears of the log was told before it was planned.
    with pytest.raises(InputError, match="the usage has no tenant of requests"):
        verbs.cost(PLAN, set={"pool.model": "llama-3.1-70b"}, usage=[log], as_of=AS_OF)


@pytest.mark.slow
@pytest.mark.fresh
def test_a_plan_says_its_stages_in_order() -> None:
    said: list[tuple[float, str]] = []
    verbs.plan(PLAN, as_of=AS_OF, progress=lambda fraction, stage="": said.append((fraction, stage)))
    shares = [each for each, _ in said]
    assert shares == sorted(shares)
    assert all(0.0 <= each <= 1.0 for each in shares)
    stages = [stage for _, stage in said]
    wanted = ["reading", "service curve", "operating point", "replicas", "admission limits", "losses", "bill"]
    assert [each for each in stages if each in wanted] == wanted


BILLED = {
    name: read(name, value, "USD") for name, value in (("bill.total_usd", 1200.0), ("bill.per_success_usd", 0.25))
}


def test_a_bill_is_known_by_its_month_and_by_a_success_where_devices_are_priced() -> None:
    made = MadeUp(figures=BILLED)
    whole = bill_headlines(made(Bill, lines=(), units=()))
    assert [(each.name, each.value, each.unit) for each in whole] == [
        ("a month", 1200.0, "USD"),
        ("per success", 0.25, "USD"),
    ]
    assert bill_headlines(None) == []
    months = made(CostAnswer, bill=made(Bill, lines=(), units=()), budget=made(Budget)).headlines()[2:]
    assert [each.name for each in months] == ["2 months, P10", "2 months, P50", "2 months, P90"]


def test_two_bills_are_compared_in_a_sentence() -> None:
    """1,200 after 1,000 is a fifth more."""
    old, new = (MadeUp(figures=BILLED, lines=(_line(cents),)) for cents in (100_000, 120_000))
    before, after = (each(CostAnswer, bill=each(Bill), budget=None) for each in (old, new))
    assert after.beside(before).startswith("A month costs 1.2 k USD instead of 1 k (")
    assert after.beside(verbs.facts("devices", as_of=AS_OF)) == ""


def _line(cents: int) -> Any:
    return MadeUp()(BillLine, cents=cents)
