"""Bounds that refuse without simulation must hold for every simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pools import pool
from support.served_replicas import class_with_slos
from ullage.planning.options.bounds import TOLERANCE_FRACTION, busy_bound_s, idle_misses
from ullage.service.trial.trial import Trial, play
from ullage.service.trial.window import window
from ullage.simulate.fleet import Fleet


def busy_s(trial: Trial, rate_rps: float, seed: int) -> tuple[float, float]:
    """Busy seconds a request of a whole run, and the bound for the same requests."""
    load = trial.load_at(rate_rps=rate_rps, span_s=trial.span_s, seed=seed)
    outcome = play(trial.replica.engine, Fleet(), load, seed=seed, sample_s=1.0)
    assert outcome.series is not None
    at_s = outcome.series.at_s
    # Utilisation is sampled each second; the seconds after the last request are idle.
    busy = float(outcome.series.utilisation.sum()) * float(at_s[1] - at_s[0])
    return busy / load.requests.count, busy_bound_s(trial.replica, load)


@given(
    prompt=st.integers(16, 8000),
    output=st.integers(2, 400),
    rate_rps=st.floats(1.0, 200.0),
    seed=st.integers(0, 1000),
)
def test_no_run_is_busy_for_less_than_the_bound(prompt: int, output: int, rate_rps: float, seed: int) -> None:
    trial = pool(prompt, output, span_s=20.0).trial
    simulated, least = busy_s(trial, rate_rps, seed)
    # The last sample of a run is a whole second of which a part may be missing.
    assert simulated >= least * 0.95 - 1.0 / (rate_rps * trial.span_s)


def test_a_full_engine_comes_near_the_bound() -> None:
    """A bound that nothing comes near would refuse nothing."""
    trial = pool(600, 400, span_s=60.0).trial
    simulated, least = busy_s(trial, 60.0, 1)
    assert least > 0.2 * simulated


@pytest.mark.parametrize(("metric", "limit_s"), [("ttft_p95", 0.02), ("tpot_p95", 0.004), ("e2e_p95", 0.5)])
def test_what_is_missed_idle_is_missed_in_every_simulation(metric: str, limit_s: float) -> None:
    trial = pool(3000, 200, class_with_slos("chat", **{metric: limit_s}), replicas=1, span_s=60.0).trial
    load = trial.load_at(rate_rps=1.0, span_s=60.0, seed=3)
    (miss,) = idle_misses(trial.replica, load, trial.classes)
    run = window(trial, 1.0, 3)
    slo = trial.classes[0].slos[0]
    simulated_s = run.histograms["chat"][slo.metric].whole.quantile_s(slo.percentile_fraction)
    assert simulated_s >= miss.least_s / (1.0 + TOLERANCE_FRACTION)


def test_what_can_be_kept_is_not_refused() -> None:
    trial = pool(3000, 200, class_with_slos("chat", ttft_p95=2.0, tpot_p95=0.1), replicas=1).trial
    load = trial.load_at(rate_rps=1.0, span_s=60.0, seed=3)
    assert idle_misses(trial.replica, load, trial.classes) == ()
    assert np.isfinite(busy_bound_s(trial.replica, load))
