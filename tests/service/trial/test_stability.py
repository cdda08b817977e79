"""A load beyond capacity is found out, and one below it is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from support.served_replicas import PoissonLoad, class_with_slos, poisson_trial, single_server
from ullage.service.trial.stability import Drift, drift, instability
from ullage.service.trial.window import window

SERVICE_S = 0.1
CLASSES = (class_with_slos(e2e_p95=1_000.0),)


def _drifts(load_fraction: float, *, seeds: int = 6) -> list[Drift]:
    trial = poisson_trial(
        *CLASSES,
        replica=single_server(SERVICE_S),
        load_at=PoissonLoad(classes=CLASSES, prompt_tokens=16, output_tokens=1),
        span_s=400.0,
    )
    return [window(trial, load_fraction / SERVICE_S, seed).drift for seed in range(seeds)]


@pytest.mark.parametrize("load_fraction", [0.1, 0.5, 0.8])
def test_a_load_below_capacity_is_sustained(load_fraction: float) -> None:
    assert instability(_drifts(load_fraction)) is None


@pytest.mark.parametrize("load_fraction", [1.05, 1.3, 3.0])
def test_a_load_above_capacity_is_not(load_fraction: float) -> None:
    found = instability(_drifts(load_fraction))
    assert found is not None
    assert found.growth.value > 0.01


def test_what_stays_behind_is_offered_less_capacity() -> None:
    for each in _drifts(2.0):
        assert each.ended_rps == pytest.approx(1 / SERVICE_S, rel=0.02)
        assert each.growth_fraction == pytest.approx(0.5, abs=0.05)


def test_growth_that_cannot_be_told_from_none_is_not_called_sustained() -> None:
    shares = (0.09, -0.05, 0.08, -0.04)
    drifts = [
        Drift(offered_rps=1.0, ended_rps=1.0 - each, growth_fraction=each, backlog_requests=(5.0, 6.0, 7.0 + each))
        for each in shares
    ]
    found = instability(drifts)
    assert found is not None
    assert not found.is_decided
    assert "uncertain" in found.reason


def test_a_single_request_at_the_end_of_a_quiet_run_is_no_queue() -> None:
    """One request of two that is still there is half of the arrivals, and nothing grows."""
    drifts = [
        Drift(offered_rps=0.01, ended_rps=0.005, growth_fraction=0.5, backlog_requests=(0.0, 0.0, last))
        for last in (0.5, 0.0, 0.25, 0.0)
    ]
    assert instability(drifts) is None
    assert not any(each.is_growing for each in drifts)


def test_a_steady_backlog_however_long_is_no_growth() -> None:
    at_s = np.arange(1.0, 201.0)
    found = drift(at_s, np.full(200, 500.0), arrivals=2_000, from_s=20.0, until_s=200.0)
    assert not found.is_growing
    assert found.growth_fraction == 0.0
