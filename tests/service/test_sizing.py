"""Laws of sizing a pool."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.served_replicas import PoissonLoad, batching_replica, class_with_slos
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence
from ullage.service.curve.curve import Effort
from ullage.service.steps.band import DEFAULT_BANDS
from ullage.service.curve.sizing import Alone, PoolSize, least_passing, likely_size, replica_alone, size_pool
from ullage.service.replica import Replica

QUICK = Effort(requests=1500, most_replications=4, refined_points=0)


def _size(rate_rps: float, replica: Replica | None = None, *, limit_s: float = 0.3) -> PoolSize:
    classes = (class_with_slos(ttft_p95=limit_s),)
    found = size_pool(
        replica_alone(replica or batching_replica(), PoissonLoad(classes=classes), classes, seed=2, effort=QUICK),
        rate_rps=rate_rps,
        band=DEFAULT_BANDS[Evidence.CALIBRATED],
        seed=2,
        effort=QUICK,
    )
    assert isinstance(found, PoolSize)
    return found


def test_more_traffic_never_needs_fewer_replicas() -> None:
    sizes = [_size(each).replicas for each in (5.0, 60.0, 200.0, 400.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] > sizes[1]


def test_a_stricter_slo_never_needs_fewer() -> None:
    assert _size(200.0, limit_s=0.05).replicas >= _size(200.0, limit_s=0.5).replicas


def test_the_answer_lies_in_its_interval_and_weak_evidence_adds() -> None:
    found = _size(200.0)
    assert found.low_replicas <= found.replicas <= found.high_replicas
    assert found.conservative_replicas >= found.replicas
    assert found.at_size.passes


def test_no_pool_serves_more_than_its_replicas_can() -> None:
    """Sixteen sequences of twenty steps of 13.2 ms bound what one replica ends in a second."""
    found = _size(300.0)
    assert found.replicas >= 300.0 * 20 * 0.0132 / 16


def test_a_pool_evens_out_what_one_replica_cannot() -> None:
    found = _size(400.0)
    assert found.replicas <= 400.0 / found.highest_rps + 1


def test_an_impossible_slo_is_refused_and_a_rate_of_nothing_is_an_error() -> None:
    classes = (class_with_slos(tpot_p95=0.001),)
    given_ = {"band": DEFAULT_BANDS[Evidence.STATED], "seed": 1, "effort": QUICK}
    alone = replica_alone(batching_replica(), PoissonLoad(classes=classes), classes, seed=1, effort=QUICK)
    refused = size_pool(alone, rate_rps=10.0, **given_)  # type: ignore[arg-type]
    assert isinstance(refused, Rejection)
    with pytest.raises(InputError, match="rate"):
        size_pool(alone, rate_rps=0.0, **given_)  # type: ignore[arg-type]


@given(st.integers(1, 500), st.integers(1, 500))
def test_the_least_number_is_found_from_any_start(border: int, start: int) -> None:
    assert least_passing(lambda number: number >= border, start) == border


@given(st.floats(0.1, 1e4), st.floats(0.05, 10.0), st.floats(0.05, 1.0))
def test_the_first_guess_lies_between_saturation_and_one_replica_alone(
    rate_rps: float, scale_rps: float, share: float
) -> None:
    """And it falls towards saturation as pools grow: many replicas need little room beyond it."""
    highest_rps = share * scale_rps
    guess = likely_size(rate_rps, highest_rps, scale_rps)
    assert guess >= math.floor(rate_rps / scale_rps)
    assert guess <= math.ceil(rate_rps / highest_rps) + 1


def test_what_is_known_of_one_replica_does_not_change_the_pool() -> None:
    """The results of a curve and a point save work and nothing else: the same sizes come out with any start."""
    classes = (class_with_slos(ttft_p95=0.3),)
    alone = replica_alone(batching_replica(), PoissonLoad(classes=classes), classes, seed=2, effort=QUICK)
    band = DEFAULT_BANDS[Evidence.CALIBRATED]

    def sized(known: Alone) -> tuple[int, ...]:
        found = size_pool(known, rate_rps=200.0, band=band, seed=2, effort=QUICK)
        assert isinstance(found, PoolSize)
        return found.low_replicas, found.replicas, found.high_replicas, found.conservative_replicas

    assert sized(alone) == sized(replace(alone, slow_rps=alone.highest.rps * 0.7))
