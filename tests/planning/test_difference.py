"""Laws of comparing plans: nothing differs from itself, saved compares like fresh, and a change has a cause."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.planning.differences.difference import Difference, difference
from ullage.planning.differences.record import PlanRecord, record_of
from ullage.planning.document import Plan
from ullage.report.encode import to_json, to_text
from ullage.report.markdown import to_markdown
from ullage.report.plan.difference import difference_page
from ullage.report.plan.json_document import plan_json

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)
FILE = """
version: 1
service: chat
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: RATE req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("plans")
    for name, rate in (("old", "4"), ("new", "12")):
        (found / f"{name}.yaml").write_text(FILE.replace("RATE", rate))
        plan = verbs.plan(found / f"{name}.yaml", as_of=AS_OF, quick=True)
        assert isinstance(plan, Plan)
        (found / f"{name}.json").write_text(to_text(plan_json(plan)))
    return found


def compared(*files: Path) -> Difference:
    found = verbs.compare(*files, as_of=AS_OF)
    assert not isinstance(found, Rejection)
    return found


@pytest.mark.fresh
def test_a_plan_does_not_differ_from_itself_fresh_or_saved(folder: Path) -> None:
    same = compared(folder / "old.yaml", folder / "old.json")
    assert same.is_empty
    assert "Nothing changed" in to_markdown(difference_page(same))


def test_a_change_names_the_input_behind_it(folder: Path) -> None:
    found = compared(folder / "old.json", folder / "new.json")
    # Three times the traffic also makes a load test the next thing to do, which rests on how long one takes.
    assert [each.name for each in found.inputs if each.name != "next.load_test_time"] == ["chat.mean_rate"]
    moved = {each.name: each for each in found.figures}
    assert moved["demand.planning_rate"].ratio == pytest.approx(3.0)
    assert moved["fleet.replicas"].because == ("chat.mean_rate",)
    assert "memory.kv_tokens" not in moved
    assert not [each for each in moved.values() if not each.because]


def test_the_way_back_is_the_way_there_turned_round(folder: Path) -> None:
    there = compared(folder / "old.json", folder / "new.json")
    back = compared(folder / "new.json", folder / "old.json")
    assert [(each.name, each.old, each.new) for each in there.figures] == [
        (each.name, each.new, each.old) for each in back.figures
    ]


def test_the_record_of_a_plan_is_what_its_json_says(folder: Path) -> None:
    plan = verbs.plan(folder / "old.yaml", as_of=AS_OF, quick=True)
    assert isinstance(plan, Plan)
    record: PlanRecord = record_of(plan)
    written = json.loads((folder / "old.json").read_text())
    assert {name: each.value for name, each in record.figures.items()} == {
        name: each["value"] for name, each in written["figures"].items()
    }
    assert difference(record, record).is_empty


def test_the_page_shows_inputs_and_main_figures(folder: Path) -> None:
    found = compared(folder / "old.json", folder / "new.json")
    shown = to_markdown(difference_page(found))
    assert "chat.mean\\_rate" in shown or "chat.mean_rate" in shown
    assert "fleet.replicas" in shown
    assert to_json(found)["figures"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"schema": "ullage.memory/2"}', "is not ullage.plan/2"),
        ('{"schema": "ullage.plan/2", "refused": {}}', "is a refusal"),
        ('{"schema": "ullage.plan/2", "verdict": "holds", "figures": {"a": 1}}', "lacks or garbles"),
    ],
)
def test_what_is_no_saved_plan_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "old.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        verbs.compare(file, file, as_of=AS_OF)
