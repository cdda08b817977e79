"""The bill of whole plans: several pools, an escalation, tools, commitments; every figure keeps one name."""

from __future__ import annotations

import datetime

import pytest

from ullage import verbs
from ullage.cost.bill import Bill
from ullage.errors import Rejection
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.planning.document import Plan
from ullage.verbs.cost import bill_of

AS_OF = datetime.date(2026, 11, 15)
PLAN = """
version: 1
service: cheap first
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
    - {name: mail, rate: 1 req/s, longest_context: 8192, slo: {e2e_p95: 60s}, pool: small}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
routing:
  - class: chat
    escalation: [{pool: small, goes_on: 25%, success: 62%}, {pool: large, success: 84%}]
tools:
  - {name: search, classes: [chat], calls_per_task: 2, error_rate: 20%}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("bill") / "plan.yaml"
    file.write_text(PLAN)
    found = verbs.plan(file, as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection), found
    return found


@pytest.fixture(scope="module")
def bill(plan: Plan) -> Bill:
    return bill_of(plan)


@pytest.mark.slow
def test_devices_that_are_paid_are_those_that_were_planned(plan: Plan, bill: Bill) -> None:
    for each in plan.pools:
        lines = [line for line in bill.lines if line.pool == each.spec.name and line.amount.unit == "device-hours"]
        replicas = each.steady_fleet.replicas + sum(each.reserves.bought.values())
        assert replicas == each.reserves.total_replicas
        held = replicas * each.memory.runtime.sharding.devices
        empty = each.packing.chosen.stranded_devices + each.packing.chosen.spare_devices
        assert sum(line.amount.value for line in lines) == pytest.approx((held + empty) * 730)


@pytest.mark.slow
def test_both_attempts_of_an_escalation_are_paid_by_the_task(bill: Bill) -> None:
    chat = [each for each in bill.use.classes if each.name == "chat"]
    assert [each.pool for each in chat] == ["small", "large"]
    assert chat[1].requests == pytest.approx(0.25 * chat[0].requests)
    units = {each.name: each.usd for each in bill.units}
    assert units["bill.chat.per_task_usd"] == pytest.approx(1.25 * units["bill.chat.per_request_usd"], rel=1e-3)
    success = 0.75 * 0.62 + 0.25 * 0.84
    assert units["bill.chat.per_successful_task_usd"] == pytest.approx(units["bill.chat.per_task_usd"] / success)


@pytest.mark.slow
def test_a_failed_call_of_a_tool_is_paid_again(bill: Bill) -> None:
    (search,) = bill.use.tools or ()
    chat = next(each for each in bill.use.classes if each.name == "chat")
    assert search.calls == pytest.approx(chat.requests * 2 / 0.8)
    line = next(each for each in bill.lines if each.name == "tool_apis")
    assert not line.is_priced
    assert "tool-call" in line.missing


@pytest.mark.slow
def test_no_name_means_two_numbers(plan: Plan) -> None:
    by_name: dict[str, object] = {}
    roots: list[Figure | Assumption] = [*plan.spec.inputs, *plan.figures]
    for root in roots:
        for _, each in walk(root):
            if not isinstance(each, Source):
                assert by_name.setdefault(each.name, each) == each, each.name
