"""A plan whose prefill and decode are apart: both sides are there, nothing is counted twice, and options judge it."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from ullage.cost.bill import Bill
from ullage.errors import InputError, Rejection
from ullage.evidence import number
from ullage.load.plan import load_plan
from ullage.load.pool import load_pool
from ullage.planning.answer.answer import answer
from ullage.planning.document import Plan
from ullage.planning.options.apart import PAYS, PAYS_NOT, UNSURE, ApartOption, apart_option, apart_sides, sides_point
from ullage.planning.options.candidates import Candidate
from ullage.planning.options.ranking import ranked
from ullage.planning.options.screen import Fit, OptionRequest, fit_of
from ullage.planning.options.trial import CandidateTrial
from ullage.planning.pipeline import plan
from ullage.planning.planned_for import planned_for
from ullage.planning.sides import SidesTogether
from ullage.reconcile.expectation import expectation_of
from ullage.report.encode import to_json
from ullage.report.plan.json_document import plan_json
from ullage.service.trial.decide import Effort
from ullage.verbs.emit import emit
from ullage.verbs.size import SidesSized, size

AS_OF = datetime.date(2026, 11, 15)
FEW = Effort(most_windows=8, first_fraction=0.4)
TOGETHER = {
    "version": "1",
    "service": "small",
    "workload": {
        "classes": [
            {
                "name": "chat",
                "rate": "2 req/s",
                "longest_context": "4096",
                "slo": {"ttft_p95": "2s", "tpot_p95": "60ms"},
            }
        ]
    },
    "pool": {"model": "llama-3.1-8b", "device": "l40s"},
    "prices": {"provider": "aws"},
}
APART = {**TOGETHER, "pool": {"model": "llama-3.1-8b", "device": "l40s", "disaggregated": {"transfer": "10GB/s"}}}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def apart() -> Plan:
    found = plan(load_plan(APART, as_of=AS_OF), as_of=AS_OF, seed=0)
    assert isinstance(found, Plan)
    return found


def test_both_sides_are_planned_and_tried_together(apart: Plan) -> None:
    assert [each.spec.name for each in apart.pools] == ["pool-prefill", "pool-decode"]
    stage = next(each for each in apart.stages if each.name == "disaggregated")
    assert isinstance(stage.answer, SidesTogether)
    both = stage.answer.pools["pool"]
    steady = tuple(each.steady_fleet.replicas for each in apart.pools)
    assert (both.pools.prefill_replicas, both.pools.decode_replicas) == steady
    assert both.decision.passes
    assert 0.0 <= float(stage.figures["disaggregated.pool.used_fraction"].value) <= 1.0
    # Every number of the document can be printed and explained.
    found = plan_json(apart)
    assert "disaggregated.pool.transfer_p95_s" in found["figures"]
    assert apart.find("disaggregated.pool.chat.ttft_p95_prefill_s").unit == "s"


def test_the_bill_has_both_sides_and_counts_every_request_once(apart: Plan) -> None:
    bill = next(each.answer for each in apart.stages if each.name == "bill")
    assert isinstance(bill, Bill)
    assert {each.name for each in bill.use.pools} == {"pool-prefill", "pool-decode"}
    (ending,) = bill.use.ending
    assert ending.pool == "pool-decode"
    assert bill.use.requests == pytest.approx(ending.requests)
    (before,) = bill.use.classes_of("pool-prefill")
    assert before.requests == pytest.approx(ending.requests)
    assert ending.prompt_tokens == before.prompt_tokens
    assert ending.successes <= min(before.successes, ending.requests) * (1 + 1e-9)
    assert all((before.gpu_s or 0.0) > 0.0 for before in bill.use.classes)
    assert sum(each.cents for each in bill.lines if each.cents is not None) == bill.total_cents
    expected = expectation_of(apart)
    assert [each.name for each in expected.classes] == ["chat"]
    assert expected.planning_rps == pytest.approx(apart.pools[0].demand.planning_rps)


def test_the_traffic_of_the_answer_counts_every_request_once(apart: Plan) -> None:
    _, mean, _, planned_for_it = answer(apart).traffic
    assert number(mean.amount) == pytest.approx(sum(each.mean_rps for each in apart.pools[0].demand.classes))
    assert number(planned_for_it.amount) == pytest.approx(apart.pools[0].demand.planning_rps)


def test_what_looks_at_one_kind_of_replica_refuses_by_name() -> None:
    with pytest.raises(InputError, match=r"pool\.disaggregated.*replicas of one kind"):
        load_pool(APART, as_of=AS_OF)
    with pytest.raises(InputError, match=r"pool\.disaggregated.*no target writes"):
        emit(APART, ["vllm"], as_of=AS_OF)


def test_size_answers_for_both_sides(apart: Plan) -> None:
    found = size(APART, as_of=AS_OF)
    assert isinstance(found, SidesSized)
    steady = [each.steady_fleet.replicas for each in apart.pools]
    assert [found.prefill.conservative_replicas, found.decode.conservative_replicas] == steady
    assert found.is_met
    assert to_json(found)["nearest"].startswith("chat")


@pytest.fixture(scope="module")
def request_of_pool() -> OptionRequest:
    spec = load_plan(TOGETHER, as_of=AS_OF)
    point, demand, _ = planned_for(spec)
    return OptionRequest(
        demand=demand, classes=spec.classes, slo_limits=spec.slo_limits, spec=spec, point=point, seed=0
    )


def option(asked: OptionRequest) -> ApartOption | Rejection | None:
    pool = asked.spec.pool
    fit = fit_of(Candidate(name="own", pool=pool, is_own=True), asked)
    assert isinstance(fit, Fit)
    places, _ = ranked([CandidateTrial(fit)], rounds=(FEW,))
    return apart_option(pool, asked, places, effort=FEW)


def test_options_say_whether_it_pays_and_what_to_measure(request_of_pool: OptionRequest) -> None:
    found = option(request_of_pool)
    assert isinstance(found, ApartOption)
    assert found.own_replicas is not None
    # A small load needs one replica of each side at least, where one colocated replica does both.
    assert found.paid_devices >= 2
    assert found.verdict in (PAYS, UNSURE, PAYS_NOT)
    assert (found.verdict == PAYS) == (found.own_score is not None and found.score.high < found.own_score.low)
    assert f"it {found.verdict} at this load" in found.note
    assert "Measure first" in found.note
    assert "25 GB/s is assumed" in found.note
    assert to_json(found)["verdict"] == found.verdict


def test_options_size_both_sides_for_the_chance_that_a_plan_of_them_has(
    request_of_pool: OptionRequest, apart: Plan
) -> None:
    """One question, two verbs: a pool that is not apart yet is judged as it would be planned."""
    spec = request_of_pool.spec
    (pool,) = spec.pools
    point = sides_point(spec, pool, apart_sides(pool, spec.options.transfer))
    assert point.pool_shortfall == apart.point.pool_shortfall
    assert point.pool_shortfall != request_of_pool.point.pool_shortfall


def test_a_slow_link_is_refused_with_the_side_it_hurts(request_of_pool: OptionRequest) -> None:
    spec = request_of_pool.spec
    slow = replace(spec.options.transfer, value=1e7, low=None, high=None)
    asked = replace(request_of_pool, spec=replace(spec, options=replace(spec.options, transfer=slow)))
    found = option(asked)
    assert isinstance(found, Rejection)
    assert found.reason.startswith("pool-prefill")
    assert "KV transfer" in found.reason
