"""Mistake checks: each has a plan that trips it and a near miss that does not, and says both numbers."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.drilled import AS_OF, SOUND, altered, planned
from ullage.cli.app import run
from ullage.cost.bill import Bill
from ullage.errors import ExitCode, InputError
from ullage.evidence import Assumption, Evidence, Source
from ullage.execute.pool import thread_map
from ullage.files.plan_file import read_plan_file
from ullage.load.plan import load_plan
from ullage.memory.estimate import LineName
from ullage.planning.checks.checks import CHECKS, check_plan
from ullage.planning.checks.claims import Claims, CostClaim
from ullage.planning.checks.result import CheckAnomaly, CheckResult, CheckSeverity
from ullage.planning.checks.rules import with_rules
from ullage.planning.document import Plan
from ullage.report.decisions.check_page import check_page
from ullage.report.encode import to_json
from ullage.scaling.rules import ScalingRule, ScheduleSpec
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.workload.synthetic.model import FRACTIONS, LengthModel

SLIDE = Source(what="a slide", where="tests", date=datetime.date(2026, 5, 1))

UNEQUAL = """
version: 1
service: unequal
dated: 2026-11-15
workload:
  classes:
    - name: short
      rate: 6 req/s
      longest_context: 4096
      slo: {ttft_p95: 2s, tpot_p95: 100ms}
      prompt: {p50: 200, p95: 500}
      output: {p50: 30, p95: 80}
    - name: long
      rate: 2 req/s
      longest_context: 32768
      slo: {ttft_p95: 4s, tpot_p95: 100ms}
      prompt: {p50: 6000, p95: 16000}
      output: {p50: 600, p95: 1500}
pool: {model: llama-3.1-8b, device: h100-sxm, approved_concurrency: 2}
"""


def stated(name: str, value: float | str, unit: str = "") -> Assumption:
    return Assumption(name=f"claims.{name}", value=value, unit=unit, evidence=Evidence.STATED, source=SLIDE)


def claiming(plan: Plan, **claims: float | str) -> Plan:
    given: dict[str, Any] = {name: stated(name, value) for name, value in claims.items()}
    held = Claims(**given)
    return replace(plan, spec=replace(plan.spec, claims=held))


def costing(ratio: float, **labels: Any) -> Plan:
    plan = planned()
    cost = CostClaim(per_success=stated("cost.per_success", ratio * _per_success(plan), "USD"), **labels)
    return replace(plan, spec=replace(plan.spec, claims=Claims(cost=cost)))


def _per_success(plan: Plan) -> float:
    return float(_bill(plan).figures["bill.per_success_usd"].value)


def _bill(plan: Plan) -> Bill:
    found = next(each.answer for each in plan.stages if each.name == "bill")
    assert isinstance(found, Bill)
    return found


LABELS: dict[str, Any] = {
    "dated": datetime.date(2026, 11, 1),
    "region": "us-east-1",
    "model": "llama",
    "success": "not thumbed down",
}


def _replicas() -> int:
    return planned().pools[0].steady_fleet.replicas


def _highest() -> float:
    return planned().pools[0].operating_point.highest.rps


def _fits() -> int:
    return planned().pools[0].memory.worst.sequences


def _start_s() -> float:
    return float(planned().pools[0].time_to_ready.figures["ready.cold_p50_s"].value)


ALIKE = UNEQUAL.replace("ttft_p95: 4s", "ttft_p95: 2s").replace("6000, p95: 16000", "200, p95: 500")
"""Two classes of the same lengths and limits, at the rates of the unequal ones."""


def _alike() -> Plan:
    return planned(
        ALIKE.replace("600, p95: 1500", "30, p95: 80").replace("longest_context: 32768", "longest_context: 4096")
    )


def _sourced(plan: Plan) -> Plan:
    """The inputs alone, those of ours under the plan file's keys."""
    pools = tuple(
        replace(each, choices=tuple(replace(one, source=SLIDE, evidence=Evidence.STATED) for one in each.choices))
        for each in plan.spec.pools
    )
    return replace(plan, spec=replace(plan.spec, pools=pools, tools=()), stages=())


def _with_anomaly(name: str) -> Plan:
    """The plan on step times whose evidence has this anomaly; lengths that were assumed decide nothing."""
    plan = planned()
    said = EvidenceAnomaly(name=name, sentence="1.49 PFLOP/s are credited to a device of 0.99.")
    return altered(plan, step_model=replace(plan.pools[0].step_model, anomalies=(said,)))


Case = Callable[[], Plan]
CASES: dict[str, tuple[Case, Case, CheckSeverity]] = {
    "average-length": (
        lambda: claiming(planned(), replicas=_replicas() - 1),
        lambda: claiming(planned(), replicas=_replicas()),
        CheckSeverity.MISTAKE,
    ),
    "maximum-throughput": (
        lambda: claiming(planned(), capacity=1.02 * _highest()),
        lambda: claiming(planned(), capacity=0.3 * _highest()),
        CheckSeverity.MISTAKE,
    ),
    "forgotten-memory": (
        lambda: claiming(planned(), concurrency=_fits() + 1),
        lambda: claiming(planned(), concurrency=_fits()),
        CheckSeverity.MISTAKE,
    ),
    "instant-scaling": (
        lambda: claiming(planned(), scale_up=0.9 * _start_s()),
        lambda: claiming(planned(), scale_up=1.1 * _start_s()),
        CheckSeverity.MISTAKE,
    ),
    "misleading-evidence": (
        lambda: _with_anomaly("physics"),
        lambda: _with_anomaly("lengths"),
        CheckSeverity.MISTAKE,
    ),
    "partial-cost": (lambda: costing(0.8, **LABELS), lambda: costing(0.97, **LABELS), CheckSeverity.MISTAKE),
    "split-by-requests": (
        lambda: claiming(planned(UNEQUAL), attribution="requests"),
        lambda: claiming(_alike(), attribution="requests"),
        CheckSeverity.MISTAKE,
    ),
    "unlabelled-cost": (
        lambda: costing(1.0, **{**LABELS, "region": ""}),
        lambda: costing(1.0, **LABELS),
        CheckSeverity.MISTAKE,
    ),
    "stale-assumptions": (
        lambda: replace(planned(), as_of=AS_OF + datetime.timedelta(days=4000)),
        planned,
        CheckSeverity.MISTAKE,
    ),
    "unsourced-assumptions": (planned, lambda: _sourced(planned()), CheckSeverity.WARNING),
}


def _look(plan: Plan, name: str) -> CheckResult:
    (found,) = check_plan(plan, (name,)).results
    return found


def _weighing(result: CheckResult, weight: CheckSeverity) -> list[CheckAnomaly]:
    return [each for each in result.anomalies if each.weight is weight]


def test_every_check_has_a_plan_that_trips_it_and_a_near_miss() -> None:
    assert list(CASES) == list(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_plan_trips_the_check(name: str) -> None:
    trips, _, weight = CASES[name]
    found = _weighing(_look(trips(), name), weight)
    assert found, name
    assert all(each.fix and each.name == name for each in found)
    # Both sides of the comparison are printed.
    assert sum(character.isdigit() for character in found[0].sentence) >= 2 or name == "unlabelled-cost"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_near_miss_does_not_trip_it(name: str) -> None:
    _, near, weight = CASES[name]
    result = _look(near(), name)
    assert not _weighing(result, weight), result
    assert result.compared


@pytest.mark.slow
def test_the_document_of_a_check_carries_the_anomalies_of_the_evidence() -> None:
    found = to_json(check_plan(_with_anomaly("physics"), ("misleading-evidence",)))
    assert found["mistakes"] == ["misleading-evidence"]
    assert "1.49 PFLOP/s" in found["anomalies"][0]["sentence"]
    assert "evidence.accept: [physics]" in found["anomalies"][0]["fix"]


@pytest.mark.slow
def test_a_rule_that_cannot_reach_the_planned_fleet_is_a_mistake() -> None:
    plan = planned()
    (pool,) = plan.pools
    need = pool.steady_fleet.replicas + pool.reserves.serving_replicas

    def of(most: int) -> list[str]:
        rule = ScalingRule(name="fixed", spec=ScheduleSpec(times_s=(0.0,), replicas=(most,)))
        checks = with_rules(check_plan(plan, ("unlabelled-cost",)), plan, [rule])
        return [each.sentence for each in checks.results[-1].anomalies]

    assert of(need - 1) == [f"fixed allows at most {need - 1} replicas, and the plan serves with {need}"]
    assert of(need) == []


@pytest.mark.slow
def test_requests_of_one_length_are_sized_again_with_a_spread() -> None:
    plan = planned()
    (pool,) = plan.pools

    def stretched(ratio: float) -> Plan:
        quantiles = tuple(1000.0 * (ratio if fraction > 0.9 else 1.0) for fraction in FRACTIONS)
        lengths = LengthModel(prompt_tokens=quantiles, output_tokens=quantiles)
        classes = tuple(replace(each, model=replace(each.model, lengths=lengths)) for each in pool.demand.classes)
        return altered(plan, demand=replace(pool.demand, classes=classes))

    (flat,) = _look(stretched(1.05), "average-length").anomalies
    assert "a single length" in flat.sentence
    # Medians of 1000 and 1000 tokens with a tail are far more work than this plan was made for.
    assert flat.weight is CheckSeverity.MISTAKE
    assert not _look(stretched(1.5), "average-length").anomalies


@pytest.mark.slow
def test_what_a_replica_completes_and_meets_its_slos_up_to_are_said_with_their_step_times() -> None:
    """The curve is of the steps that the fleet is sized with; without a word it may lie below the highest load."""
    curve = planned().pools[0].service_curve
    assert curve.basis == "conservative"
    assert all(each.formula.endswith(", conservative step times") for each in curve.figures.values())
    compared = _look(planned(), "maximum-throughput").compared
    assert "req/s with conservative step times, and meets its SLOs up to" in compared
    assert compared.endswith("with nominal ones")


@pytest.mark.slow
def test_a_claim_between_the_operating_point_and_the_highest_load_is_a_warning() -> None:
    operating = float(planned().pools[0].operating_point.figures["point.operating_rps"].value)
    (found,) = _look(claiming(planned(), capacity=0.5 * (operating + _highest())), "maximum-throughput").anomalies
    assert found.weight is CheckSeverity.WARNING


@pytest.mark.slow
def test_a_device_filled_to_the_brim_is_a_mistake_and_an_unstated_concurrency_a_warning() -> None:
    (pool,) = planned().pools
    lines = tuple(
        replace(each, figure=replace(each.figure, value=2**28)) if each.name is LineName.MARGIN else each
        for each in pool.memory.lines
    )
    (brim,) = _look(altered(planned(), memory=replace(pool.memory, lines=lines)), "forgotten-memory").anomalies
    assert (brim.weight, brim.fix) == (CheckSeverity.MISTAKE, "Lower memory_fraction.")
    ours = replace(SLIDE, what="default of Ullage")
    choices = tuple(
        replace(each, source=ours, value=1) if each.name.endswith("approved_concurrency") else each
        for each in pool.spec.choices
    )
    (open_one,) = _look(altered(planned(), spec=replace(pool.spec, choices=choices)), "forgotten-memory").anomalies
    assert open_one.weight is CheckSeverity.WARNING


@pytest.mark.slow
def test_an_autoscaler_may_not_go_below_what_the_calmest_hours_need() -> None:
    (low,) = _look(claiming(planned(), least_replicas=1), "instant-scaling").anomalies
    assert low.weight is CheckSeverity.MISTAKE
    least = int(low.fix.removeprefix("Set its minimum to ").rstrip("."))
    assert not _look(claiming(planned(), least_replicas=least), "instant-scaling").anomalies
    assert _look(claiming(planned(), least_replicas=least - 1), "instant-scaling").anomalies


@pytest.mark.slow
def test_a_bill_that_leaves_reserves_out_is_a_mistake() -> None:
    plan = planned()
    bill = _bill(plan)
    lines = tuple(
        replace(each, cents=None, figure=None, missing="Give a price.") if each.name == "idle_reserve" else each
        for each in bill.lines
    )
    stages = tuple(
        replace(each, answer=replace(bill, lines=lines)) if each.name == "bill" else each for each in plan.stages
    )
    found = _look(replace(plan, stages=stages), "partial-cost").anomalies
    assert [each.weight for each in found] == [CheckSeverity.MISTAKE]
    assert "idle reserve" in found[0].sentence


@pytest.mark.slow
def test_devices_divided_by_who_makes_them_necessary_are_divided_well() -> None:
    assert not _look(claiming(planned(UNEQUAL), attribution="causation"), "split-by-requests").anomalies
    # Nobody claims to divide by requests: the numbers are shown, and nothing is wrong.
    bare = _look(planned(UNEQUAL), "split-by-requests")
    assert not bare.anomalies
    assert "by requests" in bare.compared


@pytest.mark.slow
def test_a_class_without_a_success_criterion_raises_a_warning() -> None:
    plan = planned()
    silent = tuple(replace(each, success=None) for each in plan.spec.demands)
    said_nothing = replace(plan, spec=replace(plan.spec, demands=silent))
    sentences = [each.sentence for each in _look(said_nothing, "unlabelled-cost").anomalies]
    assert any("do not define success" in each for each in sentences)
    assert not any("do not define success" in each.sentence for each in _look(plan, "unlabelled-cost").anomalies)


@pytest.mark.slow
def test_cores_do_not_change_the_answer_and_mistakes_come_first() -> None:
    plan = claiming(planned(), replicas=1, capacity=1000.0)
    alone = check_plan(plan)
    with thread_map(workers=2) as spread:
        assert check_plan(plan, map=spread) == alone
    weights = [each.weight for each in alone.anomalies]
    assert weights == sorted(weights, key=lambda each: each is CheckSeverity.WARNING)
    assert len(to_json(alone)["mistakes"]) == len(alone.mistakes) == 2
    assert check_page(plan, alone)


@pytest.mark.slow
def test_the_exit_code_tells_a_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.yaml"
    options = ["--quiet", "--json", "--as-of", "2026-11-15", "--seed", "1"]
    file.write_text(SOUND)
    assert run(["check", str(file), *options]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["mistakes"] == []
    file.write_text(SOUND + "claims: {capacity: 900 req/s, scale_up: 0s}\n")
    assert run(["check", str(file), "maximum-throughput", "instant-scaling", *options]) == ExitCode.REFUSED
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["anomalies"]] == ["maximum-throughput", "instant-scaling"]
    assert run(["check", str(file), "instant", *options]) == ExitCode.WRONG_INPUT


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ("{attribution: heads}", "claims.attribution"),
        ("{pool: other}", "claims.pool"),
        ("{cost: {per_success: 3 EUR}}", "another currency"),
        ("{scale_up: soon}", "scale_up"),
        ("{replica: 3}", "Did you mean replicas"),
    ],
)
def test_a_claim_that_cannot_be_read_is_an_input_error(claims: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(f"{SOUND}claims: {claims}\n")
    with pytest.raises(InputError, match=message):
        load_plan(file, as_of=AS_OF)


def test_claims_are_read_and_are_no_inputs_of_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    text = SOUND + "claims: {replicas: 3, scale_up: 0s, cost: {per_success: 0.002 USD, dated: 2026-05-01}}\n"
    file.write_text(text)
    spec = load_plan(file, as_of=AS_OF)
    assert spec.claims.replicas is not None
    assert spec.claims.scale_up is not None
    assert (spec.claims.replicas.value, spec.claims.scale_up.value) == (3, 0.0)
    assert spec.claims.cost is not None
    assert spec.claims.cost.missing == ("region", "model", "success")
    assert not any(each.name.startswith("claims.") for each in spec.inputs)
    assert read_plan_file(SOUND, file="plan.yaml").claims.replicas is None
