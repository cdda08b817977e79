"""Laws of the operating point."""

from __future__ import annotations

import dataclasses
import datetime
from itertools import pairwise

import pytest

from support.served_replicas import PoissonLoad, batching_replica, class_with_slos
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Evidence, Source, walk
from ullage.service.curve.curve import Effort, ServiceCurve, replica_curve
from ullage.service.trial.search import broken, highest_load
from ullage.service.trial.window import run_load
from ullage.service.curve.margin import NO_POLICY
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.trial.mix import MixLoad
from ullage.service.curve.point import OperatingPoint, replica_point
from ullage.service.replica import Replica
from ullage.workload.classes import RequestClass
from ullage.workload.synthetic.builtin import builtin

QUICK = Effort(requests=1500, most_replications=4, search_replications=4, refined_points=2)
STEP = Assumption(
    name="step",
    value=0.01,
    unit="s",
    evidence=Evidence.CALIBRATED,
    source=Source(what="a test", where="here", date=datetime.date(2026, 11, 15)),
)


def _curve(replica: Replica | None = None, *, seed: int = 3, **limits_s: float) -> ServiceCurve:
    classes: tuple[RequestClass, ...] = (class_with_slos("chat", **(limits_s or {"ttft_p95": 0.3, "tpot_p95": 0.02})),)
    used = replica or batching_replica()
    return replica_curve(used, PoissonLoad(classes=classes), classes, seed=seed, effort=QUICK, inputs=(STEP,))


def _point(curve: ServiceCurve, **given: object) -> OperatingPoint:
    found = replica_point(curve, **given)  # type: ignore[arg-type]
    assert isinstance(found, OperatingPoint)
    return found


@pytest.fixture(scope="module")
def point() -> OperatingPoint:
    return _point(_curve())


def test_the_point_is_the_highest_load_less_the_margins_that_are_taken_off(point: OperatingPoint) -> None:
    left = point.highest.rps
    for each in point.margins:
        if not each.is_inside:
            left *= 1 - each.share_fraction
    assert point.operating_rps == pytest.approx(left)
    assert point.operating_rps <= point.highest.rps
    assert [each.name for each in point.margins] == ["evidence", "policy"]


def test_at_the_point_every_slo_is_met_and_at_the_next_load_one_is_not(point: OperatingPoint) -> None:
    curve = _curve()
    assert point.at_point.passes
    seeds = range(4)
    above = [run_load(curve.bench, point.highest.interval.high * 1.1, each) for each in seeds]
    assert broken(curve.bench, above)


@pytest.mark.parametrize("strict_s", [0.25, 0.1, 0.05])
def test_a_stricter_slo_never_raises_the_point(strict_s: float) -> None:
    loose, strict = _point(_curve(ttft_p95=0.3)), replica_point(_curve(ttft_p95=strict_s))
    reached = strict.highest.rps if isinstance(strict, OperatingPoint) else 0.0
    assert reached <= loose.highest.rps


def test_another_slo_never_raises_the_point() -> None:
    one, two = _point(_curve(ttft_p95=0.3)), _point(_curve(ttft_p95=0.3, tpot_p95=0.0125))
    assert two.highest.rps <= one.highest.rps


def test_slower_steps_never_raise_the_point_and_more_memory_never_lowers_it() -> None:
    slow, plain = _point(_curve(batching_replica(step_s=0.013))), _point(_curve())
    assert slow.operating_rps < plain.operating_rps
    tight, roomy = (_point(_curve(batching_replica(kv_blocks=blocks))) for blocks in (60, 2_000))
    assert tight.operating_rps <= roomy.operating_rps * 1.02


def test_weaker_evidence_takes_off_more() -> None:
    curve = _curve()
    order = (Evidence.STATED, Evidence.MEASURED, Evidence.CALIBRATED, Evidence.PROFILED, Evidence.ESTIMATED)
    rates = [_point(curve, band=DEFAULT_BANDS[each]).operating_rps for each in order]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == _point(curve).highest.rps
    assert rates[-1] < rates[0]


def test_policy_is_taken_off_once() -> None:
    curve = _curve()
    policy = dataclasses.replace(NO_POLICY, value=0.2, evidence=Evidence.STATED)
    assert _point(curve, policy=policy).operating_rps == pytest.approx(0.8 * _point(curve).operating_rps)
    with pytest.raises(InputError, match="share"):
        replica_point(curve, policy=dataclasses.replace(NO_POLICY, value=1.0))


def test_bursts_are_shown_and_not_taken_off_again() -> None:
    classes = (class_with_slos("chat", ttft_p95=1.0), class_with_slos("coding", ttft_p95=3.0))
    mix = MixLoad(model=builtin(), classes=classes, cache_blocks=2e4)
    replica = batching_replica(kv_blocks=20_000, step_s=0.002)
    curve = replica_curve(replica, mix, classes, seed=1, effort=dataclasses.replace(QUICK, requests=3000))
    found = _point(curve, smooth=mix.smooth, band=DEFAULT_BANDS[Evidence.STATED])
    bursts = found.margins[0]
    assert bursts.name == "bursts"
    assert bursts.is_inside
    assert bursts.share_fraction > 0
    assert found.operating_rps == found.highest.rps


@pytest.mark.parametrize("limit_s", [1e5])
def test_an_slo_too_lax_to_bind_ends_at_stability_and_never_above_it(limit_s: float) -> None:
    curve = _curve(e2e_p95=limit_s)
    found = _point(curve, band=DEFAULT_BANDS[Evidence.STATED])
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
    found = replica_point(_curve(tpot_p95=0.0107), band=DEFAULT_BANDS[Evidence.ESTIMATED])
    assert isinstance(found, Rejection)
    assert "evidence" in found.reason
    assert any("load test" in each.change for each in found.remedies)


def test_weak_evidence_says_which_test_to_run_next() -> None:
    curve = _curve()
    assert _point(curve, band=DEFAULT_BANDS[Evidence.CALIBRATED]).next_test is None
    weak = _point(curve, band=DEFAULT_BANDS[Evidence.ESTIMATED])
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
    curve = _curve()
    found = [
        highest_load(curve.bench, scale_rps=curve.saturation_rps, seed=seed, replications=6).interval
        for seed in range(21)
    ]
    inside = sum(one.low <= other.value <= one.high for one, other in pairwise(found))
    assert inside >= 17, f"{inside} of 20"
