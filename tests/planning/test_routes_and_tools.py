"""A plan with an escalation, a tool and quotas: both pools get their demand, a narrow tool is named, quotas refuse."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import InputError, NotGiven, Rejection
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.planning.answer.answer import answer
from ullage.planning.document import Plan
from ullage.service.binding import TOOL
from ullage.workload.demand.tools import ToolLoads

AS_OF = datetime.date(2026, 11, 15)

PLAN = """
version: 1
service: cheap first
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
routing:
  - class: chat
    escalation: [{pool: small, goes_on: 25%, success: 62%}, {pool: large, success: 84%}]
    carries_answer: true
tools:
  - {name: search, calls_per_task: 2, latency: 800ms, concurrency: 16, error_rate: 1%, while_waiting: kept}
sites:
  source: a made-up quota page
  dated: 2026-11-01
  regions:
    - name: west
      quotas: {h100-sxm: 64}
      zones: [{name: west-a}, {name: west-b}]
"""


def planned(folder: Path, text: str = PLAN) -> Plan | Rejection:
    file = folder / "plan.yaml"
    file.write_text(text)
    return verbs.plan(file, as_of=AS_OF, seed=1, quick=True)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    found = planned(tmp_path_factory.mktemp("routes"))
    assert not isinstance(found, Rejection), found
    return found


@pytest.mark.slow
def test_an_escalation_route_drives_the_demand_of_both_pools(plan: Plan) -> None:
    small, large = plan.pools
    assert [one.name for one in small.demand.classes] == [one.name for one in large.demand.classes] == ["chat"]
    assert large.demand.planning_rps == pytest.approx(0.25 * small.demand.planning_rps)
    assert plan.find("routing.chat.attempts_per_task").value == 1.25
    rate = plan.find("routing.chat.large.planning_rate")
    assert rate.value == pytest.approx(large.demand.planning_rps)
    assert "routing.chat.small.goes_on" in {each.name for _, each in walk(rate) if not isinstance(each, Source)}
    # The first answer goes along, so prompts are longer in the second pool.
    before, after = (each.demand.classes[0].model.lengths.pairs()[0].mean() for each in plan.pools)
    assert after > 1.1 * before
    assert min(each.steady_fleet.replicas for each in plan.pools) >= 1
    # The screen counts attempts from its second line on: a rise that is none of demand says so.
    _, mean, *_ = answer(plan).traffic
    assert mean.remark == "today, escalations included"


@pytest.mark.slow
def test_a_tool_limit_below_the_capacity_of_the_devices_is_named_as_binding(plan: Plan) -> None:
    """Sixteen calls of 0.8 s are twenty a second; at two a task there is less room than the devices have."""
    small = plan.pools[0]
    assert isinstance(small.tools, ToolLoads)
    assert small.tools.lines[0].capacity_tasks_per_s == pytest.approx(16 / 0.8 * 0.99 / 2)
    assert small.tools.lines[0].capacity_tasks_per_s > small.demand.planning_rps
    assert small.binding.binding.name == TOOL
    assert plan.find("small.binding.constraint").value == TOOL
    # The other pool sees a quarter of the tasks, and the same tool.
    large = plan.pools[1]
    assert isinstance(large.tools, ToolLoads)
    assert large.tools.lines[0].use_fraction == small.tools.lines[0].use_fraction
    assert large.tools.lines[0].held_tokens < small.tools.lines[0].held_tokens
    assert large.binding.binding.name == TOOL
    assert small.tools.lines[0].held_tokens > 0.0


def test_a_tool_that_takes_less_than_is_planned_leaves_no_plan(tmp_path: Path) -> None:
    found = planned(tmp_path, PLAN.replace("concurrency: 16", "concurrency: 8"))
    assert isinstance(found, Rejection)
    assert found.stage == "tools"
    assert "more devices do not help" in found.reason


@pytest.mark.slow
def test_no_name_means_two_numbers(plan: Plan) -> None:
    by_name: dict[str, object] = {}
    roots: list[Figure | Assumption] = [*plan.spec.inputs, *plan.figures]
    for root in roots:
        for _, each in walk(root):
            if not isinstance(each, Source):
                assert by_name.setdefault(each.name, each) == each, each.name


@pytest.mark.slow
def test_pools_of_one_device_share_its_quota(plan: Plan) -> None:
    used = sum(row.devices for each in plan.pools for row in each.reserves.placement.rows)
    assert used <= 64
    quota = plan.find("sites.west.h100-sxm.quota")
    assert isinstance(quota, Assumption)
    assert quota.source.date == datetime.date(2026, 11, 1)
    assert quota in plan.spec.inputs


@pytest.mark.slow
def test_replicas_are_packed_where_they_were_placed(plan: Plan) -> None:
    for each in plan.pools:
        packed = each.packing.chosen
        assert packed.used_devices == sum(row.devices for row in each.reserves.placement.rows)
        assert {group.zone for group in packed.groups} <= {"west-a", "west-b"}
        assert not packed.spans_nodes


@pytest.mark.slow
def test_a_quota_that_is_too_small_is_a_refusal_with_the_nearest_that_fits(tmp_path: Path, plan: Plan) -> None:
    refused = planned(tmp_path, PLAN.replace("h100-sxm: 64", "h100-sxm: 2"))
    assert isinstance(refused, Rejection)
    assert "quota" in refused.reason
    assert refused.remedies


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{pool: large, success: 84%}", "{pool: larg}", "large"),
        ("class: chat", "class: chatter", "chat"),
        ("goes_on: 25%, ", "", "share from 0 to 1"),
        ("    carries_answer: true\n", "    shares: [{pool: small, share: 100%}]\n", "either shares or an escalation"),
        ("while_waiting: kept", "while_waiting: keep", "kept"),
        ("latency: 800ms", "latency: fast", "latency"),
        ("{name: search,", "{name: search, classes: [coding],", "chat"),
        ("quotas: {h100-sxm: 64}", "quotas: {h100-sx: 64}", "h100-sxm"),
        ("quotas: {h100-sxm: 64}", "quotas: {h100-sxm: -1}", "below 0"),
        ("sites:", "policy: {zones: 2}\nsites:", "conflicts with sites"),
        ("slo: {ttft_p95: 2s}}", "slo: {ttft_p95: 2s}, pool: small}", "conflicts with a route"),
        ("device: h100-sxm}", "device: h100-sxm, instance: p5.49xlarge}", "p5.48xlarge"),
    ],
)
def test_sections_that_contradict_themselves(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PLAN
    with pytest.raises(InputError) as caught:
        planned(tmp_path, PLAN.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_plan_without_any_of_it_says_so() -> None:
    found = verbs.plan(as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection)
    silent = {stage.name for stage in found.stages if isinstance(stage.answer, NotGiven)}
    assert {"routing", "tools"} <= silent
