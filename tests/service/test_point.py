"""Laws of the operating point."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from itertools import pairwise

import pytest

from support.served_replicas import QUICK, batching_replica, class_with_slos, poisson_trial, short_bases
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Source, walk
from ullage.service.curve.curve import ServiceCurve, replica_curve
from ullage.service.curve.margin import NO_POLICY
from ullage.service.curve.point import OperatingPoint, replica_point
from ullage.service.replica import Replica
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import BRIEF, decide
from ullage.service.trial.mix import MixLoad
from ullage.service.trial.search import highest_load
from ullage.service.trial.trial import NOMINAL
from ullage.workload.synthetic.builtin import builtin

STEP = Assumption(
    name="step",
    value=0.01,
    unit="s",
    evidence=Evidence.CALIBRATED,
    source=Source(what="a test", where="here", date=datetime.date(2026, 11, 15)),
)


def _bases(evidence: Evidence, replica: Replica | None = None, /, **limits_s: float) -> Bases:
    slo_class = class_with_slos("chat", **(limits_s or {"ttft_p95": 0.3, "tpot_p95": 0.02}))
    return short_bases(poisson_trial(slo_class, replica=replica, span_s=30.0), evidence)


@functools.cache
def _curve(evidence: Evidence = Evidence.STATED, *, swept: bool = False, **limits_s: float) -> ServiceCurve:
    """The curve of one replica; where the question is only its point, it is not swept."""
    bases = _bases(evidence, **limits_s)
    if swept:
        return replica_curve(bases, seed=3, effort=QUICK, inputs=(STEP,))
    return ServiceCurve(bases=bases, basis=NOMINAL, effort=QUICK, seed=3, points=(), inputs=(STEP,))


def _point(curve: ServiceCurve, **given: object) -> OperatingPoint:
    found = replica_point(curve, **given)  # type: ignore[arg-type]
    assert isinstance(found, OperatingPoint)
    return found


@pytest.fixture(scope="module")
def point() -> OperatingPoint:
    return _point(_curve(Evidence.CALIBRATED, swept=True))


@pytest.mark.slow
def test_the_point_is_the_highest_load_less_the_margins_that_are_taken_off(point: OperatingPoint) -> None:
    left = point.highest.rps
    for each in point.margins:
        if not each.is_inside:
            left *= 1 - each.share_fraction
    assert point.operating_rps == pytest.approx(left)
    assert point.operating_rps <= point.highest.rps
    assert [each.name for each in point.margins] == ["evidence", "policy"]


@pytest.mark.slow
def test_at_the_point_every_slo_is_met_and_well_above_it_one_is_not(point: OperatingPoint) -> None:
    bases = _curve(Evidence.CALIBRATED, swept=True).bases
    assert point.at_point.passes
    above_rps = point.conservative.interval.high * 1.1
    above = decide(bases.conservative, above_rps, bases.conservative_probe, seed=17)
    assert above.violated


def _highest_rps(replica: Replica | None = None, **limits_s: float) -> float:
    bases = _bases(Evidence.STATED, replica, **limits_s)
    return highest_load(bases.nominal, bases.nominal_probe, seed=3, effort=QUICK, with_interval=False).rps


@pytest.mark.slow
@pytest.mark.parametrize("strict_s", [0.25, 0.1, 0.05])
def test_a_stricter_slo_never_raises_the_point(strict_s: float) -> None:
    assert _highest_rps(ttft_p95=strict_s) <= _highest_rps(ttft_p95=0.3)


def test_another_slo_never_raises_the_point() -> None:
    assert 0.0 < _highest_rps(ttft_p95=0.3, tpot_p95=0.0125) <= _highest_rps(ttft_p95=0.3)


def test_slower_steps_never_raise_the_point_and_more_memory_never_lowers_it() -> None:
    assert _highest_rps(batching_replica(step_s=0.013)) < _highest_rps()
    tight, roomy = (_highest_rps(batching_replica(kv_blocks=blocks)) for blocks in (60, 2_000))
    assert tight <= roomy * 1.02


def test_weaker_evidence_takes_off_more(point: OperatingPoint) -> None:
    sure, weak = _point(_curve()), _point(_curve(Evidence.ESTIMATED))
    assert sure.operating_rps == sure.highest.rps == point.highest.rps == weak.highest.rps
    assert sure.operating_rps > point.operating_rps > weak.operating_rps


def test_policy_is_taken_off_once() -> None:
    curve, plain = _curve(), _point(_curve())
    policy = dataclasses.replace(NO_POLICY, value=0.2, evidence=Evidence.STATED)
    assert _point(curve, policy=policy).operating_rps == pytest.approx(0.8 * plain.operating_rps)
    with pytest.raises(InputError, match="share"):
        replica_point(curve, policy=dataclasses.replace(NO_POLICY, value=1.0))


@pytest.mark.slow
def test_bursts_are_shown_and_not_taken_off_again() -> None:
    classes = (class_with_slos("chat", ttft_p95=1.0), class_with_slos("coding", ttft_p95=3.0))
    mix = MixLoad(model=builtin(), classes=classes, cache_blocks=2e4)
    replica = batching_replica(kv_blocks=20_000, step_s=0.002)
    bases = short_bases(poisson_trial(*classes, replica=replica, load_at=mix, span_s=300.0))
    found = _point(ServiceCurve(bases=bases, basis=NOMINAL, effort=QUICK, seed=1, points=()))
    bursts = found.margins[0]
    assert bursts.name == "bursts"
    assert bursts.is_inside
    assert bursts.share_fraction > 0
    assert found.operating_rps == found.highest.rps


@pytest.mark.parametrize("limit_s", [1e5])
def test_an_slo_too_lax_to_bind_ends_at_stability_and_never_above_it(limit_s: float) -> None:
    curve = _curve(swept=True, e2e_p95=limit_s)
    found = _point(curve)
    assert found.highest.binding == "stability"
    # Sixteen sequences of twenty steps of 13.2 ms, and their prompts.
    assert found.highest.rps < 16 / (20 * 0.0132)
    assert found.highest.rps < curve.unstable[-1].achieved.high * 1.02


def test_an_slo_that_no_load_meets_is_refused_with_one_that_could_be_met() -> None:
    found = replica_point(_curve(tpot_p95=0.001))
    assert isinstance(found, Rejection)
    assert "chat tpot_p95" in found.reason
    # A step of one sequence is 10.2 ms; now and then another prompt comes in between.
    assert 0.0102 <= float(found.figure.value) < 0.0125
    kept = _curve(tpot_p95=float(found.figure.value) * 1.05)
    assert isinstance(replica_point(kept), OperatingPoint)


def test_evidence_too_weak_for_any_load_is_refused_and_names_the_test() -> None:
    found = replica_point(_curve(Evidence.ESTIMATED, tpot_p95=0.0107))
    assert isinstance(found, Rejection)
    assert "evidence" in found.reason
    assert any("load test" in each.change for each in found.remedies)


def test_weak_evidence_says_which_test_to_run_next(point: OperatingPoint) -> None:
    assert point.next_test is None
    weak = _point(_curve(Evidence.ESTIMATED))
    assert weak.next_test is not None
    assert "Load-test" in weak.next_test


def test_a_point_outside_the_measured_range_says_extrapolated() -> None:
    class Narrow:
        def covers(self, *, sequences: float, kv_tokens: float, prefill_tokens: float = 0) -> bool:
            return sequences <= 1

    found = _point(_curve(), measured=Narrow())
    assert found.is_extrapolated
    assert any("extrapolated" in each for each in found.anomalies)


def test_every_figure_ends_in_a_source_and_the_class_is_the_weakest(point: OperatingPoint) -> None:
    assert point.figures["point.operating_rps"].value == point.operating_rps
    assert point.figures["point.highest_rps"].evidence is Evidence.CALIBRATED
    assert point.figures["point.operating_rps"].evidence is Evidence.ASSUMED
    for each in point.figures.values():
        assert isinstance([one for _, one in walk(each)][-1], Source)
    assert point.goodput_per_device_rps == point.at_point.goodput.value / 2


@pytest.mark.slow
def test_the_answer_of_another_seed_lies_in_the_interval() -> None:
    bases = _curve().bases
    found = [highest_load(bases.nominal, bases.nominal_probe, seed=seed, effort=BRIEF).interval for seed in range(21)]
    inside = sum(one.low <= other.value <= one.high for one, other in pairwise(found))
    assert inside >= 17, f"{inside} of 20"
