"""Laws of the service curve, and the queue whose curve is known."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from support.served_replicas import (
    QUICK,
    PoissonLoad,
    batching_replica,
    class_with_slos,
    poisson_trial,
    short_bases,
    single_server,
)
from ullage.errors import InputError
from ullage.service.curve.curve import ServiceCurve, StablePoint, UnstablePoint, load_point, replica_curve
from ullage.service.trial.bases import Bases
from ullage.service.trial.decide import Effort
from ullage.service.trial.mix import MixLoad, simulated_class
from ullage.workload.classes import Metric, RequestClass, Slo
from ullage.workload.synthetic.builtin import builtin

CHAT = (class_with_slos(ttft_p95=0.5, tpot_p95=0.02),)


@pytest.fixture(scope="module")
def bases() -> Bases:
    return short_bases(poisson_trial(*CHAT))


@pytest.fixture(scope="module")
def curve(bases: Bases) -> ServiceCurve:
    return replica_curve(bases, seed=3, effort=QUICK)


def test_loads_rise_and_the_curve_ends_where_the_replica_does(curve: ServiceCurve) -> None:
    loads = [each.offered_rps for each in curve.points]
    assert loads == sorted(loads)
    assert isinstance(curve.points[0], StablePoint)
    assert isinstance(curve.points[-1], UnstablePoint)


def test_once_a_load_is_too_much_no_higher_one_is_sustained(curve: ServiceCurve) -> None:
    assert max(each.offered_rps for each in curve.stable) < max(each.offered_rps for each in curve.unstable)
    verdicts = [isinstance(each, UnstablePoint) for each in curve.points]
    assert verdicts == sorted(verdicts)


def test_an_unstable_point_has_no_field_that_could_hold_a_percentile(curve: ServiceCurve) -> None:
    names = {field.name for field in dataclasses.fields(UnstablePoint)}
    assert names == {"offered_rps", "achieved", "instability", "windows"}
    assert curve.unstable[-1].achieved.value < curve.unstable[-1].offered_rps


def test_goodput_is_at_most_what_is_achieved_and_that_what_is_offered(curve: ServiceCurve) -> None:
    for each in curve.stable:
        assert each.goodput.value <= each.achieved.value * (1 + 1e-9)
        assert each.achieved.value == pytest.approx(each.offered_rps, rel=0.15)


def test_latency_rises_with_load_and_percentiles_are_in_order(curve: ServiceCurve) -> None:
    for name in ("ttft_p95", "tpot_p95", "e2e_p95"):
        values = [each.latencies["chat"][name].value for each in curve.stable]
        # A histogram bin is 0.8 % wide; common random numbers leave little beside it.
        assert all(high >= low * 0.97 for low, high in pairwise(values)), (name, values)
    for each in curve.stable:
        found = each.latencies["chat"]
        assert found["ttft_p50"].value <= found["ttft_p95"].value <= found["ttft_p99"].value
        assert all(one.low <= one.value <= one.high for one in found.values())


def test_loads_are_close_together_where_the_curve_is_steep(curve: ServiceCurve) -> None:
    loads = [each.offered_rps for each in curve.points]
    edge = curve.unstable[0].offered_rps
    near = sum(0.75 * edge <= each <= 1.1 * edge for each in loads)
    far = sum(each < 0.4 * edge for each in loads)
    assert near > far


def test_a_point_whose_budget_is_spent_says_so(curve: ServiceCurve, bases: Bases) -> None:
    border = curve.stable[-1]
    limit = border.latencies["chat"]["ttft_p95"]
    trial = dataclasses.replace(bases.nominal, classes=(class_with_slos(ttft_p95=limit.value),), span_s=20.0)
    found = load_point(trial, border.offered_rps, bases.nominal_probe, seed=1, effort=QUICK)
    assert isinstance(found, UnstablePoint) or not found.is_decided
    assert found.windows == 8


def test_the_same_seed_gives_the_same_curve_and_any_map_does(curve: ServiceCurve, bases: Bases) -> None:
    def backwards(function, inputs):  # type: ignore[no-untyped-def]
        return reversed([function(each) for each in reversed(list(inputs))])

    again = replica_curve(bases, seed=3, effort=QUICK, map=backwards)
    assert again.points == curve.points


@pytest.mark.parametrize("load_fraction", [0.3, 0.6, 0.8])
def test_one_request_at_a_time_is_the_queue_m_d_1(load_fraction: float) -> None:
    service_s = 0.05
    classes = (class_with_slos(e2e_p95=10.0),)
    load_at = PoissonLoad(classes=classes, prompt_tokens=16, output_tokens=1)
    trial = poisson_trial(*classes, replica=single_server(service_s), load_at=load_at, span_s=8000 * service_s)
    found = load_point(
        trial, load_fraction / service_s, short_bases(trial).nominal_probe, seed=5, effort=Effort(first_fraction=0.4)
    )
    assert isinstance(found, StablePoint)
    expected_s = service_s * (1 + load_fraction / (2 * (1 - load_fraction)))
    assert found.mean_e2e.value == pytest.approx(expected_s, rel=0.05)
    assert found.busy.value == pytest.approx(load_fraction, rel=0.03)


def test_little_law_holds_at_every_point(curve: ServiceCurve) -> None:
    for each in curve.stable[:-1]:
        inside = each.running.value + each.waiting.value
        assert inside == pytest.approx(each.achieved.value * each.mean_e2e.value, rel=0.15, abs=0.2)


def test_the_overhead_of_a_request_is_in_ttft_and_e2e_and_not_in_tpot() -> None:
    points = []
    for overhead_s in (0.0, 0.25):
        trial = poisson_trial(*CHAT, replica=batching_replica(request_overhead_s=overhead_s))
        found = load_point(trial, 5.0, short_bases(trial).nominal_probe, seed=1, effort=QUICK)
        assert isinstance(found, StablePoint)
        points.append(found.latencies["chat"])
    assert points[1]["ttft_p50"].value == pytest.approx(points[0]["ttft_p50"].value + 0.25, rel=0.008)
    assert points[1]["e2e_p50"].value == pytest.approx(points[0]["e2e_p50"].value + 0.25, rel=0.008)
    assert points[1]["tpot_p50"].value == points[0]["tpot_p50"].value


def test_clients_who_give_up_do_not_make_a_load_sustained(curve: ServiceCurve) -> None:
    """With deadlines a backlog stays short at any load; the curve ends where it ends without them."""
    trial = dataclasses.replace(poisson_trial(*CHAT), deadlines_s={"chat": 1.5})
    hasty = replica_curve(short_bases(trial), seed=3, effort=QUICK)
    assert hasty.unstable[0].offered_rps == pytest.approx(curve.unstable[0].offered_rps, rel=0.15)
    assert "abandoned" in hasty.unstable[-1].instability.reason
    for each in hasty.stable:
        assert each.achieved.value > 0.9 * each.offered_rps


def test_slower_steps_make_a_curve_that_ends_earlier(curve: ServiceCurve) -> None:
    slow = replica_curve(
        short_bases(poisson_trial(*CHAT, replica=batching_replica(step_s=0.013))), seed=3, effort=QUICK
    )
    assert slow.unstable[0].offered_rps < curve.unstable[0].offered_rps
    assert slow.stable[0].mean_e2e.value > curve.stable[0].mean_e2e.value


def test_no_slo_no_trial() -> None:
    with pytest.raises(InputError, match="none has an SLO"):
        poisson_trial(RequestClass(name="chat", slos=()))


def test_a_class_with_slos_that_the_load_does_not_have_is_named() -> None:
    trial = dataclasses.replace(poisson_trial(*CHAT), classes=(class_with_slos("coding", ttft_p95=1.0),))
    with pytest.raises(InputError, match="coding"):
        trial.load(5.0, 1)


# ---- the mix -------------------------------------------------------------------------------------------

BOTH = (class_with_slos("chat", ttft_p95=1.0), class_with_slos("coding", ttft_p95=3.0))


def test_the_mix_keeps_its_proportions_and_its_rate_at_every_load() -> None:
    mix = MixLoad(model=builtin(), classes=BOTH)
    for rate_rps in (4.0, 16.0):
        counts = np.zeros(2)
        for seed in range(6):
            load = mix(rate_rps=rate_rps, span_s=600.0, seed=seed)
            counts += np.bincount(np.asarray(load.requests.class_of), minlength=2)
        assert counts.sum() / 3600 == pytest.approx(rate_rps, rel=0.05)
        assert counts[0] / counts.sum() == pytest.approx(20 / 24, abs=0.02)


def test_a_trickle_has_at_least_one_request() -> None:
    load = MixLoad(model=builtin(), classes=BOTH)(rate_rps=1e-6, span_s=10.0, seed=1)
    assert load.requests.count >= 1


def test_bursts_are_the_same_at_every_load_of_a_seed() -> None:
    """Common random numbers: where a seed's traffic is dense at one rate, it is dense at another."""
    mix = MixLoad(model=builtin(), classes=BOTH)
    shapes = []
    for rate_rps in (20.0, 60.0):
        load = mix(rate_rps=rate_rps, span_s=900.0, seed=2)
        assert load.arrival_ps is not None
        counts, _ = np.histogram(np.asarray(load.arrival_ps) / 1e12, bins=30, range=(0, 900))
        shapes.append(counts / counts.mean())
    assert np.corrcoef(shapes[0], shapes[1])[0, 1] > 0.8


def test_without_bursts_counts_are_poisson() -> None:
    smooth = MixLoad(model=builtin(), classes=BOTH).smooth
    load = smooth(rate_rps=30.0, span_s=2_000.0, seed=4)
    counts, _ = np.histogram(np.asarray(load.arrival_ps) / 1e12, bins=200, range=(0, 2_000))
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.35)


def test_a_request_is_held_to_the_limit_of_the_highest_percentile() -> None:
    both = RequestClass(
        name="chat",
        slos=(
            Slo(metric=Metric.TTFT, percentile_fraction=0.5, limit_s=0.2),
            Slo(metric=Metric.TTFT, percentile_fraction=0.99, limit_s=2.0),
        ),
    )
    assert simulated_class(both).ttft_slo_s == 2.0


def test_every_class_of_the_mix_is_named() -> None:
    with pytest.raises(InputError, match="each of"):
        MixLoad(model=builtin(), classes=(class_with_slos("chat", ttft_p95=1.0),))
    with pytest.raises(InputError, match="chat"):
        MixLoad(
            model=builtin(), classes=(class_with_slos("chta", ttft_p95=1.0), class_with_slos("coding", ttft_p95=1.0))
        )
