"""Laws of sizing a pool."""

from __future__ import annotations

import functools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served_replicas import QUICK, class_with_slos, poisson_trial, short_bases
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence
from ullage.service.curve.margin import NO_POLICY
from ullage.service.curve.sizing import PoolSize, size_pool
from ullage.service.trial.search import likely_replicas


@functools.cache
def _size(rate_rps: float, *, limit_s: float = 0.3, evidence: Evidence = Evidence.CALIBRATED) -> PoolSize:
    bases = short_bases(poisson_trial(class_with_slos(ttft_p95=limit_s), span_s=40.0), evidence)
    found = size_pool(bases, rate_rps=rate_rps, seed=2, effort=QUICK, inputs=(NO_POLICY,))
    assert isinstance(found, PoolSize)
    return found


@pytest.mark.slow
def test_more_traffic_never_needs_fewer_replicas() -> None:
    sizes = [_size(each).replicas for each in (5.0, 60.0, 200.0, 400.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] > sizes[1]


@pytest.mark.slow
def test_a_stricter_slo_never_needs_fewer() -> None:
    assert _size(200.0, limit_s=0.05).replicas >= _size(200.0, limit_s=0.5).replicas


def test_undecided_numbers_end_at_what_is_bought_and_weak_evidence_adds() -> None:
    found = _size(200.0)
    assert found.low_replicas <= found.high_replicas == found.conservative_replicas
    assert found.conservative_replicas >= found.replicas
    assert found.at_size.passes
    weak = _size(200.0, evidence=Evidence.ESTIMATED)
    assert weak.conservative_replicas >= found.conservative_replicas
    assert weak.replicas == found.replicas


def test_evidence_without_a_margin_has_one_size() -> None:
    found = _size(200.0, evidence=Evidence.STATED)
    assert found.nominal is found.conservative


def test_figures_and_notes_say_what_was_found() -> None:
    found = _size(200.0)
    assert found.figures["size.conservative_replicas"].value == found.conservative_replicas
    assert found.figures["size.replicas"].value == found.replicas
    assert found.binding in found.figures["size.conservative_replicas"].formula
    assert f"{found.conservative.windows} windows of 40 s" in found.notes[1]
    assert found.trial.replicas == found.conservative_replicas


def test_no_pool_serves_more_than_its_replicas_can() -> None:
    """Sixteen sequences of twenty steps of 13.2 ms bound what one replica ends in a second."""
    assert _size(300.0).replicas >= 300.0 * 20 * 0.0132 / 16


def test_a_pool_evens_out_what_one_replica_cannot() -> None:
    few, many = _size(60.0), _size(400.0)
    assert many.replicas / 400.0 <= few.replicas / 60.0


def test_an_impossible_slo_is_refused_with_a_remedy_and_a_rate_of_nothing_is_an_error() -> None:
    bases = short_bases(poisson_trial(class_with_slos(tpot_p95=0.001)))
    refused = size_pool(bases, rate_rps=10.0, seed=1, effort=QUICK)
    assert isinstance(refused, Rejection)
    assert "chat tpot_p95" in refused.reason
    assert "tpot_p95 above" in refused.remedies[0].change
    with pytest.raises(InputError, match="rate"):
        size_pool(short_bases(poisson_trial()), rate_rps=0.0, seed=1, effort=QUICK)


def test_an_slo_that_only_nominal_steps_meet_is_refused_for_its_evidence() -> None:
    bases = short_bases(poisson_trial(class_with_slos(tpot_p95=0.0125)), Evidence.ESTIMATED)
    refused = size_pool(bases, rate_rps=10.0, seed=1, effort=QUICK)
    assert isinstance(refused, Rejection)
    assert "evidence" in refused.reason


@given(st.floats(0.1, 1e4), st.floats(0.05, 10.0))
def test_the_first_guess_is_what_saturation_needs_and_falls_towards_it(rate_rps: float, saturation_rps: float) -> None:
    """Many replicas need little room beyond saturation."""
    guess = likely_replicas(rate_rps, saturation_rps)
    assert max(1, math.floor(rate_rps / saturation_rps)) <= guess
    more = likely_replicas(4.0 * rate_rps, saturation_rps)
    assert guess <= more <= 4 * guess + 4
