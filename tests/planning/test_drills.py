"""Drills: every one has a plan that fails it and one that passes, and the change that it names does what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.drilled import SOUND, altered, planned, starved
from support.planned import AS_OF, SMALL
from ullage import verbs
from ullage.admission.policy import RETRY_BUDGET
from ullage.admission.retries import BACK_FRACTION
from ullage.cli.app import run
from ullage.cost.bill import Bill, monthly_bill
from ullage.errors import ExitCode, InputError, Rejection
from ullage.evidence import Source, walk
from ullage.execute.pool import thread_map
from ullage.memory.case import Approved
from ullage.planning.document import Plan
from ullage.planning.drills.drills import DRILLS, run_drills
from ullage.planning.drills.result import DrillResult, DrillVerdict
from ullage.planning.drills.scenario import PoolScenario, least_of
from ullage.report.decisions.drill_page import drill_page
from ullage.report.encode import to_json
from ullage.workload.demand.tools import Tool


def _run(plan: Plan, name: str) -> DrillResult:
    (found,) = run_drills(plan, (name,)).results
    return found


def _approved(sequences: int) -> Plan:
    (pool,) = planned().pools
    context = pool.memory.approved.context_tokens
    approved = Approved(context_tokens=context, sequences=sequences)
    return altered(planned(), memory=replace(pool.memory, approved=approved))


def _limited(running: int, waiting: int | None) -> Plan:
    """The plan with another limit on what runs and waits, and first tokens allowed within an hour."""
    (pool,) = planned().pools
    bounds = pool.admission_limits.bounds
    first_s = bounds.guard.first_token_s if waiting is not None else dict.fromkeys(bounds.guard.first_token_s, 3600.0)
    guard = replace(bounds.guard, running_requests=running, waiting_requests=waiting, first_token_s=first_s)
    limits = replace(pool.admission_limits, bounds=replace(bounds, guard=guard))
    return altered(planned(), admission_limits=limits)


def _follows(word: str, reserve_replicas: int) -> Plan:
    (pool,) = planned().pools
    settings = pool.reserves.settings
    warm = replace(settings.warm, follows=replace(settings.warm.follows, value=word))
    reserves = replace(pool.reserves, replicas=reserve_replicas, settings=replace(settings, warm=warm))
    return altered(planned(), reserves=reserves)


def _rising(share: float, warm_replicas: int) -> Plan:
    """Demand that rises by this share of the planning rate in one start, and so many warm replicas for it."""
    (pool,) = planned().pools
    warm = pool.reserves.warm
    line = replace(warm.line, replicas=warm_replicas)
    changed = replace(warm, line=line, rise_rps=share * pool.demand.planning_rps)
    return altered(planned(), reserves=replace(pool.reserves, warm=changed))


def _without_tool_cost() -> Plan:
    plan = planned()
    bill = next(each.answer for each in plan.stages if each.name == "bill")
    assert isinstance(bill, Bill)
    smaller = monthly_bill(replace(bill.use, tools=()), bill.quotes, bill.policy)
    stages = tuple(replace(each, answer=smaller) if each.name == "bill" else each for each in plan.stages)
    return replace(plan, spec=replace(plan.spec, tools=()), stages=stages)


def _storming() -> Plan:
    """A fleet without room, limits or retry budget, and clients that ask ten times."""
    loose = starved(_limited(1024, None), 0.6)
    policy = loose.spec.admission
    often = replace(
        policy,
        attempts=replace(policy.attempts, value=10, low=None, high=None),
        retry_budget=replace(RETRY_BUDGET, value=1.0),
    )
    return replace(loose, spec=replace(loose.spec, admission=often))


def _calling(calls: float) -> Plan:
    plan = planned()
    tools: tuple[Tool, ...] = tuple(
        replace(each, requests_per_task=replace(each.requests_per_task, value=1.0 / calls)) for each in plan.spec.tools
    )
    return replace(plan, spec=replace(plan.spec, tools=tools))


CASES: dict[str, tuple[Callable[[], Plan], Callable[[], Plan]]] = {
    "memory": (lambda: _approved(55), lambda: _approved(8)),
    "queue-collapse": (lambda: _limited(1024, None), lambda: _limited(256, 58)),
    "idle-fleet": (lambda: _follows("peak", 8), lambda: _follows("demand", 2)),
    "warm-up": (lambda: _rising(0.4, 0), lambda: _rising(0.4, 4)),
    "cache-miss": (lambda: starved(planned(), 0.9), planned),
    "quota": (lambda: starved(planned(), 0.9), planned),
    "unit-economics": (_without_tool_cost, planned),
    "zone": (lambda: starved(planned(), 0.9), planned),
    "retry-storm": (_storming, planned),
    "tool-outage": (lambda: _calling(0.5), planned),
}


def test_every_drill_has_a_plan_that_fails_it_and_one_that_passes() -> None:
    assert list(CASES) == list(DRILLS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_fails_the_drill(name: str) -> None:
    found = _run(CASES[name][0](), name)
    assert found.verdict is DrillVerdict.FAILS, found
    assert found.fails
    assert found.change
    assert found.during is not None
    assert found.wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_passes_the_drill(name: str) -> None:
    found = _run(CASES[name][1](), name)
    assert found.verdict is DrillVerdict.PASSES, found
    assert not found.change
    assert found.before is not None
    assert found.during is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cache-miss", "zone", "quota"])
def test_the_replicas_that_would_pass_do_pass(name: str) -> None:
    poor = starved(planned(), 0.9)
    found = _run(poor, name)
    more = int(found.change.split()[0])
    (pool,) = poor.pools
    reserves = replace(pool.reserves, serving_replicas=more)
    mended = _run(altered(poor, reserves=reserves), name)
    assert mended.verdict in (DrillVerdict.PASSES, DrillVerdict.UNDECIDED)
    assert mended.during is not None
    assert found.during is not None
    assert float(mended.during.value) > float(found.during.value)


@pytest.mark.slow
def test_the_limit_that_would_pass_does_pass() -> None:
    loose = _run(_limited(1024, 62), "queue-collapse")
    assert loose.fails
    running = int(loose.change.split("at most ")[1].split()[0])
    assert _run(_limited(running, 62), "queue-collapse").verdict is DrillVerdict.PASSES


@pytest.mark.slow
def test_a_storm_that_no_limit_holds_is_worse_than_one_that_a_limit_holds() -> None:
    storm, calm = _run(_storming(), "retry-storm"), _run(planned(), "retry-storm")
    assert storm.during is not None
    assert calm.during is not None
    assert float(storm.during.value) < BACK_FRACTION < float(calm.during.value)


@pytest.mark.slow
def test_a_service_without_tools_has_no_tool_to_lose_and_one_zone_is_an_outage() -> None:
    plan = planned()
    bare = replace(plan, spec=replace(plan.spec, tools=()))
    assert _run(bare, "tool-outage").verdict is DrillVerdict.NOT_PLAYED
    (pool,) = plan.pools
    rows = pool.reserves.placement.rows
    region = pool.reserves.placement.sites.regions[0]
    sites = replace(pool.reserves.placement.sites, regions=(replace(region, zones=region.zones[:1]),))
    placement = replace(pool.reserves.placement, sites=sites, rows=rows[:1])
    lost = _run(altered(plan, reserves=replace(pool.reserves, placement=placement)), "zone")
    assert lost.fails
    assert lost.during is not None
    assert lost.during.value == 0.0
    assert "zones: 2" in lost.change


@pytest.mark.slow
def test_a_kept_context_holds_memory_while_a_tool_is_down() -> None:
    """The same outage with the KV of those who wait kept: never better, and the way out is to drop it."""
    plan = _calling(0.02)
    kept = replace(
        plan,
        spec=replace(
            plan.spec,
            tools=tuple(
                replace(each, while_waiting=replace(each.while_waiting, value="kept")) for each in plan.spec.tools
            ),
        ),
    )
    dropped, held = _run(plan, "tool-outage"), _run(kept, "tool-outage")
    assert "KV tokens" in held.played
    assert dropped.during is not None
    assert held.during is not None
    assert float(held.during.value) <= float(dropped.during.value) + 0.005


@pytest.mark.slow
def test_cores_do_not_change_the_answer_and_figures_end_in_sources() -> None:
    alone = run_drills(planned())
    with thread_map(workers=2) as spread:
        assert run_drills(planned(), map=spread) == alone
    for figure in alone.figures.values():
        assert any(isinstance(each, Source) for _, each in walk(figure))
    assert [each.name for each in alone.results] == list(DRILLS)
    assert to_json(alone)["failed"] == [each.name for each in alone.failed]
    assert drill_page(planned(), alone)


@pytest.mark.slow
def test_a_drill_by_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean zone"):
        run_drills(planned(), ("zones",))


@pytest.mark.slow
def test_a_pool_that_is_seldom_asked_is_watched_for_longer() -> None:
    plan = planned()
    (pool,) = plan.pools
    seldom = PoolScenario(plan=plan, pool=replace(pool, demand=replace(pool.demand, planning_rps=0.01)))
    often = PoolScenario(plan=plan, pool=pool)
    assert (seldom.span().end_s - seldom.span().hit_s) * 0.01 == pytest.approx(600.0)
    assert often.span().end_s - often.span().hit_s == 600.0


@pytest.mark.parametrize(("border", "most", "grain"), [(1, 9, 1), (7, 9, 1), (9, 9, 1), (7, 30, 4), (30, 30, 7)])
def test_the_least_change_passes_and_one_step_less_does_not(border: int, most: int, grain: int) -> None:
    found = least_of(lambda number: number >= border, most=most, grain=grain)
    assert found is not None
    assert found >= border > found - grain
    assert least_of(lambda number: False, most=most) is None


@pytest.mark.slow
def test_the_exit_code_tells_whether_a_drill_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(SOUND)
    options = ["--quiet", "--json", "--as-of", "2026-11-15", "--seed", "1"]
    assert run(["drill", str(file), "zone", "quota", *options]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["failed"] == []
    file.write_text(SOUND.replace("zones: 2", "zones: 1").replace("survives: zone", "survives: node"))
    assert run(["drill", str(file), "zone", *options]) == ExitCode.REFUSED
    assert json.loads(capsys.readouterr().out)["failed"] == ["zone"]
    assert run(["drill", str(file), "zoned", *options]) == ExitCode.WRONG_INPUT


@pytest.mark.slow
def test_every_pool_is_drilled() -> None:
    plan = planned()
    (pool,) = plan.pools
    two = replace(plan, pools=(pool, replace(pool, spec=replace(pool.spec, name="other"))))
    found = run_drills(two, ("quota",))
    assert [(each.name, each.pool) for each in found.results] == [("quota", "pool"), ("quota", "other")]
    assert {"pool.drill.quota.during_fraction", "other.drill.quota.during_fraction"} <= set(found.figures)
    assert to_json(found)["results"][1]["pool"] == "other"
    assert drill_page(two, found)


@pytest.mark.slow
def test_limits_that_cost_successes_say_why() -> None:
    """With SLOs as lax as clients are patient nothing is gained by refusing, and the drill has the cost."""
    workload = {"classes": [{**SMALL["workload"]["classes"][0], "slo": {"ttft_p95": "120s"}}]}
    found = verbs.drill({**SMALL, "workload": workload}, names=("queue-collapse",), as_of=AS_OF)
    assert not isinstance(found, Rejection)
    (only,) = found.drills.results
    (without,) = re.findall(r"Without them ([\d.]+) req/s succeed: (.*)", only.played)
    assert only.during is not None
    assert float(without[0]) > float(only.during.value)
    cost = re.search(r"([\d.]+)% of the successes|In an overload of 30 min ([\d.]+) req/s", without[1])
    assert cost is not None
