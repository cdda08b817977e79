"""The verdict: each rule both ways, and what a headline must not leave out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.planned import planned, read, stated, with_pool, with_stage
from ullage.evidence import Evidence
from ullage.fleet.losses import LossVerdict
from ullage.planning.answer.answer import answer
from ullage.planning.answer.verdict import MOST_UNTESTED_FRACTION, Verdict, verdict, warnings
from ullage.planning.document import Plan


def with_known_traffic(plan: Plan, classes: tuple[str, ...] = ("chat", "coding")) -> Plan:
    """Rates and lengths of these classes are stated, at the values they have."""
    demand = next(each.figures for each in plan.stages if each.name == "demand")
    lengths = [f"demand.{name}.{side}_p95" for name in classes for side in ("prompt", "output")]
    demands = tuple(
        replace(each, mean_rate=replace(each.mean_rate, evidence=Evidence.STATED))
        if each.request_class.name in classes
        else each
        for each in plan.spec.demands
    )
    figures = {name: read(name, float(demand[name].value), "tokens") for name in lengths}
    return with_stage(replace(plan, spec=replace(plan.spec, demands=demands)), "demand", figures)


def with_evidence_replicas(plan: Plan, count: int) -> Plan:
    steady = plan.pools[0].steady_fleet
    added = {"fleet.evidence_replicas": read("fleet.evidence_replicas", count, "replicas")}
    changed = replace(steady, figures={**steady.figures, **added})
    return with_stage(with_pool(plan, steady_fleet=changed), "steady_fleet", added)


def running(plan: Plan, replicas: int) -> Plan:
    claims = replace(plan.spec.claims, replicas=stated("claims.replicas", replicas, "replicas"))
    return replace(plan, spec=replace(plan.spec, claims=claims))


def test_a_fifth_of_the_replicas_may_rest_on_untested_step_times_and_not_one_more() -> None:
    plan = with_known_traffic(planned())
    most = int(MOST_UNTESTED_FRACTION * plan.pools[0].steady_fleet.replicas)
    assert verdict(with_evidence_replicas(plan, most)) == (Verdict.BUY, ())
    decided, reasons = verdict(with_evidence_replicas(plan, most + 1))
    assert decided is Verdict.TEST_FIRST
    steady = plan.pools[0].steady_fleet.replicas
    assert reasons == (f"{most + 1} of {steady} steady replicas only cover unmeasured step times",)


def test_traffic_that_is_ours_is_tested_first_where_it_is_more_than_a_fifth_of_the_tokens() -> None:
    plan = with_evidence_replicas(planned(), 0)
    demand = next(each.figures for each in plan.stages if each.name == "demand")
    coding = float(demand["demand.coding.token_rate"].value) / float(demand["demand.token_rate"].value)
    assert coding > MOST_UNTESTED_FRACTION
    assert verdict(with_known_traffic(plan))[0] is Verdict.BUY
    decided, (reason,) = verdict(with_known_traffic(plan, ("chat",)))
    assert decided is Verdict.TEST_FIRST
    assert "coding" in reason
    assert "chat" not in reason
    assert f"{100 * coding:.0f} %" in reason
    few = {"demand.coding.token_rate": read("demand.coding.token_rate", 1.0, "tokens/s")}
    assert verdict(with_stage(with_known_traffic(plan, ("chat",)), "demand", few))[0] is Verdict.BUY


def test_what_runs_is_held_only_where_the_file_says_so_and_it_is_enough() -> None:
    plan = planned()
    needed = plan.pools[0].reserves.total_replicas
    assert plan.spec.claims.replicas is None
    assert plan.verdict is Verdict.TEST_FIRST
    assert running(plan, needed).verdict is Verdict.HOLD
    assert running(plan, needed - 1).verdict is Verdict.TEST_FIRST
    # Nothing is ordered and nothing saved where what runs is enough.
    held = answer(running(plan, needed))
    assert held.orders == ()
    assert held.next_step.saves_replicas is None


@pytest.mark.parametrize(("outcome", "is_said"), [(LossVerdict.BREAKS, True), (LossVerdict.HOLDS, False)])
def test_a_loss_that_its_reserve_does_not_cover_is_a_warning(outcome: LossVerdict, is_said: bool) -> None:
    plan = planned()
    table = plan.pools[0].loss_checks
    checks = tuple(replace(each, verdict=outcome) if each.name == "node" else each for each in table.checks)
    found = warnings(with_pool(plan, loss_checks=replace(table, checks=checks)))
    assert ("loss of a node violates an SLO despite its reserve" in found) == is_said
    # The zone is lost too, but nobody bought a reserve for it.
    assert not any("zone" in each for each in found)


def test_a_limit_that_the_planned_load_exceeds_is_a_warning() -> None:
    plan = planned()
    binding = plan.pools[0].binding
    assert warnings(plan) == ()
    short = replace(binding.binding, name="tool dependency", value=8.0, limit_value=5.0, unit="tasks/s")
    short = replace(short, growth_fraction=-0.375)
    (sentence,) = warnings(with_pool(plan, binding=replace(binding, lines=(short, *binding.lines[1:]))))
    assert sentence == "tool dependency already exceeds its limit: 8 of 5 tasks/s"


def test_a_warning_of_one_pool_names_it_and_one_of_all_is_said_once() -> None:
    plan = planned()
    pool = plan.pools[0]
    short = replace(pool.binding.binding, growth_fraction=-0.1)
    short_pool = replace(pool, binding=replace(pool.binding, lines=(short, *pool.binding.lines[1:])))
    other = replace(pool, spec=replace(pool.spec, name="other"))
    (one,) = warnings(replace(plan, pools=(short_pool, other)))
    assert one.startswith(f"{pool.spec.name}: {short.name} already exceeds")
    (both,) = warnings(replace(plan, pools=(short_pool, replace(short_pool, spec=other.spec))))
    assert both == one.removeprefix(f"{pool.spec.name}: ")
