"""What is printed as JSON is what its published schema says, and every name in it is listed."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ullage.report.plan.schema import plan_output_schema

from ullage import verbs
from ullage.errors import Rejection
from ullage.planning.document import Plan
from ullage.report.plan.json_document import explanation_json, plan_json, rejection_json, to_text

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)
TIGHT = """
version: 1
service: too tight
workload:
  classes: [{name: chat, rate: 4 req/s, longest_context: 8192, slo: {tpot_p95: 0.1ms}}]
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = verbs.plan(as_of=AS_OF)
    assert isinstance(found, Plan)
    return found


@pytest.fixture(scope="module")
def printed(plan: Plan) -> dict[str, Any]:
    found = json.loads(to_text(plan_json(plan)))
    assert isinstance(found, dict)
    return found


def check(value: object) -> None:
    jsonschema.Draft202012Validator(plan_output_schema()).validate(value)


def test_a_plan_is_what_its_schema_says(printed: dict[str, Any]) -> None:
    check(printed)


def test_an_explanation_is_what_its_schema_says(plan: Plan) -> None:
    check(json.loads(to_text(explanation_json(plan.find("fleet.replicas")))))


def test_a_refusal_is_what_its_schema_says(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(TIGHT)
    found = verbs.plan(tmp_path / "plan.yaml", as_of=AS_OF)
    assert isinstance(found, Rejection)
    check(json.loads(to_text(rejection_json(found))))


def test_every_name_in_a_table_is_listed(printed: dict[str, Any]) -> None:
    known = {*printed["figures"], *printed["assumptions"]}
    for table in ("input_sheet", "questions", "scorecard"):
        for row in printed[table]:
            assert known >= set(row["figures"]), row["what"]
            assert row["figures"] or row["missing"], row["what"]
    assert known >= {name for stage in printed["stages"] for name in stage.get("figures", [])}
    assert known >= {each["rests_on"] for each in printed["not_promised"] if each["rests_on"]}


def test_the_published_schema_is_the_one_in_the_code() -> None:
    published = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plan-output.schema.json"
    assert json.loads(published.read_text()) == plan_output_schema(), "run: make docs-record"
