"""Does a plan hold? A test of the plan's own replica is validated, one of anything else is called by what differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.loadtest_samples import vllm_run
from support.planned import AS_OF
from support.tested_worlds import COUNT, TERMS, calibrated, estimate, offered, run, written
from ullage import verbs
from ullage.cli.app import run as ullage
from ullage.errors import ExitCode, InputError, Rejection
from ullage.load.plan import load_plan
from ullage.planning.planned_for import pool_memory
from ullage.service.calibration.replay import RequestTimes
from ullage.service.calibration.slowed import SlowedTimes
from ullage.service.calibration.validated import PoolValidity, pool_validity
from ullage.service.calibration.validation import (
    LEAST_REQUESTS,
    PlannedReplica,
    ScoredStatistic,
    ValidatedPoint,
    Validity,
    together,
    validate_point,
)
from ullage.service.loadtests.loadtest import Loop, Point
from ullage.service.steps.evidence_anomaly import EvidenceAnomaly
from ullage.service.steps.step_model import StepModel
from ullage.verbs.calibrate_fit import StatedTest

SHARE = 0.6


@pytest.fixture(scope="module")
def step() -> StepModel:
    return calibrated(estimate())


def judged(step: StepModel, point: Point, share: float = 0.0, **more: Any) -> ValidatedPoint:
    return validate_point(PlannedReplica(step=step, cached_fraction=share), point, TERMS, **more)


def of_itself(times: RequestTimes, point: Point, **more: Any) -> Point:
    return written(point, run(times, point, **more))


def names(found: ValidatedPoint) -> list[str]:
    return [each.name for each in found.reasons]


def test_a_test_of_the_very_replica_is_validated(step: StepModel) -> None:
    found = judged(step, of_itself(step, offered()))
    assert found.verdict is Validity.VALIDATED
    assert found.reasons == ()
    assert [each.ratio for each in found.statistics] == pytest.approx([1.0] * len(found.statistics))
    assert {"ttft p50", "ttft p95", "tpot p50", "tpot mean", "e2e p90", "requests a second"} <= {
        each.name for each in found.statistics
    }


def test_latencies_have_no_part_in_their_prediction(step: StepModel) -> None:
    point = of_itself(step, offered())
    slow = written(offered(), run(SlowedTimes(times=step, ratio=3.0), offered()))
    before = judged(step, point).statistics
    after = judged(step, replace(slow, achieved_rps=point.achieved_rps)).statistics
    assert [(each.name, each.predicted_value, each.low_value, each.high_value) for each in before] == [
        (each.name, each.predicted_value, each.low_value, each.high_value) for each in after
    ]


@pytest.mark.parametrize("ratio", [0.6, 1.6, 2.5])
def test_other_steps_are_found_in_the_time_of_a_token(step: StepModel, ratio: float) -> None:
    found = judged(step, of_itself(SlowedTimes(times=step, ratio=ratio), offered()))
    assert found.verdict is Validity.NOT_VALIDATED
    assert names(found) == ["steps"]
    assert ("longer" if ratio > 1 else "shorter") in found.reasons[0].sentence


def test_a_prefix_cache_that_was_off_is_found_in_the_first_token(step: StepModel) -> None:
    asked = offered(2.0, cached_fraction=SHARE)
    found = judged(step, of_itself(step, asked, cached=False), SHARE)
    assert found.verdict is Validity.NOT_VALIDATED
    assert names(found) == ["prefix_cache"]
    assert judged(step, of_itself(step, asked), SHARE).verdict is Validity.VALIDATED


def test_hits_that_a_file_denies_are_a_reason_and_prompts_without_any_cannot_tell(step: StepModel) -> None:
    denied = judged(step, of_itself(step, offered(cached_fraction=0.0)), SHARE)
    assert (denied.verdict, names(denied)) == (Validity.NOT_VALIDATED, ["prefix_cache"])
    random = judged(step, of_itself(step, offered()), SHARE)
    assert (random.verdict, names(random)) == (Validity.CANNOT_TELL, ["no_hits_offered"])
    # What differs is told whether or not the test could have told more.
    slow = judged(step, of_itself(SlowedTimes(times=step, ratio=2.0), offered()), SHARE)
    assert slow.verdict is Validity.NOT_VALIDATED


def test_a_client_that_did_not_keep_up_is_no_fault_of_the_server(step: StepModel) -> None:
    point = of_itself(step, offered(4.0))
    told = replace(point, load=replace(point.load, offered_rps=8.0), sent_rps=4.0)
    found = judged(step, told)
    assert found.verdict is Validity.NOT_VALIDATED
    assert "client" in names(found)
    # A server that is full is no client: its latencies say so.
    full = of_itself(SlowedTimes(times=step, ratio=4.0), offered(16.0))
    assert full.achieved_rps is not None
    assert full.achieved_rps < 0.9 * 16.0
    assert "client" not in names(judged(step, full))


def test_a_test_of_something_else_is_called_so(step: StepModel) -> None:
    other = EvidenceAnomaly(name="device", sentence="run.json ran on a100, and the replica is h100.", refuses=True)
    found = judged(step, of_itself(step, offered()), others=[other])
    assert (found.verdict, names(found)) == (Validity.NOT_VALIDATED, ["device"])


def test_what_is_too_little_cannot_tell(step: StepModel) -> None:
    few = judged(step, of_itself(step, offered(count=LEAST_REQUESTS - 1)))
    assert (few.verdict, names(few)) == (Validity.CANNOT_TELL, ["few_requests"])
    silent = judged(step, replace(of_itself(step, offered()), latencies=()))
    assert (silent.verdict, names(silent)) == (Validity.CANNOT_TELL, ["few_requests"])
    unknown = replace(offered(), load=replace(offered().load, loop=Loop.CLOSED, offered_rps=None))
    found = judged(step, unknown)
    assert (found.verdict, names(found)) == (Validity.CANNOT_TELL, ["not_repeatable"])


def test_fewer_requests_have_wider_bands(step: StepModel) -> None:
    widths = []
    for count in (60, 240, 960):
        found = judged(step, of_itself(step, offered(6.0, count=count)))
        one = next(each for each in found.statistics if each.name == "ttft p90")
        widths.append(one.high_value / one.low_value)
    assert widths[0] > widths[-1]


def test_requests_that_scatter_by_themselves_are_inside_the_tail_and_slower_ones_are_not(step: StepModel) -> None:
    point = of_itself(step, offered())
    found = {each.name: each for each in judged(step, point).statistics}
    tail, middle = found["ttft p95"], found["ttft p50"]
    # The tail has more room above it than below, the middle as much on both sides.
    above, below = tail.high_value / tail.predicted_value, tail.predicted_value / tail.low_value
    assert above > 1.2 * below
    assert middle.high_value / middle.predicted_value == pytest.approx(
        middle.predicted_value / middle.low_value, rel=0.25
    )
    slow = written(offered(), run(SlowedTimes(times=step, ratio=2.5), offered()))
    late = {each.name: each for each in judged(step, slow).statistics}
    assert not late["ttft p95"].is_inside


@pytest.mark.slow
def test_bands_hold_eight_of_ten_of_what_they_are_made_for(step: StepModel) -> None:
    """Worlds whose factors are drawn from the spread that the step model states, each seen with the luck of a run."""
    rng = np.random.default_rng(7)
    inside = total = 0
    for _ in range(24):
        pace, luck = np.exp(0.03 * rng.standard_normal()), np.exp(rng.standard_normal(2) * (0.03, 0.08))
        point = offered(float(rng.uniform(1.0, 6.0)), count=200)
        seen = written(
            point, run(SlowedTimes(times=step, ratio=float(pace)), point), tpot_ratio=luck[0], ttft_ratio=luck[1]
        )
        found = judged(step, seen)
        inside, total = inside + found.inside_count, total + len(found.statistics)
    assert 0.7 <= inside / total <= 0.98


def test_the_verdict_of_several_is_that_of_the_worst_that_can_tell() -> None:
    def tested(verdict: Validity) -> ValidatedPoint:
        return ValidatedPoint(name="", requests=COUNT, verdict=verdict, reasons=(), statistics=())

    good, bad, open_ = (tested(each) for each in (Validity.VALIDATED, Validity.NOT_VALIDATED, Validity.CANNOT_TELL))
    assert together([good, open_]) is Validity.VALIDATED
    assert together([good, bad, open_]) is Validity.NOT_VALIDATED
    assert together([open_]) is Validity.CANNOT_TELL
    assert together([]) is Validity.CANNOT_TELL


def test_beyond_is_twice_the_band_on_its_own_side() -> None:
    one = ScoredStatistic(
        name="x", unit="s", predicted_value=1.0, low_value=0.9, high_value=1.2, measured_value=1.43, is_main=True
    )
    assert (one.is_inside, one.is_beyond) == (False, False)
    assert replace(one, measured_value=1.45).is_beyond
    assert replace(one, measured_value=0.8).is_beyond
    assert not replace(one, measured_value=0.82).is_beyond


PLAN = """
version: 1
service: tested
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 2 req/s, longest_context: 4096, slo: {ttft_p95: 2s, tpot_p95: 100ms}}
pool: {model: llama-3.1-8b, device: h100-sxm}
"""


def test_the_verb_and_its_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sample of a tool has 40 requests of one latency: slower by far than this replica, and slower still."""
    plan, test = tmp_path / "plan.yaml", tmp_path / "run.json"
    plan.write_text(PLAN)
    test.write_text(json.dumps(vllm_run(1.0)))
    words = ["validate", str(test), "--plan", str(plan), "--as-of", "2026-11-15", "--quiet"]
    assert ullage([*words, "--json"]) == ExitCode.REFUSED
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ullage.validate/2"
    assert document["verdict"] == "not validated"
    assert document["points"][0]["reasons"]
    assert ullage(words) == ExitCode.REFUSED
    said = capsys.readouterr().out
    assert "not validated" in said
    assert "tpot" in said
    accepted = verbs.validate([test], plan=plan, stated=StatedTest(accepted=("model",))).to_dict()
    assert document["points"][0]["statistics"] == accepted["points"][0]["statistics"]
    assert [each["name"] for each in accepted["points"][0]["reasons"] if each["name"] == "model"] == []


def test_a_saved_validation_holds_for_the_replica_that_was_tested_and_for_no_other(tmp_path: Path) -> None:
    """Saved from a plan, named in it, and stale as soon as the pool's device, model, parallelism or engine changes."""
    plan, test, saved = tmp_path / "plan.yaml", tmp_path / "run.json", tmp_path / "validated.json"
    plan.write_text(PLAN)
    test.write_text(json.dumps(vllm_run(1.0)))
    words = ["validate", str(test), "--plan", str(plan), "--as-of", "2026-11-15", "--quiet", "--verdict", str(saved)]
    assert ullage(words) == ExitCode.REFUSED
    assert ullage(words) == ExitCode.WRONG_INPUT, "a file is replaced only if told to"
    named = PLAN + "evidence: {validated: [validated.json]}\n"

    def validity(text: str) -> PoolValidity:
        plan.write_text(text)
        pool = load_plan(plan, as_of=AS_OF).pools[0]
        memory = pool_memory(pool)
        assert not isinstance(memory, Rejection)
        return pool_validity(pool.name, memory, pool.tested.validations)

    assert validity(PLAN).sentence == "not validated: no load test has been compared with this plan"
    as_tested = validity(named)
    assert not as_tested.is_validated
    assert "says not validated (" in as_tested.sentence
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "verdict": "validated", "tested_on": "2026-11-12"}))
    assert validity(named) == PoolValidity(pool="pool", is_validated=True, sentence="validated on 2026-11-12")
    for key, value in (
        ("device", "device: h200-sxm"),
        ("model", "model: llama-3.2-3b"),
        ("tp", "device: h100-sxm, tensor_parallel: 2"),
        ("engine_version", "device: h100-sxm, engine_version: 0.30.0"),
        ("engine", "device: h100-sxm, engine: sglang"),
    ):
        old = "model: llama-3.1-8b" if key == "model" else "device: h100-sxm"
        found = validity(named.replace(old, value))
        assert not found.is_validated
        assert "of another replica" in found.sentence
        assert f"{key} " in found.sentence
    saved.write_text(json.dumps({**document, "configuration": 3}))
    with pytest.raises(InputError, match="not a complete validation"):
        validity(named)
